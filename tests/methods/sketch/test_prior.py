"""The prior of a fit: its derivatives, that a component's size is free, and what broad components gain by that."""

from types import SimpleNamespace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.covariance_types import KINDS, Flat
from pm_dpgmm.methods.sketch.estimate import prior_about
from pm_dpgmm.methods.sketch.prior import Prior, prior_rows
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture, packed
from pm_dpgmm.mixture.mixture import Mixture


def data_of(kind, d):
    unit = np.linspace(1.0, 2.0, d)
    return SimpleNamespace(unit=unit, covariance_type=kind, flat=lambda k, more: Flat.of(kind, unit, k, more))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("has_background", [False, True])
def test_derivatives_are_those_of_the_residuals(kind, d, has_background):
    """Within 1e-5 of central differences, at a point of random coordinates and at one without correlations."""
    data, prior = data_of(kind, d), Prior(1.3, np.linspace(0.2, 0.5, d), sizes=1.5, log_scales=0.5, slopes=0.3)
    size = data.flat(2, has_background).size

    def rows(theta):
        return prior_rows(data, theta, 2, prior, has_background)

    for theta in (np.random.default_rng(1).normal(size=size), np.zeros(size)):
        found = rows(theta)
        ends = [(rows(theta + step).residuals - rows(theta - step).residuals) / 2e-6 for step in 1e-6 * np.eye(size)]
        slopes = np.array(ends).T
        np.testing.assert_allclose(found.precision, slopes.T @ slopes, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.gradient, slopes.T @ found.residuals, rtol=1e-5, atol=1e-5)
        given = np.random.default_rng(2).normal(size=(3, size))
        np.testing.assert_allclose(found.standardised(given), given @ np.linalg.inv(slopes), rtol=1e-5, atol=1e-5)


def chi_square(covariance, **spreads):
    """Of a single component of this covariance, less that of the typical one."""
    d = len(covariance)
    prior = Prior(1.0, 1.0, log_scales=0.5, slopes=0.3, **spreads)

    def of(given):
        found = ScaledMixture.of(np.ones(1), np.zeros((1, d)), np.asarray(given)[None])
        return float(np.square(prior_rows(data_of("full", d), packed(found), 1, prior, False).residuals).sum())

    return of(covariance) - of(np.eye(d))


def test_a_size_costs_by_its_own_spread_and_shape_by_its_own():
    """Chi-squares by hand: all deviations e times as large, in three columns; one of two columns; half correlated."""
    whole = 3 / (0.5**2 + 3 * 1.5**2)
    assert chi_square(np.exp(2) * np.eye(3), sizes=1.5) == pytest.approx(whole)
    assert chi_square(np.exp(2) * np.eye(3)) == pytest.approx(3 / 0.5**2)
    one = 2 * (0.5 / 0.5) ** 2 + 2 * 0.5**2 / (0.5**2 + 2 * 1.5**2)
    assert chi_square(np.diag([np.exp(2), 1.0]), sizes=1.5) == pytest.approx(one)
    correlated = np.array([[1.0, 0.6], [0.6, 1.0]])
    assert chi_square(100 * correlated, sizes=1e6) == pytest.approx(chi_square(correlated, sizes=1e6))
    assert chi_square(correlated, sizes=1e6) > (0.6 / 0.3) ** 2


@pytest.mark.parametrize("kind", ["diag", "spherical", "tied"])
def test_kinds_that_share_a_size_cost_what_full_ones_cost(kind):
    """Two components e times as wide in all of three columns; of "tied" there is one, of one unit for all columns."""
    spreads = Prior(1.0, 1.0, sizes=1.5, log_scales=0.5, slopes=0.3)
    costs = []
    for one in (kind, "full"):
        data = data_of(one, 3)
        data.unit, size = np.ones(3), Flat.of(one, np.ones(3), 2, False).size
        data.flat = lambda k, more, one=one: Flat.of(one, np.ones(3), k, more)
        theta = np.zeros(size)
        entries = theta[8:]
        entries[:] = 1.0 if one in ("diag", "spherical") else np.tile([1.0, 0.0, 1.0, 0.0, 0.0, 1.0], entries.size // 6)
        costs.append(np.square(prior_rows(data, theta, 2, spreads, False).residuals).sum())
    assert costs[0] == pytest.approx(costs[1] / (2 if kind == "tied" else 1))


def test_without_a_spread_of_sizes_logarithms_are_independent():
    data, theta = data_of("diag", 3), np.random.default_rng(1).normal(size=2 + 6 + 6)
    found = prior_rows(data, theta, 2, Prior(1.0, 1.0, log_scales=0.7), False)
    np.testing.assert_allclose(found.residuals[8:], theta[8:] / 0.7)


def test_the_prior_of_several_columns_lets_sizes_differ():
    start = ScaledMixture.about(Mixture([0.5, 0.5], [[0, 0], [5, 5]], [np.eye(2)] * 2), np.zeros(2), np.ones(2))
    assert prior_about(start).sizes > 2 * prior_about(start).log_scales


@pytest.mark.thorough(quick=["2"])
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("seed", range(3))
def test_few_broad_records_around_narrow_groups_are_found(seed):
    """5 % of 11,000 with fifteen times the deviation, no bounds: .2 to .4 nats were lost to a prior of one size."""
    rng = np.random.default_rng(seed)
    truth = Mixture([0.475, 0.475, 0.05], [[0.0] * 3, [4.0] * 3, [0.0] * 3], [np.eye(3), np.eye(3), 225 * np.eye(3)])
    rows, others = truth.sample(11_000, rng=rng), truth.sample(20_000, rng=rng)
    settings = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": seed}
    release = dpg.fit_gmm(rows, 3, method="sketch", **settings)
    assert (truth.log_density(others) - release.log_density(others)).mean() < 0.15
