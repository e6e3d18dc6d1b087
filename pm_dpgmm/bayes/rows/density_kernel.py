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
from pm_dpgmm.bayes.rows.missing import BoolArray
from pm_dpgmm.mixture.mixture import LOG_2PI
from pm_dpgmm.privacy.noise import IntArray

OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}
REGROUPED = {**OPTIONS, "fastmath": {"contract", "reassoc"}}  # sums in any order; infinities and NaN stay
BLOCK = 128  # rows at a time, one number of each side by side: the compiler uses vector instructions


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
def by_pattern(which: IntArray, n_rows: int, n_patterns: int) -> tuple[IntArray, IntArray]:
    """Rows in the order of their patterns (N,), and where each pattern's begin, shape (M + 1,)."""
    starts, order = np.zeros(n_patterns + 1, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    if which.shape[0] == 0:
        for n in range(n_rows):
            order[n] = n
        starts[1] = n_rows
        return order, starts
    ends = np.zeros(n_patterns, dtype=np.int64)
    for n in range(n_rows):
        starts[which[n] + 1] += 1
    for p in range(n_patterns):
        ends[p] = starts[p]
        starts[p + 1] += starts[p]
    for n in range(n_rows):
        order[ends[which[n]]] = n
        ends[which[n]] += 1
    return order, starts


@numba.njit(**OPTIONS)
def whiten(
    rows: FloatArray,
    order: IntArray,
    first: int,
    n: int,
    mean: FloatArray,
    factor: FloatArray,
    present: BoolArray,
    z: FloatArray,
) -> None:
    """Fill ``z`` (D, BLOCK) with the white values of rows ``order[first : first + n]``; 0 where one is missing."""
    for i in range(rows.shape[1]):
        line, centre = z[i], mean[i]
        if not present[i]:
            for b in range(n):
                line[b] = 0.0
            continue
        for b in range(n):
            line[b] = rows[order[first + b], i] - centre
        for j in range(i):
            slope, earlier = factor[i, j], z[j]
            for b in range(n):
                line[b] -= slope * earlier[b]
        inverse = 1.0 / factor[i, i]
        for b in range(n):
            line[b] *= inverse


@numba.njit(**OPTIONS)
def exponentials(values: FloatArray, n: int) -> None:
    """Replace the first ``n`` ``values``, none above 0, by their exponentials, to the last bit or two.

    2^k times a polynomial of the rest, |rest| < log(2) / 2: the first term left out is below 4e-18. Compiled to
    operations on several numbers at once, which the C library's function is not. Below -708 the result is 0.
    """
    for b in range(n):
        x = values[b]
        shifted = x * 1.4426950408889634 + 6755399441055744.0  # 1.5 2^52: the last bits are the rounded integer k
        k = shifted - 6755399441055744.0
        r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10  # log 2 in two parts, as in fdlibm
        power = 1.0 / 6227020800.0
        power = power * r + 1.0 / 479001600.0
        power = power * r + 1.0 / 39916800.0
        power = power * r + 1.0 / 3628800.0
        power = power * r + 1.0 / 362880.0
        power = power * r + 1.0 / 40320.0
        power = power * r + 1.0 / 5040.0
        power = power * r + 1.0 / 720.0
        power = power * r + 1.0 / 120.0
        power = power * r + 1.0 / 24.0
        power = power * r + 1.0 / 6.0
        power = power * r + 0.5
        power = power * r + 1.0
        power = power * r + 1.0
        bits = (np.float64(shifted).view(np.int64) << 52) + 4607182418800017408  # the bits of 1.0
        values[b] = 0.0 if x < -708.0 else power * np.int64(bits).view(np.float64)


@numba.njit(**OPTIONS)
def densities(
    rows: FloatArray, weights: FloatArray, means: FloatArray, chol: FloatArray, present: BoolArray, which: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Log density (N,) of every row, and shares (K, N) of the components in it.

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
    order, starts = by_pattern(which, n_rows, m)
    logs, shares = np.empty(n_rows), np.empty((k, n_rows))
    z, joint, highest, total = np.empty((d, BLOCK)), np.empty((k, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    for p in range(m):
        for first in range(starts[p], starts[p + 1], BLOCK):
            n = min(BLOCK, starts[p + 1] - first)
            for b in range(n):
                highest[b], total[b] = -np.inf, 0.0
            for c in range(k):
                height, line = np.log(weights[c]), joint[c]
                for i in range(d):
                    height -= np.log(factors[p, c, i, i]) + (0.5 * LOG_2PI if present[p, i] else 0.0)
                whiten(rows, order, first, n, means[c], factors[p, c], present[p], z)
                for b in range(n):
                    line[b] = 0.0
                for i in range(d):
                    of_feature = z[i]
                    for b in range(n):
                        line[b] += of_feature[b] * of_feature[b]
                for b in range(n):
                    line[b] = height - 0.5 * line[b]
                    # a NaN is the highest, so that it is not lost
                    highest[b] = highest[b] if line[b] <= highest[b] or highest[b] != highest[b] else line[b]
            for c in range(k):
                line = joint[c]
                for b in range(n):
                    line[b] -= highest[b]
                exponentials(line, n)
                for b in range(n):
                    total[b] += line[b]
            for b in range(n):
                row = order[first + b]
                none = highest[b] == -np.inf  # all densities are 0
                logs[row] = -np.inf if none else highest[b] + np.log(total[b])
                total[b] = 1.0 / total[b]
                for c in range(k):
                    shares[c, row] = 0.0 if none else joint[c, b] * total[b]
    return logs, shares


@numba.njit(**REGROUPED)
def slopes(
    rows: FloatArray,
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    present: BoolArray,
    which: IntArray,
    shares: FloatArray,
    cotangent: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Derivatives of the sum of ``cotangent`` (N,) times log densities by weights, means and chol.

    The other parameters are those of :func:`densities`, ``shares`` what it returned.
    """
    n_rows, d = rows.shape
    m, k = present.shape[0], weights.shape[0]
    factors, axes = marginal_frames(chol, present)
    order, starts = by_pattern(which, n_rows, m)
    of_weights, of_means, of_chol = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    z, counts, column = np.empty((d, BLOCK)), np.empty(BLOCK), np.empty(d)
    for p in range(m):
        for c in range(k):
            zeroth, centre, second = 0.0, np.zeros(d), np.zeros((d, d))
            for start in range(starts[p], starts[p + 1], BLOCK):
                n = min(BLOCK, starts[p + 1] - start)
                whiten(rows, order, start, n, means[c], factors[p, c], present[p], z)
                for b in range(n):
                    counts[b] = shares[c, order[start + b]] * cotangent[order[start + b]]
                for b in range(n):
                    zeroth += counts[b]
                for i in range(d):
                    left = z[i]
                    total = 0.0
                    for b in range(n):
                        # where there is no share z may be infinite
                        left[b] = left[b] if counts[b] != 0.0 else 0.0
                        total += counts[b] * left[b]
                    centre[i] += total
                    for j in range(i + 1):
                        right = z[j]
                        total = 0.0
                        for b in range(n):
                            total += counts[b] * left[b] * right[b]
                        second[i, j] += total
            f = factors[p, c]
            of_weights[c] += zeroth / weights[c]
            for i in range(d):
                second[i, i] -= zeroth
                for j in range(i):
                    second[j, i] = second[i, j]
            solve_transposed(f, centre)
            for i in range(d):
                if present[p, i]:
                    of_means[c, i] += centre[i]
            for a in range(d):
                if not present[p, a]:
                    continue
                for i in range(d):
                    column[i] = second[i, a] if present[p, i] else 0.0
                solve_transposed(f, column)
                for i in range(d):
                    if present[p, i]:
                        for e in range(min(a, i) + 1):
                            of_chol[c, i, e] += column[i] * axes[p, c, a, e]
    return of_weights, of_means, of_chol


@numba.njit(**OPTIONS)
def row_slopes(
    rows: FloatArray,
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    present: BoolArray,
    which: IntArray,
    shares: FloatArray,
    cotangent: FloatArray,
) -> FloatArray:
    """Derivatives (N, D) of the same sum by the rows; 0 where a value is missing. Shares stand for the weights."""
    n_rows, d = rows.shape
    k = means.shape[0]
    factors, _ = marginal_frames(chol, present)
    out, z = np.zeros((n_rows, d)), np.empty(d)
    for n in range(n_rows):
        p = which[n] if which.shape[0] else 0
        for c in range(k):
            count = shares[c, n] * cotangent[n]
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
