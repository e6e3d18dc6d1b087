"""The mask of lifted averages and the pass table, on averages as far apart as the privacy claim allows."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, largest_omega, lifted_mask, parts_of_lifted
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities, divergence, pass_probabilities
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from pm_dpgmm.privacy.noise import Rng, bernoulli, permutation, standard_normal
from verification.claims.aggregated.curve import single_delta
from verification.references.references import gaussian_epsilon
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of

MASK, TABLE = "mechanisms/lifted_mask.py", "mechanisms/propose_test_release.py"
MASK_FAULT, TABLE_FAULT = f"fault in {MASK}", f"fault in {TABLE}"
NOISE = LiftedMaskNoise(eta=0.05, kappa=0.25)
# Powers of two, sigma_w too, leave the sampler's multiples of 2^-40 on a grid: the hardest case for hiding low bits.
BIT_NOISE = LiftedMaskNoise(eta=1 / 16, kappa=math.sqrt(64 + 1) / 16)  # sigma_w = 1/16 at D = 2
COARSE = LiftedMaskNoise(eta=0.5, kappa=0.25)  # the loss is most skewed, its two directions differ most
MARGIN = 1 - 1e-6  # of omega, for rounding in the averages
SHARE = 0.9  # of the largest omega, where a table has room
# Directions of the lifted space of one column: the corner of a component with mean 0 is one published number.
VARIANCE, CORNER, OBLIQUE = [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]
PARTS = ("weights", "corners", "means", "covariances")


class Average(NamedTuple):
    """Weights (k,), means (k, d), covariances (k, d, d), corners (k,)."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    corners: FloatArray


Neighbours = tuple[Average, Average]


def flat(raw: dict[str, FloatArray]) -> FloatArray:
    """Everything that the mask publishes, as one row."""
    return np.concatenate([raw[name].ravel() for name in PARTS])


def masked(average: Average, noise: LiftedMaskNoise, rng: Rng = None) -> dict[str, FloatArray]:
    """The package's mask of an average given by covariances; ``rng`` simulates, for faults that are caught narrowly."""
    factors = np.asarray(np.linalg.cholesky(average.covariances), dtype=float)
    return lifted_mask(average.weights, average.means, factors, average.corners, noise=noise, rng=rng)


def mask(average: Average, n_samples: int, rng: np.random.Generator, *, noise: LiftedMaskNoise = NOISE) -> Any:
    """The lifted mask of one of two averages."""
    return rows_of(lambda: flat(masked(average, noise)), n_samples)


def simulated(average: Average, n_samples: int, rng: np.random.Generator, *, noise: LiftedMaskNoise) -> Any:
    """The same with NumPy's noise: quick, and the seed of an audit decides its verdict."""
    return rows_of(lambda: flat(masked(average, noise, rng)), n_samples)


def not_shuffled(average: Average, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: two components come out in the order of the average."""

    def run() -> FloatArray:
        raw = masked(average, NOISE)
        order = np.argsort(np.abs(raw["means"][:, 0] - average.means[0, 0]))
        return flat({name: raw[name][order] for name in PARTS})

    return rows_of(run, n_samples)


def half_weight_noise(average: Average, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: half of sigma_w, everything else as it is."""
    kappa = NOISE.kappa / 2  # sigma_w is proportional to kappa, which nothing else depends on
    return simulated(average, n_samples, rng, noise=LiftedMaskNoise(NOISE.eta, kappa))


def quarter_eta(average: Average, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a quarter of eta on the lifted averages, sigma_w as it is."""
    noise = LiftedMaskNoise(NOISE.eta / 4, NOISE.kappa)
    kappa = NOISE.kappa * NOISE.weight(1) / noise.weight(1)
    return mask(average, n_samples, rng, noise=LiftedMaskNoise(noise.eta, kappa))


def unrounded(average: Average, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the lifted mask computed as the theorem writes it and published without rounding."""

    def run() -> FloatArray:
        k, d = average.means.shape
        weights = average.weights + BIT_NOISE.weight(d) * standard_normal(k)
        points = []
        for m, s, c in zip(average.means, average.covariances, average.corners, strict=True):
            factor = np.block([[np.linalg.cholesky(s), m[:, None] * math.sqrt(c)], [np.zeros(d), math.sqrt(c)]])
            root = factor @ (np.eye(d + 1) + BIT_NOISE.eta * standard_normal((d + 1, d + 1)))
            points.append(root @ root.T)
        means, covariances, corners = parts_of_lifted(np.array(points))
        order = permutation(k)
        return flat(dict(zip(PARTS, (part[order] for part in (weights, corners, means, covariances)), strict=True)))

    return rows_of(run, n_samples)


def two_components() -> Average:
    """Two components in one dimension."""
    return Average(np.array([0.4, 0.6]), np.array([[0.0], [3.0]]), np.ones((2, 1, 1)), np.ones(2))


def one_component() -> Average:
    """One component in one dimension, with a weight that lies on the grid of the sampler."""
    return Average(np.array([0.5]), np.zeros((1, 1)), np.ones((1, 1, 1)), np.ones(1))


def component_in_the_plane() -> Average:
    """One component in the plane, its axes oblique."""
    root = np.array([[1.0, 0.0], [0.8, 0.6]])
    return Average(np.ones(1), np.zeros((1, 2)), (root @ root.T)[None], np.ones(1))


def moved(average: Average, x: float, direction: list[float]) -> Neighbours:
    """Component 0 multiplied by e^x along one direction of its lifted space, the rest as it is."""
    unit = np.array(direction) / np.linalg.norm(direction)
    mean, covariance, corner = average.means[0], average.covariances[0], average.corners[0]
    d = len(mean)
    factor = np.block([[np.linalg.cholesky(covariance), mean[:, None]], [np.zeros(d), 1.0]]) * math.sqrt(corner)
    inner = np.eye(d + 1) + math.expm1(x) * np.outer(unit, unit)
    means, covariances, corners = parts_of_lifted((factor @ inner @ factor.T)[None])
    parts = [part.copy() for part in average[1:]]
    for part, new in zip(parts, (means, covariances, corners), strict=True):
        part[0] = new[0]
    return average, Average(average.weights, *parts)


def reweighted(average: Average, distance: float, kappa: float) -> Average:
    """The weight of component 0 moved by ``distance`` kappa."""
    weights = average.weights.copy()
    weights[0] += distance * kappa
    return average._replace(weights=weights)


@functools.cache
def omega(noise: LiftedMaskNoise, dimension: int) -> float:
    """The distance at which the mask still keeps the claim."""
    return largest_omega(epsilon=EPSILON, delta=DELTA, eta=noise.eta, dimension=dimension) * MARGIN


def one_sided_omega(dimension: int) -> float:
    """Fault: the distance that the exact curve of positive x alone admits."""
    curve = functools.partial(single_delta, EPSILON, size=dimension, eta=COARSE.eta)
    return float(optimize.brentq(lambda x: curve(x) - DELTA, 0.01, 1.5))


def single_epsilon(x: float, eta: float, dimension: int) -> float:
    """Exact epsilon of one eigenvalue e^x, of the noisy factor that the mask is computed from."""
    return float(optimize.brentq(lambda e: single_delta(e, x, dimension, eta) - DELTA, 0.0, 50.0))


Levelled = tuple[Average, int]


def with_table(data: Levelled, n_samples: int, rng: np.random.Generator, *, table: PassProbabilities) -> Any:
    """Test by the table, then the mask; a failure is a row of NaN."""
    average, level = data

    def run() -> FloatArray:
        passed = table.passes(level)
        return flat(masked(average, NOISE)) if passed else np.full(_width(average), np.nan)

    return rows_of(run, n_samples)


def with_probabilities(data: Levelled, n_samples: int, rng: np.random.Generator, *, probabilities: list[float]) -> Any:
    """Fault: the same with probabilities that no table would accept."""
    average, level = data

    def run() -> FloatArray:
        passed = bernoulli(probabilities[level], rng=rng)
        return flat(masked(average, NOISE, rng)) if passed else np.full(_width(average), np.nan)

    return rows_of(run, n_samples)


def not_shifted() -> tuple[list[float], int]:
    """Fault: entries that charge the mask at epsilon in place of epsilon - ln(p/q), and a level in their middle."""
    entries = [DELTA]
    while entries[-1] < 1:  # the mask alone costs delta at epsilon, whatever p
        entries.append(min(1.0, math.exp(EPSILON) * entries[-1], 1 - math.exp(-EPSILON) * (1 - entries[-1])))
        if entries[-1] > 0.99:
            break
    steps = list(itertools.pairwise(entries))
    return entries, max(range(len(steps)), key=lambda i: min(steps[i][1], 1 - steps[i][0]))


def table_of_mask() -> PassProbabilities:
    """The table of the mask at a share of its largest distance."""
    loss = LiftedMaskProfile(omega=SHARE * omega(NOISE, 2), eta=NOISE.eta, dimension=2)
    return pass_probabilities(loss, epsilon=EPSILON, delta=DELTA)


def tightest_level(table: PassProbabilities) -> int:
    """The level whose step to the next one leaves the least room where both often pass, on the side of releases."""
    pairs = list(itertools.pairwise(table.probabilities))
    near = [i for i, (q, p) in enumerate(pairs) if q > 0.05 and p < 0.9]
    return max(near, key=lambda i: divergence(pairs[i][1], pairs[i][0], table.loss, EPSILON))


def _width(average: Average) -> int:
    return sum(part.size for part in average)


def unshifted_epsilon(p: float, q: float, distance: float) -> float:
    """Exact epsilon of a pass with p against one with q, and of one eigenvalue e^-distance after it."""

    def excess(epsilon: float) -> float:
        fails = max(0.0, (1 - p) - math.exp(epsilon) * (1 - q))
        return fails + p * single_delta(epsilon - math.log(p / q), -distance, 2, NOISE.eta) - DELTA

    return float(optimize.brentq(excess, 0.5, 10.0))


def mask_targets() -> list[Specimen]:
    """The mask at both levels in one and two columns, five faults."""
    claim, inf = (EPSILON, DELTA), math.inf
    lonely, distance = one_component(), omega(NOISE, 2)
    line = moved(two_components(), -distance, VARIANCE)
    other_side = moved(two_components(), distance, OBLIQUE)
    corner = moved(lonely, -distance, CORNER)
    weights = lonely, reweighted(lonely, distance, NOISE.kappa)
    on_grid, half = functools.partial(mask, noise=BIT_NOISE), omega(BIT_NOISE, 2) / math.sqrt(2)
    both = lonely, reweighted(moved(lonely, -half, CORNER)[1], half, BIT_NOISE.kappa)
    in_plane = moved(component_in_the_plane(), -omega(BIT_NOISE, 3), [1.0, 0.5, 0.8])
    relabelled = two_components(), Average(*(part[::-1].copy() for part in two_components()))
    wide = one_sided_omega(2)
    skewed, coarse = moved(lonely, -wide, CORNER), functools.partial(simulated, noise=COARSE)
    shift = distance * NOISE.kappa / NOISE.weight(1)  # of the weight, in standard deviations of its noise
    halved = float(gaussian_epsilon(DELTA, noise_multiplier=1 / (2 * shift)))
    quartered = single_epsilon(-distance, NOISE.eta / 4, 2)
    one_sided = single_epsilon(-wide, COARSE.eta, 2)
    return [
        Specimen("lifted_mask", MASK, mask, *line, *claim, 1.0, False, 3_000),
        Specimen("lifted_mask_corner", MASK, mask, *corner, *claim, 1.0, False, 4_000),
        at_bits("lifted_mask_bits", MASK, on_grid, *both, *claim, 1.0, False, 3_000),
        Specimen("lifted_mask_in_the_plane", MASK, on_grid, *in_plane, *claim, 1.0, False, 2_000),
        at_bits("lifted_mask_in_the_plane_bits", MASK, on_grid, *in_plane, *claim, 1.0, False, 2_000),
        Specimen("lifted_mask_other_side", MASK, mask, *other_side, *claim, 1.0, False, 2_000),
        Specimen("lifted_mask_weights", MASK, mask, *weights, *claim, 1.0, False, 4_000),
        Specimen("lifted_mask_not_shuffled", MASK_FAULT, not_shuffled, *relabelled, *claim, inf, True, 2_000),
        Specimen(
            "lifted_mask_half_weight_noise", MASK_FAULT, half_weight_noise, *weights, *claim, halved, True, 40_000
        ),
        Specimen("lifted_mask_quarter_eta", MASK_FAULT, quarter_eta, *corner, *claim, quartered, True, 4_000),
        Specimen("lifted_mask_one_direction", MASK_FAULT, coarse, *skewed, *claim, one_sided, True, 16_000),
        at_bits("lifted_mask_unrounded_bits", MASK_FAULT, unrounded, *both, *claim, inf, True, 2_000),
    ]


def table_targets() -> list[Specimen]:
    """The table at its first step and in its middle, two faults."""
    claim, distance = (EPSILON, DELTA), omega(NOISE, 2)
    lonely, table = one_component(), table_of_mask()
    first = (lonely, 1), (lonely, 0)
    level = tightest_level(table)
    near = moved(lonely, -SHARE * distance, CORNER)
    middle = (near[0], level + 1), (near[1], level)
    sound = functools.partial(with_table, table=table)
    high = functools.partial(with_probabilities, probabilities=[0.0, 10 * DELTA])
    entries, place = not_shifted()
    far = moved(lonely, -distance, CORNER)
    steep = (far[0], place + 1), (far[1], place)
    unshifted = functools.partial(with_probabilities, probabilities=entries)
    true = unshifted_epsilon(entries[place + 1], entries[place], distance)
    return [
        Specimen("pass_table_first_level", TABLE, sound, *first, *claim, 1.0, False, 4_000),
        Specimen("pass_table_middle", TABLE, sound, *middle, *claim, 1.0, False, 6_000),
        Specimen("pass_table_high_first_level", TABLE_FAULT, high, *first, *claim, math.inf, True, 30_000),
        Specimen("pass_table_not_shifted", TABLE_FAULT, unshifted, *steep, *claim, true, True, 80_000),
    ]


def targets() -> list[Specimen]:
    """Mask and pass table."""
    return [*mask_targets(), *table_targets()]
