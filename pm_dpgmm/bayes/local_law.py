"""Cell probabilities of mixtures, in NumPy: the law behind local responses about cells."""

from __future__ import annotations

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray

FARTHEST = 8.5  # standard deviations: the density beyond is below 1e-16
NODES = 24  # of the integral over the first column of a cell, in two dimensions


def cell_probabilities(edges: FloatArray, weights: FloatArray, means: FloatArray, chol: FloatArray) -> FloatArray:
    """Probabilities (..., J ** D) of the cells between ``edges`` (D, J - 1), for any leading dimensions.

    One dimension: differences of normal distribution functions. Two: for every component the integral over the first
    column of the density times the conditional probability of the second, by Gauss-Legendre in every cell; the error
    is below 1e-7 for correlations up to 0.9.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (..., K), (..., K, D), (..., K, D, D)

    Raises
    ------
    ValueError
        In more than two dimensions.
    """
    d = len(edges)
    check_dimension(d)
    cuts = np.concatenate([np.full((d, 1), -np.inf), edges, np.full((d, 1), np.inf)], axis=1)
    first = np.clip((cuts[0] - means[..., :1]) / chol[..., 0, :1], -FARTHEST, FARTHEST)
    if d == 1:
        return np.asarray((weights[..., None] * np.diff(special.ndtr(first))).sum(axis=-2))
    nodes, steps = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(first)[..., None] / 2
    u = first[..., :-1, None] + half * (1 + nodes)  # (..., K, J, Q)
    density = half * steps * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
    centre = means[..., 1, None, None] + chol[..., 1, :1, None] * u
    second = special.ndtr((cuts[1] - centre[..., None]) / chol[..., 1, 1:, None, None])
    found = (density[..., None] * np.diff(second)).sum(axis=-2)  # (..., K, J, J)
    total = (weights[..., None, None] * found).sum(axis=-3)
    return np.asarray(total.reshape(*total.shape[:-2], -1))


def check_dimension(n_features: int) -> None:
    """Raise ValueError in more than two dimensions."""
    if n_features > 2:
        raise ValueError(
            f"cells of a local release must have at most 2 columns for evidence, got {n_features}:"
            " probabilities of boxes of correlated normals have no closed form"
        )
