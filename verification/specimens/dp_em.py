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
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.privacy.noise import discrete_laplace
from verification.specimens.elementary import integer_log_density, laplace_log_density
from verification.specimens.specimen import LogDensity, Mechanism, Specimen

EPSILON = 1.0  # claimed for one release
N_EFFECTIVE = 10.0  # the already released soft count of the cluster
BASE = 0.6  # second moment of the records that both neighbours share
GRID = 64
RELEASED = 8  # a soft count released before, so public, of the twin of S4
TRIANGLE = 1.5 * GRID + 1.5  # change of the upper triangle in grid steps, rounding included
BOUND = 1024  # public largest norm of the twin of S6


def gamma_variance(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Second moment plus Gamma(1, rate = epsilon d N) noise, d = 1; ``data`` is the record that may change."""
    return BASE + data**2 / N_EFFECTIVE + rng.exponential(scale=1 / (EPSILON * N_EFFECTIVE), size=n_samples)


def gamma_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log density; -inf below the exact moment."""
    noise, rate = outputs - (BASE + data**2 / N_EFFECTIVE), EPSILON * N_EFFECTIVE
    return np.where(noise >= 0, math.log(rate) - rate * noise, -np.inf)


def laplace_variance(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """The same statistic with discrete Laplace noise: exactly epsilon."""
    step = 1 / (N_EFFECTIVE * GRID)
    value = round((BASE + data**2 / N_EFFECTIVE) / step)
    return (value + discrete_laplace(n_samples, scale=GRID / EPSILON, rng=rng)) * step


def laplace_variance_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability."""
    step = 1 / (N_EFFECTIVE * GRID)
    return integer_log_density(outputs / step - round((BASE + data**2 / N_EFFECTIVE) / step), scale=GRID / EPSILON)


def wishart_covariance(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Second-moment matrix plus Wishart noise with d + 1 degrees of freedom and scale 1/(2 epsilon N)."""
    d = len(data)
    factors = rng.standard_normal((n_samples, d, d + 1)) / math.sqrt(2 * EPSILON * N_EFFECTIVE)
    return BASE * np.eye(d) + np.outer(data, data) / N_EFFECTIVE + factors @ np.swapaxes(factors, 1, 2)


def wishart_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density of d + 1 degrees of freedom, which is exponential in the trace; -inf off the cone."""
    d, rate = len(data), EPSILON * N_EFFECTIVE
    noise = outputs - (BASE * np.eye(d) + np.outer(data, data) / N_EFFECTIVE)
    norm = special.multigammaln((d + 1) / 2, d) - d * (d + 1) / 2 * math.log(rate)
    trace = np.trace(noise, axis1=1, axis2=2)
    return np.where(np.linalg.eigvalsh(noise)[:, 0] >= 0, -rate * trace - norm, -np.inf)


def laplace_covariance(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The same matrix with independent discrete Laplace noise on its upper triangle.

    A record of norm at most 1 moves the triangle by at most 1 + 1/2 in L1: |x1|^2 + |x2|^2 + |x1 x2|.
    """
    steps = covariance_steps(data)
    return (steps + discrete_laplace((n_samples, len(steps)), scale=TRIANGLE / EPSILON, rng=rng)) / (GRID * N_EFFECTIVE)


def covariance_steps(data: FloatArray) -> FloatArray:
    """The upper triangle in grid steps."""
    rows, columns = np.triu_indices(len(data))
    return np.rint((BASE * np.eye(len(data)) * N_EFFECTIVE + np.outer(data, data))[rows, columns] * GRID)


def laplace_covariance_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability."""
    return integer_log_density(outputs * GRID * N_EFFECTIVE - covariance_steps(data), scale=TRIANGLE / EPSILON)


def laplace_mean_true_count(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Mean of the cluster's records plus Laplace(2/(epsilon N_k)): the scale is as private as the records are."""
    return data.mean() + rng.laplace(scale=2 / (EPSILON * len(data)), size=n_samples)


def mean_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density."""
    return laplace_log_density(outputs, data.mean(), scale=2 / (EPSILON * len(data)))


def laplace_mean_released_count(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Sum over the released count, noise for that very statistic: exactly epsilon when one record turns round."""
    steps = round(data.sum() * GRID)
    return (steps + discrete_laplace(n_samples, scale=2 * GRID / EPSILON, rng=rng)) / (RELEASED * GRID)


def released_count_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability."""
    return integer_log_density(outputs * RELEASED * GRID - round(data.sum() * GRID), scale=2 * GRID / EPSILON)


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
    counts, sums = counts_and_sums(data)
    noisy_counts = counts + discrete_laplace((n_samples, 2), scale=2 / EPSILON, rng=rng)
    noise = discrete_laplace((n_samples, 2), scale=2 * GRID / EPSILON, rng=rng)
    return np.column_stack([noisy_counts, (sums + noise) / GRID])


def counts_and_sums(data: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of both clusters, the sums in grid steps."""
    cluster, values = data[:, 0].astype(int), data[:, 1]
    sums = np.bincount(cluster, weights=values, minlength=2)
    return np.bincount(cluster, minlength=2).astype(float), np.rint(sums * GRID)


def counts_and_sums_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability."""
    counts, sums = counts_and_sums(data)
    noise, noise_of_sums = outputs[:, :2] - counts, outputs[:, 2:] * GRID - sums
    return integer_log_density(noise, scale=2 / EPSILON) + integer_log_density(noise_of_sums, scale=2 * GRID / EPSILON)


def laplace_mean_own_norm(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Records divided by the largest of their norms, then the mean of records of norm at most 1."""
    return (data / np.abs(data).max()).mean() + rng.laplace(scale=2 / (EPSILON * len(data)), size=n_samples)


def own_norm_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log density."""
    return laplace_log_density(outputs, (data / np.abs(data).max()).mean(), scale=2 / (EPSILON * len(data)))


def laplace_sum_public_norm(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Records clipped to a public norm and rounded; their sum with integer noise for it."""
    return clipped_sum(data) + discrete_laplace(n_samples, scale=2 * BOUND / EPSILON, rng=rng)


def clipped_sum(data: FloatArray) -> int:
    """Of whole numbers."""
    return int(np.rint(np.clip(data, -BOUND, BOUND)).sum())


def public_norm_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability."""
    return integer_log_density(outputs - clipped_sum(data), scale=2 * BOUND / EPSILON)


def specimens() -> list[Specimen]:
    """S2 to S6 with their sound twins."""
    e1, nothing = np.array([1.0, 0.0]), np.zeros(2)
    diagonal = np.array([1.0, 1.0]) / math.sqrt(2)
    inf = math.inf
    leaves = np.array([-1.0, 1.0]), np.array([-1.0])
    turns = np.array([-1.0, 1.0]), np.array([-1.0, -1.0])
    alone = np.array([1.0]), np.array([-1.0])
    moves = np.array([[0, 1.0], [0, 0.5], [1, 0.25]]), np.array([[1, -1.0], [0, 0.5], [1, 0.25]])
    ones, outlier, up, down = (np.ones(1000) for _ in range(4))
    outlier[0], up[0], down[0] = 1000.0, BOUND, -BOUND
    own_norm = 500 * EPSILON * (1 - (999 / 1000 + 1) / 1000)  # gap of the means over the scale 2/(epsilon 1000)
    note = "delta(epsilon) = exp(-(epsilon - 1)/2)/4"

    def one(
        name: str, mechanism: Mechanism, pair: tuple[Any, Any], true: float, log_density: LogDensity, releases: int = 1
    ) -> Specimen:
        broken, claim = true > releases * EPSILON, (releases * EPSILON, 0.0)
        return Specimen(
            name,
            "Park et al., DP-EM" if broken else "control",
            mechanism,
            *pair,
            *claim,
            true,
            broken,
            note={"S4_mean_true_count": "delta(1) = 0.142", "S5_mean_noisy_scale": note}.get(name, ""),
            log_density=log_density,
        )

    return [
        one("S2_gamma_variance", gamma_variance, (1.0, 0.0), inf, gamma_log_density),
        one("S2_twin_laplace", laplace_variance, (1.0, 0.0), EPSILON, laplace_variance_log_density),
        one("S3_wishart_covariance", wishart_covariance, (e1, nothing), inf, wishart_log_density),
        one("S3_twin_laplace", laplace_covariance, (diagonal, nothing), EPSILON, laplace_covariance_log_density),
        one("S4_mean_true_count", laplace_mean_true_count, leaves, inf, mean_log_density),
        one("S4_twin_released_count", laplace_mean_released_count, turns, EPSILON, released_count_log_density),
        one("S5_mean_noisy_scale", laplace_mean_noisy_scale, alone, inf, noisy_scale_log_density, 2),
        one("S5_twin_counts_and_sums", laplace_counts_and_sums, moves, 2 * EPSILON, counts_and_sums_log_density, 2),
        one("S6_own_norm", laplace_mean_own_norm, (ones, outlier), own_norm, own_norm_log_density),
        one("S6_twin_public_norm", laplace_sum_public_norm, (up, down), EPSILON, public_norm_log_density),
    ]
