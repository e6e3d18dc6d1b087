"""Means and covariances from moments near a direction: E f(y) P(z) for y = u.x and the coordinates z across u.

The Fourier moments of a projection on u + s v have at s = 0 the derivatives i t E v.x exp(i t u.x) by s, and those of
second order hold E (v.x) (w.x) exp(i t u.x). So the moments with P = 1, a coordinate, or a product of two are the limit
of the d (d + 1)/2 neighbouring projections of Kalai, Moitra and Valiant (2010): no small angle divides the error, and
no component needs to be matched from one neighbour to the next.

For one Gaussian component, with mean and variance (m, s) of y, means m_i across, covariances c_i with y and s_ij:
E z_i f = m_i E f + c_i E f', E z_i z_j f = (m_i m_j + s_ij) E f + (m_i c_j + m_j c_i) E f' + c_i c_j E f''.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.univariate_moments import component_moments, features, resolving, thinned, whitening
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

WEIGHT_ROWS = 5_000
RIDGE = 0.1  # of a linear step, in rows: what the moments do not determine goes to 0
MOST_STEPS = 30
LEAST_WEIGHT, MOST_LOG_SCALE = 0.01, 3.0  # of a component on the way; rows are in isotropic position


@dataclass(frozen=True, slots=True, eq=False)
class NearMoments:
    """Moments of rows in isotropic position near one direction.

    ``averages`` (B, F) are those of monomial b across times feature f along, ``inverses`` (B, F, F) the inverse factors
    of their covariances.
    """

    frame: FloatArray  # (D, D), orthonormal columns, the direction first
    frequencies: FloatArray
    averages: FloatArray
    inverses: FloatArray


def near_moments(rows: FloatArray, direction: FloatArray, frequencies: FloatArray) -> NearMoments:
    """Moments of ``rows`` (M, D) near ``direction`` (D,)."""
    frame = _frame(direction)
    table, across = features(rows @ frame[:, 0], frequencies), rows @ frame[:, 1:]
    first, second = _pairs(rows.shape[1])
    monomials = np.concatenate([np.ones((len(rows), 1)), across, across[:, first] * across[:, second]], axis=1)
    some, some_table = thinned(monomials, WEIGHT_ROWS), thinned(table, WEIGHT_ROWS)
    inverses = np.array([np.linalg.inv(whitening(column[:, None] * some_table)) for column in some.T])
    return NearMoments(frame, frequencies, monomials.T @ table / len(rows), inverses)


def lifted(moments: NearMoments, weights: FloatArray, means: FloatArray, variances: FloatArray, n: int) -> Mixture:
    """Components in D dimensions from a univariate mixture along the direction, by linear least squares.

    Parameters
    ----------
    moments : NearMoments
        Of ``n`` rows.
    weights, means, variances : ndarray, shape (K,)

    Returns
    -------
    Mixture

    Raises
    ------
    ValueError
        If a covariance is not positive definite.
    """
    d, k = len(moments.frame), len(weights)
    zeroth, first, second = component_moments(moments.frequencies, means, variances)
    across, joint, inner = np.zeros((k, d - 1)), np.zeros((k, d - 1)), np.zeros((k, d - 1, d - 1))
    design = np.concatenate([zeroth * weights, first * weights], axis=1)
    for i in range(d - 1):
        answer = _solved(moments.inverses[1 + i], design, moments.averages[1 + i], n)
        across[:, i], joint[:, i] = answer[:k], answer[k:]
    for b, (i, j) in enumerate(zip(*_pairs(d), strict=True), start=d):
        known = zeroth * across[:, i] * across[:, j] + second * joint[:, i] * joint[:, j]
        known += first * (across[:, i] * joint[:, j] + across[:, j] * joint[:, i])
        target = moments.averages[b] - known @ weights
        inner[:, i, j] = inner[:, j, i] = _solved(moments.inverses[b], zeroth * weights, target, n)
    framed = np.concatenate([means[:, None], across], axis=1)
    covariances = np.zeros((k, d, d))
    covariances[:, 0, 0], covariances[:, 0, 1:], covariances[:, 1:, 0] = variances, joint, joint
    covariances[:, 1:, 1:] = inner
    return Mixture(weights, framed, covariances).transformed(moments.frame)


def refined(rows: FloatArray, mixture: Mixture, directions: list[FloatArray]) -> Mixture:
    """The mixture whose moments near all ``directions`` fit those of ``rows`` best, from ``mixture`` on.

    Each group of moments (one direction, one monomial) is weighted by the inverse of its covariance, so a direction
    along which components coincide says little about them.

    Raises
    ------
    ValueError
        If the fit is not a mixture in finite numbers.
    """
    given = []
    for u in directions:
        variances = np.einsum("kde,d,e->k", mixture.covariances, u, u)
        given.append(near_moments(rows, u, resolving(variances)))

    chart = Coordinates(mixture.n_components, mixture.n_features, limits=(-np.inf, MOST_LOG_SCALE))
    factors = np.asarray(np.linalg.cholesky(mixture.covariances), dtype=float)
    start = chart.of(mixture.weights, mixture.means, factors, least=LEAST_WEIGHT)

    def residual(x: FloatArray) -> FloatArray:
        return np.concatenate([_residual(one, *chart.at(x)) for one in given])

    def jacobian(x: FloatArray) -> FloatArray:
        return np.concatenate([_jacobian(one, *chart.at(x)) for one in given])

    found = least_squares(
        residual, start, jac=jacobian, method="trf", x_scale="jac", max_nfev=MOST_STEPS, ftol=1e-7, xtol=1e-7
    )
    weights, means, factors = chart.at(found.x)
    return Mixture(weights, means, factors @ np.swapaxes(factors, 1, 2))


def _pairs(d: int) -> tuple[list[int], list[int]]:
    pairs = list(itertools.combinations_with_replacement(range(d - 1), 2))
    return [i for i, _ in pairs], [j for _, j in pairs]


def _frame(direction: FloatArray) -> FloatArray:
    q, r = np.linalg.qr(np.column_stack([direction, np.eye(len(direction))]))
    q[:, 0] *= np.sign(r[0, 0])
    return np.asarray(q)


def _solved(inverse: FloatArray, design: FloatArray, target: FloatArray, n: int) -> FloatArray:
    a, b = inverse @ design, inverse @ target
    return np.asarray(np.linalg.solve(a.T @ a + RIDGE / n * np.eye(a.shape[1]), a.T @ b))


def _by_component(tables: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
    """Moments (B, F, K) of the components from E f, E f' and E f'' (3, F, K), in the coordinates of the frame."""
    first, second = _pairs(means.shape[1])
    m, c = means.T[1:, None], covariances[:, 0, 1:].T[:, None]
    s = np.moveaxis(covariances[:, 1:, 1:], 0, -1)[first, second][:, None]
    zeroth, by, twice = tables
    products = (m[first] * m[second] + s) * zeroth + (m[first] * c[second] + m[second] * c[first]) * by
    return np.concatenate([zeroth[None], m * zeroth + c * by, products + c[first] * c[second] * twice])


def _residual(given: NearMoments, weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
    means, factors = means @ given.frame, given.frame.T @ factors
    covariances = factors @ np.swapaxes(factors, 1, 2)
    tables = component_moments(given.frequencies, means[:, 0], covariances[:, 0, 0])
    gap = _by_component(tables, means, covariances) @ weights - given.averages
    return np.asarray((given.inverses @ gap[:, :, None]).ravel())


def _jacobian(given: NearMoments, weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
    """Derivatives of ``_residual`` by the packed parameters, shape (B F, K (1 + D + D (D + 1)/2))."""
    d = means.shape[1]
    lower = factors
    means, factors = means @ given.frame, given.frame.T @ factors
    covariances = factors @ np.swapaxes(factors, 1, 2)
    tables = component_moments(given.frequencies, means[:, 0], covariances[:, 0, 0], derivatives=4)
    values = _by_component(tables[:3], means, covariances)
    by_mean = np.zeros((*values.shape, d))
    by_covariance = np.zeros((*values.shape, d, d))  # symmetric, half of each entry off the diagonal
    by_mean[..., 0] = _by_component(tables[1:4], means, covariances)
    by_covariance[..., 0, 0] = _by_component(tables[2:5], means, covariances) / 2
    zeroth, first, second = tables[:3]
    for i in range(1, d):
        by_mean[i, ..., i] = zeroth
        by_covariance[i, ..., 0, i] = by_covariance[i, ..., i, 0] = first / 2
    for b, (i, j) in enumerate(zip(*_pairs(d), strict=True), start=d):
        for p, q in ((i + 1, j + 1), (j + 1, i + 1)):
            by_mean[b, ..., p] += means[:, q] * zeroth + covariances[:, 0, q] * first
            change = (means[:, q] * first + covariances[:, 0, q] * second) / 2
            by_covariance[b, ..., 0, p] += change
            by_covariance[b, ..., p, 0] += change
            by_covariance[b, ..., p, q] += zeroth / 2
    by_logit = weights * (values - (values @ weights)[..., None])
    by_mean = (weights[:, None] * by_mean) @ given.frame.T
    by_factor = given.frame @ (2 * weights[:, None, None] * by_covariance) @ factors  # by the factor before the frame
    row, column = np.tril_indices(d)
    by_packed = by_factor[..., row, column] * np.where(row == column, lower[:, row, column], 1.0)
    flat = (*values.shape[:2], -1)
    columns = np.concatenate([by_logit, by_mean.reshape(flat), by_packed.reshape(flat)], axis=-1)
    return np.asarray((given.inverses @ columns).reshape(-1, columns.shape[-1]))
