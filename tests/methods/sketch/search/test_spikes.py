"""Spikes in the place of a part of a mixture: the same first moments, and found where the numbers ask for them."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.estimate import prior_about
from pm_dpgmm.methods.sketch.fit import refined
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search import spikes
from pm_dpgmm.planning.trials import released_data


def scaled(weights, means, deviations):
    return ScaledMixture(np.array(weights), np.array(means)[:, None], np.array(deviations)[:, None, None])


def moments(mixture, which, powers):
    """Of the part, by 40 nodes of every component."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    x = mixture.means[which] + mixture.factors[which, 0] * nodes
    w = mixture.weights[which, None] * shares / shares.sum()
    return np.array([(w * x**power).sum() for power in powers])


FOUND = scaled([0.2, 0.5, 0.1, 0.2], [0.3, -4.0, 0.1, 5.0], [0.05, 1.0, 0.2, 2.0])


@pytest.mark.parametrize("part", [(0,), (2, 0)])
@pytest.mark.parametrize("n_spikes", [2, 3])
def test_spikes_have_the_weight_mean_and_variance_of_the_part_and_leave_the_rest(part, n_spikes):
    found = spikes.spiked(FOUND, part, n_spikes)
    rest = 4 - len(part)
    assert found.n_components == rest + n_spikes and found.weights.sum() == pytest.approx(1.0)
    assert set(found.means[:rest, 0]) == {mean for k, mean in enumerate(FOUND.means[:, 0]) if k not in part}
    before, after = moments(FOUND, list(part), range(3)), moments(found, np.arange(rest, rest + n_spikes), range(3))
    assert after == pytest.approx(before, rel=1e-9)
    whole = np.sqrt(before[2] / before[0] - (before[1] / before[0]) ** 2)
    assert found.factors[rest:, 0, 0] == pytest.approx(spikes.WIDTH * whole)


@pytest.mark.parametrize("width", [0.0, 0.05])
def test_nodes_of_the_quadrature_have_twice_as_many_moments(monkeypatch, width):
    """All, as the spikes' width goes to 0."""
    monkeypatch.setattr(spikes, "WIDTH", width)
    found = spikes.spiked(FOUND, (2, 0), 3)
    before, after = moments(FOUND, [2, 0], range(6)), moments(found, np.arange(2, 5), range(6))
    assert after == pytest.approx(before, rel=1e-9 if width == 0 else 0.05)


class Waves:
    def __init__(self, finest):
        self.frequencies = np.array([[0.1], [-finest]])


@pytest.mark.parametrize(
    "finest, parts",
    [
        (40.0, []),  # .05 is seen
        (12.0, [(0,)]),  # .2 is
        (8.0, [(2, 0)]),  # deviations of .2 and .05 side by side
        (1.7, [(1,), (2, 0)]),  # -4 is too far from them
        (0.9, [(1, 2), (0,)]),  # and here not from the nearer one
    ],
)
def test_parts_are_neighbours_that_the_finest_wave_does_not_tell_apart(finest, parts):
    found = spikes.unseen_parts(Waves(finest), FOUND)
    assert found == parts and spikes.marked(FOUND, found).sum() == sum(map(len, parts))


def test_a_part_that_hardly_weighs_anything_is_left_alone():
    light = scaled([0.05, 0.95], [0.0, 5.0], [0.01, 2.0])
    assert spikes.unseen_parts(Waves(10.0), light) == []


def test_spikes_are_left_alone():
    assert spikes.unseen_parts(Waves(10.0), scaled([0.5, 0.5], [0.25, 5.0], [1e-30, 2.0])) == []


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("error", [ValueError, ZeroDivisionError, np.linalg.LinAlgError])
def test_a_fit_whose_budget_is_spent_goes_on_where_the_search_fails(error, monkeypatch):
    def fails(*given):
        raise error

    monkeypatch.setattr(spikes, "narrower", fails)
    monkeypatch.setattr(spikes, "explained", lambda *given: False)
    X = np.random.default_rng(1).normal(size=(1_000, 1))
    assert dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-5, 5), random_seed=1, progress=False).n_components == 2


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_columns_with_spikes_of_equal_values_are_fitted(share):
    rng = np.random.default_rng(2)
    X = np.where(rng.random(20_000) < share, 0.0, rng.gamma(2.0, 10.0, size=20_000))[:, None]
    found = dpg.fit_gmm(X, 3, epsilon=1.0, delta=1e-6, bounds=(-5, 200), random_seed=1, progress=False)
    assert np.isfinite(found.log_density(X[:50])).all() and found.warnings


def test_spikes_for_which_the_objective_does_not_fall_are_not_taken(monkeypatch):
    X = np.random.default_rng(1).normal([[-2.0]] * 1_000 + [[2.0]] * 1_000, 1.0)
    release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-8, 8), random_seed=1, progress=False)
    data = released_data(release)
    found = refined(data, ScaledMixture.about(release.mixture, data.centre, data.unit), prior_about(None))
    monkeypatch.setattr(spikes, "explained", lambda *given: False)
    monkeypatch.setattr(spikes, "narrower", lambda *given: [found])
    assert spikes.with_narrower(data, found, prior_about(None)) is found
