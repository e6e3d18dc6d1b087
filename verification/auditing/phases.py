"""Noise on a grid, added to a number that is not on it: what lies between the steps of the grid is not hidden."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Phases = tuple[tuple[int, float], ...]  # columns and the steps that their values are taken modulo

CELLS = 4_000_000  # entries that are looked at
LEAST_RUNS = 50  # of each label
LEAST_LENGTH = 0.1  # of the mean phase of a label: 1 on a grid, 0.025 for Laplace noise as wide as the step
LEAST_Z = 5.0  # standard deviations between mean phases, or shares of an arc, of the labels, for the best of thousands
ARCS = 64  # of the circle of a step, the first one about 0: rare or scattered phases have no mean far from 0
SMALLEST = 1e-9  # gap between two values, as a share of them or of most others: below, it is rounding
GAPS = 50  # smallest gaps whose common measure is a step
EXACT = 2.0**53  # whole numbers up to it are exact
LOST = 1e-2  # of the smallest gap: a common measure below it is none
BASES = (2.0, 10.0)  # of whose powers a step may be a whole multiple, however few of the steps were met
SURE = 1 / 16  # of a step, up to which rounding may move a value for the step to be told from chance
TRIED = 64  # values that refute most steps
FARTHEST = 2.0**20  # times the typical size, beyond which a value is taken for a mark of failure


def fit_phases(rows: FloatArray, label: BoolArray) -> Phases:
    """Columns in whose values modulo 1, or modulo the step of a label's values, the labels differ.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
    label : ndarray of bool, shape (n,)
    """
    few = slice(0, max(4 * LEAST_RUNS, CELLS // max(1, rows.shape[1])))
    rows, label = rows[few], label[few]
    found = []
    for j, column in enumerate(rows.T):
        finite = np.isfinite(column)
        ones, zeros = column[finite & label], column[finite & ~label]
        if min(ones.size, zeros.size) >= LEAST_RUNS:
            found_in = (step(values) for values in (ones, zeros) for step in (_step, _fixed_point))
            steps = {1.0, *(step for step in found_in if step is not None)}
            strongest = max(steps, key=lambda step: _difference(ones, zeros, step))
            if _difference(ones, zeros, strongest) > LEAST_Z:
                found.append((j, strongest))
    return tuple(found)


def phase_columns(rows: FloatArray, phases: Phases) -> list[FloatArray]:
    """Sine and cosine of what every value leaves, on the circle of a step; NaN for NaN and infinities."""
    columns = []
    for j, step in phases:
        turns = _turns(np.where(np.isfinite(rows[:, j]), rows[:, j], np.nan), step)
        columns += [np.sin(turns), np.cos(turns)]
    return columns


def _turns(values: FloatArray, step: float) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(2 * np.pi * np.remainder(values, step) / step)


def _difference(ones: FloatArray, zeros: FloatArray, step: float) -> float:
    """Between the phases of two labels, in standard deviations: of means far from 0, or of shares of an arc."""
    turns = [_turns(values, step) for values in (ones, zeros)]
    sizes = np.array([ones.size, zeros.size])
    counts = np.array([np.bincount(np.rint(t * ARCS / (2 * np.pi)).astype(int) % ARCS, minlength=ARCS) for t in turns])
    share = counts.sum(axis=0) / sizes.sum()
    spread = np.sqrt(np.maximum(share * (1 - share), 1e-12) * (1 / sizes).sum())
    by_arcs = float((np.abs(counts[0] / sizes[0] - counts[1] / sizes[1]) / spread).max())
    means = [np.mean(np.exp(1j * t)) for t in turns]
    lengths = np.abs(means)
    if not lengths.max() > LEAST_LENGTH:
        return by_arcs
    variance = sum((1 - length**2) / size for length, size in zip(lengths, sizes, strict=True))
    return max(by_arcs, float(abs(means[0] - means[1]) / np.sqrt(max(variance, 1e-12))))


def _fixed_point(values: FloatArray) -> float | None:
    """The largest whole multiple of a power of two, or of ten, by which all values differ from each other.

    None where there is none that rounding leaves in sight.
    """
    ordered = np.unique(values)
    size = np.abs(ordered)
    ordered = ordered[size / FARTHEST <= np.quantile(size, 0.5, method="lower")]
    if ordered.size < 2:
        return None
    with np.errstate(over="ignore"):
        apart = ordered - ordered[ordered.size // 2]
        rounding = 4 * float(np.spacing(np.abs(ordered).max()))
    widest = float(np.abs(apart).max())
    if not 0 < rounding / SURE < widest < np.inf:
        return None
    for base in BASES:
        finest = math.ceil(math.log(rounding / SURE, base))
        for power in range(math.floor(math.log(widest, base)), finest - 1, -1):
            step = base**power
            if _all_whole(apart[:: max(1, apart.size // TRIED)], step, rounding) and _all_whole(apart, step, rounding):
                return step * int(np.gcd.reduce(np.rint(apart / step).astype(np.int64)))
    return None


def _all_whole(apart: FloatArray, step: float, rounding: float) -> bool:
    turns = apart / step
    return bool((np.abs(turns - np.rint(turns)) <= rounding / step + 4 * np.spacing(np.abs(turns).max())).all())


def _step(values: FloatArray) -> float | None:
    """The common measure of the gaps between whole values, or of the smallest gaps; None where there is no gap."""
    ordered = np.unique(values)
    if ordered.size < 2:
        return None
    exact = ordered[np.abs(ordered) <= EXACT]  # others may be marks of failure
    if exact.size > 1 and (exact == np.rint(exact)).all():
        divisor = int(np.gcd.reduce(np.diff(exact.astype(np.int64))))
        if divisor > 1:  # however few of the steps between them were met
            return float(divisor)
    with np.errstate(over="ignore"):
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
