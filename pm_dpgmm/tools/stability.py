"""Propose, test, release for any stability score. Proof: stability.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import check_delta, check_non_negative, check_positive, shown
from pm_dpgmm.learners.quiet import unheard
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities, pass_probabilities
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.tools.spending import accounted, check_ledger_and_rng, spent


@dataclass(frozen=True, slots=True)
class Passed:
    """What was released after the test, and what both cost together. As safe to publish as the release is."""

    value: Any
    guarantee: Guarantee


def propose_test_release(
    records: Any,
    stability: Callable[[Any], int],
    release: Callable[[Any, Rng], Any],
    *,
    epsilon: float,
    delta: float,
    release_epsilon: float = 0.0,
    release_delta: float = 0.0,
    neighbouring: str = "replace-one",
    ledger: Ledger | None = None,
    rng: Rng = None,
) -> Passed:
    """Release something that is private only where the records are stable, after a private test that they are.

    Parameters
    ----------
    records : anything
        Handed to both functions as it is; what they print, log or warn of is dropped.
    stability : function of the records
        A whole number of at least 0 that neighbouring data sets move by at most one, such as the number of records
        that must change until ``release`` is not private any more, less one. At 0 nothing is ever released.
    release : function of the records and of a generator (or None, on the release path)
        Wherever two neighbouring data sets both have stability 1 or more, their releases are (``release_epsilon``,
        ``release_delta``)-close in both orders. With the defaults, 0 and 0, they are equal in law: a value that does
        not change while the records are stable.
    epsilon, delta : float
        Cost of test and release together, also when it refuses; delta above ``release_delta``.
    neighbouring : {"replace-one", "add-remove"}
        The relation that both promises above are about.
    ledger : Ledger, optional
        Charged before the records are looked at.
    rng : numpy.random.Generator, optional
        None draws the coin exactly (release); a generator simulates, and the guarantee says NOT PRIVATE.

    Returns
    -------
    Passed

    Raises
    ------
    Unstable
        If the test was not passed: nothing else is known of the records, and the budget is spent.
    TypeError, ValueError
        On bad input, before anything is spent; after it, if ``stability`` gives no whole number of at least 0. What
        either function raises itself comes after it, too.

    Guarantee
    ---------
    (epsilon, delta)-DP of answer and refusal, if ``stability`` and ``release`` keep what is said of them above and
    nothing is raised but the refusal: any other error tells of records and is for the curator alone. Proof:
    stability.md and mechanisms/propose_test_release.md. Source: Dwork and Lei (2009).

    Examples
    --------
    The cell of a public grid that holds the median, if some changed records do not move it to another. Both functions
    ask one comparison for the cell of a record: with two ways of rounding a record could count on the wrong side of
    its own cell, and one change move the stability by many.

    >>> grid = np.arange(10.0, 110.0, 10.0)
    >>> def cells(x):  # number 4 from 40 up to 50
    ...     return np.searchsorted(grid, x, side="right")
    >>> def cell(x):
    ...     return int(np.sort(cells(x))[len(x) // 2])
    >>> def stable(x):  # so many changed records leave the cell as it is, whatever they are
    ...     below, above = int((cells(x) < cell(x)).sum()), int((cells(x) > cell(x)).sum())
    ...     return min(len(x) // 2 - below, len(x) - 1 - len(x) // 2 - above)
    >>> ages = np.random.default_rng(1).normal(44.0, 8.0, size=2_000)
    >>> answer = propose_test_release(ages, stable, lambda x, rng: cell(x), epsilon=1.0, delta=1e-6)
    >>> answer.value, answer.guarantee.epsilon
    (4, 1.0)
    """
    relation = Neighbouring.parse(neighbouring)
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    check_non_negative(release_epsilon=release_epsilon)
    check_delta(release_delta, name="release_delta")
    check_ledger_and_rng(ledger, rng)
    for name, function in {"stability": stability, "release": release}.items():
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {shown(function)}")
    try:
        released = PointProfile(float(release_epsilon), float(release_delta))
        table = pass_probabilities(released, epsilon=epsilon, delta=delta)
    except ValueError:
        rule = f"release_epsilon and release_delta must leave room for the test in epsilon {epsilon:g}, delta {delta:g}"
        raise ValueError(f"{rule}, got {release_epsilon:g} and {release_delta:g}") from None
    words = "propose, test, release (tools/stability.md)"
    guarantee = spent(epsilon, delta, relation, words, ledger=ledger, private=rng is None, loss=table.curve)
    with accounted(guarantee), unheard():  # a warning would tell of a record
        return tested(records, stability, release, table, guarantee, rng=rng)


def tested(
    records: Any,
    stability: Callable[[Any], int],
    release: Callable[[Any, Rng], Any],
    table: PassProbabilities,
    guarantee: Guarantee,
    *,
    rng: Rng,
) -> Passed:
    """One coin at the stability level, then the release; the level stays inside."""
    level = stability(records)
    if isinstance(level, bool) or not isinstance(level, (int, np.integer)) or level < 0:
        raise ValueError("stability must give a whole number of at least 0, got something else")
    if not table.passes(int(level), rng=rng):
        raise Unstable("the private test did not find the records stable enough; the budget is spent", guarantee)
    return Passed(release(records, rng), guarantee)
