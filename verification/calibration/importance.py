"""Many small posteriors by adaptive importance sampling: few evaluations of the density, and the error is known.

For densities that cost too much for :mod:`verification.calibration.ensemble`. Proposals are multivariate t laws, fitted
to the weighted draws so far, first of a tempered posterior, then of the posterior itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

FloatArray = NDArray[np.float64]
LogDensity = Callable[[FloatArray], FloatArray]

FREEDOM = 7.0  # of the t proposals
INFLATION = 1.1  # of their scale matrix over the fitted covariance
LEAST_EFFECTIVE = 15  # effective draws for each parameter, in a tempered round
MOST_ROUNDS = 30
REFINEMENTS = 2  # further fits once the posterior is no longer tempered


@dataclass(frozen=True, slots=True)
class Weighted:
    """``draws`` (S, P) of equal weight, resampled from as many weighted ones, worth ``effective`` independent ones."""

    draws: FloatArray
    effective: float


def sample_weighted(
    log_density: LogDensity,
    centre: FloatArray,
    spread: FloatArray,
    *,
    n_draws: int,
    rng: np.random.Generator,
    covariance: FloatArray | None = None,
) -> Weighted:
    """Draws from one posterior.

    Parameters
    ----------
    log_density : callable
        From points (W, P) to (W,): log density up to a constant, -inf outside the support.
    centre, spread : ndarray, shape (P,)
        Of the first proposal: the prior's.
    n_draws : int
        Of the last round; rounds before it use a quarter while tempered, then half as many.
    covariance : ndarray, shape (P, P), optional
        Of the first proposal, in place of ``spread``.

    Raises
    ------
    ArithmeticError
        No proposal becomes like the posterior: ``LEAST_EFFECTIVE`` effective draws for each parameter.
    """
    mean = np.array(centre, dtype=float)
    covariance = np.diag(np.square(spread)) if covariance is None else covariance
    least, refined = LEAST_EFFECTIVE * len(mean), 0
    for _ in range(MOST_ROUNDS):
        last = refined > REFINEMENTS
        share = 1 if last else 2 if refined else 4
        points, log_weights = _weighted(log_density, mean, covariance, n_draws // share, rng)
        power = _power(log_weights, least)
        if last and power == 1.0:
            break
        weights = special.softmax(power * log_weights)
        mean = weights @ points
        rest = points - mean
        covariance = (rest * weights[:, None]).T @ rest / (1 - np.square(weights).sum())
        refined = refined + 1 if power == 1.0 else 0
    else:
        raise ArithmeticError(f"no proposal after {MOST_ROUNDS} rounds is worth {least} draws of {n_draws}")
    weights = special.softmax(log_weights)
    # systematic resampling: less noise than independent choices
    places = np.searchsorted(np.cumsum(weights), (np.arange(n_draws) + rng.random()) / n_draws * (1 - 1e-12))
    return Weighted(points[np.minimum(places, n_draws - 1)], 1 / float(np.square(weights).sum()))


def _weighted(
    log_density: LogDensity, mean: FloatArray, covariance: FloatArray, n_draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draws of the t proposal and their log weights."""
    size = len(mean)
    root = np.linalg.cholesky(INFLATION * covariance)
    z = rng.normal(size=(n_draws, size)) * np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=(n_draws, 1)))
    log_proposal = -(FREEDOM + size) / 2 * np.log1p(np.square(z).sum(axis=1) / FREEDOM)
    points = mean + z @ root.T
    return points, log_density(points) - log_proposal


def _power(log_weights: FloatArray, effective: float) -> float:
    """Largest power, at most 1, of the weights that leaves this many effective draws."""

    def excess(log_power: float) -> float:
        weights = special.softmax(math.exp(log_power) * log_weights)
        return -math.log(np.square(weights).sum()) - math.log(effective)

    if excess(0.0) >= 0:
        return 1.0
    return math.exp(float(optimize.brentq(excess, math.log(1e-9), 0.0)))
