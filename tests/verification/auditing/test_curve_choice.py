"""Plans are made of the first runs alone, and what is guessed depends on no coin of its own block or later ones."""

import numpy as np
import pytest

from verification.auditing.claimed_curve import GDP, claimed_curve
from verification.auditing.curve_choice import balanced, by_exact_score, by_learned_score

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
