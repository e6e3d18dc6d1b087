"""The distance by contour integral agrees with every closed form within its own error, and so does its local version."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special, stats

from pm_dpgmm.mixture.total_variation import total_variation_1d, total_variation_bounds, total_variation_monte_carlo
from tests.builders.examples import examples
from verification.claims.common.strategies import covariance_matrices, invertible_matrices, neighbours_of, rotation
from verification.references import gaussian_total_variation as module
from verification.references.gaussian_total_variation import Estimate, gaussian_total_variation, local_rate, of_spectrum

EPS = np.finfo(float).eps


def close(found, expected, rounding=0.0):
    return abs(found.value - expected) <= found.error + rounding


def sharp(found, w, b):
    """The error is as small as promised."""
    return found.error <= 3e-12 * min(1.0, max(np.linalg.norm(w), np.linalg.norm(b)))


log_sizes = st.floats(-7, 1.5)
shifts = st.just(0.0) | st.floats(-7, 1.5).map(lambda x: 10**x)


@given(log_variance=log_sizes.map(lambda x: 10**x), sign=st.sampled_from([-1, 1]), shift=shifts)
@settings(deadline=None, max_examples=examples(300))
def test_in_one_dimension_it_is_the_exact_formula(log_variance, sign, shift):
    w = math.expm1(sign * min(log_variance, 18.0))
    found = of_spectrum([w], [shift])
    # sqrt(1 + w) rounds to EPS / 2, which moves the exact distance by at most half of that; and 1e-14 of its own
    assert close(found, total_variation_1d(0.0, 1.0, shift, math.sqrt(1 + w)), EPS)
    assert sharp(found, [w], [shift])


@pytest.mark.parametrize("k", [1, 5, 10, 20, 30, 45])
@pytest.mark.parametrize("shift", [0.0, 0.7, 3.0])
def test_a_small_distance_keeps_its_relative_digits(k, shift):
    gap = 2.0**-k  # 1 + gap is exact, and so is the relative change gap (2 + gap) up to one rounding
    found = of_spectrum([gap * (2 + gap)], [shift * gap])
    exact = total_variation_1d(0.0, 1.0, shift * gap, 1 + gap)
    assert close(found, exact, 1e-14 * exact) and found.error < 1e-11 * exact


@pytest.mark.parametrize("tolerance", [0.3, 1e-2, 1e-4, 1e-7])
def test_the_error_bound_covers_a_coarse_rule(tolerance, monkeypatch):
    rng = np.random.default_rng(11)
    cases = []
    for d in (1, 2, 4, 10):
        for _ in range(20):
            w = np.expm1(rng.choice([-1, 1], size=d) * 10 ** rng.uniform(-5, 0.5, d))
            b = rng.choice([0, 1]) * rng.normal(size=d) * 10 ** rng.uniform(-5, 0.5)
            cases.append((w, b, of_spectrum(w, b), local_rate(w, b)))
    monkeypatch.setattr(module, "TOLERANCE", tolerance)
    shares = []
    for w, b, fine, rate in cases:
        for coarse, exact in ((of_spectrum(w, b), fine), (local_rate(w, b), rate)):
            assert abs(coarse.value - exact.value) <= coarse.error + exact.error
            shares.append(abs(coarse.value - exact.value) / coarse.error)
    assert max(shares) > 1e-4  # the bound is no formality: some rule errs by a visible part of it


@given(d=st.integers(1, 10), length=st.floats(-9, 1.5).map(lambda x: 10**x), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=examples(100))
def test_equal_covariances_give_the_law_of_the_mahalanobis_distance(d, length, seed):
    direction = np.random.default_rng(seed).normal(size=d)
    b = length * direction / np.linalg.norm(direction)
    found = of_spectrum(np.zeros(d), b)
    assert close(found, special.erf(length / math.sqrt(8)), 1e-15 * length)
    assert sharp(found, np.zeros(d), b)
    root = np.random.default_rng(seed).normal(size=(d, d + 2))
    cov, mean = root @ root.T, root @ np.ones(d + 2)
    moved = gaussian_total_variation(mean, cov, mean + np.linalg.cholesky(cov) @ b, cov)
    rounding = 1e-15 * np.abs(mean).max() * np.linalg.cond(cov)  # of the sum mean + shift, relative to the scale of cov
    assert close(moved, special.erf(length / math.sqrt(8)), rounding)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 10, 40])
@pytest.mark.parametrize("ratio", [1 + 1e-6, 1.01, 1.5, 4.0, 1e3, 1e6])
def test_a_change_of_scale_has_the_chi_squared_law(d, ratio):
    w = ratio - 1
    square = d * math.log1p(w) * (1 + w) / w  # where the densities cross, in the unit of the first law
    parts = [stats.chi2.cdf(square, d) - stats.chi2.cdf(square / ratio, d)]
    parts.append(stats.chi2.sf(square / ratio, d) - stats.chi2.sf(square, d))
    # the difference of two distribution functions loses the digits of a small distance: 1e-14 absolute
    assert close(of_spectrum(np.full(d, w), np.zeros(d)), max(parts), 1e-14)
    assert close(of_spectrum(np.full(d, 1 / ratio - 1), np.zeros(d)), max(parts), 1e-14)


@given(data=st.data(), d=st.integers(1, 6), steps=st.lists(st.floats(-2, 2), min_size=6, max_size=6))
@settings(deadline=None, max_examples=examples(150))
def test_it_lies_within_the_certified_bounds(data, d, steps):
    cov = data.draw(covariance_matrices(d, max_condition=1e6))
    other = data.draw(neighbours_of(cov))
    mean = np.sqrt(np.diag(cov)) * np.array(steps[:d]) * data.draw(st.sampled_from([0.0, 1e-6, 1.0]))
    found = gaussian_total_variation(np.zeros(d), cov, mean, other)
    bounds = total_variation_bounds(np.zeros(d), cov, mean, other)
    assert bounds.lower - found.error <= found.value <= bounds.upper + found.error


@pytest.mark.parametrize("d", [2, 3, 6, 10])
@pytest.mark.parametrize("commuting", [True, False])
def test_it_lies_within_the_interval_of_a_simulation(d, commuting):
    rng = np.random.default_rng(d)
    axes = rotation(d, 7)
    first = (axes * np.exp(rng.normal(size=d) / 2)) @ axes.T
    axes = axes if commuting else rotation(d, 8)
    second = (axes * np.exp(rng.normal(size=d) / 2)) @ axes.T
    mean = rng.normal(size=d) / 3
    found = gaussian_total_variation(np.zeros(d), first, mean, second)
    # the interval misses with probability 1e-7 at most, eight times
    arguments = (np.zeros(d), first, mean, second)
    _, interval = total_variation_monte_carlo(*arguments, n_samples=100_000, confidence=1 - 1e-7, rng=rng)
    assert interval.lower <= found.value <= interval.upper
    assert found.error < 1e-11


@given(data=st.data(), d=st.integers(1, 4), steps=st.lists(st.floats(-2, 2), min_size=4, max_size=4))
@settings(deadline=None, max_examples=examples(100))
def test_it_does_not_depend_on_coordinates_nor_on_the_order(data, d, steps):
    cov = data.draw(covariance_matrices(d, max_condition=100.0))
    other, matrix = data.draw(neighbours_of(cov)), data.draw(invertible_matrices(d))
    mean = np.sqrt(np.diag(cov)) * np.array(steps[:d])
    found = gaussian_total_variation(np.zeros(d), cov, mean, other)
    swapped = gaussian_total_variation(mean, other, np.zeros(d), cov)
    assert close(swapped, found.value, found.error)
    moved = gaussian_total_variation(np.zeros(d), matrix @ cov @ matrix.T, matrix @ mean, matrix @ other @ matrix.T)
    # two products with condition number at most 10 each way round the entries: 1e-13 of the largest relative entry
    assert close(moved, found.value, found.error + 1e-13 * d**2 * np.linalg.cond(cov) * 100)


@pytest.mark.parametrize(
    "w, b",
    [
        ([3.0, -1e-3], [0.0, 0.1]),  # parts that turn against each other
        ([3.0, -1e-5], [0.0, 0.01]),
        ([-0.75, 1e-8], [0.0, 0.3]),
        ([1e8, -1 + 1e-8], [1.0, 1.0]),
        ([0.5, -0.4, 1e-12], [1e-3, -2e-3, 1e-9]),
    ],
)
def test_spectra_of_several_scales_keep_their_digits_and_their_bounds(w, b):
    found = of_spectrum(w, b)
    bounds = total_variation_bounds(np.zeros(len(w)), np.eye(len(w)), np.array(b), np.diag(1 + np.array(w)))
    assert bounds.lower - found.error <= found.value <= bounds.upper + found.error
    assert sharp(found, w, b)


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 6))
@settings(deadline=None, max_examples=examples(100))
def test_any_spectrum_gives_the_same_in_either_order_within_its_error(seed, d):
    rng = np.random.default_rng(seed)
    w = np.expm1(rng.choice([-1, 1], size=d) * 10 ** rng.uniform(-9, 1, d))
    b = rng.choice([0, 1], size=d) * 10 ** rng.uniform(-9, 1, d)
    found = of_spectrum(w, b)
    # seen from the second law, the changes are those of the inverse and the shift is rescaled
    other = of_spectrum(-w / (1 + w), b / np.sqrt(1 + w))
    rounding = 1e-15 * (1 + np.linalg.norm(w) + np.linalg.norm(b))
    assert abs(found.value - other.value) <= found.error + other.error + rounding


def test_a_tiny_distance_is_its_local_rate_times_the_size():
    rng = np.random.default_rng(5)
    for d in (1, 2, 4, 10):
        a, b = rng.normal(size=d), rng.normal(size=d)
        for size in (1e-4, 1e-6, 1e-8):
            found = of_spectrum(size * a, size * b).value / size
            # the next term is of the relative order of size times the norms
            assert found == pytest.approx(local_rate(a, b).value, rel=3 * size * (a @ a + b @ b) + 1e-7)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ([1.0], [0.0], 1 / math.sqrt(2 * math.pi * math.e)),
        ([-1.0], [0.0], 1 / math.sqrt(2 * math.pi * math.e)),
        ([0.0], [1.0], 1 / math.sqrt(2 * math.pi)),
        ([1.0, -1.0], [0.0, 0.0], 1 / math.pi),  # half the mean of |product of two normals|, which is 2 / pi
        ([1.0, 1.0], [0.0, 0.0], 1 / math.e),  # half the mean of |exponential - 1|, which is 2 / e
        (np.ones(7), np.zeros(7), None),
    ],
)
def test_the_local_rate_has_its_closed_forms(a, b, expected):
    if expected is None:  # E |chi^2_d - d| / 4 = d P(chi^2_d at d) density identity: d f_{d+2}(d)
        d = len(a)
        expected = d * stats.chi2.pdf(d, d + 2)
        assert expected == pytest.approx(stats.chi2.expect(lambda x: abs(x - d), args=(d,)) / 4, rel=1e-6)
    found = local_rate(a, b)
    assert close(found, expected, 1e-15) and found.error < 1e-11
    assert close(local_rate(3 * np.array(a), 3 * np.array(b)), 3 * expected, 1e-14)


def test_what_it_rejects_and_what_it_gives_up():
    assert of_spectrum([0.0, 0.0], [0.0, 0.0]) == Estimate(0.0, 0.0) == local_rate([0.0], [0.0])
    for w, b in (([-1.0], [0.0]), ([np.nan], [0.0]), ([0.0, 1.0], [0.0])):
        with pytest.raises(ValueError, match="changes"):
            of_spectrum(w, b)
    nearly = np.array([[1.0, 1 - 1e-15], [1 - 1e-15, 1.0]])
    assert gaussian_total_variation([0, 0], nearly, [0, 0], np.eye(2)).error > 0.1  # nothing can be said
    with pytest.raises(np.linalg.LinAlgError):
        gaussian_total_variation([0], [[-1.0]], [0], [[1.0]])
    found = Estimate(0.25, 0.125)
    assert (found.lower, found.upper) == (0.125, 0.375)
