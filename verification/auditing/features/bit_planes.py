"""Every bit of every number, one by one and in pairs: which of them tell the labels apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Signs = NDArray[np.float32]

MANTISSA = 52
LEAST_Z = 5.0  # standard deviations from fair coins, for the best of thousands of bits and pairs of bits
MOST_PLANES = 48  # that a regression is given
LEAST_RUNS = round(LEAST_Z**2)  # fewer have no bit that far from fair coins
NOT_BITS = f"single bits were not looked at: there were fewer than {LEAST_RUNS} runs to learn from"
MOST_PAIRED = 1_280_000  # runs times columns of which pairs of bits are formed, LEAST_PAIRED runs at least
LEAST_PAIRED = 2_000
LEAST_VARIANCE = 1e-3  # of a bit that is paired: one that is nearly constant would repeat the other one
GAIN = 3.0  # by which a pair must exceed both of its bits
WIDEST = 62  # bits of a whole number of grid steps
RARE = 0.05  # share of numbers that may be off a grid, as marks of failure are
OFTEN = 0.25  # share that must then be odd numbers of its steps


@dataclass(frozen=True, slots=True)
class Plane:
    """One bit, or the parity of two, of one column."""

    column: int
    part: str  # "number", "failure" or "grid": the bits of a number, of NaN, of a number counted in steps of the grid
    bits: tuple[int, ...]  # 0 is the sign, 1 to 11 the exponent, 12 to 63 the mantissa; of a grid 0 is the sign


@dataclass(frozen=True, slots=True, eq=False)
class BitScore:
    """A regression on the bits that tell labels apart."""

    planes: tuple[Plane, ...]
    grids: tuple[int | None, ...]  # exponent of the grid of every column
    model: Any

    def decision_function(self, rows: FloatArray) -> FloatArray:
        """Score of every row."""
        return np.asarray(self.model.decision_function(_design(rows, self.planes, self.grids)))


def fit_bits(rows: FloatArray, label: BoolArray, *, n_bits: int, fit: Any) -> BitScore | None:
    """Look at all 64 bits of the first ``n_bits`` columns; None when none tells the labels apart.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        Doubles as the mechanism returned them, the content of NaN included.
    label : ndarray of bool, shape (n,)
    n_bits : int
        Columns to look at.
    fit : callable
        ``fit(inputs, label)``: a classifier on signs, or None.
    """
    y = label - label.mean()
    grids = tuple(_grid(rows[:, j]) for j in range(n_bits))
    found: list[tuple[float, Plane]] = []
    few = min(len(y), max(LEAST_PAIRED, MOST_PAIRED // n_bits)) if n_bits else 0
    for j in range(n_bits):
        for part, signs in _parts(rows[:, j], grids[j]).items():
            z = _z_values(y @ signs, signs.sum(axis=0), np.abs(signs).sum(axis=0), float(y.std()))
            found += [(float(z[b]), Plane(j, part, (int(b),))) for b in np.flatnonzero(z > LEAST_Z)]
            pairs = _pairs(signs[:few], y[:few], z * np.sqrt(few / len(y)))
            found += [(value, Plane(j, part, pair)) for value, pair in pairs]
    found.sort(key=lambda pair: -pair[0])
    planes = tuple(plane for _, plane in found[:MOST_PLANES])
    if not planes:
        return None
    model = fit(_design(rows, planes, grids), label)
    return None if model is None else BitScore(planes, grids, model)


def _z_values(product: NDArray[Any], total: NDArray[Any], size: NDArray[Any], spread: float) -> FloatArray:
    """Size of the covariance of signs with centred labels in standard deviations; 0 for a constant sign."""
    variance = size - total**2 / np.maximum(size, 1)
    seen = variance > 0.5
    return np.where(seen, np.abs(product) / (np.sqrt(np.where(seen, variance, 1.0)) * max(spread, 1e-12)), 0.0)


def _pairs(signs: Signs, y: FloatArray, single: FloatArray) -> list[tuple[float, tuple[int, int]]]:
    size, total = np.abs(signs).sum(axis=0), signs.sum(axis=0)
    moving = np.flatnonzero(1 - (total / np.maximum(size, 1)) ** 2 > LEAST_VARIANCE)
    if moving.size < 2:
        return []
    s = signs[:, moving]
    together = s.T @ s
    z = _z_values(s.T @ (s * y[:, None].astype(s.dtype)), together, np.full_like(together, size.max()), float(y.std()))
    larger = np.maximum(single[moving][:, None], single[moving])
    first, second = np.nonzero(np.triu((z > LEAST_Z) & (z > larger + GAIN), 1))
    return [(float(z[a, b]), (int(moving[a]), int(moving[b]))) for a, b in zip(first, second, strict=True)]


def _parts(column: FloatArray, grid: int | None) -> dict[str, Signs]:
    """Bits as +1 and -1, 0 where there is none, shape (n, 64): of numbers, of failures, in steps of a grid."""
    column = np.ascontiguousarray(column)
    failed = np.isnan(column)
    signs = _signs(column.view(np.uint64))
    parts = {"number": np.where(failed[:, None], 0.0, signs).astype(np.float32)}
    if failed.any():
        parts["failure"] = np.where(failed[:, None], signs, 0.0).astype(np.float32)
    if grid is not None:
        parts["grid"] = _grid_signs(column, grid)
    return parts


def _signs(words: NDArray[np.uint64]) -> Signs:
    bits = np.unpackbits(words.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)
    return bits.astype(np.float32) * 2 - 1


def _grid_signs(column: FloatArray, grid: int) -> Signs:
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.ldexp(column, -grid)
    whole = np.abs(steps) < 2.0**WIDEST  # false for NaN and infinities
    whole &= np.where(whole, steps, 0.0) == np.floor(np.where(whole, steps, 0.0))
    signs = _signs(np.where(whole, steps, 0.0).astype(np.int64).view(np.uint64))
    return np.where(whole[:, None], signs, 0).astype(np.float32)


def _grid(column: FloatArray) -> int | None:
    """Exponent of the coarsest grid 2^e that holds all finite numbers, or all but a few; None if too fine to count in.

    Where a few numbers are far or off it, odd numbers of steps must be common: half of all on a grid.
    """
    finite = column[np.isfinite(column) & (column != 0)]
    if finite.size == 0:
        return None
    fraction, exponent = np.frexp(finite)
    words = np.abs(np.ldexp(fraction, MANTISSA + 1)).astype(np.int64)
    zeros = np.frexp((words & -words).astype(float))[1] - 1
    lowest = exponent - MANTISSA - 1 + zeros
    for share, least in ((0.0, 0.0), (RARE, OFTEN)):
        step = int(np.quantile(lowest, share, method="lower"))
        largest = int(np.quantile(exponent, 1 - share, method="higher"))
        if largest - step < WIDEST and np.mean(lowest == step) >= least:
            return step
    return None


def _design(rows: FloatArray, planes: tuple[Plane, ...], grids: tuple[int | None, ...]) -> FloatArray:
    """Signs of the chosen bits, shape (n, planes)."""
    design = np.zeros((len(rows), len(planes)))
    for column in sorted({plane.column for plane in planes}):  # one after the other, to keep memory small
        parts = _parts(rows[:, column], grids[column])
        for i, plane in enumerate(planes):
            if plane.column == column and plane.part in parts:
                design[:, i] = np.prod(parts[plane.part][:, list(plane.bits)], axis=1)
    return design
