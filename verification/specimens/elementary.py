"""One released statistic, sensitivity 1: the classics, sound twins, and the same mechanisms as bits.

Real-valued noise in floating point leaks through its low bits: the float specimens are sound as numbers and broken as
bits. The controls on a grid of 1/64 add integer noise and are sound as both.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.privacy.noise import discrete_gaussian, discrete_laplace
from verification.specimens.specimen import LogDensity, Mechanism, Specimen

GRID = 64  # grid steps in one sensitivity
SIGMA = 2.5747  # Gaussian noise that is (1, 1e-3)-DP at sensitivity 1
GRID_SIGMA = 1.001 * SIGMA * GRID  # one part in a thousand above the calibration, for the discrete noise
NAMED = 0.01  # probability of being named
HISTOGRAM_EPSILON = 0.5
SAMPLED_EPSILON, SAMPLED_SHARE = 1.4, 0.5  # of the noise; of the records said to be drawn
AMPLIFIED = math.log1p(SAMPLED_SHARE * math.expm1(SAMPLED_EPSILON))  # what the drawing would have given


def laplace(data: Any, n_samples: int, rng: np.random.Generator, *, scale: float) -> Any:
    """A number, or a vector, with Laplace noise."""
    return data + rng.laplace(scale=scale, size=(n_samples, *np.shape(data)))


def laplace_log_density(outputs: FloatArray, data: Any, *, scale: float) -> FloatArray:
    """Log density of independent Laplace noise."""
    logs = -np.abs(outputs - data) / scale - math.log(2 * scale)
    return np.asarray(logs.reshape(len(logs), -1).sum(axis=1))


def integer_log_density(noise: FloatArray, *, scale: float) -> FloatArray:
    """Log probability of independent discrete Laplace noise."""
    logs = math.log(math.tanh(1 / (2 * scale))) - np.abs(np.rint(noise)) / scale
    return np.asarray(logs.reshape(len(logs), -1).sum(axis=1))


def gaussian(data: Any, n_samples: int, rng: np.random.Generator, *, scale: float) -> Any:
    """A number, or a vector, with Gaussian noise."""
    return data + rng.normal(scale=scale, size=(n_samples, *np.shape(data)))


def gaussian_log_density(outputs: FloatArray, data: Any, *, scale: float) -> FloatArray:
    """Log density of independent Gaussian noise."""
    logs = -(((outputs - data) / scale) ** 2) / 2 - math.log(2 * math.pi * scale**2) / 2
    return np.asarray(logs.reshape(len(logs), -1).sum(axis=1))


def laplace_half(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Half the noise that epsilon = 1 needs."""
    return laplace(data, n_samples, rng, scale=0.5)


def laplace_tenth_short(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """A tenth less noise than epsilon = 1 needs."""
    return laplace(data, n_samples, rng, scale=1 / 1.1)


def histogram_wrong_scale(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Counts with Laplace(epsilon) where Laplace(1/epsilon) is due; adding or removing a record."""
    return laplace(data, n_samples, rng, scale=HISTOGRAM_EPSILON)


def subsample_not_done(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Noise for the amplification by drawing half of the records, which are all used."""
    return laplace(data, n_samples, rng, scale=1 / SAMPLED_EPSILON)


def one_sided_exponential(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Noise that only adds: outputs below the larger value are impossible there."""
    return data + rng.exponential(size=n_samples)


def one_sided_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log density; -inf below the value."""
    return np.where(outputs >= data, data - outputs, -np.inf)


def gaussian_half(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Half the Gaussian noise that (1, 1e-3) needs."""
    return gaussian(data, n_samples, rng, scale=SIGMA / 2)


def gaussian_as_pure(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Standard normal noise said to be epsilon-DP with delta = 0."""
    return gaussian(data, n_samples, rng, scale=1.0)


def gaussian_largest_coordinate(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noise for the largest change of one coordinate, when all four may change as much."""
    return gaussian(data, n_samples, rng, scale=SIGMA)


def name_and_shame(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Once in a hundred runs the record itself with a flag, else a noisy value."""
    named = rng.random(n_samples) < NAMED
    return np.column_stack([named, np.where(named, data, laplace(data, n_samples, rng, scale=1.0))])


def named_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log of the mass of a named record, of the density of a noisy value."""
    flag, value = outputs.T
    noisy = laplace_log_density(value, data, scale=1.0) + math.log1p(-NAMED)
    return np.where(flag == 1, np.where(value == data, math.log(NAMED), -np.inf), noisy)


def grid_laplace(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Discrete Laplace noise on the grid: exactly epsilon = 1."""
    return (data * GRID + discrete_laplace(n_samples, scale=GRID, rng=rng)) / GRID


def grid_laplace_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability of a point of the grid."""
    return integer_log_density((outputs - data) * GRID, scale=GRID)


def grid_gaussian(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Discrete Gaussian noise on the grid for (1, 1e-3)."""
    return (data * GRID + discrete_gaussian(n_samples, scale=GRID_SIGMA, rng=rng)) / GRID


def grid_gaussian_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability of a point of the grid; the sum over integers is the integral to far below double precision."""
    return np.asarray(
        -(((outputs - data) * GRID / GRID_SIGMA) ** 2) / 2 - math.log(GRID_SIGMA * math.sqrt(2 * math.pi))
    )


def laplace_float(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Laplace noise of NumPy's sampler, scale 1: as bits the spacing of the outputs tells the value."""
    return laplace(data, n_samples, rng, scale=1.0)


def gaussian_float(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Gaussian noise of NumPy's sampler, calibrated to (1, 1e-3): as bits the spacing tells the value."""
    return gaussian(data, n_samples, rng, scale=SIGMA)


def specimens() -> list[Specimen]:
    """Ten broken mechanisms, two more that are broken as bits, and five sound ones."""
    inf, pure, both = math.inf, (1.0, 0.0), (1.0, 1e-3)
    histogram = np.array([3.0, 1.0, 2.0, 0.0])
    longer = histogram + np.array([0.0, 1.0, 0.0, 0.0])

    def one(
        name: str,
        origin: str,
        mechanism: Mechanism,
        claim: tuple[float, float],
        true: float,
        log_density: LogDensity | None,
        pair: tuple[Any, Any] = (0.0, 1.0),
        level: str = "value",
    ) -> Specimen:
        return Specimen(
            name,
            origin,
            mechanism,
            *pair,
            *claim,
            true,
            origin != "control",
            n_samples=200_000,
            level=level,
            log_density=log_density,
        )

    def lap(scale: float) -> LogDensity:
        return functools.partial(laplace_log_density, scale=scale)

    def gauss(scale: float) -> LogDensity:
        return functools.partial(gaussian_log_density, scale=scale)

    wrong_scale, amplified = (HISTOGRAM_EPSILON, 0.0), (AMPLIFIED, 0.0)
    four = np.zeros(4), np.ones(4)
    linf, grid_lap, grid_gauss = gaussian_largest_coordinate, grid_laplace_log_density, grid_gaussian_log_density
    return [
        one("laplace_half", "common", laplace_half, pure, 2.0, lap(0.5)),
        one("laplace_10pct", "power test", laplace_tenth_short, pure, 1.1, lap(1 / 1.1)),
        one("one_sided_exp", "StatDP family", one_sided_exponential, pure, inf, one_sided_log_density),
        one("gauss_half", "DP-Auditorium", gaussian_half, both, 2.302, gauss(SIGMA / 2)),
        one("gauss_as_pure", "common", gaussian_as_pure, pure, inf, gauss(1.0)),
        one("gauss_Linf_for_L2", "common", linf, both, 2.302, gauss(SIGMA), four),
        one(
            "hist_wrong_scale",
            "Ding et al. (2018)",
            histogram_wrong_scale,
            wrong_scale,
            2.0,
            lap(HISTOGRAM_EPSILON),
            (histogram, longer),
        ),
        one(
            "subsample_not_done",
            "sampling bugs",
            subsample_not_done,
            amplified,
            SAMPLED_EPSILON,
            lap(1 / SAMPLED_EPSILON),
        ),
        one("name_and_shame", "textbook", name_and_shame, pure, inf, named_log_density),
        one("laplace_float", "Mironov (2012)", laplace_float, pure, inf, None, level="bit"),
        one("gauss_float", "Jin et al. (2021)", gaussian_float, both, inf, None, level="bit"),
        one("laplace_ok", "control", laplace_float, pure, 1.0, lap(1.0)),
        one("gauss_ok", "control", gaussian_float, both, 0.99998, gauss(SIGMA)),
        one("laplace_grid", "control", grid_laplace, pure, 1.0, grid_lap),
        one("laplace_grid_bits", "control", grid_laplace, pure, 1.0, grid_lap, level="bit"),
        one("gauss_grid", "control", grid_gaussian, both, 0.9988, grid_gauss),
    ]
