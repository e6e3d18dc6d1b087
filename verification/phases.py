"""Noise on a grid, added to a number that is not on it: what lies between the steps of the grid is not hidden."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Phases = tuple[tuple[int, float], ...]  # columns and the steps that their values are taken modulo

CELLS = 4_000_000  # entries that are looked at
LEAST_RUNS = 50  # of each label
LEAST_LENGTH = 0.1  # of the mean phase of a label: 1 on a grid, 0.025 for Laplace noise as wide as the step
LEAST_Z = 5.0  # standard deviations between the mean phases of the labels, for the best of thousands
SMALLEST = 1e-9  # gap between two values, as a share of the largest one: below, it is rounding
GAPS = 50  # smallest gaps whose common measure is a step
LOST = 1e-2  # of the smallest gap: a common measure below it is none


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
            steps = {1.0, *(step for values in (ones, zeros) if (step := _step(values)) is not None)}
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
    """Between the mean phases of two labels, in standard deviations; 0 where no mean is far from 0."""
    means = [np.mean(np.exp(1j * _turns(values, step))) for values in (ones, zeros)]
    lengths = np.abs(means)
    if not lengths.max() > LEAST_LENGTH:
        return 0.0
    variance = sum((1 - length**2) / size for length, size in zip(lengths, (ones.size, zeros.size), strict=True))
    return float(abs(means[0] - means[1]) / np.sqrt(max(variance, 1e-12)))


def _step(values: FloatArray) -> float | None:
    """The common measure of the smallest gaps between values; None where there is no gap."""
    ordered = np.unique(values)
    with np.errstate(over="ignore"):
        gaps = np.diff(ordered)
    gaps = np.sort(gaps[(gaps > SMALLEST * np.abs(ordered[[0, -1]]).max()) & np.isfinite(gaps)])[:GAPS]
    if gaps.size == 0:
        return None
    smallest = step = float(gaps[0])
    for gap in gaps[1:]:
        larger, smaller = float(gap), step
        while smaller > LOST * smallest:
            larger, smaller = smaller, abs(larger - smaller * round(larger / smaller))
        step = larger
        if step < LOST * smallest * 10:  # no grid
            return smallest
    return step
