"""Exact likelihood of a Poisson count that was published with discrete Laplace noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray

SMALLEST_SCALE = 0.2  # noise below this moves a count with probability below 0.014; exp(1/scale) stays moderate
TINY = 1e-290  # below it a probability is replaced by its tail expansion
# Symmetric functions of degree 1, 2, 3 of 0..j-1 as sums over i of coefficient times the binomial (j over i), i = 2..6
ELEMENTARY = ((1,), (0, 2, 3), (0, 0, 6, 20, 15))
HOMOGENEOUS = ((1,), (1, 4, 3), (1, 12, 36, 40, 15))


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
    expected : ndarray, shape (M,), or of a shape that fits it
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
    found = np.log(np.maximum(probability, TINY))
    tiny = probability <= TINY
    if tiny.any():
        c, mean = (one[tiny] for one in np.broadcast_arrays(c, mean))
        last = special.xlogy(c, mean) - mean - special.gammaln(c + 1)
        # far below the mean terms fall from the last one by c/mean (1 - i/c): elementary functions of 0..j-1
        found[tiny] = last + np.log(falling_sum(c / mean, 1 / np.maximum(c, 1.0), ELEMENTARY))
    return found


def _log_poisson_above(c: FloatArray, mean: FloatArray) -> FloatArray:
    """log P[Pois(mean) > c]."""
    probability = special.gammainc(c + 1, mean)
    found = np.log(np.maximum(probability, TINY))
    tiny = probability <= TINY
    if tiny.any():
        c, mean = (one[tiny] for one in np.broadcast_arrays(c, mean))
        first = special.xlogy(c + 1, mean) - mean - special.gammaln(c + 2)
        # far above the mean terms fall from the first one by mean/(c + 2)/(1 + i/(c + 2)): homogeneous functions
        found[tiny] = first + np.log(falling_sum(mean / (c + 2), 1 / (c + 2), HOMOGENEOUS))
    return found


def falling_sum(ratio: Any, change: Any, coefficients: tuple[tuple[int, ...], ...]) -> Any:
    """sum over j of ratio^j (1 - s1 change + s2 change^2 - s3 change^3), s the symmetric functions of 0..j-1.

    For arrays and tensors; ``coefficients`` are ELEMENTARY or HOMOGENEOUS.
    """
    rest = 1 / (1 - ratio)
    quotient = ratio * rest
    series = 1.0
    for degree, row in enumerate(coefficients, start=1):
        series = series + (-change) ** degree * sum(f * quotient ** (i + 2) for i, f in enumerate(row) if f)
    return rest * series
