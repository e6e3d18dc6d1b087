"""Law of noisy counts on a grid, given the probabilities of the bins (mixture/cell_probabilities.py).

Written once for NumPy and PyTensor: ``xp`` is either module. Counts: methods/counts/histogram.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_choice
from pm_dpgmm.methods.counts.noisy_poisson import SMALLEST_SCALE, count_log_likelihood
from pm_dpgmm.mixture.mixture import LOG_2PI

FORMS = ("exact", "gaussian")
LEAST_EXPECTED = 1e-100  # count of a bin; positive, so that its logarithm is finite
LEAST_VARIANCE = 0.1  # of the number of records given the noisy counts, against rounding
LARGE_COUNT = 1e3  # from here on moments of a count given its noisy version are linear
TOTAL_REACH = 6.0  # of the integral over an unknown number of records, in standard deviations
MOST_TOTALS = 41  # nodes of that integral

LogCount = Callable[[Any, Any, float], Any]  # log P[noisy count | expected count]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyGrid:
    """Counts with discrete Laplace noise. ``counts`` may have leading dimensions, of several releases."""

    counts: FloatArray  # (..., M), bins in the order of ravel()
    bounds: FloatArray  # (D, 2)
    n_cells: int  # along every column
    noise_scale: float  # b
    n_records: int | None  # None: unknown, as under add-remove neighbours
    inner: FloatArray | None = None  # (D, n_cells - 1) edges of bins that are not of equal widths

    @property
    def edges(self) -> FloatArray:
        """Inner ones, (D, n_cells - 1): records outside the bounds are counted in the nearest bin."""
        if self.inner is not None:
            return self.inner
        low, high = self.bounds[:, :1], self.bounds[:, 1:]
        return np.asarray(low + (high - low) * np.arange(1, self.n_cells) / self.n_cells)

    @property
    def noise_variance(self) -> float:
        return noise_variance(self.noise_scale)


def noise_variance(scale: float) -> float:
    """Of discrete Laplace noise of scale b: 2 q/(1 - q)^2, q = exp(-1/b)."""
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def numpy_log_count(counts: Any, expected: Any, noise_scale: float) -> Any:
    """log P[noisy count | Poisson mean], noise normalised and its scale at least 0.2: then it hardly moves a count."""
    found, _ = count_log_likelihood(*np.broadcast_arrays(counts, expected), noise_scale=noise_scale)
    return found + log_noise_height(max(noise_scale, SMALLEST_SCALE))


def log_noise_height(noise_scale: float) -> float:
    """log P[noise = 0] of discrete Laplace noise."""
    return math.log(math.tanh(0.5 / noise_scale))


def log_density(
    grid: NoisyGrid, probabilities: Any, *, form: str = "exact", xp: Any = np, log_count: LogCount = numpy_log_count
) -> Any:
    """Log density of the noisy counts at probabilities of the bins.

    Counts are multinomial when the number of records is public. "exact" is the law of a Poisson count with noise in
    every bin, times the probability of the public total given the noisy counts over that without them: a sum of
    independent counts, taken as Gaussian with its exact mean and variance. "gaussian" is the Gaussian law with the mean
    and covariance of the noisy multinomial; it has the right width and wastes some of the information in bins that are
    nearly empty. With an unknown number of records the counts are Poisson, and the log density is that after
    integrating over the expected number with a flat prior.

    Parameters
    ----------
    grid : NoisyGrid
    probabilities : array, shape (..., M)
    form : {"exact", "gaussian"}
    xp : module
        ``numpy`` or ``pytensor.tensor``.
    log_count : callable
        log P[noisy count | expected count], for "exact".
    """
    check_choice(FORMS, form=form)
    noise, scale = grid.noise_variance, grid.noise_scale

    def gaussian_cells(expected: Any) -> Any:
        variance = expected + noise
        return -0.5 * ((grid.counts - expected) ** 2 / variance + xp.log(variance) + LOG_2PI)

    if grid.n_records is None:
        totals, log_step = totals_of(grid)
        expected = xp.maximum(totals[:, None] * probabilities[..., None, :], LEAST_EXPECTED)
        parts = gaussian_cells(expected) if form == "gaussian" else log_count(grid.counts, expected, scale)
        heights = parts.sum(axis=-1)
        top = heights.max(axis=-1)
        return top + xp.log(xp.exp(heights - top[..., None]).sum(axis=-1)) + log_step

    expected = xp.maximum(grid.n_records * probabilities, LEAST_EXPECTED)
    if form == "gaussian":
        parts, (mean, variance) = gaussian_cells(expected), predicted(grid.counts, expected, noise)
    else:
        logs = [log_count(grid.counts - r, expected, scale) for r in range(3)]
        parts, (mean, variance) = logs[0], true_counts(grid.counts, expected, noise, logs, xp=xp)
    return parts.sum(axis=-1) + log_total(grid.n_records, mean.sum(axis=-1), variance.sum(axis=-1), xp=xp)


def log_total(n_records: int, mean: Any, variance: Any, *, xp: Any = np) -> Any:
    """Log probability of a public number of records given the noisy counts, over that without them; both Gaussian.

    ``mean``, ``variance``: of the sum of the true counts given the noisy ones.
    """
    spread = xp.maximum(variance, LEAST_VARIANCE)
    return -0.5 * ((n_records - mean) ** 2 / spread + xp.log(spread / n_records))


def predicted(counts: Any, expected: Any, variance: float) -> tuple[Any, Any]:
    """Mean and variance of the true count of a bin, given its noisy one: by the best linear prediction."""
    share = expected / (expected + variance)
    return expected + share * (counts - expected), expected * (1 - share)


def true_counts(counts: Any, expected: Any, variance: float, logs: Sequence[Any], *, xp: Any = np) -> tuple[Any, Any]:
    """The same exactly, from log P[c], log P[c - 1] and log P[c - 2] of a noisy count c.

    Factorial moments are E[y (y - 1) ... (y - r + 1) | c] = m^r P[c - r]/P[c].
    """
    parts, one_less, two_less = logs
    exact = expected * xp.exp(one_less - parts)
    large = expected > max(LARGE_COUNT, 10 * variance)  # rounding would be squared, and the prediction is good
    mean, spread = predicted(counts, expected, variance)
    spread = xp.where(large, spread, expected**2 * xp.exp(two_less - parts) + exact - exact**2)
    return xp.where(large, mean, exact), spread


def totals_of(grid: NoisyGrid) -> tuple[FloatArray, float]:
    """Equally spaced expected numbers of records: the trapezoidal rule, a standard deviation apart at most."""
    if grid.counts.ndim > 1:
        raise ValueError("n_records must be given for several releases at once, got None")
    size = grid.counts.shape[-1]
    spread = math.sqrt(size * grid.noise_variance)
    centre = float(max(grid.counts.sum(), 2 * spread, 2.0))
    error = math.hypot(spread, math.sqrt(centre))
    low, high = max(centre - TOTAL_REACH * error, 0.02 * centre), centre + TOTAL_REACH * error
    n = min(MOST_TOTALS, math.ceil((high - low) / math.sqrt(centre)) + 1)
    return np.linspace(low, high, n), math.log((high - low) / (n - 1))
