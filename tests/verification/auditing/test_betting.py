"""The capital of the bettors: its exact expectation against the best predictions there are, by dynamic programming.

Nothing here is random but the choice of examples (fixed seeds), so no check can raise a false alarm.
"""

from __future__ import annotations

import itertools
import json
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special

from verification.auditing.betting import (
    CUTS,
    LARGEST,
    LEVELS,
    SCAN,
    SIDES,
    STEP,
    WEIGHTS,
    BetCounts,
    delta_bound,
    epsilon_bound,
    level_of,
    log_e_value,
)

ROUNDING = 1e-12  # sums of a few thousand products
PREDICTIONS = (-LARGEST, -1.0, 0.25, 2.0, LARGEST)  # about one per kind: all cuts, few, none; followed and not


def counts(*runs, learners=("one",)):
    """The counts of (prediction, coin) pairs, the same for every learner."""
    table = np.zeros((len(learners), 2, LEVELS.size), dtype=np.int64)
    for prediction, coin in runs:
        table[:, coin, level_of(np.array(prediction))] += 1
    return BetCounts(learners, table)


def many(table):
    """Counts from {prediction: (runs with coin 0, runs with coin 1)}."""
    found = counts()
    for prediction, (zeros, ones) in table.items():
        found.runs[0, :, level_of(np.array(prediction))] += np.array([zeros, ones], dtype=np.int64)
    return found


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum())


def largest_loss(p, q):
    return float(np.max(np.abs(np.log(p) - np.log(q))))


def extremal(epsilon, delta):
    """The pair that gives a coin away with probability delta and is randomised response otherwise."""
    s = float(special.expit(epsilon))
    p = (delta, (1 - delta) * s, (1 - delta) * (1 - s), 0.0)
    return p, p[::-1]


def random_pairs(number, seed, *, pure):
    """Pairs of laws on two or three outputs with the smallest claim that holds for them."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        p, q = rng.dirichlet(np.full(rng.integers(2, 4), rng.choice([0.5, 1.0, 3.0])), size=2)
        if pure:
            yield (p, q), largest_loss(p, q), 0.0
        else:
            epsilon = float(rng.choice([0.0, 0.5, 2.0]))
            yield (p, q), epsilon, max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


@lru_cache(None)
def e_value(runs, epsilon, delta):
    return math.exp(log_e_value(counts(*runs), epsilon=epsilon, delta=delta))


def best(pair, batches, epsilon, delta):
    """Largest expectation over all predictions that see their batch's outputs and all that came before the batch."""
    outputs = [y for y in range(len(pair[0])) if pair[0][y] + pair[1][y] > 0]
    law = {(y, coin): float(pair[1 - coin][y]) / 2 for y in outputs for coin in (0, 1)}

    @lru_cache(None)
    def reach(runs, batches):
        if not batches:
            return e_value(runs, epsilon, delta)
        size, total = batches[0], 0.0
        for seen in itertools.product(outputs, repeat=size):
            coins = [
                (c, math.prod(law[pair] for pair in zip(seen, c, strict=True)))
                for c in itertools.product((0, 1), repeat=size)
            ]
            total += max(
                sum(
                    mass * reach(tuple(sorted((*runs, *zip(predicted, c, strict=True)))), batches[1:])
                    for c, mass in coins
                    if mass > 0
                )
                for predicted in itertools.product(PREDICTIONS, repeat=size)
            )
        return total

    return reach((), batches)


@pytest.mark.thorough(quick=["False-batches0"])
@pytest.mark.parametrize("batches", [(1,), (1, 1, 1, 1), (2, 1), (3,)])
@pytest.mark.parametrize("pure", [True, False])
def test_no_predictions_make_the_expected_capital_larger_than_one(batches, pure):
    for pair, epsilon, delta in random_pairs(6, seed=1, pure=pure):
        assert best(pair, batches, epsilon, delta) <= 1 + ROUNDING


@pytest.mark.parametrize("epsilon, delta", [(0.0, 0.0), (1.0, 0.0), (0.0, 0.3), (1.0, 0.1), (3.0, 0.01)])
@pytest.mark.parametrize("batches", [(1, 1, 1), (2,)])
def test_expected_capital_one_is_attained(epsilon, delta, batches):
    """So a slightly stronger claim about the pair, or a slightly larger factor of any bettor, fails."""
    pair = extremal(epsilon, delta)
    assert best(pair, batches, epsilon, delta) == pytest.approx(1, abs=ROUNDING)
    assert best(pair, batches, 0.9 * epsilon + (epsilon == 0) * 0.1, 0.9 * delta) > 1 or epsilon == 0
    if delta > 0:
        assert best(pair, batches, epsilon, 0.9 * delta) > 1


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_expected_capital_grows_from_run_to_run_when_the_claim_is_false(delta):
    pair = extremal(2.0, delta)
    expected = [best(pair, (1,) * n, 1.0, delta) for n in range(1, 5)]
    assert np.all(np.diff(np.log([1.0, *expected])) > 0.01)
    assert np.all(np.diff(np.log(expected), 2) > -ROUNDING)  # faster and faster, as the right bettors take over


@pytest.mark.parametrize("true, claim", [(0.3, 0.0), (1.0, 0.5), (2.0, 1.0), (5.0, 1.0), (4.0, 3.0)])
def test_capital_grows_nearly_as_fast_as_any_could(true, claim):
    """Randomised response: the growth of no capital exceeds the divergence of the coins from those of the claim."""
    n, bound = 10**6, special.expit(claim)
    right = round(n * special.expit(true) / 2)
    wrong = n // 2 - right
    divergence = special.rel_entr(2 * right / n, bound) + special.rel_entr(2 * wrong / n, 1 - bound)
    for predicted in (true, 6.0):  # who follows the prediction needs its size, who bets on a tail does not
        growth = log_e_value(many({predicted: (wrong, right), -predicted: (right, wrong)}), epsilon=claim, delta=0) / n
        assert 0.8 * divergence <= growth <= divergence  # the bettors believe in five excesses only


def test_one_sided_leaks_are_bet_on_by_their_side():
    """Delta-like leaks on one data set only: bets on both sides lose on the other one what they win on this."""
    found = many({6.0: (0, 50), -6.0: (500, 450), 0.0: (4_500, 4_500)})
    mirrored = many({-6.0: (50, 0), 6.0: (450, 500), 0.0: (4_500, 4_500)})
    with_ones_only = many({6.0: (0, 50), 0.0: (5_000, 4_950)})
    for delta in (0.0, 1e-3):
        values = [log_e_value(c, epsilon=1.0, delta=delta) for c in (found, mirrored, with_ones_only)]
        assert values[0] == pytest.approx(values[1], rel=1e-12)  # nothing prefers a label
        assert values[0] > 5 and values[2] > values[0] - math.log(SIDES.size)


def test_capital_is_the_weighted_mean_of_the_learners():
    first, second = counts((3.0, 1), (3.0, 1), (-1.0, 0)), counts((3.0, 0), (2.0, 1), (0.5, 1))
    both = BetCounts(("monotone trees", "ridge"), np.concatenate([first.runs, second.runs]))
    for epsilon, delta in ((0.5, 0.0), (0.5, 0.05)):
        one, two = (math.exp(log_e_value(both.only(i), epsilon=epsilon, delta=delta)) for i in (0, 1))
        mean = (WEIGHTS["monotone trees"] * one + two) / (WEIGHTS["monotone trees"] + 1)
        assert one != pytest.approx(two, rel=0.01)
        assert math.exp(log_e_value(both, epsilon=epsilon, delta=delta)) == pytest.approx(mean, rel=1e-12)


def test_runs_without_a_guess_change_nothing_when_delta_is_zero_and_cost_a_little_when_not():
    some = [(3.0, 1)] * 5 + [(-3.0, 0)] * 5
    more = [*some, (0.0, 1), (0.0, 0), (CUTS[0] - STEP, 1)]
    assert log_e_value(counts(*more), epsilon=1.0, delta=0.0) == log_e_value(counts(*some), epsilon=1.0, delta=0.0)
    assert log_e_value(counts(*more), epsilon=1.0, delta=0.1) < log_e_value(counts(*some), epsilon=1.0, delta=0.1)
    assert log_e_value(counts(), epsilon=1.0, delta=0.0) == pytest.approx(0, abs=ROUNDING)
    assert log_e_value(counts(), epsilon=1.0, delta=0.1) == pytest.approx(0, abs=ROUNDING)


def test_predictions_are_rounded_to_the_nearest_level_and_cut_at_the_last():
    assert np.all(-LEVELS[::-1] == LEVELS) and np.all(np.isin(CUTS, LEVELS))  # else a cut would lie between two levels
    assert np.array_equal(level_of(LEVELS), np.arange(LEVELS.size))
    given_ = np.array([-math.inf, -11.0, -0.07, -0.0, 0.06, 0.07, 1.3, 1e300, math.inf])
    assert np.array_equal(
        LEVELS[level_of(given_)], [-LARGEST, -LARGEST, -0.125, 0.0, 0.0, 0.125, 1.25, LARGEST, LARGEST]
    )


def test_counts_survive_json():
    found = counts((3.0, 1), (-1.0, 0), (-1.0, 0), learners=("a", "b"))
    copied = json.loads(json.dumps(found.as_dict()))
    assert list(copied) == ["a", "b"] and copied["a"]["levels"] == LEVELS.tolist()
    again = np.array([[table["label_0"], table["label_1"]] for table in copied.values()])
    assert np.array_equal(again, found.runs) and again.sum() == 6


# ------------------------------------------------------------------ bounds
def evidence(number, seed):
    """Counts of about a hundred runs whose predictions are right more often than not."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        predicted = rng.choice([-6.0, -2.0, -0.5, 0.0, 0.5, 2.0, 6.0], size=int(rng.integers(1, 300)))
        coins = rng.random(predicted.size) < special.expit(predicted * rng.choice([0.3, 1.0, 3.0]))
        yield counts(*zip(predicted, coins.astype(int), strict=True)), float(rng.choice([0.01, 0.05, 0.3, 0.6]))


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
def test_epsilon_bound_is_just_above_the_last_of_the_refuted_points(delta):
    positive = 0
    for found, error in evidence(15, seed=2):
        claim = 0.5 + SCAN / 3  # off the grid, so that it is a point of its own
        bound = epsilon_bound(found, claim=claim, delta=delta, error=error)
        points = sorted([*(i * SCAN for i in range(round(20 / SCAN))), claim])
        refuted = itertools.takewhile(
            lambda p, found=found, error=error: log_e_value(found, epsilon=p, delta=delta) >= -math.log(error), points
        )
        last = max(refuted, default=None)
        assert bound == (0.0 if last is None else math.nextafter(last, math.inf))
        assert bound >= epsilon_bound(found, claim=claim, delta=delta / 2 + 0.5, error=error)
        positive += bound > claim
    assert positive > 5  # far enough to pass the claim's own point


def test_a_claim_between_two_points_is_refuted_if_its_own_e_value_suffices():
    found = many({6.0: (20, 80), -6.0: (80, 20)})
    without = epsilon_bound(found, claim=0.0, delta=0.0, error=0.05)
    claim = without + SCAN / 2
    while log_e_value(found, epsilon=claim, delta=0.0) < -math.log(0.05):
        claim = (without + claim) / 2
    assert without < claim < without + SCAN
    assert epsilon_bound(found, claim=claim, delta=0.0, error=0.05) == math.nextafter(claim, math.inf)


def test_delta_bound_is_where_the_capital_is_one_over_the_error():
    inside = 0
    for found, error in evidence(40, seed=3):
        bound = delta_bound(found, epsilon=0.3, error=error)
        assert 0 <= bound < 1
        if bound > 0:
            inside += 1
            for share in (1e-9, 0.5, 1.0):
                assert log_e_value(found, epsilon=0.3, delta=share * bound) >= -math.log(error)
        resolution = 1e-6  # of the bisection
        assert log_e_value(found, epsilon=0.3, delta=bound + resolution) < -math.log(error)
    assert inside > 5


@st.composite
def any_evidence(draw):
    run = st.tuples(st.sampled_from([-9.0, -3.0, -0.5, 0.0, 0.375, 2.0, 7.0]), st.integers(0, 1), st.integers(1, 80))
    found = counts()
    for prediction, coin, number in draw(st.lists(run, min_size=1, max_size=6)):
        found.runs[0, coin, level_of(np.array(prediction))] += number
    return found


@given(any_evidence(), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([1e-6, 0.05, 0.5]))
def test_bounds_follow_the_evidence(found, epsilon, error):
    deltas = [1e-9, 1e-3, 0.1, 0.5, 0.99]
    logs = [log_e_value(found, epsilon=epsilon, delta=delta) for delta in deltas]
    assert np.all(np.diff(logs) <= 0)  # a larger delta excuses more
    bound = delta_bound(found, epsilon=epsilon, error=error)
    assert all((log >= -math.log(error)) == (delta <= bound) for delta, log in zip(deltas[1:], logs[1:], strict=True))
    assert bound <= delta_bound(found, epsilon=epsilon, error=min(0.99, 1.5 * error))
    mirrored = BetCounts(found.learners, found.runs[:, ::-1, ::-1])
    assert log_e_value(mirrored, epsilon=epsilon, delta=0.0) == pytest.approx(
        log_e_value(found, epsilon=epsilon, delta=0.0), rel=1e-9, abs=1e-9
    )


# ------------------------------------------------------------------ extremes
@pytest.mark.parametrize("delta", [0.0, 5e-324, 1e-12, 0.5, math.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 30.0, 700.0, 1e4, 1e300])
def test_extreme_claims_and_counts_are_finite(epsilon, delta):
    for number in (1, 10**6, 10**12):
        for table in ({LARGEST: (0, number)}, {LARGEST: (number, 0)}, {0.0: (number, number), -2.0: (number, number)}):
            value = log_e_value(many(table), epsilon=epsilon, delta=delta)
            assert math.isfinite(value)
            if epsilon >= 30 and delta == 0:  # no prediction is larger than 10, so nobody can have won much
                assert value <= number * 1e-12
    assert log_e_value(counts(), epsilon=epsilon, delta=delta) == pytest.approx(0, abs=ROUNDING)


def test_a_hopeless_epsilon_is_never_refuted_and_perfect_separation_almost_reaches_the_last_prediction():
    perfect = many({LARGEST: (0, 10**8), -LARGEST: (10**8, 0)})
    bound = epsilon_bound(perfect, claim=1.0, delta=0.0, error=0.05)
    assert 15 < bound <= 20 + SCAN  # the scan ends at 20
    assert log_e_value(perfect, epsilon=30.0, delta=0.0) < 0.1
    assert 0.999 < delta_bound(perfect, epsilon=1.0, error=0.05) < 1
    assert delta_bound(perfect, epsilon=700.0, error=0.05) == 0
    assert delta_bound(counts(), epsilon=0.0, error=0.5) == epsilon_bound(counts(), claim=0, delta=0.0, error=0.5) == 0


def test_the_bound_is_zero_when_zero_is_not_refuted():
    coins = many({6.0: (50, 50), -6.0: (50, 50)})
    assert epsilon_bound(coins, claim=3.0, delta=0.0, error=0.05) == 0
    assert delta_bound(coins, epsilon=0.0, error=0.05) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda c: log_e_value(c, epsilon=-1.0, delta=0.0),
        lambda c: log_e_value(c, epsilon=math.nan, delta=0.0),
        lambda c: log_e_value(c, epsilon=1.0, delta=1.0),
        lambda c: epsilon_bound(c, claim=-1.0, delta=0.0, error=0.05),
        lambda c: epsilon_bound(c, claim=1.0, delta=-0.1, error=0.05),
        lambda c: epsilon_bound(c, claim=1.0, delta=0.0, error=0.0),
        lambda c: delta_bound(c, epsilon=1.0, error=1.0),
        lambda c: delta_bound(c, epsilon=math.nan, error=0.05),
        lambda c: delta_bound(c, epsilon=-1.0, error=0.05),
    ],
)
def test_impossible_claims_are_named(call):
    with pytest.raises(ValueError, match="must"):
        call(counts((3.0, 1)))
