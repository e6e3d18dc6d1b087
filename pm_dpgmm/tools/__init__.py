"""Private building blocks for other models than mixtures: a choice among hypotheses, a test before a release.

    from pm_dpgmm import tools
    tools.select_hypothesis(records, densities, draws, epsilon=1.0)

Each spends budget, states its guarantee and has a proof note beside it. With ``ledger=`` the cost is written down
before the records are looked at.
"""

from __future__ import annotations

from pm_dpgmm.mechanisms.hypothesis_selection import records_needed
from pm_dpgmm.tools.hypotheses import Selected, select_hypothesis
from pm_dpgmm.tools.populous_estimate import Estimate, Numbers, Space, populous_estimate
from pm_dpgmm.tools.stability import Passed, propose_test_release

__all__ = [
    "Estimate",
    "Numbers",
    "Passed",
    "Selected",
    "Space",
    "populous_estimate",
    "propose_test_release",
    "records_needed",
    "select_hypothesis",
]
