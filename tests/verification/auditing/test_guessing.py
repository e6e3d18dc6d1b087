"""The law that right guesses are compared with: against the best strategy there is, found by dynamic programming.

Nothing here is random but the choice of examples (fixed seeds), so no check can raise a false alarm.
"""

from __future__ import annotations

import itertools
import math
import time
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special, stats

from verification.auditing import guessing
from verification.auditing.guessing import GuessCounts, delta_bound, epsilon_bound, largest_right, p_value

ROUNDING = 1e-12  # sums of a few hundred products


def counts(correct, guesses, *, planned=None, rounds=None, tails=2, pad_seed=7):
    planned = guesses if planned is None else planned
    return GuessCounts(correct, guesses, planned, planned if rounds is None else rounds, tails, pad_seed)


def allowed(n, planned, c, *, epsilon, delta, tails):
    """Largest probability of ``c`` right guesses that the theorem allows."""
    return p_value(counts(c, planned, rounds=n, tails=tails), epsilon=epsilon, delta=delta)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum())


def extremal(epsilon, delta):
    """The pair that gives a coin away with probability delta and is randomised response otherwise."""
    s = special.expit(epsilon)
    p = (delta, (1 - delta) * s, (1 - delta) * (1 - s), 0.0)
    return p, p[::-1]


def random_pairs(number, seed):
    """Pairs of laws on two to four outputs with an epsilon and the smallest delta that holds for them."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        p, q = rng.dirichlet(np.full(rng.integers(2, 5), rng.choice([0.3, 1.0, 3.0])), size=2)
        epsilon = float(rng.choice([0.0, 0.1, 1.0, 2.0]))
        yield tuple(p), tuple(q), epsilon, max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def best(pair, labels, n, planned, epsilon):
    """Largest Pr[T >= c], c = 0..planned, over all strategies that see coins and outputs one by one."""
    s = float(special.expit(epsilon))

    @lru_cache(None)
    def reach(left, guesses, c):
        if c <= 0:
            return 1.0
        if left == 0:
            return float(stats.binom.sf(c - 1, guesses, s))  # pads
        total = 0.0
        for p, q in zip(*pair, strict=True):
            options = [(p + q) / 2 * reach(left - 1, guesses, c)]
            for label in labels if guesses else ():
                right, wrong = (p, q) if label else (q, p)
                options.append(
                    right / 2 * reach(left - 1, guesses - 1, c - 1) + wrong / 2 * reach(left - 1, guesses - 1, c)
                )
            total += max(options)
        return total

    return [reach(n, planned, c) for c in range(planned + 1)]


def best_seeing_all_outputs(pair, labels, n, planned, epsilon):
    """The same over strategies that see every output before the first guess."""
    s = float(special.expit(epsilon))
    joint = [((p + q) / 2, p / (p + q)) for p, q in zip(*pair, strict=True) if p + q > 0]
    total = np.zeros(planned + 1)
    for outputs in itertools.product(joint, repeat=n):
        reach = {(k, c): float(stats.binom.sf(c - 1, k, s)) for k in range(planned + 1) for c in range(-n, planned + 1)}
        for _, one in reversed(outputs):
            chances = [one if label else 1 - one for label in labels]
            reach = {
                (k, c): max(
                    [reach[k, c]]
                    + [r * reach[k - 1, c - 1] + (1 - r) * reach[k - 1, c] for r in chances if k and c > -n]
                )
                for k, c in reach
            }
        total += math.prod(mass for mass, _ in outputs) * np.array([reach[planned, c] for c in range(planned + 1)])
    return total


@pytest.mark.parametrize("labels", [(1,), (0,), (0, 1)])
def test_no_adaptive_strategy_beats_the_law(labels):
    for i, (p, q, epsilon, delta) in enumerate(random_pairs(60, seed=1)):
        n = 1 + i % 5
        for planned in range(n + 1):
            found = best((p, q), labels, n, planned, epsilon)
            law = [allowed(n, planned, c, epsilon=epsilon, delta=delta, tails=len(labels)) for c in range(planned + 1)]
            assert np.all(np.array(found) <= np.array(law) + ROUNDING)


@pytest.mark.parametrize("labels", [(1,), (0, 1)])
def test_no_strategy_that_sees_all_outputs_first_beats_the_law(labels):
    for p, q, epsilon, delta in random_pairs(12, seed=2):
        for planned in (1, 2, 3):
            found = best_seeing_all_outputs((p, q), labels, 3, planned, epsilon)
            law = [allowed(3, planned, c, epsilon=epsilon, delta=delta, tails=len(labels)) for c in range(planned + 1)]
            assert np.all(found <= np.array(law) + ROUNDING)
            # seeing more can only help, so the two searches check each other
            assert np.all(found >= np.array(best((p, q), labels, 3, planned, epsilon)) - ROUNDING)


@pytest.mark.parametrize("epsilon, delta", [(0.0, 0.3), (1.0, 0.1), (2.0, 0.01), (1.0, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("labels", [(1,), (0, 1)])
@pytest.mark.parametrize("n, planned", [(5, 5), (5, 3), (6, 1)])
def test_the_law_is_attained(epsilon, delta, labels, n, planned):
    pair = extremal(epsilon, delta)
    assert max(hockey_stick(*pair, epsilon), hockey_stick(*pair[::-1], epsilon)) == pytest.approx(delta, abs=1e-15)
    law = [allowed(n, planned, c, epsilon=epsilon, delta=delta, tails=len(labels)) for c in range(planned + 1)]
    assert best(pair, labels, n, planned, epsilon) == pytest.approx(law, abs=ROUNDING)


def test_the_number_of_guesses_must_not_follow_the_outputs_when_delta_is_positive():
    """Plan 4 guesses where 3 coins or more are given away and 11 otherwise, and guess those first: too many p-values
    below 0.2. Each plan alone keeps the level."""
    n, epsilon, delta = 12, 0.0, 0.1
    s, given_away = special.expit(epsilon), stats.binom.pmf(np.arange(n + 1), n, delta)

    def law(plan):
        """p-values of 0..plan right guesses, and their probabilities by the number of coins given away."""
        values = np.array([allowed(n, plan, c, epsilon=epsilon, delta=delta, tails=2) for c in range(plan + 1)])
        sure = np.minimum(np.arange(n + 1), plan)
        return values, stats.binom.pmf(np.arange(plan + 1) - sure[:, None], plan - sure[:, None], s)

    few, many = law(4), law(11)
    level = many[0][many[0] < 0.2].max()
    chances = [masses[:, values <= level + ROUNDING].sum(axis=1) for values, masses in (few, many)]
    for chance in chances:
        assert given_away @ chance <= level + ROUNDING
    assert given_away @ np.where(np.arange(n + 1) >= 3, *chances) > 1.1 * level


def test_p_value_is_the_sum_it_says():
    rng = np.random.default_rng(3)
    for _ in range(200):
        n = int(rng.integers(1, 12))
        planned, tails = int(rng.integers(0, n + 1)), int(rng.integers(0, 3))
        c, epsilon, delta = int(rng.integers(0, planned + 1)), float(rng.exponential()), float(rng.random())
        marks = stats.binom.pmf(np.arange(n + 1), n, delta * tails / 2)
        s = 1 / (1 + math.exp(-epsilon))
        exact = sum(mass * stats.binom.sf(c - u - 1, max(planned - u, 0), s) for u, mass in enumerate(marks))
        assert allowed(n, planned, c, epsilon=epsilon, delta=delta, tails=tails) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("delta, tails", [(0.0, 2), (0.05, 1), (0.3, 2)])
@pytest.mark.parametrize("guesses, planned", [(4, 4), (2, 5), (0, 3)])
def test_p_values_are_small_as_rarely_as_they_say(monkeypatch, delta, tails, guesses, planned):
    """Exact sum over coins and pads of the strategy that guesses the first ``guesses`` runs of the extremal pair."""
    epsilon, rounds = 0.7, 6
    s = special.expit(epsilon)
    share = delta * tails / 2
    right = share + (1 - share) * s
    pads = planned - guesses
    found = []
    for correct, padded in itertools.product(range(guesses + 1), range(pads + 1)):
        uniforms = np.repeat([0.0, 1.0], [padded, pads - padded])
        monkeypatch.setattr(guessing, "_pads", lambda counts, uniforms=uniforms: uniforms)
        value = p_value(
            counts(correct, guesses, planned=planned, rounds=rounds, tails=tails), epsilon=epsilon, delta=delta
        )
        found.append((value, stats.binom.pmf(correct, guesses, right) * stats.binom.pmf(padded, pads, s)))
    values, masses = np.array(found).T
    assert masses.sum() == pytest.approx(1)
    sizes = np.array([masses[values <= b].sum() for b in values])
    assert np.all(sizes <= values + ROUNDING)
    if delta == 0:
        assert np.allclose(sizes, values, atol=ROUNDING)  # pads and guesses are alike: the law is exact


def test_pads_are_right_as_often_as_they_say():
    # Mean of 4 million uniforms' indicators: five standard errors are 1.2e-3 (two-sided false alarm 6e-7).
    for epsilon in (0.0, 1.0, 3.0):
        pads = guessing._pads(counts(0, 0, planned=4_000_000))
        s = special.expit(epsilon)
        assert np.mean(pads < s) == pytest.approx(s, abs=5 * math.sqrt(s * (1 - s) / 4e6))
    assert np.array_equal(pads, np.sort(pads))
    assert not np.array_equal(
        guessing._pads(counts(0, 0, planned=9, pad_seed=1)), guessing._pads(counts(0, 0, planned=9))
    )


# ------------------------------------------------------------------ bounds
def small_counts(number, seed):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        rounds = int(rng.integers(1, 40))
        planned = int(rng.integers(0, rounds + 1))
        guesses = int(rng.integers(0, planned + 1))
        correct = int(rng.binomial(guesses, rng.random() ** 0.3))
        yield (
            GuessCounts(correct, guesses, planned, rounds, int(rng.integers(0, 3)), int(rng.integers(2**32))),
            float(rng.choice([0.0, 1e-3, 0.05, 0.3])),
            float(rng.choice([0.01, 0.05, 0.3, 0.6])),
        )


def test_epsilon_bound_is_where_a_scan_of_p_values_first_rises_above_the_error():
    positive = 0
    for found, delta, error in small_counts(300, seed=5):
        bound = epsilon_bound(found, delta=delta, error=error)
        below = np.linspace(0, bound, 60, endpoint=False) if bound > 0 else []
        assert all(p_value(found, epsilon=float(epsilon), delta=delta) <= error for epsilon in below)
        assert p_value(found, epsilon=bound + 1e-9, delta=delta) > error - 1e-7
        positive += bound > 0 and found.planned > found.guesses
    assert positive > 30  # pads are exercised


@pytest.mark.thorough
def test_the_bound_stops_at_the_first_interval_between_pads():
    """A p-value that rises above the error between two pads, and falls below it again at the second."""
    below_and_above = 0
    for found, delta, error in small_counts(2_000, seed=6):
        bound = epsilon_bound(found, delta=delta, error=error)
        after = [p_value(found, epsilon=bound + step, delta=delta) for step in (0.05, 0.1, 0.3, 1.0)]
        below_and_above += min(after) <= error
    assert below_and_above > 10  # so a plain root search would find too large a bound somewhere


def test_delta_bound_is_where_the_p_value_is_the_error():
    inside = 0
    for found, _, error in small_counts(300, seed=8):
        bound = delta_bound(found, epsilon=0.7, error=error)
        assert 0 <= bound <= 1
        if 0 < bound < 1:
            inside += 1
            assert p_value(found, epsilon=0.7, delta=bound) == pytest.approx(error, rel=1e-6)
            assert p_value(found, epsilon=0.7, delta=bound / 2) < error
        elif bound == 0:
            assert found.tails == 0 or p_value(found, epsilon=0.7, delta=0.0) > error
    assert inside > 20


@pytest.mark.parametrize("correct, guesses", [(0, 1), (1, 1), (30, 40), (40, 40), (700, 1_000), (999_000, 1_000_000)])
@pytest.mark.parametrize("error", [1e-9, 0.01, 0.3])
def test_pure_bound_is_that_of_clopper_and_pearson(correct, guesses, error):
    share = stats.binomtest(correct, guesses, alternative="greater").proportion_ci(1 - error).low
    expected = max(0.0, float(special.logit(share)))
    assert epsilon_bound(counts(correct, guesses), delta=0.0, error=error) == pytest.approx(
        expected, rel=1e-6, abs=1e-9
    )


@st.composite
def any_counts(draw):
    rounds = draw(st.integers(1, 2_000))
    planned = draw(st.integers(1, rounds))
    guesses = draw(st.integers(1, planned))
    correct = draw(st.integers(0, guesses - 1))
    return GuessCounts(correct, guesses, planned, rounds, draw(st.integers(0, 2)), draw(st.integers(0, 2**32)))


@given(any_counts(), st.sampled_from([0.0, 1e-9, 1e-3, 0.2, 0.9]), st.sampled_from([1e-6, 0.05, 0.5]))
def test_bounds_follow_the_evidence(found, delta, error):
    one_more = GuessCounts(**(found.as_dict() | {"correct": found.correct + 1}))
    bound = epsilon_bound(found, delta=delta, error=error)
    rounding = 1e-9
    assert bound <= epsilon_bound(one_more, delta=delta, error=error) + rounding
    assert bound <= epsilon_bound(found, delta=delta, error=min(0.99, 1.5 * error)) + rounding
    assert bound >= epsilon_bound(found, delta=min(0.99, 2 * delta), error=error) - rounding
    assert delta_bound(found, epsilon=0.5, error=error) <= delta_bound(one_more, epsilon=0.5, error=error) + rounding
    value = p_value(found, epsilon=0.5, delta=delta)
    assert 0 <= p_value(one_more, epsilon=0.5, delta=delta) <= value + rounding <= 1 + 2 * rounding
    assert bound <= 0.5 or value <= error + rounding


@pytest.mark.parametrize("share", [0.0, 0.01, 0.4])
def test_largest_right_is_the_last_number_that_does_not_refute(share):
    for planned in (0, 1, 7, 30):
        found = largest_right(planned, 30, share, 1.0, 0.05)
        values = [allowed(30, planned, c, epsilon=1.0, delta=share, tails=2) for c in range(planned + 1)]
        assert found == max(c for c, value in enumerate(values) if value > 0.05)


# ------------------------------------------------------------------ extremes
def test_no_guesses_prove_nothing():
    for planned in (0, 5):
        for delta in (0.0, 0.1):
            found = counts(0, 0, planned=planned, rounds=10, tails=2 * (planned > 0))
            assert p_value(counts(0, 0, rounds=10, tails=0), epsilon=0.0, delta=delta) == 1
            assert epsilon_bound(found, delta=delta, error=0.01) < 1  # pads may be lucky
    assert epsilon_bound(counts(0, 0, rounds=10, tails=0), delta=0.0, error=0.5) == 0
    assert delta_bound(counts(0, 0, rounds=10, tails=0), epsilon=0.0, error=0.5) == 0


def test_flawless_guesses_give_the_limit_of_perfect_separation():
    n, error = 10_000, 0.05
    root = error ** (1 / n)
    assert epsilon_bound(counts(n, n), delta=0.0, error=error) == pytest.approx(special.logit(root), rel=1e-9)
    assert delta_bound(counts(n, n), epsilon=0.0, error=error) == pytest.approx(2 * root - 1, rel=1e-9)


def test_one_tail_allows_half_the_marks():
    both = [delta_bound(counts(400, 400, rounds=10_000, tails=tails), epsilon=1.0, error=0.05) for tails in (1, 2)]
    assert both[0] == pytest.approx(2 * both[1], rel=1e-9)


def test_extreme_claims():
    found = counts(9, 10, rounds=20)
    for epsilon in (64.0, 1e4, 1e300):
        assert p_value(found, epsilon=epsilon, delta=0.0) == 1
        assert delta_bound(found, epsilon=epsilon, error=0.05) == 0
    assert p_value(found, epsilon=0.0, delta=0.0) == pytest.approx(11 / 1024)
    assert p_value(found, epsilon=0.0, delta=math.nextafter(1.0, 0.0)) == pytest.approx(1)
    assert p_value(found, epsilon=0.0, delta=5e-324) == pytest.approx(11 / 1024)


@pytest.mark.parametrize("correct, guesses", [(0, 0), (10, 10), (400_000, 500_000), (1_000_000, 1_000_000)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.3])
def test_a_million_runs_are_finite_and_fast(correct, guesses, delta):
    found = counts(correct, guesses, planned=1_000_000)
    start = time.process_time()
    epsilon = epsilon_bound(found, delta=delta, error=0.05)
    values = [epsilon, delta_bound(found, epsilon=0.5, error=0.05), p_value(found, epsilon=epsilon, delta=delta)]
    assert time.process_time() - start < 3  # about 0.3 s
    assert np.isfinite(values).all() and values[2] <= 1
    if epsilon > 0:
        assert values[2] == pytest.approx(0.05, rel=1e-4)


# ------------------------------------------------------------------ arguments
@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"correct": 4}, ValueError, "correct <= guesses"),
        ({"guesses": 6}, ValueError, "guesses <= planned"),
        ({"planned": 9}, ValueError, "planned <= rounds"),
        ({"tails": 3}, ValueError, "tails <= 2"),
        ({"correct": -1}, ValueError, "correct must be at least 0"),
        ({"tails": -1}, ValueError, "tails must be at least 0"),
        ({"pad_seed": -1}, ValueError, "pad_seed must be at least 0"),
        ({"rounds": 8.0}, TypeError, "rounds must be an integer"),
        ({"correct": True}, TypeError, "correct must be an integer"),
        ({"guesses": "3"}, TypeError, "guesses must be an integer"),
    ],
)
def test_impossible_counts_are_named(change, error, message):
    possible = {"correct": 2, "guesses": 3, "planned": 5, "rounds": 8, "tails": 2, "pad_seed": 1}
    assert GuessCounts(**possible).as_dict() == possible
    with pytest.raises(error, match=message):
        GuessCounts(**(possible | change))


@pytest.mark.parametrize(
    "call",
    [
        lambda c: p_value(c, epsilon=-1.0, delta=0.0),
        lambda c: p_value(c, epsilon=1.0, delta=1.0),
        lambda c: epsilon_bound(c, delta=-0.1, error=0.05),
        lambda c: epsilon_bound(c, delta=0.0, error=0.0),
        lambda c: delta_bound(c, epsilon=math.nan, error=0.05),
        lambda c: delta_bound(c, epsilon=1.0, error=1.0),
    ],
)
def test_impossible_claims_are_named(call):
    with pytest.raises(ValueError, match="must"):
        call(counts(3, 5))


@pytest.mark.parametrize("delta", [5e-324, 1.36e-307, 1e-291])
def test_a_delta_that_is_hardly_a_number_counts_as_none(delta):
    counts = GuessCounts(correct=21, guesses=22, planned=22, rounds=450, tails=1, pad_seed=0)
    assert p_value(counts, epsilon=1.0, delta=delta) == p_value(counts, epsilon=1.0, delta=0.0)
    assert 0 < epsilon_bound(counts, delta=delta, error=0.05) <= epsilon_bound(counts, delta=0.0, error=0.05)
