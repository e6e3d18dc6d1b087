import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats
from scipy.special import logsumexp
from strategies import mixtures

from pm_dpgmm.mixture import Mixture

TWO = Mixture([0.3, 0.7], [[0.0, 1.0], [4.0, -2.0]], [[[1.0, 0.3], [0.3, 2.0]], [[0.5, 0.0], [0.0, 3.0]]])


def test_density_and_responsibilities_agree_with_scipy():
    points = np.random.default_rng(0).normal(size=(50, 2)) * 3
    logs = np.column_stack(
        [stats.multivariate_normal(m, s).logpdf(points) for m, s in zip(TWO.means, TWO.covariances, strict=True)]
    )
    expected = logsumexp(logs, b=TWO.weights, axis=1)
    assert TWO.log_density(points) == pytest.approx(expected, rel=1e-12)
    shares = TWO.responsibilities(points)
    assert shares == pytest.approx(TWO.weights * np.exp(logs - expected[:, None]), rel=1e-9)


def test_samples_have_the_moments_of_the_mixture():
    points = TWO.sample(40_000, rng=np.random.default_rng(1))
    assert points.mean(axis=0) == pytest.approx(TWO.mean(), abs=6 * 2.5 / 200)
    assert np.cov(points.T) == pytest.approx(TWO.covariance(), abs=6 * 9 / 200)


def test_a_component_of_weight_0_is_harmless():
    mixture = Mixture([0.0, 1.0], [[0.0], [1.0]], [[[1.0]], [[1.0]]])
    with np.errstate(all="raise"):
        assert mixture.responsibilities([[0.5]]) == pytest.approx(np.array([[0.0, 1.0]]))
        assert np.isfinite(mixture.log_density([[0.5]])).all()


@given(mixtures())
@settings(deadline=None, max_examples=50)
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
