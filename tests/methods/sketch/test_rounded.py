"""Fits to rounded columns: parameters before rounding, through files, references, sums of sites and evidence."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.methods.sketch.checks.caveats import pair_shares
from pm_dpgmm.methods.sketch.estimate import sketch_data
from pm_dpgmm.methods.sketch.fit import error_root, misfit, reweighted
from pm_dpgmm.methods.sketch.law import SketchLaw, factors_of, plug_in_covariance
from pm_dpgmm.methods.sketch.location import LEAST_STEPS, centre_and_unit
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.rounding import RoundedWaves

COARSE = {"epsilon": 4.0, "delta": 1e-6, "bounds": (-12.0, 16.0), "random_seed": 3, "progress": False}


def rounded(n_features, step, n_records=4_000, seed=1):
    """Two components of deviation 1 with their centres 5 apart, a third of the records in the second."""
    rng = np.random.default_rng(seed)
    records = rng.normal(size=(n_records, n_features))
    records[: n_records // 3] += 5
    return np.rint(records / step) * step


@pytest.fixture(scope="module")
def coarse():
    """Rounded to one and a half deviations."""
    return dpg.fit_gmm(rounded(1, 1.5), 2, resolution=1.5, **COARSE)


def test_parameters_are_those_before_rounding(coarse):
    """Seeded. Errors allowed are some four standard errors; rounding alone adds .19 to variances."""
    order = np.argsort(coarse.means[:, 0])
    assert coarse.weights[order] == pytest.approx([2 / 3, 1 / 3], abs=0.04)
    assert coarse.means[order, 0] == pytest.approx([0.0, 5.0], abs=0.15)
    assert np.sqrt(coarse.covariances[order, 0, 0]) == pytest.approx([1.0, 1.0], abs=0.12)
    assert not coarse.warnings and coarse.misfit.statistic < 5 and coarse.check_fit().p_value > 1e-3
    errors = coarse.standard_errors()
    assert (errors.means < 0.1).all()


@pytest.mark.thorough
@pytest.mark.parametrize("step", [[0.3, 0.0], [1.5, 1.5]])
def test_several_columns(step):
    steps = np.array(step)
    records = rounded(2, np.where(steps > 0, steps, 1e-9))
    found = dpg.fit_gmm(records, 2, resolution=step, **COARSE)
    order = np.argsort(found.means[:, 0])
    assert found.means[order] == pytest.approx(np.array([[0.0, 0.0], [5.0, 5.0]]), abs=0.15)
    assert np.sqrt(np.diagonal(found.covariances, axis1=1, axis2=2)) == pytest.approx(np.ones((2, 2)), abs=0.12)
    assert found.misfit.statistic < 5


@pytest.mark.thorough
def test_a_column_of_two_values_has_an_answer():
    """No width is in two values: what is asked is an ordinary release."""
    records = (np.random.default_rng(1).random((3_000, 1)) < 0.3).astype(float)
    found = dpg.fit_gmm(records, 1, resolution=1.0, epsilon=2.0, delta=1e-6, random_seed=1, progress=False)
    share = found.sample(20_000, random_seed=1, rounded=True).mean()
    assert share == pytest.approx(0.3, abs=0.05)


def binary_columns(n_waves=120):
    """Data and law of sketches of two columns of zeros and ones, and the mixture: components are a third of a step."""
    waves = np.random.default_rng(1).uniform(-2.5, 2.5, size=(n_waves, 2))
    rounded_waves, gain, n = RoundedWaves.of(waves, np.ones(2)), np.ones(n_waves), 50_000.0
    values, variances, floor = np.zeros(2 * n_waves), np.full(2 * n_waves, 100.0), np.full(2, 1 / 9)
    public = (waves, gain, values, variances, n, np.zeros(2), np.ones(2))
    data = SketchData(*public, variance_floor=floor, rounded=rounded_waves)
    law = SketchLaw(waves, gain, np.zeros(2), values, np.sqrt(variances), n, 0.0, None, rounded_waves)
    weights, means = np.array([0.6, 0.4]), np.array([[0.0, 0.0], [1.0, 0.0]])
    start = ScaledMixture(weights, means, np.tile(1e-3 * np.eye(2), (2, 1, 1)))
    return data, law, start, Mixture(weights, means, np.tile(np.eye(2) / 9, (2, 1, 1)))


def test_columns_of_few_values_have_weights_errors_and_evidence():
    """Terms of the covariance that are left out there make it one of no law; a fit ended so after it had spent."""
    data, law, start, mixture = binary_columns()
    assert np.linalg.eigvalsh(data.sampling(start))[0] < -1.0  # what this is about; the largest is 29
    assert np.isfinite(misfit(data, start))
    prior = Prior(1.0, 1.0)
    found = reweighted(data, start, prior, rounds=1, steps=2)
    assert np.isfinite(found.objective) and np.isfinite(error_root(data, found, prior)).all()
    for some in (data, replace(data, variances=1e9 * data.variances)):  # of all numbers, and each by its own noise
        assert np.isfinite(error_root(some, start, prior)).all()
    assert np.isfinite(plug_in_covariance(law, mixture).log_density(law.values))


def test_files_hold_the_resolution_and_refuse_others(coarse):
    again = dpg.Release.from_dict(json.loads(json.dumps(coarse.to_dict())))
    assert again.resolution.tolist() == [1.5] and again.check_fit().statistic == coarse.check_fit().statistic
    assert "Rounded columns: x0 to 1.5" in again.summary()
    for bad in ([-1.0], [1.0, 1.0], ["a"], 1.5, [1e-200], [0.77]):
        fields = json.loads(json.dumps(coarse.to_dict()))
        fields["noise"]["resolution"] = bad
        with pytest.raises((TypeError, ValueError), match="resolution"):
            dpg.Release.from_dict(fields)


def test_samples_are_of_the_density_unless_rounded(coarse):
    plain, stepped = (coarse.sample(50, random_seed=2, rounded=asked) for asked in (False, True))
    assert np.allclose(np.rint(plain / 1.5) * 1.5, stepped)
    assert not np.allclose(plain, stepped)
    with pytest.raises(TypeError, match="rounded must"):
        coarse.sample(2, rounded=1)


@pytest.mark.thorough
def test_another_site_and_the_sum(coarse):
    given = {name: value for name, value in COARSE.items() if name != "random_seed"}
    other = dpg.fit_gmm(rounded(1, 1.5, seed=2), 2, like=coarse, random_seed=4, **given)
    assert other.resolution.tolist() == [1.5]
    both = dpg.combine([coarse, other])
    assert both.resolution.tolist() == [1.5] and both.misfit.statistic < 5
    with pytest.raises(ValueError, match=r"resolution must be that of like, \[1.5\]"):
        dpg.fit_gmm(rounded(1, 1.0), 2, like=coarse, resolution=1.0, **COARSE)


def test_methods_without_rounding_refuse_it_before_they_spend(tmp_path):
    ledger = dpg.Ledger(tmp_path / "l.db", epsilon=9.0, delta=1e-3)
    without_bounds = {**COARSE, "bounds": None}
    for method in ("em", "slices", "central", "aggregate", "local", "gaps", "populous", "two-phase"):
        with pytest.raises(ValueError, match="resolution must be left out with method"):
            dpg.fit_gmm(rounded(1, 1.0), 2, method=method, resolution=1.0, ledger=ledger, **without_bounds)
    with pytest.raises(ValueError, match="resolution must"):
        dpg.fit_gmm(rounded(1, 1.0), 2, resolution={"x9": 1.0}, ledger=ledger, **COARSE)
    assert not ledger.entries()


def test_fits_and_evidence_have_one_law(coarse):
    """The data of a fit and the law of PyMC's evidence expect the same numbers with the same covariance."""
    statistics = SketchStatistics.from_arrays(coarse.raw, coarse.noise)
    data, law, mixture = sketch_data(statistics), SketchLaw.of(coarse), coarse.mixture
    from pm_dpgmm.methods.sketch.estimate import as_start

    start = as_start(statistics, mixture)
    parts = mixture.weights, mixture.means, factors_of(mixture)
    assert np.allclose(data.expected(start), law.expected(*parts), rtol=1e-9, atol=1e-6)
    sampling = law.covariance(*parts) - np.diag(law.deviations**2)
    assert np.allclose(data.sampling(start) * law.n_records, sampling, atol=1e-6 * law.n_records)


@pytest.mark.thorough
def test_the_evidence_of_pymc_is_that_law(coarse):
    import pytensor.tensor as pt

    from pm_dpgmm.bayes.likelihoods import sketch, sketch_graph

    law, mixture = SketchLaw.of(coarse), coarse.mixture
    parts = mixture.weights, mixture.means + 0.1, factors_of(mixture)
    expected = plug_in_covariance(law, mixture).log_density(law.values - law.expected(*parts))
    found = sketch.log_likelihood(coarse, *map(pt.as_tensor, parts))
    assert found.eval() == pytest.approx(float(expected), rel=1e-9)
    arrays = sketch.held_arrays(law, mixture)
    names = ("frequencies", "centre", "size", "target", "root")
    graph = sketch_graph.plug_in(
        *map(pt.as_tensor, parts), *(pt.as_tensor(arrays[n]) for n in names), arrays["constant"].reshape(1)
    )
    assert len(arrays["frequencies"]) > len(law.frequencies)  # further terms, where components are narrow
    assert graph.eval() == pytest.approx(float(expected), rel=1e-9)
    with pytest.raises(ValueError, match="likelihood must be 'gaussian'"):
        sketch.log_likelihood(coarse, *map(pt.as_tensor, parts), likelihood="exact")


def test_intervals_are_wide_against_the_steps():
    intervals = np.array([[2.9, 3.2], [0.0, 80.0], [1e15, 1e15 + 8]])
    centre, unit, kept = centre_and_unit(intervals, np.array([1.0, 0.0, 1e-3]))
    assert centre.tolist() == [3.0, 40.0, 1e15 + 4] and kept.tolist() == [1.0, 0.0, 0.0]
    assert unit.tolist() == [LEAST_STEPS, 40.0, 4.0]


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("deviation", [0.5, 0.7, 0.9])
def test_scores_of_a_few_steps_are_no_columns_of_several_scales(deviation):
    """Pairs of rounded records are equal or steps apart: right fits without bounds were told to transform the columns."""
    X = np.round(np.random.default_rng(40).normal(3.4, deviation, 10_000))[:, None]
    found = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, resolution=1, random_seed=2, progress=False)
    assert found.covariances[0, 0, 0] ** 0.5 == pytest.approx(deviation, rel=0.05)
    assert all("was not measured; the column is rounded" in text for text in found.warnings)


@pytest.mark.parametrize("step", [0.25, 1.0, 8.0])
def test_pairs_of_rounded_draws_have_the_shares_that_are_told(step):
    mixture = Mixture([0.4, 0.6], [[0.0], [5.0]], [[[0.3]], [[4.0]]])
    shares = pair_shares(mixture, 0, step)
    drawn = np.round(mixture.sample(400_000, rng=np.random.default_rng(1))[:, 0] / step) * step
    apart = np.abs(drawn[::2] - drawn[1::2])
    counted = np.bincount(np.searchsorted(2.0 ** EXPONENTS[1:], apart, side="right"), minlength=len(EXPONENTS))
    assert shares.sum() == pytest.approx(1.0)
    # 5 standard errors for each of some ten shares: a false alarm in 200,000
    assert np.abs(counted / len(apart) - shares).max() < 5 * 0.5 / np.sqrt(len(apart))
