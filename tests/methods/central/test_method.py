"""Method "central" from records to release: what is spent, what leaves, what it finds, what it refuses."""

import json
import warnings
from contextlib import nullcontext
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm import fit as front_door
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.methods.central import method as central_method
from pm_dpgmm.methods.central.method import Central
from pm_dpgmm.methods.central.statistics import CentralStatistics
from pm_dpgmm.methods.em.law import log_density
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.privacy.guarantee import Neighbouring
from tests.builders.interruptions import interrupted_after

RELEASES = Path(__file__).resolve().parents[2] / "data" / "releases"
LINE = dpg.Mixture([0.3, 0.7], [[-2.0], [2.0]], [[[0.6]], [[1.2]]])
PLANE = dpg.Mixture([0.4, 0.6], [[-2.0, 0.0], [2.0, 1.0]], [[[1.0, 0.3], [0.3, 0.5]], [[0.6, 0.0], [0.0, 1.0]]])
BUDGET = {"epsilon": 1.0, "bounds": (-6, 6), "progress": False}


def fitted(truth, n_records, *, seed=1, **settings):
    records = truth.sample(n_records, rng=np.random.default_rng(seed))
    return dpg.fit_gmm(records, truth.n_components, method="central", random_seed=seed, **BUDGET, **settings)


def problem(n_features=1, n_components=2, **change):
    given = {"epsilon": 1.0, "delta": 0.0, "bounds": np.array([[-6.0, 6.0]] * n_features)}
    return Problem(1000, n_features, n_components, neighbouring=Neighbouring.REPLACE_ONE, **given | change)


@pytest.mark.thorough(quick=["truth0-public-gaussian-replace-one", "truth1-found-laplace-add-remove"])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("truth, cells", [(LINE, "public"), (LINE, "found"), (PLANE, "found")])
def test_it_finds_the_mixture(truth, cells, noise, neighbouring):
    """Errors are a fifth of these limits on average; seeds are fixed."""
    delta = 1e-6 if noise == "gaussian" else None
    release = fitted(truth, 20_000, neighbouring=neighbouring, noise=noise, cells=cells, delta=delta)
    found, order = release.mixture, np.argsort(release.means[:, 0])
    np.testing.assert_allclose(found.weights[order], truth.weights, atol=0.05)
    np.testing.assert_allclose(found.means[order], truth.means, atol=0.15)
    np.testing.assert_allclose(found.covariances[order], truth.covariances, atol=0.25)
    assert release.guarantee.delta == (delta or 0.0) and release.warnings == ()


def test_overlapping_components_are_no_bias():
    """Moments of cut clusters, as published, stop at a loss of .05 here at any number of records."""
    close = dpg.Mixture([0.15, 0.35, 0.5], [[17.0], [30.0], [50.0]], [[[9.0]], [[16.0]], [[25.0]]])
    records = close.sample(100_000, rng=np.random.default_rng(0))
    release = dpg.fit_gmm(records, 3, method="central", random_seed=0, **BUDGET | {"bounds": (0, 80)})
    assert float((close.log_density(records) - release.mixture.log_density(records)).mean()) < 1e-4


def test_the_answer_is_at_the_top_of_the_law_that_observe_has():
    release = fitted(LINE, 20_000)
    sums = CentralStatistics.of(release)

    def density(weights, means, variances):
        return log_density(sums, weights, means, np.sqrt(variances))

    best = density(release.weights, release.means, release.covariances)
    assert best > density(LINE.weights, LINE.means, LINE.covariances) - 0.5
    for sign in (-1, 1):
        assert density(release.weights, release.means + sign * 0.1, release.covariances) < best
        assert density(release.weights, release.means, release.covariances * 1.1**sign) < best


@pytest.mark.parametrize("cells", ["public", "found"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_whole_budget_is_spent_and_no_more(cells, delta, monkeypatch):
    filters, real = [], central_method.noisy_bernstein_sums

    def heard(*given, **named):
        found, left = real(*given, **named)
        filters.append(left)
        return found, left

    monkeypatch.setattr(central_method, "noisy_bernstein_sums", heard)
    fitted(LINE, 3_000, cells=cells, delta=delta or None, noise="gaussian" if delta else "laplace")
    assert len(filters) == (1 if cells == "public" else 4)
    assert all(one.spent <= one.limit for one in filters) and filters[-1].spent / filters[-1].limit > 0.999999


@pytest.mark.parametrize("settings", [Central(), Central(cells="found"), Central(cells="found", n_cells=9)])
@pytest.mark.parametrize("n_components", [1, 2, 7])
def test_shares_of_levels_add_up_in_rational_numbers(settings, n_components):
    given = problem(n_components=n_components)
    shares, sizes = settings.shares(given), settings.sizes(given)
    assert sum(shares) == Fraction(1) and min(shares) > 0 and len(shares) == len(sizes)
    assert all(after <= 2 * before for before, after in pairwise(sizes[:-1]))


@pytest.mark.parametrize("epsilon, delta, normal", [(1.0, 1e-6, False), (1.0, 0.0, False), (1.0, 1e-30, False)])
def test_noise_is_what_is_narrower(epsilon, delta, normal):
    assert Central().gaussian(problem(epsilon=epsilon, delta=delta)) is normal
    assert Central().cost(problem(epsilon=epsilon, delta=delta)) == (epsilon, delta if normal else 0.0)


def test_gaussian_noise_is_taken_where_it_is_narrower():
    """Many levels, and a delta so large that it hardly hides anything."""
    given = problem(n_features=2, n_components=16, epsilon=0.1, delta=1e-2)
    assert Central().gaussian(given) and isinstance(Central().budget(given), GaussianFilter)


def test_records_outside_the_bounds_count_at_their_edge():
    records = LINE.sample(3_000, rng=np.random.default_rng(1))
    wild, edge = records.copy(), records.copy()
    wild[0], edge[0] = 1e300, 6.0
    one, other = (dpg.fit_gmm(rows, 2, method="central", random_seed=1, **BUDGET).raw for rows in (wild, edge))
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"n_cells": 1}, "n_cells must be at least 2"),
        ({"n_cells": 257}, "n_cells must be at most 256"),
        ({"cells": "hard"}, "cells must be one of 'public', 'found', got 'hard'"),
        ({"noise": "none"}, "noise must be one of 'laplace', 'gaussian', got 'none'"),
        ({"start_share": 0.0}, "start_share must lie strictly between 0 and 1"),
        ({"start_share": 0.999}, "start_share must be from 0.01 to 0.99"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Central(**settings)


@pytest.mark.parametrize(
    "n_columns, change, words",
    [
        (1, {"bounds": None}, "needs bounds"),
        (1, {"bounds": (1e12, 1e12 + 1)}, "bounds must not lie so far from 0"),
        (1, {"bounds": (-1e300, 1e300)}, "bounds must lie within 1e100"),
        (1, {"noise": "gaussian"}, "noise 'gaussian' needs delta"),
        (1, {"n_cells": 3}, "n_cells must be at least 2 for each component, got 3 for 2"),
        (2, {"cells": "public"}, "cells must be 'found' with more than one column"),
        (20, {}, "all levels have at most 1200 numbers, got"),
        (
            1,
            {"epsilon": 1e-9},
            "epsilon and delta must be so large that the noise fits integers of 64 bits, got 1e-09 and 0",
        ),
        (1, {"epsilon": 1e12}, "epsilon must be at most 1e.09 for integer noise"),
    ],
)
def test_problems_that_it_cannot_do_cost_nothing(n_columns, change, words, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    records = np.random.default_rng(2).normal(size=(100, n_columns))
    with pytest.raises(ValueError, match=words):
        dpg.fit_gmm(records, 2, method="central", ledger=ledger, **(BUDGET | change))
    assert ledger.spent == (0.0, 0.0)


def test_a_delta_that_is_not_needed_is_not_spent(tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    assert fitted(LINE, 1_000, delta=1e-6, ledger=ledger).guarantee.delta == 0.0
    assert ledger.spent == (1.0, 0.0)


@pytest.mark.thorough(quick=["20-1.0"])
@pytest.mark.parametrize("n, epsilon", [(10, 1.0), (20, 1.0), (30, 1.0), (1_000, 0.01)])
def test_a_mean_that_may_be_that_of_noise_is_told(n, epsilon):
    """Of these sizes a third to nine tenths passed without a word, means many deviations off among them."""
    for seed in range(15):
        X = np.random.default_rng(seed).normal(3, 1, (n, 1))
        with pytest.warns(dpg.FitWarning):
            release = dpg.fit_gmm(X, 1, epsilon=epsilon, bounds=(-10, 20), method="central", random_seed=seed)
        assert any("the place of component 0 may be that of noise" in reason for reason in release.warnings)


@pytest.mark.thorough
@pytest.mark.parametrize("n, n_columns", [(200, 1), (3_000, 2)])
def test_records_that_stand_out_are_not_called_noise(n, n_columns):
    """Each is; at 200 records of one column they stand out by some twenty deviations."""
    for seed in range(10):
        X = np.random.default_rng(seed).normal(3, 1, (n, n_columns))
        release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-10, 20), method="central", random_seed=seed)
        assert not any("the place of" in reason for reason in release.warnings)


def test_a_few_records_make_a_release_that_warns():
    with pytest.warns(dpg.FitWarning, match="too few records or too small a budget"):
        release = fitted(PLANE, 60)
    assert np.isfinite(release.means).all() and "too few" in release.flag


@pytest.mark.parametrize("half, told", [(12, False), (500, True)])
def test_cells_that_did_not_shrink_to_the_components_are_told(half, told):
    """In bounds 80 times too wide such fits lost a nat a record in silence; in the narrow ones 0.001."""
    rng = np.random.default_rng(3)
    n = 800 if told else 3_200
    X = rng.normal([[0.0, 0.0]] * (n + n // 2) + [[6.0, 6.0]] * n, 1.0)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-half, half), method="central", random_seed=1, progress=False)
    assert [issubclass(one.category, dpg.FitWarning) for one in shown] == [True] * told
    assert told == ("may be noise" in str(release.flag))


@pytest.mark.parametrize("narrow, told", [(0.5, False), (0.02, True)])
def test_noise_as_large_as_the_narrowest_column_is_told(narrow, told):
    """The mean variance of both columns said nothing where half a nat to a nat a record was lost."""
    rng = np.random.default_rng(4)
    X = (rng.normal(size=(10_000, 2)) + np.repeat([[0.0], [4.0]], 5_000, axis=0)) * [narrow, 1.0]
    settings = {"bounds": (-6, 10), "method": "central", "random_seed": 1, "progress": False}
    with pytest.warns(dpg.FitWarning, match="the covariance of components 0, 1") if told else nullcontext():
        release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, **settings)
    assert told == (release.warnings != ())


@pytest.mark.parametrize("low, told", [(0.8, True), (-1.0, False)])
def test_bounds_that_cut_off_most_records_are_told(low, told):
    """Lower bounds of .8 cut off 79 % of normal records and gave a mean of .8, in silence; of -1 they gave 0."""
    X = np.random.default_rng(0).normal(size=(5_000, 1))
    with pytest.warns(dpg.FitWarning, match="cut off many records") if told else nullcontext():
        release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(low, 5), method="central", random_seed=1, progress=False)
    assert told == (release.warnings != ())
    assert release.means[0, 0] == pytest.approx(0.8 if told else 0.0, abs=0.05)


@pytest.mark.thorough
def test_bounds_much_too_wide_warn_and_found_cells_do_not_need_them():
    records = LINE.sample(20_000, rng=np.random.default_rng(1))
    wide = BUDGET | {"bounds": (-1000, 1000), "random_seed": 1}
    with pytest.warns(dpg.FitWarning, match="cells too wide"):
        dpg.fit_gmm(records, 2, method="central", **wide)
    release = dpg.fit_gmm(records, 2, method="central", cells="found", n_cells=8, **wide)
    assert release.warnings == ()
    np.testing.assert_allclose(np.sort(release.means[:, 0]), LINE.means[:, 0], atol=0.2)


@pytest.mark.thorough(quick=["1-add-remove", "4-replace-one"])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
@pytest.mark.parametrize("stop", [1, 3, 4])
def test_an_interrupted_fit_goes_on_from_what_it_had_released(stop, neighbouring, tmp_path):
    """After the first cells, before the last ones, and after them: then to the same release."""
    records = LINE.sample(5_000, rng=np.random.default_rng(1))
    ways = {"method": "central", "cells": "found", "neighbouring": neighbouring, "random_seed": 1, **BUDGET}
    whole = dpg.fit_gmm(records, 2, **ways)
    place = tmp_path / "fit.json"
    with interrupted_after(Central, stop):
        dpg.fit_gmm(records, 2, checkpoint=place, **ways)
    found = dpg.resume(place)
    for name, values in found.raw.items():
        np.testing.assert_array_equal(values, whole.raw[name])
    if stop == 4:
        assert found.to_dict() == whole.to_dict()
    else:
        assert "interrupted" in found.flag


@pytest.mark.parametrize(
    "part, change, words",
    [
        ("central_sums_0", lambda values: values[:1], r"central_sums must have shape \(16, 3\)"),
        ("central_scale_0", lambda values: 0 * values, "central_scale must be finite and greater than 0"),
        ("central_cells_0", lambda values: values[:, :2], "central_cells_0 must have 4 columns"),
        ("central_cells_0", lambda values: 0 * values, "must be greater than 0"),
        ("central_bounds", lambda values: values[:, ::-1], "central_bounds must have increasing rows"),
        ("central_n_records", lambda values: -values, "central_n_records must be at least 0"),
    ],
)
def test_a_file_whose_sums_contradict_each_other_is_refused(part, change, words, tmp_path):
    fields = json.loads((RELEASES / "central.json").read_text())
    fields["raw"][part] = change(np.array(fields["raw"][part])).tolist()
    place = tmp_path / "changed.json"
    place.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=words):
        dpg.load(place)


def test_a_plan_and_a_card_know_it(tmp_path):
    found = dpg.plan(2_000, 1, 2, epsilon=1.0, method="central", n_simulations=2)
    assert found.method == "central" and found.enough
    page = fitted(LINE, 2_000).card(tmp_path / "card.md").read_text()
    assert "central" in page and "Bernstein" in page


@pytest.mark.parametrize("method", ["central", "em"])
def test_the_last_fit_is_seen_to_go_on(method, monkeypatch):
    """In ten columns it takes a minute; progress rises to its total."""
    seen = []
    monkeypatch.setattr(front_door, "progress_bar", lambda progress, label: nullcontext(lambda *at: seen.append(at)))
    X = np.random.default_rng(1).normal(size=(2_000, 2))
    dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-6, 6), method=method, random_seed=1)
    done, totals = zip(*seen, strict=True)
    assert list(done) == sorted(done) and done[-1] == totals[-1] and len(set(totals)) == 1 and len(set(done)) > 5
