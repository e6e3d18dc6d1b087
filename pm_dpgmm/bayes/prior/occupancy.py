"""Component probabilities of a vector with a mixture prior, from draws that may have missed components.

Two routes. From draws alone: within one component the draws say what a Gaussian likelihood must be, and that likelihood
gives every component its evidence. From the model: importance sampling, component by component.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture

IntArray = NDArray[np.int64]

N_BATCHES = 20  # of each chain, for its Monte Carlo error
BROADER = 1.5  # covariance of the proposals over that of the conjugate posterior
DEFENSIVE = 0.5  # share of the proposals that come from the prior component itself
FLATTEST = 1e-9  # least posterior variance over prior variance that is believed
MOST_NEGATIVE = 0.5  # of a fitted precision, in those of the widest component: noise, as data widen no Gaussian


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Moments of draws within the component that has most of them, batch by batch, in its own coordinates.

    Draws weighted by their responsibility for component j are draws of the posterior of that component alone. Under a
    Gaussian likelihood exp(-x'Px/2 + h'x) that is N(m, C) with C^-1 = S_j^-1 + P and C^-1 m = S_j^-1 mean_j + h.
    """

    mixture: Mixture
    component: int
    counts: FloatArray  # (B,)
    sums: FloatArray  # (B, D), of offsets L_j^-1 (x - mean_j)
    squares: FloatArray  # (B, D, D)

    @classmethod
    def of(cls, mixture: Mixture, points: FloatArray) -> Moments:
        """From posterior draws of shape (B, N, D)."""
        d = mixture.n_features
        shares = mixture.responsibilities(points.reshape(-1, d)).reshape(*points.shape[:2], -1)
        j = int(np.argmax(shares.sum(axis=(0, 1))))
        offsets = np.linalg.solve(np.linalg.cholesky(mixture.covariances[j]), (points - mixture.means[j])[..., None])
        weighted = shares[..., j, None] * offsets[..., 0]
        return cls(
            mixture, j, shares[..., j].sum(axis=1), weighted.sum(axis=1), weighted.swapaxes(1, 2) @ offsets[..., 0]
        )

    def likelihood(self, batches: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Precision P (D, D) and linear term h (D,) of the Gaussian likelihood; from some batches, with repetitions."""
        chosen = slice(None) if batches is None else batches
        count = self.counts[chosen].sum()
        mean = self.sums[chosen].sum(axis=0) / count
        values, vectors = np.linalg.eigh(self.squares[chosen].sum(axis=0) / count - np.outer(mean, mean))
        precision = (vectors / np.maximum(values, FLATTEST)) @ vectors.T
        inverse = np.linalg.inv(np.linalg.cholesky(self.mixture.covariances[self.component]))
        likelihood = inverse.T @ (precision - np.eye(len(mean))) @ inverse
        linear = inverse.T @ precision @ mean + likelihood @ self.mixture.means[self.component]
        values, vectors = np.linalg.eigh(likelihood)
        # clipped at less than nothing: clipping at 0 would bias what vague data say
        least = -MOST_NEGATIVE / np.linalg.eigvalsh(self.mixture.covariances).max()
        return (vectors * np.maximum(values, least)) @ vectors.T, linear

    def extrapolated(self, batches: IntArray | None = None) -> FloatArray:
        """Component probabilities (K,) under that likelihood."""
        return conjugate(self.mixture, *self.likelihood(batches))[0]


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


class Proposals:
    """Importance sampling of one vector within each component: half from the prior, half about the conjugate posterior.

    Parameters
    ----------
    mixture : Mixture
    points : ndarray, shape (N, D)
        Posterior draws, from which a Gaussian likelihood is guessed; a wrong guess costs precision only.
    """

    def __init__(self, mixture: Mixture, points: FloatArray) -> None:
        _, means, covariances = conjugate(mixture, *Moments.of(mixture, points[None]).likelihood())
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


def batches_of(values: FloatArray) -> FloatArray:
    """(C, S, ...) as (C, B, S // B, ...); the first draws are left out when B does not divide S."""
    size = values.shape[1] // N_BATCHES
    kept = values[:, values.shape[1] - size * N_BATCHES :]
    return kept.reshape(values.shape[0], N_BATCHES, size, *values.shape[2:])


def standard_normal(offset: FloatArray) -> float:
    """Log density of N(0, I) at ``offset`` (D,)."""
    return float(-0.5 * (offset @ offset + len(offset) * LOG_2PI))


def _one(mixture: Mixture, component: int) -> Mixture:
    return Mixture([1.0], mixture.means[[component]], mixture.covariances[[component]])
