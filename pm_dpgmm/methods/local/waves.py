"""Probabilities of the sides of a square wave under a mixture, in closed form. Post-processing: no record is seen.

A record x lies on the positive side of a wave when cos(w . x + b) > 0. Under a Gaussian component t = w . x + b is
normal, with mean m and standard deviation s, so that the probability is that of a normal number between odd multiples
of pi / 2, in every second interval:

- s below 1, three of these intervals around m reduced to a period; what lies in others is below 1e-14;
- above, the Fourier series 1/2 + (2 / pi) sum over j of (-1)^j / (2j + 1) e^(-(2j + 1)^2 s^2 / 2) cos((2j + 1) m), of
  which five terms are left: the sixth is below 1e-26.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray

SWITCH = 1.0  # standard deviation between both forms
NARROWEST = 1e-9  # a standard deviation of phases counts as at least this
INTERVALS, TERMS = (-1, 0, 1), range(5)
TURN = 2 * math.pi
ENDS = np.array([sign * math.pi / 2 + TURN * j for j in INTERVALS for sign in (-1, 1)])  # of the intervals
SIGNS = np.tile([-1.0, 1.0], len(INTERVALS))
ODD = 2.0 * np.array(TERMS) + 1
HEIGHTS = 2 / math.pi * (-1.0) ** np.array(TERMS) / ODD


def positive_sides(means: Any, deviations: Any, *, xp: Any = np) -> Any:
    """P[cos(t) > 0] for t normal with these means and standard deviations above 0, elementwise.

    Parameters
    ----------
    means, deviations : arrays of one shape
    xp : module
        ``numpy`` or ``pytensor.tensor``.

    Examples
    --------
    >>> positive_sides(np.zeros(3), np.array([1e-3, 1.0, 1e3])).round(4)
    array([1.    , 0.8838, 0.5   ])
    """
    if xp is np:
        m = means - TURN * np.round(means / TURN)
        found, near = np.empty_like(m), deviations < SWITCH
        found[near] = _near(m[near], deviations[near], special.erf)
        found[~near] = _far(m[~near], deviations[~near], np)
        return found
    m = means - TURN * xp.round(means / TURN)
    narrow, wide = xp.minimum(deviations, SWITCH), xp.maximum(deviations, SWITCH)
    return xp.where(deviations < SWITCH, _near(m, narrow, xp.erf), _far(m, wide, xp))


def _near(m: Any, deviations: Any, erf: Any) -> Any:
    z = (ENDS - m[..., None]) / (deviations[..., None] * math.sqrt(2))
    return 0.5 * (erf(z) * SIGNS).sum(axis=-1)


def _far(m: Any, deviations: Any, xp: Any) -> Any:
    waves = xp.exp(-0.5 * ODD**2 * (deviations**2)[..., None]) * xp.cos(ODD * m[..., None])
    return 0.5 + (waves * HEIGHTS).sum(axis=-1)


def slopes_of_sides(means: FloatArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Derivatives of :func:`positive_sides` by the means and by the variances; the latter is half the second one."""
    m = means - TURN * np.round(means / TURN)
    first, second = np.empty_like(m), np.empty_like(m)
    near = deviations < SWITCH
    s, at = deviations[near], m[near]
    down, curve = np.zeros_like(at), np.zeros_like(at)
    for j in INTERVALS:
        for sign in (-1, 1):
            z = (sign * math.pi / 2 + TURN * j - at) / s
            height = np.exp(-0.5 * z * z) / (math.sqrt(TURN) * s)
            down -= sign * height
            curve -= sign * height * z / s
    first[near], second[near] = down, curve
    v, at = deviations[~near] ** 2, m[~near]
    down, curve = np.zeros_like(at), np.zeros_like(at)
    for j in TERMS:
        n = 2 * j + 1
        height = 2 / math.pi * (-1) ** j * np.exp(-(n**2) / 2 * v)
        down -= height * np.sin(n * at)
        curve -= height * n * np.cos(n * at)
    first[~near], second[~near] = down, curve
    return first, second / 2


def wave_probabilities(frequencies: FloatArray, phases: FloatArray, weights: Any, means: Any, chol: Any) -> FloatArray:
    """Probability of the positive side of M waves under a mixture, shape (M,)."""
    turns = frequencies @ means.T + phases[:, None]
    deviations = np.linalg.norm(np.einsum("md,kde->mke", frequencies, chol), axis=2)
    return np.asarray(positive_sides(turns, np.maximum(deviations, 1e-12)) @ weights)
