"""Central and local private EM as printed (Harrington and Mayolo), one dimension, records in [0, 1].

Central: sensitivities divide by all n records while the statistics divide by those of one cluster. Local: a report is
a vector with one mark, and two of its bits change, each paid for once; the bins are read off the records.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy import stats

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.privacy.noise import discrete_laplace
from verification.specimens.elementary import integer_log_density, laplace_log_density
from verification.specimens.specimen import LogDensity, Mechanism, Specimen

EPSILON = 1.0  # claimed for the whole run
EPSILON_MEANS = 0.08  # its share for the means of two clusters
N_RECORDS = 1000
BORDER = 0.99  # halfway between the centroids 0 and 1.98: a record below it belongs to the first cluster
GRID = 64
N_BINS = 4


def central_means(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Means of both clusters with Laplace noise for the sensitivity 1/n, though each divides by its own count.

    An empty cluster gives 0/0, so NaN.
    """
    return cluster_means(data) + rng.laplace(scale=1 / (len(data) * EPSILON_MEANS), size=(n_samples, 2))


def cluster_means(data: FloatArray) -> FloatArray:
    """Exact means of both clusters."""
    parts = data[data < BORDER], data[data >= BORDER]
    return np.array([part.mean() if part.size else math.nan for part in parts])


def central_means_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the means of the clusters that are not empty; -inf for others."""
    means = cluster_means(data)
    there = ~np.isnan(means)
    scale = 1 / (len(data) * EPSILON_MEANS)
    logs = laplace_log_density(np.nan_to_num(outputs)[:, there], means[there], scale=scale)
    return np.where(np.all(np.isnan(outputs) != there, axis=1), logs, -np.inf)


def central_variance(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Variance of the first cluster with noise for the sensitivity (n - 1)/n^2 of the variance of all n records.

    It gets the whole epsilon, more than the paper gives it.
    """
    n = len(data)
    return data[data < BORDER].var() + rng.laplace(scale=(n - 1) / (n**2 * EPSILON), size=n_samples)


def central_variance_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density."""
    n = len(data)
    return laplace_log_density(outputs, data[data < BORDER].var(), scale=(n - 1) / (n**2 * EPSILON))


def central_counts_and_sums(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Counts and sums of both clusters: replacing a record moves each by at most 2 in L1."""
    counts, sums = counts_and_sums(data)
    noisy_counts = counts + discrete_laplace((n_samples, 2), scale=4 / EPSILON, rng=rng)
    noisy_sums = sums + discrete_laplace((n_samples, 2), scale=4 * GRID / EPSILON, rng=rng)
    return np.column_stack([noisy_counts, noisy_sums / GRID])


def counts_and_sums(data: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of both clusters, the sums in grid steps."""
    cluster = (data >= BORDER).astype(int)
    sums = np.bincount(cluster, weights=np.rint(data * GRID), minlength=2)
    return np.bincount(cluster, minlength=2).astype(float), sums.astype(float)


def counts_and_sums_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability."""
    counts, sums = counts_and_sums(data)
    noise, noise_of_sums = outputs[:, :2] - counts, outputs[:, 2:] * GRID - sums
    return integer_log_density(noise, scale=4 / EPSILON) + integer_log_density(noise_of_sums, scale=4 * GRID / EPSILON)


def flipped(bits: Any, n_samples: int, epsilon: float, rng: np.random.Generator) -> Any:
    """Every bit told truthfully with probability exp(epsilon)/(1 + exp(epsilon))."""
    lies = rng.random((n_samples, *np.shape(bits))) < 1 / (1 + math.exp(epsilon))
    return np.asarray(bits, dtype=bool) ^ lies


def one_hot_full(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """One user's bin as a vector with one mark, the full epsilon on every bit."""
    return flipped(np.arange(N_BINS) == data, n_samples, EPSILON, rng).astype(float)


def one_hot_half(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """The same with half of epsilon on every bit, because two bits change."""
    return flipped(np.arange(N_BINS) == data, n_samples, EPSILON / 2, rng).astype(float)


def one_hot_log_density(outputs: FloatArray, data: int, *, epsilon: float) -> FloatArray:
    """Log probability of a report with ``epsilon`` on every bit."""
    lies = (outputs != (np.arange(N_BINS) == data)).sum(axis=1)
    return np.asarray(-lies * epsilon - N_BINS * math.log1p(math.exp(-epsilon)))


def reports(data: FloatArray, low: float, high: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Middles of the bins between ``low`` and ``high``, and the number of reports with a mark in each."""
    bins = bins_of(data, low, high)
    marks = flipped(bins[:, None] == np.arange(N_BINS), n_samples, EPSILON / 2, rng).sum(axis=1)
    return np.column_stack([np.tile(middles(low, high), (n_samples, 1)), marks])


def bins_of(data: FloatArray, low: float, high: float) -> Any:
    """The bin of every record."""
    return np.clip(((np.asarray(data) - low) / (high - low) * N_BINS).astype(int), 0, N_BINS - 1)


def middles(low: float, high: float) -> FloatArray:
    """Of the bins."""
    return low + (high - low) * (np.arange(N_BINS) + 0.5) / N_BINS


def reports_log_density(outputs: FloatArray, data: FloatArray, low: float, high: float) -> FloatArray:
    """Log probability: marks kept and marks made up are two binomials; -inf for other bins."""
    lie = 1 / (1 + math.exp(EPSILON / 2))
    logs = np.zeros(len(outputs))
    for column, inside in enumerate(np.bincount(bins_of(data, low, high), minlength=N_BINS)):
        kept = stats.binom.pmf(np.arange(inside + 1), inside, 1 - lie)
        made_up = stats.binom.pmf(np.arange(len(data) - inside + 1), len(data) - inside, lie)
        logs += np.log(np.convolve(kept, made_up))[outputs[:, N_BINS + column].astype(int)]
    return np.where(np.all(outputs[:, :N_BINS] == middles(low, high), axis=1), logs, -np.inf)


def bins_from_records(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Bins from the smallest to the largest record: the alphabet of the reports tells both."""
    return reports(data, np.min(data), np.max(data), n_samples, rng)


def bins_from_records_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability with bins from the smallest to the largest record."""
    return reports_log_density(outputs, data, np.min(data), np.max(data))


def bins_public(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Bins of the public range [0, 1]."""
    return reports(data, 0.0, 1.0, n_samples, rng)


def bins_public_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability with bins of [0, 1]."""
    return reports_log_density(outputs, data, 0.0, 1.0)


def plus_minus(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Algorithm 1 to the letter: the report is x or -x, so its size is the record."""
    return np.where(flipped(0, n_samples, EPSILON, rng), -data, data)


def plus_minus_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability of x and -x; -inf for other numbers."""
    return np.where(
        np.abs(outputs) == data, np.where(outputs == data, 0.0, -EPSILON) - np.log1p(np.exp(-EPSILON)), -np.inf
    )


def specimens() -> list[Specimen]:
    """S8 and S9 with their sound twins."""
    inf = math.inf
    far, near, gone, few, wide, low, high = (np.ones(N_RECORDS) for _ in range(7))
    far[0], near[0] = 0.0, 0.9899
    few[:2], wide[:2] = 0.0, (0.0, 0.9899)
    low[0], high[0] = 63 / 64, 1.0
    mean_loss = 0.9899 * N_RECORDS * EPSILON_MEANS
    variance_loss = 0.9899**2 / 4 * N_RECORDS**2 / (N_RECORDS - 1) * EPSILON
    sums_loss = EPSILON * (2 + 63 / 64 + 1) / 4  # the counts change by 2, the sums by 63/64 and 1
    ten = np.linspace(0.0, 1.0, 10)
    shorter = ten.copy()
    shorter[-1] = ten[-2]
    public = np.full(10, 0.1), np.append(np.full(9, 0.1), 0.9)
    full, half = (functools.partial(one_hot_log_density, epsilon=e) for e in (EPSILON, EPSILON / 2))
    means, sums = central_means_log_density, counts_and_sums_log_density
    own_bins, public_bins = bins_from_records_log_density, bins_public_log_density

    def one(
        name: str, mechanism: Mechanism, pair: tuple[Any, Any], true: float, log_density: LogDensity, n: int = 100_000
    ) -> Specimen:
        broken = true > EPSILON
        return Specimen(
            name,
            "Harrington and Mayolo" if broken else "control",
            mechanism,
            *pair,
            EPSILON,
            0.0,
            true,
            broken,
            n_samples=n,
            log_density=log_density,
        )

    return [
        one("S8_central_mean", central_means, (far, near), mean_loss, means),
        one("S8b_central_empty", central_means, (far, gone), inf, means),
        one("S8c_central_variance", central_variance, (few, wide), variance_loss, central_variance_log_density),
        one("S8_twin_sums", central_counts_and_sums, (low, high), sums_loss, sums),
        one("S9_local_full", one_hot_full, (0, 1), 2 * EPSILON, full),
        one("S9_twin_half", one_hot_half, (0, 1), EPSILON, half),
        one("S9c_bins_from_records", bins_from_records, (ten, shorter), inf, own_bins, 20_000),
        one("S9c_twin_public_bins", bins_public, public, EPSILON, public_bins, 20_000),
        one("S9d_plus_minus", plus_minus, (0.3, 0.7), inf, plus_minus_log_density),
    ]
