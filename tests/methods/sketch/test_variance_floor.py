"""``reg_covar`` of method "sketch": part of the model, kept by everything that is made of a release."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.frequencies import RieszProduct
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.fit import _slopes, refined
from pm_dpgmm.methods.sketch.model import SketchData, widened
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture, packed, unpacked
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.characteristic import characteristic_function

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

BUDGET = {"epsilon": 4.0, "delta": 1e-6, "bounds": (-10.0, 10.0), "method": "sketch", "progress": False}


def rows(seed, n=6000):
    rng = np.random.default_rng(seed)
    return rng.normal([[-4.0, 0.0]] * (n // 2) + [[4.0, 1.0]] * (n // 2), [1.0, 2.0])


@pytest.mark.parametrize("given", [-1.0, np.nan, np.inf, "1", [1.0, -2.0], [[1.0]], None])
def test_what_is_no_variance_is_refused_by_name(given):
    with pytest.raises(ValueError, match="reg_covar must be a finite number of at least 0"):
        dpg.fit_gmm(rows(1), 2, **BUDGET, reg_covar=given)


def test_one_number_for_each_column_or_one_for_all():
    with pytest.raises(ValueError, match="reg_covar must have 2 numbers or be one"):
        dpg.fit_gmm(rows(1), 2, **BUDGET, reg_covar=[1.0, 1.0, 1.0])


@pytest.mark.thorough
def test_wider_than_the_bounds_is_refused_and_without_bounds_is_no_failure():
    with pytest.raises(ValueError, match="reg_covar must be at most the squared width of the bounds"):
        dpg.fit_gmm(rows(1), 2, **BUDGET, reg_covar=401.0)
    for reg_covar in (1e12, 1e300):
        release = dpg.fit_gmm(rows(1), 2, **(BUDGET | {"bounds": None}), reg_covar=reg_covar, random_seed=1)
        assert np.isfinite(release.covariances).all() and release.misfit.contradiction is not None


@pytest.fixture(scope="module")
def release():
    return dpg.fit_gmm(rows(1), 2, **BUDGET, reg_covar=[0.5, 2.0], random_seed=1)


def test_the_ridge_is_part_of_the_model_not_added_to_the_answer(release):
    variances = np.diagonal(release.covariances, axis1=1, axis2=2)
    assert variances == pytest.approx(np.array([[1.0, 4.0]] * 2), rel=0.15)  # not 1.5 and 6
    without = release.covariances - np.diag([0.5, 2.0])
    assert (np.linalg.eigvalsh(without) > 0).all()
    assert release.settings["reg_covar"] == [0.5, 2.0]


@pytest.mark.thorough
def test_a_ridge_wider_than_the_records_stays_in_every_direction():
    release = dpg.fit_gmm(rows(2), 2, **BUDGET, reg_covar=9.0, random_seed=1)
    assert (np.linalg.eigvalsh(release.covariances) >= 9.0 * (1 - 1e-9)).all()
    # such a mixture is not what the records are like, and that is said
    assert "does not explain the released numbers" in release.misfit.contradiction
    assert "the released numbers contradict the mixture" in release.summary()


def test_the_characteristic_function_and_its_slopes_are_those_of_the_wider_components():
    rng = np.random.default_rng(3)
    frames = RieszProduct(0.4 * rng.normal(size=(5, 3, 2)), np.zeros(2))
    m = frames.n_frequencies
    sketch = NoisySketch(frames, rng.normal(size=(2, m)), 3.0, 1000.0, 0.0)
    variance_floor = np.array([0.3, 0.7])
    data = SketchData.of([sketch], np.ones(2), variance_floor=variance_floor)
    found = ScaledMixture(np.array([0.4, 0.6]), rng.normal(size=(2, 2)), np.tril(rng.normal(size=(2, 2, 2)) ** 2 + 0.2))
    wide = characteristic_function(data.frequencies, found.weights, found.means, widened(found.factors, variance_floor))
    expected = 1000 * np.tile(data.amplitudes, 2) * np.concatenate([wide.real, wide.imag]) - data.values
    assert data.residuals(found) == pytest.approx(expected, abs=1e-9)

    theta = packed(found)
    slopes = _slopes(data, theta, 2, None, False) * data.deviations[:, None]
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-6
        ends = [data.residuals(unpacked(theta + sign * step, 2, 2, False)) for sign in (1, -1)]
        assert slopes[:, i] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-4)
    assert np.isfinite(refined(data, found, Prior(1.0, 1.0)).objective)


@pytest.mark.parametrize("tiny", [1e-6, 0.0])
def test_a_component_as_good_as_flat_has_its_wider_factor(tiny):
    """Where a Cholesky factor of the rounded sum does not exist: one column without a variance floor, long and thin."""
    factors = np.array([[[1e5, 0.0], [1e5, tiny]]])
    found = widened(factors, np.array([1e-9, 0.0]))
    assert np.isfinite(found).all() and (np.diagonal(found, axis1=1, axis2=2) >= 0).all() and found[0, 0, 1] == 0
    assert found @ found.swapaxes(1, 2) == pytest.approx(factors @ factors.swapaxes(1, 2), rel=1e-12)


@pytest.mark.thorough
def test_everything_made_of_the_release_keeps_the_ridge(release, tmp_path):
    loaded = dpg.load(release.save(tmp_path / "release.json"))
    assert SketchStatistics.from_arrays(loaded.raw, loaded.noise).variance_floor == pytest.approx([0.005, 0.02])
    again = loaded.refit(2)
    assert again.covariances == pytest.approx(release.covariances, rel=2e-2, abs=1e-2)
    fewer = loaded.refit(1)
    assert np.linalg.eigvalsh(fewer.covariances - np.diag([0.5, 2.0])).min() > 0
    other = dpg.fit_gmm(rows(4), 2, **BUDGET, like=release, reg_covar=[0.5, 2.0], random_seed=2)
    both = dpg.combine([release, other])
    assert np.linalg.eigvalsh(both.covariances - np.diag([0.5, 2.0])).min() > 0
    draws = release.draws(5, random_seed=1)
    assert all(np.linalg.eigvalsh(one.covariances - np.diag([0.5, 2.0])).min() > 0 for one in draws)
    errors = release.standard_errors()
    assert np.isfinite(errors.standard_deviations).all() and (errors.standard_deviations < 0.3).all()


@pytest.mark.thorough
def test_one_column_with_a_point_mass_does_not_shrink_onto_it():
    rng = np.random.default_rng(5)
    records = np.where(rng.random(8000) < 0.5, 2.0, rng.normal(-3.0, 1.0, 8000))[:, None]
    release = dpg.fit_gmm(records, 2, **BUDGET, reg_covar=0.04, random_seed=1)
    assert np.sqrt(release.covariances.min()) == pytest.approx(0.2, abs=0.1)
