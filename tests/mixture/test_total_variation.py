"""Exact one-dimensional distances, certified bounds and estimates agree with each other and with closed forms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy import integrate, optimize, stats

from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.total_variation import (
    Interval,
    total_variation_1d,
    total_variation_bounds,
    total_variation_mixtures,
    total_variation_monte_carlo,
)
from tests.builders.examples import examples
from verification.claims.common.strategies import covariance_matrices, neighbours_of, similar_mixtures

EPS = np.finfo(float).eps
hostile_sds = st.floats(1e-300, 1e300) | st.floats(0.1, 10)
hostile_means = st.floats(-1e308, 1e308) | st.floats(-3, 3)
# (mean difference, sd of the second) against N(0, 1), and the distance from 60-digit arithmetic (mpmath 1.4).
STORED = [
    (1e-9, 1.0, 3.989422804014327e-10),
    (0.0, 1.0 + 2.0**-40, 4.4014218386843516e-13),
    (1e-7, 1.0 + 2.0**-23, 6.754039826806418e-8),
    (0.01, 1.001, 0.0040072022208554639),
    (0.885, 0.3153, 0.63682426203499161),
    (1.0, 1e-4, 0.99977624578694852),
    (3.0, 20.0, 0.88930678745646268),
]


def delta_distance(mean1, cov1, mean2, cov2):
    """max(||S1^-1/2 S2 S1^-1/2 - I||_F, ||S1^-1/2 (m1 - m2)||), by another route than the library."""
    inverse = np.linalg.inv(np.linalg.cholesky(cov1))
    whitened = inverse @ np.subtract(cov2, cov1) @ inverse.T
    return max(np.linalg.norm(whitened), np.linalg.norm(inverse @ np.subtract(mean2, mean1)))


def rounding(*covariances):
    """Rounding margin of the bounds: 8 d eps times the condition number with unit diagonal, overestimated."""
    worst = 1.0
    for c in covariances:
        sd = np.sqrt(np.diag(c))
        worst = max(worst, float(np.linalg.cond(c / np.outer(sd, sd))))
    d = len(covariances[0])
    return 8 * d * EPS * d**2 * worst


@pytest.mark.parametrize("shift, sd, expected", STORED)
def test_exact_distance_has_fifteen_digits(shift, sd, expected):
    # 17 stored digits, and below ten roundings in the evaluation.
    assert total_variation_1d(0.0, 1.0, shift, sd) == pytest.approx(expected, rel=2e-15, abs=0)


@given(shift=st.floats(1e-290, 5), sd=st.floats(1e-6, 1e6))
@settings(deadline=None, max_examples=examples(200))
def test_pure_mean_shift_has_the_closed_form(shift, sd):
    assert total_variation_1d(0.0, sd, shift * sd, sd) == pytest.approx(
        math.erf(shift / math.sqrt(8)), rel=1e-14, abs=0
    )


@given(shift=st.floats(0, 6), log_sd=st.floats(-3, 3))
@example(shift=0.0, log_sd=4e-16)
@settings(deadline=None, max_examples=examples(100))
def test_exact_distance_is_the_integral_of_the_density_difference(shift, log_sd):
    sd = math.exp(log_sd)

    def log_ratio(x):
        return -0.5 * ((x - shift) / sd) ** 2 - log_sd + 0.5 * x * x

    def integrand(x):  # (p - q)^+ without cancellation
        return max(0.0, -math.expm1(log_ratio(x))) * math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)

    # Panels between the kinks, found by bisection, so that quad sees smooth functions only.
    grid = np.linspace(-9, 9, 2001)
    values = np.array([log_ratio(x) for x in grid.tolist()])  # as bisection has them, to the last bit
    changes = np.flatnonzero(values[:-1] * values[1:] < 0)
    kinks = [optimize.brentq(log_ratio, grid[i], grid[i + 1], xtol=1e-13) for i in changes]
    ends = np.unique([*grid[::50], *grid[values == 0], *kinks])
    value = sum(integrate.quad(integrand, a, b)[0] for a, b in itertools.pairwise(ends))
    assert total_variation_1d(0.0, 1.0, shift, sd) == pytest.approx(value, rel=1e-9, abs=1e-12)


@given(m1=hostile_means, s1=hostile_sds, m2=hostile_means, s2=hostile_sds)
@settings(deadline=None, max_examples=examples(300))
def test_exact_distance_is_symmetric_in_the_unit_interval_and_zero_for_equal_laws(m1, s1, m2, s2):
    value = total_variation_1d(m1, s1, m2, s2)
    assert 0 <= value <= 1
    assert value == total_variation_1d(m2, s2, m1, s1)
    assert total_variation_1d(m1, s1, m1, s1) == 0
    # Equal means minimise the distance (claim B.3 in its strong form); 1e-14 is the accuracy promised.
    assert total_variation_1d(0.0, s1, 0.0, s2) <= value * (1 + 1e-14)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20))
@settings(deadline=None, max_examples=examples(50))
def test_an_element_does_not_depend_on_its_batch(seed, n):
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(size=n), 10 ** rng.uniform(-2, 2, n)
    table = total_variation_1d(mean[:, None], sd[:, None], 2 * mean, sd[::-1])
    first, second = list(zip(mean, sd, strict=True)), list(zip(2 * mean, sd[::-1], strict=True))
    assert (table == [[total_variation_1d(*a, *b) for b in second] for a in first]).all()
    assert (total_variation_1d(2 * mean[:5, None], sd[::-1][:5, None], mean[:3], sd[:3]) == table[:3, :5].T).all()


def test_a_tiny_distance_is_below_its_linear_bound_and_grows():
    sds = 1 + 2.0 ** -np.arange(10, 52)
    values = total_variation_1d(0.0, 1.0, 0.0, sds)
    local = 2 / math.sqrt(2 * math.pi * math.e)  # derivative with respect to log sd at equality
    assert (np.abs(values / (local * np.log1p(sds - 1)) - 1) < 1e-3).all()
    assert (np.diff(values) < 0).all()


@pytest.mark.parametrize(
    "arguments", [(np.nan, 1, 0, 1), (0, 0, 0, 1), (0, 1, 0, -1), (0, np.inf, 0, 1), (0, 1, np.inf, 1)]
)
def test_exact_distance_rejects_what_is_no_law(arguments):
    with pytest.raises(ValueError, match="must be finite"):
        total_variation_1d(*arguments)


def test_interval_is_ordered():
    assert 0.2 in Interval(0.1, 0.3) and 0.4 not in Interval(0.1, 0.3)
    for ends in ((0.3, 0.1), (np.nan, 1.0)):
        with pytest.raises(ValueError, match="lower must be at most upper"):
            Interval(*ends)


def test_the_constant_one_over_root_two_needs_a_small_delta():
    # AMN24 Lemma A.8 read without a condition; the second pair shows that TV <= Delta cannot be improved.
    assert total_variation_1d(0.0, 1.0, 0.885, 0.3153) > delta_distance(
        [0.0], [[1.0]], [0.885], [[0.3153**2]]
    ) / math.sqrt(2)
    assert total_variation_1d(0.0, 1.0, 1.0, 1e-4) > 0.9997
    assert delta_distance([0.0], [[1.0]], [1.0], [[1e-8]]) == pytest.approx(1.0)


def test_a_ratio_of_scales_just_off_one_does_not_overflow():
    tiny = np.array([1.0, 1.0064715441958481e-159])
    assert total_variation_bounds(np.zeros(2), np.eye(2), tiny, np.diag([1.0, math.e])).lower > 0.2
    assert total_variation_1d(0.0, 1.0, 1.0, np.nextafter(1.0, 2)) == pytest.approx(0.3829249225)


@given(data=st.data(), d=st.integers(1, 4), steps=st.lists(st.floats(-1, 1), min_size=4, max_size=4))
@settings(deadline=None, max_examples=examples(150))
def test_bounds_are_symmetric_ordered_and_below_delta(data, d, steps):
    first = data.draw(covariance_matrices(d))
    second = data.draw(neighbours_of(first) | covariance_matrices(d))
    mean = 10.0 ** data.draw(st.floats(-9, 1)) * np.array(steps[:d]) * np.sqrt(np.diag(first))
    bounds = total_variation_bounds(np.zeros(d), first, mean, second)
    assert 0 <= bounds.lower <= bounds.upper <= 1
    assert bounds == total_variation_bounds(mean, second, np.zeros(d), first)
    assert bounds == total_variation_bounds(-mean, first, np.zeros(d), second)
    assert total_variation_bounds(mean, first, mean, first) == Interval(0.0, 0.0)
    delta = delta_distance(np.zeros(d), first, mean, second)
    # Inverting the factor here loses as much as the library's own margin; the library stops at 1e-150.
    slack = 1 + 2 * rounding(first, second) + 1e-11
    assert bounds.upper <= max(delta * slack, 1e-150)
    assert delta > 0.68 or bounds.upper <= max(delta / math.sqrt(2) * slack, 1e-150)
    if d == 1:
        exact = total_variation_1d(0.0, math.sqrt(first[0, 0]), mean[0], math.sqrt(second[0, 0]))
        half = EPS  # the two square roots above are rounded by half an eps each; the distance changes by less
        assert bounds.lower - half <= exact <= bounds.upper + half
        assert bounds.upper - bounds.lower <= 1e-10 * exact + 1e-150


@given(data=st.data(), d=st.integers(2, 4), log_sd=st.floats(-2, -1e-6) | st.floats(1e-6, 2), shift=st.floats(0, 4))
@settings(deadline=None, max_examples=examples(100))
def test_bounds_are_exact_for_laws_that_differ_in_one_direction(data, d, log_sd, shift):
    base = data.draw(covariance_matrices(d, max_condition=1e4))
    column = np.linalg.cholesky(base) @ np.ones(d) / math.sqrt(d)
    changed = base + np.expm1(2 * log_sd) * np.outer(column, column)
    exact = total_variation_1d(0.0, 1.0, shift, math.exp(log_sd))
    bounds = total_variation_bounds(np.zeros(d), base, shift * column, changed)
    # Building the pair rounds the entries by a few eps of the larger matrix; whitened, that grows by its condition.
    # The same error over the eigengap turns the eigenvector, which costs the coupling bound a first-order term.
    gap = min(1.0, abs(math.expm1(2 * log_sd)))
    slack = 4 * rounding(base, changed) * math.exp(2 * abs(log_sd)) * (1 + shift) / gap + 2e-12
    assert exact - slack <= bounds.lower <= exact + slack
    assert exact - slack <= bounds.upper <= exact + slack


@given(data=st.data(), d=st.integers(1, 4), size=st.floats(1e-6, 6))
@settings(deadline=None, max_examples=examples(60))
def test_bounds_are_exact_for_equal_covariances(data, d, size):
    covariance = data.draw(covariance_matrices(d))
    mean = size * np.linalg.cholesky(covariance) @ np.ones(d) / math.sqrt(d)
    bounds, exact = total_variation_bounds(np.zeros(d), covariance, mean, covariance), math.erf(size / math.sqrt(8))
    slack = (2 * rounding(covariance) + 1e-11) * exact
    assert exact - slack <= bounds.lower and bounds.upper <= exact + slack


@given(d=st.integers(1, 8), log_ratio=st.floats(0.01, 8), shift=st.floats(0, 2))
@settings(deadline=None, max_examples=examples(60))
def test_lower_bound_is_exact_for_multiples_of_one_covariance_and_grows_with_the_means(d, log_ratio, shift):
    ratio = math.exp(log_ratio)
    square = d * ratio * log_ratio / (ratio - 1)
    exact = stats.chi2.cdf(square, d) - stats.chi2.cdf(square / ratio, d)
    centred = total_variation_bounds(np.zeros(d), np.eye(d), np.zeros(d), ratio * np.eye(d))
    assert centred.lower == pytest.approx(exact, abs=1e-12 * ratio) and exact <= centred.upper
    moved = total_variation_bounds(np.zeros(d), np.eye(d), np.full(d, shift), ratio * np.eye(d))
    assert moved.lower >= centred.lower - 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_bounds_meet_the_monte_carlo_interval(seed):
    rng = np.random.default_rng([20240601, seed])
    d = 2 + seed % 2
    factor, noise = rng.normal(size=(d, 2 * d)), rng.normal(size=(d, 2 * d))
    first = factor @ factor.T
    other = factor + noise * 10 ** rng.uniform(-2, 0.5)
    second, mean = other @ other.T, rng.normal(size=d) * 10 ** rng.uniform(-1, 0.5)
    bounds = total_variation_bounds(np.zeros(d), first, mean, second)
    estimate, interval = total_variation_monte_carlo(
        np.zeros(d), first, mean, second, n_samples=20_000, confidence=1 - 1e-6, rng=rng
    )  # false alarm of the 30 cases together: 3e-5
    assert estimate in interval
    assert interval.lower <= bounds.upper and bounds.lower <= interval.upper


def test_a_planted_wrong_bound_is_caught_by_the_monte_carlo_interval():
    _, interval = total_variation_monte_carlo(
        [0.0, 0.0],
        np.eye(2),
        [1.0, 0.0],
        np.eye(2),
        n_samples=20_000,
        confidence=1 - 1e-6,
        rng=np.random.default_rng(3),
    )
    assert interval.lower > total_variation_1d(0.0, 1.0, 0.9, 1.0) and interval.upper < total_variation_1d(0, 1, 1.1, 1)


@pytest.mark.thorough
def test_monte_carlo_intervals_cover():
    rng, exact = np.random.default_rng(20240602), total_variation_1d(0.0, 1.0, 0.5, 2.0)
    runs = [
        total_variation_monte_carlo([0.0], [[1.0]], [0.5], [[4.0]], n_samples=500, confidence=0.9, rng=rng)
        for _ in range(300)
    ]
    missed = sum(exact not in interval for _, interval in runs)
    assert missed <= stats.binom.ppf(1 - 1e-6, 300, 0.1)
    means = np.array([estimate for estimate, _ in runs])
    # Unbiased: a t-test at 1e-6 (|t| < 5.0 with 299 degrees of freedom).
    assert abs(means.mean() - exact) < 5.0 * means.std(ddof=1) / math.sqrt(300)


def test_monte_carlo_of_mixtures_agrees_with_quadrature():
    first = Mixture([0.3, 0.7], [[0.0], [3.0]], [[[1.0]], [[0.5]]])
    second = Mixture([0.6, 0.4], [[0.2], [2.0]], [[[1.5]], [[0.5]]])
    grid = np.linspace(-12, 12, 200_001)[:, None]  # step 1.2e-4: the trapezoidal error is below 1e-7
    gap = np.abs(np.exp(first.log_density(grid)) - np.exp(second.log_density(grid))) / 2
    exact = float(np.trapezoid(gap, grid[:, 0]))
    rng = np.random.default_rng(5)
    estimate, interval = total_variation_mixtures(first, second, n_samples=50_000, confidence=1 - 1e-6, rng=rng)
    assert exact in interval and interval.upper - interval.lower < 0.02
    assert estimate == pytest.approx(exact, abs=0.01)


@given(pair=similar_mixtures(2), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(40))
def test_monte_carlo_stays_in_the_unit_interval_and_is_zero_for_equal_mixtures(pair, seed):
    rng = np.random.default_rng(seed)
    estimate, interval = total_variation_mixtures(*pair, n_samples=50, rng=rng)
    assert 0 <= interval.lower <= estimate <= interval.upper <= 1
    assert total_variation_mixtures(pair[0], pair[0], n_samples=50, rng=rng)[0] == 0


def test_arguments_that_disagree_are_named():
    one, two = Mixture([1.0], [[0.0]], [[[1.0]]]), Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    with pytest.raises(ValueError, match="same n_features, got 1 and 2"):
        total_variation_mixtures(one, two, n_samples=10, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="same length, got 1 and 2"):
        total_variation_bounds([0.0], [[1.0]], [0.0, 0.0], np.eye(2))
    with pytest.raises(ValueError, match="confidence"):
        total_variation_mixtures(one, one, n_samples=10, confidence=1.0, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="n_samples must be at least 2"):
        total_variation_mixtures(one, one, n_samples=1, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="positive definite"):
        total_variation_bounds([0.0], [[-1.0]], [0.0], [[1.0]])
