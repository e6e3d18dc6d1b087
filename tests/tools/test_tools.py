"""The public tools: answers, refusals, bad input before anything is spent, ledgers."""

import math

import numpy as np
import pytest
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm import tools
from pm_dpgmm.tools.populous_estimate import Numbers, designed, friend_table

LAWS = [stats.norm(0, 1), stats.laplace(0, 1), stats.uniform(-3, 6)]
DENSITIES = [law.logpdf for law in LAWS]
DRAWS = [law.rvs(5_000, random_state=np.random.default_rng(i)) for i, law in enumerate(LAWS)]
CHOICE = {"epsilon": 1.0, "accuracy": 0.03}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
SPACE = Numbers([4.0], epsilon=0.5)


@pytest.mark.parametrize("truth", range(3))
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
def test_the_law_of_the_records_is_chosen_among_densities(truth, neighbouring, tmp_path):
    records = LAWS[truth].rvs(4_000, random_state=np.random.default_rng(9))
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=1.5, neighbouring=neighbouring)
    found = tools.select_hypothesis(records, DENSITIES, DRAWS, neighbouring=neighbouring, ledger=ledger, **CHOICE)
    assert found.index == truth and found.guarantee.private and found.guarantee.delta == 0
    assert ledger.spent == (1.0, 0.0)
    with pytest.raises(dpg.BudgetExceeded):
        tools.select_hypothesis(records, DENSITIES, DRAWS, neighbouring=neighbouring, ledger=ledger, **CHOICE)
    assert not tools.select_hypothesis(
        records, DENSITIES, DRAWS, rng=np.random.default_rng(1), **CHOICE
    ).guarantee.private


def test_densities_that_are_no_numbers_or_in_two_columns_do_no_harm():
    rows = np.random.default_rng(1).normal(size=(500, 2))
    far, near = (lambda x: np.where(x[:, 0] > 5, 0.0, np.nan)), (lambda x: stats.norm.logpdf(x).sum(axis=1))
    found = tools.select_hypothesis(rows, [far, near], [rows + 9, rows[::-1]], **CHOICE)
    assert found.index == 1


@pytest.mark.parametrize(
    "changed, error, words",
    [
        ({"epsilon": 0.0}, ValueError, "epsilon must"),
        ({"accuracy": 2.0}, ValueError, "accuracy must"),
        ({"log_densities": []}, ValueError, "log_densities must be 1 to"),
        ({"log_densities": [lambda x: 0.0] * 3}, ValueError, r"log_densities\[0\] must give one number a row"),
        ({"draws": DRAWS[:2]}, ValueError, "draws must be 3 arrays"),
        ({"records": [math.nan]}, ValueError, "records must be finite"),
        ({"neighbouring": "x"}, ValueError, "neighbouring must"),
    ],
)
def test_bad_input_of_a_choice_costs_nothing(changed, error, words, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=1.5)
    given = {"records": DRAWS[0], "log_densities": DENSITIES, "draws": DRAWS, "ledger": ledger} | CHOICE | changed
    with pytest.raises(error, match=words):
        tools.select_hypothesis(**given)
    assert ledger.spent == (0.0, 0.0)
    with pytest.raises(TypeError, match="ledger must"):
        tools.select_hypothesis(DRAWS[0], DENSITIES, DRAWS, ledger=3, **CHOICE)


def majority(votes, rng):
    return float(np.sign(votes.sum()))


def lead(votes):
    return max(0, (abs(int(votes.sum())) - 1) // 2)


def test_a_stable_answer_is_released_and_an_unstable_one_refused(tmp_path):
    many, few = np.repeat([1.0, -1.0], [400, 101]), np.repeat([1.0, -1.0], [250, 250])
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    found = tools.propose_test_release(many, lead, majority, ledger=ledger, **BUDGET)
    assert found.value == 1.0 and found.guarantee.epsilon_at(1e-6) <= 1.0
    with pytest.raises(dpg.Unstable) as refusal:
        tools.propose_test_release(few, lead, majority, ledger=ledger, **BUDGET)
    assert refusal.value.guarantee.delta == 1e-6 and ledger.spent[0] == 2.0


@pytest.mark.parametrize(
    "changed, error, words",
    [
        ({"delta": 0.0}, ValueError, "delta must"),
        ({"release_epsilon": -1.0}, ValueError, "release_epsilon must"),
        ({"release_epsilon": 1.0}, ValueError, "loss must leave room"),
        ({"stability": 3}, TypeError, "stability must be a function"),
        ({"stability": lambda votes: 0.5}, ValueError, "stability must give a whole number"),
        ({"stability": lambda votes: -1}, ValueError, "stability must give a whole number"),
    ],
)
def test_bad_input_of_a_test_is_named(changed, error, words):
    with pytest.raises(error, match=words):
        tools.propose_test_release(
            **({"records": np.ones(9), "stability": lead, "release": majority} | BUDGET | changed)
        )


@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
def test_a_median_is_estimated_and_learners_that_disagree_are_refused(neighbouring, tmp_path):
    records = np.random.default_rng(1).normal(170.0, 9.0, size=60_000)
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5, neighbouring=neighbouring)
    given = {"neighbouring": neighbouring, "ledger": ledger} | BUDGET
    found = tools.populous_estimate(records, np.median, SPACE, **given)
    # a mask of scale 8 with a tail of exp(-x / 8): 120 has probability 3e-7
    assert abs(found.value[0] - 170.0) < 120 and found.n_subsets == designed(SPACE, n_subsets=None, **BUDGET).n_subsets
    with pytest.raises(dpg.Unstable):
        tools.populous_estimate(records, lambda rows: 1e3 * rows[0], SPACE, **given)
    assert ledger.spent[0] == 2.0


def test_answers_that_fail_or_are_no_points_are_friends_of_nobody():
    answers = [[0.0], [1.0], None, [math.nan], [1e300], "x", [0.0, 1.0], [0.5]]
    table = friend_table(answers, SPACE, 0.5)
    assert np.flatnonzero(table[0]).tolist() == [0, 1, 7] and table[2:7].sum() == 5
    records = np.random.default_rng(1).normal(size=60_000)

    def fails(rows):
        raise RuntimeError("no")

    with pytest.raises(dpg.Unstable):
        tools.populous_estimate(records, fails, SPACE, **BUDGET)


@pytest.mark.parametrize(
    "changed, error, words",
    [
        ({"delta": 0.0}, ValueError, "delta must"),
        ({"epsilon": 0.5}, ValueError, "space must cost less than epsilon 0.5"),
        ({"n_subsets": 20}, ValueError, "n_subsets must be large enough"),
        ({"records": np.zeros(10)}, ValueError, "records must be at least n_subsets"),
        ({"records": np.zeros((2, 2, 2))}, ValueError, "records must have shape"),
        ({"learner": 3}, TypeError, "learner must be a function"),
    ],
)
def test_bad_input_of_an_estimate_costs_nothing(changed, error, words, tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    given = {"records": np.zeros(50_000), "learner": np.median, "space": SPACE, "ledger": ledger} | BUDGET | changed
    with pytest.raises(error, match=words):
        tools.populous_estimate(**given)
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("units", [[], [0.0], [math.inf], [-1.0]])
def test_units_are_positive_numbers(units):
    with pytest.raises(ValueError, match="units must be"):
        Numbers(units, epsilon=1.0)
