"""Noise on one number: the Gaussian mechanism and truncated Laplace noise on integers and on real numbers."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm.mechanisms.gaussian import GRID_STEPS, gaussian_mechanism, gaussian_mu
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace, truncated_laplace_count, truncated_laplace_loss
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.noise import discrete_gaussian, discrete_laplace, truncated_discrete_laplace
from verification.references.references import gaussian_epsilon
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of, truncated_floats

GAUSSIAN, TRUNCATED = "mechanisms/gaussian.py", "mechanisms/truncated_laplace.py"
BELOW_ONE = 0.999  # on no grid of powers of two
TEST_EPSILON = 0.5  # claimed of truncated Laplace noise
SENSITIVITY = 4  # of the integer
FINE = 2.0**20  # grid steps to the unit of the fault that does not round


# ---------------------------------------------------------------------- Gaussian
def gaussian(data: float, n_samples: int, rng: np.random.Generator, *, sensitivity: float = 1.0) -> Any:
    """The Gaussian mechanism, one number a run, each run calibrated and drawn as in a release.

    Runs are drawn together: with R numbers the rounding term grows by sqrt(R) grid steps of 2^-32 of the noise.
    """
    return gaussian_mechanism(np.full(n_samples, data), sensitivity=sensitivity, epsilon=EPSILON, delta=DELTA)[0]


def gaussian_in_floats(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: NumPy's normal numbers."""
    return data + rng.normal(scale=1.001 / gaussian_mu(EPSILON, DELTA), size=n_samples)


def gaussian_unrounded(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the noise is on a grid and the number is not, so every output shows what it lacks to a grid point."""
    grid = 1 / GRID_STEPS
    return data + grid * discrete_gaussian(n_samples, scale=1.001 * GRID_STEPS / gaussian_mu(EPSILON, DELTA))


# ---------------------------------------------------------------------- truncated Laplace
@functools.cache
def _test_loss() -> TruncatedLaplaceProfile:
    return truncated_laplace_loss(sensitivity=SENSITIVITY, epsilon=TEST_EPSILON, delta=DELTA)


def truncated(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Truncated Laplace noise on an integer of sensitivity 4."""
    return rows_of(lambda: [truncated_laplace_count(data, loss=_test_loss())], n_samples)


def truncated_by_clipping(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a Laplace clipped at the bound has atoms there (S11 in specimens/sample_efficient.py)."""
    loss = _test_loss()
    return data + np.clip(discrete_laplace(n_samples, scale=loss.scale, rng=rng), -loss.bound, loss.bound)


def truncated_in_floats(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: NumPy's Laplace numbers, truncated by rejection. The bound is a step wider, for numbers in between."""
    loss = _test_loss()
    return data + truncated_floats(n_samples, scale=loss.scale, bound=loss.bound + 1, rng=rng)


def real(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Truncated Laplace noise on a real number of sensitivity 1."""
    return rows_of(lambda: [truncated_laplace(data, sensitivity=1.0, epsilon=TEST_EPSILON, delta=DELTA)[0]], n_samples)


def real_unrounded(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: noise on a grid around a number that is not on it."""
    loss = truncated_laplace_loss(sensitivity=int(FINE), epsilon=TEST_EPSILON, delta=DELTA)
    return data + truncated_discrete_laplace(n_samples, scale=loss.scale, bound=loss.bound) / FINE


def real_half_noise(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: calibrated to half the sensitivity."""
    loss = truncated_laplace_loss(sensitivity=int(FINE / 2), epsilon=TEST_EPSILON, delta=DELTA)
    noise = truncated_discrete_laplace(n_samples, scale=loss.scale, bound=loss.bound, rng=rng)
    return (round(data * FINE) + noise) / FINE


def targets() -> list[Specimen]:
    """Three mechanisms at both levels with their faults."""
    half_gauss = functools.partial(gaussian, sensitivity=0.5)
    half_true = float(gaussian_epsilon(DELTA, noise_multiplier=0.5 / gaussian_mu(EPSILON, DELTA)))
    gauss, half = (1.0, DELTA), (TEST_EPSILON, DELTA)
    numbers, integers = (0.0, BELOW_ONE), (0, SENSITIVITY)
    fault_g, fault_t, inf = f"fault in {GAUSSIAN}", f"fault in {TRUNCATED}", math.inf
    return [
        Specimen("gaussian", GAUSSIAN, gaussian, 0.0, 1.0, *gauss, 1.0, False, 40_000),
        at_bits("gaussian_bits", GAUSSIAN, gaussian, *numbers, *gauss, 1.0, False, 25_000),
        Specimen("gaussian_half_noise", fault_g, half_gauss, 0.0, 1.0, *gauss, half_true, True, 20_000),
        at_bits("gaussian_float_noise_bits", fault_g, gaussian_in_floats, 0.0, 1.0, *gauss, inf, True, 12_000),
        at_bits("gaussian_unrounded_bits", fault_g, gaussian_unrounded, *numbers, *gauss, inf, True, 4_000),
        Specimen("truncated_laplace", TRUNCATED, truncated, *integers, *half, 0.5, False, 12_000),
        at_bits("truncated_laplace_bits", TRUNCATED, truncated, *integers, *half, 0.5, False, 8_000),
        Specimen("truncated_laplace_clipped", fault_t, truncated_by_clipping, *integers, *half, inf, True, 30_000),
        at_bits("truncated_laplace_float_noise_bits", fault_t, truncated_in_floats, *integers, *half, inf, True, 8_000),
        Specimen("truncated_laplace_real", TRUNCATED, real, *numbers, *half, 0.5, False, 8_000),
        at_bits("truncated_laplace_real_bits", TRUNCATED, real, *numbers, *half, 0.5, False, 6_000),
        Specimen("truncated_laplace_real_half_noise", fault_t, real_half_noise, *numbers, *half, inf, True, 60_000),
        at_bits("truncated_laplace_real_unrounded_bits", fault_t, real_unrounded, *numbers, *half, inf, True, 4_000),
    ]
