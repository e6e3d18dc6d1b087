"""Sampling error of an efficient fit of a mixture, overlaps of components included. No record is seen."""

from __future__ import annotations

import numpy as np
from scipy import linalg, stats

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.coordinates import Coordinates, triangle
from pm_dpgmm.mixture.mixture import Mixture

N_NODES = 2**12  # for each component; the covariance is then good to about a per cent
NODE_SEED = 20240229  # public: the same mixture always has the same covariance
ONE_RECORD = 1.0  # information added to every coordinate, in records, so that an empty component is uncertain, not NaN


def fit_covariance(mixture: Mixture, n_records: float) -> FloatArray:
    """Covariance of the relative error of the maximum-likelihood fit to ``n_records`` records of ``mixture``.

    The inverse of the information of a record, by quasi-random nodes, over the number of records: the law of an
    efficient estimator in large samples, whatever the components share.

    Parameters
    ----------
    mixture : Mixture
        K components in D dimensions, weights of 0 allowed.
    n_records : float
        Positive; infinite gives zeros.

    Returns
    -------
    ndarray, shape (P, P), P = K (1 + D + D (D + 1)/2)
        No unit. Coordinates: the K weights (their errors sum to 0, so the block is singular); for each component, the
        mean in units of L, L L' its covariance; for each component, row by row, the entries of the lower triangular T
        in L T (L T)', the estimated covariance: log T[i, i] and T[i, l]/T[l, l]. To first order these are, but for the
        weights, the coordinates :class:`pm_dpgmm.mixture.coordinates.Coordinates` about the mixture.

    Guarantee
    ---------
    Post-processing: costs no privacy budget.

    Examples
    --------
    >>> spread = fit_covariance(Mixture([1.0], [[3.0]], [[[4.0]]]), 1000)
    >>> (1000 * np.diag(spread)).round(1) + 0.0  # one weight, one mean, the logarithm of one standard deviation
    array([0. , 1. , 0.5])
    """
    k, d = mixture.means.shape
    if not np.isfinite(n_records):
        return np.zeros((Coordinates(k, d).size,) * 2)
    factors = np.linalg.cholesky(mixture.covariances)
    nodes = stats.qmc.MultivariateNormalQMC(np.zeros(d), rng=np.random.default_rng(NODE_SEED)).random(N_NODES)
    points = mixture.means[:, None] + np.einsum("kij,nj->kni", factors, nodes)
    rows = points.reshape(-1, d)
    whitened = np.stack(
        [linalg.solve_triangular(f, (rows - m).T, lower=True).T for f, m in zip(factors, mixture.means, strict=True)]
    )
    heights = -0.5 * (whitened**2).sum(axis=-1) - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)[:, None]
    top = heights.max(axis=0)
    relative = np.exp(heights - top)  # component densities over the largest, (K, M)
    relative /= mixture.weights @ relative
    low, high, _ = triangle(d)
    products = whitened[..., low] * whitened[..., high] - (low == high)
    shares = mixture.weights[:, None] * relative
    contrasts = linalg.helmert(k)  # (K - 1, K), orthonormal, rows sum to 0
    scores = np.concatenate(
        [
            contrasts @ relative,
            np.moveaxis(shares[..., None] * whitened, 1, 2).reshape(-1, len(rows)),
            np.moveaxis(shares[..., None] * products, 1, 2).reshape(-1, len(rows)),
        ]
    )
    mass = np.repeat(mixture.weights / N_NODES, N_NODES)
    information = (scores * mass) @ scores.T
    free = np.linalg.inv(n_records * information + ONE_RECORD * np.eye(len(scores)))
    spread = linalg.block_diag(contrasts.T, np.eye(len(scores) - (k - 1)))
    return np.asarray(spread @ free @ spread.T)
