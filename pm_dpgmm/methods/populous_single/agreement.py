"""Which fits agree: the friend table of the populous estimator. It never leaves the method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.distances import distance_covariance
from pm_dpgmm.mixture.mixture import Mixture

ROUNDING = 1e-8  # error of a computed distance below 0.1 between valid fits (methods/populous_single/method.md)
LARGEST_CONDITION = 1e8  # of a component's correlation matrix; beyond it a fit is invalid

LARGEST_SIZE = 1e100  # of a mean or a standard deviation, and its inverse the smallest; beyond it products overflow

BoolArray = NDArray[np.bool_]


def is_valid(fit: Mixture) -> bool:
    """Whether distances of this fit can be trusted: a function of the fit alone."""
    scale = np.sqrt(np.diagonal(fit.covariances, axis1=1, axis2=2))
    if scale.min() < 1 / LARGEST_SIZE or scale.max() > LARGEST_SIZE or np.abs(fit.means).max() > LARGEST_SIZE:
        return False
    values = np.linalg.eigvalsh(fit.covariances / (scale[:, :, None] * scale[:, None, :]))
    return bool((values[:, 0] * LARGEST_CONDITION >= values[:, -1]).all())


def friend_table(fits: list[Mixture | None], radius: float) -> BoolArray:
    """Symmetric table, shape (t, t): True where dist_PARAM of two fits is certainly at most ``radius``.

    Parameters
    ----------
    fits : list of Mixture or None
        None and badly conditioned fits are friends of nobody but themselves.
    radius : float
        In the paper's distance; computed distances are compared with ``radius`` less the rounding error.

    Notes
    -----
    Each entry is a function of its two fits, bit for bit, whatever the others are: the sensitivity of the
    counts depends on it. Each unordered pair is computed once.
    """
    t = len(fits)
    table = np.eye(t, dtype=bool)
    valid = {i: fit for i, fit in enumerate(fits) if fit is not None and is_valid(fit)}
    index = list(valid)
    if len(valid) < 2:
        return table
    weights = np.array([fit.weights for fit in valid.values()])
    means = np.array([fit.means for fit in valid.values()])
    covariances = np.array([fit.covariances for fit in valid.values()])
    limit = radius - ROUNDING
    for a in range(len(valid) - 1):
        close = _close_components(
            (weights[a], means[a], covariances[a]), (weights[a + 1 :], means[a + 1 :], covariances[a + 1 :]), limit
        )
        for b in np.flatnonzero(_has_matching(close)) + a + 1:
            table[index[a], index[b]] = table[index[b], index[a]] = True
    return table


def _close_components(
    one: tuple[FloatArray, FloatArray, FloatArray], others: tuple[FloatArray, FloatArray, FloatArray], limit: float
) -> BoolArray:
    """close[m, i, j]: component i of ``one`` and j of the m-th other differ by at most ``limit`` in all parts."""
    weights, means, covariances = (first[None, :, None] for first in one)
    other_weights, other_means, other_covariances = (second[:, None, :] for second in others)
    close = np.abs(weights - other_weights) <= limit
    places = np.nonzero(close)
    first = np.broadcast_to(covariances, (*close.shape, *covariances.shape[-2:]))[places]
    second = np.broadcast_to(other_covariances, (*close.shape, *other_covariances.shape[-2:]))[places]
    gaps = (means - other_means)[places]
    near = _mean_gap(gaps, first, second) <= limit
    near[near] = distance_covariance(first[near], second[near]) <= limit
    close[places] = near
    return close


def _mean_gap(gaps: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """dist_MEAN for differences of means ``gaps`` (M, D)."""
    lengths = [
        np.linalg.norm(np.linalg.solve(np.linalg.cholesky(s), gaps[..., None])[..., 0], axis=-1)
        for s in (first, second)
    ]
    return np.maximum(*lengths)


def _has_matching(close: BoolArray) -> BoolArray:
    """Whether each k x k table of the stack contains a permutation."""
    result = np.array(np.logical_and(close.any(axis=1), close.any(axis=2)).all(axis=1), dtype=bool)
    ambiguous = result & ((close.sum(axis=1) > 1).any(axis=1) | (close.sum(axis=2) > 1).any(axis=1))
    for m in np.flatnonzero(ambiguous):
        result[m] = bool((np.asarray(maximum_bipartite_matching(csr_array(close[m]), perm_type="column")) >= 0).all())
    return result
