"""Pass tables: every stored pair keeps the budget under exact curves, and what does not is refused."""

import dataclasses
import itertools
import math
import secrets

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.lifted_mask import largest_omega
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities, divergence, pass_probabilities
from pm_dpgmm.privacy.curves import GaussianProfile
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from pm_dpgmm.privacy.noise import bernoulli
from tests.builders.examples import examples
from verification.claims.aggregated import budget as reference
from verification.claims.aggregated.curve import single_delta


def mask_loss(share, *, epsilon=1.0, delta=1e-6, eta=0.05, dimension=3):
    omega = largest_omega(epsilon=epsilon, delta=delta, eta=eta, dimension=dimension)
    return LiftedMaskProfile(share * omega, eta, dimension)


def exact_divergence(p, q, epsilon, curve):
    """Failures and releases are disjoint; curve is the exact hockey-stick divergence of the releases."""
    fails = max(0.0, (1 - p) - math.exp(epsilon) * (1 - q))
    if p == 0:
        return fails
    return fails + p * (1.0 if q == 0 else curve(epsilon - math.log(p / q)))


@pytest.mark.parametrize(
    "epsilon, delta, dimension, eta", [(1.0, 1e-6, 3, 0.05), (0.5, 1e-5, 2, 0.1), (2.0, 1e-2, 6, 0.2)]
)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_test_and_mask_together_keep_the_budget_under_the_exact_curve(epsilon, delta, dimension, eta, share):
    loss = mask_loss(share, epsilon=epsilon, delta=delta, eta=eta, dimension=dimension)
    table = pass_probabilities(loss, epsilon=epsilon, delta=delta).probabilities
    assert table[0] == 0 and table[1] == delta and table[-1] == 1 and list(table) == sorted(table)

    def curve(e):
        return max(single_delta(e, x, dimension, eta) for x in (-loss.omega, loss.omega))

    largest = 0.0
    for p, q in [*itertools.pairwise(table), *itertools.pairwise(table[::-1]), *zip(table, table, strict=True)]:
        largest = max(largest, exact_divergence(p, q, epsilon, curve))
        # the exact left side is never above the rounded one that the table was checked with
        assert exact_divergence(p, q, epsilon, loss.delta) <= divergence(p, q, loss, epsilon) * (1 + 1e-9)
    assert delta * 0.999 <= largest <= delta * (1 + 1e-9)  # attained at the first level


@pytest.mark.parametrize("share, level", [(0.5, 22), (0.65, 26), (0.8, 31), (0.9, 39), (0.95, 48)])
def test_levels_are_the_published_ones_or_one_less(share, level):
    loss = mask_loss(share)
    table = pass_probabilities(loss, epsilon=1.0, delta=1e-6)
    assert table.level_for(0.99) in (level - 1, level)  # the curve here has smaller steps
    other = reference.pass_table(1.0, 1e-6, loss.delta)
    # The reference stops where entries near 1 grow by less than a millionth; failures still become rarer there.
    assert other[-1] > 0.9999 and table.probabilities[: len(other)] == pytest.approx(other, rel=1e-6, abs=0)


@pytest.mark.parametrize("mu", [0.05, 0.15])
def test_with_a_gaussian_release_the_table_is_the_reference(mu):
    loss = GaussianProfile(mu)
    table = pass_probabilities(loss, epsilon=1.0, delta=1e-6)
    other = reference.pass_table(1.0, 1e-6, loss.delta)
    assert table.probabilities == pytest.approx(other, rel=1e-6, abs=0)
    # without a release the best table for a count alone grows by e^epsilon; the release costs levels
    free = [1e-6]
    while free[-1] < 0.99:
        free.append(min(math.e * free[-1] + 1e-6, 1 - math.exp(-1) * (1 - free[-1] - 1e-6), 1.0))
    assert table.level_for(0.99) >= len(free)


@pytest.mark.thorough
@given(log_delta=st.floats(-32, -2), epsilon=st.floats(0.1, 10), ratio=st.floats(0.2, 0.9), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=examples(25))
def test_tables_of_any_budget_end_at_1_and_a_larger_entry_is_refused(log_delta, epsilon, ratio, seed):
    from pm_dpgmm.mechanisms.gaussian import gaussian_mu

    delta = math.exp(log_delta)
    loss = GaussianProfile(ratio * gaussian_mu(epsilon, delta))
    table = pass_probabilities(loss, epsilon=epsilon, delta=delta)
    entries = list(table.probabilities)
    place = 1 + seed % (len(entries) - 2)
    if entries[place] < 0.9:
        for factor in (1.001, 1 + 1e-6):
            worse = [*entries[:place], min(1.0, entries[place] * factor), *entries[place + 1 :]]
            with pytest.raises(ValueError, match="must keep delta"):
                PassProbabilities(tuple(worse), loss, epsilon, delta)


@pytest.mark.parametrize(
    "entries, words",
    [
        ((0.0,), "from 0 to 1"),
        ((1e-6, 1.0), "from 0 to 1"),
        ((0.0, 1e-6), "from 0 to 1"),
        ((0.0, math.nan, 1.0), "from 0 to 1"),
        ((0.0, 1.1e-6, 1.0), "must keep delta"),
        ((0.0, 1e-6, 1.0), "must keep delta"),
        ((0.0, 1.0), "must keep delta"),
    ],
)
def test_tables_that_break_the_rule_cannot_be_made(entries, words):
    with pytest.raises(ValueError, match=words):
        PassProbabilities(entries, mask_loss(0.8), 1.0, 1e-6)


def test_both_orders_are_checked():
    loss, epsilon, delta = mask_loss(0.8), 1.0, 1e-6
    rising = divergence(0.5, 0.1, loss, epsilon) > delta >= divergence(0.1, 0.5, loss, epsilon)
    near_one = divergence(0.9, 1.0, loss, epsilon) > delta >= divergence(1.0, 0.9, loss, epsilon)
    assert rising and near_one


def test_a_table_for_another_curve_or_budget_is_refused():
    table = pass_probabilities(mask_loss(0.8), epsilon=1.0, delta=1e-6)
    for change in ({"loss": mask_loss(0.85)}, {"epsilon": 0.99}, {"delta": 0.99e-6}):
        with pytest.raises(ValueError, match="must keep delta"):
            dataclasses.replace(table, **change)


def test_a_huge_epsilon_does_not_overflow():
    table = pass_probabilities(GaussianProfile(1.0), epsilon=800.0, delta=1e-6)
    # one entry lies between: with 1 next to delta, a failure would tell the two apart
    assert len(table.probabilities) == 4 and 1 - 1e-12 < table.probabilities[2] < 1


def test_a_release_that_leaves_no_room_is_refused():
    for share in (0.9999, 1.2):
        with pytest.raises(ValueError, match="leave room"):
            pass_probabilities(mask_loss(share), epsilon=1.0, delta=1e-6)


def test_levels_beyond_the_table_pass_and_level_0_never_does():
    table = pass_probabilities(mask_loss(0.8), epsilon=1.0, delta=1e-6)
    assert table.probability(10**9) == 1 and table.probability(0) == 0
    assert table.level_for(2.0) == len(table.probabilities) - 1 and table.level_for(0.0) == 0
    assert all(table.passes(10**6) and not table.passes(0) for _ in range(50))
    with pytest.raises(ValueError, match="level must be at least 0"):
        table.probability(-1)


@pytest.mark.parametrize("rng", [None, np.random.default_rng(3)], ids=["release", "simulation"])
def test_a_coin_has_its_probability_and_refuses_others(rng):
    n = 4000
    assert abs(sum(bernoulli(0.3, rng=rng) for _ in range(n)) / n - 0.3) < 6 * math.sqrt(0.21 / n)
    assert not any(bernoulli(0.0, rng=rng) for _ in range(50)) and all(bernoulli(1.0, rng=rng) for _ in range(50))
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="probability"):
            bernoulli(wrong, rng=rng)


@pytest.mark.parametrize("probability", [2.0**-1074, 1e-300, 1e-12, 0.1, 1 - 2.0**-53])
def test_a_coin_is_exact_to_the_last_bit(probability, monkeypatch):
    """The integers that pass are those below the threshold, and the threshold is the float as a fraction."""
    numerator, denominator = probability.as_integer_ratio()
    threshold = numerator * 2**1074 // denominator
    assert threshold * denominator == numerator * 2**1074
    for drawn, passes in ((threshold - 1, True), (threshold, False)):
        monkeypatch.setattr(secrets, "randbits", lambda bits, drawn=drawn: drawn)
        assert bernoulli(probability) is passes
