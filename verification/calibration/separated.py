"""A prior of two separate components, which keeps labels apart: truths are drawn from it, posteriors use it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm.mixture.fisher_information import fit_covariance
from pm_dpgmm.mixture.mixture import Mixture

FloatArray = NDArray[np.float64]

N_COMPONENTS = 2
LOGIT_SD, MEAN_SD, LOG_SD, SLOPE_SD = 0.3, 0.3, 0.15, 0.3  # of the prior; means in the unit of the data
CENTRE = 2.8  # of the first feature's means, plus and minus: five or six standard deviations apart


def n_parameters(d: int) -> int:
    """One logit, means, and the entries of the Cholesky factors."""
    return 1 + N_COMPONENTS * (d + d * (d + 1) // 2)


def scales(d: int) -> FloatArray:
    """Prior standard deviations, (P,); the parameters are independent normal with mean 0."""
    low, high = np.tril_indices(d)
    shape = np.where(low == high, LOG_SD, SLOPE_SD)
    return np.concatenate([[LOGIT_SD], np.full(N_COMPONENTS * d, MEAN_SD), np.tile(shape, N_COMPONENTS)])


def draw(shape: tuple[int, ...], d: int, *, rng: np.random.Generator) -> FloatArray:
    """Parameters from the prior, (*shape, P)."""
    return rng.normal(size=(*shape, n_parameters(d))) * scales(d)


def log_prior(theta: FloatArray, d: int) -> FloatArray:
    """Up to a constant."""
    return np.asarray(-0.5 * ((theta / scales(d)) ** 2).sum(axis=-1))


def unpack(theta: FloatArray, d: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights (..., 2), means (..., 2, D) and Cholesky factors (..., 2, D, D)."""
    first = 1 / (1 + np.exp(-theta[..., 0]))
    weights = np.stack([first, 1 - first], axis=-1)
    k = N_COMPONENTS
    means = theta[..., 1 : 1 + k * d].reshape(*theta.shape[:-1], k, d).copy()
    means[..., 0, 0] -= CENTRE
    means[..., 1, 0] += CENTRE
    low, high = np.tril_indices(d)
    entries = theta[..., 1 + k * d :].reshape(*theta.shape[:-1], k, len(low))
    entries = np.where(low == high, np.exp(np.clip(entries, -50, 50)), entries)
    chol = np.zeros((*entries.shape[:-1], d, d))
    chol[..., low, high] = entries
    return weights, means, chol


def pack(found: Mixture) -> FloatArray:
    """The parameters of a mixture, (P,): inverse of ``unpack``."""
    d = found.n_features
    low, high = np.tril_indices(d)
    entries = np.linalg.cholesky(found.covariances)[:, low, high]
    means = found.means - CENTRE * np.array([[-1.0], [1.0]]) * (np.arange(d) == 0)
    logit = np.log(found.weights[0] / found.weights[1])
    return np.concatenate([[logit], means.ravel(), np.where(low == high, np.log(np.abs(entries)), entries).ravel()])


def mixture(theta: FloatArray, d: int) -> Mixture:
    """The mixture of one vector of parameters."""
    weights, means, chol = unpack(theta, d)
    return Mixture(weights, means, chol @ np.swapaxes(chol, -1, -2))


NAMES = {
    1: ("weight", "mean 1", "mean 2", "sd 1", "sd 2"),
    2: ("weight", "mean 1x", "mean 1y", "mean 2x", "mean 2y",
        "sd 1x", "sd 1y", "corr 1", "sd 2x", "sd 2y", "corr 2"),
}  # fmt: skip


def readable(weights: FloatArray, means: FloatArray, chol: FloatArray) -> FloatArray:
    """The parameters of ``NAMES``, (..., P): weight of the first component, means, deviations and correlations."""
    lead, (k, d) = weights.shape[:-1], means.shape[-2:]
    covariances = chol @ np.swapaxes(chol, -1, -2)
    sds = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    shape = sds
    if d == 2:
        shape = np.concatenate([sds, covariances[..., 0, 1, None] / sds.prod(axis=-1, keepdims=True)], axis=-1)
    return np.concatenate([weights[..., :1], means.reshape(*lead, k * d), shape.reshape(*lead, -1)], axis=-1)


def ordered(found: Mixture) -> tuple[Mixture, NDArray[np.intp]]:
    """Components from left to right, as in the prior, and their places in ``found``: releases are shuffled."""
    order = np.argsort(found.means[:, 0])
    return Mixture(found.weights[order], found.means[order], found.covariances[order]), order


def around(centre: Mixture, n_records: int, n_draws: int, *, rng: np.random.Generator) -> FloatArray:
    """Draws of the readable parameters from the large-sample posterior of records whose fit is ``centre``.

    The posterior that takes a release for the fit itself, and, around the truth, the one that has the records.
    """
    k, d = centre.means.shape
    covariance = fit_covariance(centre, n_records)
    values, vectors = np.linalg.eigh(covariance)
    errors = rng.normal(size=(n_draws, len(values))) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    weights = centre.weights + errors[:, :k]
    factors = np.linalg.cholesky(centre.covariances)
    means = centre.means + np.einsum("kij,nkj->nki", factors, errors[:, k : k + k * d].reshape(-1, k, d))
    low, high = np.tril_indices(d)
    entries = errors[:, k + k * d :].reshape(n_draws, k, -1)
    relative = np.zeros((n_draws, k, d, d))
    relative[..., low, high] = np.where(low == high, np.exp(entries), entries)
    return readable(weights, means, factors @ relative)
