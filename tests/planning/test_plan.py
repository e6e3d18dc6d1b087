"""Plans simulate what they say, agree with what is measured, and name what is wrong with a question."""

import json
import math
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.cli.main import main
from pm_dpgmm.planning import plan as plan_module, sizes, trials as plan_trials
from pm_dpgmm.planning.result import Trial
from pm_dpgmm.planning.trials import public_mixture
from pm_dpgmm.privacy.simulated_fits import fits_may_warn

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def nearest(mixture):
    """Least Mahalanobis distance of two components, in their mean covariance."""
    pairs = [(i, j) for i in range(mixture.n_components) for j in range(i)]
    return min(
        math.sqrt(step @ np.linalg.solve((mixture.covariances[i] + mixture.covariances[j]) / 2, step))
        for i, j in pairs
        for step in [mixture.means[i] - mixture.means[j]]
    )


@pytest.fixture(scope="module")
def sketched():
    return dpg.plan(10_000, 2, 2, n_simulations=3, **BUDGET)


@pytest.mark.parametrize("n_features, n_components, separation", [(1, 6, 4.0), (2, 3, 1.0), (7, 5, 6.0)])
def test_public_mixtures_have_the_separation_they_claim(n_features, n_components, separation):
    weights = np.full(n_components, 1 / n_components)
    rng = np.random.default_rng(1)
    made = public_mixture(n_features, n_components, separation=separation, weights=weights, rng=rng)
    assert nearest(made) == pytest.approx(separation)
    values = np.sqrt(np.linalg.eigvalsh(made.covariances))
    assert values.min() * (1 + 1e-9) >= 0.7 and values.max() <= 1.4 * (1 + 1e-9)
    assert public_mixture(3, 1, separation=4.0, weights=np.ones(1), rng=rng).n_components == 1


def test_a_plan_tells_errors_that_fit_together(sketched):
    assert sketched.method == "sketch" and sketched.enough and sketched.failure_share == 0
    assert sketched.predicted / 3 < sketched.gap < 3 * sketched.predicted  # the search succeeds here
    assert sketched.gap_without_privacy < sketched.gap <= sketched.worst_gap < 0.02
    for trial in sketched.trials:
        assert trial.total_variation <= math.sqrt(trial.gap / 2) + 0.01  # Pinsker
        assert trial.weights < 0.05 and trial.means < 0.2 and trial.log_deviations < 0.2 and abs(trial.misfit) < 5
    assert "ENOUGH: 10,000 records are enough" in repr(sketched) and "NOT ENOUGH" not in repr(sketched)


@pytest.mark.thorough
def test_more_records_or_budget_buy_more_and_too_few_are_refused_in_words():
    settings = {"epsilon": 1.0, "method": "histogram", "n_simulations": 3}
    small, large = dpg.plan(200, 1, 2, **settings), dpg.plan(20_000, 1, 2, **settings)
    assert large.gap < small.gap and large.predicted is None and large.delta == 0
    strict = dpg.plan(200, 1, 2, **settings, error=1e-4)
    assert not strict.enough and strict.trials[0].gap == small.trials[0].gap  # the same data sets
    assert "even a fit without privacy would lose" in strict.reason
    assert "expected error" in dpg.plan(200, 1, 2, **(settings | {"epsilon": 0.05})).reason


def test_reasons_follow_from_the_trials(sketched):
    good = sketched.trials[0]
    lost = replace(good, gap=0.9)
    assert "1 of 3 simulations lost more, 0.9" in replace(sketched, trials=(good, good, lost)).reason
    assert "expected error 0.9" in replace(sketched, trials=(good, lost, lost)).reason
    refused = Trial(True, *[math.inf] * 5, None, 0.1)
    mixed = replace(sketched, trials=(refused, replace(good, misfit=0.5), replace(good, misfit=0.25)))
    assert re.search(r"misfit of fits .* 0.38 +0.5$", mixed.table(), re.M) and "nan" not in mixed.table()
    plan = replace(sketched, trials=(good, refused, refused))
    assert "refused in 2 of 3" in plan.reason and plan.failure_share == pytest.approx(2 / 3) and "refused" in repr(plan)
    assert plan.reason.endswith("fewer columns or components or a larger epsilon need fewer records")
    assert ", bounds from public knowledge or a larger" in replace(plan, bounds=False).reason
    assert json.loads(json.dumps(plan.as_dict(), allow_nan=False))["trials"][1]["gap"] is None
    every = replace(sketched, trials=(refused,), predicted=None)
    assert not every.enough and "refused in 1 of 1" in every.table()


def test_a_trial_tells_how_far_the_release_is_from_the_truth(monkeypatch):
    """A mean off by one standard deviation: half a nat, total variation 2 Phi(1/2) - 1; five standard errors."""
    truth, found = (dpg.Mixture([1.0], [[mean]], [[[1.0]]]) for mean in (0.0, 1.0))
    release = SimpleNamespace(log_density=found.log_density, mixture=found, noise={})
    monkeypatch.setattr(plan_trials, "_fit", lambda *given: release)
    trial, _ = plan_trials.trial_of(truth, 100, True, {}, np.random.default_rng(1))
    error = 5 / math.sqrt(plan_trials.N_HELD_OUT)
    assert trial.gap == pytest.approx(0.5, abs=error) and trial.means == pytest.approx(1.0)
    assert trial.total_variation == pytest.approx(math.erf(0.5 / math.sqrt(2)), abs=0.4 * error)


def test_a_refusal_is_a_trial_and_no_error():
    plan = dpg.plan(30, 1, 1, bounds=False, n_simulations=2, **BUDGET)
    assert plan.failure_share == 1 and plan.method == "sketch" and not plan.bounds and plan.predicted is None


def test_a_plan_has_no_bounds_where_the_method_takes_none():
    """The default, bounds, made "gaps" and "two-phase" refuse every simulation."""
    plan = dpg.plan(900, 1, 1, method="gaps", n_simulations=1, **BUDGET)
    assert not plan.bounds and "without bounds" in plan.table()
    lost = replace(plan, trials=(replace(plan.trials[0], gap=9.0),))
    assert "a larger epsilon" in lost.reason and "bounds from public knowledge" not in lost.reason


def test_too_few_records_are_told_as_the_number_that_was_given():
    with pytest.raises(ValueError, match=r"^n_records must be at least 668 rows for method 'gaps'"):
        dpg.plan(500, 1, 1, method="gaps", n_simulations=1, **BUDGET)


@pytest.mark.thorough
def test_the_smallest_size_is_enough_and_not_much_more_than_needed():
    found = dpg.smallest_size(1, 2, epsilon=1.0, method="histogram", error=0.02, n_simulations=2)
    assert found.enough and 100 <= found.n_records <= 3_000
    sketch = dpg.smallest_size(1, 1, error=0.02, n_simulations=2, **BUDGET)
    assert sketch.enough and sketch.method == "sketch" and 50 <= sketch.n_records <= 1_000


def test_the_smallest_size_is_one_that_the_method_does_not_refuse():
    """200 records, where the search starts, are too few for one component: it ended with that error."""
    found = dpg.smallest_size(1, 1, method="gaps", n_simulations=1, **BUDGET)
    assert found.enough and found.n_records >= 668


@pytest.mark.thorough
def test_the_smallest_size_of_two_phases_is_one_that_the_first_does_not_refuse():
    found = dpg.smallest_size(1, 2, method="two-phase", n_simulations=1, **BUDGET)
    assert found.enough and found.n_records >= 130_000


def test_the_search_begins_at_the_size_that_theory_promises(monkeypatch):
    """For columns and components in their order; an answer there ends it."""

    def enough(size, d, k, **budget):
        return SimpleNamespace(enough=True, n_records=size, asked=(d, k))

    monkeypatch.setattr(sizes, "_promised_size", lambda d, k, budget: 1_000 * d + k)
    monkeypatch.setattr(sizes, "plan", enough)
    found = dpg.smallest_size(5, 2, **BUDGET)
    assert found.asked == (5, 2) and 5_002 <= found.n_records <= 5_100  # two digits, upwards


def test_a_prediction_needs_fewer_records_for_a_larger_error(sketched):
    truth = public_mixture(2, 2, separation=4.0, weights=np.full(2, 0.5), rng=np.random.default_rng([0, 0]))
    X = truth.sample(10_000, rng=np.random.default_rng(1))
    data = plan_trials.released_data(dpg.fit_gmm(X, 2, bounds=(-15, 15), random_seed=1, progress=False, **BUDGET))
    gaps = [plan_trials.predicted_gap(data, truth, n) for n in (1_000, 3_000, 10_000, 100_000)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[3] == pytest.approx(11 / 200_000, rel=1.0)  # sampling alone, nearly


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"n_records": 0}, ValueError, "n_records must be at least 1"),
        ({"n_records": 1}, ValueError, "n_records must be at least n_components = 2"),
        ({"n_features": 2.0}, TypeError, "n_features must be an integer"),
        ({"n_components": 10**30}, ValueError, "n_components must be at most 512"),
        ({"separation": 0}, ValueError, "separation must be finite and greater than 0"),
        ({"weights": "ab"}, TypeError, "weights must be numbers in rows of equal length, got 'ab'"),
        ({"weights": [0.5, 0.6]}, ValueError, "weights must be 2 positive numbers with sum 1"),
        ({"n_simulations": 0}, ValueError, "n_simulations must be at least 1"),
        ({"method": "magic"}, ValueError, "method must be one of"),
        ({"method": "sketch", "delta": None}, ValueError, "needs delta"),
        ({"method": "populous-single"}, ValueError, r"its test asks 2\d\d fits to agree.*at least about \d"),
        ({"method": "histogram", "n_features": 3}, ValueError, "supports 1 or 2 features"),
        ({"n_bins": 3}, TypeError, "settings of method 'sketch' must be among"),
    ],
)
def test_bad_questions_are_named(change, error, message):
    with pytest.raises(error, match=message):
        dpg.plan(**({"n_records": 100, "n_features": 1, "n_components": 2} | BUDGET | change))


def test_the_command_prints_a_table_or_json_and_fails_when_it_is_not_enough(capsys):
    size = ["plan", "--n-features", "1", "--n-components", "1", "--epsilon", "1", "--simulations", "1"]
    assert main([*size, "--n-records", "2000"]) == 0
    assert "method 'histogram', with bounds" in capsys.readouterr().out
    assert main([*size, "--n-records", "100", "--error", "0.0001", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["enough"] is False
    assert main([*size, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_records"] < 2_000
    assert main([*size, "--n-records", "100", "--epsilon", "-1"]) == 2
    assert "epsilon must be finite" in capsys.readouterr().err


def test_a_weak_guarantee_is_warned_of_once():
    weak = {"epsilon": 12.0, "bounds": True, "method": "histogram", "n_simulations": 2}
    with pytest.warns(dpg.WeakGuarantee, match="epsilon should be at most 10") as caught:
        dpg.plan(500, 1, 1, **weak)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_a_plan_leaves_the_filters_of_all_other_threads_alone(monkeypatch):
    """It set filters for the process, so two plans at once left them set, and others' warnings were lost meanwhile."""
    seen = []

    def fit(*given, **settings):
        with ThreadPoolExecutor(1) as other:  # what another thread may say now
            seen.append((list(warnings.filters), warnings.showwarning, other.submit(fits_may_warn).result()))
        return dpg.fit_gmm(*given, **settings)

    monkeypatch.setattr(plan_trials, "fit_gmm", fit)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        before = list(warnings.filters), warnings.showwarning
        dpg.plan(60, 1, 2, epsilon=0.3, method="histogram", n_simulations=1)  # such a fit warns
    assert seen == [(*before, True)] and not told
    assert fits_may_warn()
    with pytest.warns(dpg.WeakGuarantee):  # of the plan itself, once
        dpg.plan(60, 1, 1, epsilon=30.0, method="histogram", n_simulations=1)


def test_sizes_that_no_memory_holds_are_refused_before_they_are_simulated():
    with pytest.raises(ValueError, match=r"n_records must be at most 20,000,000 in a plan, .* got 10,000,000,000"):
        dpg.plan(10**10, 5, 3, epsilon=1.0, delta=1e-12)
    with pytest.raises(ValueError, match=r"epsilon must be enough for 100,000,000 records, .* got 1e-07, which needs"):
        dpg.smallest_size(1, 1, epsilon=1e-7, delta=1e-6)


def test_a_size_that_is_not_enough_is_the_last_where_a_larger_one_cannot_be_simulated(monkeypatch):
    tried = []

    def plan(size, *given, **settings):
        tried.append(size)
        return SimpleNamespace(enough=False)

    monkeypatch.setattr(sizes, "plan", plan)
    monkeypatch.setattr(sizes, "_promised_size", lambda *given: 900)
    monkeypatch.setattr(sizes, "MOST_NUMBERS", 1_000)
    assert not dpg.smallest_size(1, 2, epsilon=1.0, delta=1e-6).enough and tried == [900]


@pytest.mark.parametrize("name", ["ledger", "checkpoint", "X"])
def test_what_belongs_to_real_records_is_refused_before_anything_is_simulated(name, tmp_path):
    """Simulated fits charged a real ledger."""
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", epsilon=5.0)
    value = {"ledger": ledger, "checkpoint": tmp_path / "fit.json", "X": np.zeros((3, 1))}[name]
    for asked in (partial(dpg.plan, 300), dpg.smallest_size):
        with pytest.raises(ValueError, match=f"{name} must be left out of a plan, which|{name} must .* whose"):
            asked(1, 1, epsilon=1.0, method="histogram", **{name: value})
    assert ledger.spent == (0.0, 0.0) and not (tmp_path / "fit.json").exists()


@pytest.mark.parametrize("separation", [1e-300, 1e-9, 4.0])
def test_components_of_any_separation_are_found_at_once(separation):
    """Distances that underflowed were an endless loop."""
    found = public_mixture(2, 3, separation=separation, weights=np.full(3, 1 / 3), rng=np.random.default_rng(1))
    scaled = public_mixture(2, 3, separation=1.0, weights=np.full(3, 1 / 3), rng=np.random.default_rng(1))
    assert found.means / separation == pytest.approx(scaled.means, rel=1e-12)


def test_a_plan_shows_which_of_its_fits_are_done(monkeypatch):
    seen = []
    for module in (plan_module, sizes):
        monkeypatch.setattr(
            module, "progress_bar", lambda *at, what: nullcontext(lambda *step: seen.append((what, *step)))
        )
    dpg.plan(300, 1, 1, epsilon=1.0, method="histogram", n_simulations=2)
    assert seen == [("plan", 1, 2), ("plan", 2, 2)]
    seen.clear()
    dpg.smallest_size(1, 1, epsilon=1.0, method="histogram", n_simulations=1, error=0.1)
    assert seen[0][:2] == ("smallest size", 0) and ("plan", 1, 1) in seen
