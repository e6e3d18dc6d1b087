"""Releases of several sites added up: the noise, the guarantee, and what may not be added."""

import dataclasses
import warnings
from functools import reduce

import numpy as np
import pytest
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.sketch_features import GRID, sums_and_number
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch.like import Reference, sketch_like
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.privacy.curves import GaussianProfile, MaximumProfile, PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.release.combining import added, parallel

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

PLANE = dpg.Mixture([0.4, 0.6], [[0.0, 0.0], [5.0, 2.0]], [np.eye(2)] * 2)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": 1}
SITES = 4


def people(n, seed, columns=2):
    return PLANE.sample(n, rng=np.random.default_rng(seed))[:, :columns]


@pytest.fixture(scope="module", params=[1, 2], ids=["one column", "two columns"])
def sites(request):
    columns = request.param
    first = dpg.fit_gmm(people(2_000, 1, columns), 2, **BUDGET)
    others = [
        dpg.fit_gmm(people(1_000 * i, i, columns), 2, like=first, **(BUDGET | {"epsilon": 0.5 * i, "random_seed": i}))
        for i in (2, 3)
    ]
    return [first, *others]


@pytest.mark.thorough
def test_the_sum_of_four_sites_has_the_noise_of_one_release_with_four_times_the_variance():
    """Kolmogorov-Smirnov, against the normal law and against one such release; false alarms below 2e-5."""
    reference = Reference.of(dpg.fit_gmm(people(2_000, 1), 2, **BUDGET))
    relation = Neighbouring.REPLACE_ONE
    problem, budget = Problem(500, 2, 2, 1.0, 1e-6, None, relation), GaussianFilter.of(1.0, 1e-6)
    records = [people(500, 10 + i) for i in range(SITES)]
    merged = added([sketch_like(part, reference, budget, problem, rng=None) for part in records])
    # four times the variance: a quarter of mu^2, with all records in one place
    quarter = dataclasses.replace(budget, limit=budget.limit / SITES)
    single = sketch_like(np.vstack(records), reference, quarter, problem, rng=None)
    noise = {}
    for name, evidence in (("merged", merged), ("single", single)):
        parts = []
        for sketch in evidence.sketches:
            sums, number = sums_and_number(np.vstack(records), sketch.frequencies)
            assert sketch.n_records == number == 500 * SITES
            parts.append(((sketch.values - sums.astype(float) * GRID) / sketch.noise_scale).ravel())
        noise[name] = np.concatenate(parts)
    for one, other in zip(merged.sketches, single.sketches, strict=True):
        assert one.noise_scale == pytest.approx(other.noise_scale, rel=1e-6)
    assert noise["merged"].size > 1_500
    assert stats.kstest(noise["merged"], "norm").pvalue > 1e-5
    assert stats.ks_2samp(noise["merged"], noise["single"]).pvalue > 1e-5


@pytest.mark.thorough
def test_numbers_add_up_and_survive_everything(sites, tmp_path):
    both = dpg.combine(sites)
    assert both.n_records == 7_000 and both.method == "sketch" and both.settings == {"sites": 3}
    for name in (n for n in both.raw if n.startswith("sketch_")):
        assert np.array_equal(both.raw[name], reduce(np.add, [site.raw[name] for site in sites]))
    for i, law in enumerate(both.noise["sketches"]):
        scales = [site.noise["sketches"][i]["scale"] for site in sites]
        assert law["scale"] == pytest.approx(np.sqrt(np.square(scales).sum()))
    truth, fresh = PLANE.marginal(list(range(both.n_features))), people(20_000, 99, both.n_features)
    assert np.mean(truth.log_density(fresh) - both.log_density(fresh)) < 0.01
    assert both.noise["misfit"] < 5
    again = dpg.load(both.save(tmp_path / "both.json"))
    assert again.guarantee == both.guarantee and again.noise["sites"] == both.noise["sites"]
    assert np.array_equal(again.refit(1).means, both.refit(1).means)
    assert again.select_k([1, 2, 3]).chosen == 2
    # from files, in another order, in two steps
    stored = [dpg.load(site.save(tmp_path / f"{i}.json")) for i, site in enumerate(sites)]
    later = dpg.combine([dpg.combine(stored[1:]), stored[0]], n_components=[1, 2])
    assert later.n_components == 2 and later.noise["k_scores"]["n_components"] == [1, 2]
    for name in (n for n in both.raw if n.startswith("sketch_")):
        assert later.raw[name] == pytest.approx(both.raw[name], rel=1e-12)
    assert later.guarantee.epsilon == both.guarantee.epsilon and len(later.noise["sites"]) == 3
    third = dpg.fit_gmm(
        people(500, 7, both.n_features), 1, like=both, **BUDGET
    )  # a combined release is a reference too
    assert dpg.combine([both, third]).n_records == 7_500
    assert "site 2: epsilon = 1, delta = 1e-06; site 3: epsilon = 1.5" in both.summary()


def test_the_least_variances_of_a_sum_are_those_that_every_site_has(sites):
    first, second, third = (SketchStatistics.from_arrays(site.raw, site.noise) for site in sites)
    low, high = (np.full(sites[0].n_features, value) for value in (0.1, 0.3))
    floored = [dataclasses.replace(item, variance_floor=floor) for item, floor in ((first, high), (second, low))]
    for order in (floored, floored[::-1]):
        assert added(order).variance_floor.tolist() == low.tolist()
    assert added([*floored, third]).variance_floor is None


def test_a_number_of_components_that_would_take_hours_is_refused(sites):
    with pytest.raises(ValueError, match="n_components must be at most"):
        dpg.combine(sites, n_components=10**6)


def test_everyone_has_the_guarantee_of_the_weakest_site(sites):
    both = dpg.combine(sites)
    assert (both.guarantee.epsilon, both.guarantee.delta) == (1.5, 1e-6) and not both.private
    for epsilon in (0.0, 0.3, 1.0, 1.5, 5.0, 40.0):
        assert both.guarantee.curve(epsilon) == max(float(site.guarantee.curve(epsilon)) for site in sites)
    worst = max(sites, key=lambda site: site.guarantee.epsilon).guarantee
    twice = dpg.compose(both.guarantee, both.guarantee, delta=1e-5).epsilon
    assert dpg.compose(worst, worst, delta=1e-5).epsilon <= twice < 2.6  # basic composition gives 3


def test_parallel_composition_of_curves():
    loss = MaximumProfile((GaussianProfile(0.5, failure=1e-4), GaussianProfile(1.0), PointProfile(0.2, 1e-3)))
    for epsilon in (0.0, 0.1, 1.0, 10.0):
        assert loss.delta(epsilon) == max(part.delta(epsilon) for part in loss.parts)
    guarantees = [
        Guarantee(e, 0.2, Neighbouring.REPLACE_ONE, "test", GaussianProfile(mu)) for e, mu in ((1.0, 1.0), (2.0, 1.0))
    ]
    site = {"epsilon": 1.0, "delta": 0.2}
    found = parallel(guarantees, [site, site])
    assert found.loss == GaussianProfile(1.0) and found.epsilon == 2.0  # one curve: nothing to take the largest of
    assert Guarantee.from_dict(found.to_dict()) == found
    mixed = dataclasses.replace(found, loss=loss)
    assert Guarantee.from_dict(mixed.to_dict()) == mixed and parallel([mixed, mixed], [site] * 2).loss == loss
    with pytest.raises(ValueError, match="parts must hold at least one profile"):
        MaximumProfile(())


@pytest.mark.parametrize("given", [None, 5, "paths", {"a": 1}])
def test_what_holds_no_releases_is_refused(given):
    with pytest.raises(TypeError, match="releases must be several Release objects, got"):
        dpg.combine(given)


def test_under_add_remove_numbers_of_records_add_up_with_their_noise():
    settings = BUDGET | {"neighbouring": "add-remove"}
    first = dpg.fit_gmm(people(3_000, 1), 2, **settings)
    both = dpg.combine([first, dpg.fit_gmm(people(2_000, 2), 2, like=first, **settings)])
    assert both.n_records is None and both.guarantee.neighbouring is Neighbouring.ADD_REMOVE
    assert abs(SketchStatistics.from_arrays(both.raw, both.noise).n_records - 5_000) < 100


@pytest.mark.thorough
def test_what_may_not_be_added_is_named(sites):
    first, second, third = sites
    columns = first.n_features
    foreign = dpg.fit_gmm(people(3_000, 8, columns) * 3 + 40, 2, **BUDGET)
    renamed = dataclasses.replace(second, feature_names=tuple("uv")[:columns])
    relation = dpg.fit_gmm(people(3_000, 8, columns), 2, **(BUDGET | {"neighbouring": "add-remove"}))
    histogram = dpg.fit_gmm(people(500, 1, 1), 1, epsilon=1.0, bounds=(-5, 9))
    for bad, kind, words in (
        ([first], ValueError, "releases must be at least 2, got 1"),
        ([first, "file"], TypeError, "releases must hold Release objects, got 'file'"),
        ([first, histogram], ValueError, "releases must be of method 'sketch', got one of method 'histogram'"),
        ([first, foreign], ValueError, r"releases must have equal centres, got .* like=the first release"),
        ([first, renamed], ValueError, r"releases must have equal columns, got \('x0',.* in releases\[1\]"),
        ([first, second, relation], ValueError, r"equal neighbouring, .*'add-remove' in releases\[2\]"),
        ([first, second, first], ValueError, "releases must be of different sites, got 1 that are there already"),
        ([dpg.combine([first, second]), third, second], ValueError, "different sites, got 1"),
    ):
        with pytest.raises(kind, match=words):
            dpg.combine(bad)
    law = [dict(fields) for fields in second.noise["sketches"]]
    moved = dict(law[-1]["frequencies"])
    name = "step" if columns == 1 else "bases"
    law[-1]["frequencies"] = moved | {name: (np.array(moved[name]) * (1 + 1e-12)).tolist()}
    other = dataclasses.replace(second, noise={**second.noise, "sketches": law})
    with pytest.raises(ValueError, match=rf"others in sketch {len(law) - 1} of releases\[1\] than of releases\[0\]"):
        dpg.combine([first, other])
    with pytest.raises(ValueError, match="n_components must be at least 1"):
        dpg.combine(sites, n_components=0)


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e30])
def test_a_mixture_that_is_no_ordinary_start_is_refused_at_once(sites, size):
    """A file may hold any: with 1e300 the search took a minute and gave a mixture of nothing, without a warning."""
    first, second, _ = sites
    d = first.n_features
    far = dpg.Mixture(first.weights, first.means, np.broadcast_to(size * np.eye(d), (2, d, d)))
    strange = dataclasses.replace(second, mixture=far)
    with pytest.raises(ValueError, match=r"^releases\[1\]: deviations of the mixture in units must be of size"):
        dpg.combine([first, strange])
    for call in (strange.refit, lambda: strange.refit(1), lambda: strange.select_k(range(1, 3))):
        with pytest.raises(ValueError, match=r"^release: deviations of the mixture in units must be of size"):
            call()


def test_the_guarantee_of_very_many_sites_can_be_loaded():
    """Their names alone were longer than a file may hold."""
    one = Guarantee(1.0, 1e-6, Neighbouring.REPLACE_ONE, "a sketch", GaussianProfile(0.2))
    site = {"epsilon": 1.0, "delta": 1e-6, "n_records": 9, "fingerprint": "x"}
    whole = parallel([one] * 30_000, [site] * 30_000)
    assert Guarantee.from_dict(whole.to_dict()) == whole
    assert "site 1: epsilon = 1" in whole.mechanism and "29000 more, with at most epsilon = 1" in whole.mechanism


def test_sites_whose_curves_no_file_may_hold_are_refused_before_the_fit(sites, monkeypatch):
    from pm_dpgmm.release import combining

    monkeypatch.setattr(combining, "choose", lambda *given, **named: pytest.fail("a fit began"))
    losses = MaximumProfile(tuple(GaussianProfile(0.1 + 1e-7 * i) for i in range(20_000)))
    large = dataclasses.replace(sites[1], guarantee=dataclasses.replace(sites[1].guarantee, loss=losses))
    with pytest.raises(ValueError, match="must give a release that can be loaded"):
        dpg.combine([sites[0], large])


def test_a_composition_of_very_many_releases_can_be_loaded():
    one = Guarantee(1.0, 1e-6, Neighbouring.REPLACE_ONE, "x" * 500_000, GaussianProfile(0.2))
    whole = dpg.compose(one, one, one, delta=1e-5)
    assert Guarantee.from_dict(whole.to_dict()) == whole and whole.mechanism.startswith("composition of 3 releases")


def test_combine_refit_and_resume_warn_as_a_fit_does(tmp_path):
    """Of two groups a mixture of one is not to be relied on; the warning names this file and carries the release."""
    path, groups = tmp_path / "r.partial.json", np.random.default_rng(1).normal([[0.0]] * 2_000 + [[9.0]] * 2_000)
    given = BUDGET | {"bounds": (-5.0, 15.0), "epsilon": 2.0}
    with pytest.warns(dpg.FitWarning):
        first = dpg.fit_gmm(groups, 1, checkpoint=path, **given)
    with pytest.warns(dpg.FitWarning):
        second = dpg.fit_gmm(groups, 1, like=first, **given)
    makers = {
        "combine": lambda: dpg.combine([first, second]),
        "refit": lambda: first.refit(),
        "resume": lambda: dpg.resume(path),
    }
    for name, make in makers.items():
        with pytest.warns(dpg.FitWarning) as caught:
            release = make()
        (told,) = caught
        assert release.flag and release.flag in str(told.message), name
        assert told.message.release is release and told.filename == __file__, name
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(dpg.FitWarning) as error:
                make()
        assert error.value.release.flag == release.flag, name
    assert not first.refit(2).flag
