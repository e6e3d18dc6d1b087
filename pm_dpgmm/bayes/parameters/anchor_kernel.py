"""Weights, means and factors at offsets from a released mixture, with their derivatives, as compiled loops.

The compiled twin of :func:`pm_dpgmm.bayes.parameters.anchor.mixture_at`, whose module explains the coordinates. Imports
no PyMC.
"""

from __future__ import annotations

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.privacy.noise import IntArray

OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}


@numba.njit(**OPTIONS)
def offsets_at(free: FloatArray, root: FloatArray) -> FloatArray:
    """``root`` times ``free``, (P,)."""
    out = np.zeros(root.shape[0])
    for i in range(root.shape[0]):
        for j in range(free.shape[0]):
            out[i] += root[i, j] * free[j]
    return out


@numba.njit(**OPTIONS)
def weights_at(offsets: FloatArray, log_weights: FloatArray, reference: int) -> FloatArray:
    """Weights (K,): shares of exp(log weight + log ratio), the ratio of the component ``reference`` being 1."""
    k = log_weights.shape[0]
    out = np.empty(k)
    highest, total = -np.inf, 0.0
    for c in range(k):
        ratio = 0.0 if c == reference else offsets[c if c < reference else c - 1]
        out[c] = log_weights[c] + ratio
        highest = out[c] if out[c] > highest else highest
    for c in range(k):
        out[c] = np.exp(out[c] - highest)
        total += out[c]
    for c in range(k):
        out[c] /= total
    return out


@numba.njit(**OPTIONS)
def inner_factors(offsets: FloatArray, k: int, d: int) -> FloatArray:
    """T (K, D, D) of covariance = L0 T T' L0'."""
    out = np.zeros((k, d, d))
    at = k - 1 + k * d
    for c in range(k):
        for i in range(d):
            for j in range(i + 1):
                out[c, i, j] = np.exp(offsets[at]) if i == j else offsets[at]
                at += 1
    return out


@numba.njit(**OPTIONS)
def parameters(
    free: FloatArray,
    root: FloatArray,
    log_weights: FloatArray,
    base: FloatArray,
    frames: FloatArray,
    reference: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Weights (K,), means (K, D), factors (K, D, D) and covariances (K, D, D).

    Parameters
    ----------
    free, root : ndarray, shapes (P,), (P, P)
        The offsets are ``root`` times ``free``.
    log_weights, base, frames : ndarray, shapes (K,), (K, D), (K, D, D)
        Of the released mixture: logarithms of weights, means, lower factors of covariances.
    reference : ndarray of int, shape (1,)
        The component to which weight ratios are taken.
    """
    k, d = base.shape
    offsets = offsets_at(free, root)
    inner = inner_factors(offsets, k, d)
    means, chol, covariances = np.empty((k, d)), np.zeros((k, d, d)), np.empty((k, d, d))
    for c in range(k):
        for i in range(d):
            mean = base[c, i]
            for j in range(i + 1):
                mean += frames[c, i, j] * offsets[k - 1 + c * d + j]
                entry = 0.0
                for e in range(j, i + 1):
                    entry += frames[c, i, e] * inner[c, e, j]
                chol[c, i, j] = entry
            means[c, i] = mean
        for i in range(d):
            for j in range(i + 1):
                entry = 0.0
                for e in range(j + 1):
                    entry += chol[c, i, e] * chol[c, j, e]
                covariances[c, i, j] = entry
                covariances[c, j, i] = entry
    return weights_at(offsets, log_weights, reference[0]), means, chol, covariances


@numba.njit(**OPTIONS)
def free_slopes(
    free: FloatArray,
    root: FloatArray,
    log_weights: FloatArray,
    base: FloatArray,
    frames: FloatArray,
    reference: IntArray,
    of_weights: FloatArray,
    of_means: FloatArray,
    of_chol: FloatArray,
    of_covariances: FloatArray,
) -> FloatArray:
    """Derivative (P,) by ``free`` of what has these derivatives by the four results of :func:`parameters`."""
    k, d = base.shape
    offsets = offsets_at(free, root)
    weights, inner = weights_at(offsets, log_weights, reference[0]), inner_factors(offsets, k, d)
    of_offsets, chol, total = np.zeros(offsets.shape[0]), np.zeros((d, d)), np.zeros((d, d))
    mean = 0.0
    for c in range(k):
        mean += of_weights[c] * weights[c]
    at = k - 1 + k * d
    for c in range(k):
        if c != reference[0]:
            of_offsets[c if c < reference[0] else c - 1] = weights[c] * (of_weights[c] - mean)
        for i in range(d):
            for j in range(i + 1):
                of_offsets[k - 1 + c * d + j] += frames[c, i, j] * of_means[c, i]
                chol[i, j] = 0.0
                for e in range(j, i + 1):
                    chol[i, j] += frames[c, i, e] * inner[c, e, j]
        for i in range(d):
            for j in range(d):
                total[i, j] = of_chol[c, i, j]
                for e in range(j, d):
                    total[i, j] += (of_covariances[c, i, e] + of_covariances[c, e, i]) * chol[e, j]
        for i in range(d):
            for j in range(i + 1):
                entry = 0.0
                for e in range(i, d):
                    entry += frames[c, e, i] * total[e, j]
                of_offsets[at] = entry * (inner[c, i, i] if i == j else 1.0)
                at += 1
    out = np.zeros(free.shape[0])
    for i in range(root.shape[0]):
        for j in range(free.shape[0]):
            out[j] += root[i, j] * of_offsets[i]
    return out


@numba.njit(**OPTIONS)
def centred_density(value: FloatArray, whitener: FloatArray, constant: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log density (1,) and its derivative (P,) of a normal law with mean 0.

    Parameters
    ----------
    value, whitener : ndarray, shapes (P,), (P, P)
        ``whitener`` times the vector has covariance I.
    constant : ndarray, shape (1,)
        Log density at 0.
    """
    white, out, density = offsets_at(value, whitener), np.zeros(value.shape[0]), np.empty(1)
    density[0] = constant[0]
    for i in range(white.shape[0]):
        density[0] -= 0.5 * white[i] * white[i]
        for j in range(value.shape[0]):
            out[j] -= whitener[i, j] * white[i]
    return density, out
