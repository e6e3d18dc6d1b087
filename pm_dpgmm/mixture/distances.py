"""Distances between Gaussian components and between mixtures, and the bottleneck matching that lifts them.

Affine invariant semimetrics: symmetric, zero for equal laws, with a triangle inequality up to the factor
``triangle_constant``. No distance has a unit. Source: Arbas, Ashtiani and Liaw (2023), section 4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from pm_dpgmm._arguments import FloatArray, check_choice, check_non_negative
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.total_variation import Interval, total_variation_1d, total_variation_bounds


def distance_covariance(first: ArrayLike, second: ArrayLike, *, norm: str = "frobenius") -> Any:
    """max(||S1^-1/2 S2 S1^-1/2 - I||, ||S2^-1/2 S1 S2^-1/2 - I||) for batches of covariances.

    Parameters
    ----------
    first, second : array_like, shapes (..., d, d) that broadcast
        Symmetric positive definite, in the unit of the data squared.
    norm : {"frobenius", "spectral"}

    Returns
    -------
    float or ndarray, shape (...)
        Same bits for swapped arguments, for any batch around a pair, and in units that differ by powers of two;
        exactly 0 for equal arguments; infinite if it overflows. Relative error about 1e-16 times the condition
        number of the matrices scaled to unit diagonal, near equality too.

    Raises
    ------
    ValueError
        If shapes disagree, or an entry is not finite, or a matrix is not symmetric positive definite.

    Notes
    -----
    With S1 = L1 L1' the first norm is that of L1^-1 (S2 - S1) L1^-T, a rotation of the symmetric form. The
    subtraction comes before the whitening: for close matrices it is exact, while L1^-1 L2 would carry the
    rounding of two Cholesky factors, an absolute error of 1e-16 times the condition number.

    Examples
    --------
    >>> float(distance_covariance([[1.0]], [[2.0]]))
    1.0
    """
    check_choice(("frobenius", "spectral"), norm=norm)
    (a, factor_a), (b, factor_b) = _factored("first", first), _factored("second", second)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"covariances must have the same n_features, got {a.shape[-1]} and {b.shape[-1]}")
    matrix_norm = _frobenius if norm == "frobenius" else _spectral
    with np.errstate(over="ignore", invalid="ignore"):
        # "Other minus own" on both sides: eigenvalues of -M need not be the negatives of those of M to the last bit.
        forward, backward = matrix_norm(_whitened(factor_a, b - a)), matrix_norm(_whitened(factor_b, a - b))
    return np.maximum(forward, backward)[()]


def distance_mean(
    first_mean: ArrayLike, first_covariance: ArrayLike, second_mean: ArrayLike, second_covariance: ArrayLike
) -> Any:
    """max(||S1^-1/2 (m1 - m2)||, ||S2^-1/2 (m1 - m2)||) for batches of components.

    Parameters
    ----------
    first_mean, second_mean : array_like, shapes (..., d) that broadcast
        In the unit of the data.
    first_covariance, second_covariance : array_like, shapes (..., d, d) that broadcast
        Symmetric positive definite, in the unit of the data squared.

    Returns and raises as ``distance_covariance``. Not a metric: an approximate triangle inequality holds only
    jointly with the covariances, see ``triangle_constant``.

    Examples
    --------
    >>> float(distance_mean([0.0], [[4.0]], [2.0], [[1.0]]))
    2.0
    """
    _, factor_a = _factored("first_covariance", first_covariance)
    _, factor_b = _factored("second_covariance", second_covariance)
    m1, m2 = np.asarray(first_mean, dtype=float), np.asarray(second_mean, dtype=float)
    shapes = [array.shape for array in (m1, factor_a, m2, factor_b)]
    if len({shape[-1:] for shape in shapes}) > 1:
        raise ValueError(f"means and covariances must have the same n_features, got shapes {shapes}")
    if not (np.isfinite(m1).all() and np.isfinite(m2).all()):
        raise ValueError("means must be finite")
    with np.errstate(over="ignore", invalid="ignore"):
        difference = (m1 - m2)[..., None]
        forward, backward = (_frobenius(_solve(factor, difference)) for factor in (factor_a, factor_b))
    return np.maximum(forward, backward)[()]


def distance_component(
    first_mean: ArrayLike, first_covariance: ArrayLike, second_mean: ArrayLike, second_covariance: ArrayLike
) -> Any:
    """max(``distance_covariance`` in the Frobenius norm, ``distance_mean``); arguments as ``distance_mean``."""
    return np.maximum(
        distance_covariance(first_covariance, second_covariance),
        distance_mean(first_mean, first_covariance, second_mean, second_covariance),
    )


def component_distances(first: Mixture, second: Mixture) -> FloatArray:
    """Table (K1, K2) of ``distance_component``; ValueError if the mixtures differ in ``n_features``."""
    a, b = (first.means[:, None], first.covariances[:, None]), (second.means[None], second.covariances[None])
    return np.asarray(distance_component(*a, *b))


def bottleneck_assignment(table: ArrayLike) -> tuple[float, NDArray[np.int64]]:
    """Assign rows to columns one to one so that the largest used entry is as small as possible.

    Parameters
    ----------
    table : array_like, shape (k, k)
        Costs; infinite ones allowed. ValueError if it is not square, is empty or contains NaN.

    Returns
    -------
    value : float
        The largest used entry; infinite when every assignment uses an infinite one.
    permutation : ndarray of int, shape (k,)
        Column of every row. One of the optimal assignments, the same one on every call.

    Notes
    -----
    Binary search over the sorted entries; each step asks for a perfect matching among the entries up to the
    candidate (Hopcroft and Karp 1973). O(k^2.5 log k).

    Examples
    --------
    >>> value, permutation = bottleneck_assignment([[1.0, 0.0], [5.0, 2.0]])
    >>> value, permutation.tolist()
    (2.0, [0, 1])
    """
    costs = np.asarray(table, dtype=float)
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or costs.size == 0:
        raise ValueError(f"table must have shape (k, k), got {costs.shape}")
    if np.isnan(costs).any():
        raise ValueError("table must not contain NaN")
    candidates = np.unique(costs)
    # No perfect matching below the largest row or column minimum; the largest entry, even infinite, allows all.
    least = max(costs.min(axis=1).max(), costs.min(axis=0).max())
    low, high = int(np.searchsorted(candidates, least)), len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if (_matching(costs <= candidates[middle]) >= 0).all():
            high = middle
        else:
            low = middle + 1
    return float(candidates[low]), _matching(costs <= candidates[low])


def distance_components(first: Mixture, second: Mixture) -> float:
    """Bottleneck of ``component_distances`` over matchings, weights ignored; ValueError if K or D differ."""
    _check_alike(first, second)
    return bottleneck_assignment(component_distances(first, second))[0]


def distance_parameters(first: Mixture, second: Mixture) -> float:
    """Bottleneck of max(|w_i - w'_j|, ``component_distances``) over matchings; ValueError if K or D differ."""
    return bottleneck_assignment(np.maximum(_weight_gaps(first, second), component_distances(first, second)))[0]


def distance_gmm(first: Mixture, second: Mixture) -> float:
    """Bottleneck of max(|w_i - w'_j|, total variation of components i and j), exact, in one dimension.

    ValueError if the mixtures differ in K, or if D > 1: use ``distance_gmm_bounds``.

    Examples
    --------
    >>> f = Mixture([0.5, 0.5], [[0.0], [9.0]], [[[1.0]], [[1.0]]])
    >>> g = Mixture([0.25, 0.75], [[9.0], [0.0]], [[[1.0]], [[1.0]]])
    >>> distance_gmm(f, g)
    0.25
    """
    gaps = _weight_gaps(first, second)
    if first.n_features != 1:
        raise ValueError(f"distance_gmm needs n_features 1, got {first.n_features}; distance_gmm_bounds takes any")
    sd1, sd2 = np.sqrt(first.covariances[:, 0]), np.sqrt(second.covariances[:, 0].T)
    table = total_variation_1d(first.means, sd1, second.means.T, sd2)
    return bottleneck_assignment(np.maximum(gaps, table))[0]


def distance_gmm_bounds(first: Mixture, second: Mixture) -> Interval:
    """Certified bounds on the distance of ``distance_gmm`` in any dimension; ValueError if K or D differ.

    The bottleneck grows with every entry, so the tables of lower and upper bounds give a lower and an upper bound.
    """
    gaps = _weight_gaps(first, second)
    ends = np.empty((2, *gaps.shape))
    for i, j in np.ndindex(*gaps.shape):
        a, b = (first.means[i], first.covariances[i]), (second.means[j], second.covariances[j])
        bounds = total_variation_bounds(*a, *b)
        ends[:, i, j] = bounds.lower, bounds.upper
    lower, upper = (bottleneck_assignment(np.maximum(gaps, table))[0] for table in ends)
    return Interval(lower, upper)


def triangle_constant(radius: float, kind: str) -> float:
    """Smallest z with d(1, 3) <= z (d(1, 2) + d(2, 3)) whenever both distances on the right are at most ``radius``.

    Parameters
    ----------
    radius : float
        Finite and at least 0, else ValueError.
    kind : {"covariance", "mean", "component", "components", "parameters"}
        The function ``distance_<kind>``. Two readings: "covariance" holds for both norms; "mean" has
        ``distance_mean`` on the left and ``distance_component`` on the right, as alone it has no finite z.

    Guarantee
    ---------
    Let x = d(1, 2), y = d(2, 3). Covariance: S3 - S1 = (S3 - S2) + (S2 - S1), and whitening by S1 instead of S2
    multiplies a norm by at most 1 + x, so d(1, 3) <= x + (1 + x) y, z = 1 + xy / (x + y) <= 1 + radius / 2;
    attained by the variances 1, 1 + r, (1 + r)^2.
    Mean: likewise d(1, 3) <= x + sqrt(1 + x) y, and z is largest at x = y = r; attained by the means 0, r,
    r + r sqrt(1 + r) with variances 1, 1 + r, 1 + r.
    Component: the larger of the two. Matchings compose and weights have z = 1, hence the rest.

    Examples
    --------
    >>> triangle_constant(1.0, "component"), round(triangle_constant(1.0, "mean"), 4)
    (1.5, 1.2071)
    """
    check_non_negative(radius=radius)
    check_choice(("covariance", "mean", "component", "components", "parameters"), kind=kind)
    return (1 + math.sqrt(1 + radius)) / 2 if kind == "mean" else 1 + radius / 2


def _weight_gaps(first: Mixture, second: Mixture) -> FloatArray:
    _check_alike(first, second)
    return np.abs(first.weights[:, None] - second.weights[None])


def _check_alike(first: Mixture, second: Mixture) -> None:
    a, b = first.means.shape, second.means.shape
    if a != b:
        raise ValueError(f"mixtures must have the same (n_components, n_features), got {a} and {b}")


def _matching(allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Column of every row in a largest matching, -1 for none."""
    return maximum_bipartite_matching(csr_array(allowed), perm_type="column").astype(np.int64)


def _factored(name: str, value: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Checked covariances (the lower triangle counts, as for Cholesky) and their factors, shapes (..., d, d)."""
    batch = np.asarray(value, dtype=float)
    if batch.ndim < 2 or batch.shape[-1] != batch.shape[-2] or batch.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d, d), got {batch.shape}")
    if not np.isfinite(batch).all():
        raise ValueError(f"{name} must be finite")
    transposed = np.swapaxes(batch, -1, -2)
    if (np.abs(batch - transposed) > 1e-8 * np.abs(batch).max(axis=(-2, -1), keepdims=True)).any():
        raise ValueError(f"{name} must be symmetric")
    try:
        factors = np.linalg.cholesky(batch)
    except np.linalg.LinAlgError:
        raise ValueError(f"{name} must be positive definite") from None
    return np.where(np.tri(batch.shape[-1], dtype=bool), batch, transposed), factors


# Below, every operation is elementwise: the bits of a pair then depend neither on its place in the batch nor on the
# shape of the batch, which matmul and sum do not promise.


def _solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """L^-1 R by forward substitution, shape (..., d, m)."""
    rows: list[FloatArray] = []
    for i in range(factor.shape[-1]):
        row = right[..., i, :]
        for j in range(i):
            row = row - factor[..., i, j, None] * rows[j]
        rows.append(row / factor[..., i, i, None])
    return np.stack(rows, axis=-2)


def _whitened(factor: FloatArray, difference: FloatArray) -> FloatArray:
    """L^-1 E L^-T, exactly symmetric, shape (..., d, d)."""
    full = _solve(factor, np.swapaxes(_solve(factor, difference), -1, -2))
    return (full + np.swapaxes(full, -1, -2)) / 2


def _frobenius(matrix: FloatArray) -> FloatArray:
    total = np.zeros(matrix.shape[:-2])
    for i, j in np.ndindex(*matrix.shape[-2:]):
        total = np.hypot(total, matrix[..., i, j])  # a scalar loop, and safe against underflow of squares
    return np.where(np.isnan(total), np.inf, total)  # NaN: inf - inf after an overflow


def _spectral(matrix: FloatArray) -> FloatArray:
    finite = np.asarray(np.isfinite(matrix).all(axis=(-2, -1)))
    values = np.linalg.eigvalsh(np.where(finite[..., None, None], matrix, 0.0))
    return np.where(finite, np.abs(values).max(axis=-1), np.inf)
