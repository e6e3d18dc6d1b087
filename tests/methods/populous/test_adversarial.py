"""The aggregated estimator when some subsets are bad: it answers or refuses, and its answer stays in the radius."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import linalg, stats

from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous.agreement import AgreementRule, friend_table, valid_fits
from pm_dpgmm.methods.populous.average import average_core, core_weights, stability_level
from pm_dpgmm.methods.populous.design import Design
from pm_dpgmm.methods.populous.method import Populous, agree_average_mask
from pm_dpgmm.privacy.guarantee import Neighbouring

T, SIZE = 283, 300  # subsets; records of each
DESIGN = Design(T, AgreementRule(2, 2, 0.885, 1.113), top=225, full=225, noise=0.1)
RULE, TAU = DESIGN.rule, DESIGN.rule.average_error
BAD = round(0.05 * T)
PARTS = ("weights", "means", "covariances", "given")


@pytest.fixture(scope="module")
def honest():
    """Compiled EM on subsets of one mixture."""
    rng = np.random.default_rng(20261121)
    records = rng.standard_normal((T * SIZE, 2)) + 5 * (rng.random((T * SIZE, 1)) < 0.5)
    return BatchedEM().fit_all(records, np.arange(T + 1) * SIZE, 2, seeds=range(T))


@pytest.fixture(scope="module")
def alone(honest):
    """Average, level and core weights without bad fits."""
    return average_of(honest)


@pytest.fixture(scope="module")
def constants():
    problem = Problem(T * SIZE, 2, 2, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE)
    return Populous(design=DESIGN).constants(problem)


@pytest.fixture(scope="module")
def quiet(constants):
    """The same test and average, nearly without noise: what is released is the average. Not private."""
    return dataclasses.replace(constants, noise=LiftedMaskNoise(1e-9, RULE.kappa))


def changed(fits, places, change):
    """A copy of ``fits`` in which ``change`` has written over the fits at ``random_assignment``."""
    copy = Fits(*(getattr(fits, name).copy() for name in PARTS))
    for i in places:
        change(copy, i)
    return copy


def lifted(average):
    """Weights (k,) and lifted points (k, 3, 3) of a ``CoreAverage``, in the unit of the records."""
    frames = np.zeros((2, 3, 3))
    frames[:, :2, :2], frames[:, :2, 2], frames[:, 2, 2] = average.factors, average.centres, 1.0
    return average.weights, frames @ average.points @ np.swapaxes(frames, 1, 2)


def published(raw):
    """The same of what a mask released."""
    corners, means = raw["corners"][:, None, None], raw["means"][:, :, None]
    points = np.concatenate(
        [
            np.concatenate([raw["covariances"] + corners * means @ np.swapaxes(means, 1, 2), corners * means], axis=2),
            np.concatenate([corners * np.swapaxes(means, 1, 2), corners], axis=2),
        ],
        axis=1,
    )
    return raw["weights"], points


def distance(first, second):
    """d_2 of two lifted mixtures under the better order, by generalised eigenvalues of SciPy."""
    found = []
    for order in itertools.permutations(range(2)):
        squares = [
            np.sum(np.log(linalg.eigvalsh(q, p)) ** 2) for p, q in zip(first[1], second[1][[*order]], strict=True)
        ]
        found.append(sum(squares) + np.sum((first[0] - second[0][[*order]]) ** 2) / RULE.kappa**2)
    return math.sqrt(min(found))


def average_of(fits):
    """The average, the level of the test and the normalised weights of the core."""
    friends = friend_table(fits, RULE)
    counts = friends.sum(axis=1)
    weights = core_weights(counts, floor=DESIGN.floor, top=DESIGN.top)
    average = average_core(fits, friends, RULE, top=DESIGN.top)
    return lifted(average), stability_level(counts, top=DESIGN.top, full=DESIGN.full), weights / weights.sum()


def mass_of(n_bad):
    """Bound on the share of the core weights that ``n_bad`` replaced fits move, when the level is at least ``n_bad``.

    As for one fit: at least ``full`` of the others have full weight before and after, and each of the rest loses or
    gains at most ``n_bad`` friends.
    """
    rest = (T - n_bad - DESIGN.full) * min(1.0, n_bad / (DESIGN.top - DESIGN.floor))
    return (n_bad + max(rest, 0.0)) / (DESIGN.full + n_bad + max(rest, 0.0))


# What a bad subset may give: each writes over fit i, whose honest numbers are still there.
def garbage(fits, i):
    rng = np.random.default_rng(i)
    fits.weights[i] = rng.dirichlet([1.0, 1.0])
    fits.means[i] = 100 * rng.standard_normal((2, 2))
    fits.covariances[i] = [part @ part.T for part in rng.standard_normal((2, 2, 4))]


def shifted(fits, i, by=0.2):
    fits.means[i] = [[by, by], [5 + by, 5 + by]]
    fits.covariances[i], fits.weights[i] = np.eye(2), 0.5


def widened(fits, i, by=0.3):
    fits.means[i], fits.covariances[i], fits.weights[i] = [[0, 0], [5, 5]], math.exp(by) * np.eye(2), 0.5


def tilted(fits, i, by=0.1):
    fits.means[i], fits.covariances[i], fits.weights[i] = [[0, 0], [5, 5]], np.eye(2), [0.5 + by, 0.5 - by]


def nan(fits, i):
    fits.means[i, i % 2, 0] = np.nan


def infinite(fits, i):
    fits.covariances[i, i % 2, 0, 0] = np.inf


def huge(fits, i):
    fits.means[i] *= 1e300


def missing(fits, i):
    fits.given[i] = False


def reordered(fits, i):
    for part in (fits.weights, fits.means, fits.covariances):
        part[i] = part[i, ::-1].copy()


def crossed(fits, i):
    fits.means[i] = fits.means[i, ::-1].copy()  # each mean with the covariance and the weight of the other


def flat(fits, i):
    fits.covariances[i, 0] = 1 - 1e-13 * np.eye(2)[::-1]


def thin(fits, i):
    fits.covariances[i, 0] = 1 - 1e-5 * np.eye(2)[::-1]


def merged(fits, i):
    fits.means[i, 1], fits.covariances[i, 1] = fits.means[i, 0], fits.covariances[i, 0]


INVALID = (nan, infinite, huge, missing, flat, merged)
ALONE = (garbage, thin)
COLLUDING = (shifted, widened, tilted)
HARMLESS = (reordered, crossed)


@pytest.mark.parametrize("attack", [*INVALID, *ALONE, *COLLUDING, *HARMLESS], ids=lambda attack: attack.__name__)
def test_a_twentieth_of_bad_fits_moves_the_release_by_no_more_than_the_radius_allows(honest, alone, quiet, attack):
    before, level, honest_weights = alone
    attacked = changed(honest, range(BAD), attack)  # the first fits: the average is computed in the frame of one
    assert level >= BAD
    valid = valid_fits(attacked, RULE)
    assert valid[BAD:].all() and valid[:BAD].any() == (attack not in INVALID)
    raw = agree_average_mask(attacked, quiet, n_threads=1, rng=np.random.default_rng(1))
    assert raw is not None  # the level passes with probability 1
    _, after, weights = average_of(attacked)
    mass = 1 - np.minimum(honest_weights, weights)[BAD:].sum()
    moved = distance(before, published(raw))
    assert mass <= mass_of(BAD)
    assert moved <= 2 * RULE.fit_radius * mass + 2 * TAU
    assert level - BAD <= after <= level
    assert (after == level) == (attack in (*COLLUDING, *HARMLESS))
    if attack is reordered:
        assert moved <= 2 * TAU
    elif attack in COLLUDING:
        assert moved >= 0.3 * RULE.fit_radius * BAD / T


def test_colluding_fits_gain_most_at_the_radius_and_nothing_beyond(honest, alone):
    """Fits at growing distances from the truth: they pull the average until they lose their friends."""
    before, _, honest_weights = alone
    moves = []
    for by in (0.05, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 1.0):
        attacked = changed(honest, range(BAD), lambda fits, i, by=by: shifted(fits, i, by))
        after, _, weights = average_of(attacked)
        mass = 1 - np.minimum(honest_weights, weights)[BAD:].sum()
        assert mass <= mass_of(BAD)
        moves.append(distance(before, after))
        assert moves[-1] <= 2 * RULE.fit_radius * mass + 2 * TAU
    peak = int(np.argmax(moves))
    assert 2 <= peak <= 4 and moves[peak] > 3 * moves[0] and moves[-1] < moves[peak] / 3


@pytest.mark.parametrize("attack", COLLUDING, ids=lambda attack: attack.__name__)
def test_with_the_noise_of_a_release_the_errors_are_those_of_the_noise(honest, alone, constants, attack):
    """False alarm 1e-6 each: the squared distance of a mask is 4 eta^2 chi-squared, to first order in eta."""
    before, _, _ = alone
    attacked = changed(honest, range(BAD), attack)
    raw = agree_average_mask(attacked, constants, n_threads=1, rng=np.random.default_rng(2))
    freedom = 2 * (3 * 4 // 2 + 1)  # of two lifted components and their weights
    noise = 2 * DESIGN.noise * math.sqrt(stats.chi2.isf(1e-6, freedom))
    assert distance(before, published(raw)) <= 2 * RULE.fit_radius * mass_of(BAD) + 1.2 * noise


@pytest.mark.parametrize("share", [0.1, 0.15, 0.2])
def test_more_bad_fits_are_refused_or_stay_in_the_radius(honest, alone, quiet, share):
    before, level, _ = alone
    n_bad = min(round(share * T), level)
    answers = 0
    for attack in (*ALONE, *COLLUDING, nan):
        attacked = changed(honest, range(n_bad), attack)
        raw = agree_average_mask(attacked, quiet, n_threads=1, rng=np.random.default_rng(3))
        if raw is not None:
            answers += 1
            assert distance(before, published(raw)) <= 2 * RULE.fit_radius * mass_of(n_bad) + 2 * TAU
    assert answers >= len(COLLUDING)


@pytest.mark.parametrize(
    "attack", [*INVALID, *ALONE, "together"], ids=lambda attack: getattr(attack, "__name__", attack)
)
def test_a_third_of_bad_fits_is_refused_whatever_the_coin(honest, constants, attack):
    """The level is 0, which never passes."""

    def far(fits, i):
        shifted(fits, i, 3.0)  # friends of each other and of nobody else

    attacked = changed(honest, range(T // 3), far if attack == "together" else attack)
    assert stability_level(friend_table(attacked, RULE).sum(axis=1), top=DESIGN.top, full=DESIGN.full) == 0
    for seed in range(3):
        assert agree_average_mask(attacked, constants, n_threads=1, rng=np.random.default_rng(seed)) is None
