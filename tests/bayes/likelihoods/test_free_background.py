"""Rows far from all components in evidence of histograms: how many they are and how they lie is estimated."""

import warnings
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray

import pm_dpgmm as dpg
from pm_dpgmm.bayes.likelihoods import counts as evidence
from pm_dpgmm.bayes.likelihoods.free_background import FreeBackground
from pm_dpgmm.methods.counts.histogram_law import log_density
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities

pytestmark = [
    pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning"),
    pytest.mark.filterwarnings("ignore::pm_dpgmm.BackgroundWarning"),
]
TRUE = dpg.Mixture([0.6, 0.4], [[30.0], [55.0]], [[[25.0]], [[36.0]]])
FAR = ("release_background_flat", "release_background_odds")


def with_far_rows(share, n_records=10_000, seed=1):
    rng = np.random.default_rng(seed)
    rows = TRUE.sample(n_records, rng=rng)
    far = rng.random(n_records) < share
    rows[far] = rng.uniform(0, 100, size=(far.sum(), 1))
    return rows


@pytest.fixture(scope="module")
def release():
    X = with_far_rows(0.06)
    return dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(0, 100), method="histogram", random_seed=1, progress=False)


def test_they_are_free_variables_beside_the_parameters(release):
    with pm.Model() as model:
        release.observe(release.params("g", prior="weak"))
    assert {rv.name for rv in model.free_RVs} == {"g_offset", *FAR}
    start = model.initial_point()
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(start))
    weight = model["release_background_weight"].eval({model[FAR[1]]: 0.25})
    assert weight == pytest.approx(0.2)
    with pm.Model():
        pm.Normal("north_background_flat")
        with pytest.raises(ValueError, match="north_background_flat"):
            release.observe(release.params("g", prior="weak"), name="north")


def test_counts_that_contradict_the_components_are_told(release):
    """Fixed seeds. A third group of 5 % is no far rows of these shapes: intervals held no weight in 10 of 10."""
    rng = np.random.default_rng(2)
    X = TRUE.sample(10_000, rng=rng)
    X[rng.random(10_000) < 0.05] += 40.0
    third = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(0, 150), method="histogram", random_seed=1, progress=False)
    for one, n_components, told in ((third, 2, 1), (third, 3, 0), (release, 2, 0)):
        with pm.Model(), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            params = (
                one.refit(n_components).params("g", prior="weak")
                if n_components != 2
                else one.params("g", prior="weak")
            )
            one.observe(params)
        about = [w for w in found if "counts contradict a mixture of 2" in str(w.message)]
        assert len(about) == told
        for warning in about:
            assert (
                warning.category is dpg.FitWarning and warning.message.release is one and warning.filename == __file__
            )


@pytest.mark.filterwarnings("ignore::pm_dpgmm.privacy.guarantee.WeakGuarantee")
def test_counts_with_next_to_no_noise_are_evidence_as_well():
    """Empty bins without noise cannot be contradicted by so many deviations: that raised where nothing was wrong."""
    X = np.random.default_rng(1).normal(size=(500, 1))
    one = dpg.fit_gmm(X, 1, epsilon=5_000.0, bounds=(-50, 50), method="histogram", random_seed=1, progress=False)
    with pm.Model() as model:
        one.observe(one.params("g", prior="weak"))
    assert [rv.name for rv in model.free_RVs][:1] == ["g_offset"]


def test_without_a_background_there_are_none(release):
    alone = replace(release, background=None, background_weight=0.0)
    with pm.Model() as model:
        alone.observe(alone.params("g", prior="weak"))
    assert [rv.name for rv in model.free_RVs] == ["g_offset"]


@pytest.mark.parametrize("d", [1, 2])
def test_the_density_is_that_of_components_a_gaussian_and_a_uniform_law(d):
    X = np.random.default_rng(1).normal(size=(400, d))
    one = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-6, 6), method="histogram", random_seed=1, progress=False)
    broad = dpg.Mixture([1.0], np.ones((1, d)), 9.0 * np.eye(d)[None])
    m, grid, share, flat = one.mixture, evidence.statistics(one), 0.2, 0.3
    given = m.weights, m.means, np.linalg.cholesky(m.covariances)
    found = evidence.log_likelihood(one, *given, far=FreeBackground(share, flat, broad)).eval()
    own, wide = (
        cell_probabilities(grid.edges, law.weights, law.means, np.linalg.cholesky(law.covariances))
        for law in (m, broad)
    )
    shapes = (1 - flat) * wide + flat / wide.size
    assert found == pytest.approx(log_density(grid, (1 - share) * own + share * shapes), abs=1e-6)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.find_MAP. will:FutureWarning")
def test_uniform_rows_move_no_parameter():
    """The mode, where the released background has a weight of .10 for .06: kept as released, it moved the parameters.

    Sampling errors of 10,000 records: .005 of a weight, .05 of a deviation. Fixed seeds.
    """
    X = with_far_rows(0.06)
    one = dpg.fit_gmm(X, 2, epsilon=10.0, bounds=(0, 100), method="histogram", random_seed=1, progress=False)
    with pm.Model():
        params = one.params("g", prior="weak")
        one.observe(params)
        found = pm.find_MAP(progressbar=False)
    order = np.argsort(found["g_means"][:, 0])
    assert found["release_background_weight"] == pytest.approx(0.06, abs=0.015)
    assert found["g_weights"][order] == pytest.approx(TRUE.weights, abs=0.015)
    deviations = np.sqrt(found["g_covariances"][order, 0, 0])
    assert deviations == pytest.approx([5.0, 6.0], abs=0.2)
    assert one.background_weight > 0.09


def test_the_predictive_check_takes_the_far_rows_of_the_draws():
    """40 equal draws of the truth, all seeds fixed: right with its own far rows, wrong beside the released background."""
    X = with_far_rows(0.06)
    one = dpg.fit_gmm(X, 2, epsilon=10.0, bounds=(0, 100), method="histogram", random_seed=1, progress=False)
    draws = xarray.Dataset(
        {
            "g_weights": (("chain", "draw", "component"), np.tile(TRUE.weights, (1, 40, 1))),
            "g_means": (("chain", "draw", "component", "f"), np.tile(TRUE.means, (1, 40, 1, 1))),
            "g_covariances": (("chain", "draw", "component", "f", "f2"), np.tile(TRUE.covariances, (1, 40, 1, 1, 1))),
        }
    )
    far = {"_background_weight": 0.06, "_background_flat": 1.0}
    named = {
        name: draws.assign({f"{name}{part}": (("chain", "draw"), np.full((1, 40), x)) for part, x in far.items()})
        for name in ("release", "north")
    }
    both = xarray.merge([named["release"], named["north"].drop_vars(draws.data_vars)])
    for given in (*named.values(), both):
        assert one.check_fit(given, random_seed=1).p_value > 0.1
    several = both.rename({f"release{part}": f"south{part}" for part in far})
    for given in (draws, several):
        assert one.check_fit(given, random_seed=1).p_value < 0.03
