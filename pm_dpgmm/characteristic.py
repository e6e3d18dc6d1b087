"""Characteristic functions of Gaussian mixtures: what a sketch of records from one is expected to be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray

ComplexArray = NDArray[np.complex128]


def characteristic_function(
    frequencies: FloatArray, weights: FloatArray, means: FloatArray, factors: FloatArray
) -> ComplexArray:
    """E exp(i w.x) at every frequency.

    Parameters
    ----------
    frequencies : ndarray, shape (m, D)
    weights, means : ndarray, shapes (K,), (K, D)
    factors : ndarray, shape (K, D, D)
        Lower triangular, covariance L L'.

    Returns
    -------
    ndarray of complex, shape (m,)
    """
    return component_functions(frequencies, means, factors) @ weights


def characteristic_jacobian(
    frequencies: FloatArray, weights: FloatArray, means: FloatArray, factors: FloatArray
) -> tuple[ComplexArray, ComplexArray]:
    """The characteristic function and its derivatives.

    Returns
    -------
    values : ndarray of complex, shape (m,)
    jacobian : ndarray of complex, shape (m, K + K D + K D (D + 1)/2)
        By logits of the weights, means, and entries of the factors on and below the diagonal, row by row, the diagonal
        ones by their logarithms; each group component by component.
    """
    n_features = means.shape[1]
    parts, projected = _parts(frequencies, means, factors)
    values = parts @ weights
    terms = parts * weights
    row, column = np.tril_indices(n_features)
    # the exponent holds -|L'w|^2/2, whose derivative by L[a, b] is -w[a] (L'w)[b]
    products = -frequencies[:, None, row] * projected[:, :, column]
    diagonal = row == column
    products[:, :, diagonal] *= np.diagonal(factors, axis1=1, axis2=2)
    size, k = terms.shape
    jacobian = np.empty((size, k * (1 + n_features + len(row))), dtype=complex)
    jacobian[:, :k] = terms - values[:, None] * weights
    by_mean = jacobian[:, k : k * (1 + n_features)].reshape(size, k, n_features)
    np.multiply(1j * terms[:, :, None], frequencies[:, None, :], out=by_mean)
    by_factor = jacobian[:, k * (1 + n_features) :].reshape(size, k, len(row))
    np.multiply(terms[:, :, None], products, out=by_factor)
    return values, jacobian


def feature_covariance(
    frequencies: FloatArray, amplitudes: FloatArray, weights: FloatArray, means: FloatArray, factors: FloatArray
) -> FloatArray:
    """Covariance of one record's features [a cos(w.x), a sin(w.x)], shape (2 m, 2 m).

    From cos s cos t = [cos(s - t) + cos(s + t)]/2 and its like: characteristic functions at sums and differences.
    """
    parts, projected = _parts(frequencies, means, factors)
    phases = frequencies @ means.T
    squares = np.einsum("mke,mke->mk", projected, projected) / 2
    m = len(frequencies)
    covariance = np.zeros((2 * m, 2 * m))
    cosines, sines, mixed = covariance[:m, :m], covariance[m:, m:], covariance[:m, m:]
    for k, weight in enumerate(weights):
        cross = projected[:, k] @ projected[:, k].T
        base = -squares[:, k, None] - squares[:, k]
        difference = 0.5 * weight * np.exp(np.minimum(base + cross, 0.0))
        total = 0.5 * weight * np.exp(np.minimum(base - cross, 0.0))
        c, s = np.cos(phases[:, k]), np.sin(phases[:, k])
        # cos(s - t) and its like, from the cosines and sines of single phases
        cc, ss, cs = np.outer(c, c), np.outer(s, s), np.outer(c, s)
        cosines += difference * (cc + ss) + total * (cc - ss)
        sines += difference * (cc + ss) - total * (cc - ss)
        mixed += total * (cs + cs.T) + difference * (cs - cs.T)
    mean = parts @ weights
    both = np.concatenate([mean.real, mean.imag])
    covariance[m:, :m] = mixed.T
    covariance -= np.outer(both, both)
    a = np.tile(amplitudes, 2)
    covariance *= a
    covariance *= a[:, None]
    return covariance


def component_functions(frequencies: FloatArray, means: FloatArray, factors: FloatArray) -> ComplexArray:
    """Characteristic functions of the components, shape (m, K)."""
    return _parts(frequencies, means, factors)[0]


def _parts(frequencies: FloatArray, means: FloatArray, factors: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """Characteristic functions of the components, shape (m, K), and L'w, shape (m, K, D)."""
    projected = np.moveaxis(frequencies @ factors, 0, 1)
    exponents = np.empty((len(frequencies), len(means)), dtype=complex)
    exponents.real = -0.5 * np.einsum("mke,mke->mk", projected, projected)
    exponents.imag = frequencies @ means.T
    return np.exp(exponents), projected
