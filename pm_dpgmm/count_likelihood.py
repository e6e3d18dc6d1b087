"""Exact likelihood of a Poisson count that was published with discrete Laplace noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray

SMALLEST_SCALE = 0.2  # noise below this moves a count with probability below 0.014; exp(1/scale) stays moderate
TINY = 1e-290  # below it a probability is replaced by its tail expansion


def count_log_likelihood(
    counts: FloatArray, expected: FloatArray, *, noise_scale: float
) -> tuple[FloatArray, FloatArray]:
    """log P[y + z = c] up to a constant, and its derivative by the expected count.

    y is Poisson with mean m and z discrete Laplace of scale b. Splitting the sum over y at c leaves two Poisson
    probabilities with means m exp(1/b) and m exp(-1/b), so no sum is needed:

        P[c] ~   exp(-c/b + m (e^(1/b) - 1))  P[Pois(m e^(1/b)) <= c]
               + exp( c/b + m (e^(-1/b) - 1)) P[Pois(m e^(-1/b)) > c].

    Where counts are large against the noise this is the Poisson likelihood, whose maximum is the closest mixture in
    Kullback-Leibler divergence even when no mixture fits; where they are small it is that of the noise.

    Parameters
    ----------
    counts : ndarray, shape (M,)
        Published counts, integers, negative ones included.
    expected : ndarray, shape (M,)
        Expected counts m, positive.
    noise_scale : float
        Scale b; taken as at least 0.2.

    Returns
    -------
    log_likelihood, derivative : ndarray, shape (M,)
    """
    rate = 1 / max(noise_scale, SMALLEST_SCALE)
    negative = counts < 0
    c = np.where(negative, 0.0, counts)
    up, down = expected * np.exp(rate), expected * np.exp(-rate)
    # y <= c, and y > c; the primed ones are the same sums one step lower, which the derivative needs
    below = -c * rate + expected * np.expm1(rate)
    above = counts * rate + expected * np.expm1(-rate)
    low = np.where(negative, -np.inf, below + _log_poisson_at_most(c, up))
    low_step = np.where(negative | (c == 0), -np.inf, rate + below + _log_poisson_at_most(np.maximum(c - 1, 0), up))
    high = above + np.where(negative, 0.0, _log_poisson_above(c, down))
    high_step = above - rate + np.where(negative | (c == 0), 0.0, _log_poisson_above(np.maximum(c - 1, 0), down))
    log_likelihood = np.logaddexp(low, high)
    return log_likelihood, np.expm1(np.logaddexp(low_step, high_step) - log_likelihood)


def _log_poisson_at_most(c: FloatArray, mean: FloatArray) -> FloatArray:
    """log P[Pois(mean) <= c]."""
    probability = special.gammaincc(c + 1, mean)
    last = special.xlogy(c, mean) - mean - special.gammaln(c + 1)
    # far below the mean: terms fall from the last one by r = c/mean, and r itself falls by 1/mean a step
    tail = last + _log_falling_sum(c / mean, lambda r: r / mean)
    return np.where(probability > TINY, np.log(np.maximum(probability, TINY)), tail)


def _log_poisson_above(c: FloatArray, mean: FloatArray) -> FloatArray:
    """log P[Pois(mean) > c]."""
    probability = special.gammainc(c + 1, mean)
    first = special.xlogy(c + 1, mean) - mean - special.gammaln(c + 2)
    # far above the mean: terms fall from the first one by r = mean/(c + 2), and r by r/(c + 2) a step
    tail = first + _log_falling_sum(mean / (c + 2), lambda r: r**2 / (c + 2))
    return np.where(probability > TINY, np.log(np.maximum(probability, TINY)), tail)


def _log_falling_sum(ratio: FloatArray, change: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """log(1 + r + r r' + ...) when the ratios fall slowly: 1/(1 - r), corrected to first order in their change."""
    r = np.minimum(ratio, 0.999)
    return -np.log1p(-r) + np.log1p(-np.minimum(change(r) / (1 - r) ** 2, 0.5))
