"""Exact privacy curve of Gaussian noise: Balle and Wang (2018), Theorem 8."""

from __future__ import annotations

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), without overflow."""
    return float(gaussian_deltas(np.float64(epsilon), mu))


def gaussian_deltas(epsilons: FloatArray | np.float64, mu: float) -> FloatArray:
    """:func:`gaussian_delta` at every one of ``epsilons``, any shape."""
    first = special.log_ndtr(mu / 2 - epsilons / mu)
    second = epsilons + special.log_ndtr(-mu / 2 - epsilons / mu)
    with np.errstate(under="ignore"):  # never 0, whatever underflows: no finite epsilon holds at delta = 0
        found: FloatArray = np.maximum(np.exp(first) * -np.expm1(np.minimum(0.0, second - first)), 1e-300)
    return found
