"""The size of a misfit: what another description of the released numbers would gain, in nats per record."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.checks import misfit as misfit_module
from pm_dpgmm.methods.sketch.checks.misfit import GAIN, OUTERMOST, SHORTFALL, THIN, Misfit, better, measured, thinness
from pm_dpgmm.methods.sketch.estimate import REJECTED, SketchFit, as_start, sketch_data
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.statistics import SketchStatistics

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

CLOSE = dpg.Mixture([0.3, 0.3, 0.4], [[-4.0], [0.0], [5.0]], [[[1.0]]] * 3)
APART = dpg.Mixture([0.3, 0.3, 0.4], [[-8.0], [0.0], [9.0]], [[[1.0]]] * 3)


def fitted(truth, n_components, n=40_000):
    records = truth.sample(n, rng=np.random.default_rng(1))
    return dpg.fit_gmm(records, n_components, epsilon=1.0, delta=1e-6, bounds=(-15, 15), random_seed=2, progress=False)


def lost(truth, density, better):
    """Nats per record that ``better`` gains, over 20,000 fresh records: a standard error of at most 0.01."""
    fresh = truth.sample(20_000, rng=np.random.default_rng(9))
    return float(np.mean(better.log_density(fresh) - density.log_density(fresh)))


@pytest.fixture(scope="module")
def two_for_three():
    return fitted(CLOSE, 2)


@pytest.fixture(scope="module")
def right():
    return fitted(APART, 3)


def as_fit(release, mixture):
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    return evidence, SketchFit.of(sketch_data(evidence), as_start(evidence, mixture))


def test_a_significant_misfit_of_no_size_is_no_flag(two_for_three):
    """Two components for three close clusters are as good as two can be, and a third gains 0.09 nats."""
    release = two_for_three
    assert release.noise["misfit"] > 100 > REJECTED and release.flag is None and release.noise["flagged"] is False
    assert release.misfit.shortfall < 0.01
    assert release.misfit.gain == pytest.approx(lost(CLOSE, release.density, CLOSE), abs=0.03)
    assert "the released numbers contradict the mixture" in release.summary() and "WARNING" not in release.summary()
    # errors of parameters are about a mixture that the records are not from
    assert "does not explain the released numbers" in release.standard_errors().flag


def test_sizes_are_measured_from_statistics_on_that_right_mixtures_hardly_have(two_for_three):
    evidence, fit = as_fit(two_for_three, two_for_three.mixture)
    assert measured(evidence, replace(fit, misfit=2.9)).gain == 0.0
    assert measured(evidence, replace(fit, misfit=4.0)).gain > 0.03


def test_a_few_records_far_away_do_not_make_the_size_of_a_misfit():
    """One in a hundred, where the released density is nothing: each counts as five nats and not as thousands."""
    larger = dpg.Mixture([0.99, 0.01], [[0.0], [100.0]], [[[1.0]]] * 2)
    gain, shortfall, _ = misfit_module._sizes(larger, dpg.Mixture([1.0], [[0.0]], [[[1.0]]]))
    assert 0 < gain < 2 * 0.01 * misfit_module.HIGHEST
    assert shortfall == 0  # a wide component for all is worse for the others by more


def test_a_right_mixture_has_no_misfit_and_costs_no_search(right, monkeypatch):
    assert right.flag is None and (right.misfit.gain, right.misfit.shortfall) == (0.0, 0.0)
    monkeypatch.setattr(misfit_module, "enlarged", None)
    found = measured(*as_fit(right, right.mixture))
    assert found == replace(right.misfit, statistic=found.statistic)


def test_missed_clusters_are_flagged_with_what_they_cost(right):
    """Two components on one cluster, one on the two others: the truth has as many components and gains 0.4 nats."""
    missed = dpg.Mixture([0.2, 0.2, 0.6], [[8.8], [9.2], [-4.0]], [[[1.0]], [[1.0]], [[17.0]]])
    found = measured(*as_fit(right, missed))
    assert found.flagged and found.shortfall == pytest.approx(lost(APART, missed, APART), rel=0.15)
    assert "is not the best one with 3 components: another would gain about 0." in found.reason(3)


def test_the_better_mixture_is_taken_where_waves_prefer_a_component_on_one_of_two_groups():
    """Least squares: one group, and the background for the other, lost 0.2 nats; and the component alone 30."""
    groups = dpg.Mixture([0.5, 0.5], [[0.0], [9.0]], [[[1.0]]] * 2)
    best = dpg.Mixture([1.0], groups.mean()[None], groups.covariance()[None])
    release = fitted(groups, 1)
    kept = release.to_dict()
    assert lost(groups, release.density, best) < 0.02 and lost(groups, release.mixture, best) < 0.02
    assert release.misfit.shortfall < SHORTFALL and "more than 1 component would gain" in release.flag
    assert_allclose(dpg.Release.from_dict(kept).refit(1).means, release.means, atol=1e-6)


def test_a_better_mixture_is_taken_for_one_component_of_any_covariance_alone(right):
    narrow = as_fit(right, dpg.Mixture([1.0], [[0.0]], [[[1.0]]]))
    taken, told = better(*narrow)
    assert taken.found.n_components == 1 and told.statistic == taken.misfit and told.shortfall < SHORTFALL
    assert lost(APART, narrow[1].mixture, taken.mixture) > 10
    evidence, fit = narrow
    tied = replace(fit, data=replace(fit.data, covariance_type="tied"))
    assert better(evidence, tied) == (tied, measured(evidence, tied))
    for mixture in (right.mixture, dpg.Mixture([0.2, 0.2, 0.6], [[8.8], [9.2], [-4.0]], [[[1.0]], [[1.0]], [[17.0]]])):
        evidence, fit = as_fit(right, mixture)
        assert better(evidence, fit) == (fit, measured(evidence, fit))


def test_the_better_component_keeps_the_background_that_few_records_ask_for(right, monkeypatch):
    monkeypatch.setattr(misfit_module, "doubt", lambda evidence, n_components: 0.02)
    taken = better(*as_fit(right, dpg.Mixture([1.0], [[0.0]], [[[1.0]]])))[0]
    assert taken.found.background >= 0.02
    assert taken.found.weights.sum() + taken.found.background == pytest.approx(1.0)


def test_too_few_components_are_flagged_where_more_gain_much():
    release = fitted(APART, 1)
    assert release.misfit.shortfall < SHORTFALL and release.misfit.gain > GAIN
    assert release.misfit.gain == pytest.approx(lost(APART, release.density, APART), rel=0.15)
    assert "more than 1 component would gain about" in release.flag and release.flag in release.summary()


@pytest.mark.thorough
def test_the_sizes_survive_a_file_and_a_refit_has_its_own(two_for_three, tmp_path):
    again = dpg.load(two_for_three.save(tmp_path / "release.json"))
    assert again.misfit == two_for_three.misfit
    refit = again.refit(3)
    assert refit.misfit.statistic < 5 and refit.misfit.gain == 0.0 and refit.flag is None


@pytest.mark.parametrize("flagged", [True, False])
def test_files_of_older_versions_keep_their_flag(two_for_three, flagged):
    fields = json.loads(json.dumps(two_for_three.to_dict()))
    fields["noise"] = {
        name: value for name, value in fields["noise"].items() if name not in ("gain", "shortfall", "tail")
    }
    fields["noise"] |= {"flagged": flagged, "misfit": 50.0}
    old = dpg.Release.from_dict(fields)
    assert old.misfit == Misfit(50.0, None, None, flagged) and "was not measured" in old.summary()
    assert (old.flag is not None) is flagged
    if flagged:
        assert "misfit 50" in old.flag and "was not measured: release.refit measures it" in old.flag


def test_sizes_are_of_the_fit_wherever_its_bounds_lie(two_for_three):
    """Bounds are in the unit of the records: in that of the fit they moved components, mostly onto a bound."""
    evidence, fit = as_fit(two_for_three, two_for_three.mixture)
    assert fit.data.bounds is not None
    moved, unbounded = (replace(fit, data=replace(fit.data, bounds=b)) for b in (np.array([[1e3, 2e3]]), None))
    found = [measured(evidence, other) for other in (fit, moved, unbounded)]
    assert found[0] == found[1] == found[2] and found[0].gain > 0


@pytest.mark.thorough
def test_a_thin_tail_of_a_single_column_warns(tmp_path, monkeypatch):
    """Log-normal: three components without a background leave out the last percent, for which 0.02 nats were told."""
    original = SketchData.of
    monkeypatch.setattr(SketchData, "of", lambda sketches, unit, _, floor: original(sketches, unit, None, floor))
    X = np.exp(1.5 * np.random.default_rng(1).normal(size=(20_000, 1)))
    with pytest.warns(dpg.FitWarning, match="the tails are too thin"):
        release = dpg.fit_gmm(X[:10_000], 3, epsilon=1.0, delta=1e-7, bounds=(0, 500), random_seed=1, progress=False)
    assert release.misfit.tail < THIN and release.misfit.flagged
    far = np.quantile(X, 0.999)
    assert np.mean(release.sample(100_000, random_seed=1) > far) < 1e-4
    assert dpg.load(release.save(tmp_path / "release.json")).warnings == release.warnings


@pytest.mark.thorough
def test_heavy_tails_of_a_single_column_are_in_the_background():
    """Log-normal: without one, densities were 0.26 nats lower on average, each of at least -50.

    Its weight may be 0.03 or 0.1, as components are wide or narrow. The share beyond 20 was 0.73 to 1.22 of the true one.
    """
    records = np.exp(1.5 * np.random.default_rng(1).normal(size=(10_000, 1)))
    release = dpg.fit_gmm(records, 3, epsilon=1.0, delta=1e-7, bounds=(0, 500), random_seed=1, progress=False)
    assert release.background_weight > 0.01 and release.warnings == ()
    fresh = np.exp(1.5 * np.random.default_rng(2).normal(size=(20_000, 1)))
    assert np.maximum(release.log_density(fresh), -50).mean() > -2.1
    beyond = np.mean(release.sample(100_000, random_seed=1) > 20) / stats.norm.sf(np.log(20) / 1.5)
    assert 2 / 3 < beyond < 3 / 2


def test_a_tail_is_told_by_both_of_its_ends():
    wide, narrow = (dpg.Mixture([1.0], [[0.0]], [[[variance]]]) for variance in (4.0, 1.0))
    found = [thinness(wide, narrow), thinness(narrow, wide), thinness(wide, wide)]
    far = 2 * stats.norm.isf(OUTERMOST)
    assert found == pytest.approx([stats.norm.sf(far) / OUTERMOST, stats.norm.sf(far / 4) / OUTERMOST, 1.0])
    left = dpg.Mixture([1.0], [[-1.0]], [[[1.0]]])
    assert thinness(narrow, left) == pytest.approx(stats.norm.sf(far / 2 + 1) / OUTERMOST)


def test_a_tail_alone_is_a_reason():
    assert Misfit.sized(13.0, 0.0, 0.0, 0.99 * THIN).flagged and not Misfit.sized(13.0, 0.0, 0.0, 1.01 * THIN).flagged
    assert "tails are too thin" in Misfit.sized(13.0, 0.2, 0.01, 0.01).reason(2)
    assert "more than 2 components" in Misfit.sized(13.0, 0.4, 0.01, 0.01).reason(2)


def test_a_contradiction_of_unknown_size_is_a_reason(right, monkeypatch):
    """A search that fails left a mixture with a misfit of hundreds without a warning."""

    def failing(*given):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(misfit_module, "enlarged", failing)
    found = measured(*as_fit(right, dpg.Mixture([1.0], [[0.0]], [[[50.0]]])))
    assert found.statistic > REJECTED and found.gain is None and found.flagged
    assert "was not measured: release.refit measures it" in found.reason(1)
    assert not Misfit.sized(REJECTED, None, None).flagged and Misfit.sized(np.inf, None, None).flagged


def test_other_methods_have_no_misfit():
    records = np.random.default_rng(1).normal(size=500)
    release = dpg.fit_gmm(records, 1, epsilon=1.0, bounds=(-15, 15), random_seed=1)
    assert release.misfit is None and release.flag is None


@pytest.mark.parametrize("part", ["enlarged", "_sizes", "_by_em"])
def test_nothing_is_raised_after_the_budget_is_spent(two_for_three, monkeypatch, part):
    def fails(*given):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(misfit_module, part, fails)
    found = measured(*as_fit(two_for_three, two_for_three.mixture))
    assert found.flagged is (found.gain is None)  # of what size it is nobody knows
    assert found.statistic == pytest.approx(two_for_three.misfit.statistic, rel=1e-3)
    assert (found.gain is None) == (part != "_by_em")


def test_an_infinite_misfit_goes_into_a_file(two_for_three, tmp_path):
    """Rounding may leave the covariance of a sketch without a factor; the release must be saved all the same."""
    endless = replace(two_for_three.misfit, statistic=np.inf)
    release = replace(two_for_three, noise=dict(two_for_three.noise) | endless.to_dict())
    assert dpg.load(release.save(tmp_path / "release.json")).misfit == endless
