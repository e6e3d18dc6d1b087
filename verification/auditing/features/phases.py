"""Noise on a grid, added to a number that is not on it: what lies between the steps of the grid is not hidden."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from verification.auditing.features.grids import steps_of

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Phases = tuple[tuple[int, float], ...]  # columns and the steps that their values are taken modulo

CELLS = 4_000_000  # entries that are looked at
LEAST_RUNS = 50  # of each label
LEAST_LENGTH = 0.1  # of the mean phase of a label: 1 on a grid, 0.025 for Laplace noise as wide as the step
LEAST_Z = 5.0  # standard deviations between mean phases, or shares of an arc, of the labels, for the best of thousands
ARCS = 64  # of the circle of a step, the first one about 0: rare or scattered phases have no mean far from 0

NOT_GRIDS = (
    f"what numbers leave when divided was not looked at: there were fewer than {LEAST_RUNS} runs on a data set to learn"
    " from"
)


def enough_runs(label: BoolArray) -> bool:
    """Whether there are runs enough of both labels to look at phases."""
    return int(min(label.sum(), (~label).sum())) >= LEAST_RUNS


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
            steps = {1.0} | steps_of(ones) | steps_of(zeros)
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
