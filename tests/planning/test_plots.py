"""Figures of plans: errors against records or epsilon, and where they are small enough."""

import dataclasses
import math

import matplotlib
import pytest

import pm_dpgmm as dpg

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def plans():
    return [dpg.plan(n, 1, 2, epsilon=1.0, method="histogram", n_simulations=2) for n in (5_000, 100)]


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_plans_are_drawn_from_few_records_to_many_with_what_is_wanted(plans):
    import matplotlib.pyplot as plt

    given = plt.figure().add_subplot()
    ax = dpg.plot_plans(plans, ax=given)
    assert ax is given and ax.get_xlabel() == "records"
    assert lines(ax)["median"].get_xdata().tolist() == [100, 5_000]
    assert lines(ax)["wanted at most"].get_ydata()[0] == plans[0].error
    assert lines(ax)["enough"].get_xdata().tolist() == [plan.n_records for plan in plans if plan.enough] == [5_000]


def test_a_plan_draws_itself_and_refusals_stand_at_the_edge(plans):
    assert plans[0].plot().get_title().startswith("histogram, 1 features, 2 components")
    refused = dataclasses.replace(plans[1].trials[0], refused=True, gap=math.inf)
    ax = dataclasses.replace(plans[1], trials=(refused,)).plot()
    assert [line for line in ax.get_lines() if line.get_marker() == "x" and len(line.get_xdata()) == 1]


def test_epsilons_can_be_compared(plans):
    other = dataclasses.replace(plans[0], epsilon=2.0)
    ax = dpg.plot_plans([plans[0], other], against="epsilon")
    assert ax.get_xlabel() == "epsilon" and lines(ax)["median"].get_xdata().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "given, words",
    [
        ([], "plans must be one or more"),
        ("ab", "plans must be a sequence of plans"),
        ([1], r"plans must be of pm_dpgmm\.plan"),
        (3, "plans must be a sequence of plans"),
    ],
)
def test_what_is_no_plan_is_refused(given, words, plans):
    with pytest.raises((TypeError, ValueError), match=words):
        dpg.plot_plans(given)
    with pytest.raises(ValueError, match="with the same error"):
        dpg.plot_plans([plans[0], dataclasses.replace(plans[1], error=0.5)])
    with pytest.raises(ValueError, match="against must be one of"):
        dpg.plot_plans(plans, against="delta")


def test_a_notebook_shows_the_verdict_and_the_errors(plans):
    for plan in plans:
        shown = plan._repr_html_()
        assert plan.reason.split(":")[0] in shown and "total variation from the truth" in shown
        assert ("NOT ENOUGH" in shown) is not plan.enough
