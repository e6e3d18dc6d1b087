"""Many small posteriors by adaptive importance sampling: few evaluations of the density, and the error is known.

For densities that cost too much for :mod:`verification.calibration.ensemble`. Proposals are multivariate t laws, fitted
to the weighted draws so far, first of a tempered posterior, then of the posterior itself. :func:`laplace` gives a first
one that mostly needs no tempering, for a tenth of the evaluations.
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
PATIENCE, MORE = 10, 4  # after so many rounds, the next have so many times the draws: skewed posteriors need them
REFINEMENTS = 2  # further fits once the posterior is no longer tempered
STEP = 0.02  # of differences, in prior deviations
NEWTON_STEPS, LENGTHS = 25, 0.5 ** np.arange(12)  # of one search for a mode; what is tried along each direction
CLOSE = 0.01  # of a log density: a mode is found when a step gains less
LEAST_PRECISION = 0.5  # of a normal proposal, in that of the prior: a posterior has more in nearly every direction


@dataclass(frozen=True, slots=True)
class Weighted:
    """``draws`` (S, P) of equal weight, of as many weighted ones or more, worth ``effective`` independent ones."""

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
        Of the last round; rounds before it use half as many, and a quarter while tempered.
    covariance : ndarray, shape (P, P), optional
        Of the first proposal, in place of ``spread``; no round has less than half the draws then.

    Raises
    ------
    ArithmeticError
        No proposal becomes like the posterior: ``LEAST_EFFECTIVE`` effective draws for each parameter.
    """
    mean = np.array(centre, dtype=float)
    tempered_share = 4 if covariance is None else 2
    covariance = np.diag(np.square(spread)) if covariance is None else covariance
    least, refined = LEAST_EFFECTIVE * len(mean), 0
    for number in range(MOST_ROUNDS):
        last = refined > REFINEMENTS
        share = 1 if last else 2 if refined else tempered_share
        size = n_draws * MORE ** (number // PATIENCE) // share
        points, log_weights = _weighted(log_density, mean, covariance, size, rng)
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
    return Weighted(points[np.minimum(places, len(points) - 1)], 1 / float(np.square(weights).sum()))


def sample_from_mode(
    log_density: LogDensity, start: FloatArray, spread: FloatArray, *, n_draws: int, rng: np.random.Generator
) -> Weighted:
    """:func:`sample_weighted` whose first proposal is the :func:`laplace` approximation found from ``start``."""
    mode, covariance = laplace(log_density, start, spread)
    return sample_weighted(log_density, mode, spread, covariance=covariance, n_draws=n_draws, rng=rng)


def laplace(log_density: LogDensity, start: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mode (P,) near ``start`` and covariance (P, P) there, by Newton's method with differences.

    ``spread`` (P,): prior deviations, the unit of differences and of the least precision. Where the log density is not
    concave, a step goes along the directions with their curvatures' absolute values.
    """
    mode = np.array(start, dtype=float)
    for _ in range(NEWTON_STEPS):
        value, slope, precision = _differences(log_density, mode, spread)
        direction = spread * np.linalg.solve(precision, slope)
        values = log_density(mode + LENGTHS[:, None] * direction)
        best = int(np.argmax(values))
        if not values[best] > value + CLOSE:
            break
        mode = mode + LENGTHS[best] * direction
    return mode, np.linalg.inv(precision) * np.outer(spread, spread)


def _differences(log_density: LogDensity, at: FloatArray, spread: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Value, gradient (P,) and positive precision (P, P) at one point, in units of ``spread``."""
    size = len(at)
    unit = STEP * np.eye(size)
    i, j = np.triu_indices(size, 1)
    moves = np.concatenate([np.zeros((1, size)), unit, -unit, unit[i] + unit[j], -unit[i] - unit[j]])
    values = log_density(at + moves * spread)
    up, down = values[1 : size + 1], values[size + 1 : 2 * size + 1]
    both = up + down - 2 * values[0]
    curvature = np.diag(both)
    pairs = values[2 * size + 1 :].reshape(2, -1).sum(axis=0) - 2 * values[0]
    curvature[i, j] = curvature[j, i] = (pairs - both[i] - both[j]) / 2
    lengths, axes = np.linalg.eigh(-curvature / STEP**2)
    precision = axes * np.maximum(np.abs(lengths), LEAST_PRECISION) @ axes.T
    return float(values[0]), (up - down) / (2 * STEP), precision


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
