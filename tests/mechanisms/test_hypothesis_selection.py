"""Private hypothesis selection: sensitivity of the scores, law of the choice, and its utility in simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from pm_dpgmm.mechanisms.hypothesis_selection import (
    compared,
    inside_counts,
    noisy_best,
    records_needed,
    selection_scores,
)
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.scheffe_sets import Lines, ScheffeSets, scheffe_sets
from tests.builders.examples import examples


def normal(mean, deviation=1.0):
    return Mixture([1.0], [[mean]], [[[deviation**2]]])


FEW = Lines.of([normal(0.0), normal(2.0), normal(0.0, 5.0), Mixture([0.3, 0.7], [[-4.0], [3.0]], [[[0.1]], [[2.0]]])])
VALUES = st.floats(-10, 10) | st.sampled_from([0.0, 1.0, 1e300, -1e300])


def scores_of(records, accuracy, slack=1.0):
    seen = compared(FEW, np.array(records, dtype=float))
    return selection_scores(seen.inside, len(records), own=seen.own, other=seen.other, accuracy=accuracy, slack=slack)


@given(
    records=st.lists(VALUES, min_size=1, max_size=30),
    new=VALUES,
    accuracy=st.sampled_from([1e-3, 0.02, 0.1, 0.4]),
    slack=st.sampled_from([0.1, 1.0]),
)
@settings(deadline=None, max_examples=examples(200))
def test_one_record_moves_every_score_by_at_most_one(records, new, accuracy, slack):
    before = scores_of(records, accuracy, slack)
    for other in ([*records, new], [new, *records[1:]]):
        assert np.abs(scores_of(other, accuracy, slack) - before).max() <= 1


@given(n=st.integers(0, 2**40), share=st.floats(0, 2))
@settings(deadline=None, max_examples=examples(200))
def test_the_expected_count_moves_by_nothing_or_one_with_the_number_of_records(n, share):
    given_ = {"own": np.array([[0.0, 9.0]] * 2), "other": np.full((2, 2), share), "accuracy": 0.1}
    inside = np.full((2, 2), n)
    one, two = (selection_scores(inside, m, **given_)[0] for m in (n, n + 1))
    assert 0 <= one - two <= 1


def test_the_choice_has_the_law_of_geometric_noise():
    """Two scores one apart: P[first] by summing the law. Chi-square at 1e-6."""
    rng, scale, n = np.random.default_rng(1), 2.0, 20_000
    found = sum(noisy_best(np.array([3, 4]), epsilon=1.0, rng=rng) == 0 for _ in range(n))
    ratio = math.exp(-1 / scale)
    k = np.arange(400)
    masses = (1 - ratio) * ratio**k
    first = sum(masses[k >= j + 1].sum() * masses[j] for j in range(300))  # ties go to the first
    assert stats.binomtest(found, n, first).pvalue > 1e-6


def test_handicaps_are_taken_off():
    assert noisy_best(np.array([900, 900]), epsilon=1.0, handicaps=np.array([500, 0])) == 1


def test_a_far_hypothesis_is_hardly_ever_chosen():
    records = normal(0.1).sample(2_000, rng=np.random.default_rng(2))[:, 0]
    scores = scores_of(records, 0.02)
    assert scores[0] == scores.max() and scores[1] < 100
    assert all(noisy_best(scores, epsilon=1.0) == 0 for _ in range(50))


@pytest.mark.parametrize("seed", range(3))
def test_the_utility_bound_holds_in_simulation(seed):
    """Failures of at most 5 % are promised; more than 10 of 60 have probability below 1e-3 then, and none is seen."""
    rng = np.random.default_rng(seed)
    a, m = 0.1, 12
    truth = normal(0.0)
    shifts = np.append(2 * stats.norm.ppf(0.5 + 0.5 * a * 0.99), rng.uniform(-4, 4, m - 1))
    lines = Lines.of([normal(shift) for shift in shifts])
    far = 2 * stats.norm.cdf(np.abs(shifts) / 2) - 1
    n = records_needed(m, accuracy=a, epsilon=1.0)
    bad = 0
    for _ in range(20):
        seen = compared(lines, truth.sample(n, rng=rng)[:, 0])
        scores = selection_scores(seen.inside, n, own=seen.own, other=seen.other, accuracy=a)
        bad += far[noisy_best(scores, epsilon=1.0, rng=rng)] > 4 * a
    assert bad <= 4


def test_records_in_sets_are_counted_one_by_one():
    sets = scheffe_sets(FEW[np.array([0, 0, 2])], FEW[np.array([1, 2, 3])])
    records = np.random.default_rng(3).normal(0, 3, 500)
    found = inside_counts(records, sets)
    single = [inside_counts(records[i : i + 1], sets) for i in range(500)]
    assert (found == np.sum(single, axis=0)).all() and set(np.unique(single)) == {0, 1}
    shares = np.stack([sets.own, found / 500])
    assert shares.min() > 0


@pytest.mark.parametrize("given", [{"accuracy": 1e-200, "epsilon": 1.0}, {"accuracy": 0.1, "epsilon": 1e-300}])
def test_sizes_that_no_number_of_records_is_for_are_refused(given):
    with pytest.raises(ValueError, match="must be of sizes that a number of records can be for"):
        records_needed(5, **given)


@pytest.mark.parametrize("edges", [[5.0, 1.0], [math.nan, 1.0], [math.nan], [1.0, math.inf, 3.0]])
def test_edges_in_the_wrong_order_would_count_a_record_twice_and_are_refused(edges):
    sets = ScheffeSets(np.array([edges]), np.array([True]), np.zeros(1), np.zeros(1))
    assert edges != [5.0, 1.0] or sets.parts(np.array([[1.0, 0.0]]), 1.0) == [2.0]  # of one record at 3
    with pytest.raises(ValueError, match="edges of the sets must increase and hold no NaN"):
        inside_counts(np.array([3.0]), sets)


def test_edges_may_be_equal_or_infinite():
    sets = ScheffeSets(np.array([[1.0, 1.0, math.inf, math.inf]]), np.array([True]), np.zeros(1), np.zeros(1))
    assert inside_counts(np.array([0.0, 1.0, 3.0]), sets).tolist() == [3]


@pytest.mark.parametrize("epsilon, words", [(0.0, "greater than 0"), (1e-10, "at least 1e-09"), (1e14, "at most")])
def test_bad_budgets_are_named(epsilon, words):
    with pytest.raises(ValueError, match=f"epsilon must be.*{words}"):
        noisy_best(np.array([1, 2]), epsilon=epsilon)
