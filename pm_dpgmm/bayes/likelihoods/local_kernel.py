"""Log densities of counts of randomised responses with their derivatives, as compiled loops. Imports no PyMC.

The compiled twins of :mod:`local_graph`; :mod:`pm_dpgmm.methods.local.waves` has the formulas of waves. Derivatives are
found backwards: from the log density to the probability of a wave's positive side, to mean and standard deviation of
its phase under each component, to the component's parameters; or to the probabilities of cells.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.kernel_algebra import has_nan
from pm_dpgmm.bayes.likelihoods.bins_kernel import OPTIONS, bin_slopes, bins
from pm_dpgmm.methods.local.waves import ENDS, HEIGHTS, NARROWEST, ODD, SIGNS, SWITCH, TURN

HALF_ROOT, HEIGHT = math.sqrt(0.5), 1 / math.sqrt(TURN)


@numba.njit(**OPTIONS)
def side(turn: float, deviation: float) -> tuple[float, float, float]:
    """P[cos(t) > 0] for t normal with this mean and standard deviation, and its derivatives by both."""
    m = turn - TURN * np.round(turn / TURN)
    if deviation < SWITCH:
        found, by_mean, by_deviation = 0.0, 0.0, 0.0
        for j in range(ENDS.shape[0]):
            z = (ENDS[j] - m) / deviation
            slope = SIGNS[j] * HEIGHT * math.exp(-0.5 * z * z) / deviation
            found += 0.5 * SIGNS[j] * math.erf(HALF_ROOT * z)
            by_mean -= slope
            by_deviation -= slope * z
        return found, by_mean, by_deviation
    found, by_mean, by_deviation = 0.5, 0.0, 0.0
    for j in range(ODD.shape[0]):
        n = ODD[j]
        size = HEIGHTS[j] * math.exp(-0.5 * n * n * deviation * deviation)
        level = size * math.cos(n * m)
        found += level
        by_mean -= size * n * math.sin(n * m)
        by_deviation -= level * n * n * deviation
    return found, by_mean, by_deviation


@numba.njit(**OPTIONS)
def sides(
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    frequencies: FloatArray,
    phases: FloatArray,
    asked: FloatArray,
    ones: FloatArray,
    law: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log density of how many reported the positive side, shape (1,), and its derivatives by weights, means and chol.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
    frequencies, phases : ndarray, shapes (M, D), (M,)
    asked, ones : ndarray, shape (M,)
    law : ndarray, shape (3,)
        Probability of a report of the true side, and of the other one; what is added to the log density.
    """
    (k, d), n_waves = means.shape, phases.shape[0]
    value = np.empty(1)
    value[0] = law[2]
    of_weights, of_means, of_chol = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    gain, other = law[0] - law[1], law[1]
    along = np.empty((k, d))
    found, by_mean, by_square = np.empty(k), np.empty(k), np.empty(k)
    for i in range(n_waves):
        share = 0.0
        for c in range(k):
            turn, square = phases[i], 0.0
            for a in range(d):
                turn += frequencies[i, a] * means[c, a]
                total = 0.0
                for b in range(a, d):
                    total += frequencies[i, b] * chol[c, b, a]
                along[c, a] = total
                square += total * total
            narrow = square < NARROWEST**2  # false for what is no number
            deviation = NARROWEST if narrow else math.sqrt(square)
            found[c], by_mean[c], by_deviation = side(turn, deviation)
            by_square[c] = 0.0 if narrow else by_deviation / deviation  # by half the square
            share += weights[c] * found[c]
        chance = other + gain * share
        value[0] += ones[i] * math.log(chance) + (asked[i] - ones[i]) * math.log1p(-chance)
        slope = gain * (ones[i] / chance - (asked[i] - ones[i]) / (1 - chance))
        for c in range(k):
            of_weights[c] += slope * found[c]
            of_turn, of_square = slope * weights[c] * by_mean[c], slope * weights[c] * by_square[c]
            for a in range(d):
                of_means[c, a] += of_turn * frequencies[i, a]
                for b in range(a + 1):
                    of_chol[c, a, b] += of_square * along[c, b] * frequencies[i, a]
    return value, of_weights, of_means, of_chol


@numba.njit(**OPTIONS)
def of_named(
    shares: FloatArray, counts: FloatArray, members: FloatArray, law: FloatArray, by_shares: FloatArray
) -> float:
    """Multinomial log density of named cells or subsets; fills its derivatives by the cells' probabilities (M,)."""
    base, gain, value = law[1], law[2], law[3]
    by_shares[:] = 0.0
    for s in range(counts.shape[0]):
        if members.shape[0] == 0:
            chance = base + gain * shares[s]
            by_shares[s] = gain * counts[s] / chance
        else:
            inside = 0.0
            for j in range(shares.shape[0]):
                inside += members[s, j] * shares[j]
            chance = base + gain * inside
            for j in range(shares.shape[0]):
                by_shares[j] += members[s, j] * gain * counts[s] / chance
        value += counts[s] * math.log(chance)
    return value


@numba.njit(**OPTIONS)
def of_bits(shares: FloatArray, counts: FloatArray, law: FloatArray, by_shares: FloatArray) -> float:
    """Normal log density of bits' counts, covariance n (diag(v) - g g'); fills its derivatives by the probabilities."""
    base, gain, n = law[1], law[2], law[4]
    m, slope = shares.shape[0], 1 - 2 * base  # of a variance v by g
    square, cross, left, logs = 0.0, 0.0, 1.0, 0.0
    for j in range(m):
        g = gain * shares[j]
        mean = base + g
        v, rest = mean * (1 - mean) + g * g, counts[j] - n * mean
        square += rest * rest / v
        cross += g * rest / v
        left -= g * g / v
        logs += math.log(v)
    for j in range(m):
        g = gain * shares[j]
        mean = base + g
        v, rest = mean * (1 - mean) + g * g, counts[j] - n * mean
        of_square = -rest / v * (2 * n + slope * rest / v)
        of_cross = (rest - n * g) / v - slope * g * rest / (v * v)
        of_left = -g / v * (2 - slope * g / v)
        whole = of_square + cross / left * (2 * of_cross - cross / left * of_left)
        by_shares[j] = -0.5 * gain * (whole / n + slope / v + of_left / left)
    return law[3] - 0.5 * ((square + cross * cross / left) / n + logs + math.log(left))


@numba.njit(**OPTIONS)
def cells(
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    edges: FloatArray,
    rule: FloatArray,
    counts: FloatArray,
    members: FloatArray,
    law: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log density of responses about cells, shape (1,), and its derivatives by weights, means and chol.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
        D is 1 or 2.
    edges, rule : ndarray
        As for :func:`bins_kernel.bins`.
    counts : ndarray, shape (S,)
        Of responses that name a cell or a subset, or that have a one for a cell.
    members : ndarray, shape (S, M) or (0, M)
        1 where a cell is in a subset; no rows where each cell is one.
    law : ndarray, shape (5,)
        1 for one bit a cell and 0 for names; a chance is law[1] + law[2] times a probability; what is added to the log
        density; number of responses.
    """
    shares, below, tails = bins(edges, rule, weights, means, chol)
    value, by_shares = np.empty(1), np.empty(shares.shape[0])
    if has_nan(weights, means, chol):  # which comparisons would lose
        value[0] = np.nan
        by_shares[:] = np.nan
    elif law[0] > 0:
        value[0] = of_bits(shares, counts, law, by_shares)
    else:
        value[0] = of_named(shares, counts, members, law, by_shares)
    of_weights, of_means, of_chol = bin_slopes(edges, rule, weights, means, chol, below, tails, by_shares)
    return value, of_weights, of_means, of_chol
