"""Releases of DP-EM as printed (Park, Foulds, Chaudhuri, Welling), each claimed epsilon-DP.

S2 and S3, one-sided noise on variances and covariances: noise that is never negative leaves outputs that only one of
two neighbours can produce, so the exact delta is 1 - exp(-epsilon) for every epsilon. S4 and S5, means whose noise or
denominator uses the true count: the scales differ between neighbours. S6, records divided by their own largest norm.
The twins add two-sided noise of a public scale on a grid.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.noise import discrete_laplace
from verification.specimens import Specimen

EPSILON = 1.0  # claimed for one release
N_EFFECTIVE = 10.0  # the already released soft count of the cluster
BASE = 0.6  # second moment of the records that both neighbours share
GRID = 64
RELEASED = 8  # a soft count released before, so public, of the twin of S4
BOUND = 1024  # public largest norm of the twin of S6


def gamma_variance(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Second moment plus Gamma(1, rate = epsilon d N) noise, d = 1; ``data`` is the record that may change."""
    return BASE + data**2 / N_EFFECTIVE + rng.exponential(scale=1 / (EPSILON * N_EFFECTIVE), size=n_samples)


def laplace_variance(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """The same statistic with discrete Laplace noise: exactly epsilon."""
    step = 1 / (N_EFFECTIVE * GRID)
    value = round((BASE + data**2 / N_EFFECTIVE) / step)
    return (value + discrete_laplace(n_samples, scale=GRID / EPSILON, rng=rng)) * step


def wishart_covariance(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Second-moment matrix plus Wishart noise with d + 1 degrees of freedom and scale 1/(2 epsilon N)."""
    d = len(data)
    factors = rng.standard_normal((n_samples, d, d + 1)) / math.sqrt(2 * EPSILON * N_EFFECTIVE)
    return BASE * np.eye(d) + np.outer(data, data) / N_EFFECTIVE + factors @ np.swapaxes(factors, 1, 2)


def laplace_covariance(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The same matrix with independent discrete Laplace noise on its upper triangle.

    A record of norm at most 1 moves the triangle by at most 1 + 1/2 in L1: |x1|^2 + |x2|^2 + |x1 x2|.
    """
    rows, columns = np.triu_indices(len(data))
    steps = np.rint((BASE * np.eye(len(data)) * N_EFFECTIVE + np.outer(data, data))[rows, columns] * GRID)
    noise = discrete_laplace((n_samples, len(rows)), scale=(1.5 * GRID + 1.5) / EPSILON, rng=rng)
    return (steps + noise) / (GRID * N_EFFECTIVE)


def laplace_mean_true_count(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Mean of the cluster's records plus Laplace(2/(epsilon N_k)): the scale is as private as the records are."""
    return data.mean() + rng.laplace(scale=2 / (EPSILON * len(data)), size=n_samples)


def laplace_mean_released_count(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Sum over the released count, noise for that very statistic: exactly epsilon when one record turns round."""
    steps = round(data.sum() * GRID)
    return (steps + discrete_laplace(n_samples, scale=2 * GRID / EPSILON, rng=rng)) / (RELEASED * GRID)


def laplace_mean_noisy_scale(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noisy count, then the true mean with noise 2/(epsilon noisy count), at most 2/epsilon: 2 epsilon claimed."""
    counts = len(data) + rng.laplace(scale=2 / EPSILON, size=n_samples)
    means = data.mean() + rng.laplace(scale=2 / (EPSILON * np.maximum(counts, 1.0)))
    return np.column_stack([counts, means])


def noisy_scale_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of the count and the mean."""
    counts, means = outputs.T
    rate = EPSILON * np.maximum(counts, 1.0) / 2
    count = math.log(EPSILON / 4) - np.abs(counts - len(data)) * EPSILON / 2
    return np.asarray(count + np.log(rate / 2) - np.abs(means - data.mean()) * rate)


def laplace_counts_and_sums(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noisy counts and noisy sums of two clusters; rows of ``data`` are (cluster, value), values in [-1, 1].

    Replacing a record moves the counts by at most 2 in L1, and so the sums.
    """
    cluster, values = data[:, 0].astype(int), data[:, 1]
    counts, sums = np.bincount(cluster, minlength=2), np.bincount(cluster, weights=values, minlength=2)
    noisy_counts = counts + discrete_laplace((n_samples, 2), scale=2 / EPSILON, rng=rng)
    noise = discrete_laplace((n_samples, 2), scale=2 * GRID / EPSILON, rng=rng)
    return np.column_stack([noisy_counts, (np.rint(sums * GRID) + noise) / GRID])


def laplace_mean_own_norm(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Records divided by the largest of their norms, then the mean of records of norm at most 1."""
    return (data / np.abs(data).max()).mean() + rng.laplace(scale=2 / (EPSILON * len(data)), size=n_samples)


def laplace_sum_public_norm(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Records clipped to a public norm and rounded; their sum with integer noise for it."""
    total = int(np.rint(np.clip(data, -BOUND, BOUND)).sum())
    return total + discrete_laplace(n_samples, scale=2 * BOUND / EPSILON, rng=rng)


def specimens() -> list[Specimen]:
    """S2 to S6 with their sound twins."""
    e1, nothing = np.array([1.0, 0.0]), np.zeros(2)
    diagonal = np.array([1.0, 1.0]) / math.sqrt(2)
    paper, inf = "Park et al., DP-EM", math.inf
    leaves = np.array([-1.0, 1.0]), np.array([-1.0])
    turns = np.array([-1.0, 1.0]), np.array([-1.0, -1.0])
    alone = np.array([1.0]), np.array([-1.0])
    moves = np.array([[0, 1.0], [0, 0.5], [1, 0.25]]), np.array([[1, -1.0], [0, 0.5], [1, 0.25]])
    ones, outlier, up, down = (np.ones(1000) for _ in range(4))
    outlier[0], up[0], down[0] = 1000.0, BOUND, -BOUND
    own_norm = 500 * EPSILON * (1 - (999 / 1000 + 1) / 1000)  # gap of the means over the scale 2/(epsilon 1000)
    means, scale = laplace_mean_true_count, laplace_mean_noisy_scale
    return [
        Specimen("S2_gamma_variance", paper, gamma_variance, 1.0, 0.0, EPSILON, 0.0, inf, True),
        Specimen("S2_twin_laplace", "control", laplace_variance, 1.0, 0.0, EPSILON, 0.0, EPSILON, False),
        Specimen("S3_wishart_covariance", paper, wishart_covariance, e1, nothing, EPSILON, 0.0, inf, True),
        Specimen("S3_twin_laplace", "control", laplace_covariance, diagonal, nothing, EPSILON, 0.0, EPSILON, False),
        Specimen("S4_mean_true_count", paper, means, *leaves, EPSILON, 0.0, inf, True, note="delta(1) = 0.142"),
        Specimen(
            "S4_twin_released_count", "control", laplace_mean_released_count, *turns, EPSILON, 0.0, EPSILON, False
        ),
        Specimen(
            "S5_mean_noisy_scale",
            paper,
            scale,
            *alone,
            2 * EPSILON,
            0.0,
            inf,
            True,
            note="delta(epsilon) = exp(-(epsilon - 1)/2)/4",
        ),
        Specimen(
            "S5_twin_counts_and_sums",
            "control",
            laplace_counts_and_sums,
            *moves,
            2 * EPSILON,
            0.0,
            2 * EPSILON,
            False,
        ),
        Specimen("S6_own_norm", paper, laplace_mean_own_norm, ones, outlier, EPSILON, 0.0, own_norm, True),
        Specimen("S6_twin_public_norm", "control", laplace_sum_public_norm, up, down, EPSILON, 0.0, EPSILON, False),
    ]


LOG_DENSITIES = {"S5_mean_noisy_scale": noisy_scale_log_density}
