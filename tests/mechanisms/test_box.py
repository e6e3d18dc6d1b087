"""The box stage, counted out: matchings, samples, bins of neighbours, thresholds, and three cases exactly."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pm_dpgmm.mechanisms import box
from pm_dpgmm.mechanisms.box import GRID, location_threshold, noisy_box
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.privacy.guarantee import Neighbouring

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
BUDGET = GaussianFilter.of(1.0, 1e-2, failure=5e-3)
SETTINGS = {"budget": BUDGET, "share": Fraction(1), "neighbouring": REPLACE}
FAR = 1e6


# ------------------------------------------------------------------ thresholds
def as_often_as(hits, n_trials, probability):
    """A binomial number of hits, at a false alarm of 1e-6."""
    binomial = stats.binom(n_trials, probability)
    return binomial.cdf(hits) > 5e-7 and binomial.sf(hits - 1) > 5e-7


@pytest.mark.parametrize("rng", [None, np.random.default_rng(1)], ids=["release", "simulation"])
def test_a_bin_whose_count_is_the_threshold_is_kept_half_the_time(rng):
    """Its noisy count is compared, not the count: 4,000 bins alike. Alarm 1e-6."""
    found = np.arange(4_000.0)
    kept = box._kept_bins(found, np.full(4_000, 20), 1.0, scale=2**32, threshold=20 * GRID, rng=rng)
    assert as_often_as(kept.index.size, 4_000, 0.5)
    assert (kept.counts > 20).all() and np.unique(kept.counts).size > 1_000  # and published with noise


@pytest.mark.parametrize("above", [0, 1])
def test_a_crowd_at_the_threshold_is_kept_as_often_as_the_noise_says(above):
    """One record fewer than the threshold asks for, and as many as it asks for. Alarm 1e-6 for each."""
    rng, n_runs = np.random.default_rng(2), 1_000
    crowd = np.linspace(0.0, 1.0, 200)
    found, _ = noisy_box(crowd[:, None], rng=rng, **SETTINGS)
    scale = found.location_noise
    threshold = location_threshold(round(scale * GRID), failure=BUDGET.failure, n_features=1) / GRID
    number = math.floor(threshold) + above
    records = np.concatenate([crowd, np.full(number, FAR)])[:, None]
    kept = 0
    for _ in range(n_runs):
        found, _ = noisy_box(records, rng=rng, **SETTINGS)
        kept += found.columns[0].interval[1] > FAR / 2
    probability = stats.norm.sf((threshold - number) / scale)
    assert 0.4 < probability < 0.6 and as_often_as(kept, n_runs, probability)


@pytest.mark.parametrize("n_features", [1, 3])
def test_the_failure_is_shared_by_all_columns(n_features, monkeypatch):
    """The threshold is asked for once, for the number of columns, the whole failure and the scale of the noise."""
    asked, real = [], box.location_threshold

    def watched(scale, *, failure, n_features):
        asked.append((scale / GRID, failure, n_features))
        return real(scale, failure=failure, n_features=n_features)

    monkeypatch.setattr(box, "location_threshold", watched)
    found, _ = noisy_box(np.zeros((10, n_features)), rng=np.random.default_rng(1), **SETTINGS)
    assert asked == [(found.location_noise, BUDGET.failure, n_features)]


SCALE, LONE = 4, 1e-3  # of the noise on counts; probability that a lone record is kept
CASES = {
    "alone to alone": ((1, 3, 0), (0, 3, 1)),
    "alone to crowd": ((1, 3, 0), (0, 4, 0)),
    "crowd to crowd": ((2, 3, 0), (1, 4, 0)),
}


def law(counts, threshold):
    """Masses over what is seen of three bins: not there, or a noisy count in a cell of a tenth of its noise."""
    ends = threshold + np.concatenate([np.arange(0.0, 20.0, SCALE / 10), [np.inf]])
    masses = []
    for count in counts:
        above = stats.norm.sf(ends, count, SCALE) if count else np.zeros(ends.size)  # an empty bin is never there
        masses.append(np.concatenate([[1 - above[0]], above[:-1] - above[1:]]))
    return np.einsum("i,j,k->ijk", *masses)  # noises are independent


def exact_delta(pair, epsilon, threshold):
    """Of counts of bins and their neighbour. Cells can only hide, and little."""
    one, other = (law(counts, threshold) for counts in pair)
    return np.maximum(0, one - math.exp(epsilon) * other).sum()


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("name", CASES)
def test_what_a_record_shows_by_its_bin_is_paid_for(name, back, epsilon):
    """Within the curve; and where a bin is only in the first data set, no less than what was set aside for it."""
    threshold = location_threshold(SCALE * GRID, failure=LONE, n_features=1) / GRID
    pair = CASES[name][::-1] if back else CASES[name]
    exact = exact_delta(pair, epsilon, threshold)
    assert exact <= GaussianFilter(Fraction(2, SCALE**2), LONE).loss().delta(epsilon)
    if any(count == 1 and beside == 0 for count, beside in zip(*pair, strict=True)):
        assert exact >= 0.999 * LONE


def test_a_threshold_for_noise_alone_would_not_do():
    """The planted fault: without a lone record's own count in the threshold."""
    threshold = location_threshold(SCALE * GRID, failure=LONE, n_features=1) / GRID - 1
    exact = exact_delta(CASES["alone to alone"], 1.0, threshold)
    assert exact > 1.5 * GaussianFilter(Fraction(2, SCALE**2), LONE).loss().delta(1.0)


def test_to_try_again_until_a_bin_is_kept_would_not_do():
    """The planted fault: a fresh budget for every box until one has a bin, and that one is published.

    Its law is the one given that a bin is kept. With few records that is as rare as a lone record's bin.
    """
    threshold = location_threshold(SCALE * GRID, failure=LONE, n_features=1) / GRID
    one, other = (law(counts, threshold) for counts in CASES["alone to alone"])
    for masses in (one, other):
        masses[0, 0, 0] = 0.0
        masses /= masses.sum()
    exact = np.maximum(0, one - math.e * other).sum()
    assert exact > 100 * GaussianFilter(Fraction(2, SCALE**2), LONE).loss().delta(1.0)


# ------------------------------------------------------------------ matchings and samples
def powers_without(n):
    """Records 4^i, with 0 instead in column i: distances from i there have even exponents, all others odd ones."""
    return np.where(np.eye(n, dtype=bool), 0.0, 4.0 ** np.arange(n)[:, None])


def matching_of(order):
    """Pairs that the scale counts are made of, read off the counts themselves."""
    n = len(order)
    counts = box.pair_distance_counts(powers_without(n), np.array(order))
    even = counts[:, (box.EXPONENTS % 2 == 0) & (box.EXPONENTS >= 0)]
    return frozenset(frozenset((j, int(partner))) for j, partner in np.argwhere(even))


def order_of(matching, n):
    """An order that the counts read as this matching."""
    firsts, seconds = (list(side) for side in zip(*map(sorted, matching), strict=True))
    order = [*firsts, *seconds]
    order += [i for i in range(n) if i not in order]
    assert matching_of(order) == matching
    return np.array(order)


def without(matching, gone, n):
    """The matching of the others: the partner of ``gone`` stays alone, or is matched to who was alone before."""
    kept = [pair for pair in matching if gone not in pair]
    if len(kept) < len(matching) and n % 2:
        (partner,) = next(pair for pair in matching if gone in pair) - {gone}
        (alone,) = set(range(n)) - set().union(*matching)
        kept.append(frozenset((partner, alone)))
    return frozenset(frozenset(i - (i > gone) for i in pair) for pair in kept)


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_a_matching_without_one_record_is_a_uniform_matching_of_the_others(n):
    """All orders of n records: every matching is as frequent as any other, and so is what is left without a record."""
    drawn = Counter(matching_of(order) for order in itertools.permutations(range(n)))
    others = Counter(matching_of(order) for order in itertools.permutations(range(n - 1)))
    assert all(len(matching) == n // 2 for matching in drawn)
    assert len(set(drawn.values())) == len(set(others.values())) == 1
    records = 2.0 ** np.random.default_rng(n).integers(-20, 20, size=(n, 2))
    for gone in range(n):
        derived, changes = Counter(), []
        for matching in drawn:
            rest = without(matching, gone, n)
            derived[rest] += 1
            change = box.pair_distance_counts(records, order_of(matching, n))
            change -= box.pair_distance_counts(np.delete(records, gone, axis=0), order_of(rest, n - 1))
            changes.append(np.square(change).sum())
        assert derived.keys() == others.keys() and len(set(derived.values())) == 1
        assert max(changes) == (2 * 2 if n % 2 else 2)  # in two columns: 2 d, or d where only a pair is lost


@pytest.mark.parametrize("n", [4, 5])
def test_a_replaced_record_moves_the_counts_of_one_pair(n):
    records = 2.0 ** np.random.default_rng(n).integers(-20, 20, size=(n, 2))
    other = records.copy()
    other[0] = 3.0e9, -5.0e-9
    changes = [
        np.square(
            box.pair_distance_counts(records, np.array(order)) - box.pair_distance_counts(other, np.array(order))
        ).sum()
        for order in itertools.permutations(range(n))
    ]
    assert max(changes) == 2 * 2


@pytest.fixture
def given_coins(monkeypatch):
    """The coins that the sample is drawn by, in the order of the records; what was asked for."""
    state = {"coins": [], "asked": []}

    def coins(n, *, probability, rng):
        state["asked"].append((n, probability))
        drawn, state["coins"] = state["coins"][:n], state["coins"][n:]
        return np.array(drawn, dtype=bool)

    monkeypatch.setattr(box, "bernoullis", coins)
    return state


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_by_the_same_coins_samples_of_neighbours_are_equal_or_neighbours(n, given_coins):
    """All coins: without a record, or with another in its place, the sample is the same or differs by that record."""
    records = np.arange(1.0, n + 1)[:, None]

    def sampled(rows, coins):
        given_coins["coins"] = list(coins)
        found = box._sample(rows, 0.5, None)
        assert not given_coins["coins"]  # a coin for every record
        return found[:, 0].tolist()

    for coins in itertools.product([False, True], repeat=n):
        whole = sampled(records, coins)
        assert whole == [row for row, coin in zip(records[:, 0], coins, strict=True) if coin]
        assert whole == sampled(iter(np.array_split(records, 3)), coins)
        for x in range(n):
            less = sampled(np.delete(records, x, axis=0), [*coins[:x], *coins[x + 1 :]])
            assert less == [row for row in whole if row != x + 1]
            changed = records.copy()
            changed[x] = -7.0
            assert sampled(changed, coins) == [-7.0 if row == x + 1 else row for row in whole]
    assert {probability for _, probability in given_coins["asked"]} == {0.5}


def test_only_the_sample_is_paired_and_every_record_is_counted(given_coins):
    """Records without a head are far away: no distance is theirs, their bin is there."""
    records = np.concatenate([np.linspace(0.0, 1.0, 400), np.full(100, FAR)])[:, None]
    given_coins["coins"] = [True] * 400 + [False] * 100
    found, _ = noisy_box(records, paired=0.25, rng=np.random.default_rng(1), **SETTINGS)
    assert given_coins["asked"] == [(500, 0.25)]
    assert found.scale_counts[0, box.EXPONENTS == 19] < 6 * found.scale_noise
    assert found.scale_counts.sum() < 200 + 6 * found.scale_noise * math.sqrt(box.EXPONENTS.size)
    assert found.columns[0].interval[1] > FAR / 2


# ------------------------------------------------------------------ location bins
WIDTHS = [1.0, 0.25, math.nan, 2.0**40]
VALUES = [0.0, -0.0, 0.1, 0.3, 1.0, -2.5, 7.7, 1e9, -1e300, 1e308, 5e-324, math.nan, math.inf, -math.inf]


def counts_of(records):
    """What the bins of every column hold, at fixed widths."""
    return [dict(zip(bins.tolist(), counts.tolist(), strict=True)) for bins, counts in box._bins(records, WIDTHS)]


@pytest.mark.parametrize("neighbouring, most", [(REPLACE, 2), (ADD_REMOVE, 1)])
def test_one_record_moves_the_bins_of_a_column_by_as_much_as_is_paid(neighbouring, most):
    """Bins that only one of two neighbours has: at most one a column on each side, and of one record."""
    rng, seen = np.random.default_rng(1), set()
    for _ in range(400):
        records = rng.choice(VALUES, size=(int(rng.integers(2, 12)), len(WIDTHS)))
        other = np.delete(records, 0, axis=0)
        if neighbouring is REPLACE:
            other = np.concatenate([other, rng.choice(VALUES, size=(1, len(WIDTHS)))])  # in another place, too
        for one, two in zip(counts_of(records), counts_of(other), strict=True):
            change = {i: one.get(i, 0) - two.get(i, 0) for i in one | two}
            squared = sum(difference**2 for difference in change.values())
            assert squared <= most
            seen.add(squared)
            for mine, theirs in ((one, two), (two, one)):
                lone = [count for i, count in mine.items() if i not in theirs]
                assert lone in ([], [1])
        assert not counts_of(records)[2]  # no width, no bin
    assert seen == set(range(most + 1))
