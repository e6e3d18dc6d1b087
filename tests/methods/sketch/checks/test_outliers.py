"""The background of a finished fit: evidence decides whether there is one, and how much of its weight is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.checks import outliers
from pm_dpgmm.methods.sketch.checks.outliers import ODDS, with_outliers, without_background
from pm_dpgmm.methods.sketch.estimate import SketchFit, as_start, doubt, few, prior_about, sketch_data
from pm_dpgmm.methods.sketch.search.start import leaves_of, variance_error
from pm_dpgmm.methods.sketch.statistics import SketchStatistics

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-20.0, 20.0), "method": "sketch", "progress": False}
TRUTH = dpg.Mixture([0.4, 0.6], [[-3.0, 0.0], [3.0, 1.0]], [[[1.0, 0.7], [0.7, 1.5]]] * 2)


def records(share, n_records=4_000):
    rng = np.random.default_rng(1)
    found = TRUTH.sample(n_records, rng=rng)
    far = rng.random(n_records) < share
    found[far] = rng.uniform(-20, 20, (int(far.sum()), 2))
    return found


def fit_of(release, background=None):
    """The release's fit, with a background that nobody asked for."""
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    return SketchFit.of(sketch_data(evidence), as_start(evidence, release.mixture, background or 0.0))


@pytest.fixture(scope="module")
def clean():
    return dpg.fit_gmm(records(0.0), 2, **BUDGET, random_seed=1)


def test_records_of_a_mixture_have_no_background(clean):
    fit = fit_of(clean)
    assert clean.background is None and with_outliers(fit) is fit


def test_a_background_that_the_numbers_speak_against_is_left_out(clean):
    burdened = fit_of(clean, 0.2)
    assert burdened.found.background == pytest.approx(0.2)
    found = with_outliers(burdened)
    assert found.found.background is None and found.deviance < burdened.deviance
    assert found.found.weights.sum() == pytest.approx(1)


def test_a_few_far_records_are_in_no_component_and_cost_little():
    """Three per cent: a search saw no need of a background, and rows far out had densities of minus hundreds."""
    release = dpg.fit_gmm(records(0.03), 2, **BUDGET, random_seed=1)
    far = np.random.default_rng(2).uniform(-20, 20, (1_000, 2))
    assert 0.01 < release.background_weight < 0.06
    assert release.log_density(far).mean() > release.mixture.log_density(far).mean() + 10
    assert release.refit(2).background_weight == pytest.approx(release.background_weight, rel=0.2)


@pytest.mark.parametrize("bounds", [(-40.0, 40.0), None])
def test_one_column_has_a_background_too(bounds):
    """Five per cent far out moved the mean log-density of all records from -2.4 to -12."""
    rng, line = np.random.default_rng(1), dpg.Mixture([0.4, 0.6], [[-2.0], [2.0]], [[[1.0]], [[1.0]]])
    rows = np.concatenate([line.sample(5_000, rng=rng), rng.uniform(-40, 40, (260, 1))])
    release = dpg.fit_gmm(rows, 2, **BUDGET | {"bounds": bounds}, random_seed=1)
    assert 0.03 < release.background_weight < 0.07
    assert release.log_density(rows).mean() > -2.7
    np.testing.assert_allclose(np.sort(release.weights), [0.4, 0.6], atol=0.03)
    none = dpg.fit_gmm(rows[:5_000], 2, **BUDGET | {"bounds": bounds}, random_seed=1)
    assert none.background is None


@pytest.mark.parametrize("gain", [0.5, 4.0, 40.0])
def test_a_weight_is_that_of_the_fit_times_its_probability(clean, monkeypatch, gain):
    plain = fit_of(clean)
    broad = replace(plain.found, weights=plain.found.weights * 0.98, background=0.02)
    monkeypatch.setattr(outliers, "refined", lambda data, start, prior: broad)
    monkeypatch.setattr(outliers, "finished", lambda data, start, prior: broad)
    monkeypatch.setattr(
        outliers, "surprise", lambda data, found, prior, quick: 0.0 if found.background is None else -gain
    )
    found = with_outliers(plain).found
    odds = ODDS * np.exp(gain / 2)
    assert found.background == pytest.approx(0.02 * odds / (1 + odds))
    assert found.weights.sum() + found.background == pytest.approx(1)


@pytest.mark.thorough
def test_a_broad_cluster_is_no_background():
    """A fit in which two components share one cluster, and the background stands for the broad one."""
    rng = np.random.default_rng(3)
    means, covariances = [[-3.0, 0.0], [3.0, 1.0]], [[[0.5, 0.0], [0.0, 0.5]], [[9.0, 0.0], [0.0, 9.0]]]
    release = dpg.fit_gmm(dpg.Mixture([0.6, 0.4], means, covariances).sample(20_000, rng=rng), 2, **BUDGET)
    fit = fit_of(release)
    broad = fit.data.background
    narrow = dpg.Mixture([0.5, 0.5], [[-3.3, 0.0], [-2.7, 0.0]], [[[0.5, 0.0], [0.0, 0.5]]] * 2)
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    wrong = SketchFit.of(fit.data, as_start(evidence, narrow, 0.4))
    assert broad is not None and wrong.rejected
    found = with_outliers(wrong)
    assert not found.rejected and np.sort(found.mixture.weights) == pytest.approx([0.4, 0.6], abs=0.05)


@pytest.mark.thorough
def test_the_background_becomes_a_component_where_two_others_are_one(monkeypatch):
    """Starts alone, without their fits: of all pairs the two halves of the narrow cluster are merged."""
    rng = np.random.default_rng(3)
    both = np.vstack([rng.normal([-3.0, 0.0], 0.7, (12_000, 2)), rng.normal(0.0, 6.0, (8_000, 2))])
    release = dpg.fit_gmm(both, 2, **BUDGET, random_seed=1)
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    narrow = dpg.Mixture([0.5, 0.5], [[-3.3, 0.0], [-2.7, 0.0]], [[[0.4, 0.0], [0.0, 0.5]]] * 2)
    found = as_start(evidence, narrow, 0.4)
    for name in ("refined", "full_weights"):
        monkeypatch.setattr(outliers, name, lambda data, start, prior: start)
    _, merged = without_background(sketch_data(evidence), found, prior_about(found))
    assert merged.weights == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize("least", [0.0, 0.02])
def test_a_fit_to_few_records_has_at_least_its_doubt_as_a_background(clean, least, monkeypatch):
    evidence = SketchStatistics.from_arrays(clean.raw, clean.noise)
    monkeypatch.setattr(outliers, "doubt", lambda evidence, n_components: least)
    found = with_outliers(fit_of(clean), evidence).found
    assert (found.background or 0.0) == pytest.approx(least)
    assert found.weights.sum() + (found.background or 0.0) == pytest.approx(1)
    monkeypatch.setattr(outliers, "doubt", lambda evidence, n_components: 1e-6)
    monkeypatch.setattr(outliers, "_by_evidence", lambda fit: fit_of(clean, 0.1))
    seen = with_outliers(fit_of(clean, 0.2), evidence).found.background
    assert seen == pytest.approx(0.1)  # more than the least: as it was


def test_a_background_is_as_broad_as_its_noise_may_have_hidden(clean):
    """A first cell that said .4 deviations where 1.0 is right made a background that held no far record."""
    evidence = SketchStatistics.from_arrays(clean.raw, clean.noise)
    root = leaves_of(evidence.cells[0], evidence.n_records)
    error = variance_error(evidence.cells[0], evidence.n_records)
    factor = sketch_data(evidence).background[1]
    variances = (np.linalg.eigvalsh(matrix) for matrix in (factor @ factor.T, root.covariances[0]))
    assert error > 0 and np.allclose(next(variances), 1.5**2 * np.hypot(next(variances), error))
    moments = replace(evidence.cells[0], noise_scale=0.0)
    assert variance_error(moments, evidence.n_records) == 0.0


@pytest.mark.parametrize("name, most", [("sketch_one_column", 0.0), ("sketch_two_columns", 0.03)])
def test_only_fits_of_too_many_parameters_in_several_columns_are_doubted(name, most, clean):
    release = dpg.load(Path(__file__).parents[3] / "data" / "releases" / f"{name}.json")
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    assert doubt(evidence, 10**9) == pytest.approx(most)
    of_many = SketchStatistics.from_arrays(clean.raw, clean.noise)
    assert doubt(of_many, 1) == 0.0  # a signal of 240 for each number of a component
    assert not few(of_many, 8) and doubt(of_many, 8) == pytest.approx(0.0028, rel=0.05)  # of 29, which is little
