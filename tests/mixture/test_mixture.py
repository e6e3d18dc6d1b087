import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.special import logsumexp

from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.records.transformation import Transformation
from pm_dpgmm.records.transformed_columns import TransformedColumns
from pm_dpgmm.records.transformed_mixture import TransformedMixture
from tests.builders.examples import examples
from verification.claims.common.strategies import mixtures

TWO = Mixture([0.3, 0.7], [[0.0, 1.0], [4.0, -2.0]], [[[1.0, 0.3], [0.3, 2.0]], [[0.5, 0.0], [0.0, 3.0]]])

RNG = np.random.default_rng(4)


def test_density_and_responsibilities_agree_with_scipy():
    points = np.random.default_rng(0).normal(size=(50, 2)) * 3
    logs = np.column_stack(
        [stats.multivariate_normal(m, s).logpdf(points) for m, s in zip(TWO.means, TWO.covariances, strict=True)]
    )
    expected = logsumexp(logs, b=TWO.weights, axis=1)
    assert TWO.log_density(points) == pytest.approx(expected, rel=1e-12)
    shares = TWO.responsibilities(points)
    assert shares == pytest.approx(TWO.weights * np.exp(logs - expected[:, None]), rel=1e-9)


def test_densities_of_many_rows_take_little_more_memory_than_rows():
    centres = np.random.default_rng(3).normal(size=(64, 2))
    mixture = Mixture(np.full(64, 1 / 64), centres, np.tile(np.eye(2), (64, 1, 1)))
    points = np.random.default_rng(4).normal(size=(200_000, 2))  # 100 MB of densities of components
    tracemalloc.start()
    found = mixture.log_density(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert found[[0, -1]] == pytest.approx(mixture.log_density(points[[0, -1]]), rel=1e-12)


def test_samples_take_the_memory_of_their_rows():
    """A factor was copied for every row: 40 times the memory here."""
    mixture = Mixture([0.5, 0.5], np.zeros((2, 40)), np.array([np.eye(40), 4 * np.eye(40)]))
    tracemalloc.start()
    rows = mixture.sample(50_000, rng=np.random.default_rng(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * rows.nbytes
    labels = np.random.default_rng(1).choice(2, size=50_000, p=[0.5, 0.5])
    assert rows[labels == 0].std() == pytest.approx(1, rel=0.01) and rows[labels == 1].std() == pytest.approx(
        2, rel=0.01
    )


def test_samples_have_the_moments_of_the_mixture():
    points = TWO.sample(40_000, rng=np.random.default_rng(1))
    assert points.mean(axis=0) == pytest.approx(TWO.mean(), abs=6 * 2.5 / 200)
    assert np.cov(points.T) == pytest.approx(TWO.covariance(), abs=6 * 9 / 200)


def test_samples_are_of_a_generator_a_seed_or_fresh_entropy():
    seeded = TWO.sample(3, rng=5)
    assert (seeded == TWO.sample(3, rng=np.random.default_rng(5))).all()
    assert (TWO.sample(3) != TWO.sample(3)).any()
    with pytest.raises(ValueError, match="rng must be at least 0, got -1"):
        TWO.sample(3, rng=-1)
    with pytest.raises(ValueError, match="n_points must be at most 1099511627776, got 1000"):
        TWO.sample(10**30)
    law = TransformedMixture(TWO, TransformedColumns((Transformation.log(1.0), Transformation.asinh(1.0))))
    assert law.sample(3, rng=5) == pytest.approx(law.transformations.to_units(seeded), rel=1e-12)
    assert law.sample(3).shape == (3, 2)


def test_rows_whose_distances_overflow_belong_to_the_broadest_component_of_their_direction():
    """They had NaN."""
    wide_in_one = [[[9.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 9.0]]]
    mixture = Mixture([0.3, 0.7], [[0.0, 0.0], [1.0, 1.0]], wide_in_one)
    with np.errstate(over="raise", invalid="raise"):
        shares = mixture.responsibilities([[1e200, 0.0], [0.0, -1e308], [0.0, 0.0]])
    assert shares[:2].tolist() == [[1.0, 0.0], [0.0, 1.0]] and 0 < shares[2, 0] < 1
    one_near = Mixture([0.3, 0.7], [[0.0, 0.0], [1e200, 0.0]], wide_in_one)
    assert one_near.responsibilities([[0.0, 0.0]]).tolist() == [[1.0, 0.0]]
    beyond = Mixture([0.3, 0.7], [[1e200, 0.0], [1e210, 0.0]], wide_in_one)  # no row is near enough
    assert beyond.responsibilities([[0.0, 0.0]]) == pytest.approx(np.array([[0.3, 0.7]]))


def test_far_rows_have_no_density_and_a_component_without_weight_no_row():
    """Of correlated columns the density of a row that a float can hold was NaN; weight 0 was 1e-300."""
    mixture = Mixture([1.0, 0.0], [[0.0, 0.0]] * 2, [[[1.0, 0.9], [0.9, 1.0]], 1e6 * np.eye(2)])
    with np.errstate(over="ignore", invalid="ignore"):
        assert mixture.log_density([[1e308, 1e308]]).tolist() == [-np.inf]
    assert mixture.responsibilities([[60.0, 0.0], [1e300, 0.0], [0.0, 0.0]]).tolist() == [[1.0, 0.0]] * 3


def test_a_component_of_weight_0_is_harmless():
    mixture = Mixture([0.0, 1.0], [[0.0], [1.0]], [[[1.0]], [[1.0]]])
    with np.errstate(all="raise"):
        assert mixture.responsibilities([[0.5]]) == pytest.approx(np.array([[0.0, 1.0]]))
        assert np.isfinite(mixture.log_density([[0.5]])).all()


@given(mixtures())
@settings(deadline=None, max_examples=examples(50))
def test_relabelling_and_affine_maps_move_the_density_as_they_must(mixture):
    d = mixture.n_features
    points = mixture.means + 0.3 * np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))
    backwards = mixture.permuted(range(mixture.n_components)[::-1])
    assert backwards.log_density(points) == pytest.approx(mixture.log_density(points), rel=1e-9, abs=1e-9)
    scaled = mixture.transformed(2.0 * np.eye(d), offset=0.0)
    assert scaled.log_density(2.0 * points) == pytest.approx(
        mixture.log_density(points) - d * np.log(2.0), rel=1e-9, abs=1e-9
    )


@pytest.mark.parametrize(
    "weights, means, covariances, words",
    [
        ([1.0], [0.0], [[[1.0]]], r"means must have shape \(n_components, n_features\), got \(1,\)"),
        ([1.0], [[]], [[[1.0]]], "means must have shape"),
        ([0.5, 0.5], [[0.0]], [[[1.0]]], r"weights must have shape \(1,\), got \(2,\)"),
        ([1.0], [[0.0]], [[1.0]], r"covariances must have shape \(1, 1, 1\), got \(1, 1\)"),
        ([1.0], [[np.nan]], [[[1.0]]], "means must be finite, got nan"),
        ([0.5, 0.6], [[0.0], [1.0]], [[[1.0]], [[1.0]]], "weights must not be negative and must sum to 1"),
        ([-0.5, 1.5], [[0.0], [1.0]], [[[1.0]], [[1.0]]], "weights must not be negative"),
        ([1.0], [[0.0]], [[[0.0]]], "covariances must be positive definite"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 0.5], [0.1, 1.0]]], "covariances must be symmetric"),
        ([1.0], [[0.0, 0.0]], [[[1.0, 2.0], [2.0, 1.0]]], "covariances must be positive definite"),
    ],
)
def test_invalid_parameters_are_refused(weights, means, covariances, words):
    with pytest.raises(ValueError, match=words):
        Mixture(weights, means, covariances)


def test_points_and_orders_are_checked():
    with pytest.raises(ValueError, match=r"points must have shape \(n_points, 2\), got \(3, 1\)"):
        TWO.log_density(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="order must be a permutation"):
        TWO.permuted([0, 0])
    with pytest.raises(ValueError, match=r"order must have shape \(2,\), got \(\)"):
        TWO.permuted(3)
    with pytest.raises(ValueError, match="matrix must be an array of numbers, got None"):
        TWO.transformed(None)
    with pytest.raises(ValueError, match=r"offset must be a number or have shape \(2,\), got \(3,\)"):
        TWO.transformed(np.eye(2), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="n_points must be at least 1"):
        TWO.sample(0, rng=np.random.default_rng(0))


def test_a_mixture_is_frozen_and_copies_its_arguments():
    means = np.zeros((1, 1))
    mixture = Mixture([1.0], means, [[[1.0]]])
    means[0, 0] = 5.0
    assert mixture.means[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        mixture.means[0, 0] = 1.0
    with pytest.raises(AttributeError):
        mixture.weights = np.ones(1)


THREE = Mixture(
    [0.2, 0.5, 0.3],
    [[0.0, 1.0, -1.0], [4.0, -2.0, 0.5], [1.0, 1.0, 2.0]],
    [
        [[1.0, 0.3, 0.2], [0.3, 2.0, -0.4], [0.2, -0.4, 0.7]],
        [[0.5, 0.0, 0.1], [0.0, 3.0, 0.9], [0.1, 0.9, 1.1]],
        [[2.0, -1.0, 0.0], [-1.0, 1.5, 0.3], [0.0, 0.3, 0.4]],
    ],
)


def parts(mixture):
    return mixture.weights, mixture.means, mixture.covariances


def test_a_marginal_is_the_integral_of_the_density():
    x = np.linspace(-30, 30, 2001)  # trapezium rule: exact to rounding for densities as smooth as these
    for column, value in ((0, -0.7), (1, 3.0)):
        line = np.column_stack([np.full_like(x, value), x] if column == 0 else [x, np.full_like(x, value)])
        integral = np.exp(TWO.log_density(line)).sum() * (x[1] - x[0])
        assert np.exp(TWO.marginal([column]).log_density([[value]])) == pytest.approx(integral, rel=1e-12)


def test_a_marginal_keeps_the_order_it_is_asked_for():
    swapped = THREE.marginal(np.array([2, 0]))
    assert np.array_equal(swapped.means, THREE.means[:, [2, 0]])
    assert np.array_equal(swapped.covariances[:, 0, 1], THREE.covariances[:, 2, 0])
    for mine, theirs in zip(parts(THREE.marginal(range(3))), parts(THREE), strict=True):
        assert np.array_equal(mine, theirs)
    points = RNG.normal(size=(5, 3))
    assert THREE.marginal([2, 0, 1]).log_density(points[:, [2, 0, 1]]) == pytest.approx(
        THREE.log_density(points), rel=1e-12
    )


@pytest.mark.parametrize("given", [{0: 1.0}, {2: -0.5}, {0: 3.0, 2: 1.0}, {2: 1.0, 1: np.float64(-4)}])
def test_a_conditional_density_is_the_joint_one_over_the_marginal(given):
    known, free = list(given), [j for j in range(3) if j not in given]
    points = np.empty((40, 3))
    points[:, known] = list(given.values())
    points[:, free] = 3 * RNG.normal(size=(40, len(free)))
    bayes = THREE.log_density(points) - THREE.marginal(known).log_density(points[:, known])
    assert THREE.conditional(given).log_density(points[:, free]) == pytest.approx(bayes, rel=1e-11, abs=1e-11)
    assert THREE.conditional(given).weights == pytest.approx(
        THREE.marginal(known).responsibilities(points[:1, known])[0]
    )


def test_conditionals_average_to_the_marginal():
    """The law of total probability, by quadrature over the known column."""
    x = np.linspace(-25, 25, 1001)
    shares = np.exp(TWO.marginal([0]).log_density(x[:, None])) * (x[1] - x[0])
    y = np.array([[-3.0], [0.0], [1.7]])
    average = sum(share * np.exp(TWO.conditional({0: v}).log_density(y)) for v, share in zip(x, shares, strict=True))
    assert average == pytest.approx(np.exp(TWO.marginal([1]).log_density(y)), rel=1e-11)


def test_conditioning_step_by_step_is_conditioning_at_once():
    once, twice = THREE.conditional({0: 2.0, 1: -1.0}), THREE.conditional({0: 2.0}).conditional({0: -1.0})
    for mine, theirs in zip(parts(once), parts(twice), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-12)


@given(mixtures(), st.data())
@settings(deadline=None, max_examples=examples(80))
def test_bayes_rule_holds_for_hostile_mixtures(mixture, data):
    d = mixture.n_features
    if d == 1:
        return
    column = data.draw(st.integers(0, d - 1))
    sd = np.sqrt(mixture.covariances[:, column, column])
    value = float((mixture.means[:, column] + sd * data.draw(st.floats(-50, 50)))[0])
    conditional = mixture.conditional({column: value})
    shares = mixture.marginal([column]).responsibilities([[value]])[0]
    assert conditional.weights == pytest.approx(shares, rel=1e-6, abs=1e-9)
    rest = [j for j in range(d) if j != column]
    for k in range(mixture.n_components):
        slope = mixture.covariances[k][rest, column] / sd[k] ** 2
        expected = mixture.means[k, rest] + slope * (value - mixture.means[k, column])
        spread = np.sqrt(np.diagonal(mixture.covariances[k])[rest])
        size = np.abs(mixture.means[k, rest]) + np.abs(slope) * (abs(value) + abs(mixture.means[k, column])) + spread
        assert (np.abs(conditional.means[k] - expected) <= 1e-7 * size).all()  # condition number 1e8 times rounding


def test_far_from_all_components_the_weights_follow_the_tails():
    equal = Mixture([0.3, 0.7], [[0.0, 0.0], [1.0, 5.0]], [np.eye(2), np.eye(2)])
    near = Mixture([0.3, 0.7], [[0.0, 0.0], [2.0**-20, 5.0]], [np.eye(2), np.eye(2)])
    wide = Mixture([1 - 1e-9, 1e-9], [[0.0, 0.0], [0.0, 5.0]], [np.eye(2), 1.01 * np.eye(2)])
    twins = Mixture([0.25, 0.75, 0.0], [[0.0, 0.0], [0.0, 5.0], [9.0, 0.0]], [np.eye(2)] * 2 + [1e6 * np.eye(2)])
    with np.errstate(all="raise", under="ignore"):
        share = 0.7 * np.exp(1 - 2.0**-41)  # half of (2^20)^2 - (2^20 - 2^-20)^2
        assert near.conditional({0: 2.0**20}).weights == pytest.approx(np.array([0.3, share]) / (0.3 + share), rel=1e-9)
        for value in (1e3, 1e8, 1e15, 1e150, 1e200, 1e300, 1.7e308):
            for sign in (-1, 1):
                if value <= 1e15:  # beyond, no double tells the two distances apart
                    assert equal.conditional({0: sign * value}).weights == pytest.approx(
                        [float(sign < 0), float(sign > 0)]
                    )
                assert wide.conditional({0: sign * value}).weights == pytest.approx([0.0, 1.0])
                found = twins.conditional({0: sign * value})  # a component of weight 0 stays out, however near
                assert found.weights == pytest.approx([0.25, 0.75, 0.0], rel=1e-15)
                assert np.array_equal(found.means, twins.means[:, 1:])
        assert equal.conditional({0: 1e300}).weights == pytest.approx([0.3, 0.7])
    steep = Mixture([1.0], [[0.0, 0.0]], [[[1.0, 9.0], [9.0, 100.0]]])
    with pytest.raises(ValueError, match="given must leave the conditional means finite"):
        steep.conditional({0: 1e308})


def test_units_do_not_matter():
    scales = np.array([1e-120, 1.0, 1e120])
    scaled = THREE.transformed(np.diag(scales))
    expected = THREE.conditional({0: 3.0, 2: -2.0})
    found = scaled.conditional({0: 3e-120, 2: -2e120})
    for mine, theirs in zip(parts(found), parts(expected), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(
    "method, argument, kind, words",
    [
        ("marginal", [], ValueError, "features must name at least one column, got none"),
        ("marginal", [0, 0], ValueError, r"features must name distinct columns, got \[0, 0\]"),
        ("marginal", [3], ValueError, "features must name columns from 0 to 2, got 3"),
        ("marginal", [-1], ValueError, "a column in features must be at least 0, got -1"),
        ("marginal", [True], TypeError, "a column in features must be an integer, got True"),
        ("marginal", [0.0], TypeError, "a column in features must be an integer, got 0.0"),
        ("marginal", "01", TypeError, "a column in features must be an integer, got '0'"),
        ("marginal", 1, TypeError, "features must be a sequence of columns, got 1"),
        ("conditional", {}, ValueError, "given must name at least one column, got none"),
        (
            "conditional",
            {0: 1.0, 2: 1.0, 1: 0.0},
            ValueError,
            r"given must leave at least one of 3 columns free, got \[0, 1, 2\]",
        ),
        ("conditional", {3: 1.0}, ValueError, "given must name columns from 0 to 2, got 3"),
        ("conditional", {"a": 1.0}, TypeError, "a column in given must be an integer, got 'a'"),
        ("conditional", {0: np.nan}, ValueError, "given must have finite values, got nan"),
        ("conditional", {0: -np.inf}, ValueError, "given must have finite values, got -inf"),
        ("conditional", {0: "1"}, TypeError, r"given\[0\] must be a real number, got '1'"),
        ("conditional", {0: [1.0]}, TypeError, r"given\[0\] must be a real number"),
        ("conditional", [1.0], TypeError, r"given must map columns to values, got \[1.0\]"),
    ],
)
def test_columns_and_values_are_checked(method, argument, kind, words):
    with pytest.raises(kind, match=words):
        getattr(THREE, method)(argument)
