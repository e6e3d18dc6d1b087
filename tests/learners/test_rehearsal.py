import os
import signal
import time

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import pm_dpgmm as dpg
from pm_dpgmm.learners import pool
from pm_dpgmm.learners.rehearsal import rehearse_learner
from pm_dpgmm.methods.two_phase import TwoPhase

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def answer(mean):
    return dpg.Mixture([1.0], [[mean]], [[[1.0]]])


def first_seen():
    seen = []

    def learner(rows):
        seen.append(rows.mean())
        return answer(seen[0] if len(seen) < 3 else seen[1])

    return learner


def warm_start():
    last = [0.0]

    def learner(rows):
        last[0] = 0.5 * (last[0] + rows.mean())
        return answer(last[0])

    return learner


def shared_generator():
    rng = np.random.default_rng(0)
    return lambda rows: answer(rng.normal())


def own_chance():
    return lambda rows: answer(np.random.default_rng().normal())


def last_bit():
    calls = []

    def learner(rows):
        calls.append(1)
        return answer(1.0 + 2.0**-52 * len(calls))

    return learner


@pytest.mark.thorough
@pytest.mark.parametrize("make", [first_seen, warm_start, shared_generator, own_chance, last_bit])
def test_a_learner_that_remembers_is_refused(make):
    with pytest.raises(ValueError, match="another answer for the same rows"):
        rehearse_learner(make(), 100, 1, 1)


class Preparing:
    def __init__(self, prepare):
        self.prepare = prepare

    def __call__(self, rows):
        return answer(rows.mean())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "prepare, words",
    [
        (lambda k, d: os._exit(0), "the end of its process"),
        (lambda k, d: exit(3), "SystemExit: 3"),
        (lambda k, d: k.nothing, "AttributeError"),
        (lambda k, d: time.sleep(1e6), "no answer within the time"),
    ],
    ids=["ends the process", "exits", "raises", "hangs"],
)
def test_what_prepares_a_learner_is_tried_too(prepare, words, monkeypatch):
    """It hung for ever, or ended every fit, with the budget spent."""
    monkeypatch.setattr(pool, "REPRIEVE", 3.0)
    with pytest.raises(ValueError, match=words):
        rehearse_learner(Preparing(prepare), 100, 1, 1, time_limit=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "method",
    [dpg.Populous(noise=0.05), dpg.PopulousSingle(), TwoPhase(crude=dpg.Populous(noise=0.05))],
    ids=lambda method: method.name,
)
def test_such_a_learner_costs_no_budget(method, tmp_path):
    ledger = dpg.Ledger(tmp_path / "ledger.sqlite", **BUDGET)
    X = np.random.default_rng(4).normal(size=(60_000, 1))
    with pytest.raises(ValueError, match=r"learner must .* another answer for the same rows"):
        dpg.fit_gmm(X, 1, **BUDGET, method=method, learner=warm_start(), ledger=ledger)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.thorough(quick=["scikit-learn"])
@pytest.mark.parametrize(
    "learner",
    [
        GaussianMixture(1, warm_start=True, random_state=np.random.RandomState(0)),
        lambda rows: answer(np.random.normal()),  # noqa: NPY002 - the stream that is seeded for every fit
        lambda rows: answer(rows.mean()),
    ],
    ids=["scikit-learn", "seeded", "mean"],
)
def test_learners_without_a_memory_pass(learner):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    rehearse_learner(learner, 100, 1, 1)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(
    "learner, words",
    [
        (lambda rows: None, "got TypeError: learner must return a Mixture, got NoneType"),
        (lambda rows: os._exit(0), "got the end of its process"),
        (lambda rows: os.kill(os.getpid(), signal.SIGSEGV), "got the end of its process"),
        (lambda rows: exit(1), "got SystemExit: 1"),
    ],
)
def test_a_learner_that_fails_on_simulated_rows_is_refused_whatever_it_does(learner, words):
    with pytest.raises(ValueError, match=words):
        rehearse_learner(learner, 100, 1, 1)


def test_what_a_learner_keeps_in_the_rehearsal_is_gone_and_nothing_is_printed(capfd):
    kept = []

    def learner(rows):
        kept.append(rows)
        print("simulated", rows[0])
        return answer(rows.mean())

    rehearse_learner(learner, 100, 1, 1)
    assert not kept and capfd.readouterr() == ("", "")


def endless(rows):
    while True:
        pass


def test_a_learner_that_never_ends_is_refused_when_its_time_is_over(monkeypatch):
    monkeypatch.setattr(pool, "REPRIEVE", 1.0)
    with pytest.raises(ValueError, match=r"learner must fit .* got no answer within the time that time_limit = 0.01"):
        rehearse_learner(endless, 20, 1, 1, time_limit=0.01)
