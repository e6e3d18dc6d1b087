"""Characteristic functions of Gaussian mixtures: what a sketch of records from one is expected to be."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.coordinates import triangle

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
        By the :class:`pm_dpgmm.mixture.coordinates.Coordinates` of form "shares", without an origin: logits of the
        weights, means, and entries of the factors on and below the diagonal, row by row, the diagonal ones by their
        logarithms; each group component by component.
    """
    n_features = means.shape[1]
    parts, projected = _parts(frequencies, means, factors)
    values = parts @ weights
    terms = parts * weights
    row, column, _ = triangle(n_features)
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
    ValueError unless the shapes are those of :func:`characteristic_function` and (m,).
    """
    (m, d), k = np.shape(frequencies), len(weights)
    shapes = np.shape(amplitudes), np.shape(weights), np.shape(means), np.shape(factors)
    if shapes != ((m,), (k,), (k, d), (k, d, d)):  # the kernels below check no bounds
        raise ValueError(
            f"amplitudes, weights, means and factors must fit {m} frequencies in {d} columns, got {shapes}"
        )
    parts, projected = _parts(frequencies, means, factors)
    phases = frequencies @ means.T
    covariance = np.zeros((2 * m, 2 * m))
    for k, weight in enumerate(weights):
        projection = np.ascontiguousarray(projected[:, k])
        cross = projection @ projection.T
        add_component(covariance, 0.5 * weight, cross, np.cos(phases[:, k]), np.sin(phases[:, k]))
    mean = parts @ weights
    finish_covariance(covariance, np.concatenate([mean.real, mean.imag]), np.tile(amplitudes, 2))
    return covariance


@numba.njit(nogil=True, cache=True)
def add_component(covariance: FloatArray, scale: float, cross: FloatArray, c: FloatArray, s: FloatArray) -> None:
    """Add E cos cos, E sin sin and E cos sin of one component above the diagonal of each block.

    ``cross`` holds w' S v for all pairs; c and s are cosines and sines of the phases of its mean.
    """
    m = len(c)
    sizes = np.array([np.exp(-0.5 * cross[i, i]) for i in range(m)])
    for i in range(m):
        for j in range(i, m):
            squared, product = -0.5 * (cross[i, i] + cross[j, j]), cross[i, j]
            larger = np.exp(min(squared + abs(product), 0.0))  # at s - t or s + t, whichever is shorter
            other = (sizes[i] * sizes[j]) ** 2 / larger if larger > 0.0 else 0.0
            difference, total = (larger, other) if product > 0.0 else (other, larger)
            cc, ss, cs, sc = c[i] * c[j], s[i] * s[j], c[i] * s[j], s[i] * c[j]
            covariance[i, j] += scale * (difference * (cc + ss) + total * (cc - ss))
            covariance[m + i, m + j] += scale * (difference * (cc + ss) - total * (cc - ss))
            covariance[i, m + j] += scale * (total * (cs + sc) + difference * (cs - sc))
            if i != j:
                covariance[j, m + i] += scale * (total * (cs + sc) - difference * (cs - sc))


@numba.njit(nogil=True, cache=True)
def finish_covariance(covariance: FloatArray, mean: FloatArray, amplitudes: FloatArray) -> None:
    """From second moments above the diagonal to covariances, both triangles."""
    for i in range(len(mean)):
        for j in range(i, len(mean)):
            value = (covariance[i, j] - mean[i] * mean[j]) * amplitudes[i] * amplitudes[j]
            covariance[i, j] = value
            covariance[j, i] = value


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
