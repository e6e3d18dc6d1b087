"""Counts of the gaps between consecutive records, by their size and place, with no bounds. Proof: gap_histogram.md.

Ashtiani, Majid and Narayanan (2024), Algorithm 3: a Gaussian component shows as many gaps of one size in one place,
wherever it lies and however wide it is. There are infinitely many cells; truncated noise and a threshold at the end of
its support keep those out that hold no gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_count, check_delta, check_positive, finite_numbers
from pm_dpgmm.mechanisms.histogram import SMALLEST_EPSILON, SMALLEST_SCALE
from pm_dpgmm.privacy.bisection import bisected, whole
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray, Rng, laplace_scale, truncated_discrete_laplace

# Of the pairs of consecutive records, those that a neighbour lacks and those that it has instead.
MOVED = {Neighbouring.REPLACE_ONE: (3, 3), Neighbouring.ADD_REMOVE: (2, 1)}
MOST_CELL_BITS = 40
LARGEST_PLACE = 2.0**52  # beyond, a place is no exact whole number
ROUNDING = 1e-12  # relative, of the mass that is compared with delta


@dataclass(frozen=True, slots=True)
class GapNoise:
    """Law of the noise in every count: discrete Laplace of ``scale``, conditioned on [-bound, bound]."""

    scale: float
    bound: int


@dataclass(frozen=True, slots=True, eq=False)
class GapCounts:
    """Counts of gaps: one of size [2^exponent, 2^(exponent + 1)) whose left end is in the cell number ``place``.

    Cells of an exponent are 2^(exponent + cell_bits) wide and start at 0.
    """

    exponents: IntArray  # (M,)
    places: FloatArray  # (M,), whole numbers
    counts: IntArray  # (M,)
    cell_bits: int

    @property
    def widths(self) -> FloatArray:
        """Of the cells, (M,), in the unit of the records."""
        return np.asarray(np.ldexp(1.0, self.exponents + self.cell_bits))

    @property
    def lows(self) -> FloatArray:
        """Left ends of the cells, (M,)."""
        return np.asarray(self.places * self.widths)


def gap_counts(records: ArrayLike, *, cell_bits: int) -> GapCounts:
    """Count the gaps between consecutive records, by size and place.

    Parameters
    ----------
    records : array_like, shape (N,)
        Finite numbers in any order and unit. Equal records leave no gap.
    cell_bits : int
        Cells are 2^cell_bits times as wide as the smallest gap that counts in them: public, never from the records.

    Returns
    -------
    GapCounts
        Cells that hold a gap, ordered by exponent and place; the counts are exact, so they must not leave.

    Raises
    ------
    ValueError
        If ``records`` are no finite numbers in one dimension, or ``cell_bits`` is out of range.
    """
    check_count(least=0, most=MOST_CELL_BITS, cell_bits=cell_bits)
    column = finite_numbers(records, "records")
    if column.ndim != 1:  # of a table every number would be taken for a record of its own
        raise ValueError(f"records must have shape (N,), got {column.shape}")
    ordered = np.sort(column)
    left, right = ordered[:-1], ordered[1:]
    with np.errstate(all="ignore"):  # a warning would tell of a record
        gaps = right - left
        exponents = np.frexp(gaps)[1] - 1
        places = np.floor(np.ldexp(left, -(exponents + cell_bits))) + 0.0  # one zero, whatever its sign
        # every one a function of its own pair alone, also what is left out
        kept = (gaps > 0) & np.isfinite(gaps) & (np.abs(places) <= LARGEST_PLACE)
    pairs, counts = np.unique(np.stack([exponents[kept], places[kept]]), axis=1, return_counts=True)
    return GapCounts(pairs[0].astype(np.int64), pairs[1], counts.astype(np.int64), cell_bits)


def gap_noise(*, epsilon: float, delta: float, neighbouring: Neighbouring) -> GapNoise:
    """Noise of :func:`noisy_gap_counts`: the scale for all that one record moves, the least bound for ``delta``.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    if epsilon < SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least {SMALLEST_EPSILON:g} for integer noise, got {epsilon:g}")
    lost, gained = MOVED[Neighbouring.parse(neighbouring)]
    scale = laplace_scale(lost + gained, epsilon)
    if scale < SMALLEST_SCALE:
        most = (lost + gained) / SMALLEST_SCALE
        raise ValueError(f"epsilon must be at most {most:g} for integer noise, got {epsilon:g}")

    def end(bound: int, shift: int) -> float:
        """Probability of the ``shift`` outermost values at one end."""
        return TruncatedLaplaceProfile(scale, bound, shift).delta(math.inf)

    def enough(bound: float) -> bool:
        return (end(int(bound), lost) + end(int(bound), gained)) * (1 + ROUNDING) <= delta

    low, high = max(lost, gained) - 1, max(lost, gained)  # low fails or is not allowed
    while not enough(high):
        low, high = high, 2 * high
    return GapNoise(scale, int(bisected(enough, high, low, middle=whole)))


def noisy_gap_counts(
    records: ArrayLike, *, cell_bits: int, epsilon: float, delta: float, neighbouring: Neighbouring, rng: Rng = None
) -> tuple[GapCounts, GapNoise]:
    """Release the cells of size and place that hold many gaps between consecutive records, with noisy counts.

    Parameters
    ----------
    records : array_like, shape (N,)
        Finite numbers in any order and unit; no bounds.
    cell_bits : int
        See :func:`gap_counts`; public.
    epsilon, delta : float
        Privacy cost; delta above 0.
    neighbouring : Neighbouring
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    found : GapCounts
        Cells whose noisy count exceeds ``noise.bound``, ordered by exponent and place; there may be none.
    noise : GapNoise
        Law of the noise before the threshold.

    Raises
    ------
    ValueError
        If a parameter is out of range, or ``records`` are no finite numbers in one dimension.

    Guarantee
    ---------
    (epsilon, delta)-DP under replace-one or add-remove neighbours. Proof: gap_histogram.md. Source: Ashtiani, Majid and
    Narayanan (2024), Algorithm 3, with noise for what one record moves in place of a tenth of the budget.

    Examples
    --------
    >>> records = np.random.default_rng(1).normal(1e9, 1e-3, size=2_000)
    >>> budget = {"epsilon": 1.0, "delta": 1e-6, "neighbouring": Neighbouring.REPLACE_ONE}
    >>> found, noise = noisy_gap_counts(records, cell_bits=13, **budget)
    >>> bool((found.lows <= 1e9).all() and (found.lows + found.widths >= 1e9 - 1e-2).all()), noise.bound
    (True, 80)
    """
    noise = gap_noise(epsilon=epsilon, delta=delta, neighbouring=neighbouring)
    exact = gap_counts(records, cell_bits=cell_bits)
    counts = exact.counts + truncated_discrete_laplace(
        exact.counts.shape, scale=noise.scale, bound=noise.bound, rng=rng
    )
    kept = counts > noise.bound  # an empty cell never is
    return GapCounts(exact.exponents[kept], exact.places[kept], counts[kept], cell_bits), noise
