"""Bugs of programs around sound noise: what is released, when, over which keys, with which seed and which neighbours.

All are claimed epsilon = 1. Failures and missing keys are NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from verification.specimens.elementary import SIGMA, gaussian_log_density, laplace_log_density
from verification.specimens.specimen import LogDensity, Mechanism, Specimen

EPSILON, DELTA = 1.0, 1e-3
N_KEYS = 4
LOW_THRESHOLD = 4.0  # (1, 1e-3) needs 1 + log(500) = 7.2
SEED = 2024
N_SEEDS = 2


def local_sensitivity_noise(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Median with Laplace noise for the most it can move from these very records; their number is odd."""
    return np.median(data) + rng.laplace(scale=local_sensitivity(data) / EPSILON, size=n_samples)


def local_sensitivity(data: FloatArray) -> float:
    """Largest change of the median when one record is replaced."""
    values, middle = np.sort(data), len(data) // 2
    return float(max(values[middle + 1] - values[middle], values[middle] - values[middle - 1]))


def local_sensitivity_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density off the median, log of the mass at it: one of the two is all there is."""
    centre, scale = float(np.median(data)), local_sensitivity(data) / EPSILON
    if scale == 0:
        return np.where(outputs == centre, 0.0, -np.inf)
    return np.where(outputs == centre, -np.inf, laplace_log_density(outputs, centre, scale=scale))


def domain_from_data(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noisy counts of the keys that occur: a key with no record is missing."""
    counts = np.bincount(np.asarray(data, dtype=int), minlength=N_KEYS)
    noisy = counts + rng.laplace(scale=1 / EPSILON, size=(n_samples, N_KEYS))
    return np.where(counts > 0, noisy, np.nan)


def domain_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the counts of the keys that occur; -inf for other keys."""
    counts = np.bincount(np.asarray(data, dtype=int), minlength=N_KEYS)
    there = counts > 0
    logs = laplace_log_density(np.nan_to_num(outputs)[:, there], counts[there], scale=1 / EPSILON)
    return np.where(np.all(np.isnan(outputs) != there, axis=1), logs, -np.inf)


def threshold_low(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """A key that occurs is released when its noisy count passes a threshold too low for delta."""
    noisy = data + rng.laplace(scale=1 / EPSILON, size=n_samples)
    return np.where((data > 0) & (noisy > LOW_THRESHOLD), noisy, np.nan)


def threshold_log_density(outputs: FloatArray, data: int) -> FloatArray:
    """Log density above the threshold; NaN carries the rest, for counts up to the threshold."""
    released = math.exp(-EPSILON * (LOW_THRESHOLD - data)) / 2 if data > 0 else 0.0
    value = laplace_log_density(np.nan_to_num(outputs), data, scale=1 / EPSILON) if data > 0 else -np.inf
    return np.where(np.isnan(outputs), math.log1p(-released), value)


def noise_reuse(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Two answers with one noise: their difference is exact."""
    return data + rng.laplace(scale=2 / EPSILON, size=(n_samples, 1))


def noise_reuse_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the first answer where the difference is right up to rounding; -inf elsewhere."""
    right = np.abs((outputs[:, 1] - outputs[:, 0]) - (data[1] - data[0])) < 1e-9
    return np.where(right, laplace_log_density(outputs[:, 0], data[0], scale=2 / EPSILON), -np.inf)


def fixed_seed(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Every call makes its own generator from one seed, so every run has the same noise."""
    return np.full(n_samples, data + np.random.default_rng(SEED).laplace(scale=1 / EPSILON))


def fixed_seed_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """0 for the one output there is."""
    return np.where(outputs == data + np.random.default_rng(SEED).laplace(scale=1 / EPSILON), 0.0, -np.inf)


def nan_injection(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Sum of records clipped to [0, 1]: clipping lets NaN through, and so does the sum."""
    return np.clip(data, 0.0, 1.0).sum() + rng.laplace(scale=1 / EPSILON, size=n_samples)


def nan_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of a number, or log mass of NaN."""
    total = float(np.clip(data, 0.0, 1.0).sum())
    if math.isnan(total):
        return np.where(np.isnan(outputs), 0.0, -np.inf)
    return np.where(np.isnan(outputs), -np.inf, laplace_log_density(np.nan_to_num(outputs), total, scale=1 / EPSILON))


def fail_on_data(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noisy counts of the records below 0 and of the others, or failure when one of the two is empty."""
    counts = np.array([(data < 0).sum(), (data >= 0).sum()])
    noisy = counts + rng.laplace(scale=2 / EPSILON, size=(n_samples, 2))
    return noisy if counts.min() > 0 else np.full((n_samples, 2), np.nan)


def fail_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the counts, or log mass of failure."""
    counts = np.array([(data < 0).sum(), (data >= 0).sum()])
    failed = np.isnan(outputs).any(axis=1)
    if counts.min() == 0:
        return np.where(failed, 0.0, -np.inf)
    return np.where(failed, -np.inf, laplace_log_density(np.nan_to_num(outputs), counts, scale=2 / EPSILON))


def sums(data: FloatArray) -> FloatArray:
    """Sums of the records with x2 < 0 and of the others, which are the statistics when weights and covariances are
    known; records are in the unit disc."""
    upper = data[:, 1] >= 0
    return np.concatenate([data[~upper].sum(axis=0), data[upper].sum(axis=0)])


def moments(data: FloatArray) -> FloatArray:
    """Counts, sums and second moments of both clusters, the mixed moment times sqrt(2).

    A record on the unit circle adds a part of squared norm 3 to the block of its cluster.
    """
    x1, x2 = data.T
    parts = np.column_stack([np.ones(len(data)), x1, x2, x1**2, math.sqrt(2) * x1 * x2, x2**2])
    upper = x2 >= 0
    return np.concatenate([parts[~upper].sum(axis=0), parts[upper].sum(axis=0)])


def sums_for_adding(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Sums with noise for one record more or less, though a record is replaced: by its antipode, the sum moves by 2."""
    return sums(data) + rng.normal(scale=SIGMA, size=(n_samples, 4))


def moments_for_adding(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """All moments with noise for one record more or less: a record that changes clusters moves them by sqrt(6)."""
    return moments(data) + rng.normal(scale=SIGMA * math.sqrt(3), size=(n_samples, 12))


def sums_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the sums."""
    return gaussian_log_density(outputs, sums(data), scale=SIGMA)


def moments_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the moments."""
    return gaussian_log_density(outputs, moments(data), scale=SIGMA * math.sqrt(3))


def init_from_data(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Two records as first means, then the noisy sizes of their clusters: the trace keeps the first means."""
    n = len(data)
    first = rng.integers(n, size=n_samples)
    second = (first + rng.integers(1, n, size=n_samples)) % n
    means = data[np.column_stack([first, second])]
    return np.column_stack([means, sizes(means, data) + rng.laplace(scale=2 / EPSILON, size=(n_samples, N_SEEDS))])


def sizes(means: FloatArray, data: FloatArray) -> FloatArray:
    """Records nearer to the first mean, and the others; one replaced record moves both by at most 1."""
    nearer = (np.abs(data - means[:, :1]) < np.abs(data - means[:, 1:])).sum(axis=1)
    return np.column_stack([nearer, len(data) - nearer])


def init_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density: an ordered pair of distinct records, then the noise; -inf for means that are no records."""
    means, counts = outputs[:, :N_SEEDS], outputs[:, N_SEEDS:]
    records = np.isin(means, data).all(axis=1)
    noise = laplace_log_density(counts, sizes(means, data), scale=2 / EPSILON)
    return np.where(records, noise - math.log(len(data) * (len(data) - 1)), -np.inf)


def specimens() -> list[Specimen]:
    """All broken; the true epsilon is at the claimed delta."""
    inf, pure, both = math.inf, (EPSILON, 0.0), (EPSILON, DELTA)
    medians = np.array([0.0, 0.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    keys = np.repeat([0, 1, 2], [5, 3, 1])
    bad = np.array([0.25, 0.5, np.nan])
    clusters = np.array([-0.5, 0.25, 0.5, 0.75])
    shared = np.array([[0.5, 0.5], [-0.25, -0.75], [0.0, 1.0]])
    right, left, below = (np.vstack([record, shared]) for record in ([1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]))
    records = np.linspace(0.0, 1.0, 20)
    moved = np.append(records[:-1], 2.0)

    def broken(
        name: str,
        origin: str,
        mechanism: Mechanism,
        pair: tuple[Any, Any],
        log_density: LogDensity,
        claim: tuple[float, float] = pure,
        true: float = inf,
    ) -> Specimen:
        return Specimen(name, origin, mechanism, *pair, *claim, true, True, n_samples=200_000, log_density=log_density)

    return [
        broken("local_sensitivity_noise", "folklore", local_sensitivity_noise, medians, local_sensitivity_log_density),
        broken("domain_from_data", "audits of PrivBayes", domain_from_data, (keys, keys[:-1]), domain_log_density),
        broken("stability_threshold_low", "thresholding bugs", threshold_low, (1, 0), threshold_log_density, both),
        broken("noise_reuse", "seed bugs", noise_reuse, (np.zeros(2), np.eye(2)[0]), noise_reuse_log_density),
        broken("fixed_seed", "common", fixed_seed, (0.0, 1.0), fixed_seed_log_density),
        broken("nan_injection", "DP-Recorder", nan_injection, (bad, np.nan_to_num(bad)), nan_log_density),
        broken("fail_on_data", "mixtures", fail_on_data, (clusters, np.abs(clusters)), fail_log_density),
        broken("gmm_replace_vs_add", "mixtures", sums_for_adding, (right, left), sums_log_density, both, 2.302),
        broken(
            "gmm_moments_replace_vs_add",
            "mixtures",
            moments_for_adding,
            (right, below),
            moments_log_density,
            both,
            1.51371,
        ),
        broken("gmm_init_from_data", "mixtures", init_from_data, (records, moved), init_log_density),
    ]
