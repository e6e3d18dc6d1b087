"""One-sided noise on variances and covariances, as printed in DP-EM (Park, Foulds, Chaudhuri, Welling).

Both are claimed epsilon-DP. Adding noise that is never negative leaves outputs that only one of two neighbours can
produce: the exact delta is 1 - exp(-epsilon) for every epsilon. The twins add two-sided noise on a grid.
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


def specimens() -> list[Specimen]:
    """S2 and S3 with their sound twins."""
    e1, nothing = np.array([1.0, 0.0]), np.zeros(2)
    diagonal = np.array([1.0, 1.0]) / math.sqrt(2)
    paper = "Park et al., DP-EM"
    return [
        Specimen("S2_gamma_variance", paper, gamma_variance, 1.0, 0.0, EPSILON, 0.0, math.inf, True),
        Specimen("S2_twin_laplace", "control", laplace_variance, 1.0, 0.0, EPSILON, 0.0, EPSILON, False),
        Specimen("S3_wishart_covariance", paper, wishart_covariance, e1, nothing, EPSILON, 0.0, math.inf, True),
        Specimen("S3_twin_laplace", "control", laplace_covariance, diagonal, nothing, EPSILON, 0.0, EPSILON, False),
    ]
