"""The law of right guesses in one run, against every mechanism there is (a linear programme) and enumerated ones.

Nothing here is random, so no check can raise a false alarm.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from verification.auditing.one_run_guessing import (
    OneRunCounts,
    bound_of_right,
    canaries_needed,
    ceiling,
    epsilon_bound,
    p_value,
)
from verification.benchmarks.one_run import published_p_value

ROUNDING = 1e-9


def bound(v, k, m, *, epsilon, delta, tails=2):
    return float(bound_of_right(OneRunCounts(v, k, m, tails), epsilon=epsilon, delta=delta))


def published(v, k, m, *, epsilon, delta):
    return published_p_value(v, k, m, epsilon=epsilon, delta=delta)


def named(m, k, labels):
    """All guesses of exactly ``k`` of ``m`` coins; None where a coin is not guessed."""
    for places in itertools.combinations(range(m), k):
        for values in itertools.product(labels, repeat=k):
            row = [None] * m
            for place, value in zip(places, values, strict=True):
                row[place] = value
            yield tuple(row)


def most_likely(v, k, m, *, epsilon, delta, labels=(0, 1)):
    """Largest probability of ``v`` right guesses of all (epsilon, delta)-DP mechanisms that print guesses."""
    outputs, inputs = list(named(m, k, labels)), list(itertools.product((0, 1), repeat=m))
    n, places = len(outputs), {s: i for i, s in enumerate(inputs)}
    turns = [(s, (*s[:i], 1 - s[i], *s[i + 1 :])) for s in inputs for i in range(m)]
    size = n * (len(inputs) + len(turns))
    gain, total = np.zeros(size), np.zeros((len(inputs), size))
    rows, limits = [], []
    for s, at in places.items():
        gain[at * n : (at + 1) * n] = [-(sum(a == b for a, b in zip(y, s, strict=True)) >= v) / 2**m for y in outputs]
        total[at, at * n : (at + 1) * n] = 1
    for j, (s, turned) in enumerate(turns):  # excess >= p - exp(epsilon) q, sum of excess <= delta
        first = (len(inputs) + j) * n
        block = np.zeros((n, size))
        block[:, places[s] * n : (places[s] + 1) * n] = np.eye(n)
        block[:, places[turned] * n : (places[turned] + 1) * n] = -math.exp(epsilon) * np.eye(n)
        block[:, first : first + n] = -np.eye(n)
        sums = np.zeros((1, size))
        sums[0, first : first + n] = 1
        rows += [block, sums]
        limits += [np.zeros(n), [delta]]
    found = optimize.linprog(
        gain, A_ub=np.concatenate(rows), b_ub=np.concatenate(limits), A_eq=total, b_eq=np.ones(len(inputs))
    )
    assert found.success
    return -found.fun


@pytest.mark.parametrize("m, k", [(1, 1), (2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("epsilon, delta", [(0.0, 0.05), (1.0, 0.02), (2.0, 0.0)])
def test_no_mechanism_beats_the_bound_and_one_attains_it(m, k, epsilon, delta):
    for v in range(1, k + 1):
        best = most_likely(v, k, m, epsilon=epsilon, delta=delta)
        assert best == pytest.approx(bound(v, k, m, epsilon=epsilon, delta=delta), abs=1e-7)


@pytest.mark.parametrize("m, k", [(2, 1), (2, 2), (3, 2)])
def test_with_one_label_half_the_delta_is_enough(m, k):
    for v in range(1, k + 1):
        best = most_likely(v, k, m, epsilon=1.0, delta=0.04, labels=(1,))
        assert best <= bound(v, k, m, epsilon=1.0, delta=0.04, tails=1) + 1e-7


def false_alarm(law, k, m, *, epsilon, delta, error):
    """Probability that the claim is refuted where T has this law."""
    refuted = [p_value([OneRunCounts(v, k, m, 2)], epsilons=epsilon, deltas=delta) <= error for v in range(len(law))]
    return float(np.asarray(law) @ refuted)


@pytest.mark.parametrize("m", [5, 20, 200])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomised_response_is_refuted_as_often_as_said_and_not_more(m, epsilon):
    law = stats.binom.pmf(np.arange(m + 1), m, special.expit(epsilon))
    for error in (0.001, 0.05, 0.3):
        assert false_alarm(law, m, m, epsilon=epsilon, delta=0.0, error=error) <= error * (1 + ROUNDING)
    v = int(stats.binom.isf(0.05, m, special.expit(epsilon)))  # and the p-value is exact
    assert bound(v, m, m, epsilon=epsilon, delta=0) == pytest.approx(law[v:].sum(), rel=1e-9)


@pytest.mark.parametrize("m, k", [(5, 5), (20, 10), (200, 100)])
@pytest.mark.parametrize("delta", [1e-4, 1e-2, 0.1])
def test_name_and_shame_is_refuted_at_most_as_often_as_said(m, k, delta):
    """With probability delta all coins are shown, else they are hidden by randomised response."""
    for epsilon in (0.0, 1.0):
        law = (1 - delta) * stats.binom.pmf(np.arange(k + 1), k, special.expit(epsilon))
        law[k] += delta
        for error in (0.001, 0.01, 0.05, 0.11):
            assert false_alarm(law, k, m, epsilon=epsilon, delta=delta, error=error) <= error * (1 + ROUNDING)


def test_without_its_delta_term_name_and_shame_would_be_refuted_too_often():
    law = 0.9 * stats.binom.pmf(np.arange(21), 20, special.expit(1.0))
    law[20] += 0.1
    assert false_alarm(law, 20, 20, epsilon=1.0, delta=0.0, error=0.05) > 0.1


def test_the_sharp_law_keeps_its_claim_and_passes_what_was_published_below_the_mean():
    """m = K = 2, by enumeration: one right guess, or two, get delta more than randomised response has."""
    epsilon, delta, s = math.log(9), 0.01, 0.9
    jump = delta / (s * (1 - s))
    low = 1 - jump * (1 - (1 - s) ** 2)
    law = {0: (1 - s) ** 2 * low, 1: s * (1 - s) * (low + jump), 2: s**2 * (low + jump)}
    rows = {c: [law[sum(a == b for a, b in zip(c, y, strict=True))] for y in named(2, 2, (0, 1))] for c in CORNERS}
    assert all(math.isclose(sum(row), 1) for row in rows.values())
    for a, b in itertools.permutations(CORNERS, 2):
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1:
            excess = sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(rows[a], rows[b], strict=True))
            assert excess <= delta * (1 + ROUNDING)
    right = 2 * law[1] + law[2]
    assert right == pytest.approx(bound(1, 2, 2, epsilon=epsilon, delta=delta), rel=1e-12)
    assert right > published(1, 2, 2, epsilon=epsilon, delta=delta) + 5e-4


CORNERS = tuple(itertools.product((0, 1), repeat=2))


def test_in_the_tail_the_bound_is_below_the_published_one():
    for k in (1, 2, 5, 30, 100, 1000):
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            median = stats.binom.median(k, special.expit(epsilon))
            for v in {int(median) + 1, int((median + k) / 2) + 1, k}:
                if v <= k and stats.binom.sf(v - 1, k, special.expit(epsilon)) <= 0.5:
                    ours = bound(v, k, 2 * k, epsilon=epsilon, delta=1e-4 / k)
                    assert ours <= published(v, k, 2 * k, epsilon=epsilon, delta=1e-4 / k) * (1 + ROUNDING)


def test_the_bound_falls_with_right_guesses_and_rises_with_epsilon_where_numbers_are_tiny():
    for k, m, delta in ((10, 40, 1e-3), (5_000, 10_000, 1e-5), (100_000, 10**6, 1e-9)):
        rights = np.unique(np.linspace(1, k, 60).astype(int))
        epsilons = np.linspace(0, 8, 33)
        table = np.array([bound_of_right(OneRunCounts(int(v), k, m, 2), epsilon=epsilons, delta=delta) for v in rights])
        assert np.isfinite(table).all() and (table >= 0).all() and (table <= 1).all()
        assert (np.diff(table, axis=0) <= table[:-1] * 1e-9).all()
        assert (np.diff(table, axis=1) >= -table[:, 1:] * 1e-9).all()


def test_epsilon_bound_is_where_the_p_value_is_the_error():
    tries = [OneRunCounts(430, 500, 1000, 2)]
    found = epsilon_bound(tries, delta=1e-5, error=0.05)
    assert 1.4 < found < 1.8
    assert p_value(tries, epsilons=found, deltas=1e-5) == pytest.approx(0.05, rel=1e-6)
    assert p_value(tries, epsilons=found, deltas=1e-5) <= 0.05
    two = [*tries, OneRunCounts(60, 100, 1000, 2)]
    assert epsilon_bound(two, delta=1e-5, error=0.05) == epsilon_bound(tries, delta=1e-5, error=0.025)
    assert epsilon_bound([OneRunCounts(0, 5, 5, 2)], delta=0.0, error=0.05) == 0.0


def test_a_curve_is_refuted_by_its_weakest_point():
    counts = [OneRunCounts(430, 500, 1000, 2)]
    epsilons, deltas = np.array([0.5, 1.0, 3.0]), np.array([0.2, 1e-5, 0.0])
    one = [p_value(counts, epsilons=e, deltas=d) for e, d in zip(epsilons, deltas, strict=True)]
    assert p_value(counts, epsilons=epsilons, deltas=deltas) == min(one) == one[1]


def test_the_ceiling_in_closed_form():
    for k, expected in ((10, 1.05), (100, 3.49), (1000, 5.81)):
        counts = [OneRunCounts(0, k, k, 2)]
        assert ceiling(counts, delta=0.0, error=0.05) == pytest.approx(special.logit(0.05 ** (1 / k)), abs=1e-9)
        assert ceiling(counts, delta=0.0, error=0.05) == pytest.approx(expected, abs=0.01)
        assert canaries_needed(ceiling(counts, delta=0.0, error=0.05) - 1e-9, error=0.05) == k
    assert ceiling([OneRunCounts(0, 10, 1000, 2)], delta=1e-3, error=0.05) == 0  # m delta/K alone is above it


@pytest.mark.parametrize("values", [(2, 1, 5, 2), (1, 6, 5, 2), (0, 0, 5, 2), (1, 2, 5, 3), (1, 2, 5, 0)])
def test_counts_that_cannot_be(values):
    with pytest.raises(ValueError, match="counts must satisfy"):
        OneRunCounts(*values)
