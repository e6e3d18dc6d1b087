"""Sums of Bernstein polynomials: what a record hands out, what moments follow, noise of the stated law, shares."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.bernstein_sums import (
    WHOLE,
    LaplaceFilter,
    bernstein_sums,
    moments_from_sums,
    n_polynomials,
    noisy_bernstein_sums,
    polynomials,
    sensitivity_l1,
    sensitivity_l2,
    simplex,
)
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.moments import moment_sums
from pm_dpgmm.mechanisms.partitions import SoftPartition
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.privacy.guarantee import Neighbouring
from tests.builders.examples import examples

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
RNG = np.random.default_rng(12)
HOSTILE = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1.0, -1.0]
COLUMNS = pytest.mark.parametrize("d", [1, 2, 3, 7])


def parts(d, g=4, reach=1.0):
    rng = np.random.default_rng(d)
    factors = np.tril(0.3 * rng.normal(size=(g, d, d))) + 0.8 * np.eye(d)
    return SoftPartition.of(np.zeros(d), np.ones(d), np.full(g, 1 / g), rng.normal(size=(g, d)), factors, reach=reach)


@COLUMNS
def test_the_simplex_is_regular_and_its_polynomials_are_positive_and_sum_to_one(d):
    u = simplex(d)
    np.testing.assert_allclose(u @ u.T, (1 + 1 / d) * np.eye(d + 1) - 1 / d, atol=1e-12)
    np.testing.assert_allclose(u.sum(axis=0), 0, atol=1e-12)
    y = RNG.normal(size=(500, d))
    y /= np.maximum(1.0, np.linalg.norm(y, axis=1))[:, None]
    row, column = np.triu_indices(d)
    values = np.concatenate([np.ones((500, 1)), y, y[:, row] * y[:, column]], axis=1) @ polynomials(d)
    assert values.shape == (500, n_polynomials(d)) and values.min() > -1e-12
    np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-12)


@COLUMNS
@given(data=st.data())
@settings(max_examples=examples(30), deadline=None)
def test_every_record_hands_out_exactly_one_whole(d, data):
    """Whatever it holds; so adding it moves all numbers by 2^30 in L1 and replacing it by at most twice that."""
    numbers = st.one_of(st.sampled_from(HOSTILE), st.floats(allow_nan=True, allow_infinity=True))
    record = np.array([data.draw(numbers) for _ in range(d)])
    found = bernstein_sums(record[None], parts(d, reach=data.draw(st.sampled_from([1e-300, 0.1, 1.0, 1e300]))))
    assert found.min() >= 0 and int(found.sum()) == WHOLE
    assert np.linalg.norm(found.astype(float)) <= WHOLE * (1 + 1e-12)


def test_sensitivities_are_those_of_such_vectors():
    assert [sensitivity_l1(one) for one in (ADD_REMOVE, REPLACE)] == [WHOLE, 2 * WHOLE]
    assert sensitivity_l2(ADD_REMOVE) == WHOLE and sensitivity_l2(REPLACE) ** 2 >= 2 * WHOLE**2


@COLUMNS
def test_two_records_reach_them(d):
    """At opposite corners of far cells; the bound of a planted smaller noise is therefore no slack."""
    far = SoftPartition.of(
        np.zeros(d), np.ones(d), np.full(2, 0.5), [[-5.0] + [0.0] * (d - 1), [5.0] + [0.0] * (d - 1)],
        np.array([np.eye(d) * 0.1] * 2), reach=1.0,
    )  # fmt: skip
    one, other = (bernstein_sums(np.array([[x] + [0.0] * (d - 1)]), far) for x in (-9.0, 9.0))
    assert int(np.abs(one - other).sum()) == 2 * WHOLE


@COLUMNS
def test_counts_sums_and_squares_follow(d):
    """Against the moments of the same parts; every polynomial is off by at most a step of each record."""
    records, partition = RNG.normal(size=(300, d)), parts(d)
    ways = {"budget": LaplaceFilter.of(1e6), "share": Fraction(1), "neighbouring": ADD_REMOVE}
    noisy, _ = noisy_bernstein_sums(records, partition, rng=np.random.default_rng(0), **ways)
    found, exact = moments_from_sums(noisy), moment_sums(records, partition) * GRID
    np.testing.assert_allclose(found.counts, exact[:, 0] * 2, atol=1e-3)
    np.testing.assert_allclose(found.sums, exact[:, 1 : 1 + d], atol=1e-3)
    row, column = np.triu_indices(d)
    upper = exact[:, 1 + d :] / np.where(row == column, 1.0, math.sqrt(2))
    np.testing.assert_allclose(found.squares[:, row, column], upper, atol=1e-3)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_has_the_stated_scale(delta):
    """Of 4,000 numbers with kurtosis at most 6, the deviation is within 6 standard errors: false alarm below 1e-8."""
    budget = GaussianFilter.of(1.0, delta) if delta else LaplaceFilter.of(1.0)
    runs, partition = [], parts(1)
    for seed in range(334):
        given = {"budget": budget, "share": Fraction(1, 2), "neighbouring": REPLACE}
        runs.append(noisy_bernstein_sums(np.empty((0, 1)), partition, rng=np.random.default_rng(seed), **given)[0])
    drawn = np.ravel([one.values for one in runs])
    assert abs(drawn.std() / runs[0].noise_scale - 1) < 6 * math.sqrt(5 / 4 / drawn.size)
    if delta == 0:
        assert runs[0].noise_scale == pytest.approx(math.sqrt(2) * 4, rel=1e-12)


def test_the_pure_filter_is_exact_in_rational_numbers():
    budget = LaplaceFilter.of(0.1)
    scales = []
    for share in (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)):
        scale, budget = budget.spend(2 * WHOLE, share=share)
        scales.append(Fraction(scale))
    assert sum(2 * WHOLE / one for one in scales) <= Fraction(0.1) == budget.limit == budget.spent
    with pytest.raises(ValueError, match="share must be positive and at most 0, got"):
        budget.spend(1, share=Fraction(1, 100))


def test_too_little_budget_is_refused_before_records_are_read():
    for budget in (LaplaceFilter.of(1.0), GaussianFilter.of(1.0, 1e-6)):
        with pytest.raises(ValueError, match="share must be positive and at most"):
            noisy_bernstein_sums(None, parts(1), budget=budget, share=Fraction(2), neighbouring=REPLACE)


def test_records_of_other_columns_are_refused():
    with pytest.raises(ValueError, match="X must have 2 columns as the centres, got shape"):
        bernstein_sums(np.zeros((3, 1)), parts(2))
