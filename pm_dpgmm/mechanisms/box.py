"""Where the records lie: a private scale and interval for every column, without any bounds. Proof: box.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm._blocks import Records, blocks_of
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.privacy.guarantee import Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import IntArray, Rng, bernoullis, discrete_gaussian, permutation

GRID = 2**30  # counts are released in steps of 1/GRID
EXPONENTS = np.arange(-100, 101)  # public bins of the scale, powers of 2; larger and smaller ones go to the ends
QUANTILE, WIDEN = 0.6, 2.0  # of the distances within pairs; and the width of a location bin above that distance
SEEN = 3.5  # standard deviations of noise above which a cell is in use
SURE = 4.0  # the same for three neighbouring bins of the scale together


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBins:
    """Released location bins of one column: those that enough records share."""

    width: float  # of a bin, unit of the column
    index: IntArray  # (n_bins,): bin i is [i width, (i + 1) width)
    counts: FloatArray  # (n_bins,): noisy numbers of records, above the threshold

    @property
    def interval(self) -> tuple[float, float]:
        """From the lowest kept bin to the highest; (nan, nan) when none was kept."""
        if not self.index.size:
            return math.nan, math.nan
        return float(self.index[0] * self.width), float((self.index[-1] + 1) * self.width)


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """One :class:`ColumnBins` for every column, and the law of the noise."""

    columns: tuple[ColumnBins, ...]
    scale_counts: FloatArray  # (n_features, 201): noisy numbers of pairs whose distance has that binary exponent
    scale_noise: float
    location_noise: float

    @property
    def found(self) -> bool:
        """Whether every column kept a bin."""
        return all(column.index.size for column in self.columns)


def noisy_box(
    records: Records,
    *,
    budget: GaussianFilter,
    share: Fraction,
    neighbouring: Neighbouring,
    scale_part: Fraction = Fraction(1, 2),
    paired: float = 1.0,
    rng: Rng = None,
) -> tuple[Box, GaussianFilter]:
    """Release a scale and an interval for every column of unbounded records.

    Parameters
    ----------
    records : ndarray, shape (N, n_features), or blocks of such rows
        Any numbers; what is not finite is in no bin.
    budget : GaussianFilter
        Its ``failure`` is used up by this release: call it once for a budget.
    share : Fraction
        Of the budget's limit.
    neighbouring : Neighbouring
    scale_part : Fraction
        Of ``share``, for the scale; the rest is for the location.
    paired : float
        Probability, for every record by itself, of being in the sample whose distances tell the scale. The sample is
        held in memory. A function of public numbers and earlier releases.
    rng : numpy.random.Generator, optional
        None draws from OpenDP and the operating system (release); a generator simulates.

    Returns
    -------
    box : Box
    budget : GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If the budget has too little left or no ``failure`` set aside.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy, outside an event of probability
    ``budget.failure``; which bins are kept, and that none was, included. Proof: box.md.

    Examples
    --------
    >>> records = np.random.default_rng(1).normal(loc=1e6, size=(5000, 1))
    >>> box, left = noisy_box(records, budget=GaussianFilter.of(1.0, 1e-6, failure=1e-7), share=Fraction(1, 10),
    ...                       neighbouring=Neighbouring.REPLACE_ONE)
    >>> low, high = box.columns[0].interval
    >>> 1e6 - 20 < low < 1e6 < high < 1e6 + 20
    True
    """
    if not budget.failure > 0:
        raise ValueError(f"budget.failure must be greater than 0, got {budget.failure!r}")
    n_features = next(iter(blocks_of(records))).shape[1]
    squared = (2 * n_features, 2 * n_features if replaces_one(neighbouring) else n_features)
    steps = [math.isqrt(part * GRID**2) + 1 for part in squared]
    # both before anything is computed from records; 4 n_features numbers at most can differ in law
    scale, left = budget.spend(steps[0], share=share * scale_part, n_numbers=2 * n_features)
    location, left = left.spend(steps[1], share=share * (1 - scale_part), n_numbers=2 * n_features)

    sample = _sample(records, paired, rng)
    counts = pair_distance_counts(sample, permutation(len(sample), rng=rng)) * GRID
    scale_counts = (counts + discrete_gaussian(counts.shape, scale=float(scale), rng=rng)) / GRID
    widths = [_width(noisy, scale / GRID) for noisy in scale_counts]
    threshold = location_threshold(location, failure=budget.failure, n_features=n_features)
    columns = tuple(
        _kept_bins(found, counted, width, scale=location, threshold=threshold, rng=rng)
        for (found, counted), width in zip(_bins(records, widths), widths, strict=True)
    )
    return Box(columns, scale_counts, scale / GRID, location / GRID), left


def noisy_cells(
    records: Records,
    intervals: FloatArray,
    n_cells: int,
    *,
    budget: GaussianFilter,
    share: Fraction,
    neighbouring: Neighbouring,
    rng: Rng = None,
) -> tuple[FloatArray, float, GaussianFilter]:
    """Release counts of equal cells of a closed interval a column; what lies outside, or is not finite, is in no cell.

    Parameters
    ----------
    records : ndarray, shape (N, n_features), or blocks of such rows
    intervals : ndarray, shape (n_features, 2)
        A function of public numbers and earlier releases.
    n_cells : int
    budget, share, neighbouring, rng
        As for `noisy_box`; no ``failure`` is needed.

    Returns
    -------
    counts : ndarray, shape (n_features, n_cells)
        With noise.
    noise_scale : float
        Its standard deviation.
    budget : GaussianFilter
        What is left.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy. Proof: box.md.

    Examples
    --------
    >>> budget, interval = GaussianFilter.of(1.0, 1e-6), np.array([[-1.0, 1.0]])
    >>> counts, noise_scale, left = noisy_cells(np.zeros((5000, 1)), interval, 4, budget=budget,
    ...                                         share=Fraction(1, 50), neighbouring=Neighbouring.REPLACE_ONE)
    >>> counts.shape, round(noise_scale, 1)
    ((1, 4), 42.2)
    """
    n_features = len(intervals)
    scale, left = cells_cost(n_features, n_cells, budget=budget, share=share, neighbouring=neighbouring)
    counts = np.zeros((n_features, n_cells), dtype=np.int64)
    for block in blocks_of(records):
        for column, (low, high), row in zip(block.T, intervals, counts, strict=True):
            within = column[(column >= low) & (column <= high)]
            place = ((within - low) / (high - low) * n_cells).astype(np.int64)
            row += np.bincount(np.minimum(place, n_cells - 1), minlength=n_cells)  # the upper end is in the last cell
    return (counts * GRID + discrete_gaussian(counts.shape, scale=float(scale), rng=rng)) / GRID, scale / GRID, left


def cells_cost(
    n_features: int, n_cells: int, *, budget: GaussianFilter, share: Fraction, neighbouring: Neighbouring
) -> tuple[int, GaussianFilter]:
    """Noise scale of :func:`noisy_cells` in grid steps, and what is left; ValueError as there. Sees no record."""
    changed = (2 if replaces_one(neighbouring) else 1) * n_features
    return budget.spend(math.isqrt(changed * GRID**2) + 1, share=share, n_numbers=n_cells * n_features)


def noisy_count(
    records: Records, *, budget: GaussianFilter, share: Fraction, rng: Rng = None
) -> tuple[int, GaussianFilter]:
    """Release the number of records, private under add-remove neighbours, and what is left of the budget.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy. Proof: box.md.
    """
    scale, left = budget.spend(GRID, share=share, n_numbers=1)
    n_records = sum(len(block) for block in blocks_of(records))
    return round((n_records * GRID + int(discrete_gaussian(1, scale=float(scale), rng=rng)[0])) / GRID), left


def location_threshold(scale: int, *, failure: float, n_features: int) -> int:
    """Grid steps above which a noisy count is kept: a lone record passes with probability failure / n_features."""
    quantile = -float(special.ndtri(failure / n_features)) * (1 + 1e-9)
    return GRID + math.ceil(scale * Fraction(quantile))


def _sample(records: Records, probability: float, rng: Rng) -> FloatArray:
    """Every record with this probability, by a secret coin of its own."""
    if probability >= 1:
        return records if isinstance(records, np.ndarray) else np.concatenate(list(records))
    return np.concatenate(
        [block[bernoullis(len(block), probability=probability, rng=rng)] for block in blocks_of(records)]
    )


def pair_distance_counts(records: FloatArray, order: IntArray) -> IntArray:
    """Pairs of records in a secret order by the binary exponent of their distance, shape (n_features, 201)."""
    half = len(records) // 2
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(records[order[:half]] - records[order[half : 2 * half]])
    told = np.isfinite(distance) & (distance > 0)  # equal numbers say nothing about scale
    exponent = np.frexp(np.where(told, distance, 1.0))[1] - 1
    bins = np.clip(exponent, EXPONENTS[0], EXPONENTS[-1]) - EXPONENTS[0]
    counts = [np.bincount(b[t], minlength=EXPONENTS.size) for b, t in zip(bins.T, told.T, strict=True)]
    return np.array(counts, dtype=np.int64)


def _width(noisy: FloatArray, noise_scale: float) -> float:
    """Width of a column's location bins, from its noisy counts by exponent; NaN if they do not stand out."""
    # distances spread over a few neighbouring exponents, noise does not: it misleads less than one column in 150
    three = np.convolve(noisy, np.ones(3), mode="same")
    surely = three > SURE * math.sqrt(3) * noise_scale
    if not surely.any():
        return math.nan  # and no bin is kept
    seen = np.where(surely, np.maximum(noisy, 0.0), 0.0)
    if not seen.any():
        return math.nan
    shares = np.cumsum(seen) / seen.sum()
    return float(WIDEN * 2.0 ** EXPONENTS[np.searchsorted(shares, QUANTILE)])


def _bins(records: Records, widths: list[float]) -> list[tuple[FloatArray, IntArray]]:
    """Non-empty bins of every column, in ascending order, and their numbers of records."""
    every = [(np.empty(0), np.empty(0, dtype=np.int64)) for _ in widths]
    for block in blocks_of(records):
        for j, (column, width) in enumerate(zip(block.T, widths, strict=True)):
            with np.errstate(over="ignore", invalid="ignore"):
                index = np.floor(column / width)
            found, counts = np.unique(index[np.isfinite(index) & (np.abs(index) < 2.0**53)], return_counts=True)
            bins, place = np.unique(np.concatenate([every[j][0], found]), return_inverse=True)
            total = np.zeros(bins.size, dtype=np.int64)
            np.add.at(total, place, np.concatenate([every[j][1], counts]))
            every[j] = bins, total
    return every


def _kept_bins(
    found: FloatArray, counts: IntArray, width: float, *, scale: int, threshold: int, rng: Rng
) -> ColumnBins:
    """Noise on the non-empty bins; those above the threshold, in ascending order."""
    noisy = counts * GRID + discrete_gaussian(counts.size, scale=float(scale), rng=rng)
    kept = noisy > threshold
    return ColumnBins(width, found[kept].astype(np.int64), noisy[kept] / GRID)
