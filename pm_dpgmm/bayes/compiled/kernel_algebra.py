"""What several kernels do with factors of covariances and with parameters, as compiled loops. Imports no PyMC.

Numba keeps a kernel on disk until the kernel's own file changes: whoever changes this one removes what is kept.
"""

from __future__ import annotations

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray

# sums in any order; infinities and NaN stay
OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}


@numba.njit(**OPTIONS)
def dot(left: FloatArray, right: FloatArray, first: int, end: int) -> float:
    """Sum of products of entries from ``first`` to ``end`` (exclusive)."""
    total = 0.0
    for i in range(first, end):
        total += left[i] * right[i]
    return total


@numba.njit(**OPTIONS)
def lower_factor(matrix: FloatArray) -> None:
    """Replace the lower triangle of ``matrix`` by its Cholesky factor; NaN where it is not positive definite."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = (matrix[i, j] - dot(matrix[i], matrix[j], 0, j)) / matrix[j, j]
        matrix[i, i] = np.sqrt(matrix[i, i] - dot(matrix[i], matrix[i], 0, i))


@numba.njit(**OPTIONS)
def inverse_from(root: FloatArray) -> FloatArray:
    """(R R')^-1 from the lower factor R; what is above its diagonal is not read."""
    n = root.shape[0]
    columns, out = np.zeros((n, n)), np.empty((n, n))  # of R^-1, each in a row
    for j in range(n):
        columns[j, j] = 1.0 / root[j, j]
        for i in range(j + 1, n):
            columns[j, i] = -dot(root[i], columns[j], j, i) / root[i, i]
    for i in range(n):
        for j in range(i + 1):
            out[i, j] = dot(columns[i], columns[j], i, n)
            out[j, i] = out[i, j]
    return out


@numba.njit(**OPTIONS)
def has_nan(weights: FloatArray, means: FloatArray, chol: FloatArray) -> bool:
    """Whether one of the parameters is no number, the upper triangles of ``chol`` aside."""
    k, d = means.shape
    found = False
    for c in range(k):
        found = found or np.isnan(weights[c])
        for i in range(d):
            found = found or np.isnan(means[c, i])
            for j in range(i + 1):
                found = found or np.isnan(chol[c, i, j])
    return found
