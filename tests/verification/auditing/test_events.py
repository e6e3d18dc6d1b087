"""Which outputs are guessed: the best thresholds, chosen from their own runs only, and the power that is promised.

Nothing here is random but the choice of examples (fixed seeds), so no check can raise a false alarm.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import special, stats

from verification.auditing import events, guess_choice
from verification.auditing.detection_limit import POWER, _noise_multiplier, detection_limit
from verification.auditing.events import FIRST_RANK, Guesses, choose_guesses, epsilon_to_expect
from verification.auditing.guess_choice import Scored, by_exact_score, by_learned_score, quantile, stages
from verification.auditing.guessing import GuessCounts, epsilon_bound, p_value

Z = quantile(0.05)


def scored_runs(n, seed, strength=1.0, ties=None):
    """Gaussian scores, rounded to multiples of ``ties``, and coins."""
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n).astype(bool)
    score = strength * label + rng.normal(size=n)
    return (score if ties is None else np.round(score / ties) * ties), label


# ------------------------------------------------------------------ thresholds
@pytest.mark.parametrize("ties", [None, 0.5])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_choice_is_the_best_of_all_pairs_of_thresholds(ties, delta):
    """With 40 runs every rank from the smallest event on is a candidate."""
    for seed in range(8):
        score, _ = scored_runs(40, seed, ties=ties)
        shares = special.expit(2 * score - 1)  # exact probabilities, so that no caution enters
        chosen = choose_guesses(score, shares, delta=delta, rounds=400, z=Z, exact=True)
        best = 0.0
        for upper in (None, *np.unique(score)):
            for lower in (None, *np.unique(score)):
                ones, zeros = Guesses(upper, lower, 0, 0, 0).where(score)
                sizes = [part.sum() for part in (ones, zeros) if part.any()]
                if (ones & zeros).any() or not sizes or min(sizes) < FIRST_RANK:
                    continue
                right = shares[ones].sum() + (1 - shares[zeros]).sum()
                number = sum(sizes)
                marked = 400 * delta * len(sizes) / 2
                best = max(best, float(epsilon_to_expect(10.0 * number, right / number, marked, Z)))
        assert chosen.value == pytest.approx(best, rel=1e-9) and best > 0


@pytest.mark.parametrize("settings", [{"delta": 0.0}, {"delta": 0.05}, {"delta": 0.0, "at_epsilon": 0.5}])
@pytest.mark.parametrize("ties", [None, 0.25, 3.0])
def test_what_is_said_about_a_choice_is_true_of_its_runs(settings, ties):
    guessing = 0
    for seed in range(20):
        score, label = scored_runs(500, seed, ties=ties, strength=seed / 8)
        chosen = choose_guesses(score, label, rounds=2_000, z=Z, **settings)
        ones, zeros = chosen.where(score)
        assert not (ones & zeros).any()
        assert chosen.right == (ones & label).sum() + (zeros & ~label).sum()
        assert chosen.wrong == (ones & ~label).sum() + (zeros & label).sum()
        assert chosen.sides == (ones.any(), zeros.any())
        assert (str(chosen) == "never guess") == (not any(chosen.sides))
        assert all(part.sum() >= FIRST_RANK for part in (ones, zeros) if part.any())
        assert any(chosen.sides) or chosen.value == 0
        guessing += chosen.value > 0
    assert guessing >= 10


def test_scores_that_say_nothing_promise_nothing():
    label = np.arange(1_000) % 2 == 0
    for score in (np.zeros(1_000), np.repeat(np.arange(500.0), 2)):
        assert choose_guesses(score, label, delta=0.0, rounds=1_000, z=Z).value == 0


def test_leaks_on_one_data_set_are_guessed_on_that_side():
    score, label = np.zeros(1_000), np.arange(1_000) % 2 == 0
    score[label.nonzero()[0][:50]] = 1.0
    chosen = choose_guesses(score, label, delta=0.01, rounds=10_000, z=Z)
    assert (chosen.upper, chosen.lower, chosen.right, chosen.wrong) == (1.0, None, 50, 0)
    mirrored = choose_guesses(-score, ~label, delta=0.01, rounds=10_000, z=Z)
    assert (mirrored.upper, mirrored.lower, mirrored.value) == (None, -1.0, chosen.value)


@pytest.mark.parametrize("delta, tails", [(0.0, 2), (0.01, 2), (0.01, 1)])
@pytest.mark.parametrize("share", [0.6, 0.75, 0.95])
def test_the_bound_to_be_expected_is_nearly_the_bound(delta, tails, share):
    n = 100_000  # the normal approximation is then good to about one per cent of a standard deviation
    for guesses in (30_000, 100_000):
        expected = float(epsilon_to_expect(float(guesses), share, n * delta * tails / 2, Z))
        counts = GuessCounts(round(share * guesses), guesses, guesses, n, tails, 1)
        spread = 1 / math.sqrt(guesses * share * (1 - share))
        assert expected == pytest.approx(epsilon_bound(counts, delta=delta, error=0.05), abs=0.1 * spread)


# ------------------------------------------------------------------ stages and parts
@pytest.mark.parametrize("n", [100, 150, 999, 5_000, 10_000, 200_000])
def test_stages_ascend_to_the_largest_share(n):
    sizes = stages(n)
    assert sizes == sorted(set(sizes)) and sizes[-1] == round(guess_choice.STAGES[-1] * n) < n
    assert all(size >= min(guess_choice.FIRST_RUNS, sizes[-1]) for size in sizes)
    assert set(sizes) <= {round(share * n) for share in guess_choice.STAGES} | {guess_choice.FIRST_RUNS}


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_a_learned_choice_depends_on_no_run_that_is_guessed(delta):
    score, label = scored_runs(3_000, 1)

    def choose(rows, label):
        return by_learned_score(rows, label, delta=delta, false_alarm=0.05, rng=np.random.default_rng(1))

    found = choose(score[:, None], label)
    assert found.start in stages(3_000) and any(found.guesses.sides)
    other_label, other_rows = label.copy(), score[:, None].copy()
    other_label[found.start :] ^= True
    flipped = choose(other_rows, other_label)
    assert flipped.guesses == found.guesses and np.array_equal(flipped.score, found.score)
    other_rows[found.start + 1 :] = 7.0
    replaced = choose(other_rows, other_label)
    assert replaced.guesses == found.guesses and replaced.score[0] == found.score[0]
    other_label[: found.start] ^= True  # runs that are learned from do change it
    assert choose(score[:, None], other_label).guesses != found.guesses


def test_no_run_is_scored_by_what_was_learned_from_it(monkeypatch):
    """A learner that knows its lessons by heart says nothing about runs that it was not taught."""

    class ByHeart(dict):
        unlooked = ()

    def learn(rows, label, *, rng, n_bits=0):
        return ByHeart({row.tobytes(): coin for row, coin in zip(rows, label, strict=True)})

    def evaluate(model, rows, names=None):
        known = [model.get(row.tobytes()) for row in rows]
        return {"by heart": np.array([0.0 if coin is None else 2.0 * coin - 1.0 for coin in known])}

    monkeypatch.setattr(guess_choice.scores, "learn", learn)
    monkeypatch.setattr(guess_choice.scores, "evaluate", evaluate)
    rows, (_, label) = np.random.default_rng(1).random((2_000, 1)), scored_runs(2_000, 1)
    settings = {"delta": 0.0, "false_alarm": 0.05, "rng": np.random.default_rng(1)}
    found = by_learned_score(rows, label, **settings)
    assert not found.score.any() and not found.chosen_on.any() and found.guesses.value == 0
    repeated = by_learned_score(label[:, None] + 0.0, label, **settings)  # so it could have said something
    assert repeated.score.any() and repeated.guesses.right == repeated.start


def test_an_exact_choice_sees_no_coin_and_no_run_that_is_guessed():
    ratio = np.random.default_rng(2).normal(size=20_000)
    found = by_exact_score(ratio, delta=0.0, false_alarm=0.05)
    assert found.exact and found.start == 1_000 and np.array_equal(found.score, ratio[1_000:])
    other = ratio.copy()
    other[1_000:] = 0.0
    assert by_exact_score(other, delta=0.0, false_alarm=0.05).guesses == found.guesses


@pytest.mark.parametrize("fixed_number", [False, True])
def test_guesses_are_counted_as_they_fall_and_stop_at_the_plan(fixed_number):
    chosen_on = np.repeat([1.0, -1.0, 0.0], [10, 10, 80])
    guesses = Guesses(1.0, -1.0, 18.0, 2.0, 1.0)
    score = np.array([2.0, 0.0, -3.0, 1.0, -1.0, 0.5, 1.0, 1.0] * 10)
    label = np.array([True, True, False, False, False, True, True, False] * 10)
    found = Scored("s", guesses, chosen_on, chosen_on > 0, False, score).count(
        guesses, label, fixed_number=fixed_number, pad_seed=4
    )
    planned = math.ceil((20 + guess_choice.MARGIN * math.sqrt(20)) * 80 / 100)  # of 60 that the scores would make
    right = [1, 1, 0, 1, 1, 0] * 10  # in the order of the guesses
    number = planned if fixed_number else 60
    assert planned < 60
    assert found == GuessCounts(sum(right[:number]), number, number, 80, 2, 4)


# ------------------------------------------------------------------ detection limit
def power(law, n, *, epsilon, delta):
    """Exact probability that ``n`` runs refute the claim; ``law``: share of runs guessed, and of these right.

    With a fixed plan a guess that is not made is a coin that is right as often as the claim allows.
    """
    share, right = law
    s = float(special.expit(epsilon))
    if delta == 0:
        plans = [(k, k, mass) for k, mass in enumerate(stats.binom.pmf(np.arange(n + 1), n, share)) if mass > 1e-12]
    else:
        plan = max(1, round(n * share))
        plans = [(min(k, plan), plan, stats.binom.pmf(k, n, share)) for k in range(n + 1)]
    total = 0.0
    for made, planned, mass in plans:
        if mass < 1e-9:
            continue
        hits = np.convolve(
            stats.binom.pmf(np.arange(made + 1), made, right),
            stats.binom.pmf(np.arange(planned - made + 1), planned - made, s),
        )
        total += mass * hits[needed(planned, n, epsilon, delta) :].sum()
    return total


def needed(planned, n, epsilon, delta):
    """Smallest number of right guesses with a p-value of at most 0.05, by bisection."""
    low, high = -1, planned + 1
    while high - low > 1:
        middle = (low + high) // 2
        counts = GuessCounts(middle, planned, planned, n, 2, 1)
        low, high = (low, middle) if p_value(counts, epsilon=epsilon, delta=delta) <= 0.05 else (middle, high)
    return high


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_limit_of_a_pure_claim_is_where_the_power_crosses_nine_tenths(epsilon):
    n = 300
    limit = detection_limit(epsilon=epsilon, delta=0.0, n_certified=n, false_alarm=0.05)
    for true, least, most in (
        (limit, POWER - 1e-6, 0.91),
        (epsilon + 0.98 * (limit - epsilon), 0.85, POWER),
        (epsilon, 0.01, 0.05),
    ):
        both_tails = ((1 + math.exp(-true)) / 2, special.expit(true))  # of a Laplace mechanism
        assert least <= power(both_tails, n, epsilon=epsilon, delta=0.0) <= most


def test_the_limit_of_an_approximate_claim_is_where_the_threshold_best_in_expectation_has_that_power():
    n, epsilon, delta = 400, 1.0, 0.01
    limit = detection_limit(epsilon=epsilon, delta=delta, n_certified=n, false_alarm=0.05)

    def promised(true):
        z = _noise_multiplier(true, delta)
        thresholds = np.linspace(
            0.0, 0.5 + 8 * z, 201
        )  # other thresholds are other numbers of guesses: the power jumps
        right, wrong = (special.ndtr((shift - thresholds) / z) for shift in (0.5, -0.5))
        share, marked = right + wrong, np.full(thresholds.size, n * delta)
        best = int(np.argmax(epsilon_to_expect(n * share, right / share, marked, Z)))
        return power((share[best], right[best] / share[best]), n, epsilon=epsilon, delta=delta)

    # 2,048 low-discrepancy draws stand for the law: a fifth of the standard error of as many random ones, 0.0066.
    assert promised(limit) == pytest.approx(POWER, abs=5 * 0.0066 / 5)
    assert promised(epsilon + 0.8 * (limit - epsilon)) < POWER - 0.03
    assert promised(epsilon) <= 0.05


# ------------------------------------------------------------------ guesses that never erred
def test_wrong_runs_just_beyond_a_threshold_count_and_those_beyond_a_gap_do_not():
    """The best of many thresholds lies just above a wrong run; errors to come are expected there, not across a gap."""
    label = np.repeat([True, False], 50)
    spaced = np.concatenate([np.linspace(2, 1, 50), np.linspace(0.99, 0, 50)])  # as dense beyond as inside
    apart = np.concatenate([np.linspace(2, 1, 50), np.linspace(-9, -10, 50)])
    tied = np.concatenate([np.ones(50), np.linspace(0.99, 0, 50)])  # one output that says it all
    for score, flawless in ((spaced, False), (apart, True), (tied, True)):
        everything = events._tail(score, label.astype(float))
        threshold, right, wrong, near = (part[everything[1] == 50][0] for part in everything)
        assert (right, wrong) == (50, 0) and threshold == pytest.approx(1.0)
        assert (near == 0) == flawless and near <= events.LOOK
    chosen = choose_guesses(spaced, label, delta=0.0, rounds=1_000, z=Z)
    assert chosen.upper is None or chosen.flawless  # it keeps off the edge


@pytest.mark.thorough
def test_trees_that_know_better_veto_guesses_in_thin_tails():
    """A flag on one output in a hundred beside noise with tails: a linear score takes the tail for the flag."""

    def named(data, n, rng):
        flag = rng.random(n) < 0.01
        return np.column_stack([flag, np.where(flag, data, data + rng.laplace(size=n))])

    rng = np.random.default_rng(1)
    n = 60_000
    label = rng.integers(2, size=n).astype(bool)
    rows = np.where(label[:, None], named(1.0, n, rng), named(0.0, n, rng))
    found = by_learned_score(rows, label, delta=0.0, false_alarm=0.05, rng=rng)
    assert found.doubted is not None and "trees" in found.name
    coins = label[found.start :]
    counts = found.count(found.guesses, coins, fixed_number=False, pad_seed=1)
    flags = int(rows[found.start :, 0].sum())
    assert counts.guesses - counts.correct <= 1 and counts.guesses <= flags + 2
    alone = dataclasses.replace(found, doubted=None).count(found.guesses, coins, fixed_number=False, pad_seed=1)
    assert alone.guesses >= counts.guesses and alone.guesses - alone.correct >= counts.guesses - counts.correct
