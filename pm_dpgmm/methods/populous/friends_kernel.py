"""Kernels of the friend table: validity of one fit, friendship of one pair. Proof: agreement.md.

Both are functions of their fits alone, bit for bit (``lifted_distance``); threads share nothing but read-only arrays.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.affine_invariant import (
    apart_on_an_axis,
    distance_of,
    eigenvalues_into,
    factorise,
    invert,
    jeffreys,
    lift_into,
)

LARGEST_SIZE = 1e70  # of a mean or a standard deviation, and its inverse the smallest; beyond it products overflow
LARGEST_VARIANCE = LARGEST_SIZE**2
LARGEST_WEIGHT = 2.0  # weights are at most 1; an average of huge numbers is rounded by more than is paid for


@numba.njit(nogil=True, cache=True, error_model="numpy")
def is_valid(
    weights: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    variances: FloatArray,
    bounds: FloatArray,
    factors: FloatArray,
    precisions: FloatArray,
) -> bool:
    """Whether a fit is valid; fills its factors and precisions, (k, d, d).

    ``bounds``: largest condition number, least separation with its margin, the divergence J at that distance.
    """
    k, d = means.shape
    matrix, square = np.empty((d, d)), np.empty((d, d))
    values, off, work = np.empty(d), np.empty(d), np.empty((2, d))
    for a in range(k):
        if not abs(weights[a]) <= LARGEST_WEIGHT:  # NaN fails too
            return False
        for i in range(d):
            if not (1 / LARGEST_VARIANCE <= variances[a, i] <= LARGEST_VARIANCE and abs(means[a, i]) <= LARGEST_SIZE):
                return False
        for i in range(d):
            matrix[i, i] = 1.0
            for j in range(i):
                unit = np.sqrt(variances[a, i]) * np.sqrt(variances[a, j])
                matrix[i, j] = matrix[j, i] = covariances[a, i, j] / unit
        if not eigenvalues_into(matrix, values, off, work):
            return False
        smallest, largest = values[0], values[0]
        for x in values:
            smallest, largest = min(smallest, x), max(largest, x)
        if not (smallest > 0 and largest <= bounds[0] * smallest and factorise(covariances[a], factors[a])):
            return False
        invert(factors[a], square, precisions[a])
    matrix, square = np.empty((d + 1, d + 1)), np.empty((d + 1, d + 1))
    values, off, work = np.empty(d + 1), np.empty(d + 1), np.empty((2, d + 1))
    for a in range(k):
        for b in range(a):
            if not apart_on_an_axis(means[a], variances[a], means[b], variances[b], bounds[2]):
                lift_into(factors[a], means[a], means[b], covariances[b], matrix, square)
                distance, least = distance_of(matrix, values, off, work)
                if not (distance > bounds[1] or least > bounds[1]):
                    return False
    return True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fill_rows(
    rows: tuple[int, int],
    valid: Any,
    weights: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    variances: FloatArray,
    factors: FloatArray,
    precisions: FloatArray,
    bounds: FloatArray,
    table: Any,
) -> None:
    """Entries of the table to the right of the diagonal, in the rows from rows[0] to before rows[1].

    ``bounds``: component radius and fit radius less the margin, J at the former, weight scale, error of J.
    """
    _, k, d = means.shape
    order, exact, squares = np.empty(k, np.int64), np.empty(k, np.bool_), np.empty((2, k))
    matrix, square = np.empty((d + 1, d + 1)), np.empty((d + 1, d + 1))
    values, off, work = np.empty(d + 1), np.empty(d + 1), np.empty((2, d + 1))
    for j in range(rows[0] + 1, len(valid)):  # the outer loop: the rows stay in the cache, and fits pass by once
        for i in range(rows[0], min(rows[1], j)):
            if not (valid[i] and valid[j]):
                continue
            matched = 0
            for a in range(k):
                for b in range(k):
                    if apart_on_an_axis(means[i, a], variances[i, a], means[j, b], variances[j, b], bounds[2]):
                        continue
                    divergence = jeffreys(
                        means[i, a],
                        covariances[i, a],
                        precisions[i, a],
                        means[j, b],
                        covariances[j, b],
                        precisions[j, b],
                    )
                    if not divergence <= bounds[2] + bounds[4]:
                        continue
                    _between(divergence, bounds[4], d + 1, squares[:, a])
                    exact[a] = not squares[1, a] <= bounds[0] * bounds[0]
                    if exact[a]:
                        lift_into(factors[i, a], means[i, a], means[j, b], covariances[j, b], matrix, square)
                        distance = distance_of(matrix, values, off, work)[0]
                        if not distance <= bounds[0]:
                            continue
                        squares[0, a] = squares[1, a] = distance * distance
                    order[a] = b
                    matched += 1
                    break
                if matched <= a:
                    break
            if matched < k or not _is_permutation(order):
                continue
            weight = 0.0
            for a in range(k):
                weight += ((weights[i, a] - weights[j, order[a]]) / bounds[3]) ** 2
            whole = bounds[1] * bounds[1]
            if not squares[0].sum() + weight <= whole:
                continue
            if not squares[1].sum() + weight <= whole:
                for a in range(k):
                    if not exact[a]:
                        b = order[a]
                        lift_into(factors[i, a], means[i, a], means[j, b], covariances[j, b], matrix, square)
                        squares[1, a] = distance_of(matrix, values, off, work)[0] ** 2
                if not squares[1].sum() + weight <= whole:
                    continue
            table[i, j] = True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _between(divergence: float, error: float, size: int, squares: FloatArray) -> None:
    """Bounds on d_AI^2 of matrices with this divergence J (``jeffreys``), from below and from above."""
    squares[0] = 4 * np.arcsinh(np.sqrt(max(divergence - error, 0.0)) / 2) ** 2
    squares[1] = 4 * size * np.arcsinh(np.sqrt(max(divergence + error, 0.0) / size) / 2) ** 2


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _is_permutation(order: Any) -> bool:
    for a in range(len(order)):
        for b in range(a):
            if order[a] == order[b]:
                return False
    return True
