"""Sketches at another release's frequencies: shares of the budget, checks before it is spent, what a file must hold."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms import sketch
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch import like as sketch_like
from pm_dpgmm.methods.sketch.like import Reference
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.privacy.guarantee import Neighbouring

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

PLANE = dpg.Mixture([0.4, 0.6], [[0.0, 0.0], [5.0, 2.0]], [np.eye(2)] * 2)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": 1}


def people(n, seed, columns=2):
    return PLANE.sample(n, rng=np.random.default_rng(seed))[:, :columns]


@pytest.fixture(scope="module", params=[1, 2], ids=["one column", "two columns"])
def first(request):
    return dpg.fit_gmm(people(4_000, 1, request.param), 2, **BUDGET)


def test_a_site_has_the_frequencies_and_its_own_numbers(first, tmp_path):
    columns = first.n_features
    stored = dpg.load(first.save(tmp_path / "first.json"))
    release = dpg.fit_gmm(people(3_000, 2, columns), 2, like=stored, **BUDGET)
    own, others = (SketchStatistics.from_arrays(r.raw, r.noise) for r in (release, first))
    assert own.fingerprint == others.fingerprint == release.settings["like"]
    assert own.n_records == release.n_records == 3_000
    for mine, theirs in zip(own.sketches, others.sketches, strict=True):
        assert (mine.values != theirs.values).all()
    if columns == 2:  # the same shares of the budget, all of it
        ratio = [a.noise_scale / b.noise_scale for a, b in zip(own.sketches, others.sketches, strict=True)]
        assert ratio[0] == pytest.approx(ratio[1], rel=1e-5) and ratio[0] < 1
        assert own.cells[0].counts.sum() == pytest.approx(3 / 4 * others.cells[0].counts.sum())
    truth = PLANE.marginal(list(range(columns)))
    fresh = people(10_000, 9, columns)
    assert np.mean(truth.log_density(fresh) - release.log_density(fresh)) < 0.02
    assert release.guarantee.loss.failure == 0 and "methods/sketch/like.md" in release.guarantee.mechanism
    assert dpg.load(release.save(tmp_path / "second.json")).select_k([1, 2]).chosen == 2


def test_a_reference_keeps_of_a_start_what_was_checked(first):
    (start,) = Reference.of(first).starts.values()
    unchecked = Reference(Reference.of(first).evidence, {2: replace(start, given=np.full(start.factors.shape, np.nan))})
    kept = unchecked.starts[2]
    assert kept.given is None and np.isfinite(kept.covariances).all()
    assert not any(array.flags.writeable for array in (kept.weights, kept.means, kept.factors))


def test_the_whole_budget_is_spent_and_no_more():
    """Nine sketches whose shares are no fractions; the last takes what is left."""
    waves = [FejerHarmonics(1.0 + i, 3, 0.0) for i in range(9)]
    sketches = [NoisySketch(wave, np.zeros((2, 3)), 3.0 + i, 50.0) for i, wave in enumerate(waves)]
    reference = Reference.of(SketchStatistics(tuple(sketches), np.ones(1)))
    budget, spent = GaussianFilter.of(1.0, 1e-6), []
    real = sketch_like.noisy_sketch

    def watched(*args, **settings):
        found, left = real(*args, **settings)
        spent.append(left.spent / left.limit)
        return found, left

    problem = Problem(50, 1, 1, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketch_like, "noisy_sketch", watched)
        sketch_like.sketch_like(np.zeros((50, 1)), reference, budget, problem, rng=np.random.default_rng(0))
    assert len(spent) == 9 and 0.999999 < spent[-1] <= 1
    asked = np.array([4 / (3.0 + i) ** 2 for i in range(9)])
    assert np.diff([0.0, *map(float, spent)]) == pytest.approx(asked / asked.sum(), rel=1e-4)


@pytest.mark.thorough(quick=["two columns"])
def test_bounds_clip_and_estimators_take_it(first):
    columns = first.n_features
    records = people(3_000, 2, columns)
    inside = dpg.fit_gmm(np.clip(records, -1, 4), 1, like=first, bounds=(-1, 4), **BUDGET)
    clipped = dpg.fit_gmm(records, 1, like=first, bounds=(-1, 4), **BUDGET)
    assert all(np.array_equal(inside.raw[name], clipped.raw[name]) for name in inside.raw)
    estimator = dpg.PrivateGaussianMixture(1, delta=1e-6, bounds=(-1, 4), random_state=1, settings={"like": first})
    from sklearn.base import clone

    assert np.array_equal(clone(estimator).fit(records).release_.raw["sketch_0"], clipped.raw["sketch_0"])


def test_the_cells_of_the_bounds_are_counted_and_paid(first, monkeypatch):
    spent, real = [], GaussianFilter.spend

    def watched(budget, *given, **settings):
        scale, left = real(budget, *given, **settings)
        spent.append((left.spent / left.limit, settings["n_numbers"]))
        return scale, left

    columns = first.n_features
    records, bounds = people(3_000, 2, columns), np.array([[-3.0, 8.0]] * columns)
    release_module = "pm_dpgmm.methods.sketch.like.Reference.check"
    monkeypatch.setattr(release_module, lambda *given: None)  # it computes the same costs before
    monkeypatch.setattr(GaussianFilter, "spend", watched)
    release = dpg.fit_gmm(records, 1, like=first, bounds=bounds, **BUDGET)
    assert spent[0] == (pytest.approx(1 / 25, rel=1e-3), 16 * columns) and 0.999 < spent[-1][0] <= 1
    assert len(spent) == 1 + len(SketchStatistics.from_arrays(first.raw, first.noise).sketches)
    assert release.raw["cells_0"][:, :3] == pytest.approx(np.column_stack([np.arange(columns), bounds]))
    assert abs(release.raw["cells_0"][:, 3:].sum(axis=1) - 3_000).max() < 6 * 4 * release.raw["cell_noise"][0]
    assert "cells_0" not in dpg.fit_gmm(records, 1, like=first, **BUDGET).raw


def test_records_beyond_the_interval_of_the_reference_are_told_or_found():
    """Half or a tenth of the records at 80, where the reference has none; without the counts there was no word."""
    north = np.random.default_rng(1).normal([[20.0]] * 1_500 + [[30.0]] * 1_500, 2.0)
    settings = BUDGET | {"bounds": (0, 100)}
    first = dpg.fit_gmm(north, 2, **settings)
    for few in (1_500, 300):
        south = np.random.default_rng(2).normal([[20.0]] * (3_000 - few) + [[80.0]] * few, 2.0)
        found = dpg.fit_gmm(south, 2, like=first, **settings)
        assert any("records were counted where the mixture has others" in text for text in found.warnings)
        both = dpg.combine([first, found], n_components=3)
        assert both.raw["cells_0"][0, 3:] == pytest.approx(first.raw["cells_0"][0, 3:] + found.raw["cells_0"][0, 3:])
        noise = [release.raw["cell_noise"][0] for release in (first, found, both)]
        assert noise[2] == pytest.approx(np.hypot(*noise[:2]))
        assert any("records were counted" in text for text in both.warnings)
    near = np.random.default_rng(3).normal([[20.0]] * 1_500 + [[30.0]] * 1_500, 2.0)
    again = dpg.fit_gmm(near, 2, like=first, **settings)
    assert not any("records were counted" in text for text in again.warnings)
    wider = dpg.fit_gmm(near, 2, like=first, **(settings | {"bounds": (0, 90)}))
    assert "cells_0" not in dpg.combine([first, wider]).raw


def test_under_add_remove_the_number_of_records_stays_secret():
    settings = BUDGET | {"neighbouring": "add-remove"}
    first = dpg.fit_gmm(people(4_000, 1), 2, **settings)
    second = dpg.fit_gmm(people(3_000, 2), 2, like=first, **settings)
    assert (
        second.n_records is None and abs(SketchStatistics.from_arrays(second.raw, second.noise).n_records - 3_000) < 60
    )
    few = dpg.fit_gmm(people(3, 2), 1, like=first, **settings)  # a count below 1 with noise
    assert np.isfinite(few.means).all()
    with pytest.raises(ValueError, match="like must have neighbouring 'replace-one' as this fit has"):
        dpg.fit_gmm(people(100, 2), 2, like=first, **BUDGET)


def test_bad_references_are_refused_before_budget_is_spent(first, tmp_path, monkeypatch):
    monkeypatch.setattr(sketch, "discrete_gaussian", lambda *a, **k: pytest.fail("spent"))
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    columns = first.n_features
    records, settings = people(100, 2, columns), BUDGET | {"ledger": ledger}
    histogram = dpg.fit_gmm(people(500, 1, 1), 1, epsilon=1.0, bounds=(-5, 9))
    for like, kind, words in (
        ("file.json", TypeError, "like must be a Release of method 'sketch', got 'file.json'"),
        (histogram, ValueError, "like must be a Release of method 'sketch', got one of method 'histogram'"),
    ):
        with pytest.raises(kind, match=words):
            dpg.fit_gmm(records, 1, like=like, **settings)
    with pytest.raises(ValueError, match="X must have the columns of like"):
        dpg.fit_gmm(pd.DataFrame(records, columns=list("uv")[:columns]), 1, like=first, **settings)
    evidence = SketchStatistics.from_arrays(first.raw, first.noise)
    with pytest.raises(ValueError, match=f"like must have 3 features as X has, got {columns}"):
        dpg.fit_gmm(np.hstack([people(100, 2), people(100, 3, 1)]), 1, like=evidence, **settings)
    with pytest.raises(ValueError, match="order must be None with like"):
        dpg.fit_gmm(records, 1, like=first, order=8, **settings)
    assert ledger.spent == (0.0, 0.0)
