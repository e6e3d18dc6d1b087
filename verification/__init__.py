"""Experiments that audit privacy claims.

from verification import audit
print(audit(mechanism, x, x_neighbour, epsilon=1.0))
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verification.auditing.audit import audit
    from verification.auditing.claimed_curve import GDP, ZCDP
    from verification.auditing.curve_result import CurveAuditResult
    from verification.auditing.one_run import one_run
    from verification.auditing.one_run_result import OneRunResult
    from verification.auditing.repeated import repeated
    from verification.auditing.result import AuditResult

__all__ = ["GDP", "ZCDP", "AuditResult", "CurveAuditResult", "OneRunResult", "audit", "one_run", "repeated"]

_HOMES = {
    "GDP": "verification.auditing.claimed_curve",
    "ZCDP": "verification.auditing.claimed_curve",
    "AuditResult": "verification.auditing.result",
    "CurveAuditResult": "verification.auditing.curve_result",
    "OneRunResult": "verification.auditing.one_run_result",
    "audit": "verification.auditing.audit",
    "one_run": "verification.auditing.one_run",
    "repeated": "verification.auditing.repeated",
}


class _Package(ModuleType):
    """Loads its names on first use: every pytest run imports this package for its plugin, and SciPy takes a second."""

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'verification' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # The function shares its name with its module, which the import system would put in its place.
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOMES})


sys.modules[__name__].__class__ = _Package
