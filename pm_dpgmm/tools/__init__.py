"""Private building blocks for other models than mixtures: a choice among hypotheses, a test before a release.

    from pm_dpgmm import tools
    tools.select_hypothesis(records, densities, draws, epsilon=1.0)

Each spends budget, states its guarantee and has a proof note beside it. With ``ledger=`` the cost is written down
before the records are looked at.

What your functions print, log, ask or warn of depends on records. While they run on these it is dropped, with what
other threads of the process say meanwhile; threads that call a tool or fit in this process wait, so a function must
not wait for such a thread. Where what a function raises reaches you, no guarantee covers that.
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
