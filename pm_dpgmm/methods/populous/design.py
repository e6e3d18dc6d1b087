"""Settings of the aggregated estimator, from public facts alone: how many subsets, and how close fits must be.

Nothing here sees records, and privacy does not rest on it: any settings are private. They decide whether the fits of
an ordinary data set pass the test. A model stands in for the fits: asymptotically normal in the affine-invariant
metric, as of records from equally weighted components that are ``separation`` standard deviations apart.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.lifted_mask import LARGEST_OMEGA, LEAST_OMEGA, largest_omega
from pm_dpgmm.mechanisms.propose_test_release import pass_probabilities
from pm_dpgmm.methods.about import at_least_about
from pm_dpgmm.methods.populous.agreement import AgreementRule
from pm_dpgmm.methods.populous.average import moved_mass
from pm_dpgmm.privacy.bisection import bisected, geometric
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile

FEWEST, MOST = 24, 2_000  # subsets
N_SIZES, N_RADII = 32, 14  # numbers of subsets and radii that are compared
RECORDS = 10  # for each parameter of a fit, at least
PASSES = 0.99  # probability of a pass at the level that the model promises
JUNK = 0.03  # share of the fits that fail or find another mode
SPARE = 4  # levels below what the model promises: three of its standard deviations
WIDEST = 1.5  # component radius; a larger one costs rounding and nothing is gained
QUANTILE = 2.5  # standard deviations by which the distance between two components of a fit may be too small
N_MODEL = 300  # simulated fits
SHARES = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)  # of the largest omega
NOISES = (1e-4, 0.3)  # least and largest eta that a design may choose
NEVER = 10**13  # records; a design that needs so many does not exist


@dataclass(frozen=True, slots=True)
class Design:
    """Everything of a run that is fixed before the records are seen, but for the budget.

    Attributes
    ----------
    n_subsets : int
        t.
    rule : AgreementRule
        Radii and core rule.
    top, full : int
        Friends that give full weight in the average, and how many fits must have more than so many.
    noise : float
        eta, relative noise of the mask.
    """

    n_subsets: int
    rule: AgreementRule
    top: int
    full: int
    noise: float

    @property
    def floor(self) -> int:
        """n0: a core fit has more friends."""
        return self.rule.core_floor(self.n_subsets)

    @property
    def omega(self) -> float:
        """Bounds the distance of the averages of neighbours: equation (1) of methods/populous/method.md."""
        mass = moved_mass(self.n_subsets, floor=self.floor, top=self.top, full=self.full)
        return 2 * self.rule.fit_radius * mass + 2 * self.rule.average_error


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a design is made for: public facts and guesses."""

    n_records: int
    n_features: int
    n_components: int
    epsilon: float
    delta: float
    separation: float  # Mahalanobis distance between the means of components
    efficiency: float  # of the learner: variance of the best estimator over its variance
    core: str = "triple"
    n_subsets: int | None = None


def best_design(assumed: Assumed, noise: float | None) -> Design | None:
    """The design of the least noise; for a given noise, the one that allows the least efficient learner.

    None if no design passes with the assumed learner.
    """
    if noise is None:
        return _of_least_noise(assumed)
    limit = _omega_limit(assumed.epsilon, assumed.delta, noise, assumed.n_features + 1)
    found = _cheapest(assumed)
    if found is None or found[0] > limit:
        return None
    best, low, high = found[1], 0.02 * assumed.efficiency, assumed.efficiency
    while high / low > 1.03:
        middle = math.sqrt(low * high)
        found = _cheapest(replace(assumed, efficiency=middle))
        if found is None or found[0] > limit:
            low = middle
        else:
            best, high = found[1], middle
    return replace(best, noise=noise)


def fewest_records(assumed: Assumed, noise: float | None) -> int:
    """About the fewest records, to two digits, for which there is a design, NEVER or more where there is none.

    ``assumed.n_records`` is not used.
    """

    def enough(n_records: float) -> bool:
        sized = replace(assumed, n_records=int(n_records))
        if noise is None:
            return _of_least_noise(sized) is not None
        found = _cheapest(sized)
        limit = _omega_limit(assumed.epsilon, assumed.delta, noise, assumed.n_features + 1)
        return found is not None and found[0] <= limit

    high = bisected(enough, 10 * NEVER, 1e2, middle=geometric, close=lambda low, high: high / low <= 1.02)
    return at_least_about(high)


def _of_least_noise(assumed: Assumed) -> Design | None:
    found = _cheapest(assumed)
    if found is None or found[0] >= LARGEST_OMEGA:
        return None
    needed, design = found

    def excess(log_noise: float) -> float:
        loss = LiftedMaskProfile(
            omega=max(needed, LEAST_OMEGA), eta=math.exp(log_noise), dimension=assumed.n_features + 1
        )
        return math.log(loss.delta(assumed.epsilon) / assumed.delta)

    low, high = map(math.log, NOISES)
    if excess(high) > 0:
        return None
    found_noise = high if excess(low) > 0 else low
    if excess(low) > 0:
        found_noise = float(optimize.brentq(excess, low, high, xtol=1e-3)) + 2e-3
    return replace(design, noise=math.exp(found_noise))


@functools.lru_cache(maxsize=512)
def _cheapest(assumed: Assumed) -> tuple[float, Design] | None:
    """The design whose test and mask together need the least room: omega over its share, and the design."""
    k, d = assumed.n_components, assumed.n_features
    least = RECORDS * k * (d + 1) * (d + 2) // 2
    most = min(MOST, assumed.n_records // least)
    if most < FEWEST:
        return None
    sizes = np.unique(np.rint(np.geomspace(FEWEST, most, N_SIZES)).astype(int)).tolist()
    if assumed.n_subsets is not None:
        sizes = [assumed.n_subsets]
    levels = _levels(assumed.epsilon, assumed.delta)
    farthest, whole, quantiles = _model(d, k)
    best: tuple[float, Design] | None = None
    for t in sizes:
        spread = math.sqrt(2 * k / (assumed.efficiency * (assumed.n_records // t)))  # of a coordinate of a fit
        reach = WIDEST
        if k > 1:
            apart = 2 * math.sqrt(2) * math.asinh(assumed.separation / 2) - QUANTILE * math.sqrt(2) * spread
            reach = min(WIDEST, apart / (4.0 if assumed.core == "triple" else 6.0))
        for radius in (quantiles * spread).tolist():
            try:
                rule = AgreementRule(k, d, reach, radius, assumed.core)
            except ValueError:  # radii below the rounding, or no room between components
                continue
            agree = (farthest <= reach / spread) & (whole <= radius / spread)
            friends = np.sort(agree.sum(axis=1))[::-1]
            share = np.sum(friends >= np.arange(1, N_MODEL + 1)) / N_MODEL
            highest = int((1 - JUNK) * t * share) - SPARE
            floor = rule.core_floor(t)
            for level, part in levels:
                top = highest - level
                if top <= floor:
                    continue
                design = Design(t, rule, top, top, NOISES[1])
                if best is None or design.omega / part < best[0]:
                    best = design.omega / part, design
    return best


@functools.lru_cache(maxsize=64)
def _levels(epsilon: float, delta: float) -> tuple[tuple[int, float], ...]:
    """Levels and the shares of the largest omega at which they pass; hardly a matter of dimension and noise."""
    dimension, noise = 3, 0.05
    limit = _omega_limit(epsilon, delta, noise, dimension)
    found = []
    for share in SHARES:
        table = pass_probabilities(LiftedMaskProfile(share * limit, noise, dimension), epsilon=epsilon, delta=delta)
        found.append((table.level_for(PASSES) + 1, share))
    return tuple(found)


@functools.lru_cache(maxsize=256)
def _omega_limit(epsilon: float, delta: float, noise: float, dimension: int) -> float:
    return largest_omega(epsilon=epsilon, delta=delta, eta=noise, dimension=dimension)


@functools.lru_cache(maxsize=16)
def _model(n_features: int, n_components: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distances of ``N_MODEL`` fits in units of the spread of a coordinate: farthest component, d_2; radii to try.

    A component has d(d + 3)/2 independent coordinates of equal variance, the weights together k - 1.
    """
    rng = np.random.default_rng(20261120)
    size = n_features * (n_features + 3) // 2
    parts = [rng.standard_normal((N_MODEL, size)) for _ in range(n_components)]
    squares = np.array([_square_distances(part) for part in parts])
    weights = rng.standard_normal((N_MODEL, n_components - 1))
    whole = np.sqrt(squares.sum(axis=0) + _square_distances(weights))
    upper = whole[np.triu_indices(N_MODEL, 1)]
    quantiles = np.quantile(upper, 1 - np.geomspace(0.35, 1e-4, N_RADII))
    return np.sqrt(squares.max(axis=0)), whole, quantiles


def _square_distances(points: FloatArray) -> FloatArray:
    squares = np.sum(points**2, axis=1)
    return np.maximum(squares[:, None] + squares[None] - 2 * points @ points.T, 0.0)
