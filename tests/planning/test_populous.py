"""Plans of method "populous" run the learner that is given, predict its passes, and say in words what is missing."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.cli.main import main
from pm_dpgmm.learners.fit_arrays import stack_fits
from pm_dpgmm.learners.subsets import FitsTogether
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities
from pm_dpgmm.planning import populous as simulated
from pm_dpgmm.planning.trials import public_mixture

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "method": "populous"}
LOOSE = {"epsilon": 4.0, "delta": 1e-4, "method": "populous"}  # fewer subsets, each of which is a process
ONE = {"n_features": 1, "n_components": 1}
WHERE = {"noise": 0.05, "efficiency": 1.0}  # about 11,000 records are the fewest with a design, for one column


class Moments(FitsTogether):
    """Moments of one record in ``every``, all subsets in one call, as compiled learners have it."""

    def __init__(self, every=1):
        self.every = every

    def __call__(self, rows):
        rows = rows[:: self.every]
        return dpg.Mixture([1.0], [rows.mean(axis=0)], [[[rows.var()]]])

    def fit_all(self, records, edges, n_components, *, seeds, n_threads, progress):
        fits = [self(records[low:high]) for low, high in pairwise(edges)]
        return stack_fits(fits, 1, 1)


def gaussian(rows):
    return Moments()(rows)


def stray(rows):
    """Raises for a tenth of the subsets; finds another mode for a fifth."""
    draw = np.random.random()  # noqa: NPY002 - the stream that learners are given
    if draw < 0.1:
        raise ValueError("no fit")
    return gaussian(rows + 100 * (draw < 0.3))


@pytest.fixture(scope="module")
def compiled():
    return dpg.plan(14_000, 1, 1, **BUDGET, noise=0.05, n_simulations=3)


def test_a_plan_tells_the_settings_and_how_well_fits_agree(compiled):
    found, design = compiled.agreement, compiled.settings.design
    assert compiled.enough and compiled.method == "populous" and not compiled.bounds and design is None
    assert found.probability == np.mean(found.probabilities) > 0.999 and min(found.levels) >= found.level_needed > 20
    assert 0.7 < found.efficiency <= 1 and found.strays == 0
    table = repr(compiled)
    for words in (
        "predicted pass probability (mean)",
        f"stability level ({found.level_needed} needed)",
        f"{found.n_subsets} subsets of about 30 records",
        "friends are within 1.5 (components)",
        f"top {found.top}, full {found.full}; noise eta 0.05, omega {found.omega:.3g}; made for efficiency 0.6",
        "ENOUGH: 14,000 records are enough: a run passes with probability 1;",
    ):
        assert words in table
    read = json.loads(json.dumps(compiled.as_dict(), allow_nan=False))
    assert read["agreement"]["probability"] == found.probability and read["settings"]["noise"] == 0.05
    assert dpg.Populous(**read["settings"]) == compiled.settings


@pytest.mark.thorough
def test_a_simulated_run_is_the_fit_with_the_settings_of_the_plan(compiled):
    truth = public_mixture(1, 1, separation=4.0, weights=np.ones(1), rng=np.random.default_rng([0, 1]))
    rng = np.random.default_rng([0, 1, 1])
    X = truth.sample(14_000, rng=rng)
    budget = {"epsilon": 1.0, "delta": 1e-6, "progress": False}
    release = dpg.fit_gmm(X, 1, method=compiled.settings, random_seed=rng, **budget)
    error = abs(release.means[0, 0] - truth.means[0, 0]) / math.sqrt(truth.covariances[0, 0, 0])
    assert error == pytest.approx(compiled.trials[1].means, rel=1e-9)
    law = release.noise
    assert (law["n_subsets"], law["top"], law["fit_radius"], law["eta"]) == (
        compiled.agreement.n_subsets,
        compiled.agreement.top,
        compiled.agreement.fit_radius,
        compiled.agreement.noise,
    )


@pytest.mark.thorough
def test_the_efficiency_of_a_learner_is_measured():
    """A learner that drops half of the records has twice the variance."""
    large = {**ONE, **BUDGET, **WHERE, "n_simulations": 2, "n_records": 30_000, "n_subsets": 300}
    whole, halved = (dpg.plan(**large, learner=learner).agreement for learner in (Moments(1), Moments(2)))
    assert np.median(whole.efficiencies) == pytest.approx(1, abs=0.15)  # sd of a median of 300 squares: about 0.06
    ratios = np.array(halved.efficiencies) / whole.efficiencies
    assert ratios.mean() == pytest.approx(0.5, abs=0.1)


def test_the_best_estimator_has_efficiency_one():
    """Means and variances of 10,000 normal records; the standard deviation of a median of 2,000 squares is 0.03."""
    rng, n_subsets, size = np.random.default_rng(1), 2_000, 10_000
    means, variances = rng.normal(size=n_subsets) / math.sqrt(size), rng.chisquare(size - 1, size=n_subsets) / size
    fits = stack_fits([dpg.Mixture([1.0], [[m]], [[[v]]]) for m, v in zip(means, variances, strict=True)], 1, 1)
    rule = SimpleNamespace(n_components=1, n_features=1, kappa=1.0)
    assert simulated._efficiency(fits, np.arange(n_subsets), rule, size) == pytest.approx(1, abs=0.1)


@pytest.mark.thorough
def test_fits_that_fail_or_find_another_mode_are_counted():
    found = dpg.plan(3_000, **ONE, **LOOSE, **WHERE, n_simulations=4, learner=stray)
    n = 4 * found.agreement.n_subsets
    assert np.mean(found.agreement.invalid) == pytest.approx(0.1, abs=5 * math.sqrt(0.09 / n))
    assert np.mean(found.agreement.elsewhere) == pytest.approx(0.2, abs=5 * math.sqrt(0.16 / n))
    assert found.agreement.strays == np.mean(found.agreement.invalid) + np.mean(found.agreement.elsewhere)
    assert 0.7 < found.agreement.efficiency <= 1  # of the rest
    assert not found.enough and found.agreement.levels == (0, 0, 0, 0) and found.failure_share == 1
    assert "do not agree well enough" in found.reason and "invalid or in another mode" in found.reason
    nothing = dpg.plan(3_000, **ONE, **LOOSE, **WHERE, n_simulations=1, learner=lambda rows: None)
    assert nothing.agreement.efficiency == 0 and nothing.agreement.invalid == (1.0,) and not nothing.enough


@pytest.mark.thorough
def test_predicted_probabilities_are_those_of_the_coins_that_are_thrown(monkeypatch):
    thrown, really = [], PassProbabilities.passes

    def passes(table, level, *, rng):
        thrown.append((level, table.probability(level), really(table, level, rng=rng)))
        return thrown[-1][2]

    monkeypatch.setattr(PassProbabilities, "passes", passes)
    found = dpg.plan(11_800, **ONE, **BUDGET, **WHERE, n_simulations=8, learner=Moments(2))
    levels, probabilities, passed = zip(*thrown, strict=True)
    assert found.agreement.levels == levels and found.agreement.probabilities == probabilities
    assert tuple(not trial.refused for trial in found.trials) == passed and 0 < sum(passed) < 8
    assert found.agreement.probability == np.mean(probabilities)
    assert 0.3 < found.agreement.probability < 0.7 and not found.enough


@pytest.mark.thorough
def test_too_few_records_for_any_settings_is_said_with_the_number_that_would_do():
    few = dpg.plan(5_000, **ONE, **BUDGET, **WHERE)
    assert not few.enough and few.trials == () and few.agreement is None and 9_000 < few.fewest < 13_000
    assert f"it can from about {few.fewest:,} records" in repr(few) and math.isinf(few.gap) and few.failure_share == 1
    assert json.loads(json.dumps(few.as_dict(), allow_nan=False))["fewest"] == few.fewest
    there = dpg.plan(few.fewest, **ONE, **BUDGET, **WHERE, n_simulations=1, learner=Moments())
    assert there.agreement is not None and there.fewest is None
    assert dpg.plan(int(0.9 * few.fewest), **ONE, **BUDGET, **WHERE).fewest == few.fewest
    hopeless = {**ONE, **BUDGET, "n_subsets": 30}  # fewer than the levels that are needed
    assert "no number of records" in dpg.plan(5_000, **hopeless).reason
    found = dpg.smallest_size(**hopeless)
    assert not found.enough and found.n_records == 10**8  # more are never simulated


def test_reasons_follow_from_passes_and_errors(compiled):
    unlikely = replace(compiled, agreement=replace(compiled.agreement, probabilities=(0.9, 0.9, 1.0)))
    assert not unlikely.enough and "with probability 0.93, at least 0.95 wanted" in unlikely.reason
    good = compiled.trials[0]
    refused = replace(good, refused=True, gap=math.inf)
    chance = replace(compiled, trials=(good, good, refused))
    assert chance.enough and chance.failure_share == pytest.approx(1 / 3)  # the probability counts, not the coin
    assert chance.gap == chance.worst_gap == good.gap and "refused" in repr(chance)
    assert not replace(compiled, trials=(refused,) * 3).enough
    assert "by chance there was none" in replace(compiled, trials=(refused,) * 3).reason
    lost = replace(compiled, trials=(good, good, replace(good, gap=0.9)))
    assert not lost.enough and "1 of 3 simulations lost more, 0.9" in lost.reason


@pytest.mark.thorough
def test_the_smallest_size_is_about_where_the_fits_of_this_learner_agree():
    asked = {**BUDGET, "noise": 0.05, "n_subsets": 400, "n_simulations": 2, "learner": Moments(3)}
    found = dpg.smallest_size(**ONE, **asked)
    assert found.enough and found.settings.efficiency == 1 and len(found.trials) == 2
    fewer = dpg.plan(int(found.n_records / 1.2), **ONE, **asked, efficiency=1.0)
    assert fewer.agreement is not None and not fewer.enough
    better = dpg.smallest_size(**ONE, **(asked | {"learner": Moments()}))
    assert better.enough and better.n_records < found.n_records / 2
    free = dpg.smallest_size(**ONE, **(asked | {"noise": None, "error": 0.5}))
    assert free.enough and free.settings.efficiency < 0.5 and free.n_records < found.n_records
    assert free.agreement.noise > 0.1 and free.settings.noise is None


def test_the_separation_is_the_guess_unless_settings_say_otherwise():
    asked = {"n_records": 14_000, **ONE, "separation": 3.0, "learner": Moments(), "n_simulations": 1}
    assert dpg.plan(**asked, **BUDGET, noise=0.05).settings.separation == 3.0
    other = dpg.plan(**asked, **(BUDGET | {"method": dpg.Populous(noise=0.05)}))
    assert other.settings.separation == 4.0 and other.separation == 3.0 and other.method == "populous" and other.enough


def test_under_add_remove_the_number_of_records_becomes_a_guess_that_is_written_down():
    found = dpg.plan(14_000, **ONE, **BUDGET, noise=0.05, neighbouring="add-remove", n_simulations=1, learner=Moments())
    assert found.enough and found.settings.assumed_records == 14_000
    given = dpg.plan(14_000, **ONE, **BUDGET, **WHERE, neighbouring="add-remove", assumed_records=5_000)
    assert given.settings.assumed_records == 5_000 and not given.enough


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"delta": None}, ValueError, "needs delta greater than 0"),
        ({"n_cells": 3}, TypeError, "settings of method 'populous' must be among"),
        ({"learner": 3}, TypeError, "learner must be None"),
        ({"efficiency": 2.0}, ValueError, "efficiency must be at most 1"),
        ({"method": dpg.Populous(), "noise": 0.1}, TypeError, "must be inside the settings object"),
        ({"neighbouring": "none"}, ValueError, "neighbouring must be one of"),
    ],
)
def test_bad_questions_are_named(change, error, message):
    for ask in ({"n_records": 100} | ONE, ONE):
        with pytest.raises(error, match=message):
            (dpg.plan if "n_records" in ask else dpg.smallest_size)(**(ask | BUDGET | change))


def test_what_follows_from_the_size_is_not_given_to_a_search_for_it():
    with pytest.raises(ValueError, match="assumed_records and design must be left out"):
        dpg.smallest_size(**ONE, **BUDGET, assumed_records=5_000)


@pytest.mark.thorough
def test_the_command_plans_populous(capsys):
    size = ["plan", "--n-features", "1", "--n-components", "1", "--epsilon", "1", "--simulations", "1"]
    asked = [*size, "--delta", "1e-6", "--method", "populous", "--noise", "0.05", "--json"]
    assert main([*asked, "--n-records", "14000", "--efficiency", "0.9"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["settings"]["efficiency"] == 0.9 and read["agreement"]["probability"] > 0.99
    assert main([*asked, "--n-records", "4000"]) == 1
    assert json.loads(capsys.readouterr().out)["fewest"] > 4000
    assert main([*asked]) == 0
    assert json.loads(capsys.readouterr().out)["n_records"] < 14_000
    assert main([*size, "--noise", "0.05", "--n-records", "100"]) == 2
    assert "settings of method" in capsys.readouterr().err
