"""Modes, and weighted draws of posteriors whose moments are known."""

import numpy as np
from numpy.testing import assert_allclose

from verification.calibration.importance import laplace, sample_from_mode
from verification.calibration.replicated import replicated

SPREAD = np.array([0.5, 2.0, 1.0])
CENTRE = np.array([1.0, -3.0, 0.2])
ROOT = np.array([[0.2, 0.0, 0.0], [0.5, 0.4, 0.0], [-0.1, 0.3, 0.6]])


def normal(points):
    return -0.5 * np.square(np.linalg.solve(ROOT, (points - CENTRE).T)).sum(axis=0)


def skewed(points):
    """The logarithms of independent gamma laws of shape 2, 3 and 4."""
    return points @ np.array([2.0, 3.0, 4.0]) - np.exp(points).sum(axis=1)


def test_laplace_is_exact_for_a_normal_law():
    mode, covariance = laplace(normal, CENTRE + SPREAD * 2, SPREAD)
    assert_allclose(mode, CENTRE, atol=1e-6)
    assert_allclose(covariance, ROOT @ ROOT.T, rtol=1e-5)


def test_laplace_climbs_from_where_the_density_is_convex():
    def heavy(points):  # t laws: convex in the logarithm beyond one deviation
        return -3 * np.log1p(np.square((points - CENTRE) / SPREAD)).sum(axis=1)

    mode, _ = laplace(heavy, CENTRE + 4 * SPREAD, SPREAD)
    # where it stops, a Newton step gains less than .01: within sqrt(2 * .01 / 6) of a deviation
    assert_allclose((mode - CENTRE) / SPREAD, 0, atol=0.06)


def test_laplace_keeps_the_prior_where_nothing_is_known():
    _, covariance = laplace(lambda points: -0.5 * np.square(points[:, 0]), np.zeros(2), np.array([1.0, 3.0]))
    assert_allclose(covariance, np.diag([1.0, 18.0]), rtol=1e-5)


def test_draws_from_a_laplace_start_have_the_moments_of_the_law():
    found = sample_from_mode(skewed, np.zeros(3), np.ones(3), n_draws=20_000, rng=np.random.default_rng(3))
    assert found.effective > 5_000
    # means of gamma laws, five standard errors of 5,000 draws: 1e-6 false alarms of each
    shapes = np.array([2.0, 3.0, 4.0])
    assert np.all(np.abs(np.exp(found.draws).mean(axis=0) - shapes) < 5 * np.sqrt(shapes / 5_000))


def test_replications_come_in_order():
    assert replicated(abs, 5) == [0, 1, 2, 3, 4]
