"""The papers' distances, straight from their definitions: independent of the code of the package, for small sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

FloatArray = NDArray[np.float64]
Component = tuple[FloatArray, FloatArray]  # mean (d,), covariance (d, d)


def relative_change(covariance: FloatArray, other: FloatArray) -> FloatArray:
    """S^-1/2 T S^-1/2 - I up to a rotation, (d, d); the subtraction comes first, so close matrices lose nothing."""
    factor = np.linalg.cholesky(covariance)
    half = solve_triangular(factor, other - covariance, lower=True)
    whole = solve_triangular(factor, half.T, lower=True)
    return np.asarray((whole + whole.T) / 2)


def one_sided(covariance: FloatArray, other: FloatArray, norm: str = "fro") -> float:
    """||S^-1/2 T S^-1/2 - I||, Frobenius ("fro") or spectral ("2")."""
    change = relative_change(covariance, other)
    return float(np.linalg.norm(change, "fro" if norm == "fro" else 2))


def dist_cov(first: FloatArray, second: FloatArray, norm: str = "fro") -> float:
    """The larger of both orders of ``one_sided``."""
    return max(one_sided(first, second, norm), one_sided(second, first, norm))


def mahalanobis(difference: FloatArray, covariance: FloatArray) -> float:
    """||S^-1/2 x||."""
    return float(np.linalg.norm(solve_triangular(np.linalg.cholesky(covariance), difference, lower=True)))


def dist_mean(first: Component, second: Component) -> float:
    """The larger of the two Mahalanobis distances of the means."""
    (m1, s1), (m2, s2) = first, second
    return max(mahalanobis(m1 - m2, s1), mahalanobis(m1 - m2, s2))


def dist_comp(first: Component, second: Component) -> float:
    """max of ``dist_mean`` and ``dist_cov`` in the Frobenius norm."""
    return max(dist_mean(first, second), dist_cov(first[1], second[1]))


def lifted(table: FloatArray) -> float:
    """min over permutations of the largest entry used, by trying every permutation."""
    k = len(table)
    return min(max(float(table[i, p[i]]) for i in range(k)) for p in itertools.permutations(range(k)))


Weighted = list[tuple[float, FloatArray, FloatArray]]  # weight, mean, covariance


def table_of(first: Weighted, second: Weighted, distance: Callable[..., float]) -> FloatArray:
    """Distances (k, k) of all components of one mixture to all of the other."""
    return np.array([[distance(a, b) for b in second] for a in first])


def dist_components(first: Weighted, second: Weighted) -> float:
    """dist^k of the components, weights ignored."""
    return lifted(table_of(first, second, lambda a, b: dist_comp(a[1:], b[1:])))


def dist_param(first: Weighted, second: Weighted) -> float:
    """dist_PARAM: weights and components under one matching."""
    return lifted(table_of(first, second, lambda a, b: max(abs(a[0] - b[0]), dist_comp(a[1:], b[1:]))))
