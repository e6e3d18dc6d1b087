"""Noisy counts, sums and second moments of the records around public centres. Proof: moments.md.

Every record counts once: for its nearest centre (`VoronoiPartition`), or in shares for all components of a released
mixture (`SoftPartition`). What it adds is computed from that record alone, in one order of operations, and rounded to
an integer grid.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray, freeze
from pm_dpgmm._blocks import Records, blocks_of
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter, steps_of
from pm_dpgmm.mechanisms.partitions import Partition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch_features import BLOCK, GRID
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng, discrete_gaussian

COUNT_WEIGHT = 0.5  # the least for which two records of one part cannot differ by more than two of different parts
SQUARED_SENSITIVITY = {Neighbouring.REPLACE_ONE: Fraction(9, 2), Neighbouring.ADD_REMOVE: Fraction(9, 4)}
ROOT_TWO = math.sqrt(2)
LOG_2, HALF_LOG_2, ROOT_HALF = math.log(2), math.log(2) / 2, math.sqrt(0.5)
EXPONENTIAL = tuple(1 / math.factorial(k) for k in range(14))  # |argument| is at most ln(2)/2
LOGARITHM = tuple(2 / (2 * k + 1) for k in range(11))


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMoments:
    """Released moments of the parts, in the unit of the partition, distances in radii: y = (x - centre)/radius.

    Attributes
    ----------
    partition : VoronoiPartition or SoftPartition
    counts : ndarray, shape (G,)
        Numbers of records, with noise of standard deviation ``noise_scale`` / COUNT_WEIGHT.
    sums : ndarray, shape (G, n_features)
        Of y, with noise of standard deviation ``noise_scale``.
    squares : ndarray, shape (G, n_features, n_features)
        Of y y'; the noise has ``noise_scale`` on the diagonal and ``noise_scale`` / sqrt(2) off it.
    noise_scale : float
    """

    partition: Partition
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    noise_scale: float
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        g, d = self.partition.shape
        freeze(self, counts=(g,), sums=(g, d), squares=(g, d, d))


def noisy_moments(
    records: Records,
    partition: Partition,
    *,
    budget: GaussianFilter,
    share: Fraction,
    neighbouring: Neighbouring,
    n_threads: int = 1,
    rng: Rng = None,
) -> tuple[NoisyMoments, GaussianFilter]:
    """Release counts, sums and second moments of the records in every part.

    Parameters
    ----------
    records : ndarray, shape (N, n_features), or blocks of such rows
        Any numbers: a record with one that is not finite counts for the first part, at its centre.
    partition : VoronoiPartition or SoftPartition
        A function of public numbers, public randomness and earlier releases.
    budget : GaussianFilter
        Of the whole transcript; this release takes ``share`` of its limit.
    share : Fraction
    neighbouring : Neighbouring
    n_threads : int
        Does not change the result.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    moments : NoisyMoments
    budget : GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If the budget has too little left.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy, whatever numbers the records hold; the whole
    transcript has the curve ``budget.loss()``. Proof: moments.md.

    Examples
    --------
    >>> records = np.random.default_rng(1).normal(size=(5000, 2))
    >>> cells = VoronoiPartition(np.zeros(2), np.ones(2), centres=[[-1.0, 0.0], [1.0, 0.0]], radii=[3.0, 3.0])
    >>> moments, left = noisy_moments(records, cells, budget=GaussianFilter.of(1.0, 1e-6), share=Fraction(1, 4),
    ...                               neighbouring=Neighbouring.REPLACE_ONE)
    >>> moments.counts.shape, moments.squares.shape, round(moments.noise_scale, 1)
    ((2,), (2, 2, 2), 17.9)
    """
    n_parts, n_features = partition.shape
    width = 1 + n_features + n_features * (n_features + 1) // 2
    n_numbers, squared = n_parts * width, SQUARED_SENSITIVITY[Neighbouring.parse(neighbouring)]
    # before anything is computed from records
    scale, left = budget.spend(
        steps_of(squared, grid=GRID, n_numbers=n_numbers, error=_error(n_parts)),
        share=share,
        n_numbers=n_numbers,
    )
    sums = moment_sums(records, partition, n_threads=n_threads)
    noisy = (sums + discrete_gaussian(sums.shape, scale=float(scale), rng=rng)).astype(float) * GRID
    row, column = np.triu_indices(n_features)
    upper = noisy[:, 1 + n_features :] / np.where(row == column, 1.0, ROOT_TWO)
    squares = np.zeros((n_parts, n_features, n_features))
    squares[:, row, column] = upper
    squares[:, column, row] = upper
    counts = noisy[:, 0] / COUNT_WEIGHT
    return NoisyMoments(partition, counts, noisy[:, 1 : 1 + n_features], squares, scale * GRID), left


def first_kernel() -> Any:
    """The compiled sums over cells."""
    return _cell_sums


def _error(n_parts: int) -> float:
    """Of a computed feature: shares of ``n_parts`` parts may sum to 1 and one rounding error a part."""
    return 1e-14 + n_parts * 2.0**-52


def moment_sums(records: Records, partition: Partition, *, n_threads: int = 1) -> NDArray[np.int64]:
    """Sums of the records' integer features: count weight, y, and the upper triangle of y y' by rows.

    Entries of y y' off the diagonal are multiplied by sqrt(2), since each stands for two of the matrix. Exact, secret.
    """
    n_parts, n_features = partition.shape
    total = np.zeros((n_parts, 1 + n_features + n_features * (n_features + 1) // 2), dtype=np.int64)
    for block in blocks_of(records):
        total += _block_sums(np.ascontiguousarray(block, dtype=float), partition, total.shape, n_threads)
    return total


def _block_sums(rows: FloatArray, partition: Partition, shape: tuple[int, ...], n_threads: int) -> NDArray[np.int64]:
    if rows.shape[1:] != partition.shape[1:]:  # a kernel checks no bounds: it would read the next row
        raise ValueError(f"X must have {partition.shape[1]} columns as the centres, got shape {rows.shape}")

    def sums(start: int) -> NDArray[np.int64]:
        out = np.zeros(shape, dtype=np.int64)
        part = rows[start : start + BLOCK]
        if isinstance(partition, VoronoiPartition):
            _cell_sums(part, partition.origin, partition.unit, partition.centres, partition.radii, out)
        else:
            _part_sums(
                part,
                partition.origin,
                partition.unit,
                partition.log_weights,
                partition.centres,
                partition.whiteners,
                partition.radii,
                out,
            )
        return out

    starts = range(0, len(rows), BLOCK)
    total = np.zeros(shape, dtype=np.int64)
    if n_threads == 1 or len(starts) < 2:
        for start in starts:
            total += sums(start)
        return total
    with ThreadPoolExecutor(n_threads) as pool:
        for found in pool.map(sums, starts):
            total += found
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def exponential(x: float) -> float:
    """exp(x) for x <= 0, by a Taylor polynomial on half an octave: the same bits wherever it is called."""
    if x < -700.0:
        return 0.0
    octaves = np.rint(x / LOG_2)
    rest = x - octaves * LOG_2
    value = EXPONENTIAL[13]
    for k in range(12, -1, -1):
        value = value * rest + EXPONENTIAL[k]
    return math.ldexp(value, int(octaves))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def logarithm(x: float) -> float:
    """log(x) for positive x, by a series in the same way."""
    fraction, octaves = math.frexp(x)
    slope = (fraction - ROOT_HALF) / (fraction + ROOT_HALF)  # at most 0.172
    square = slope * slope
    value = LOGARITHM[10]
    for k in range(9, -1, -1):
        value = value * square + LOGARITHM[k]
    return value * slope + (octaves * LOG_2 - HALF_LOG_2)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _load(record: FloatArray, origin: FloatArray, unit: FloatArray, out: FloatArray) -> bool:
    """The record in the unit of the partition; False, and zeros, unless all of it is finite."""
    finite = True
    for a in range(origin.size):
        out[a] = (record[a] - origin[a]) / unit[a]
        finite = finite and np.isfinite(out[a])
    if not finite:
        for a in range(origin.size):
            out[a] = 0.0
    return finite


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _into_ball(z: FloatArray, centre: FloatArray, radius: float, y: FloatArray) -> None:
    """y = (z - centre)/radius, moved to the unit sphere if it lies outside; zeros if that is not finite."""
    largest, finite = 0.0, True
    for a in range(z.size):
        y[a] = (z[a] - centre[a]) / radius
        largest = max(largest, abs(y[a]))
        finite = finite and np.isfinite(y[a])  # `max` passes over NaN
    if not finite:
        for a in range(z.size):
            y[a] = 0.0
        return
    if largest == 0.0:
        return
    square = 0.0
    for a in range(z.size):
        square += (y[a] / largest) * (y[a] / largest)
    length = largest * np.sqrt(square)
    if length > 1.0:
        for a in range(z.size):
            y[a] = y[a] / largest / (length / largest)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _add(share: float, y: FloatArray, out: NDArray[np.int64]) -> None:
    """Features of one record in one part, rounded to the grid."""
    out[0] += np.int64(np.rint(share * COUNT_WEIGHT / GRID))
    place = 1 + y.size
    for a in range(y.size):
        out[1 + a] += np.int64(np.rint(share * y[a] / GRID))
        out[place] += np.int64(np.rint(share * y[a] * y[a] / GRID))
        place += 1
        for b in range(a + 1, y.size):
            out[place] += np.int64(np.rint(share * ROOT_TWO * y[a] * y[b] / GRID))
            place += 1


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _cell_sums(
    rows: FloatArray,
    origin: FloatArray,
    unit: FloatArray,
    centres: FloatArray,
    radii: FloatArray,
    out: NDArray[np.int64],
) -> None:
    z, y = np.empty(origin.size), np.empty(origin.size)
    for i in range(len(rows)):
        if not _load(rows[i], origin, unit, z):
            y[:] = 0.0
            _add(1.0, y, out[0])
            continue
        nearest, least = 0, np.inf
        for j in range(len(centres)):
            square = 0.0
            for a in range(z.size):
                square += (z[a] - centres[j, a]) * (z[a] - centres[j, a])
            if square < least:
                nearest, least = j, square
        _into_ball(z, centres[nearest], radii[nearest], y)
        _add(1.0, y, out[nearest])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_joint(
    z: FloatArray, log_weights: FloatArray, centres: FloatArray, whiteners: FloatArray, out: FloatArray
) -> float:
    """Log of weight times density of every part at one record, up to a constant, into ``out``; returns the largest."""
    largest = -np.inf
    for j in range(len(centres)):
        square = 0.0
        for a in range(z.size):
            entry = 0.0
            for b in range(a + 1):
                entry += whiteners[j, a, b] * (z[b] - centres[j, b])
            square += entry * entry
        out[j] = log_weights[j] - 0.5 * square
        largest = max(largest, out[j])
    return largest


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _part_sums(
    rows: FloatArray,
    origin: FloatArray,
    unit: FloatArray,
    log_weights: FloatArray,
    centres: FloatArray,
    whiteners: FloatArray,
    radii: FloatArray,
    out: NDArray[np.int64],
) -> None:
    z, y, shares = np.empty(origin.size), np.empty(origin.size), np.empty(len(centres))
    for i in range(len(rows)):
        if not _load(rows[i], origin, unit, z):
            y[:] = 0.0
            _add(1.0, y, out[0])
            continue
        largest = log_joint(z, log_weights, centres, whiteners, shares)
        total = 0.0
        for j in range(len(centres)):
            # far from everything no density is finite: the first part then takes the record
            found = np.isfinite(largest) and shares[j] == shares[j]
            shares[j] = exponential(shares[j] - largest) if found else 0.0
            total += shares[j]
        if total == 0.0:
            shares[0], total = 1.0, 1.0
        for j in range(len(centres)):
            share = shares[j] / total
            if share * 4 >= GRID:
                _into_ball(z, centres[j], radii[j], y)
                _add(share, y, out[j])
