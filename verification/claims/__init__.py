"""The statements of five papers on private Gaussian mixtures, and this package's own, each with a check to rerun.

``ledger.csv`` lists what must be here. Each stands above its check, in a folder per paper or subject; ``claim.py`` says
what a claim is, ``search.py`` how worst cases are looked for, ``run.py`` runs them. ``python -m verification claims``
prints the table.
"""

from __future__ import annotations

from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict
from verification.claims.registry import all_claims
from verification.claims.run import Outcome, run_claim, run_claims

__all__ = ["Claim", "Effort", "Finding", "Kind", "Outcome", "Verdict", "all_claims", "run_claim", "run_claims"]
