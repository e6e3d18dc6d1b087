"""Experiments that audit privacy claims.

from verification import audit
print(audit(mechanism, x, x_neighbour, epsilon=1.0))
"""

# imported here and not on first use: the function shares its name with its module
from verification.audit import audit
from verification.audit_result import AuditResult

__all__ = ["AuditResult", "audit"]
