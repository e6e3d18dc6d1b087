"""What a guarantee for one record says of several: a person with m rows, or m people."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_delta, shown
from pm_dpgmm.privacy.curve_values import values
from pm_dpgmm.privacy.curves import GaussianProfile, PrivacyProfile
from pm_dpgmm.privacy.guarantee import Guarantee, smallest_epsilon

MOST_RECORDS, MOST_NUMBERS = 10**6, 1000
POINTS, REACH = 80, 30.0  # points of a curve that are tried, and how far they go from the stated epsilon
ROUNDING = 1e-9  # relative, far above that of sums and exponentials of floats


def group_epsilons(guarantee: Guarantee, group: Iterable[int], *, delta: float) -> list[float]:
    """Epsilons at ``delta`` for data sets that differ in m records, for every m in ``group``.

    Parameters
    ----------
    guarantee : Guarantee
        For data sets that differ in one record.
    group : iterable of int
        Numbers of records m, from 1 to a million.
    delta : float

    Returns
    -------
    list of float
        Infinite where none is proved at ``delta``: a part of many guarantees' delta is there at every epsilon (without
        bounds, under "auto"), and m records have at least m times as much. The stated pair (e, d) always gives m e, at
        the larger delta d (1 + exp(e) + ... + exp((m - 1) e)) while that is below 1: for two records epsilon 2 at
        3.72e-6 where one has (1, 1e-6). The card says so.

    Raises
    ------
    TypeError, ValueError
        If a number of records or ``delta`` is out of its range.

    Guarantee
    ---------
    If (e, d) holds for one record, (m e, d (1 + exp(e) + ... + exp((m - 1) e))) holds for m: Dwork and Roth (2014),
    Theorem 2.2, with the delta of Vadhan (2017), Lemma 2.2. Every point of the curve is such a pair; of those that are
    tried the best is taken. For mu-GDP it is m mu-GDP: Dong, Roth and Su (2022), Theorem 2.14. Proof:
    group_privacy.md.

    Examples
    --------
    >>> from pm_dpgmm.privacy.curves import GeometricProfile
    >>> from pm_dpgmm.privacy.guarantee import Neighbouring
    >>> pure = Guarantee(0.5, 0.0, Neighbouring.REPLACE_ONE, "histogram", GeometricProfile(scale=4.0, n_counts=2))
    >>> [round(epsilon, 6) for epsilon in group_epsilons(pure, [1, 2, 10], delta=0.0)]
    [0.5, 1.0, 5.0]

    Of a single pair nothing follows for two records at its own delta:

    >>> from pm_dpgmm.privacy.curves import PointProfile
    >>> one = Guarantee(1.0, 1e-6, Neighbouring.REPLACE_ONE, "any", PointProfile(1.0, 1e-6))
    >>> [[round(epsilon, 6) for epsilon in group_epsilons(one, [1, 2], delta=delta)] for delta in (1e-6, 3.72e-6)]
    [[1.0, inf], [1.0, 2.0]]
    """
    if not isinstance(guarantee, Guarantee):
        raise TypeError(f"guarantee must be one (release.guarantee), got {shown(guarantee)}")
    if isinstance(group, str) or not isinstance(group, Iterable):
        raise TypeError(f"group must be numbers of records, got {shown(group)}")
    numbers = list(itertools.islice(iter(group), MOST_NUMBERS + 1))
    if len(numbers) > MOST_NUMBERS:
        raise ValueError(f"group must be at most {MOST_NUMBERS} numbers of records, got more")
    for number in numbers:
        check_count(most=MOST_RECORDS, **{"a number of records in group": number})
    check_delta(delta)
    return by_points(guarantee, numbers, delta, points_of(guarantee))


def by_points(
    guarantee: Guarantee, group: Sequence[int], delta: float, points: tuple[FloatArray, FloatArray]
) -> list[float]:
    """:func:`group_epsilons` with the points of the curve, whose values some curves compute slowly."""
    gaussian = _gaussian(guarantee.loss)
    if gaussian is not None:
        return [_of_gaussian(gaussian, int(m), delta) for m in group]
    return [_best(*points, int(m), delta) for m in group]


def of_stated_pair(guarantee: Guarantee, m: int) -> tuple[float, float]:
    """Epsilon and delta that the stated pair alone gives for m records; a delta of 1 where it says nothing."""
    if guarantee.delta == 0:
        return _times(m, guarantee.epsilon), 0.0
    (log,) = _logs(np.array([guarantee.epsilon]), np.array([guarantee.delta]), m)
    return _times(m, guarantee.epsilon), math.exp(min(0.0, float(log)))


def points_of(guarantee: Guarantee) -> tuple[FloatArray, FloatArray]:
    """Points of a guarantee's curve, the stated one among them: epsilons that rise from 0, and their deltas."""
    stated = guarantee.epsilon
    around = np.geomspace(stated / REACH, min(stated * REACH, 1e4), POINTS - 2)
    epsilons = np.concatenate([[0.0], np.sort(np.append(around, stated))])
    deltas = np.array(values(guarantee.loss, epsilons), dtype=float)
    at = int(np.searchsorted(epsilons, stated))
    deltas[at] = min(deltas[at], guarantee.delta)
    return epsilons, np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))


def _best(epsilons: FloatArray, deltas: FloatArray, m: int, delta: float) -> float:
    if m == 1:
        holds = deltas <= delta
    else:
        holds = (deltas == 0) | (_logs(epsilons, deltas, m) <= (math.log(delta) if delta > 0 else -math.inf))
    return _times(m, float(epsilons[holds].min())) if holds.any() else math.inf


def _logs(epsilons: FloatArray, deltas: FloatArray, m: int) -> FloatArray:
    """Logarithms of d (1 + exp(e) + ... + exp((m - 1) e)), rounded up."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # log of 1 + exp(e) + ... + exp((m - 1) e); 1 - exp(-e) as -expm1(-e), which keeps its digits at small e
        e = epsilons
        terms = np.where(e > 0, (m - 1) * e + np.log(-np.expm1(-m * e)) - np.log(-np.expm1(-e)), math.log(m))
        return np.log(deltas) + terms + ROUNDING * (1 + m * e)


def _times(m: int, epsilon: float) -> float:
    return epsilon if m == 1 else math.nextafter(m * epsilon, math.inf)


def _gaussian(loss: PrivacyProfile) -> GaussianProfile | None:
    return loss if isinstance(loss, GaussianProfile) and loss.failure == 0 else None


def _of_gaussian(loss: GaussianProfile, m: int, delta: float) -> float:
    shift = math.nextafter(loss.mu * m, math.inf) if m > 1 else loss.mu
    return smallest_epsilon(GaussianProfile(shift, slack=loss.slack).delta, delta)
