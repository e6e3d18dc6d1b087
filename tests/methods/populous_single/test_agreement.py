import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings

from pm_dpgmm.methods.populous_single.agreement import friend_table, is_valid
from pm_dpgmm.mixture.distances import distance_parameters
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.examples import examples
from verification.claims.common.strategies import mixtures


def random_fits(n, k, d, spread, seed):
    rng = np.random.default_rng(seed)
    fits = []
    for _ in range(n):
        a = np.eye(d) + spread * rng.standard_normal((k, d, d))
        weights = np.maximum(1 / k + 0.3 * spread * rng.standard_normal(k), 0.01)
        means = 3.0 * np.arange(k)[:, None] + spread * rng.standard_normal((k, d))
        fits.append(Mixture(weights / weights.sum(), means, a @ np.swapaxes(a, 1, 2)).permuted(rng.permutation(k)))
    return fits


@pytest.mark.parametrize("k, d, radius", [(1, 1, 0.1), (2, 2, 0.2), (3, 1, 0.3), (2, 1, 6.0)])
def test_friends_are_exactly_the_pairs_within_the_papers_distance(k, d, radius):
    fits = random_fits(14, k, d, 0.06, seed=k + d)
    table = friend_table(fits, radius)
    distances = np.array([[distance_parameters(a, b) for b in fits] for a in fits])
    assert (table == table.T).all() and table.diagonal().all()
    clear = np.abs(distances - radius) > 1e-6
    off = ~np.eye(len(fits), dtype=bool)
    assert (table == (distances <= radius))[clear & off].all()
    assert table[off].any() and (radius > 1 or not table[off].all())  # both kinds occur, or the test says nothing


def test_replacing_one_fit_leaves_every_other_entry_alone():
    fits = random_fits(12, 3, 3, 0.02, seed=5)
    for replacement in (None, fits[3], random_fits(1, 3, 3, 0.5, seed=9)[0]):
        changed = [*fits[:4], replacement, *fits[5:]]
        keep = np.arange(12) != 4
        for radius in (0.05, 0.1, 0.2):
            before, after = friend_table(fits, radius), friend_table(changed, radius)
            assert (before[np.ix_(keep, keep)] == after[np.ix_(keep, keep)]).all()
            assert abs(int(before.sum()) - int(after.sum())) <= 2 * (len(fits) - 1)


def test_failed_and_degenerate_fits_are_friends_of_themselves_alone():
    good = Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    flat = Mixture([1.0], [[0.0, 0.0]], [[[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]]])
    assert is_valid(good) and not is_valid(flat)
    assert friend_table([good, None, flat, flat, good], 0.5).astype(int).tolist() == [
        [1, 0, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 1],
    ]  # fmt: skip
    assert friend_table([None, None], 0.5).tolist() == [[True, False], [False, True]]


def test_units_do_not_decide_validity():
    unit = np.diag([1e-6, 1e6])
    assert is_valid(Mixture([1.0], [[0.0, 0.0]], [unit @ np.array([[1.0, 0.5], [0.5, 1.0]]) @ unit]))


@given(mixtures(max_components=3, max_features=2))
@settings(deadline=None, max_examples=examples(40))
def test_a_valid_fit_and_its_relabelled_copy_are_friends(mixture):
    copy = mixture.permuted(list(range(mixture.n_components))[::-1])
    expected = is_valid(mixture)
    assert bool(friend_table([mixture, copy], 1e-3)[0, 1]) == expected


def test_the_composition_of_two_friendships_stays_within_the_masks_radius():
    """Worst case of d = 1: two steps of s in the covariance reach gamma = 2 s + s^2 exactly."""
    gamma = 0.05
    s = math.sqrt(1 + gamma) - 1
    chain = [Mixture([1.0], [[0.0]], [[[(1 + s) ** j]]]) for j in range(3)]
    assert distance_parameters(chain[0], chain[2]) == pytest.approx(gamma, rel=1e-12)
    table = friend_table(chain, s * (1 + 1e-6) + 1e-8)
    assert table[0, 1] and table[1, 2]


@pytest.mark.parametrize("t", [4, 5])
def test_any_two_fits_with_enough_friends_share_an_unchanged_one(t):
    """Every graph on t fits and every new row of fit 0: exact thresholds never fail, a majority does for odd t."""
    pairs = list(itertools.combinations(range(t), 2))
    others = list(itertools.product([False, True], repeat=t - 1))

    def fails(min_friends):
        for bits in itertools.product([False, True], repeat=len(pairs)):
            before = np.eye(t, dtype=bool)
            for (i, j), bit in zip(pairs, bits, strict=True):
                before[i, j] = before[j, i] = bit
            for row in others:
                after = before.copy()
                after[0, 1:] = after[1:, 0] = row
                chosen = [np.flatnonzero(table.sum(axis=1) >= min_friends) for table in (before, after)]
                if min(map(len, chosen)) == 0:
                    continue
                common = before[chosen[0][0]] & after[chosen[1][0]]
                if not common[1:].any():
                    return True
        return False

    assert not fails((t + 3) // 2)
    assert fails(t // 2 + 1) == (t % 2 == 1)
