from dataclasses import replace

import cloudpickle
import numpy as np
import pytest

from pm_dpgmm.learners import projection_moments as moment_learner
from pm_dpgmm.learners.projected_moments import (
    _by_component,
    _jacobian,
    _residual,
    lifted,
    near_moments,
)
from pm_dpgmm.learners.projection_moments import ProjectionMoments, _least_gaussian
from pm_dpgmm.learners.subsets import fit_here
from pm_dpgmm.learners.univariate_moments import component_moments, features, fit_univariate, quadrature_starts
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.distances import bottleneck_assignment, component_distances
from pm_dpgmm.mixture.mixture import Mixture

TRIO = Mixture(
    [0.3, 0.3, 0.4], [[0, 0], [4, 0], [2, 3.5]], [[[1, 0.3], [0.3, 1]], [[0.7, 0], [0, 1.4]], [[1.2, -0.4], [-0.4, 1]]]
)


def error(fit, truth):
    return bottleneck_assignment(component_distances(fit, truth))[0]


def no_clusters(*arguments):
    return iter(())


def test_moments_and_their_derivatives_are_those_of_a_normal_law():
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    t, mean, variance = np.array([0.5, 2.0]), np.array([0.7]), np.array([1.3])
    exact = weights @ features(mean + np.sqrt(variance) * nodes, t) / weights.sum()
    tables = component_moments(t, mean, variance, derivatives=4)[:, :, 0]
    assert tables[0] == pytest.approx(exact, abs=1e-12)
    step = 1e-5
    for order in range(4):
        ends = [component_moments(t, mean + s, variance, derivatives=4)[order, :, 0] for s in (step, -step)]
        assert tables[order + 1] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)
    ends = [component_moments(t, mean, variance + s)[0, :, 0] for s in (step, -step)]
    assert tables[2] / 2 == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_jacobian_is_the_derivative_of_the_residual(d):
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, d, d))
    mixture = Mixture([0.2, 0.3, 0.5], rng.normal(size=(3, d)), roots @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(d))
    direction = rng.normal(size=d)
    near = near_moments(rng.normal(size=(500, d)), direction / np.linalg.norm(direction), np.geomspace(0.4, 5, 6))
    chart = Coordinates(3, d)
    x = chart.of(mixture.weights, mixture.means, np.linalg.cholesky(mixture.covariances))
    ends = [
        np.array([_residual(near, *chart.at(x + step * unit)) for unit in np.eye(len(x))]) for step in (1e-6, -1e-6)
    ]
    assert _jacobian(near, *chart.at(x)) == pytest.approx(((ends[0] - ends[1]) / 2e-6).T, abs=1e-5)


def test_quadrature_recovers_means_with_a_common_variance():
    """Nodes so far apart that the largest variance which quadrature allows is the true one, up to its grid of 1/128."""
    rng = np.random.default_rng(1)
    sample = rng.choice([-3.0, 0.0, 4.0], 200_000, p=[0.3, 0.3, 0.4]) + rng.normal(size=200_000)
    centre, scale = sample.mean(), sample.std()
    weights, means, variances = quadrature_starts((sample - centre) / scale, 3)[0]
    assert scale**2 * variances == pytest.approx([1, 1, 1], rel=0.3)
    assert centre + scale * means == pytest.approx([-3, 0, 4], abs=0.2)
    assert weights == pytest.approx([0.3, 0.3, 0.4], abs=0.05)


def test_unequal_variances_of_one_column():
    """Standard errors at this size are below a sixth of the tolerances: false alarm under 1e-6."""
    truth = Mixture([0.3, 0.7], [[0.0], [3.0]], [[[1.0]], [[0.25]]])
    rows = truth.sample(50_000, rng=np.random.default_rng(2))[:, 0]
    weights, means, variances, _ = fit_univariate((rows - rows.mean()) / rows.std(), 2)
    assert weights == pytest.approx([0.3, 0.7], abs=0.03)
    assert rows.mean() + rows.std() * means == pytest.approx([0, 3], abs=0.15)
    assert rows.var() * variances == pytest.approx([1, 0.25], rel=0.2)


def test_one_direction_gives_means_and_covariances_from_exact_moments():
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(2, 3, 3))
    truth = Mixture([0.4, 0.6], [[-1.5, 1, 0], [1, -0.7, 0.3]], roots @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(3))
    direction = np.array([0.8, -0.6, 0.0])
    near = near_moments(rng.normal(size=(50, 3)), direction, np.geomspace(0.2, 4, 12))
    along = truth.means @ direction, np.einsum("kde,d,e->k", truth.covariances, direction, direction)
    framed = truth.transformed(near.frame.T)
    tables = component_moments(near.frequencies, *along)
    exact = replace(near, averages=_by_component(tables, framed.means, framed.covariances) @ truth.weights)
    fit = lifted(exact, truth.weights, *along, 10**12)
    assert fit.means == pytest.approx(truth.means, abs=1e-6)
    assert fit.covariances == pytest.approx(truth.covariances, abs=1e-6)


def test_joint_moments_are_those_of_a_sample():
    """A million rows: standard errors below 0.01 for every product, so 0.06 is passed with chance under 1e-6."""
    truth = Mixture([1.0], [[0.5, -0.4]], [[[1.0, 0.6], [0.6, 0.8]]])
    rows = truth.sample(1_000_000, rng=np.random.default_rng(10))
    near = near_moments(rows, np.array([1.0, 0.0]), np.array([0.5, 1.5]))
    framed = truth.transformed(near.frame.T)
    tables = component_moments(near.frequencies, framed.means[:, 0], framed.covariances[:, 0, 0])
    assert near.averages == pytest.approx(_by_component(tables, framed.means, framed.covariances)[..., 0], abs=0.06)


def test_the_least_gaussian_direction_is_found():
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(4000, 6))
    rows[:, 0] = rng.choice([-0.95, 0.95], 4000) + 0.3 * rng.normal(size=4000)
    starts = rng.normal(size=(4, 6))
    found = _least_gaussian(rows, starts / np.linalg.norm(starts, axis=1, keepdims=True))
    assert abs(found[0, 0]) > 0.99


@pytest.mark.thorough
@pytest.mark.parametrize("starts", ["all", "moments alone"])
def test_error_is_near_that_of_maximum_likelihood(starts, monkeypatch):
    """EM's error on such data is about 0.05; seeds fixed, so nothing here is left to chance."""
    if starts == "moments alone":
        monkeypatch.setattr(moment_learner, "_clustered", no_clusters)
    pair = Mixture([0.4, 0.6], TRIO.means[:2], TRIO.covariances[:2])
    assert error(ProjectionMoments(2)(pair.sample(10_000, rng=np.random.default_rng(4))), pair) < 0.15
    if starts == "all":
        assert error(ProjectionMoments(3)(TRIO.sample(10_000, rng=np.random.default_rng(5))), TRIO) < 0.25


def test_the_fit_follows_affine_maps_of_the_subset():
    """Units far apart move no start, so equality holds up to where the searches stop."""
    rows = TRIO.sample(2_000, rng=np.random.default_rng(6))
    matrix, offset = np.diag([1e-3, 50.0]), np.array([1e3, -7.0])
    fit = ProjectionMoments(2)(rows)
    assert error(ProjectionMoments(2)(rows @ matrix + offset), fit.transformed(matrix, offset)) < 1e-3


def test_the_same_subset_gives_the_same_bits_after_a_journey():
    rows = TRIO.sample(1_000, rng=np.random.default_rng(7))
    learner = ProjectionMoments(2)
    first = learner(rows)
    np.random.seed(99)  # noqa: NPY002 - the global stream must not matter
    second = cloudpickle.loads(cloudpickle.dumps(learner))(rows)
    for name in ("weights", "means", "covariances"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def test_one_component_is_mean_and_covariance():
    rows = TRIO.sample(50, rng=np.random.default_rng(8))
    fit = ProjectionMoments(1)(rows)
    assert fit.means[0] == pytest.approx(rows.mean(axis=0))
    assert fit.covariances[0] == pytest.approx(np.cov(rows, rowvar=False, bias=True))


@pytest.mark.parametrize(
    "rows", [np.zeros((20, 2)), np.ones((1, 2)), np.full((20, 2), np.nan), np.zeros((0, 2)), np.zeros(9)]
)
def test_hopeless_subsets_raise_value_errors(rows):
    with pytest.raises(ValueError, match="subset must"):
        ProjectionMoments(2)(rows)
    if rows.ndim == 2:
        assert fit_here(ProjectionMoments(2), rows, 2, 0) is None


def test_a_collapsed_component_is_a_failure():
    rng = np.random.default_rng(9)
    rows = np.concatenate([rng.normal(size=(300, 1)), np.full((300, 1), 5.0)])
    with pytest.raises(ValueError, match="eigenvalues of at least"):
        ProjectionMoments(2)(rows)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"n_components": 6}, "n_components must be at most 5, got 6"),
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"n_components": 2, "n_rounds": 0}, "n_rounds must be at least 1, got 0"),
        ({"n_components": 2, "n_bases": 0}, "n_bases must be at least 1, got 0"),
        ({"n_components": 2, "seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ProjectionMoments(**settings)
