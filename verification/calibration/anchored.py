"""Does the anchored prior of a sketch release cover the truth, alone and with 60 new rows?

Truth: normal offsets around separated centres. Records: a sample of it, released by ``fit_gmm`` (method sketch,
epsilon 1). Aware: the prior of ``release.params``, times the likelihood of the new rows. Naive: the released numbers
taken for a fit without noise, so that the prior has the sampling error of the records alone. Records: the posterior
from the records themselves (normal about their maximum-likelihood fit), and the new rows.

The intervals are those of the prior that a user gets, which knows the release and not how truths are drawn here; so
coverage over truths of any law must be nominal, as for an interval with no prior knowledge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters.anchor import mixture_at, offsets_of
from pm_dpgmm.bayes.parameters.anchor_laws import anchor_of
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture
from verification.calibration.intervals import Row, rows

FloatArray = NDArray[np.float64]

N_NEW = 60  # rows
N_DRAWS, N_KEPT = 6_000, 2_000  # of a prior, and of those resampled by their likelihood
LEAST_EFFECTIVE = 200.0  # draws after weighting by the likelihood of new rows, in every replication
STEP = 1e-4  # of numerical derivatives
N_SCORING = 6  # steps of Fisher scoring from the truth
SPREAD = {"weights": 0.3, "means": 0.5, "diagonal": 0.2, "below": 0.3}  # of the truth's offsets

CENTRES = {
    1: Mixture([0.6, 0.4], [[-2.5], [2.5]], [[[1.0]], [[0.7]]]),
    2: Mixture([0.6, 0.4], [[-2.0, -1.5], [2.0, 1.5]], [[[1.0, 0.3], [0.3, 0.8]], [[0.7, -0.2], [-0.2, 1.0]]]),
}
BOUNDS = (-12.0, 12.0)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One replication, components of everything in the order of the truth."""

    truth: Mixture
    fresh: FloatArray  # (N_NEW, D)
    release: Mixture
    root: FloatArray  # (P, P) of the offsets from the release
    sampling: FloatArray  # (P, P) likewise, of sampling the records alone
    fit: Mixture  # to the records
    fit_root: FloatArray  # (P, P) of the offsets from the fit


def case(n_features: int, n_records: int, *, rng: np.random.Generator) -> Case:
    """Draw a truth, release its records and fit them without noise."""
    centre = CENTRES[n_features]
    truth = mixture_at(deviations(centre) * rng.normal(size=len(deviations(centre))), centre)
    records = truth.sample(n_records, rng=rng)
    release = dpg.fit_gmm(
        records, 2, epsilon=1.0, delta=1e-6, bounds=BOUNDS, method="sketch", random_seed=rng, progress=False
    )
    anchor = anchor_of(release)
    gaps = truth.means[:, None] - anchor.mixture.means
    order = linear_sum_assignment(np.linalg.norm(gaps, axis=2))[1]
    # the offsets of a permuted release are other numbers: draws are permuted instead, by way of the mixture
    released = anchor.mixture.permuted(order)
    root = permuted_root(anchor.mixture, anchor.root, order)
    fit, information = fisher_scoring(truth, records)
    fit_root = np.linalg.cholesky(np.linalg.inv(information))
    return Case(
        truth=truth,
        fresh=truth.sample(N_NEW, rng=rng),
        release=released,
        root=root,
        sampling=np.linalg.cholesky(np.linalg.inv(n_records * unit_information(released, rng=rng))),
        fit=fit,
        fit_root=fit_root,
    )


def deviations(centre: Mixture) -> FloatArray:
    """Standard deviations (P,) of the truth's offsets."""
    return Coordinates.about(centre).filled(SPREAD["weights"], SPREAD["means"], SPREAD["diagonal"], SPREAD["below"])


def permuted_root(mixture: Mixture, root: FloatArray, order: FloatArray) -> FloatArray:
    """Root of the same law in the offsets of ``mixture.permuted(order)``."""
    target = mixture.permuted(order)
    slopes = derivative(lambda offsets: offsets_of(mixture_at(offsets, mixture).permuted(order), target), len(root))
    return slopes @ root


def derivative(function: Callable[[FloatArray], FloatArray], size: int) -> FloatArray:
    """Central differences at 0, shape (..., size)."""
    return np.stack([(function(s) - function(-s)) / (2 * STEP) for s in STEP * np.eye(size)], axis=-1)


def scores(mixture: Mixture, points: FloatArray) -> FloatArray:
    """Derivatives (N, P) of the log density of every point by the offsets from ``mixture``."""
    return derivative(lambda offsets: mixture_at(offsets, mixture).log_density(points), len(deviations(mixture)))


def unit_information(mixture: Mixture, *, rng: np.random.Generator, n_points: int = 4_000) -> FloatArray:
    """Fisher information of one record about the offsets, by simulation."""
    found = scores(mixture, mixture.sample(n_points, rng=rng))
    return found.T @ found / n_points


def fisher_scoring(start: Mixture, records: FloatArray) -> tuple[Mixture, FloatArray]:
    """Maximum-likelihood fit near ``start``, and the empirical information about offsets from it."""
    fit = start
    for _ in range(N_SCORING):
        found = scores(fit, records)
        fit = mixture_at(np.linalg.solve(found.T @ found, found.sum(axis=0)), fit)
    found = scores(fit, records)
    return fit, found.T @ found


def log_likelihood(offsets: FloatArray, bases: list[Mixture], fresh: FloatArray) -> FloatArray:
    """Of rows (R, N, D) at ``offsets`` (R, S, P) of replications from their bases, shape (R, S)."""
    weights, means, factors = unpacked(offsets, bases)
    d = means.shape[-1]
    whitened: list[FloatArray] = []
    for i in range(d):
        rest = fresh[:, None, :, None, i] - means[:, :, None, :, i]
        for j in range(i):
            rest = rest - factors[:, :, None, :, i, j] * whitened[j]
        whitened.append(rest / factors[:, :, None, :, i, i])
    squares = sum(z**2 for z in whitened)
    heights = np.log(weights) - np.log(np.diagonal(factors, axis1=3, axis2=4)).sum(axis=3) - 0.5 * d * LOG_2PI
    return np.asarray(logsumexp(heights[:, :, None, :] - 0.5 * squares, axis=3).sum(axis=2))


def resampled(offsets: FloatArray, bases: list[Mixture], fresh: FloatArray, *, rng: np.random.Generator) -> FloatArray:
    """Posterior draws (R, N_KEPT, P): those of a prior (R, S, P) resampled by the likelihood of new rows.

    The priors are much narrower than the likelihood of 60 rows, so most draws count; RuntimeError if they do not.
    """
    kept = np.empty((len(offsets), N_KEPT, offsets.shape[2]))
    for r in range(len(offsets)):  # one at a time: memory
        logs = log_likelihood(offsets[r : r + 1], bases[r : r + 1], fresh[r : r + 1])[0]
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        if 1 / (shares**2).sum() < LEAST_EFFECTIVE:
            raise RuntimeError(f"replication {r} has {1 / (shares**2).sum():.0f} effective draws")
        kept[r] = offsets[r, rng.choice(len(shares), size=N_KEPT, p=shares)]
    return kept


def unpacked(offsets: FloatArray, bases: list[Mixture]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights (R, S, 2), means (R, S, 2, D) and factors (R, S, 2, D, D) of two components at ``offsets`` (R, S, P)."""
    found = [Coordinates.about(base).at(draws) for base, draws in zip(bases, offsets, strict=True)]
    weights, means, factors = (np.stack(part) for part in zip(*found, strict=True))
    return weights, means, factors


def parameters(weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
    """Numbers to cover (R, S, .): a weight, means, standard deviations and, in two dimensions, correlations."""
    covariances = factors @ np.swapaxes(factors, -1, -2)
    deviations_ = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    parts = [weights[..., :1], means.reshape(*means.shape[:-2], -1), deviations_.reshape(*means.shape[:-2], -1)]
    if means.shape[-1] == 2:
        parts.append(covariances[..., 0, 1] / deviations_.prod(axis=-1))
    return np.concatenate(parts, axis=-1)


def names(n_features: int) -> list[str]:
    """Of :func:`parameters`."""
    places = [f"{k}{',' + 'xy'[j] if n_features > 1 else ''}" for k in range(2) for j in range(n_features)]
    return [
        "weight 0",
        *(f"mean {p}" for p in places),
        *(f"sd {p}" for p in places),
        *(f"correlation {k}" for k in range(2) if n_features == 2),
    ]


def study(n_features: int, n_records: int, n_replications: int, *, seed: int) -> list[Row]:
    """Coverage without and with new rows."""
    rng = np.random.default_rng([seed, n_features, n_records])
    cases = [case(n_features, n_records, rng=rng) for _ in range(n_replications)]
    truths = np.stack(
        [parameters(c.truth.weights, c.truth.means, np.asarray(np.linalg.cholesky(c.truth.covariances))) for c in cases]
    )
    fresh = np.stack([c.fresh for c in cases])
    laws = {
        "aware": ([c.release for c in cases], np.stack([c.root for c in cases])),
        "naive": ([c.release for c in cases], np.stack([c.sampling for c in cases])),
        "records": ([c.fit for c in cases], np.stack([c.fit_root for c in cases])),
    }
    found: list[Row] = []
    priors = {
        name: np.einsum("rpq,rsq->rsp", roots, rng.normal(size=(n_replications, N_DRAWS, roots.shape[1])))
        for name, (_, roots) in laws.items()
    }
    for new in (False, True):
        draws = {}
        for name, (bases, _) in laws.items():
            offsets = resampled(priors[name], bases, fresh, rng=rng) if new else priors[name]
            draws[name] = parameters(*unpacked(offsets, bases))
        words = f"anchored {n_features}d n={n_records}" + (f" +{N_NEW} rows" if new else "")
        found += rows(words, names(n_features), truths, draws)
    return found


def line(n_replications: int, *, seed: int) -> list[Row]:
    """One feature, 1,000 records."""
    return study(1, 1_000, n_replications, seed=seed)


def plane(n_replications: int, *, seed: int) -> list[Row]:
    """Two features, 2,500 records."""
    return study(2, 2_500, n_replications, seed=seed)
