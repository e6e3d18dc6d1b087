"""A fit that its released numbers do not support says so, and a good one does not."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.methods.sketch.checks import caveats
from pm_dpgmm.methods.sketch.checks.caveats import pair_shares
from pm_dpgmm.release.release import Release
from verification.benchmarks import multi_scale

pytestmark = pytest.mark.filterwarnings("error::pm_dpgmm.FitWarning")

BUDGET = {"method": "sketch", "epsilon": 1.0, "delta": 1e-6, "progress": False}


def records(weights, means, deviations, n, seed=1):
    mixture = dpg.Mixture(weights, np.array(means)[:, None], np.square(deviations)[:, None, None])
    return mixture.sample(n, rng=np.random.default_rng(seed))


@pytest.mark.thorough(quick=["means1-deviations1-10000"])
@pytest.mark.parametrize("n", [10_000, 100_000])
@pytest.mark.parametrize(
    "means, deviations", [((-1e9, 1e9), (1.0, 1.0)), ((0.0, 0.0), (1e-3, 1e3)), ((1e9, 1e9 + 10), (1.0, 1e-6))]
)
def test_a_column_of_several_scales_is_not_silent(means, deviations, n):
    X = records([0.5, 0.5], means, deviations, n)
    with pytest.warns(dpg.FitWarning, match="narrower|distances"):
        release = dpg.fit_gmm(X, 2, **BUDGET, random_seed=1)
    assert release.warnings and all(text in release.flag for text in release.warnings)
    assert "WARNING" in release.summary() and "WARNING" in repr(release.standard_errors())


@pytest.mark.thorough(quick=["36"])
@pytest.mark.parametrize("seed", [11, 35, 36, 47, 75, 196])  # of one column and two, without bounds and with
def test_wrong_fits_of_the_study_of_many_scales_warn(seed):
    found = multi_scale.result(seed, "sketch")
    assert found.variation > multi_scale.LARGE and found.warnings and not found.silent


@pytest.mark.thorough(quick=["None-4"])
@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("bounds", [None, (-20, 30)])
def test_a_good_fit_neither_warns_nor_is_flagged(n_features, bounds):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, n_features)) + 8 * (rng.random((20_000, 1)) < 0.4)
    release = dpg.fit_gmm(X, 2, bounds=bounds, **BUDGET, random_seed=1)  # warnings are errors here
    assert release.warnings == () and release.flag is None and "WARNING" not in release.summary()


def test_groups_that_bounds_are_too_wide_to_tell_apart_are_not_called_a_good_density():
    """One warned of components alone, which says that the density is right; it lost .7 nats per record."""
    X = records([0.5, 0.5], [0.0, 8.0], [1.0, 1.0], 5_000)
    with pytest.warns(dpg.FitWarning, match="finest released wave is 9 standard deviations") as caught:
        dpg.fit_gmm(X, 2, bounds=(-1e6, 1e6), **BUDGET, random_seed=1)
    assert [item.category for item in caught] == [dpg.FitWarning]
    release = dpg.fit_gmm(X, 2, bounds=(-1e5, 1e5), **BUDGET, random_seed=1)
    assert release.warnings == ()


def test_the_warning_is_one_carries_the_release_and_survives_a_file(tmp_path):
    X = records([0.5, 0.5], (0.0, 0.0), (1e-3, 1e3), 10_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = dpg.fit_gmm(X, 2, **BUDGET, random_seed=1)
    assert [item.category for item in caught] == [dpg.FitWarning] and caught[0].filename == __file__
    assert caught[0].message.release is release and issubclass(dpg.FitWarning, UserWarning)
    again = dpg.load(release.save(tmp_path / "release.json"))
    assert again.warnings == release.warnings and len(release.warnings) >= 1
    assert release.warnings[0] in release.card(tmp_path / "card.md").read_text()


def test_warnings_are_made_of_the_released_numbers_alone():
    """A release read from a file gives the same texts when the same mixture is judged again."""
    X = records([0.5, 0.5], (0.0, 0.0), (1e-3, 1e3), 10_000)
    with pytest.warns(dpg.FitWarning):
        release = dpg.fit_gmm(X, 2, **BUDGET, random_seed=1)
    from pm_dpgmm.methods.sketch.checks.caveats import sketch_caveats
    from pm_dpgmm.methods.sketch.estimate import SketchFit, as_start, sketch_data
    from pm_dpgmm.methods.sketch.statistics import SketchStatistics

    back = Release.from_dict(release.to_dict())
    evidence = SketchStatistics.from_arrays(back.raw, back.noise)
    fit = SketchFit(sketch_data(evidence), as_start(evidence, back.mixture), back.noise["misfit"])
    assert sketch_caveats(evidence, fit, back.raw, 2) == release.noise["caveats"] == list(release.warnings)


@pytest.mark.thorough
def test_too_few_records_and_noise_are_told_and_means_stay_within_the_bounds():
    """Three clusters in four columns, 342 records: in the old code means lay outside, and nothing was said."""
    bounds = np.array([[30.0, 60.0], [12.0, 23.0], [165.0, 240.0], [2500.0, 6500.0]])
    means = np.array([[38.8, 18.3, 190.0, 3700.0], [48.8, 18.4, 196.0, 3730.0], [47.5, 15.0, 217.0, 5080.0]])
    rng = np.random.default_rng(0)
    X = means[rng.integers(3, size=342)] + rng.normal(size=(342, 4)) * [2.9, 1.1, 6.5, 450.0]
    with pytest.warns(dpg.FitWarning, match="usual within the bounds rather than measured"):
        release = dpg.fit_gmm(X, 3, bounds=bounds, epsilon=0.5, delta=1e-6, random_seed=0)
    assert ((release.means >= bounds[:, 0]) & (release.means <= bounds[:, 1])).all()
    errors = release.standard_errors()
    assert (1.645 * errors.weights > np.abs(release.weights - 1 / 3) - 0.15).all()
    one = dpg.Mixture(
        [1.0], X.mean(axis=0)[None], np.cov(X.T)[None]
    )  # components were 3 half-widths of the bounds wide
    assert release.log_density(X).mean() > one.log_density(X).mean() - 1.5
    assert 0 < release.background_weight <= 0.03


@pytest.mark.parametrize("n_components, n_features, least", [(2, 1, 5.0), (3, 1, 5.0), (2, 2, 20.0), (5, 4, 20.0)])
def test_too_few_records_is_said_just_below_the_stated_signal(n_components, n_features, least, monkeypatch):
    fit = SimpleNamespace(found=SimpleNamespace(means=np.zeros((n_components, n_features))))
    for strength, said in ((0.99 * least, True), (1.01 * least, False)):
        monkeypatch.setattr(caveats, "signal", lambda evidence, k, strength=strength: strength)
        assert bool(caveats.too_few(None, fit)) is said
    monkeypatch.setattr(caveats, "signal", lambda evidence, k: least / 4)
    assert "about 4.0 times the records" in caveats.too_few(None, fit)


@pytest.mark.parametrize(
    "word, n_axes, weight, told",
    [
        ("wider", 1, 0.11, True),
        ("wider", 1, 0.09, False),
        ("narrower", 1, 0.06, True),  # each axis may cost weight * 1.81 nats
        ("narrower", 1, 0.05, False),
        ("narrower", 2, 0.03, True),
        ("narrower", 2, 0.025, False),
    ],
)
def test_a_width_that_was_not_measured_along_an_axis_is_told_in_either_direction(
    word, n_axes, weight, told, monkeypatch
):
    rises = {name: np.full((2, 2), 1.01 * caveats.MEASURED) for name in ("narrower", "wider")}
    rises[word][1, :n_axes] = 0.99 * caveats.MEASURED
    monkeypatch.setattr(caveats, "width_rises", lambda fit: (rises["narrower"], rises["wider"]))
    mixture, data = SimpleNamespace(weights=np.array([1 - weight, weight])), SimpleNamespace(unit=np.ones(2))
    fit = SimpleNamespace(mixture=mixture, data=data, rejected=False)
    text = caveats.unmeasured_width(fit)
    assert (f"component 1 could be ten times {word} or more, and" in text) if told else text is None


@pytest.mark.parametrize("bounds", [None, (-12, 12)])
def test_a_group_of_few_records_that_is_narrow_in_several_columns_is_told(bounds):
    """8 % of 10,000 in four columns with a thousandth of the deviation: 1 nat a record was lost without a word."""
    rng = np.random.default_rng(0)
    narrow = rng.random((10_000, 1)) < 0.08
    rows = np.where(narrow, 4 + 1e-3 * rng.normal(size=(10_000, 4)), rng.normal(size=(10_000, 4)))
    settings = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": 0}
    with pytest.warns(dpg.FitWarning, match="could be ten times narrower"):
        dpg.fit_gmm(rows, 2, bounds=bounds, **settings)


def test_a_component_that_is_noise_is_told_where_there_is_much_signal():
    """200 of 20,000 records lie apart; at epsilon 0.3 they are not found, and the second component is anywhere."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20_000, 4))
    X[:200] += 8.0
    with pytest.warns(dpg.ComponentWarning, match="may be noise"):
        release = dpg.fit_gmm(X, 2, epsilon=0.3, delta=1e-6, bounds=(-6, 14), progress=False, random_seed=3)
    assert "does not speak against the density" in release.flag and len(release.warnings) == 1
    assert "WARNING, of components only: component" in release.summary()
    far = release.means[release.means.max(axis=1) > 5]
    assert len(far) == 0 and "too few records" not in release.flag


@pytest.mark.parametrize("noise_scale, least", [(1.0, 0.005 * 10_000), (40.0, 5 * math.sqrt(3) * 40)])
def test_pairs_at_an_odd_distance_are_told_from_the_stated_excess_on(noise_scale, least):
    mixture = dpg.Mixture([1.0], [[0.0]], [[[1.0]]])
    fit = SimpleNamespace(density=mixture)
    evidence = SimpleNamespace(unit=np.ones(1), variance_floor=None, resolution=None)
    counts = 10_000 * pair_shares(mixture, 0)
    at = 5  # so close that no two records are expected there
    assert counts[at - 2 : at + 3].sum() < 1e-6
    for times, told in ((0.98, False), (1.02, True)):
        more = counts + times * least * (np.arange(counts.size) == at)
        raw = {"pair_distance_law": np.array([noise_scale, 10_000]), "pair_distance_counts": more[None]}
        text = caveats.unexpected_pairs(raw, evidence, fit)
        assert ("in column 0" in text) if told else text is None


def test_a_spike_of_equal_values_warns():
    """Seven in ten are 0: the misfit of the rest hid that the spike's width was not measured."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((10_000, 1)) < 0.7, 0.0, rng.exponential(100, size=(10_000, 1)))
    with pytest.warns(dpg.FitWarning, match="component 0 could be ten times narrower.*share a value .give reg_covar."):
        dpg.fit_gmm(X, 2, bounds=(0, 2000), **BUDGET, random_seed=0)


def test_a_far_cluster_that_may_be_folded_onto_the_rest_is_not_silent():
    """A fifth of 700 records at 100: its bins are too empty to be kept, and the period of the waves folds it back."""
    X = records([0.8, 0.2], (0.0, 100.0), (5.0, 5.0), 700)
    with pytest.warns(dpg.FitWarning, match="where too few do for their place to be released"):
        release = dpg.fit_gmm(X, 2, **BUDGET, random_seed=1)
    assert release.misfit.reason(2) is None  # what was measured is explained, and the fit is wrong:
    assert np.exp(release.log_density([[100.0]])) < 1e-3 < 0.2 * stats.norm.pdf(0, scale=5.0)


@pytest.mark.thorough
def test_a_component_too_many_leaves_the_density_as_good():
    """Three where there are two: the warning is of components, and the density is that of two to 0.01 nats."""
    X = records([0.5, 0.5], (0.0, 6.0), (1.0, 1.0), 20_000)
    with pytest.warns(dpg.ComponentWarning):
        three = dpg.fit_gmm(X, 3, bounds=(-10, 15), **BUDGET, random_seed=1)
    two = three.refit(2)
    fresh = records([0.5, 0.5], (0.0, 6.0), (1.0, 1.0), 5_000, seed=2)
    assert abs((three.log_density(fresh) - two.log_density(fresh)).mean()) < 0.01 and two.flag is None


def test_pairs_of_draws_have_the_exponents_that_a_simulation_gives():
    mixture = dpg.Mixture([0.3, 0.7], [[0.0], [5.0]], [[[1.0]], [[0.01]]])
    rng = np.random.default_rng(3)
    one, other = (mixture.sample(200_000, rng=rng)[:, 0] for _ in range(2))
    counts = np.bincount(np.frexp(np.abs(one - other))[1] - 1 - EXPONENTS[0], minlength=EXPONENTS.size)
    shares = pair_shares(mixture, 0)
    assert abs(shares.sum() - 1) < 1e-12 and (shares >= 0).all()
    seen = shares * 200_000 > 5
    chi_square = (np.square(counts - 200_000 * shares) / (200_000 * np.maximum(shares, 1e-300)))[seen].sum()
    assert chi_square < stats.chi2.isf(1e-6, seen.sum())  # false alarm: 1e-6
