"""The statements of five papers on private Gaussian mixtures, each with a check that anyone can rerun.

``ledger.csv`` lists what must be here. A module per family returns its claims; ``claim.py`` says what a claim is,
``search.py`` how worst cases are looked for, ``run.py`` runs them. ``python -m verification claims`` prints the table.
"""

from __future__ import annotations

from functools import cache

from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict
from verification.claims.run import Outcome, run_claim, run_claims

__all__ = ["Claim", "Effort", "Finding", "Kind", "Outcome", "Verdict", "all_claims", "run_claim", "run_claims"]


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, family by family."""
    from verification.claims import (
        aggregated_alignment,
        aggregated_budget,
        aggregated_core,
        aggregated_graphs,
        matchings,
        populous_budget,
        populous_graphs,
        populous_utility,
        semimetrics,
    )

    families = (
        semimetrics,
        matchings,
        populous_graphs,
        populous_budget,
        populous_utility,
        aggregated_graphs,
        aggregated_alignment,
        aggregated_core,
        aggregated_budget,
    )
    return tuple(claim for family in families for claim in family.claims())
