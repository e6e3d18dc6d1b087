"""Plans are made of the first runs alone, and what is guessed depends on no coin of its own block or later ones."""

import numpy as np
import pytest

from verification.auditing.audit import audit
from verification.auditing.claimed_curve import GDP, claimed_curve
from verification.auditing.curve_choice import _apart, _plan, balanced, by_exact_score, by_learned_score

CLAIM = claimed_curve(profile=GDP(0.2367))


def runs(n=600, mu=0.5, seed=1):
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n).astype(bool)
    return rng.normal(size=(n, 1)) + mu * label[:, None], label


def choose(rows, label):
    return by_learned_score(rows, label, CLAIM, false_alarm=0.05, rng=np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(3))
def test_no_output_or_coin_of_a_guessed_run_touches_the_plan(seed):
    rows, label = runs(seed=seed)
    made = choose(rows, label).plan
    first = label.size - made.rounds
    other, coins = runs(seed=seed + 100)
    other[:first], coins[:first] = rows[:first], label[:first]
    assert choose(other * 1.0, coins).plan == made
    wild = np.concatenate([rows[:first], 50 + other[first:] ** 3])
    assert choose(wild, coins).plan == made


def test_the_last_block_is_guessed_without_its_coins():
    rows, label = runs()
    last = np.arange(label.size) >= label.size * 0.8
    found = choose(rows, label)
    turned = choose(rows, label ^ last)  # right guesses there become wrong ones, and nothing else changes
    assert found.plan == turned.plan and found.name == turned.name and found.correct != turned.correct


def test_a_score_is_balanced():
    score = np.random.default_rng(1).normal(3.0, 2.0, size=500)
    assert abs(np.mean(1 / (1 + np.exp(-balanced(score)))) - 0.5) < 1e-3


def test_the_exact_score_plans_by_probabilities_not_by_coins():
    rows, label = runs()
    ratio = 0.5 * (rows[:, 0] - 0.25)
    plans = {by_exact_score(ratio, coins, CLAIM, false_alarm=0.05).plan for coins in (label, ~label)}
    assert len(plans) == 1
    changed = ratio.copy()
    changed[60:] += 5.0
    assert by_exact_score(changed, label, CLAIM, false_alarm=0.05).plan in plans


@pytest.mark.parametrize("apart", [6, 10, 20])
def test_as_many_runs_as_are_surely_apart_are_guessed(apart):
    """Of 134 runs up to 20 that are all right were doubted so much that half of all runs were guessed, mostly noise."""
    rng = np.random.default_rng(1)
    coins = np.tile([0.0, 1.0], 67)
    score = np.where(np.arange(134) < apart, np.where(coins > 0, 8.0, -8.0), 0.1 * rng.choice([-1.0, 1.0], size=134))
    claim = claimed_curve(profile=GDP(0.5))
    made = _plan(score, coins, claim, 1_866, 0.05)
    assert made.sides == (True, True) and made.guesses == round(apart / 134 * 1_866)
    wrong = _plan(-score, coins, claim, 1_866, 0.05)
    assert wrong.guesses == 1_026 or not all(wrong.sides)


def test_runs_that_the_claim_lets_be_apart_are_not_surely_apart():
    """Log-odds of 4, which GDP(2) allows in a tenth of the runs; of 8, where it allows next to none."""
    coins = np.tile([0.0, 1.0], 67)
    claim = claimed_curve(profile=GDP(2.0))
    for odds, share in ((4.0, 0.0), (12.0, 10 / 134)):
        score = np.where(np.arange(134) < 10, np.where(coins > 0, odds, -odds), 0.0)
        assert _apart(score, coins, claim, (True, True), 1_866, 0.05)[0] == share


@pytest.mark.thorough
def test_a_leak_in_some_runs_is_found_beside_sound_noise():
    def leaking(data, n_samples, rng):
        outputs = rng.normal(size=n_samples)
        outputs[rng.random(n_samples) < 0.15] = np.inf if data else -np.inf
        return outputs

    results = [
        audit(leaking, 1, 0, profile=GDP(0.5), n_samples=2_000, rng=np.random.default_rng(seed))
        for seed in range(500, 512)
    ]
    assert sum(result.refuted for result in results) >= 10  # 19 and 30 of 20 and 30; it was 23 of 30
