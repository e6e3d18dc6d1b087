"""The affine-invariant distance of two lifted Gaussians, one pair at a time, and cheap bounds on it.

A component (mean mu, covariance S) is lifted to P = [[S + mu mu', mu], [mu', 1]], symmetric positive definite of size
d + 1, and d_AI(P, Q) = ||log(P^-1/2 Q P^-1/2)||_F. Source: Calvo and Oller (1990); Bhatia (2007), chapter 6.

The kernels use scalar arithmetic in a fixed order: no BLAS and no reassociation. The bits of a pair are a function of
the pair alone. Callers see neither exceptions nor warnings: what cannot be computed is NaN.
"""

from __future__ import annotations

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray

MOST_ROTATIONS = 60  # sweeps of the QL iteration for one eigenvalue; 2 or 3 are usual


@numba.njit(nogil=True, cache=True, error_model="numpy")
def factorise(covariance: FloatArray, factor: FloatArray) -> bool:
    """Cholesky factor of the lower triangle; False if the matrix is not positive definite."""
    d = len(covariance)
    for i in range(d):
        for j in range(d):
            factor[i, j] = 0.0
        for j in range(i + 1):
            total = covariance[i, j]
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if j < i:
                factor[i, j] = total / factor[j, j]
            elif total > 0 and np.isfinite(total):
                factor[i, i] = np.sqrt(total)
            else:
                return False
    return True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def invert(factor: FloatArray, half: FloatArray, precision: FloatArray) -> None:
    """precision = (L L')^-1 = X' X with X = L^-1 in ``half``, exactly symmetric.

    Rows of X are solved from X L = I, so that X L - I is small: methods/populous/agreement.md needs this side, and L X
    - I does not do.
    """
    d = len(factor)
    half[:] = 0.0
    for i in range(d):
        half[i, i] = 1 / factor[i, i]
        for j in range(i - 1, -1, -1):
            total = 0.0
            for m in range(j + 1, i + 1):
                total -= half[i, m] * factor[m, j]
            half[i, j] = total / factor[j, j]
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for m in range(i, d):
                total += half[m, i] * half[m, j]
            precision[i, j] = precision[j, i] = total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def lift_into(
    factor: FloatArray, centre: FloatArray, mean: FloatArray, covariance: FloatArray, out: FloatArray, work: FloatArray
) -> None:
    """Lift (mean, covariance) in the frame where N(centre, L L') is N(0, I): v = L^-1 (mean - centre), L^-1 S L^-T.

    ``out`` (d + 1, d + 1) is exactly symmetric; ``work`` has its shape. The offset and the unit of the data are gone
    before anything is rounded but mean - centre. The lower triangle of ``covariance`` counts.
    """
    d = len(mean)
    for i in range(d):
        for j in range(d):
            out[i, j] = covariance[i, j] if j <= i else covariance[j, i]
        out[i, d] = mean[i] - centre[i]
    _solve_rows(factor, out, d + 1)  # the last column becomes v
    for i in range(d):
        for j in range(d):
            work[i, j] = out[j, i]
    _solve_rows(factor, work, d)
    for i in range(d):
        for j in range(i + 1):
            entry = (work[i, j] + work[j, i]) / 2 + out[i, d] * out[j, d]
            out[i, j] = out[j, i] = entry
    for i in range(d):
        out[d, i] = out[i, d]
    out[d, d] = 1.0


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _solve_rows(factor: FloatArray, right: FloatArray, width: int) -> None:
    """right <- L^-1 right, the first ``width`` columns."""
    for i in range(len(factor)):
        for m in range(i):
            for j in range(width):
                right[i, j] -= factor[i, m] * right[m, j]
        for j in range(width):
            right[i, j] /= factor[i, i]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def eigenvalues_into(matrix: FloatArray, values: FloatArray, off: FloatArray, work: FloatArray) -> bool:
    """Eigenvalues of a symmetric matrix, in no order; False if it is not finite or the iteration stalls.

    Householder's reduction to a tridiagonal matrix and the implicit QL iteration (Golub and Van Loan 2013, 8.3). The
    matrix is overwritten; ``values``, ``off`` and ``work`` have shapes (n,), (n,), (2, n).
    """
    n = len(matrix)
    for i in range(n):
        for j in range(n):
            if not np.isfinite(matrix[i, j]):
                return False
    for c in range(n - 2):
        values[c] = matrix[c, c]
        _reflect(matrix, c, off, work)
    if n > 1:
        values[n - 2], off[n - 2] = matrix[n - 2, n - 2], matrix[n - 1, n - 2]
    values[n - 1], off[n - 1] = matrix[n - 1, n - 1], 0.0
    return _ql(values, off)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _reflect(matrix: FloatArray, c: int, off: FloatArray, work: FloatArray) -> None:
    """Reflect column ``c`` below the diagonal onto its first entry, and the rest of the matrix on both sides."""
    n = len(matrix)
    v, p = work[0], work[1]
    size = 0.0
    for i in range(c + 1, n):
        size = max(size, abs(matrix[i, c]))
    if size == 0:
        off[c] = 0.0
        return
    square = 0.0
    for i in range(c + 1, n):
        v[i] = matrix[i, c] / size  # no overflow in the square
        square += v[i] * v[i]
    length = np.sqrt(square) if v[c + 1] <= 0 else -np.sqrt(square)
    off[c] = size * length
    v[c + 1] -= length
    beta = 1 / (square - (v[c + 1] + length) * length)  # 2 / v'v
    overlap = 0.0
    for i in range(c + 1, n):
        total = 0.0
        for j in range(c + 1, n):
            total += matrix[i, j] * v[j]
        p[i] = beta * total
        overlap += p[i] * v[i]
    for i in range(c + 1, n):
        p[i] -= beta * overlap / 2 * v[i]
    for i in range(c + 1, n):
        for j in range(c + 1, n):
            matrix[i, j] -= v[i] * p[j] + p[i] * v[j]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _ql(values: FloatArray, off: FloatArray) -> bool:
    """Eigenvalues of the tridiagonal matrix with diagonal ``values`` and ``off`` beside it, in place."""
    n = len(values)
    for first in range(n):
        for step in range(MOST_ROTATIONS + 1):
            last = first
            while last < n - 1:
                near = abs(values[last]) + abs(values[last + 1])
                if near + abs(off[last]) == near:
                    break
                last += 1
            if last == first:
                break
            if step == MOST_ROTATIONS:
                return False
            shift = (values[first + 1] - values[first]) / (2 * off[first])
            root = np.hypot(shift, 1.0)
            shift = values[last] - values[first] + off[first] / (shift + (root if shift >= 0 else -root))
            sine, cosine, moved, split = 1.0, 1.0, 0.0, False
            for i in range(last - 1, first - 1, -1):
                f, b = sine * off[i], cosine * off[i]
                root = np.hypot(f, shift)
                off[i + 1] = root
                if root == 0:
                    values[i + 1] -= moved
                    off[last] = 0.0
                    split = True
                    break
                sine, cosine = f / root, shift / root
                shift = values[i + 1] - moved
                root = (values[i] - shift) * sine + 2 * cosine * b
                moved = sine * root
                values[i + 1] = shift + moved
                shift = cosine * root - b
            if not split:
                values[first] -= moved
                off[first] = shift
                off[last] = 0.0
    return True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def distance_of(matrix: FloatArray, values: FloatArray, off: FloatArray, work: FloatArray) -> tuple[float, float]:
    """d_AI of ``matrix`` from the identity, NaN if that cannot be told, and a lower bound on it that can.

    The bound is |log| of the largest eigenvalue, which is computed to a relative error of rounding even where the small
    ones are lost; 0 if there is none. The matrix is overwritten.
    """
    if not eigenvalues_into(matrix, values, off, work):
        return np.nan, 0.0
    largest, total = 0.0, 0.0
    for x in values:
        largest = max(largest, x)
        logarithm = np.log(x) if x > 0 else np.nan
        total += logarithm * logarithm
    return np.sqrt(total), abs(np.log(largest)) if largest > 0 else 0.0


@numba.njit(nogil=True, cache=True, error_model="numpy")
def apart_on_an_axis(
    mean: FloatArray, variance: FloatArray, mean2: FloatArray, variance2: FloatArray, limit: float
) -> bool:
    """Whether the marginals on one axis have J > ``limit``; then so have the components (``jeffreys``)."""
    for i in range(len(mean)):
        inverse, inverse2, gap = 1 / variance[i], 1 / variance2[i], mean[i] - mean2[i]
        if variance[i] * inverse2 + variance2[i] * inverse - 2 + gap * gap * (inverse + inverse2) > limit:
            return True
    return False


@numba.njit(nogil=True, cache=True, error_model="numpy")
def jeffreys(
    mean: FloatArray,
    covariance: FloatArray,
    precision: FloatArray,
    mean2: FloatArray,
    covariance2: FloatArray,
    precision2: FloatArray,
) -> float:
    """J(P, Q) = tr(P^-1 Q) + tr(Q^-1 P) - 2 (d + 1), twice the symmetrised Kullback-Leibler divergence.

    With e^x_i the relative eigenvalues of P and Q, D = d + 1 of them, J = sum_i 4 sinh(x_i/2)^2, and

        2 asinh(sqrt(J)/2)  <=  d_AI(P, Q)  <=  2 sqrt(D) asinh(sqrt(J/D)/2)  <=  sqrt(J).

    Proof: x^2 = g(4 sinh(x/2)^2) with g(y) = 4 asinh(sqrt(y)/2)^2, concave (g' = 2 r/sinh(r), r = sqrt(g), falls in r)
    and 0 at 0. So g(sum y_i) <= sum g(y_i), Jensen's inequality gives sum g(y_i) <= D g(J/D), and asinh(z) <= z.
    Marginals: restricted to a subspace, the relative eigenvalues interlace (Courant and Fischer): those above 1 are at
    most the largest ones of the whole, those below 1 at least the smallest ones, one to one. So J and d_AI of
    a marginal are at most those of the whole.
    Here J = tr((A - B)(T - S)) + (m - m')'(A + B)(m - m'), A = S^-1 and B = T^-1.
    """
    d = len(mean)
    total = 0.0
    for i in range(d):
        gap = mean[i] - mean2[i]
        below = 0.0
        for j in range(i):
            below += (precision[i, j] - precision2[i, j]) * (covariance2[i, j] - covariance[i, j])
            below += (precision[i, j] + precision2[i, j]) * (gap * (mean[j] - mean2[j]))
        total += 2 * below
        total += (precision[i, i] - precision2[i, i]) * (covariance2[i, i] - covariance[i, i])
        total += (precision[i, i] + precision2[i, i]) * (gap * gap)
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def pair_distances(
    factors: FloatArray, centres: FloatArray, means: FloatArray, covariances: FloatArray, out: FloatArray
) -> None:
    """out[n] = d_AI of component n of each batch, in the frame of the first; NaN where it cannot be told."""
    size = centres.shape[1] + 1
    matrix, square = np.empty((size, size)), np.empty((size, size))
    values, off, work = np.empty(size), np.empty(size), np.empty((2, size))
    for n in range(len(out)):
        lift_into(factors[n], centres[n], means[n], covariances[n], matrix, square)
        out[n] = distance_of(matrix, values, off, work)[0]
