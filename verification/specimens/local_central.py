"""Central and local private EM as printed (Harrington and Mayolo), one dimension, records in [0, 1].

Central: sensitivities divide by all n records while the statistics divide by those of one cluster. Local: a report is
a vector with one mark, and two of its bits change, each paid for once; the bins are read off the records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.noise import discrete_laplace
from verification.specimens import Specimen

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
    noise = rng.laplace(scale=1 / (len(data) * EPSILON_MEANS), size=(n_samples, 2))
    means = [part.mean() if part.size else math.nan for part in (data[data < BORDER], data[data >= BORDER])]
    return means + noise


def central_variance(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Variance of the first cluster with noise for the sensitivity (n - 1)/n^2 of the variance of all n records.

    It gets the whole epsilon, more than the paper gives it.
    """
    n = len(data)
    return data[data < BORDER].var() + rng.laplace(scale=(n - 1) / (n**2 * EPSILON), size=n_samples)


def central_counts_and_sums(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Counts and sums of both clusters: replacing a record moves each by at most 2 in L1."""
    cluster = (data >= BORDER).astype(int)
    counts, sums = np.bincount(cluster, minlength=2), np.bincount(cluster, weights=np.rint(data * GRID), minlength=2)
    noisy_counts = counts + discrete_laplace((n_samples, 2), scale=4 / EPSILON, rng=rng)
    noisy_sums = sums + discrete_laplace((n_samples, 2), scale=4 * GRID / EPSILON, rng=rng)
    return np.column_stack([noisy_counts, noisy_sums / GRID])


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


def one_hot_log_density(outputs: FloatArray, data: int, epsilon: float) -> FloatArray:
    """Log probability of a report."""
    lies = (outputs != (np.arange(N_BINS) == data)).sum(axis=1)
    return np.asarray(-lies * epsilon - N_BINS * math.log1p(math.exp(-epsilon)))


def one_hot_full_log_density(outputs: FloatArray, data: int) -> FloatArray:
    """Log probability of a report at the full epsilon."""
    return one_hot_log_density(outputs, data, EPSILON)


def one_hot_half_log_density(outputs: FloatArray, data: int) -> FloatArray:
    """Log probability of a report at half of epsilon."""
    return one_hot_log_density(outputs, data, EPSILON / 2)


def reports(data: FloatArray, low: float, high: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Middles of the bins between ``low`` and ``high``, and the number of reports with a mark in each."""
    share = (np.asarray(data) - low) / (high - low)
    bins = np.clip((share * N_BINS).astype(int), 0, N_BINS - 1)
    marks = flipped(bins[:, None] == np.arange(N_BINS), n_samples, EPSILON / 2, rng).sum(axis=1)
    middles = low + (high - low) * (np.arange(N_BINS) + 0.5) / N_BINS
    return np.column_stack([np.tile(middles, (n_samples, 1)), marks])


def bins_from_records(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Bins from the smallest to the largest record: the alphabet of the reports tells both."""
    return reports(data, np.min(data), np.max(data), n_samples, rng)


def bins_public(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Bins of the public range [0, 1]."""
    return reports(data, 0.0, 1.0, n_samples, rng)


def plus_minus(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Algorithm 1 to the letter: the report is x or -x, so its size is the record."""
    return np.where(flipped(0, n_samples, EPSILON, rng), -data, data)


def specimens() -> list[Specimen]:
    """S8 and S9 with their sound twins."""
    paper, inf = "Harrington and Mayolo", math.inf
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
    return [
        Specimen("S8_central_mean", paper, central_means, far, near, EPSILON, 0.0, mean_loss, True),
        Specimen("S8b_central_empty", paper, central_means, far, gone, EPSILON, 0.0, inf, True),
        Specimen("S8c_central_variance", paper, central_variance, few, wide, EPSILON, 0.0, variance_loss, True),
        Specimen("S8_twin_sums", "control", central_counts_and_sums, low, high, EPSILON, 0.0, sums_loss, False),
        Specimen("S9_local_full", paper, one_hot_full, 0, 1, EPSILON, 0.0, 2 * EPSILON, True),
        Specimen("S9_twin_half", "control", one_hot_half, 0, 1, EPSILON, 0.0, EPSILON, False),
        Specimen("S9c_bins_from_records", paper, bins_from_records, ten, shorter, EPSILON, 0.0, inf, True, 20_000),
        Specimen("S9c_twin_public_bins", "control", bins_public, *public, EPSILON, 0.0, EPSILON, False, 20_000),
        Specimen("S9d_plus_minus", paper, plus_minus, 0.3, 0.7, EPSILON, 0.0, inf, True),
    ]


LOG_DENSITIES = {"S9_local_full": one_hot_full_log_density, "S9_twin_half": one_hot_half_log_density}
