"""Vectors and mixtures are each other's inverse; derivatives are those of finite differences; twins agree."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pm_dpgmm.bayes.parameters import anchor_kernel
from pm_dpgmm.bayes.parameters.anchor import mixture_at, offsets_of
from pm_dpgmm.mixture.characteristic import characteristic_function, characteristic_jacobian
from pm_dpgmm.mixture.coordinates import Coordinates, share_slopes
from pm_dpgmm.mixture.fisher_information import fit_covariance
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.wishart import relative_entries, solve_lower
from verification.calibration import mixture_kernels, separated

FORMS = ("shares", "ratios", "rates")
SIZES = [(1, 1), (1, 3), (3, 1), (2, 2), (4, 3)]
STEP = 1e-6


def parts(k, d, *, seed, scale=1.0, lightest=0.1):
    """Weights, means and factors; one weight of ``lightest`` of the others."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, k)
    weights[0] *= lightest if k > 1 else 1.0
    factors = np.tril(rng.normal(size=(k, d, d)))
    factors[:, range(d), range(d)] = rng.uniform(0.3, 3.0, (k, d))
    return weights / weights.sum(), scale * rng.normal(size=(k, d)), scale * factors


def charts(k, d, *, seed=0):
    """Coordinates of every form, with and without an origin."""
    for form in FORMS:
        yield Coordinates(k, d, form, reference=k - 1)
        yield Coordinates(k, d, form, reference=k - 1, origin=parts(k, d, seed=seed + 100))


def flat(found):
    weights, means, factors = found
    row, column = np.tril_indices(means.shape[-1])
    return np.concatenate([weights, means.ravel(), factors[:, row, column].ravel()])


def differences(function, vector):
    """Central differences, shape (..., P)."""
    return np.stack(
        [(function(vector + s) - function(vector - s)) / (2 * STEP) for s in STEP * np.eye(len(vector))], axis=-1
    )


@given(
    size=st.sampled_from(SIZES),
    seed=st.integers(0, 10**6),
    power=st.integers(-60, 60),
    light=st.integers(-250, 0),
    chart=st.integers(0, 5),
)
def test_a_mixture_comes_back_from_its_vector(size, seed, power, light, chart):
    """Scales from 1e-60 to 1e60, weights down to 1e-250: the origin has the unit of the mixture."""
    k, d = size
    scale, coordinates = 10.0**power, list(charts(k, d, seed=seed))[chart]
    if coordinates.origin is not None:
        w, m, f = coordinates.origin
        coordinates = Coordinates(
            k, d, coordinates.form, reference=coordinates.reference, origin=(w, scale * m, scale * f)
        )
    given_parts = parts(k, d, seed=seed, scale=scale, lightest=10.0**light)
    vector = coordinates.of(*given_parts)
    assert vector.shape == (coordinates.size,) and np.isfinite(vector).all()
    unit = [1e-300, scale, scale]  # what cancels in a frame is lost at the size of the frame, times its condition
    for now, before, one in zip(coordinates.at(vector), given_parts, unit, strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-9, atol=1e-10 * one)


@given(size=st.sampled_from(SIZES), seed=st.integers(0, 10**6), chart=st.integers(0, 5))
def test_a_vector_comes_back_from_its_mixture(size, seed, chart):
    coordinates = list(charts(*size, seed=seed))[chart]
    vector = np.random.default_rng(seed).normal(size=coordinates.size)
    back = coordinates.of(*coordinates.at(vector))
    if coordinates.form == "shares":  # only differences of logarithms count
        vector[: coordinates.n_logs] += back[0] - vector[0]
    np.testing.assert_allclose(back, vector, rtol=0, atol=1e-9)


@pytest.mark.parametrize("k, d", SIZES)
def test_the_origin_is_at_zero(k, d):
    for coordinates in charts(k, d):
        if coordinates.origin is not None:
            for now, before in zip(coordinates.at(np.zeros(coordinates.size)), coordinates.origin, strict=True):
                np.testing.assert_allclose(now, before, rtol=1e-14)


@pytest.mark.parametrize("k, d", SIZES)
def test_derivatives_are_those_of_finite_differences(k, d):
    for coordinates in charts(k, d):
        rng = np.random.default_rng(3)
        vector = rng.normal(size=coordinates.size) / 2
        jacobian = coordinates.jacobian(vector)
        numeric = differences(lambda v, c=coordinates: flat(c.at(v)), vector)
        # entries are of size 1 to 10; differences err by STEP^2 and by 1e-16 / STEP
        np.testing.assert_allclose(jacobian, numeric, rtol=1e-6, atol=1e-8)
        by = rng.normal(size=k), rng.normal(size=(k, d)), rng.normal(size=(k, d, d))
        np.testing.assert_allclose(coordinates.pullback(vector, *by), flat(by) @ jacobian, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k, d", SIZES)
def test_the_log_determinant_is_that_of_the_jacobian(k, d):
    for coordinates in charts(k, d):
        vector = np.random.default_rng(4).normal(size=coordinates.size)
        jacobian = coordinates.jacobian(vector)
        if coordinates.form == "shares":
            with pytest.raises(ValueError, match="form must be 'ratios' or 'rates' for a determinant, got 'shares'"):
                coordinates.log_determinant(vector)
            continue
        if coordinates.form == "ratios":
            jacobian = np.delete(jacobian, coordinates.reference, axis=0)
        sign, size = np.linalg.slogdet(jacobian)
        assert abs(sign) == 1
        assert coordinates.log_determinant(vector) == pytest.approx(size, abs=1e-9)
        many = np.stack([vector, vector / 2])
        assert coordinates.log_determinant(many)[0] == pytest.approx(size, abs=1e-9)


@pytest.mark.parametrize("k, d", SIZES)
def test_many_vectors_at_once_are_each_alone(k, d):
    for coordinates in charts(k, d):
        vectors = np.random.default_rng(5).normal(size=(2, 3, coordinates.size))
        many = coordinates.at(vectors)
        again = coordinates.of(*many)
        by = tuple(np.ones_like(value) for value in many)
        slopes = coordinates.pullback(vectors, *by)
        for i, j in np.ndindex(2, 3):
            alone = coordinates.at(vectors[i, j])
            for value, one in zip(many, alone, strict=True):
                np.testing.assert_allclose(value[i, j], one, rtol=1e-13)
            np.testing.assert_allclose(again[i, j], coordinates.of(*alone), rtol=1e-12, atol=1e-12)
            one = coordinates.pullback(vectors[i, j], *(value[i, j] for value in by))
            np.testing.assert_allclose(slopes[i, j], one, rtol=1e-12, atol=1e-14)


def test_hostile_numbers_give_the_limits_and_no_warning():
    weights = np.array([0.0, 1e-320, 1.0])
    coordinates = Coordinates(3, 1, limits=(-12.0, 12.0))
    means, factors = np.array([[1e308], [-1e308], [0.0]]), np.array([1e-300, 1e300, 1.0]).reshape(3, 1, 1)
    vector = coordinates.of(weights, means, factors, least=1e-6)
    np.testing.assert_allclose(vector[:3], np.log([1e-6, 1e-6, 1.0]))
    now = coordinates.at(vector)
    np.testing.assert_allclose(now[2].ravel(), np.exp([-12.0, 12.0, 0.0]))
    np.testing.assert_array_equal(now[1], means)
    far = coordinates.at(np.array([1e4, -1e4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]))[0]
    assert far.tolist() == [1.0, 0.0, 0.0]
    base = Mixture([0.0, 1.0], [[0.0], [1.0]], [[[1.0]], [[1.0]]])  # a weight of 0 has no logarithm: it stays 0
    assert Coordinates.about(base, "shares").at(np.ones(6))[0].tolist() == [0.0, 1.0]


def test_a_broad_component_has_a_weight_alone():
    coordinates = Coordinates(2, 2, n_more=1)
    weights, means, factors = np.array([0.2, 0.5, 0.3]), *parts(2, 2, seed=1)[1:]
    vector = coordinates.of(weights, means, factors)
    assert coordinates.blocks == (slice(0, 3), slice(3, 7), slice(7, 13))
    np.testing.assert_allclose(coordinates.at(vector)[0], weights, rtol=1e-15)
    jacobian = coordinates.jacobian(vector)
    np.testing.assert_allclose(jacobian[:3, :3], share_slopes(weights))
    np.testing.assert_allclose(jacobian, differences(lambda v: flat(coordinates.at(v)), vector), rtol=1e-6, atol=1e-8)


def test_filled_puts_numbers_in_their_blocks():
    coordinates = Coordinates(2, 2, "ratios")
    found = coordinates.filled(1.0, np.array([[2.0], [3.0]]), 4.0, np.array([[5.0], [6.0]]))
    assert found.tolist() == [1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 5.0, 4.0, 4.0, 6.0, 4.0]
    logs, means, entries = coordinates.split(found)
    assert (logs.shape, means.shape, entries.shape) == ((1,), (2, 2), (2, 3))


@pytest.mark.parametrize("k, d", SIZES)
def test_the_characteristic_functions_derivatives_are_in_these_coordinates(k, d):
    coordinates, found = Coordinates(k, d), parts(k, d, seed=6)
    frequencies = np.random.default_rng(7).normal(size=(5, d))
    _, jacobian = characteristic_jacobian(frequencies, *found)
    numeric = differences(lambda v: characteristic_function(frequencies, *coordinates.at(v)), coordinates.of(*found))
    np.testing.assert_allclose(jacobian, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("k, d", SIZES)
def test_the_compiled_kernel_of_the_anchor_is_a_twin(k, d):
    weights, means, frames = parts(k, d, seed=8)
    base = Mixture(weights, means, frames @ frames.swapaxes(1, 2))
    coordinates = Coordinates.about(base)
    rng = np.random.default_rng(9)
    root, free = np.tril(rng.normal(size=(coordinates.size,) * 2)), rng.normal(size=coordinates.size) / 3
    fixed = root, np.log(base.weights), base.means, frames, np.array([coordinates.reference])
    found = coordinates.at(root @ free)
    kernel = anchor_kernel.parameters(free, *fixed)
    for ours, theirs in zip((*found, found[2] @ found[2].swapaxes(1, 2)), kernel, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9)
    by = tuple(rng.normal(size=value.shape) for value in found)
    slopes = anchor_kernel.free_slopes(free, *fixed, *by, np.zeros((k, d, d)))
    np.testing.assert_allclose(slopes, coordinates.pullback(root @ free, *by) @ root, rtol=1e-8, atol=1e-8)
    offsets = root @ free
    np.testing.assert_allclose(offsets_of(mixture_at(offsets, base), base), offsets, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_compiled_kernel_of_the_calibration_is_a_twin(d):
    points = np.random.default_rng(10).normal(size=(4, separated.n_parameters(d)))
    weights, means, factors = separated.unpack(points, d)
    middles = means - separated.CENTRE * np.array([[-1.0], [1.0]]) * (np.arange(d) == 0)
    for i, point in enumerate(points):
        for ours, theirs in zip((weights, middles, factors), mixture_kernels.parameters(point, d), strict=True):
            np.testing.assert_allclose(theirs, ours[i], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k, d", SIZES)
def test_the_mask_law_compares_a_release_in_these_coordinates_about_the_parameters(k, d):
    about, released = parts(k, d, seed=11), parts(k, d, seed=12)
    logs, means, entries = Coordinates(k, d, origin=about).split(Coordinates(k, d, origin=about).of(*released))
    np.testing.assert_allclose(logs, np.log(released[0] / about[0]))
    shift = np.stack(solve_lower(about[2], released[1] - about[1], d), axis=-1)
    np.testing.assert_allclose(means, shift, rtol=1e-9, atol=1e-9)
    rows = relative_entries(about[2], released[2])
    places = [(i, j) for i in range(d) for j in range(i + 1)]
    found = np.stack([np.log(rows[i][j]) if i == j else rows[i][j] for i, j in places], axis=-1)
    np.testing.assert_allclose(entries, found, rtol=1e-9, atol=1e-9)


def test_the_law_of_an_efficient_fit_is_in_these_coordinates():
    """Means and factors of two components that overlap; the information on a grid, and by nodes to about a per cent."""
    mixture = Mixture([0.4, 0.6], [[0.0, 0.0], [2.0, 1.0]], [[[1.0, 0.3], [0.3, 0.5]], [[0.6, -0.2], [-0.2, 1.0]]])
    coordinates, axis = Coordinates.about(mixture), np.linspace(-6, 8, 141)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)

    def log_density(vector):
        weights, means, factors = coordinates.at(vector)
        return Mixture(weights, means, factors @ factors.swapaxes(1, 2)).log_density(points)

    scores = differences(log_density, np.zeros(coordinates.size))
    mass = np.exp(mixture.log_density(points)) * (axis[1] - axis[0]) ** 2
    inverse = np.linalg.inv((scores.T * mass) @ scores)[1:, 1:]
    found = 1e6 * fit_covariance(mixture, 1e6)[2:, 2:]  # two weights there, one ratio here
    scale = np.sqrt(np.diag(inverse))
    np.testing.assert_allclose(found / np.outer(scale, scale), inverse / np.outer(scale, scale), atol=0.03)
