"""A prior of two separate components, which keeps labels apart: truths are drawn from it, posteriors use it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.fisher_information import fit_covariance
from pm_dpgmm.mixture.mixture import Mixture

FloatArray = NDArray[np.float64]

N_COMPONENTS = 2
LOGIT_SD, MEAN_SD, LOG_SD, SLOPE_SD = 0.3, 0.3, 0.15, 0.3  # of the prior; means in the unit of the data
CENTRE = 2.8  # of the first feature's means, plus and minus: five or six standard deviations apart


def chart(d: int) -> Coordinates:
    """One logit, means, and entries of Cholesky factors, about two components of weight 1/2 and covariance I."""
    means = CENTRE * np.array([[-1.0], [1.0]]) * (np.arange(d) == 0)
    origin = np.full(N_COMPONENTS, 0.5), means, np.broadcast_to(np.eye(d), (N_COMPONENTS, d, d))
    return Coordinates(N_COMPONENTS, d, "ratios", reference=1, origin=origin, limits=(-50, 50))


def n_parameters(d: int) -> int:
    """Numbers in a vector of parameters."""
    return chart(d).size


def scales(d: int) -> FloatArray:
    """Prior standard deviations, (P,); the parameters are independent normal with mean 0."""
    return chart(d).filled(LOGIT_SD, MEAN_SD, LOG_SD, SLOPE_SD)


def draw(shape: tuple[int, ...], d: int, *, rng: np.random.Generator) -> FloatArray:
    """Parameters from the prior, (*shape, P)."""
    return rng.normal(size=(*shape, n_parameters(d))) * scales(d)


def log_prior(theta: FloatArray, d: int) -> FloatArray:
    """Up to a constant."""
    return np.asarray(-0.5 * ((theta / scales(d)) ** 2).sum(axis=-1))


def unpack(theta: FloatArray, d: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights (..., 2), means (..., 2, D) and Cholesky factors (..., 2, D, D)."""
    return chart(d).at(theta)


def pack(found: Mixture) -> FloatArray:
    """The parameters of a mixture, (P,): inverse of ``unpack``."""
    factors = np.asarray(np.linalg.cholesky(found.covariances), dtype=float)
    return chart(found.n_features).of(found.weights, found.means, factors)


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
    covariance = fit_covariance(centre, n_records)
    values, vectors = np.linalg.eigh(covariance)
    errors = rng.normal(size=(n_draws, len(values))) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    _, means, factors = Coordinates.about(centre, "shares").at(errors)
    return readable(centre.weights + errors[:, : centre.n_components], means, factors)
