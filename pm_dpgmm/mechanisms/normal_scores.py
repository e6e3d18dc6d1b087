"""How many records stand between a normal law and the data, and how many normal laws are that near.

A normal law (mean m, standard deviation s) cuts the line at m - s, m and m + s. Its score is the least number of
records that must be replaced before the counts of the four parts lie in public ranges about what the law expects.
Under the measure dm ds / s^2, which no change of unit or origin alters, the volume of all laws with score at most t is
finite and has a closed form: the 3 n lines m - s = x, m = x, m + s = x cut the half plane into cells of one score.

Source: Ashtiani, Majid and Narayanan (2024), Algorithm 2, for one column and one component; the ranges, the cells and
the formula are this project's. Records are whole numbers of steps, so that every difference is exact. Proof:
normal_scores.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pm_dpgmm._arguments import FloatArray, check_count, check_positive, frozen
from pm_dpgmm.privacy.noise import IntArray, Rng, uniforms

FARTHEST, PER_UNIT = 2**24, 2**24  # units in which records are kept, steps to a unit: 2^49 + 1 places
SMALLEST_UNIT, LARGEST_UNIT = 1e-100, 1e100  # squares of what is released stay floats
_TAIL = float(special.ndtr(-1.0))
SHARES = (_TAIL, 0.5 - _TAIL, 0.5 - _TAIL, _TAIL)  # of a normal law in its four parts


@dataclass(frozen=True, slots=True)
class CountRanges:
    """Fewest and most records in each of the four parts that fit a normal law: public, by the number of records."""

    low: tuple[int, int, int, int]
    high: tuple[int, int, int, int]

    @classmethod
    def of(cls, n_records: int) -> CountRanges:
        """The whole numbers next to ``n_records`` times the shares of a normal law.

        Examples
        --------
        >>> CountRanges.of(1000)
        CountRanges(low=(158, 341, 341, 158), high=(159, 342, 342, 159))
        """
        check_count(n_records=n_records)
        expected = [n_records * share for share in SHARES]
        a, b, c, d = (math.floor(number) for number in expected)
        e, f, g, h = (math.ceil(number) for number in expected)
        return cls((a, b, c, d), (e, f, g, h))

    @property
    def n_finite(self) -> int:
        """Volumes of scores below this are finite: no part of such a law is empty."""
        return min(self.low)

    def scores(self, counts: ArrayLike) -> IntArray:
        """Least number of replaced records, shape (...), of counts (..., 4) that sum to the number of records."""
        numbers = np.asarray(counts, dtype=np.int64)
        above = np.maximum(numbers - np.array(self.high), 0).sum(axis=-1)
        below = np.maximum(np.array(self.low) - numbers, 0).sum(axis=-1)
        return np.asarray(np.maximum(above, below))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells of the arrangement with ``below`` records up to m - s: arrays of one length.

    In a cell m - s lies in [a0, a1), m + s in [b0, b1) and m in [m0, m1).
    """

    a0: float
    a1: float
    b0: FloatArray
    b1: FloatArray
    m0: FloatArray
    m1: FloatArray
    scores: IntArray

    @property
    def volumes(self) -> FloatArray:
        """Integral of dm ds / s^2 over every cell."""
        return strip_volumes(self.a0, self.a1, self.b0, self.b1, self.m0, self.m1)


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """Volumes by score of sorted records, and what a draw needs. Nothing of it but ``step`` may be published.

    Attributes
    ----------
    records : ndarray, shape (n,)
        Sorted whole numbers of steps.
    step : float
        Public: the length of a step, in the unit of the records.
    ranges : CountRanges
    by_row : ndarray, shape (n - 1, limit + 1)
        Volume of the laws with i + 1 records up to m - s and a given score.
    """

    records: FloatArray
    step: float
    ranges: CountRanges
    by_row: FloatArray

    @property
    def volumes(self) -> FloatArray:
        """Volume of all laws with score at most t, for t = 0, ..., limit."""
        return np.asarray(np.cumsum(self.by_row.sum(axis=0)))


def check_unit(unit: float) -> None:
    """Raise ValueError unless numbers of this unit, and their squares, are ordinary floats."""
    check_positive(unit=unit)
    if not SMALLEST_UNIT <= unit <= LARGEST_UNIT:
        raise ValueError(f"unit must be between {SMALLEST_UNIT:g} and {LARGEST_UNIT:g}, got {unit:g}")


def in_steps(records: ArrayLike, unit: float = 1.0) -> FloatArray:
    """Each record by itself as a whole number of steps of ``unit`` / 2^24, at most 2^24 units from 0; any shape.

    Sums of four such numbers and of their midpoints are exact floats.

    Examples
    --------
    >>> (in_steps([0.5, -1e300, 1e-9]) / 2**24).tolist()
    [0.5, -16777216.0, 0.0]
    """
    with np.errstate(over="ignore", under="ignore"):  # what is too large for a float is too far out
        units = np.clip(np.asarray(records, dtype=float) / unit, -FARTHEST, FARTHEST)
    return np.asarray(np.rint(units * PER_UNIT))


def arrangement(records: ArrayLike, ranges: CountRanges, *, limit: int, unit: float = 1.0) -> Arrangement:
    """Volumes of the normal laws with scores 0, ..., ``limit`` for these records, as ``in_steps`` rounds them.

    Parameters
    ----------
    records : array_like, shape (n,)
        Finite, in any order.
    ranges : CountRanges
        Made for n records.
    limit : int
        Largest score, below ``ranges.n_finite``.
    unit : float
        Public, in the unit of the records: they are moved to within 2^24 of it, and to multiples of 2^-24 of it.

    Raises
    ------
    ValueError
        If ``limit`` or ``unit`` is out of range; depends on public numbers alone.

    Examples
    --------
    >>> from scipy import stats
    >>> records = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    >>> found = arrangement(records, CountRanges.of(400), limit=20)
    >>> found.volumes[[0, 5, 20]].round(4).tolist()
    [0.0002, 0.0052, 0.0584]
    """
    check_unit(unit)
    check_count(least=0, most=ranges.n_finite - 1, limit=limit)
    x = np.sort(in_steps(records, unit))
    return Arrangement(frozen(x), unit / PER_UNIT, ranges, frozen(volumes_by_row(x, ranges, limit=limit)))


def volumes_by_row(x: FloatArray, ranges: CountRanges, *, limit: int) -> FloatArray:
    """Volumes of the laws with i + 1 of the sorted records ``x`` up to m - s, by score: shape (n - 1, limit + 1)."""
    by_row = np.zeros((len(x) - 1, limit + 1))
    for below in range(max(1, ranges.low[0] - limit), min(len(x) - 1, ranges.high[0] + limit) + 1):
        cells = row_cells(x, below, ranges, limit=limit)
        by_row[below - 1] = np.bincount(cells.scores, weights=cells.volumes, minlength=limit + 1)
    return by_row


def row_cells(x: FloatArray, below: int, ranges: CountRanges, *, limit: int) -> Cells:
    """The cells with ``below`` of the sorted records ``x`` up to m - s and a score of at most ``limit``."""
    n = len(x)
    a0, a1 = x[below - 1], x[below]
    most = max(0, min(n - 1, n - ranges.low[3] + limit))  # records up to m + s
    upto = np.arange(max(below + 2, n - ranges.high[3] - limit), most + 1)
    upto = upto[(x[upto] > x[upto - 1]) & (a1 > a0)]
    low, high = (a0 + x[upto - 1]) / 2, (a1 + x[upto]) / 2  # where m may lie
    # records up to m: between those of the two ends, with a score that is not too large
    first = np.maximum(np.searchsorted(x, low, side="right"), below + max(1, ranges.low[1] - limit))
    first = np.maximum(first, upto - ranges.high[2] - limit)
    last = np.minimum(np.searchsorted(x, high, side="left"), upto - max(1, ranges.low[2] - limit))
    last = np.minimum(last, below + ranges.high[1] + limit)
    sizes = np.maximum(last - first + 1, 0)
    which = np.repeat(np.arange(len(upto)), sizes)
    middle = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes - first, sizes)
    m0, m1 = np.maximum(x[middle - 1], low[which]), np.minimum(x[middle], high[which])
    above = upto[which]
    counts = np.stack([np.full(len(middle), below), middle - below, above - middle, n - above], axis=-1)
    scores = ranges.scores(counts)
    keep = (m1 > m0) & (scores <= limit)
    return Cells(float(a0), float(a1), x[above - 1][keep], x[above][keep], m0[keep], m1[keep], scores[keep])


def strip_volumes(
    a0: ArrayLike, a1: ArrayLike, b0: ArrayLike, b1: ArrayLike, m0: ArrayLike, m1: ArrayLike
) -> FloatArray:
    """Integral of dm ds / s^2 over a0 <= m - s <= a1, b0 <= m + s <= b1, m0 <= m <= m1, for a1 < b0; any shape.

    At m the smallest s is max(m - a1, b0 - m) and the largest min(m - a0, b1 - m). Between the places where these
    change sides the integral is the logarithm of 1 plus a product of quotients that are at least 0, so that no digits
    cancel.

    Examples
    --------
    >>> round(float(strip_volumes(0.0, 1.0, 2.0, 3.0, 0.0, 3.0)), 6), round(2 * math.log(4 / 3), 6)
    (0.575364, 0.575364)
    """
    a0, a1, b0, b1, m0, m1 = np.broadcast_arrays(*(np.asarray(end, dtype=float) for end in (a0, a1, b0, b1, m0, m1)))
    m0, m1 = (np.clip(end, (a0 + b0) / 2, (a1 + b1) / 2) for end in (m0, m1))
    smallest, largest = (a1 + b0) / 2, (a0 + b1) / 2  # where the smallest and the largest s change sides
    p, q = np.clip(np.minimum(smallest, largest), m0, m1), np.clip(np.maximum(smallest, largest), m0, m1)
    lower = _ratio(p - m0, b0 - p) * _ratio(m0 + p - a0 - b0, p - a0)  # s from b0 - m to m - a0
    upper = _ratio(m1 - q, q - a1) * _ratio(a1 + b1 - q - m1, b1 - q)  # from m - a1 to b1 - m
    left = _ratio(q - p, p - a1) * _ratio(a1 - a0, q - a0)  # from m - a1 to m - a0
    right = _ratio(q - p, b0 - q) * _ratio(b1 - b0, b1 - p)  # from b0 - m to b1 - m
    between = np.where(smallest <= largest, left, right)
    return np.asarray(np.log1p(lower) + np.log1p(between) + np.log1p(upper))


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> FloatArray:
    """Quotient of lengths; 0 where a piece is empty, whose other length means nothing."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=(above > 0) & (below > 0))


def drawn(found: Arrangement, log_weights: FloatArray, *, rng: Rng = None) -> tuple[float, float]:
    """One normal law with density exp(``log_weights``[score]) under dm ds / s^2; 0 for scores beyond them.

    Parameters
    ----------
    found : Arrangement
    log_weights : ndarray, shape (T + 1,)
        Finite or -inf, not all -inf where there is volume; T is at most the limit of ``found``. Any size will do.
    rng : numpy.random.Generator, optional
        None draws from the operating system (release); a generator simulates.

    Returns
    -------
    mean, standard deviation : float
        In the unit of the records, rounded to a millionth of the standard deviation: on a grid that depends on the
        result alone.
    """
    volumes = found.by_row[:, : len(log_weights)]
    largest = log_weights[volumes.any(axis=0)].max()
    masses = volumes * np.exp(np.minimum(log_weights - largest, 0.0))
    row, score = divmod(_chosen(masses.ravel(), rng=rng), len(log_weights))
    cells = row_cells(found.records, row + 1, found.ranges, limit=len(log_weights) - 1)
    k = _chosen(np.where(cells.scores == score, cells.volumes, 0.0), rng=rng)
    law = in_cell(cells.a0, cells.a1, cells.b0[k], cells.b1[k], cells.m0[k], cells.m1[k], rng=rng)
    mean, deviation = on_grid(*law)
    return mean * found.step, deviation * found.step


def in_cell(
    a0: float, a1: float, b0: float, b1: float, m0: float, m1: float, *, rng: Rng = None
) -> tuple[Fraction, Fraction]:
    """A point (m, s) of one cell with density 1 / s^2, by rejection, in exact arithmetic.

    m is uniform until it is accepted with probability proportional to 1 / smallest - 1 / largest of its s, a concave
    length over a product; 1 / s is uniform between them. One try in twelve succeeds at least.
    """
    a, b, c, d, low, high = (Fraction(float(end)) for end in (a0, a1, b0, b1, m0, m1))

    def ends(m: Fraction) -> tuple[Fraction, Fraction]:
        return max(m - b, c - m), min(m - a, d - m)

    turns = [turn for turn in ((b + c) / 2, (a + d) / 2) if low < turn < high]
    smallest, largest = zip(*(ends(m) for m in (low, high, *turns)), strict=True)
    most = max(top - bottom for bottom, top in zip(smallest, largest, strict=True)) / (min(smallest) * min(largest))
    while True:
        place, height, up = (_long(words) for words in uniforms(12, rng=rng).reshape(3, 4))
        m = low + place * (high - low)
        bottom, top = ends(m)
        if height * most < 1 / bottom - 1 / top:
            return m, 1 / (1 / top + up * (1 / bottom - 1 / top))


def _long(words: FloatArray) -> Fraction:
    """A multiple of 2^-212 in [0, 1) out of four of 2^-53."""
    return sum((Fraction(word) / 2 ** (53 * i) for i, word in enumerate(words.tolist())), Fraction(0))


def on_grid(mean: Fraction, deviation: Fraction) -> tuple[float, float]:
    """Both on multiples of a power of two next to a millionth of the standard deviation.

    Examples
    --------
    >>> on_grid(Fraction(1, 10), Fraction(1))
    (0.10000038146972656, 1.0)
    """
    grid = Fraction(2.0 ** (math.frexp(float(deviation))[1] - 20))
    return float(round(mean / grid) * grid), float(round(deviation / grid) * grid)


def _chosen(masses: FloatArray, *, rng: Rng = None) -> int:
    """Index with probability proportional to its mass: a block of about the root of their number, then one of it."""
    width = math.isqrt(len(masses)) + 1
    blocks = np.pad(masses, (0, -len(masses) % width)).reshape(-1, width)
    first, second = uniforms(2, rng=rng)
    block = _index(blocks.sum(axis=1), first)
    return block * width + _index(blocks[block], second)


def _index(masses: FloatArray, uniform: float) -> int:
    sums = np.cumsum(masses)
    found = np.searchsorted(sums, uniform * sums[-1], side="right")
    return int(min(found, np.flatnonzero(masses)[-1]))  # the product may be rounded up to the sum
