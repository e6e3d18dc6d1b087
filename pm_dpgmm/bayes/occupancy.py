"""Component probabilities of a vector with a mixture prior, from draws that may have missed components.

Two routes. From draws alone: within one component the draws say what a Gaussian likelihood must be, and that likelihood
gives every component its evidence. From the model: importance sampling, component by component.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp, softmax

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture import LOG_2PI, Mixture

BROADER = 1.5  # covariance of the proposals over that of the conjugate posterior
DEFENSIVE = 0.5  # share of the proposals that come from the prior component itself
FLATTEST = 1e-9  # least posterior variance over prior variance that is believed


def gaussian_likelihood(mixture: Mixture, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Precision (D, D) and linear term (D,) of the Gaussian likelihood exp(-x'Px/2 + h'x) that fits posterior draws.

    Draws weighted by their responsibility for component j are draws of the posterior of that component alone, which is
    N(m, C) with C^-1 = S_j^-1 + P and C^-1 m = S_j^-1 mean_j + h. The component with most draws is used.

    Parameters
    ----------
    mixture : Mixture
        Prior, K components in D dimensions.
    points : ndarray, shape (N, D)
        Posterior draws.
    """
    shares = mixture.responsibilities(points)
    j = int(np.argmax(shares.sum(axis=0)))
    weights = shares[:, j] / shares[:, j].sum()
    factor = np.linalg.cholesky(mixture.covariances[j])
    offsets = np.linalg.solve(factor, (points - mixture.means[j]).T).T
    mean = weights @ offsets
    centred = offsets - mean
    values, vectors = np.linalg.eigh((centred.T * weights) @ centred)
    precision = (vectors / np.clip(values, FLATTEST, 1.0)) @ vectors.T  # data never widen a Gaussian component
    inverse = np.linalg.inv(factor)
    likelihood = inverse.T @ (precision - np.eye(len(mean))) @ inverse
    return likelihood, inverse.T @ precision @ mean + likelihood @ mixture.means[j]


def conjugate(mixture: Mixture, precision: FloatArray, linear: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probabilities (K,), means (K, D) and covariances (K, D, D) of the posterior under exp(-x'Px/2 + h'x)."""
    prior = np.linalg.inv(mixture.covariances)
    covariances = np.linalg.inv(prior + precision)
    pulls = (prior @ mixture.means[..., None])[..., 0] + linear
    means = (covariances @ pulls[..., None])[..., 0]
    quadratic = (pulls * means).sum(axis=1) - (mixture.means * (pulls - linear)).sum(axis=1)
    scales = np.linalg.slogdet(covariances)[1] - np.linalg.slogdet(mixture.covariances)[1]
    with np.errstate(divide="ignore"):
        log_evidence = np.log(mixture.weights) + 0.5 * (scales + quadratic)
    return np.asarray(softmax(log_evidence)), means, (covariances + covariances.swapaxes(1, 2)) / 2


def extrapolated(mixture: Mixture, points: FloatArray) -> FloatArray:
    """Component probabilities (K,) if the likelihood is Gaussian in x; ``points`` are draws (N, D)."""
    return conjugate(mixture, *gaussian_likelihood(mixture, points))[0]


class Proposals:
    """Importance sampling of one vector within each component: half from the prior, half about the conjugate posterior.

    Parameters
    ----------
    mixture : Mixture
    points : ndarray, shape (N, D)
        Posterior draws, from which a Gaussian likelihood is guessed; a wrong guess costs precision only.
    """

    def __init__(self, mixture: Mixture, points: FloatArray) -> None:
        _, means, covariances = conjugate(mixture, *gaussian_likelihood(mixture, points))
        self.mixture = mixture
        self.guess = Mixture(mixture.weights, means, BROADER * covariances)

    def log_evidence(
        self, component: int, log_likelihood: Callable[[FloatArray], float], n_points: int, *, rng: np.random.Generator
    ) -> tuple[float, float]:
        """Log of the integral of N(x; component) times the likelihood, and the effective number of the points."""
        prior, guess = _one(self.mixture, component), _one(self.guess, component)
        n_prior = round(DEFENSIVE * n_points)
        points = np.concatenate([prior.sample(n_prior, rng=rng), guess.sample(n_points - n_prior, rng=rng)])
        log_prior = prior.log_density(points)
        share = n_prior / n_points
        with np.errstate(divide="ignore"):
            log_proposal = np.logaddexp(np.log(share) + log_prior, np.log1p(-share) + guess.log_density(points))
        log_values = np.array([log_likelihood(point) for point in points])
        log_weights = np.where(np.isnan(log_values), -np.inf, log_values) + log_prior - log_proposal
        total = float(logsumexp(log_weights))
        if not np.isfinite(total):
            return -np.inf, 0.0
        effective = float(np.exp(2 * total - logsumexp(2 * log_weights)))
        return total - float(np.log(n_points)), effective


def standard_normal(offset: FloatArray) -> float:
    """Log density of N(0, I) at ``offset`` (D,)."""
    return float(-0.5 * (offset @ offset + len(offset) * LOG_2PI))


def _one(mixture: Mixture, component: int) -> Mixture:
    return Mixture([1.0], mixture.means[[component]], mixture.covariances[[component]])
