"""One number, sensitivity 1: the classics, and the same mechanisms done right on a grid.

Controls add integer noise on a grid of 1/64: real-valued noise in floating point leaks through its low bits, so it is
no clean control.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pm_dpgmm.noise import discrete_gaussian, discrete_laplace
from verification.specimens import Specimen

GRID = 64  # grid steps in one sensitivity
SIGMA = 2.5747  # Gaussian noise that is (1, 1e-3)-DP at sensitivity 1


def laplace_half(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Half the noise that epsilon = 1 needs."""
    return data + rng.laplace(scale=0.5, size=n_samples)


def one_sided_exponential(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Noise that only adds: outputs below the larger value are impossible there."""
    return data + rng.exponential(size=n_samples)


def gaussian_half(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Half the Gaussian noise that (1, 1e-3) needs."""
    return data + rng.normal(scale=SIGMA / 2, size=n_samples)


def grid_laplace(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Discrete Laplace noise on the grid: exactly epsilon = 1."""
    return (data * GRID + discrete_laplace(n_samples, scale=GRID, rng=rng)) / GRID


def grid_gaussian(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Discrete Gaussian noise on the grid, one part in a thousand above the exact calibration for (1, 1e-3)."""
    return (data * GRID + discrete_gaussian(n_samples, scale=1.001 * SIGMA * GRID, rng=rng)) / GRID


def specimens() -> list[Specimen]:
    """Three broken mechanisms and two sound ones."""
    folklore, family = "common", "StatDP family"
    return [
        Specimen("laplace_half", folklore, laplace_half, 0.0, 1.0, 1.0, 0.0, 2.0, True),
        Specimen("one_sided_exp", family, one_sided_exponential, 0.0, 1.0, 1.0, 0.0, math.inf, True),
        Specimen("gauss_half", "DP-Auditorium", gaussian_half, 0.0, 1.0, 1.0, 1e-3, 2.302, True),
        Specimen("laplace_grid", "control", grid_laplace, 0.0, 1.0, 1.0, 0.0, 1.0, False),
        Specimen("gauss_grid", "control", grid_gaussian, 0.0, 1.0, 1.0, 1e-3, 0.9988, False),
    ]
