"""Log density of randomised sides of waves with its derivatives, as compiled loops. Imports no PyMC.

The compiled twin of :func:`local_graph.sides`; :mod:`pm_dpgmm.methods.local.waves` has the formulas. Derivatives are
found backwards: from the log density to the probability of a wave's positive side, to mean and standard deviation of
its phase under each component, to the component's parameters.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.local.waves import ENDS, HEIGHTS, NARROWEST, ODD, SIGNS, SWITCH, TURN

OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}
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
