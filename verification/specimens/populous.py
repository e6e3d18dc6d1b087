"""The Private Populous Estimator with two conditions of its proof left out, and with them.

S1, run with r = 1 as in the proof of its Theorem 6.2. Blocks of one record x; the learner returns the mixture with
weight 1, mean x, variance 1. With r = 1 two chosen fits may be 2/3 apart while the mask moves the mean by 0.03: the
claim (0.4, 4.9e-5) is off by a factor of hundreds.

S12, a plain majority of friends among an odd number of blocks. Blocks of one integer, the learner returns it. Two
majorities may share the changed block alone, and then the two chosen fits are three friend radii apart, not two.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.gaussian import gaussian_mu
from pm_dpgmm.mechanisms.masks import MaskNoise
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_loss
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous_single.agreement import friend_table
from pm_dpgmm.methods.populous_single.method import Constants, PopulousSingle, test_and_mask
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import PointProfile, TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import discrete_gaussian, truncated_discrete_laplace
from verification.references.references import gaussian_epsilon
from verification.specimens.specimen import Specimen

T = 932  # blocks at which full agreement always passes at (0.2, 1e-5)
EPSILON, DELTA = 0.2, 1e-5  # of the test, and of the mask
NOISE = MaskNoise(weight=0.0318, mean=0.0318, covariance=0.0318)  # the paper's eta for alpha = beta = 0.1

N_INTEGERS = 325  # blocks of S12: odd, and enough that its pair always passes the test
PLAIN = N_INTEGERS // 2 + 1  # friends, itself included: more than half
SHARED = (N_INTEGERS + 3) // 2  # so many that two such sets share a block besides the changed one: 2 m >= t + 2
FRIEND = 64  # friend radius of integers; the mask is made for twice as much
TEST, MASK = (0.1, 1e-3), (2.0, 1e-2)  # (epsilon, delta) of the test and of the mask on integers
MASK_SCALE = 1.001 * 2 * FRIEND / gaussian_mu(*MASK)  # the thousandth is for the discrete noise


def learner(block: FloatArray) -> Mixture:
    """The record itself as a mean."""
    return Mixture([1.0], block[:1], [[[1.0]]])


def run(
    data: FloatArray, n_samples: int, rng: np.random.Generator | None, constants: Constants, noise: MaskNoise
) -> Any:
    """``n_samples`` runs of Algorithm 1 on one-record blocks; a refusal is a row of NaN.

    Fits and friend counts do not change between runs, so they are computed once.
    """
    fits: list[Mixture | None] = [learner(block) for block in np.asarray(data, dtype=float).reshape(-1, 1, 1)]
    friends = friend_table(fits, constants.friend_radius).sum(axis=1)
    outputs = np.full((n_samples, 3), np.nan)
    for row in outputs:
        raw = test_and_mask(fits, friends, constants, noise=noise, rng=rng)
        if raw is not None:
            row[:] = raw["weights"][0], raw["means"][0, 0], raw["covariances"][0, 0, 0]
    return outputs


def radius_one(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Algorithm 1 with r = 1: friends within 1/3, a mask made for far closer fits."""
    test = truncated_laplace_loss(sensitivity=2 * (T - 1), epsilon=EPSILON, delta=DELTA)
    constants = Constants(
        n_subsets=T,
        mask_radius=1.0,
        friend_radius=1 / 3,
        min_friends=math.floor(0.6 * T) + 1,
        threshold=math.ceil(0.8 * T * T),
        test=test,
        mask=PointProfile(EPSILON, DELTA),
    )
    return run(data, n_samples, rng, constants, NOISE)


@functools.cache
def sound_constants(epsilon: float, delta: float, n_components: int = 1) -> Constants:
    """Constants of the package's own method on one-record blocks, public facts only."""
    problem = Problem(T, 1, n_components, epsilon, delta, None, Neighbouring.REPLACE_ONE)
    return PopulousSingle(noise=NOISE.mean).constants(problem)


def first_block_moved(friend_radius: float, n_subsets: int) -> tuple[FloatArray, FloatArray]:
    """All blocks agree but the first, which sits one friend radius below or above the others."""
    low = np.zeros(n_subsets)
    low[0] = -0.999 * friend_radius  # inside the friend radius, rounding margin included
    high = low.copy()
    high[0] = -low[0]
    return low, high


def radius_of_the_mask(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The sound twin at the same total claim."""
    return run(data, n_samples, rng, sound_constants(2 * EPSILON, 4 * math.exp(EPSILON) * DELTA), NOISE)


@functools.cache
def integer_test(n_blocks: int) -> TruncatedLaplaceProfile:
    """Noise of the agreement test: one block changes the sum of friend counts by at most 2(t - 1)."""
    return truncated_laplace_loss(sensitivity=2 * (n_blocks - 1), epsilon=TEST[0], delta=TEST[1])


def integers(data: FloatArray, n_samples: int, rng: np.random.Generator, *, min_friends: int) -> Any:
    """The estimator on integers: the first one with enough friends, masked; NaN when the noisy sum is too small."""
    t, test = len(data), integer_test(len(data))
    friends = (np.abs(data[:, None] - data) <= FRIEND).sum(axis=1)
    agreement = friends.sum() + truncated_discrete_laplace(n_samples, scale=test.scale, bound=test.bound, rng=rng)
    chosen = data[np.argmax(friends >= min_friends)]
    noisy = chosen + discrete_gaussian(n_samples, scale=MASK_SCALE, rng=rng)
    return np.where(agreement >= min_friends * t + test.bound, noisy, np.nan)


def integers_log_density(outputs: FloatArray, data: FloatArray, *, min_friends: int) -> FloatArray:
    """Log probability: the test passes, then a discrete Gaussian; NaN where it does not pass."""
    t, test = len(data), integer_test(len(data))
    friends = (np.abs(data[:, None] - data) <= FRIEND).sum(axis=1)
    noise = np.arange(-test.bound, test.bound + 1)
    masses = np.exp(-np.abs(noise) / test.scale)
    passes = masses[friends.sum() + noise >= min_friends * t + test.bound].sum() / masses.sum()
    chosen = data[np.argmax(friends >= min_friends)]
    # at this scale the sum over integers is the integral to far below double precision
    masked = -(((outputs - chosen) / MASK_SCALE) ** 2) / 2 - math.log(MASK_SCALE * math.sqrt(2 * math.pi))
    with np.errstate(divide="ignore"):
        return np.where(np.isnan(outputs), np.log1p(-passes), masked + np.log(passes))


def plain_majority(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """More than half of the blocks."""
    return integers(data, n_samples, rng, min_friends=PLAIN)


def shared_majority(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """So many that two of them share a block besides the changed one."""
    return integers(data, n_samples, rng, min_friends=SHARED)


def two_camps(first: float) -> FloatArray:
    """Half of the other blocks half a friend radius below 0, half of them above: all of them friends."""
    half = np.full(N_INTEGERS // 2, FRIEND / 2)
    return np.concatenate([[first], -half, half])


def one_camp(first: float) -> FloatArray:
    """All other blocks at 0."""
    return np.concatenate([[first], np.zeros(N_INTEGERS - 1)])


def specimens() -> list[Specimen]:
    """S1 and S12 with their sound twins."""
    claimed = (2 * EPSILON, 4 * math.exp(EPSILON) * DELTA)
    x = np.full(T, 1 / 3 - 1e-6)
    x[0] = 0.0
    x_neighbour = x.copy()
    x_neighbour[0] = 2 * x[1]
    constants = sound_constants(*claimed)
    twin = first_block_moved(constants.friend_radius, constants.n_subsets)
    true = float(gaussian_epsilon(claimed[1], noise_multiplier=NOISE.mean / float(x_neighbour[0])))
    total = (TEST[0] + MASK[0], TEST[1] + MASK[1])
    camps = two_camps(-1.5 * FRIEND), two_camps(1.5 * FRIEND)
    camp = one_camp(-FRIEND), one_camp(FRIEND)
    plain, shared = (float(gaussian_epsilon(total[1], noise_multiplier=MASK_SCALE / (r * FRIEND))) for r in (3, 2))
    paper = "Arbas, Ashtiani, Liaw (2023), proof of Theorem 6.2"
    threshold = "Arbas, Ashtiani, Liaw (2023), Algorithm 1 with other thresholds"
    return [
        Specimen("S1_populous_radius_one", paper, radius_one, x, x_neighbour, *claimed, true, True, n_samples=2_000),
        Specimen(
            "S1_twin_radius_gamma", "control", radius_of_the_mask, *twin, *claimed, claimed[0], False, n_samples=10_000
        ),
        Specimen(
            "S12_plain_majority",
            threshold,
            plain_majority,
            *camps,
            *total,
            plain,
            True,
            n_samples=200_000,
            log_density=functools.partial(integers_log_density, min_friends=PLAIN),
        ),
        Specimen(
            "S12_twin_shared_majority",
            "control",
            shared_majority,
            *camp,
            *total,
            shared,
            False,
            log_density=functools.partial(integers_log_density, min_friends=SHARED),
        ),
    ]
