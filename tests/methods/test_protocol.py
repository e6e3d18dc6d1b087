"""Every method through the protocol that the front door knows it by: all its parts, before and after it has spent."""

import functools
import inspect
import json
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import pm_dpgmm as dpg
from pm_dpgmm import fit
from pm_dpgmm.files.frozen_values import plain_values
from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.outcome import Method, Outcome, Problem, TooFewRecords, kept_by_nobody
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.methods.populous_single.method import PopulousSingle
from pm_dpgmm.methods.two_phase import TwoPhase
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable

RNG = np.random.default_rng(0)
FEW, MANY = RNG.normal(size=(3_000, 1)), RNG.normal(size=(60_000, 1))
ROWS = [[float(i % 5)] for i in range(100)]
BOUNDS = np.array([[-6.0, 6.0]])


def problem(n_records=3_000, n_features=1, n_components=1, **change):
    given = {"epsilon": 1.0, "delta": 1e-6, "bounds": np.repeat(BOUNDS, n_features, axis=0)}
    given |= {"neighbouring": Neighbouring.REPLACE_ONE} | change
    return Problem(n_records, n_features, n_components, **given)


def mean_of(subset):
    """A learner that agrees with itself: one column, its variance known."""
    return Mixture([1.0], [subset.mean(axis=0)], [[[1.0]]])


# method -> records, problem, how often the listener is told
GOOD = {
    "sketch": (FEW, problem(), 2),
    "histogram": (FEW, problem(delta=0.0), 1),
    "slices": (np.hstack([FEW, FEW[::-1]]), problem(n_features=2, delta=0.0), 1),
    "em": (FEW, problem(), 3),
    "central": (FEW, problem(delta=0.0), 1),
    "aggregate": (FEW, problem(bounds=None), 4),
    "populous": (MANY, problem(60_000, bounds=None), 0),
    "two-phase": (MANY, problem(60_000, bounds=None), 2),
    "populous-single": (FEW, problem(bounds=None), 0),
    "local": (FEW, problem(delta=0.0), 1),
    "gaps": (FEW, problem(bounds=None), 3),
}
# a problem that the method cannot do, and what it says
BAD = {
    "sketch": [(problem(delta=0.0), "needs delta"), (problem(bounds=BOUNDS * 1e200), "bounds must lie within 1e100")],
    "histogram": [(problem(n_features=3), "supports 1 or 2 features"), (problem(bounds=None), "needs bounds")],
    "slices": [(problem(), "supports 2 to 12 features"), (problem(n_features=2, bounds=None), "needs bounds")],
    "em": [(problem(delta=0.0), "needs delta"), (problem(bounds=None), "needs bounds")],
    "central": [(problem(bounds=None), "needs bounds"), (problem(n_features=30), "at most 1200 numbers")],
    "aggregate": [(problem(delta=0.0), "needs delta"), (problem(20), "X must have at least 36 rows")],
    "populous": [(problem(delta=0.0), "needs delta"), (problem(50), "X must have at least")],
    "two-phase": [(problem(delta=0.0), "needs delta"), (problem(50, bounds=None), "X must have at least")],
    "populous-single": [(problem(delta=0.0), "needs delta"), (problem(20), "X must have at least")],
    "local": [
        (problem(neighbouring=Neighbouring.ADD_REMOVE), "neighbouring must be 'replace-one'"),
        (problem(bounds=None), "needs bounds, or scale"),
        (problem(n_components=65), "n_components must be at most 64"),
        (problem(n_features=20, n_components=2), "a mixture has at most 256 numbers"),
        (problem(epsilon=1e-9), "epsilon must be from 1e-06"),
        (problem(bounds=BOUNDS * 1e100), "bounds must lie within 1e"),
    ],
    "gaps": [
        (problem(delta=0.0), "needs delta"),
        (problem(n_features=2, bounds=None), "supports 1 feature, got 2"),
        (problem(50, bounds=None), "X must have at least 66. rows"),
        (problem(n_components=65, bounds=None), "n_components must be at most 64"),
        (problem(bounds=None, neighbouring=Neighbouring.ADD_REMOVE), "assumed_records must be given"),
    ],
}
SETTINGS = {kind.name: kind() for kind in fit.METHODS.values()}
NAMES = pytest.mark.parametrize("name", fit.METHODS)


def released(name, *, listener=kept_by_nobody, progress=lambda done, total: None):
    records, given, _ = GOOD[name]
    return SETTINGS[name].release(
        records, given, learner=None, n_jobs=None, progress=progress, rng=np.random.default_rng(1), released=listener
    )


@pytest.fixture(scope="module")
def told():
    """Outcome or refusal of every method, and what its listener heard."""
    found = {}
    for name in fit.METHODS:
        heard = []
        try:
            outcome = released(name, listener=lambda *given, heard=heard: heard.append(given))
        except Unstable as refusal:
            outcome = refusal
        found[name] = outcome, heard
    return found


def test_the_front_door_asks_for_nothing_but_the_protocol():
    source = Path(fit.__file__).read_text()
    assert "getattr(" not in source and "hasattr(" not in source
    assert set(SETTINGS) == set(GOOD) == set(BAD)


@NAMES
def test_every_part_is_there_and_has_its_kind(name):
    method = SETTINGS[name]
    assert isinstance(method, Method) and type(method).__mro__[1] is Method and method.name == name
    assert type(method.chooses) is type(method.streams) is type(method.private) is bool
    assert method.feature_names is None and method.assumed_records is None
    taken = list(inspect.signature(method.release).parameters)
    assert taken == ["records", "problem", "learner", "n_jobs", "progress", "rng", "released"]
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        method.anything = 1
    assert not hasattr(method, "__dict__")


@NAMES
def test_what_is_recorded_fits_into_a_file(name):
    recorded = SETTINGS[name].recorded()
    assert json.loads(json.dumps(plain_values(recorded), allow_nan=False)) == plain_values(recorded)


@NAMES
def test_a_good_problem_passes_and_costs_at_most_the_budget(name):
    method, (_, given, _) = SETTINGS[name], GOOD[name]
    assert method.check(given) is None
    epsilon, delta = method.cost(given)
    promised = method.guarantee(given)
    assert (promised.epsilon, promised.delta) == (epsilon, delta) == (given.epsilon, given.delta)
    assert promised.neighbouring is given.neighbouring and promised == method.guarantee(given)
    promised.check_storable()


@pytest.mark.parametrize("name, given, words", [(name, *bad) for name, bads in BAD.items() for bad in bads])
def test_a_bad_problem_is_refused_before_anything_is_spent(name, given, words):
    with pytest.raises(ValueError, match=words) as refused:
        SETTINGS[name].check(given)
    too_few = "X must have at least" in words
    assert isinstance(refused.value, TooFewRecords) == too_few
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # it may come from another process


@NAMES
def test_the_outcome_has_the_guarantee_that_was_made_before(name, told):
    outcome, _ = told[name]
    assert isinstance(outcome, Outcome) or (name == "populous-single" and isinstance(outcome, Unstable))
    assert outcome.guarantee == SETTINGS[name].guarantee(GOOD[name][1])
    assert isinstance(outcome.guarantee, Guarantee)


@NAMES
def test_the_outcome_is_made_of_finite_public_numbers(name, told):
    outcome, _ = told[name]
    if isinstance(outcome, Outcome):
        assert outcome.raw and all(np.isfinite(array).all() for array in outcome.raw.values())
        json.dumps(plain_values(outcome.noise), allow_nan=False)
        assert {"statistic", "law"} <= set(outcome.noise)
        assert outcome.mixture.n_components == GOOD[name][1].n_components


# made of released numbers: the average alone, and then what it is together with the sketch
REPLACED = ("average_weights", "average_means", "average_covariances", "offset_covariance")


@NAMES
def test_the_listener_hears_of_every_release_and_of_nothing_that_is_not_in_the_outcome(name, told):
    outcome, heard = told[name]
    assert len(heard) >= GOOD[name][2] and (GOOD[name][2] > 0 or not heard)
    for guarantee, raw, noise in heard:
        assert guarantee == outcome.guarantee
        json.dumps(plain_values(noise), allow_nan=False)
        for part, array in raw.items():
            if part not in REPLACED or raw is heard[-1][1]:
                np.testing.assert_array_equal(array, outcome.raw[part])
    sizes = [len(raw) for _, raw, _ in heard]
    assert sizes == sorted(sizes)  # nothing that was public is taken back


@pytest.mark.parametrize("name", [name for name, (_, _, times) in GOOD.items() if times])
def test_the_listener_hears_before_the_next_step(name):
    """What it raises ends the fit there: later steps have not run, and progress has not counted them."""
    heard, steps = [], []

    def stop(*given):
        heard.append(given)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        released(name, listener=stop, progress=lambda done, total: steps.append((done, total)))
    assert len(heard) == 1
    assert name == "two-phase" or not [done for done, _ in steps if done > 0]  # the crude fits come first there


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [Populous, TwoPhase, PopulousSingle])
def test_a_learner_that_cannot_work_is_refused_before_anything_is_spent(kind):
    def broken(subset):
        raise RuntimeError("no")

    given = GOOD[kind.name][1]
    with pytest.raises(ValueError, match="learner must"):
        kind().try_learner(broken, given)
    kind().try_learner(mean_of, given)


@pytest.mark.parametrize("name", ["sketch", "histogram", "slices", "gaps"])
def test_methods_without_a_learner_take_any(name):
    assert SETTINGS[name].try_learner("nothing is asked of it", GOOD[name][1]) is None


# ---------------------------------------------------------------------- a method of one's own
@dataclass(frozen=True, slots=True)
class Nothing(Method):
    """Releases public numbers: the shortest method there is."""

    n_cells: int = 3
    name = "nothing"

    def cost(self, problem):
        return problem.epsilon, 0.0

    def guarantee(self, problem):
        return dpg.HistogramMethod().guarantee(replace(problem, delta=0.0))

    def release(self, records, problem, *, learner, n_jobs, progress, rng, released):
        return Outcome(Mixture([1.0], [[0.0]], [[[1.0]]]), self.guarantee(problem), {"none": np.zeros(1)}, {})


def test_four_parts_make_a_method_and_the_defaults_are_those_of_the_protocol():
    method = Nothing()
    assert not method.chooses and not method.streams and method.private and method.first_kernel(1) is None
    assert method.recorded() == {"n_cells": 3} and method.try_learner(mean_of, problem()) is None
    release = dpg.fit_gmm(FEW, 1, epsilon=1.0, method=method)
    assert release.method == "nothing" and release.settings["n_cells"] == 3 and release.private
    with pytest.raises(ValueError, match=r"must be an integer with method 'nothing', got range\(1, 3\)"):
        dpg.fit_gmm(FEW, range(1, 3), epsilon=1.0, method=method)
    with pytest.raises(ValueError, match="must be records in memory with method 'nothing', got RecordBlocks"):
        dpg.fit_gmm(dpg.RecordBlocks(FEW), 1, epsilon=1.0, method=method)


def test_a_guarantee_that_no_file_holds_is_refused_by_the_default_check():
    with pytest.raises(ValueError, match="epsilon must be"):
        Nothing().check(problem(epsilon=1e-12))


@pytest.mark.parametrize("thing", [dpg.HistogramMethod, object(), 3])
def test_what_is_no_settings_object_is_refused(thing, tmp_path):
    """A class is none, nor what lacks a part of the protocol."""
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", epsilon=1.0)
    with pytest.raises(ValueError, match=r"method must be 'auto', one of .* or a settings object, got"):
        dpg.fit_gmm(FEW, 1, epsilon=1.0, bounds=(-5, 5), method=thing, ledger=ledger)
    assert ledger.spent == (0.0, 0.0)


class Odd(HistogramMethod):
    """Settings of somebody's own, with one thing that a file could not hold."""

    told: ClassVar[object] = None

    def recorded(self):
        return self.told


@pytest.mark.parametrize(
    "told",
    [
        None,
        [1],
        {"a": 2**70},
        {1: 2, "1": 3},
        {"a": float("nan")},
        {"a": "x" * 200_000},
        functools.reduce(lambda inner, _: {"a": inner}, range(40), 1),
    ],
    ids=["nothing", "list", "integer", "key twice", "nan", "long", "deep"],
)
def test_settings_that_a_file_cannot_hold_are_refused_before_anything_is_spent(told, monkeypatch, tmp_path):
    monkeypatch.setattr(Odd, "told", told)
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0)
    with pytest.raises((TypeError, ValueError), match="settings must be"):
        dpg.fit_gmm(ROWS, 1, epsilon=1.0, bounds=(0, 5), method=Odd(), ledger=ledger)
    assert ledger.spent == (0.0, 0.0)


def test_a_release_of_another_form_or_a_mark_that_is_none_is_refused_before_anything_is_spent(monkeypatch, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0)
    given = {"epsilon": 1.0, "bounds": (0, 5), "ledger": ledger}
    monkeypatch.setattr(Odd, "told", {})
    monkeypatch.setattr(Odd, "private", None)
    with pytest.raises(TypeError, match="private must be"):
        dpg.fit_gmm(ROWS, 1, **given, method=Odd())
    monkeypatch.setattr(Odd, "release", lambda self, records, problem, *, released: None)
    with pytest.raises(ValueError, match="method must have a release that takes records, problem"):
        dpg.fit_gmm(ROWS, 1, **given, method=Odd())
    for name in ("n_subsets", "assumed_records"):
        with pytest.raises(ValueError, match=f"{name} must be at most"):
            dpg.Populous(**{name: 10**30})
    assert ledger.spent == (0.0, 0.0)


def without(outcome, **changes):
    return replace(outcome, noise={**outcome.noise, **changes})


@pytest.mark.parametrize(
    "changed, words",
    [
        (lambda outcome: None, "AttributeError"),
        (lambda outcome: without(outcome, caveats=5), "caveats must be a list of at most 16 texts, got 5"),
        (lambda outcome: without(outcome, caveats=["\ud800"]), r"caveats\[0\] must be text that UTF-8 can hold"),
        (lambda outcome: without(outcome, misfit="x"), "misfit must be a real number, got 'x'"),
        (lambda outcome: without(outcome, more=np.zeros(2)), "not JSON serializable"),
        (lambda outcome: without(outcome, more=float("nan")), "not JSON compliant"),
        (lambda outcome: replace(outcome, raw={"counts": np.array([np.nan])}), r"raw\['counts'\] must be finite"),
        (
            lambda outcome: replace(outcome, mixture=Mixture([1.0], [[0.0] * 2], [np.eye(2)]), background=None),
            "feature_names must have 2",
        ),
    ],
    ids=["nothing", "caveats", "half a character", "misfit", "array", "nan", "raw", "columns"],
)
def test_what_a_method_of_ones_own_returns_is_never_lost(changed, words, monkeypatch, tmp_path):
    """Budget was spent, and the error had nothing of what was paid for; or there was a release that no file could hold."""
    returned, real = [], HistogramMethod.release

    def release(self, *given, **named):
        returned.append(changed(real(self, *given, **named)))
        return returned[0]

    monkeypatch.setattr(Odd, "told", {})
    monkeypatch.setattr(Odd, "release", release)
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0)
    with pytest.raises(RuntimeError, match=f"method must return what makes a release, got an outcome.*{words}") as lost:
        dpg.fit_gmm(ROWS, 1, epsilon=1.0, bounds=(0, 5), method=Odd(), ledger=ledger, progress=False)
    assert lost.value.outcome is returned[0] and ledger.spent == (1.0, 0.0)
    assert isinstance(lost.value.released, dpg.Checkpoint)  # what the method told while it ran


@pytest.mark.parametrize(
    "part, changes",
    [
        ("the name of method", {"method": type("Half", (Nothing,), {"name": "half\ud800"})()}),
        (r"feature_names\[0\]", {"X": pd.DataFrame(FEW, columns=pd.Index(["\ud800"], dtype=object))}),
    ],
)
def test_half_a_character_in_a_name_is_one_clear_error_before_anything_is_spent(part, changes, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0)
    given = {"X": FEW, "method": Nothing()} | changes
    with pytest.raises(ValueError, match=f"{part} must be text that UTF-8 can hold, got '.*ud800'"):
        dpg.fit_gmm(given.pop("X"), 1, epsilon=1.0, **given, ledger=ledger)
    assert ledger.spent == (0.0, 0.0)
