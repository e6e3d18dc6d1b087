"""Bets against a curve: expectation at most 1, false alarms of long runs, bounds, and the audit that uses them."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tests.builders.discrete_pairs import discrete_pair, orders
from verification import GDP, ZCDP, audit
from verification.auditing.claimed_curve import GAUSSIAN, claimed_curve
from verification.auditing.curve_betting import (
    CUTS,
    EPSILONS,
    CurveBets,
    allowed_at_cuts,
    best_point,
    log_e_value,
    parameter_bound,
    place_of,
    sequential_gaussian_limit,
)
from verification.benchmarks.curve_power import log_density, noisy

CLAIM = claimed_curve(profile=GDP(0.2367), delta=1e-6)


def counted(prediction, label):
    table = np.zeros((2, 2 * CUTS.size + 1), dtype=np.int64)
    for coin in (0, 1):
        table[coin] = np.bincount(place_of(prediction)[label == coin], minlength=table.shape[1])
    return CurveBets(("exact",), table[None])


def test_predictions_are_kept_up_to_the_cuts_that_they_reach():
    assert place_of(np.array([-9.0, -0.05, -0.01, 0.0, 0.01, 0.05, 9.0])).tolist() == [0, 13, 14, 15, 16, 17, 30]


@pytest.mark.parametrize("seed", range(3))
def test_the_capital_has_expectation_at_most_one(seed):
    p, q = discrete_pair(seed)
    first, second = allowed_at_cuts(claimed_curve(profile=orders(p, q)))
    score = np.log(p / q)
    total = 0.0
    for outputs in itertools.product(range(p.size), repeat=2):
        for coins in itertools.product((0, 1), repeat=2):
            chance = np.prod([(p if coin else q)[y] / 2 for y, coin in zip(outputs, coins, strict=True)])
            total += chance * math.exp(log_e_value(counted(score[list(outputs)], np.array(coins)), first, second))
    assert 0.9 < total <= 1 + 1e-9


def test_the_capital_exceeds_one_where_the_claim_is_too_small():
    p, q = np.array([0.6, 0.4]), np.array([0.4, 0.6])
    first, second = allowed_at_cuts(claimed_curve(profile=GDP(0.1)))
    total = sum(
        (p if coin else q)[y] / 2 * math.exp(log_e_value(counted(np.log(p / q)[[y]], np.array([coin])), first, second))
        for y in (0, 1)
        for coin in (0, 1)
    )
    assert total > 1


def test_sound_runs_are_refuted_at_any_time_in_at_most_five_percent():
    # False alarm of this test: below 1e-4, by the binomial law of 60 audits of 2,000 runs, looked at every 250.
    rng, (first, second) = np.random.default_rng(3), allowed_at_cuts(CLAIM)
    ever = 0
    for _ in range(60):
        label = rng.integers(2, size=2_000)
        prediction = 0.2367 * (rng.normal(size=2_000) + 0.2367 * (label - 0.5))
        looks = [counted(prediction[:n], label[:n]) for n in range(250, 2_001, 250)]
        ever += any(log_e_value(bets, first, second) >= math.log(20) for bets in looks)
    assert stats.binom.sf(ever - 1, 60, 0.05) > 1e-4


def test_bounds_grow_with_the_evidence_and_stay_below_the_truth():
    rng, (first, second) = np.random.default_rng(4), allowed_at_cuts(CLAIM)
    label = rng.integers(2, size=20_000)
    bets = counted(rng.normal(size=20_000) + label - 0.5, label)
    assert log_e_value(bets, first, second) > 100
    assert 0.5 < parameter_bound(bets, GAUSSIAN, 0.05) < 1.0
    point, bound = best_point(bets, first, second, 0.05)
    assert (first[point] + second[point]) / 2 < bound < float(GDP(1.0).delta(EPSILONS[point]))
    few = counted(np.zeros(10), label[:10])
    assert parameter_bound(few, GAUSSIAN, 0.05) == 0.0 and best_point(few, first, second, 0.05)[1] == 0.0


def test_the_sequential_limit_is_above_that_of_a_fixed_number_of_runs():
    assert 0.342 < sequential_gaussian_limit(CLAIM, n_samples=4_000, false_alarm=0.05) < 0.5


@pytest.mark.parametrize("profile", [GDP(0.2367), ZCDP(0.028)])
def test_a_sequential_audit_stops_early(profile):
    result = audit(
        noisy, 1.5, 0.0, profile=profile, delta=1e-6, n_samples=2_000, sequential=True,
        log_density=log_density, rng=np.random.default_rng(1),
    )  # fmt: skip
    assert result.refuted and result.n_samples < 500 and result.e_value >= 20 and result.p_value <= 0.05
    assert result.claimed <= result.parameter_lower < 1.5
    assert f"after {result.n_samples:,} runs" in str(result)


def test_a_sequential_audit_learns_and_passes_what_is_sound():
    found = [
        audit(noisy, mu, 0.0, profile=GDP(0.2367), n_samples=800, sequential=True, rng=np.random.default_rng(1))
        for mu in (2.0, 0.2)
    ]
    assert found[0].refuted and not found[1].refuted
    assert "would have caught Gaussian noise with mu >= " in str(found[1])
