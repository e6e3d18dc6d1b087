"""A mixture of maximal posterior density from local responses. Post-processing: no record is seen, nothing is spent.

Every step maximises the exact likelihood of all responses (:mod:`pm_dpgmm.methods.local.evidence`) under a weak prior,
by Fisher scoring with damping. The search adds, drops and splits components, from several starts, because one bit a
person leaves a rough likelihood: a component that covers two clusters is halved before it is believed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import qmc

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.local.evidence import Evidence
from pm_dpgmm.methods.outcome import Progress
from pm_dpgmm.mixture.coordinates import Coordinates, triangle
from pm_dpgmm.mixture.mixture import Mixture

# prior, in half-widths of the frame: of log weights; means; log deviations about their middle; entries below diagonals
LOG_WEIGHT, MEAN, LOG_DEVIATION, BELOW = 1.5, 1.0, 1.0, 0.3
MIDDLE = 0.15
LIMITS = (math.log(1e-3), math.log(10.0))  # of logarithms of deviations
SIZES = (0.05, 0.1, 0.2, 0.4)  # deviations of candidates for a component
PLACES, MOST_PLACES = 60, 512  # of candidates: for the square of the columns; at most
LIKELY = 3  # candidates that are tried out
LEAST_PART, MOST_PART = 0.03, 0.7  # weight of a new component
APART = 0.7  # halves of a component are put at +- so many deviations along an axis
LONGER, TRIED, SHORT = 40, 8, 12  # steps of a fit that is kept, of one that is tried, of a start
RESTARTS = 6
ENOUGH = 1e-3  # fall of the objective at which scoring ends: its unit is that of a log-likelihood
WORTH = 0.05  # fall of the objective that counts
ROUNDS = 4
MOST_SWAPS = 60  # halved and joined components that are tried in a round
MOST_JOINED = 6  # components up to which all pairs of others are joined
SEED = 20261124  # public: starts are post-processing


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A mixture as a vector of its coordinates, and minus its log posterior density up to a constant."""

    chart: Coordinates
    vector: FloatArray
    objective: float
    components: FloatArray  # (M, K), probabilities of all places under each component

    @property
    def shares(self) -> FloatArray:
        """Probabilities of all places, (M,)."""
        return np.asarray(self.components @ self.parts[0])

    @property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, means and factors, in the unit of the frame."""
        return self.chart.at(self.vector)

    @property
    def mixture(self) -> Mixture:
        """In the unit of the frame."""
        weights, means, factors = self.parts
        return Mixture(weights, means, factors @ factors.swapaxes(1, 2))


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Weak and normal in the coordinates of one chart."""

    centre: FloatArray
    precision: FloatArray

    @classmethod
    def of(cls, chart: Coordinates) -> Prior:
        """In the unit of the frame."""
        return _prior(chart.n_components, chart.n_features)


@cache
def _prior(n_components: int, n_features: int) -> Prior:
    chart = chart_of(n_components, n_features)
    centre = chart.filled(0.0, 0.0, math.log(MIDDLE), 0.0)
    deviation = chart.filled(LOG_WEIGHT, MEAN, LOG_DEVIATION, BELOW)
    return Prior(centre, deviation**-2)


def chart_of(n_components: int, n_features: int) -> Coordinates:
    """Coordinates of the fit."""
    return Coordinates(n_components, n_features, limits=LIMITS)


def scored(evidence: Evidence, chart: Coordinates, vector: FloatArray) -> Found:
    """``vector`` with its objective."""
    prior = Prior.of(chart)
    weights, means, factors = chart.at(vector)
    components = evidence.places.of_components(means, factors)
    loss = evidence.loss(components @ weights) + 0.5 * float(prior.precision @ (vector - prior.centre) ** 2)
    return Found(chart, vector, loss, components)


def curvature(evidence: Evidence, found: Found) -> tuple[FloatArray, FloatArray]:
    """Derivative of the objective, and its expected second derivative."""
    prior = Prior.of(found.chart)
    shares = found.shares
    rows = evidence.places.jacobian(found.chart, found.vector, found.components)
    slope = evidence.slope(shares) @ rows + prior.precision * (found.vector - prior.centre)
    return np.asarray(slope), evidence.information(shares, rows) + np.diag(prior.precision)


def refined(evidence: Evidence, found: Found, *, steps: int = LONGER) -> Found:
    """Fisher scoring with Levenberg's damping, until a step no longer pays."""
    damping = 1e-3
    slope, matrix = curvature(evidence, found)
    for _ in range(steps):
        step = np.linalg.solve(matrix + damping * np.diag(np.diagonal(matrix)), slope)
        size = float(np.abs(step).max())
        other = scored(evidence, found.chart, found.vector - step / max(1.0, size / 2))
        if other.objective < found.objective:
            gained, found = found.objective - other.objective, other
            damping = max(damping / 5, 1e-9)
            if gained < ENOUGH:
                break
            slope, matrix = curvature(evidence, found)
        else:
            damping *= 6
            if damping > 1e8:
                break
    return found


# ---------------------------------------------------------------------- moves
@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Round Gaussians that may become components, with the probabilities of all places under them."""

    means: FloatArray  # (C, D)
    sizes: FloatArray  # (C,)
    shares: FloatArray  # (C, M)

    @classmethod
    def of(cls, evidence: Evidence, n_features: int) -> Candidates:
        """On a public net in the frame."""
        n_places = min(MOST_PLACES, PLACES * n_features**2)
        if n_features == 1:
            net = np.linspace(-1.0, 1.0, n_places)[:, None]
        else:
            net = 2 * qmc.Sobol(n_features, rng=np.random.default_rng(SEED)).random(2 ** math.ceil(math.log2(n_places)))
            net -= 1
        means, sizes = np.tile(net, (len(SIZES), 1)), np.repeat(SIZES, len(net))
        factors = sizes[:, None, None] * np.eye(n_features)
        return cls(means, sizes, evidence.places.of_components(means, factors).T)


def with_more(evidence: Evidence, found: Found, candidates: Candidates) -> Found:
    """One component more: the likeliest candidates by a linear step, each fitted for a few steps."""
    weights, means, factors = found.parts
    shares = found.shares
    ways = candidates.shares - shares
    falls = -ways @ evidence.slope(shares)
    curves = evidence.curves(shares, ways)
    parts = np.clip(falls / np.maximum(curves, 1e-12), LEAST_PART, MOST_PART)
    gains = falls * parts - 0.5 * curves * parts**2
    tries = []
    for best in _apart(np.argsort(-gains), candidates):
        part = parts[best]
        size = candidates.sizes[best] * np.eye(means.shape[1])
        tries.append(
            _made(
                evidence,
                np.append(weights * (1 - part), part),
                np.vstack([means, candidates.means[best]]),
                np.concatenate([factors, size[None]]),
            )
        )
    return min((refined(evidence, one, steps=SHORT) for one in tries), key=_objective)


def _apart(order: Iterable[int], candidates: Candidates) -> list[int]:
    """The first few that are not near one another."""
    taken: list[int] = []
    for i in order:
        near = [
            np.linalg.norm(candidates.means[i] - candidates.means[j]) < max(candidates.sizes[i], candidates.sizes[j])
            for j in taken
        ]
        if not any(near):
            taken.append(int(i))
        if len(taken) == LIKELY:
            break
    return taken


def without(evidence: Evidence, found: Found, which: int) -> Found:
    """One component less, fitted for a few steps."""
    weights, means, factors = (np.delete(part, which, axis=0) for part in found.parts)
    return refined(evidence, _made(evidence, weights / weights.sum(), means, factors), steps=TRIED)


def halved(found: Found, which: int, axis: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A component as two along one of its axes, the longest first, with the same mean and covariance together."""
    weights, means, factors = found.parts
    covariance = factors[which] @ factors[which].T
    values, vectors = np.linalg.eigh(covariance)
    value, along = values[-1 - axis], vectors[:, -1 - axis]
    step = APART * math.sqrt(value) * along
    narrow = covariance - np.outer(step, step)
    root = np.linalg.cholesky((narrow + narrow.T) / 2)
    share = weights[which] / 2
    return (
        np.append(np.delete(weights, which), [share, share]),
        np.vstack([np.delete(means, which, axis=0), means[which] + step, means[which] - step]),
        np.concatenate([np.delete(factors, which, axis=0), root[None], root[None]]),
    )


def joined(parts: tuple[FloatArray, FloatArray, FloatArray], i: int, j: int) -> tuple[FloatArray, ...]:
    """Two components as one with their mean and covariance."""
    weights, means, factors = parts
    both = weights[[i, j]]
    share = both / both.sum()
    mean = share @ means[[i, j]]
    rest = means[[i, j]] - mean
    covariances = factors[[i, j]] @ factors[[i, j]].swapaxes(1, 2)
    covariance = np.einsum("k,kab->ab", share, covariances) + (rest.T * share) @ rest
    keep = [k for k in range(len(weights)) if k not in (i, j)]
    return (
        np.append(weights[keep], both.sum()),
        np.vstack([means[keep], mean]),
        np.concatenate([factors[keep], np.linalg.cholesky(covariance)[None]]),
    )


def swaps(evidence: Evidence, found: Found) -> list[Found]:
    """Every component halved along its axes while another is dropped, or two others are joined."""
    k, d = found.parts[1].shape
    made = []
    for which, axis in itertools.product(range(k), range(min(d, 2))):
        parts = halved(found, which, axis)
        others = range(k - 1)  # the halves come last
        for i in others:
            less = tuple(np.delete(part, i, axis=0) for part in parts)
            made.append(_made(evidence, less[0] / less[0].sum(), less[1], less[2]))
        for i, j in itertools.combinations(others, 2) if k <= MOST_JOINED else ():
            made.append(_made(evidence, *joined(parts, i, j)))
    return sorted(made, key=_objective)[:MOST_SWAPS]


# ---------------------------------------------------------------------- search
def fit_responses(evidence: Evidence, n_components: int, n_features: int, *, progress: Progress) -> Found:
    """The best mixture of ``n_components`` that the search finds.

    Matching pursuit with replacement, restarts, halves; the best two are followed up. All starts are public.
    """
    total = RESTARTS + 3
    progress(0, total)
    candidates = Candidates.of(evidence, n_features)
    one = np.eye(n_features)[None]
    starts = [_made(evidence, np.ones(1), np.zeros((1, n_features)), size * one) for size in SIZES]
    single = min((refined(evidence, start) for start in starts), key=_objective)
    if n_components == 1:
        progress(total, total)
        return single
    found = single
    for _ in range(n_components - 1):
        found = with_more(evidence, found, candidates)
    pool = [replaced(evidence, refined(evidence, found), candidates)]
    progress(1, total)
    spare = refined(evidence, with_more(evidence, pool[0], candidates), steps=TRIED)
    fewer = min((without(evidence, spare, i) for i in range(n_components + 1)), key=_objective)
    pool.append(refined(evidence, fewer))
    progress(2, total)
    for i, start in enumerate(_random_starts(evidence, single, n_components)):
        pool.append(refined(evidence, start))
        progress(3 + i, total)
    best = [improved(evidence, one, candidates) for one in _distinct(sorted(pool, key=_objective))[:2]]
    progress(total, total)
    return min(best, key=_objective)


def replaced(evidence: Evidence, found: Found, candidates: Candidates) -> Found:
    """Drop each component in turn and add the best candidate, as long as that pays."""
    for _ in range(ROUNDS):
        before = found.objective
        for i in range(found.chart.n_components):
            other = refined(evidence, with_more(evidence, without(evidence, found, i), candidates))
            if other.objective < found.objective - WORTH:
                found = other
        if found.objective > before - WORTH:
            break
    return found


def improved(evidence: Evidence, found: Found, candidates: Candidates) -> Found:
    """Halve, drop and join components, then replace them, as long as that pays."""
    for _ in range(ROUNDS):
        before = found.objective
        tries = [refined(evidence, one, steps=TRIED) for one in swaps(evidence, found)]
        for other in sorted(tries, key=_objective)[:LIKELY]:
            longer = refined(evidence, other)
            if longer.objective < found.objective - WORTH:
                found = longer
        found = replaced(evidence, found, candidates)
        if found.objective > before - WORTH:
            break
    return found


def _random_starts(evidence: Evidence, single: Found, n_components: int) -> list[Found]:
    """Components at random places of one Gaussian for all, narrower than it."""
    rng = np.random.default_rng(SEED)
    _, (mean,), (factor,) = single.parts
    k, d = n_components, len(mean)
    found = []
    for _ in range(RESTARTS):
        means = mean + 1.2 * rng.standard_normal((k, d)) @ factor.T
        scales = np.exp(rng.normal(-math.log(k), 0.3, (k, 1, 1)))
        found.append(_made(evidence, np.full(k, 1 / k), means, scales * factor))
    return found


def _distinct(ordered: Sequence[Found]) -> list[Found]:
    """Without those that are as good as one before them: the same optimum."""
    kept: list[Found] = []
    for one in ordered:
        if not kept or one.objective > kept[-1].objective + WORTH:
            kept.append(one)
    return kept


def _made(evidence: Evidence, weights: FloatArray, means: FloatArray, factors: FloatArray) -> Found:
    """A start from its parts: weights of at least a thousandth, deviations within the limits."""
    chart = chart_of(*means.shape)
    vector = chart.of(weights, means, factors, least=1e-3)
    vector[chart.blocks[0]] -= vector[chart.blocks[0]].mean()
    entries = chart.split(vector)[2].copy()
    diagonal = triangle(means.shape[1])[2]
    entries[:, diagonal] = np.clip(entries[:, diagonal], LIMITS[0] + 0.1, LIMITS[1] - 0.1)
    vector[chart.blocks[2]] = entries.ravel()
    return scored(evidence, chart, vector)


def _objective(found: Found) -> float:
    return found.objective if math.isfinite(found.objective) else math.inf


# ---------------------------------------------------------------------- what it is worth
N_DRAWS, N_POINTS = 60, 2_000
USUAL = 0.95  # share of the draws whose losses are averaged: a few at the rim may be anything


def expected_loss(evidence: Evidence, found: Found) -> float:
    """Log-density per record, in nats, that the fit loses on average to the mixture that it estimates.

    By draws from the law of the fit's errors, asymptotic and about the optimum that was found. The largest losses are
    left out; the median would be half the average where components are narrow in some direction.
    """
    matrix = curvature(evidence, found)[1]
    root = np.linalg.cholesky(np.linalg.inv(matrix + 1e-9 * np.eye(len(matrix))))
    rng = np.random.default_rng(SEED)
    mixture = found.mixture
    points = mixture.sample(N_POINTS, rng=rng)
    level = mixture.log_density(points)
    losses = []
    for step in rng.standard_normal((N_DRAWS, len(root))) @ root.T:
        weights, means, factors = found.chart.at(found.vector + step)
        other = Mixture(weights, means, factors @ factors.swapaxes(1, 2))
        losses.append(float(np.mean(level - other.log_density(points))))
    return float(np.mean(np.sort(losses)[: round(USUAL * N_DRAWS)]))
