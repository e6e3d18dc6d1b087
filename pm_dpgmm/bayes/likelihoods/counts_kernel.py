"""Log density of noisy counts on a grid with its derivatives, as compiled loops. Imports no PyMC.

The compiled twin of ``mixture.cell_probabilities``, ``histogram_law.log_density`` and :mod:`counts_graph`, which
have the formulas and say why. Derivatives are found backwards: from the log density to expected counts, to
probabilities of bins, to the edges seen from each component, to its parameters.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.kernel_algebra import has_nan
from pm_dpgmm.bayes.compiled.kernel_calls import scipy_function
from pm_dpgmm.bayes.likelihoods.bins_kernel import OPTIONS, bin_slopes, bins
from pm_dpgmm.methods.counts.histogram_law import LARGE_COUNT, LEAST_EXPECTED, LEAST_VARIANCE
from pm_dpgmm.methods.counts.noisy_poisson import ELEMENTARY, HOMOGENEOUS, TINY
from pm_dpgmm.mixture.mixture import LOG_2PI

READ = 7  # numbers of the law that are read
at_most = scipy_function("gammaincc", 2)
above = scipy_function("gammainc", 2)


def _table(rows: tuple[tuple[int, ...], ...]) -> FloatArray:
    return np.array([[*row, *[0] * (len(rows[-1]) - len(row))] for row in rows], dtype=float)


FALLING, RISING = _table(ELEMENTARY), _table(HOMOGENEOUS)


@numba.njit(**OPTIONS)
def log_series(ratio: float, change: float, table: FloatArray) -> float:
    """Logarithm of :func:`pm_dpgmm.methods.counts.noisy_poisson.falling_sum`."""
    rest = 1.0 / (1.0 - ratio)
    quotient = ratio * rest
    total, sign = 1.0, 1.0
    for degree in range(table.shape[0]):
        sign *= -change
        power = quotient
        for i in range(table.shape[1]):
            power *= quotient
            total += sign * table[degree, i] * power
    return math.log(rest * total)


@numba.njit(**OPTIONS)
def log_count(count: float, expected: float, rate: float) -> float:
    """log P[noisy count | expected count] less the log of the noise's height, as :func:`counts_graph.log_count`."""
    c = max(count, 0.0)
    high = count * rate + expected * math.expm1(-rate)
    if count < 0:
        low = high - 1e3  # no y <= c
    else:
        mean = expected * math.exp(-rate)
        found = above(c + 1, mean)
        if found > TINY:
            high += math.log(found)
        else:
            high += (c + 1) * math.log(mean) - mean - math.lgamma(c + 2)
            high += log_series(mean / (c + 2), 1 / (c + 2), RISING)
        mean = expected * math.exp(rate)
        low = -c * rate + expected * math.expm1(rate)
        found = at_most(c + 1, mean)
        if found > TINY:
            low += math.log(found)
        else:
            low += c * math.log(mean) - mean - math.lgamma(c + 1) + log_series(c / mean, 1 / max(c, 1.0), FALLING)
    return max(low, high) + math.log1p(math.exp(-abs(low - high)))


@numba.njit(**OPTIONS)
def of_known_size(probabilities: FloatArray, noisy: FloatArray, law: FloatArray, of_cells: FloatArray) -> float:
    """Log density when the number of records is public; fills its derivatives by the bins' probabilities (M,)."""
    exact, size, rate, variance, height = law[0] > 0, law[1], law[2], law[3], law[4]
    m = probabilities.shape[0]
    of_means, of_variances = np.empty(m), np.empty(m)
    value, total, spread = 0.0, 0.0, 0.0
    for j in range(m):
        e, c = max(size * probabilities[j], LEAST_EXPECTED), noisy[j]
        both = e + variance
        share, slope = e / both, variance / both**2
        mean, of_mean = e + share * (c - e), 1 - share + slope * (c - e)
        rest, of_rest = e * (1 - share), 1 - share - e * slope
        if exact:
            logs = log_count(c, e, rate), log_count(c - 1, e, rate)
            step = math.exp(logs[1] - logs[0])
            first = math.expm1(logs[1] - logs[0])
            value += logs[0] + height
            of_cells[j] = first
            if e <= max(LARGE_COUNT, 10 * variance):
                two, three = log_count(c - 2, e, rate), log_count(c - 3, e, rate)
                steps = math.exp(two - logs[0])
                mean = e * step
                of_mean = step * (1 + e * (math.expm1(two - logs[1]) - first))
                rest = e**2 * steps + mean - mean**2
                of_rest = steps * (2 * e + e**2 * (math.expm1(three - two) - first)) + of_mean - 2 * mean * of_mean
        else:
            value -= 0.5 * ((c - e) ** 2 / both + math.log(both) + LOG_2PI)
            of_cells[j] = ((c - e) + 0.5 * (c - e) ** 2 / both - 0.5) / both
        total += mean
        spread += rest
        of_means[j], of_variances[j] = of_mean, of_rest
    surprise, wide = size - total, max(spread, LEAST_VARIANCE)
    value -= 0.5 * (surprise**2 / wide + math.log(wide / size))
    by_spread = 0.5 * (surprise**2 / wide - 1) / wide if spread > LEAST_VARIANCE else 0.0
    for j in range(m):
        of_cells[j] += surprise / wide * of_means[j] + by_spread * of_variances[j]
        of_cells[j] *= size if size * probabilities[j] > LEAST_EXPECTED else 0.0
    return value


@numba.njit(**OPTIONS)
def of_unknown_size(
    probabilities: FloatArray, noisy: FloatArray, law: FloatArray, totals: FloatArray, of_cells: FloatArray
) -> float:
    """The same with the expected number of records integrated out, at ``totals`` (T,)."""
    exact, rate, variance, height, log_step = law[0] > 0, law[2], law[3], law[4], law[5]
    m, n = probabilities.shape[0], totals.shape[0]
    heights, slopes = np.zeros(n), np.zeros((n, m))
    highest = -np.inf
    for t in range(n):
        for j in range(m):
            e, c = max(totals[t] * probabilities[j], LEAST_EXPECTED), noisy[j]
            if exact:
                here = log_count(c, e, rate)
                heights[t] += here + height
                slope = math.expm1(log_count(c - 1, e, rate) - here)
            else:
                both = e + variance
                heights[t] -= 0.5 * ((c - e) ** 2 / both + math.log(both) + LOG_2PI)
                slope = ((c - e) + 0.5 * (c - e) ** 2 / both - 0.5) / both
            slopes[t, j] = slope * totals[t] if totals[t] * probabilities[j] > LEAST_EXPECTED else 0.0
        highest = max(highest, heights[t])
    total = 0.0
    for j in range(m):
        of_cells[j] = 0.0
    for t in range(n):
        share = math.exp(heights[t] - highest)
        total += share
        for j in range(m):
            of_cells[j] += share * slopes[t, j]
    for j in range(m):
        of_cells[j] /= total
    return highest + math.log(total) + log_step


@numba.njit(**OPTIONS)
def counts(
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    edges: FloatArray,
    rule: FloatArray,
    noisy: FloatArray,
    law: FloatArray,
    totals: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log density of noisy counts, shape (1,), and its derivatives by weights, means and chol.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
        D is 1 or 2.
    edges, rule : ndarray, shapes (D, J - 1), (2, Q)
        Inner edges of the bins; nodes and weights between -1 and 1, for two columns.
    noisy : ndarray, shape (M,)
    law : ndarray, shape (READ,) or longer
        1 for the exact law and 0 for the Gaussian one; the number of records, 0 if it is not public; rate of the noise,
        its variance and the logarithm of its height; logarithm of the distance of ``totals``; 1 if the last component
        is the uniform law of the bins, whatever its mean and factor.
    totals : ndarray, shape (T,)
        Expected numbers of records to integrate over, if theirs is not public.
    """
    (k, d), m = means.shape, noisy.shape[0]
    n = k - 1 if law[6] > 0 else k
    probabilities, below, tails = bins(edges, rule, weights[:n], means[:n], chol[:n])
    for c in range(n, k):
        for j in range(m):
            probabilities[j] += weights[c] / m
    value, of_cells = np.empty(1), np.empty(m)
    if has_nan(weights, means, chol):  # which comparisons would lose
        value[0] = np.nan
        of_cells[:] = np.nan
    elif law[1] > 0:
        value[0] = of_known_size(probabilities, noisy, law, of_cells)
    else:
        value[0] = of_unknown_size(probabilities, noisy, law, totals, of_cells)
    of_weights, of_means, of_chol = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    slopes = bin_slopes(edges, rule, weights[:n], means[:n], chol[:n], below, tails, of_cells)
    of_weights[:n], of_means[:n], of_chol[:n] = slopes
    for c in range(n, k):
        for j in range(m):
            of_weights[c] += of_cells[j] / m
    return value, of_weights, of_means, of_chol
