"""The plan with about the fewest records that are enough: predicted where that can be, then simulated."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pm_dpgmm._arguments import check_count, check_delta, check_flag, check_positive, shown
from pm_dpgmm.fit import MOST_ASKED_COMPONENTS
from pm_dpgmm.learners.subsets import check_learner
from pm_dpgmm.methods.about import at_least_about
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.planning.plan import ERROR, MOST_NUMBERS, N_SIMULATIONS, is_populous, plan, plan_and_fits
from pm_dpgmm.planning.populous import populous_settings, smallest_plan
from pm_dpgmm.planning.result import Plan
from pm_dpgmm.planning.trials import RefusedSize, check_settings, predicted_gap, released_data
from pm_dpgmm.privacy.bisection import bisected, geometric
from pm_dpgmm.privacy.guarantee import Neighbouring, warn_if_weak
from pm_dpgmm.privacy.simulated_fits import without_warnings_of_fits
from pm_dpgmm.progress_bar import progress_bar

PILOT = 20_000  # records for each component, at epsilon 1 or more, of the fit that a prediction starts from
LEAST, MOST, CLOSE = 50.0, 1e8, 1.1  # records that a bisection looks at; factor at which it ends
START = 0.7  # of what a fit to local responses expects, which is asymptotic
GROWTH, MOST_GROWTH = 1.5, 10  # from a number of records that was not enough to the next

T = TypeVar("T")


def smallest_size(
    n_features: int,
    n_components: int,
    *,
    epsilon: float,
    delta: float | None = None,
    error: float = ERROR,
    progress: bool = True,
    **settings: Any,
) -> Plan:
    """The plan with about the fewest records that are enough for an error.

    For "sketch" a bisection over what the information in the released numbers promises comes first; it needs one fit.
    For "local" the loss that one fit expects says where to start.
    Then simulations, with half as many records again as long as the method refuses so few, or they are not enough. For
    "populous" simulations start where a perfect learner could pass, grow until this learner does, and are refined to
    about 15%. Unless it is given, ``efficiency`` is then 1 with a given ``noise``, where settings do not depend on it,
    and else what was measured.

    Parameters
    ----------
    n_features, n_components, epsilon, delta, error, progress, **settings
        As for :func:`plan`.

    Returns
    -------
    Plan
        Of ``n_records`` records; not ``enough`` if no number that was tried was, up to about 60 times the first. Few
        simulations decide, so a tenth more records is prudent, or a plan with another ``random_seed``.

    Raises
    ------
    TypeError, ValueError
        As :func:`plan`.

    Examples
    --------
    >>> found = smallest_size(1, 2, epsilon=1.0, bounds=True, method="histogram", n_simulations=1)
    >>> found.enough, found.n_records < 5_000
    (True, True)
    """
    check_count(n_features=n_features)
    check_count(most=MOST_ASKED_COMPONENTS, n_components=n_components)
    check_positive(epsilon=epsilon, error=error)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "error": error, **settings}
    check_settings(settings)
    check_flag(progress=progress)
    bar = progress_bar(progress, str(settings.get("method", "auto")), what="smallest size")
    with without_warnings_of_fits(), bar as step:  # of sizes that are only looked at
        found = _smallest(n_features, n_components, budget, step)
    warn_if_weak(epsilon, delta or 0.0, found.n_records if found.enough else None)
    return found


def _smallest(n_features: int, n_components: int, budget: dict[str, Any], step: Callable[[int, int], None]) -> Plan:
    if is_populous(budget.get("method", "auto")):
        return _smallest_populous(n_features, n_components, budget)

    def planned(size: int) -> Plan:
        return plan(size, n_features, n_components, progress=False, **budget)

    size, most = at_least_about(_promised_size(n_features, n_components, budget)), MOST_NUMBERS // n_features
    _check_simulated(size, n_features, budget)
    for i in range(MOST_GROWTH):
        step(i, MOST_GROWTH)
        size, found = _not_refused(size, planned, most)
        size = at_least_about(GROWTH * size)
        if found.enough or size > most:
            break
    return found


def _not_refused(size: int, planned: Callable[[int], T], most: int) -> tuple[int, T]:
    """What is planned for so many records, or for the first size after it that the method does not refuse."""
    while True:
        try:
            return size, planned(size)
        except RefusedSize:
            if GROWTH * size > most:
                raise
            size = at_least_about(GROWTH * size)


def _check_simulated(size: float, n_features: int, budget: dict[str, Any]) -> None:
    """Raise ValueError if the smallest size is looked for where no plan can simulate."""
    if size > MOST_NUMBERS // n_features:
        rule = f"epsilon must be enough for {MOST_NUMBERS // n_features:,} records, the most that a plan simulates"
        raise ValueError(f"{rule}, got {shown(budget['epsilon'])}, which needs some {size:.2g}")


def _promised_size(n_features: int, n_components: int, budget: dict[str, Any]) -> float:
    """Fewest records by the information in the released numbers, or a small start where there is none."""
    least = float(max(LEAST, 2 * n_components * (n_features + 1)))
    strength = min(1.0, float(budget["epsilon"]))
    pilot = math.ceil(PILOT * n_components / strength)
    _check_simulated(pilot, n_features, budget)
    one = partial(plan_and_fits, n_features=n_features, n_components=n_components, **budget | {"n_simulations": 1})
    pilot, (_, truths, releases) = _not_refused(pilot, one, MOST_NUMBERS // n_features)
    if releases and releases[0].statistic is Statistic.LOCAL_RESPONSES:  # the loss falls as 1 / n
        expected = float(releases[0].noise["expected_loss"])
        return max(least, min(MOST, START * pilot * expected / budget["error"]))
    if not releases or releases[0].statistic is not Statistic.SKETCH:
        return 4 * least / strength
    data = released_data(releases[0])
    return bisected(
        lambda size: predicted_gap(data, truths[0], size) <= budget["error"],
        MOST,
        least,
        middle=geometric,
        close=lambda low, high: high / low <= CLOSE,
    )


def _smallest_populous(n_features: int, n_components: int, budget: dict[str, Any]) -> Plan:
    own = {*inspect.signature(plan).parameters, "learner", "n_jobs"} - {"settings"}
    given = {name: budget[name] for name in budget if name not in own}
    asked = {name: budget[name] for name in budget if name in own}
    method, delta, n_simulations = asked["method"], asked["delta"], asked.get("n_simulations", N_SIMULATIONS)
    chosen = populous_settings(method, given, asked.get("separation", 4.0))
    if chosen.assumed_records is not None or chosen.design is not None:
        raise ValueError(
            "assumed_records and design must be left out: they follow from the size that is looked for, got"
            f" {shown(chosen.assumed_records)} and {shown(chosen.design)}"
        )
    if delta is None or delta == 0:
        raise ValueError(f"method 'populous' needs delta greater than 0, got {shown(delta)}")
    check_delta(delta)
    check_count(n_simulations=n_simulations)
    check_learner(asked.get("learner"))
    relation = Neighbouring.parse(asked.get("neighbouring", "replace-one"))
    problem = Problem(1, int(n_features), int(n_components), float(asked["epsilon"]), float(delta), None, relation)

    def planned(settings: Populous, n_records: int, n_data_sets: int) -> Plan:
        now = asked | {"method": settings, "n_simulations": n_data_sets}
        return plan(n_records, n_features, n_components, progress=False, **now)

    free = "efficiency" not in given and not isinstance(method, Populous)
    return smallest_plan(planned, chosen, problem, n_simulations, free=free)
