"""The grid on which most values of an output lie, if they lie on one: noise is often drawn on one and so hides no rest.

A step is a guess from the runs to learn from: a wrong one costs power, never validity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
WholeArray = NDArray[np.int64]

SMALLEST = 1e-9  # gap between two values, as a share of them or of most others: below, it is rounding
GAPS = 50  # smallest gaps whose common measure is a step
LOST = 1e-2  # of the smallest gap: a common measure below it is none
MULTIPLES = {2.0: [1.0], 10.0: [5.0, 2.0, 1.0]}  # of powers of a base: steps of which others may be whole multiples
EXPONENTS = {2.0: (-1060, 1020), 10.0: (-300, 305)}  # of powers that are numbers, with room for what divides by them
ROUNDED = 2.0  # units in the last place of the largest value, by which rounding may move the difference of two values
SURE = 1 / 8  # of a step, up to which rounding may move a value for the step to be told from chance
MOST = 0.8  # share of the different values that lie on a grid; others may be marks of failure, or limits
TRIED, NEARLY = 64, 0.65  # values that refute most steps, where fewer of them lie on it
OFTEN = 0.9  # quantile of the sizes, beyond FARTHEST times which values say nothing of the grid
FARTHEST = 2.0
PARTS = 8  # of the values, whose divisors differ where a part has a mark of failure


def steps_of(values: FloatArray) -> set[float]:
    """Steps of grids that finite ``values`` may lie on, up to where the grid begins; empty where there is none.

    By the smallest gaps, for any step that is met often; and, however few of the steps were met, for whole multiples of
    a power of two or ten, in double precision and, where all values are of it, in single precision.
    """
    ordered = np.unique(values)
    if ordered.size < 2:
        return set()
    size = np.abs(ordered)
    near = ordered[size / FARTHEST <= np.quantile(size, OFTEN, method="lower")]
    with np.errstate(over="ignore"):
        found = [_by_gaps(ordered), _by_bits(near)]
        largest = np.abs(near).max()
        found += [
            _by_powers(near, ROUNDED * float(np.spacing(largest.astype(kind))))
            for kind in (np.float64, np.float32)
            if (near.astype(kind) == near).all()
        ]
    return {step for step in found if step is not None and 0 < step < np.inf}


def _by_bits(values: FloatArray) -> float | None:
    """What divides most differences exactly; None where it may be the lowest bit of a format, which is no grid."""
    mantissas, exponents = np.frexp(values[values != 0])
    if mantissas.size < 2:
        return None
    whole = np.rint(np.ldexp(mantissas, 53)).astype(np.int64)
    lowest = exponents - 53 + np.log2((whole & -whole).astype(float)).astype(np.int64)
    finest = ROUNDED * float(np.spacing(np.abs(values).max())) / SURE
    for first in np.quantile(lowest, [0.0, 0.1, 0.2], method="lower").astype(int).tolist():  # marks may have finer bits
        used = (lowest >= first) & (exponents - first <= 61)
        if used.mean() < MOST:
            continue
        multiples = np.rint(np.ldexp(mantissas[used], exponents[used] - first)).astype(np.int64)
        divisor = _divisor(multiples - multiples[multiples.size // 2])
        step = float(np.ldexp(float(divisor), first))
        if divisor & (divisor - 1) or step >= finest or (step > 1 and first >= 0):  # an odd factor; wide; whole numbers
            return step
    return None


def _by_powers(values: FloatArray, rounding: float) -> float | None:
    """The largest whole multiple of a power of two, or of ten, by which most values differ from each other.

    None where there is none that rounding leaves in sight.
    """
    for origin in np.quantile(values, [0.5, 0.25, 0.75], method="lower"):
        apart = values - origin
        widest = float(np.abs(apart).max())
        if not 0 < rounding / SURE < widest < np.inf:
            continue
        sample = apart[:: max(1, apart.size // TRIED)]
        for base in MULTIPLES:
            for step in _plausible(sample, base, rounding, widest):
                on_grid = _whole(apart, np.array([step]), rounding)[:, 0]
                if on_grid.mean() >= MOST:
                    return step * _divisor(np.rint(apart[on_grid] / step).astype(np.int64))
    return None


def _plausible(sample: FloatArray, base: float, rounding: float, widest: float) -> Iterator[float]:
    """Steps by ``base`` of which most of the sample are whole multiples, the largest first."""
    low, high = EXPONENTS[base]
    finest = max(low, math.ceil(math.log(rounding / SURE, base)))
    powers = base ** np.arange(min(high, math.floor(math.log(widest, base))), finest - 2, -1.0)
    steps = np.outer(powers, MULTIPLES[base]).ravel()
    steps = steps[steps * SURE >= rounding]
    if steps.size:
        yield from steps[_whole(sample, steps, rounding).mean(axis=0) >= NEARLY].tolist()


def _whole(apart: FloatArray, steps: FloatArray, rounding: float) -> NDArray[np.bool_]:
    """Whether differences (n,) are whole multiples of steps (m,), but for rounding; shape (n, m)."""
    turns = apart[:, None] / steps
    return np.asarray(np.abs(turns - np.rint(turns)) <= rounding / steps + np.abs(turns) * 2.0**-50)


def _divisor(whole: WholeArray) -> int:
    """The largest number found to divide most of them."""
    whole = whole[whole != 0]
    if whole.size == 0:
        return 1
    parts = {abs(int(np.gcd.reduce(whole[i::PARTS]))) for i in range(PARTS)} - {0}
    return max((part for part in parts if (whole % part == 0).mean() >= MOST), default=1)


def _by_gaps(ordered: FloatArray) -> float | None:
    """The common measure of the smallest gaps between the values; None where there is no gap."""
    gaps = np.diff(ordered)
    size = np.abs(ordered)
    typical = float(np.quantile(size, 0.5, method="lower"))  # the largest may be a mark of failure such as 1e300
    rounding = SMALLEST * np.maximum(np.maximum(size[:-1], size[1:]), typical)
    gaps = np.sort(gaps[(gaps > rounding) & np.isfinite(gaps)])[:GAPS]
    if gaps.size == 0:
        return None
    smallest = step = float(gaps[0])
    for gap in gaps[1:]:
        larger, smaller = float(gap), step
        while smaller > LOST * smallest:
            larger, smaller = smaller, abs(math.remainder(larger, smaller))  # the quotient may overflow
        step = larger
        if step < LOST * smallest * 10:  # no grid
            return smallest
    return step
