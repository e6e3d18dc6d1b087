"""Log density of rows under a Gaussian mixture and its derivatives, as compiled loops. Imports no PyMC.

Row n has pattern p = ``which[n]``; the features of a pattern that are there have covariance A A', A their rows of
L = ``chol[k]``. With A = F Q', F lower triangular and Q' Q = I (Gram-Schmidt on the rows, which loses fewer digits than
the factor of a product), z = F^-1 (x - m) is white and

    log N = -|z|^2 / 2 - sum log F_ii - (features) log(2 pi) / 2,
    d log N / dm = F^-T z,    d log N / dA = F^-T (z z' - I) Q',

so sums over rows of c, c z and c z z' (c: share of the component times what the log density counts) are all that the
slopes need: triangular systems are solved once per pattern and component, not per row. Complete rows have F = L, Q = I.
An empty ``which`` means that all rows have the first pattern.
"""

from __future__ import annotations

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.missing import BoolArray
from pm_dpgmm.mixture import LOG_2PI
from pm_dpgmm.noise import IntArray

OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}


@numba.njit(**OPTIONS)
def marginal_frames(chol: FloatArray, present: BoolArray) -> tuple[FloatArray, FloatArray]:
    """F and Q' of every pattern (M, D) and component of ``chol`` (K, D, D), both (M, K, D, D).

    Absent features have 1 on the diagonal of F, 0 elsewhere.
    """
    m, d = present.shape
    k = chol.shape[0]
    factors, axes = np.zeros((m, k, d, d)), np.zeros((m, k, d, d))
    for p in range(m):
        complete = True
        for i in range(d):
            complete = complete and present[p, i]
        for c in range(k):
            f, q = factors[p, c], axes[p, c]
            for i in range(d):
                if complete:
                    for j in range(i + 1):
                        f[i, j] = chol[c, i, j]
                    q[i, i] = 1.0
                elif not present[p, i]:
                    f[i, i] = 1.0
                else:
                    for j in range(i + 1):
                        q[i, j] = chol[c, i, j]
                    for j in range(i):
                        share = 0.0
                        for e in range(i + 1):
                            share += q[i, e] * q[j, e]
                        f[i, j] = share
                        for e in range(i + 1):
                            q[i, e] -= share * q[j, e]
                    square = 0.0
                    for e in range(i + 1):
                        square += q[i, e] * q[i, e]
                    f[i, i] = np.sqrt(square)
                    for e in range(i + 1):
                        q[i, e] /= f[i, i]
    return factors, axes


@numba.njit(**OPTIONS)
def inverse_diagonals(factors: FloatArray) -> FloatArray:
    """1 / F_ii, (M, K, D)."""
    m, k, d = factors.shape[:3]
    out = np.empty((m, k, d))
    for p in range(m):
        for c in range(k):
            for i in range(d):
                out[p, c, i] = 1.0 / factors[p, c, i, i]
    return out


@numba.njit(**OPTIONS)
def densities(
    rows: FloatArray, weights: FloatArray, means: FloatArray, chol: FloatArray, present: BoolArray, which: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Log density (N,) of every row, and shares (N, K) of the components in it.

    Parameters
    ----------
    rows : ndarray, shape (N, D)
        What is missing is not read.
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
        Factors lower triangular; what is above the diagonal is not read.
    present : ndarray of bool, shape (M, D)
        Patterns of features that are there.
    which : ndarray of int, shape (N,) or (0,)
        Pattern of every row.
    """
    n_rows, d = rows.shape
    m, k = present.shape[0], weights.shape[0]
    factors, _ = marginal_frames(chol, present)
    inverses = inverse_diagonals(factors)
    heights = np.empty((m, k))
    for p in range(m):
        n_present = 0
        for i in range(d):
            n_present += present[p, i]
        for c in range(k):
            height = np.log(weights[c]) - 0.5 * LOG_2PI * n_present
            for i in range(d):
                height -= np.log(factors[p, c, i, i])
            heights[p, c] = height
    logs, shares = np.empty(n_rows), np.empty((n_rows, k))
    z = np.empty(d)
    for n in range(n_rows):
        p = which[n] if which.shape[0] else 0
        best = 0
        for c in range(k):
            square = 0.0
            for i in range(d):
                z[i] = 0.0
                if present[p, i]:
                    rest = rows[n, i] - means[c, i]
                    for j in range(i):
                        rest -= factors[p, c, i, j] * z[j]
                    z[i] = rest * inverses[p, c, i]
                    square += z[i] * z[i]
            joint = heights[p, c] - 0.5 * square
            shares[n, c] = joint
            if joint > shares[n, best] or joint != joint:  # a NaN is the best, so that it is not lost
                best = c
        highest = shares[n, best]
        if highest == -np.inf:  # all densities are 0
            logs[n] = highest
            for c in range(k):
                shares[n, c] = 0.0
            continue
        total = 0.0
        for c in range(k):
            share = 1.0 if c == best else np.exp(shares[n, c] - highest)
            shares[n, c] = share
            total += share
        logs[n] = highest + np.log(total)
        scale = 1.0 / total
        for c in range(k):
            shares[n, c] *= scale
    return logs, shares


@numba.njit(**OPTIONS)
def slopes(
    rows: FloatArray, weights: FloatArray, means: FloatArray, chol: FloatArray, present: BoolArray, which: IntArray,
    shares: FloatArray, cotangent: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Derivatives of the sum of ``cotangent`` (N,) times log densities by weights, means and chol.

    The other parameters are those of :func:`densities`, ``shares`` what it returned.
    """
    n_rows, d = rows.shape
    m, k = present.shape[0], weights.shape[0]
    factors, axes = marginal_frames(chol, present)
    inverses = inverse_diagonals(factors)
    zeroth, first, second = np.zeros((m, k)), np.zeros((m, k, d)), np.zeros((m, k, d, d))
    z = np.empty(d)
    for n in range(n_rows):
        p = which[n] if which.shape[0] else 0
        for c in range(k):
            count = shares[n, c] * cotangent[n]
            if count == 0.0:  # z may be infinite
                continue
            zeroth[p, c] += count
            for i in range(d):
                z[i] = 0.0
                if present[p, i]:
                    rest = rows[n, i] - means[c, i]
                    for j in range(i):
                        rest -= factors[p, c, i, j] * z[j]
                    z[i] = rest * inverses[p, c, i]
                scaled = count * z[i]
                first[p, c, i] += scaled
                for j in range(i + 1):
                    second[p, c, i, j] += scaled * z[j]
    of_weights, of_means, of_chol = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    column = np.empty(d)
    for p in range(m):
        for c in range(k):
            of_weights[c] += zeroth[p, c] / weights[c]
            f, s = factors[p, c], second[p, c]
            for i in range(d):
                s[i, i] -= zeroth[p, c]
                for j in range(i):
                    s[j, i] = s[i, j]
            solve_transposed(f, first[p, c])
            for i in range(d):
                if present[p, i]:
                    of_means[c, i] += first[p, c, i]
            for b in range(d):
                if not present[p, b]:
                    continue
                for i in range(d):
                    column[i] = s[i, b] if present[p, i] else 0.0
                solve_transposed(f, column)
                for i in range(d):
                    if present[p, i]:
                        for e in range(min(b, i) + 1):
                            of_chol[c, i, e] += column[i] * axes[p, c, b, e]
    return of_weights, of_means, of_chol


@numba.njit(**OPTIONS)
def row_slopes(
    rows: FloatArray, weights: FloatArray, means: FloatArray, chol: FloatArray, present: BoolArray, which: IntArray,
    shares: FloatArray, cotangent: FloatArray,
) -> FloatArray:  # fmt: skip
    """Derivatives (N, D) of the same sum by the rows; 0 where a value is missing. Shares stand for the weights."""
    n_rows, d = rows.shape
    k = means.shape[0]
    factors, _ = marginal_frames(chol, present)
    out, z = np.zeros((n_rows, d)), np.empty(d)
    for n in range(n_rows):
        p = which[n] if which.shape[0] else 0
        for c in range(k):
            count = shares[n, c] * cotangent[n]
            if count == 0.0:
                continue
            for i in range(d):
                z[i] = 0.0
                if present[p, i]:
                    rest = rows[n, i] - means[c, i]
                    for j in range(i):
                        rest -= factors[p, c, i, j] * z[j]
                    z[i] = rest / factors[p, c, i, i]
            solve_transposed(factors[p, c], z)
            for i in range(d):
                out[n, i] -= count * z[i]
    return out


@numba.njit(**OPTIONS)
def solve_transposed(factor: FloatArray, vector: FloatArray) -> None:
    """Replace ``vector`` (D,) by ``factor``^-T times it, ``factor`` (D, D) lower triangular."""
    for i in range(vector.shape[0] - 1, -1, -1):
        rest = vector[i]
        for j in range(i + 1, vector.shape[0]):
            rest -= factor[j, i] * vector[j]
        vector[i] = rest / factor[i, i]
