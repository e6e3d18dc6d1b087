"""Distances between components and mixtures: exact values, symmetry, invariance, triangle constants, matchings."""

import itertools
import math
import time
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy import optimize

from pm_dpgmm.mixture.distances import (
    bottleneck_assignment,
    component_distances,
    distance_component,
    distance_components,
    distance_covariance,
    distance_gmm,
    distance_gmm_bounds,
    distance_mean,
    distance_parameters,
    triangle_constant,
)
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.total_variation import Interval, total_variation_1d
from tests.builders.examples import examples
from verification.claims.common.strategies import (
    covariance_matrices,
    invertible_matrices,
    mixtures,
    neighbours_of,
    similar_mixtures,
)

EPS = np.finfo(float).eps
NORMS = ("frobenius", "spectral")


def condition(*covariances):
    """Largest condition number after scaling to unit diagonal, the one that rounding sees."""
    worst = 1.0
    for c in covariances:
        sd = np.sqrt(np.diag(c))
        worst = max(worst, float(np.linalg.cond(c / np.outer(sd, sd))))
    return worst


def relative_error(*covariances):
    """First-order bound for Cholesky factor, subtraction, two solves and eigenvalues: (3 d + 5) d / 2 eps kappa."""
    d = len(covariances[0])
    return 4 * d * d * EPS * condition(*covariances)


def exact_product(first, second):
    """S1^-1 (S2 - S1) in rational arithmetic; its trace of squares is the squared Frobenius norm."""
    d = len(first)
    a = [[Fraction(float(first[i, j])) for j in range(d)] for i in range(d)]
    e = [[Fraction(float(second[i, j])) - a[i][j] for j in range(d)] for i in range(d)]
    rows = [a[i] + e[i] for i in range(d)]
    for c in range(d):  # positive definite: every pivot is positive
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(d):
            if r != c:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[d:] for row in rows]


def exact_norms(first, second):
    """Frobenius and, for d <= 2, spectral norm of the symmetric form, to 50 digits."""
    p, d = exact_product(first, second), len(first)
    with localcontext() as context:
        context.prec = 60

        def root(x):
            return (Decimal(x.numerator) / Decimal(x.denominator)).sqrt()

        frobenius = root(sum((p[i][j] * p[j][i] for i in range(d) for j in range(d)), Fraction(0)))
        if d > 2:
            return float(frobenius), None
        trace = sum(p[i][i] for i in range(d))
        square = (p[0][0] - p[1][1]) ** 2 + 4 * p[0][1] * p[1][0] if d == 2 else trace**2
        half_sum, half_gap = Decimal(trace.numerator) / Decimal(trace.denominator), root(square)
        return float(frobenius), float((abs(half_sum) + half_gap) / 2)


def lower_triangle(matrix):
    """Exactly symmetric, as the exact reference needs."""
    return np.tril(matrix) + np.tril(matrix, -1).T


@given(data=st.data(), d=st.integers(1, 4))
@settings(deadline=None, max_examples=examples(60))
def test_covariance_distance_agrees_with_rational_arithmetic(data, d):
    first = lower_triangle(data.draw(covariance_matrices(d)))
    second = lower_triangle(data.draw(neighbours_of(first) | covariance_matrices(d)))
    exact = np.maximum(*(np.array(exact_norms(*pair), dtype=float) for pair in ((first, second), (second, first))))
    for norm, value in zip(NORMS, exact, strict=True):
        if not np.isnan(value):
            computed = distance_covariance(first, second, norm=norm)
            # Below 1e-300 numbers lose digits by underflow.
            assert computed == pytest.approx(value, rel=relative_error(first, second), abs=1e-300)


def test_covariance_distance_keeps_its_digits_near_equality():
    # The route through L1^-1 L2 loses all digits here: it is wrong by more than 1e-10 for a distance of 1e-12.
    rng, d = np.random.default_rng(7), 4
    q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    first = lower_triangle((q * np.array([1.0, 1e3, 1e6, 1e8])) @ q.T)
    second = first * (1 + 2.0**-40)
    second = first + lower_triangle(second - first)
    exact = max(exact_norms(first, second)[0], exact_norms(second, first)[0])
    assert distance_covariance(first, second) == pytest.approx(exact, rel=1e-7)


@given(data=st.data(), d=st.integers(1, 4), norm=st.sampled_from(NORMS), steps=st.lists(st.floats(-10, 10), min_size=4))
@settings(deadline=None, max_examples=examples(100))
def test_component_distances_are_symmetric_and_vanish_only_at_equality(data, d, norm, steps):
    first = data.draw(covariance_matrices(d))
    second = data.draw(neighbours_of(first) | covariance_matrices(d))
    mean, origin = np.array(steps[:d]) * np.sqrt(np.diag(first)), np.zeros(d)
    value = distance_covariance(first, second, norm=norm)
    assert value == distance_covariance(second, first, norm=norm)
    assert (value > 0) == (np.tril(first) != np.tril(second)).any()
    assert distance_covariance(first, first.copy(), norm=norm) == 0
    for distance in (distance_mean, distance_component):
        assert distance(mean, first, origin, second) == distance(origin, second, mean, first)
        assert distance(mean, first, mean.copy(), first.copy()) == 0
    assert distance_covariance(first, second, norm="spectral") <= distance_covariance(first, second) * (1 + 1e-13)


@pytest.mark.parametrize("norm", NORMS)
def test_symmetry_to_the_bit_for_many_random_pairs(norm):
    # Found by a longer run: eigenvalues of -M are not to the last bit the negatives of those of M, which shows for
    # clustered ones, as in multiples of one covariance.
    rng = np.random.default_rng(20240604)
    factors = rng.standard_normal((2000, 4, 8))
    first = factors @ np.swapaxes(factors, -1, -2)
    second = first * 10 ** rng.uniform(-4, 4, (2000, 1, 1))
    values = distance_covariance(first, second, norm=norm)
    assert (values == distance_covariance(second, first, norm=norm)).all()


@given(data=st.data(), d=st.integers(1, 3), norm=st.sampled_from(NORMS), n=st.integers(1, 9))
@settings(deadline=None, max_examples=examples(60))
def test_a_pair_does_not_depend_on_its_batch(data, d, norm, n):
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((2, n, d, 2 * d)) * 10 ** rng.uniform(-3, 3, (2, n, 1, 1))
    first, second = factors @ np.swapaxes(factors, -1, -2)
    means = rng.standard_normal((2, n, d))
    batch = distance_covariance(first, second, norm=norm)
    table = distance_covariance(first[:, None], second, norm=norm)
    component = distance_component(means[0], first, means[1], second)
    for i in range(n):
        single = distance_covariance(first[i], second[i], norm=norm)
        assert batch[i] == single == table[i, i]
        assert distance_component(means[0, i], first[i], means[1, i], second[i]) == component[i]
    assert (distance_covariance(second[:, None], first, norm=norm) == table.T).all()


@given(data=st.data(), d=st.integers(1, 4), powers=st.lists(st.integers(-20, 20), min_size=4, max_size=4))
@settings(deadline=None, max_examples=examples(60))
def test_units_that_differ_by_powers_of_two_do_not_change_a_bit(data, d, powers):
    first = data.draw(covariance_matrices(d))
    second = data.draw(neighbours_of(first) | covariance_matrices(d))
    unit = 2.0 ** np.array(powers[:d])
    scaled = first * np.outer(unit, unit), second * np.outer(unit, unit)
    assert distance_covariance(*scaled) == distance_covariance(first, second)
    mean = np.sqrt(np.diag(second))
    assert distance_mean(mean * unit, scaled[0], 0 * unit, scaled[1]) == distance_mean(mean, first, 0 * unit, second)


@given(data=st.data(), pair=similar_mixtures(2))
@settings(deadline=None, max_examples=examples(80))
def test_mixture_distances_are_affine_invariant(data, pair):
    first, second = pair
    d = first.n_features
    matrix = data.draw(invertible_matrices(d))
    covariances = [*first.covariances, *second.covariances]
    # transformed() rounds two products: d^2 eps |B|^2 |S| in norm, which whitening multiplies by the condition
    # numbers of S and B; S1 and S2 both move, so relative eigenvalues change by 4 of that, sqrt(d) in Frobenius norm.
    spread = max(float(np.linalg.cond(c)) for c in covariances) * float(np.linalg.cond(matrix)) ** 2
    error = (4 * math.sqrt(d) + 8) * d * d * EPS * spread
    # Means: B m is rounded by d eps |B| |m| before the subtraction.
    smallest = min(float(np.linalg.eigvalsh(c)[0]) for c in covariances)
    largest = max(float(np.linalg.norm(m)) for m in (*first.means, *second.means))
    offset = 4 * d * EPS * largest * float(np.linalg.cond(matrix)) / math.sqrt(smallest)
    moved = first.transformed(matrix), second.transformed(matrix)
    for distance in (distance_components, distance_parameters):
        value = distance(first, second)
        assert abs(distance(*moved) - value) <= error * (1 + value) + offset
    if d == 1:
        # Total variation is at most the component distance between a law and its rounded copy.
        assert abs(distance_gmm(*moved) - distance_gmm(first, second)) <= error + offset


@pytest.mark.thorough
@given(pair=similar_mixtures(2), data=st.data())
@settings(deadline=None, max_examples=examples(50))
def test_mixture_distances_are_symmetric_permutation_invariant_and_zero_for_equal_mixtures(pair, data):
    first, second = pair
    order = data.draw(st.permutations(range(first.n_components)))
    distances = [distance_components, distance_parameters, distance_gmm_bounds]
    if first.n_features == 1:
        distances.append(distance_gmm)
    for distance in distances:
        value, zero = distance(first, second), Interval(0.0, 0.0) if distance is distance_gmm_bounds else 0.0
        assert distance(second, first) == value
        assert distance(first.permuted(order), second) == value
        assert distance(first, second.permuted(order)) == value
        assert distance(first, first) == zero and distance(first, first.permuted(order)) == zero
    assert distance_components(first, second) <= distance_parameters(first, second)
    table = component_distances(first, second)
    assert (table == component_distances(second, first).T).all()
    if first.n_features == 1:
        bounds, exact = distance_gmm_bounds(first, second), distance_gmm(first, second)
        # sqrt(variance) in distance_gmm is rounded by half an eps, twice.
        assert bounds.lower - EPS <= exact <= bounds.upper + EPS


@given(data=st.data(), d=st.integers(1, 3), norm=st.sampled_from(NORMS))
@settings(deadline=None, max_examples=examples(150))
def test_covariance_triangle_inequality(data, d, norm):
    middle = data.draw(covariance_matrices(d, max_condition=1e4))
    first, third = data.draw(neighbours_of(middle)), data.draw(neighbours_of(middle))
    x, y = distance_covariance(first, middle, norm=norm), distance_covariance(middle, third, norm=norm)
    z = triangle_constant(max(x, y), "covariance")
    # Three distances with relative_error each; the drawn matrices are exact inputs, so nothing is added.
    slack = 1 + 3 * relative_error(first, middle, third)
    assert distance_covariance(first, third, norm=norm) <= z * (x + y) * slack


@given(data=st.data(), d=st.integers(1, 3), steps=st.lists(st.floats(-3, 3), min_size=9, max_size=9))
@settings(deadline=None, max_examples=examples(150))
def test_mean_and_component_triangle_inequality(data, d, steps):
    middle = data.draw(covariance_matrices(d, max_condition=1e4))
    covariances = [data.draw(neighbours_of(middle)), middle, data.draw(neighbours_of(middle))]
    means = np.array(steps).reshape(3, 3)[:, :d] * 10.0 ** data.draw(st.floats(-6, 0)) * np.sqrt(np.diag(middle))
    laws = [(m, c) for m, c in zip(means, covariances, strict=True)]
    x, y = distance_component(*laws[0], *laws[1]), distance_component(*laws[1], *laws[2])
    slack = 1 + 3 * relative_error(*covariances)
    assert distance_component(*laws[0], *laws[2]) <= triangle_constant(max(x, y), "component") * (x + y) * slack
    # The three mean differences are rounded once each.
    rounding = 2 * EPS * max(np.linalg.norm(np.linalg.solve(np.linalg.cholesky(c), m)) for m, c in laws)
    limit = triangle_constant(max(x, y), "mean") * (x + y) * slack + rounding * math.sqrt(condition(*covariances))
    assert distance_mean(*laws[0], *laws[2]) <= limit


@given(triple=similar_mixtures(3))
@settings(deadline=None, max_examples=examples(100))
def test_mixture_triangle_inequality(triple):
    first, middle, third = triple
    covariances = [c for mixture in triple for c in mixture.covariances]
    slack = 1 + 3 * relative_error(*covariances)
    for kind, distance in {"components": distance_components, "parameters": distance_parameters}.items():
        x, y = distance(first, middle), distance(middle, third)
        assert distance(first, third) <= triangle_constant(max(x, y), kind) * (x + y) * slack + 4 * EPS


def single(mean, variance):
    return Mixture([1.0], [[mean]], [[[variance]]])


@pytest.mark.parametrize("radius", [0.01, 0.1, 0.5, 1.0, 4.0])
def test_triangle_constants_are_attained(radius):
    a, b, c = ([[(1 + radius) ** i]] for i in range(3))
    for norm in NORMS:
        pair = distance_covariance(a, b, norm=norm), distance_covariance(b, c, norm=norm)
        assert max(pair) <= radius * (1 + 1e-13)
        ratio = distance_covariance(a, c, norm=norm) / sum(pair)
        assert ratio == pytest.approx(triangle_constant(radius, "covariance"), rel=1e-12)
    triple = [single(0.0, float(v[0][0])) for v in (a, b, c)]
    for kind, distance in {"components": distance_components, "parameters": distance_parameters}.items():
        ratio = distance(triple[0], triple[2]) / (distance(*triple[:2]) + distance(*triple[1:]))
        assert ratio == pytest.approx(triangle_constant(radius, kind), rel=1e-12)
    means = [[0.0], [radius], [radius + radius * math.sqrt(1 + radius)]]
    laws = list(zip(means, (a, b, b), strict=True))
    x, y = distance_component(*laws[0], *laws[1]), distance_component(*laws[1], *laws[2])
    assert max(x, y) <= radius * (1 + 1e-13)
    ratio = distance_mean(*laws[0], *laws[2]) / (x + y)
    assert ratio == pytest.approx(triangle_constant(radius, "mean"), rel=1e-12)


@pytest.mark.parametrize("d, seed", [(1, 0), (2, 0), (2, 1)])
def test_an_adversary_near_the_worst_triple_does_not_beat_the_mean_constant(d, seed):
    radius = 1.0
    worst = np.zeros((4, d))  # means of the first and third law, log variances of both; the second law is N(0, I)
    worst[:, 0] = -1 / math.sqrt(2), 1.0, -math.log(2), 0.0

    def loss(parameters):
        first_mean, third_mean, first_log, third_log = parameters.reshape(4, d)
        first, second = (first_mean, np.diag(np.exp(first_log))), (np.zeros(d), np.eye(d))
        third = (third_mean, np.diag(np.exp(third_log)))
        x, y = distance_component(*first, *second), distance_component(*second, *third)
        # The penalty outweighs what a larger radius gains, at most 0.18 per unit.
        return 100 * max(0.0, x - radius, y - radius) - distance_mean(*first, *third) / (x + y)

    start = worst.ravel() + 0.1 * np.random.default_rng([20240603, seed]).normal(size=4 * d)
    best = -optimize.minimize(loss, start, method="Nelder-Mead", options={"maxfev": 500}).fun
    z = triangle_constant(radius, "mean")
    assert -loss(worst.ravel()) == pytest.approx(z, rel=1e-12)
    assert 0.95 * z <= best <= z * (1 + 1e-12)


def test_the_mean_distance_alone_has_no_triangle_constant():
    laws = [([0.0], [[1e-6]]), ([0.0], [[1.0]]), ([1.0], [[1.0]])]
    ends = distance_mean(*laws[0], *laws[1]), distance_mean(*laws[1], *laws[2]), distance_mean(*laws[0], *laws[2])
    assert ends == (0.0, 1.0, pytest.approx(1000.0))


def test_the_upper_constant_of_the_mixture_distance_is_one():
    # Lemma 6.3 prints GMM <= PARAM / sqrt 2; equal components with other weights have both distances equal.
    first, second = (Mixture(w, [[0.0], [1.0]], [[[1.0]], [[1.0]]]) for w in ([0.5, 0.5], [0.501, 0.499]))
    assert distance_gmm(first, second) == distance_parameters(first, second) == pytest.approx(0.001)


@given(pair=similar_mixtures(2, max_features=1))
@settings(deadline=None, max_examples=examples(80))
def test_gmm_distance_is_at_most_the_parameter_distance(pair):
    # Rounding: relative_error of the parameter distance in one dimension, and the square roots of distance_gmm.
    assert distance_gmm(*pair) <= distance_parameters(*pair) * (1 + 16 * EPS) + EPS


@given(
    k=st.integers(1, 5),
    entries=st.lists(st.sampled_from([0.0, 1.0, 1.0 + EPS, 2.0, math.inf]) | st.floats(0, 1e300), min_size=25),
)
@settings(deadline=None, max_examples=examples(200))
def test_bottleneck_is_the_least_over_all_permutations(k, entries):
    table = np.array(entries[: k * k]).reshape(k, k)
    value, permutation = bottleneck_assignment(table)
    assert value == min(max(table[i, p[i]] for i in range(k)) for p in itertools.permutations(range(k)))
    assert sorted(permutation.tolist()) == list(range(k))
    assert table[np.arange(k), permutation].max() == value
    assert (bottleneck_assignment(table.copy())[1] == permutation).all()
    assert bottleneck_assignment(table.T)[0] == value


def test_bottleneck_of_a_large_table_is_polynomial():
    table = np.random.default_rng(1).random((120, 120))
    start = time.perf_counter()
    value, permutation = bottleneck_assignment(table)
    assert time.perf_counter() - start < 5  # 120! permutations would not end
    assert table[np.arange(120), permutation].max() == value < 0.1


@given(mixture=mixtures(), data=st.data())
@settings(deadline=None, max_examples=examples(30))
def test_mixtures_of_other_shapes_are_refused(mixture, data):
    other = data.draw(mixtures())
    assume(other.means.shape != mixture.means.shape)
    for distance in (distance_components, distance_parameters, distance_gmm, distance_gmm_bounds):
        with pytest.raises(ValueError, match=r"same \(n_components, n_features\)"):
            distance(mixture, other)
    if mixture.n_features > 1:
        with pytest.raises(ValueError, match="distance_gmm_bounds takes any"):
            distance_gmm(mixture, mixture)


def test_overflow_counts_as_infinite():
    tiny, huge = 1e-200 * np.eye(2), 1e200 * np.eye(2)
    assert distance_covariance(tiny, huge) == distance_covariance(tiny, huge, norm="spectral") == math.inf
    assert distance_mean([0.0, 0.0], tiny, [1e300, 0.0], tiny) == math.inf


def test_one_dimensional_values():
    assert distance_covariance([[4.0]], [[6.0]]) == 0.5
    assert distance_mean([1.0], [[4.0]], [2.0], [[0.25]]) == 2.0
    assert distance_gmm(single(0.0, 1.0), single(1.0, 4.0)) == total_variation_1d(0.0, 1.0, 1.0, 2.0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: distance_covariance(np.eye(2), np.eye(3)), "same n_features, got 2 and 3"),
        (lambda: distance_covariance(np.eye(2), [1.0, 2.0]), r"second must have shape \(..., d, d\)"),
        (lambda: distance_covariance([[np.nan]], [[1.0]]), "first must be finite"),
        (lambda: distance_covariance([[1.0]], [[-1.0]]), "second must be positive definite"),
        (lambda: distance_covariance([[1.0, 0.5], [0.0, 1.0]], np.eye(2)), "first must be symmetric"),
        (lambda: distance_covariance([[1.0]], [[1.0]], norm="trace"), "norm must be one of"),
        (lambda: distance_mean([0.0], np.eye(2), [0.0], np.eye(2)), "same n_features"),
        (lambda: distance_mean([np.inf], [[1.0]], [0.0], [[1.0]]), "means must be finite"),
        (lambda: bottleneck_assignment(np.ones((2, 3))), "table must have shape"),
        (lambda: bottleneck_assignment(np.ones((0, 0))), "table must have shape"),
        (lambda: bottleneck_assignment([[math.nan]]), "NaN"),
        (lambda: triangle_constant(-1.0, "mean"), "radius must be finite and at least 0"),
        (lambda: triangle_constant(1.0, "weights"), "kind must be one of"),
        (lambda: component_distances(single(0.0, 1.0), Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])), "n_features"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
