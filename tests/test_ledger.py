import multiprocessing

import pytest

from pm_dpgmm.ledger import BudgetExceeded, Ledger
from pm_dpgmm.privacy import Neighbouring

REPLACE = Neighbouring.REPLACE_ONE


def test_costs_add_up_and_survive_reopening(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0, delta=1e-5)
    for _ in range(10):
        ledger.reserve(0.1, 1e-6, REPLACE, "histogram")
    epsilon, delta = Ledger(tmp_path / "l.sqlite", epsilon=1.0, delta=1e-5).spent
    assert epsilon == pytest.approx(1.0) and delta == pytest.approx(1e-5)
    with pytest.raises(BudgetExceeded, match="epsilon must leave"):
        ledger.reserve(0.01, 0.0, REPLACE, "histogram")


def test_delta_is_a_budget_too(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=10.0, delta=1e-6)
    with pytest.raises(BudgetExceeded, match="delta must leave the ledger within its budget 1e-06"):
        ledger.reserve(0.1, 1e-5, REPLACE, "populous-single")
    assert ledger.spent == (0.0, 0.0)


def test_another_budget_or_relation_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", epsilon=1.0)
    with pytest.raises(ValueError, match="has the budget"):
        Ledger(tmp_path / "l.sqlite", epsilon=2.0)
    with pytest.raises(BudgetExceeded, match="neighbouring must be 'replace-one'"):
        ledger.reserve(0.1, 0.0, Neighbouring.ADD_REMOVE, "histogram")
    with pytest.raises(ValueError, match="epsilon must be finite"):
        Ledger(tmp_path / "m.sqlite", epsilon=0.0)


def _spend(path, results):
    ledger = Ledger(path, epsilon=1.0)
    taken = 0
    for _ in range(20):
        try:
            ledger.reserve(0.05, 0.0, REPLACE, "histogram")
            taken += 1
        except BudgetExceeded:
            pass
    results.put(taken)


def test_two_processes_cannot_overspend(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_spend, args=(tmp_path / "l.sqlite", results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    taken = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(taken) == 20
    assert Ledger(tmp_path / "l.sqlite", epsilon=1.0).spent[0] == pytest.approx(1.0)
