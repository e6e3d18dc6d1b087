"""The Gaussian mechanism with its exact calibration, on integers. Proof: gaussian.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from pm_dpgmm._arguments import FloatArray, check_delta, check_positive
from pm_dpgmm.privacy.curves import GaussianProfile
from pm_dpgmm.privacy.gaussian_curve import gaussian_delta
from pm_dpgmm.privacy.noise import Rng, discrete_gaussian

GRID_STEPS = 2.0**32  # in one noise scale; gaussian.md, step 3: what the sampler costs falls with its square
SMALLEST_EPSILON = 1e-4  # below it the difference of the curve's two terms loses digits


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest sensitivity / noise scale that is (epsilon, delta)-DP, from the exact curve.

    Balle and Wang (2018), Theorem 8. The root is moved inwards by a relative 1e-9, so that rounding cannot
    put the guarantee on the wrong side.

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-6), 4)
    0.2367
    """
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    if epsilon < SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least {SMALLEST_EPSILON:g} for exact calibration, got {epsilon:g}")

    def log_excess(log_mu: float) -> float:
        return math.log(max(gaussian_delta(epsilon, math.exp(log_mu)), 1e-300)) - math.log(delta)

    low = math.log(1e-8 * min(1.0, epsilon))
    high = math.log(2 * (math.sqrt(2 * epsilon) + 40.0))
    return float(math.exp(optimize.brentq(log_excess, low, high, xtol=1e-13)) * (1 - 1e-9))


def gaussian_mechanism(
    value: ArrayLike, *, sensitivity: float, epsilon: float, delta: float, rng: Rng = None
) -> tuple[FloatArray, float, GaussianProfile]:
    """Add Gaussian noise, exactly calibrated, that makes ``value`` (epsilon, delta)-DP.

    Parameters
    ----------
    value : array_like, any shape
        Exact statistic of the records, finite, in any unit.
    sensitivity : float
        Largest L2 change of ``value`` between neighbouring data sets, in the unit of ``value``.
    epsilon, delta : float
        Budget; 0 < delta < 1.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    noisy : ndarray, shape of ``value``
        Multiples of a public grid, 2^-32 of the noise scale.
    noise_scale : float
        Standard deviation of the noise, in the unit of ``value``.
    loss : GaussianProfile
        Privacy curve of this release.

    Raises
    ------
    ValueError
        If a parameter is out of range or ``value`` is not finite.

    Guarantee
    ---------
    (epsilon, delta)-DP, with rounding and the discrete sampler paid for: gaussian.md, after Balle and Wang
    (2018), Theorem 8, and Canonne, Kamath and Steinke (2020).
    """
    check_positive(sensitivity=sensitivity)
    exact = np.asarray(value, dtype=float)
    if not np.isfinite(exact).all():
        raise ValueError("value must be finite")
    n_numbers = max(exact.size, 1)
    slack = n_numbers / (16 * GRID_STEPS**2)
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    # the sampler's slack counts (1 + exp(epsilon)) times: where that nears delta, calibrate at a smaller epsilon
    calibrated = min(epsilon, math.log(delta / (4 * slack)))
    if calibrated < min(epsilon, SMALLEST_EPSILON):
        raise ValueError(f"delta must be at least {8 * slack:.2g} for {n_numbers} numbers, got {delta:g}")
    mu = gaussian_mu(calibrated, delta - (1 + math.exp(calibrated)) * slack)
    grid = 2.0 ** math.floor(math.log2(sensitivity / mu)) / GRID_STEPS
    steps = sensitivity / grid + math.sqrt(n_numbers)  # each number is rounded by at most half a step
    scale = math.ceil(steps / mu)
    # clipping to 2^61 steps moves two values no farther apart, so the sensitivity holds for any input
    rounded = np.rint(np.clip(exact / grid, -(2.0**61), 2.0**61)).astype(np.int64)
    noisy = rounded + discrete_gaussian(exact.shape, scale=float(scale), rng=rng)
    return np.asarray(noisy * grid, dtype=float), scale * grid, GaussianProfile(steps / scale, slack)
