"""Affine-invariant distances of lifted components, validity, and the friend table: values, margins, isolation of fits."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.learners.fit_arrays import Fits, stack_fits
from pm_dpgmm.methods.populous.agreement import AgreementRule, distance_lifted, friend_table, valid_fits
from pm_dpgmm.mixture.affine_invariant import eigenvalues_into, factorise, invert, jeffreys
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.examples import examples
from tests.builders.subset_fits import plain, random_covariances, rule_for, sampled
from verification.claims.aggregated import reference

EPS = np.finfo(float).eps


def with_fit(fits, i, j, **changes):
    """``fits`` with fit i replaced by fit j and then changed."""
    copy = Fits(*(np.array(part) for part in (fits.weights, fits.means, fits.covariances, fits.given)))
    for name in ("weights", "means", "covariances", "given"):
        getattr(copy, name)[i] = changes.get(name, getattr(fits, name)[j])
    return copy


@pytest.mark.parametrize("n", [1, 2, 3, 6, 21])
def test_eigenvalues_agree_with_lapack(n):
    rng = np.random.default_rng(n)
    square = rng.standard_normal((50, n, n))
    cases = [*(square + np.swapaxes(square, 1, 2)), np.eye(n), np.zeros((n, n)), np.ones((n, n))]
    cases += [1e140 * cases[0], 1e-140 * cases[0], np.diag(np.arange(n) - 1.0)]
    for matrix in cases:
        values = np.empty(n)
        assert eigenvalues_into(matrix.copy(), values, np.empty(n), np.empty((2, n)))
        size = np.linalg.norm(matrix)
        assert np.sort(values) == pytest.approx(np.linalg.eigvalsh(matrix), abs=20 * n * EPS * size, rel=0)
    matrix = np.eye(n)
    for bad in (np.nan, np.inf):
        matrix[-1, -1] = bad
        assert not eigenvalues_into(matrix, np.empty(n), np.empty(n), np.empty((2, n)))


@given(d=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(60))
def test_distance_agrees_with_the_reference_and_is_affine_invariant(d, seed):
    rng = np.random.default_rng(seed)
    first, second = random_covariances(rng, 2, d)
    sd = np.sqrt(np.diag(first))
    mean, mean2 = sd * rng.standard_normal((2, d))
    value = distance_lifted(mean, first, mean2, second)
    one, other = (reference.Fit(np.ones(1), m[None], c[None]) for m, c in ((mean, first), (mean2, second)))
    # Relative eigenvalues are wrong by the condition numbers of the two correlation matrices.
    error = 100 * d**2 * EPS * np.linalg.cond(first / np.outer(sd, sd)) * math.exp(math.sqrt(2) * value)
    assert value == pytest.approx(reference.distances(one, other)[0, 0], abs=error)
    assert value == pytest.approx(distance_lifted(mean2, second, mean, first), abs=error * math.exp(value))
    unit = 2.0 ** rng.integers(-20, 20, d)  # exact
    scale = np.outer(unit, unit)
    assert distance_lifted(mean * unit, first * scale, mean2 * unit, second * scale) == value
    assert distance_lifted(mean, first, mean, first) <= error


def test_known_distances():
    # Two unit normals m apart: 2 sqrt(2) asinh(m/2); a change of scale alone: |log of the variance ratio|.
    assert distance_lifted([0.0], [[1.0]], [4.0], [[1.0]]) == pytest.approx(2 * math.sqrt(2) * math.asinh(2))
    assert distance_lifted([7.0], [[2.0]], [7.0], [[6.0]]) == pytest.approx(math.log(3))
    assert np.isnan(distance_lifted([0.0], [[-1.0]], [0.0], [[1.0]]))
    assert np.isnan(distance_lifted([np.nan], [[1.0]], [0.0], [[1.0]]))
    assert np.isnan(distance_lifted([0.0], [[1.0]], [0.0], [[np.inf]]))


@given(d=st.integers(1, 5), n=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(40))
def test_a_pair_does_not_depend_on_its_batch(d, n, seed):
    rng = np.random.default_rng(seed)
    covariances, means = random_covariances(rng, 2 * n, d), rng.standard_normal((2 * n, d))
    table = distance_lifted(means[:n, None], covariances[:n, None], means[n:], covariances[n:])
    for i, j in np.ndindex(n, n):
        assert table[i, j] == distance_lifted(means[i], covariances[i], means[n + j], covariances[n + j])


@pytest.mark.parametrize("d", [1, 2, 5, 12])
@pytest.mark.parametrize("size", [0.01, 0.3, 3.0])
def test_the_divergence_bounds_the_distance_from_both_sides(d, size):
    rng = np.random.default_rng(d)
    for _ in range(50):
        first = random_covariances(rng, 1, d)[0]
        factor = np.linalg.cholesky(first)
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
        second = factor @ (turn * np.exp(size * rng.standard_normal(d))) @ turn.T @ factor.T
        second = (second + second.T) / 2
        gap = factor @ rng.standard_normal(d) * size / 3
        value = distance_lifted(gap, first, 0 * gap, second)
        divergence = jeffreys(gap, first, precision(first), 0 * gap, second, precision(second))
        low, high = (
            2 * math.asinh(math.sqrt(divergence) / 2),
            2 * math.sqrt(d + 1) * math.asinh(math.sqrt(divergence / (d + 1)) / 2),
        )
        # J is off by rounding, and the root of J by that over the distance.
        error = 1e-11 * math.exp(2 * size) / size + 1e-10 * value
        assert low - error <= value <= high + error
        for i in range(d):
            marginal = distance_lifted(gap[i : i + 1], first[i : i + 1, i : i + 1], [0.0], second[i : i + 1, i : i + 1])
            assert marginal <= value + error


def precision(covariance):
    factor, half, found = np.empty((3, *covariance.shape))
    assert factorise(covariance, factor)
    invert(factor, half, found)
    return found


@pytest.mark.parametrize("d", [2, 5, 20])
def test_the_error_of_the_divergence_is_within_what_the_rule_allows(d):
    """At the largest condition number, against twice the precision."""
    import mpmath

    rng, rule = np.random.default_rng(d), AgreementRule(1, d, 0.3, 0.3)
    for _ in range(3):
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
        first = (turn * np.geomspace(1, 1e-6, d)) @ turn.T
        first = (first + first.T) / 2
        sd = np.sqrt(np.diag(first))
        assert 1e5 < np.linalg.cond(first / np.outer(sd, sd)) < 3e6
        factor = np.linalg.cholesky(first)
        inner = np.eye(d) + 0.1 / d * rng.standard_normal((d, d))
        second = factor @ inner @ inner.T @ factor.T
        second, gap = (second + second.T) / 2, 0.05 * factor @ rng.standard_normal(d) / math.sqrt(d)
        with mpmath.workdps(40):
            a, b, m = mpmath.matrix(first), mpmath.matrix(second), mpmath.matrix(gap)
            inverse, inverse2 = a**-1, b**-1
            product, product2 = inverse * b, inverse2 * a
            exact = sum(product[i, i] + product2[i, i] for i in range(d)) - 2 * d
            exact += (m.T * (inverse + inverse2) * m)[0]
        found = jeffreys(gap, first, precision(first), 0 * gap, second, precision(second))
        assert abs(found - float(exact)) <= rule.divergence_error


@pytest.mark.parametrize("d", [2, 4])
def test_a_large_divergence_is_too_small_by_a_share_of_itself(d):
    """Opposite correlations on equal axes: J is about the condition number, and off by far more than the rule allows."""
    rng, rule, beyond = np.random.default_rng(d), AgreementRule(1, d, 0.3, 0.3), 0
    relative = 1.2e-16 * d * (d + 2) * rule.largest_condition  # of Cholesky, in the order of matrices
    for _ in range(20):
        near = 1 - 4e-6 * rng.uniform(1, 2)
        first, second = np.eye(d), np.eye(d)
        first[0, 1] = first[1, 0] = near
        second[0, 1] = second[1, 0] = -near
        exact = 8 * Fraction(near) ** 2 / (1 - Fraction(near) ** 2)
        found = Fraction(jeffreys(np.zeros(d), first, precision(first), np.zeros(d), second, precision(second)))
        beyond += exact - found > rule.divergence_error
        assert found >= exact * (1 - Fraction(relative)) - Fraction(rule.divergence_error)
    assert beyond > 0


def test_inverse_factors_are_right_from_the_left():
    """|X L - I| <= (d + 1) u |X| |L| entry by entry (Higham 2002, section 14.2), in exact arithmetic.

    Factors whose inverses are large; solved by columns, so that L X - I is small, X L - I is ten times too large.
    """
    rng, d, worst = np.random.default_rng(20), 20, 0.0
    for _ in range(20):
        factor = np.tril(rng.standard_normal((d, d)))
        np.fill_diagonal(factor, 0.1 + np.abs(np.diag(factor)))
        half = np.empty((d, d))
        invert(factor, half, np.empty((d, d)))
        x, y = ([[Fraction(value) for value in row] for row in matrix.tolist()] for matrix in (half, factor))
        for i in range(d):
            for j in range(i + 1):
                terms = [x[i][m] * y[m][j] for m in range(j, i + 1)]
                worst = max(worst, float(abs(sum(terms) - (i == j)) / sum(abs(term) for term in terms)))
    assert worst <= (d + 1) * EPS / 2


@pytest.mark.parametrize("core", ["triple", "pair"])
@pytest.mark.parametrize("k, d, n", [(1, 1, 50), (2, 1, 400), (3, 2, 300), (2, 5, 600), (4, 8, 900)])
def test_the_table_is_that_of_the_reference(k, d, n, core):
    rng = np.random.default_rng(20241121)
    fits = sampled(rng, 24, k, d, n, outliers=3)
    rule = rule_for(k, d, n, core=core)
    within, well_within = (
        reference.friend_table(plain(fits), reference.Settings(24, k, *radii, core == "triple", top=0, full=0))
        for radii in (
            (rule.component_radius, rule.fit_radius),
            (rule.component_radius - 2 * rule.margin, rule.fit_radius - 2 * rule.fit_margin),
        )
    )
    table = friend_table(fits, rule)
    assert (table <= within).all() and (table >= well_within).all()
    assert valid_fits(fits, rule).all() and within.diagonal().all() and 0.1 < table.mean() < 0.95


def test_weights_count():
    fits = sampled(np.random.default_rng(3), 2, 2, 2, 400)
    rule = AgreementRule(2, 2, 0.5, 0.6)
    assert friend_table(fits, rule)[0, 1]
    far = fits.weights[1] + [0.6 * rule.kappa, -0.6 * rule.kappa]
    assert not friend_table(with_fit(fits, 1, 1, weights=far), rule)[0, 1]


@pytest.mark.parametrize("by, friends", [(-3, True), (0, False), (3, False)])
@pytest.mark.parametrize("fit_radius, component_radius", [(0.3, 0.6), (0.6, 0.3)])
def test_distances_are_compared_with_the_radii_less_the_margin(by, friends, fit_radius, component_radius):
    rule = AgreementRule(1, 1, component_radius, fit_radius)
    ratio = math.exp(0.3 + by * rule.margin)
    fits = Fits(
        np.ones((2, 1)), np.zeros((2, 1, 1)), np.array([1.0, ratio]).reshape(2, 1, 1, 1), np.ones(2, dtype=bool)
    )
    assert friend_table(fits, rule)[0, 1] == friends


def bad_fits(fits):
    """Name and fit that must be invalid."""
    means, covariances, weights = fits.means[0], fits.covariances[0], fits.weights[0]
    yield "not given", {"given": False}
    for bad in (np.nan, np.inf, -np.inf):
        yield f"mean {bad}", {"means": np.where(np.arange(means.size).reshape(means.shape) == 1, bad, means)}
        yield f"weight {bad}", {"weights": np.where(np.arange(len(weights)) == 1, bad, weights)}
        broken = covariances.copy()
        broken[1, 1, 0] = broken[1, 0, 1] = bad
        yield f"covariance {bad}", {"covariances": broken}
        broken = covariances.copy()
        broken[1, 0, 0] = bad
        yield f"variance {bad}", {"covariances": broken}
    yield "weight 1e13", {"weights": weights + 1e13}  # its last bit is worth more than the error of an average
    yield "zero", {"covariances": 0 * covariances}
    yield "negative", {"covariances": -covariances}
    singular = covariances.copy()
    singular[0] = np.outer(*[np.sqrt(np.diag(singular[0]))] * 2)
    yield "singular", {"covariances": singular}
    yield "huge", {"means": means * 1e300, "covariances": covariances}
    yield "tiny", {"covariances": covariances * 1e-200}
    yield "one component twice", {"means": means[[0, 0, 1]], "covariances": covariances[[0, 0, 1]]}


def test_a_bad_fit_is_nobodys_friend_and_moves_nothing_else():
    fits, rule = sampled(np.random.default_rng(4), 12, 3, 2, 300), rule_for(3, 2, 300, share=1.3)
    table = friend_table(fits, rule)
    others = np.arange(12) != 5
    assert table[5].sum() > 3 and table.diagonal().all()
    for name, changes in bad_fits(fits):
        replaced = friend_table(with_fit(fits, 5, 0, **changes), rule, n_threads=2)
        assert not replaced[5].any() and not replaced[:, 5].any(), name
        assert (replaced[np.ix_(others, others)] == table[np.ix_(others, others)]).all(), name


@pytest.mark.parametrize("k, d, n", [(1, 1, 50), (3, 2, 300), (2, 7, 6000)])
def test_replacing_one_fit_leaves_every_other_entry(k, d, n):
    """The radius is a distance of the table, so that a last bit decides."""
    rng = np.random.default_rng(5)
    fits = sampled(rng, 20, k, d, n)
    changed = with_fit(fits, 7, 0, means=fits.means[7] * 1.01)
    others = np.arange(20) != 7
    near = [  # NaN: far apart
        np.nanmin(distance_lifted(fits.means[4, 0], fits.covariances[4, 0], fits.means[j], fits.covariances[j]))
        for j in (5, 6, 8)
    ]
    for distance, beyond in itertools.product(near, (0.0, 1e-15, 1e-14, 1e-13, 1e-12)):
        rule = AgreementRule(k, d, float(distance) + 1e-5 + beyond, 10.0)
        assert rule.margin == 1e-5
        table = friend_table(fits, rule)
        assert (table == table.T).all()
        for threads in (1, 2, 5):
            assert (friend_table(fits, rule, n_threads=threads) == table).all()
            after = friend_table(changed, rule, n_threads=threads)
            assert (after[np.ix_(others, others)] == table[np.ix_(others, others)]).all()
        few = Fits(*(part[3:9] for part in (fits.weights, fits.means, fits.covariances, fits.given)))
        assert (friend_table(few, rule) == table[3:9, 3:9]).all()


def test_offset_and_unit_of_the_data_do_not_matter():
    fits, rule = sampled(np.random.default_rng(6), 16, 2, 3, 300), rule_for(2, 3, 300)
    table = friend_table(fits, rule)
    assert 0.2 < table.mean() < 0.95
    unit = 10.0 ** np.array([-6, 0, 6])
    offset = 1e6 * np.sqrt(fits.covariances[0, 0].diagonal()) * unit
    moved = Fits(
        fits.weights, fits.means * unit + offset, fits.covariances * unit[:, None] * unit, np.ones(16, dtype=bool)
    )
    assert (friend_table(moved, rule) == table).all()


@pytest.mark.parametrize("core, valid", [("pair", False), ("triple", True)])
def test_the_circle_of_the_note_is_invalid_under_the_pair_rule(core, valid):
    """Sixteen components on a circle, 5.96 radii apart: turned in six steps, alignments do not compose."""
    k, radius = 16, 0.2
    angles = 2 * np.pi * np.arange(k) / k
    circle = 5.96 * radius / (2 * math.sin(math.pi / k)) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    covariances = np.exp(circle)[None, :, :, None] * np.eye(2)
    fits = Fits(np.full((1, k), 1 / k), np.zeros((1, k, 2)), covariances, np.ones(1, dtype=bool))
    assert valid_fits(fits, AgreementRule(k, 2, radius, 1.0, core=core)).tolist() == [valid]


def test_distant_components_are_separate_even_where_rounding_hides_the_distance():
    rule = AgreementRule(2, 1, 0.5, 0.5)
    for gap in (1e3, 1e9, 1e40, 1e69):
        fit = Mixture([0.5, 0.5], [[0.0], [gap]], [[[1.0]], [[1.0]]])
        assert valid_fits(stack_fits([fit], rule.n_components, rule.n_features), rule).all()


def test_stacked_fits_are_those_of_the_right_size():
    rule = AgreementRule(1, 2, 0.5, 0.5)
    good, wrong = Mixture([1.0], [[1.0, 2.0]], [np.eye(2)]), Mixture([0.5, 0.5], [[1.0, 2.0]] * 2, [np.eye(2)] * 2)
    stacked = stack_fits(
        [good, None, wrong, Mixture([1.0], [[1.0]], [[[1.0]]]), good], rule.n_components, rule.n_features
    )
    assert stacked.given.tolist() == [True, False, False, False, True]
    table = friend_table(stacked, rule)
    assert np.flatnonzero(table[0]).tolist() == [0, 4] and not table[1:4].any()
    assert friend_table(stack_fits([], rule.n_components, rule.n_features), rule).shape == (0, 0)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"component_radius": 0.0}, "component_radius"),
        ({"component_radius": 1e-6}, "larger than twice the rounding"),
        ({"fit_radius": math.nan}, "fit_radius"),
        ({"core": "quadruple"}, "core must be one of"),
        ({"weight_scale": -1.0}, "weight_scale"),
        ({"largest_condition": math.inf}, "largest_condition"),
        ({"largest_condition": 1e16}, "larger than twice the rounding"),
        ({"n_components": 0}, "n_components"),
    ],
)
def test_rules_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        AgreementRule(**({"n_components": 2, "n_features": 2, "component_radius": 0.5, "fit_radius": 0.5} | changes))


def test_the_numbers_of_a_rule():
    triple, pair = (AgreementRule(3, 5, 0.8, 1.1, core=core) for core in ("triple", "pair"))
    assert (triple.separation, pair.separation) == (3.2, pytest.approx(4.8))
    assert triple.kappa == pytest.approx(1 / (3 * math.sqrt(2)))
    for t in range(1, 400):
        assert triple.core_floor(t) == reference.core_floor(t, triple=True)
        assert pair.core_floor(t) == reference.core_floor(t, triple=False)
        assert 3 * triple.core_floor(t) - 2 * t + 2 >= 1 and 2 * pair.core_floor(t) - t + 1 >= 1
    assert triple.core_floor(341) == 227
    assert pair.margin == pytest.approx(max(1e-5, 4e-16 * 25 * 1e6 * math.exp(1.5 * 4.8)))
    assert triple.average_error == pytest.approx(max(1e-6, 4e-16 * math.sqrt(3) * 25 * 1e6 * math.exp(3.2)))
