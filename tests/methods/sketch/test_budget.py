"""Whole fits of the sketch method pay for every release once, in rational numbers, and for one box at most."""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms import box
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch import rounds as sketch_rounds
from pm_dpgmm.methods.sketch.method import FAILURE_SHARE, SketchMethod
from pm_dpgmm.methods.sketch.rounds import DUEL, most_numbers
from pm_dpgmm.privacy import noise

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False}
BOUNDS, NONE, HIDDEN = {"bounds": (-15, 20)}, {}, {"neighbouring": "add-remove"}
KINDS = pytest.mark.parametrize(
    "given", [BOUNDS, NONE, HIDDEN, BOUNDS | HIDDEN], ids=["bounds", "none", "hidden", "both"]
)
RELATIONS = pytest.mark.parametrize("given", [NONE, HIDDEN], ids=["replace-one", "add-remove"])


@dataclass(frozen=True)
class Payment:
    """What ``spend`` was asked for and gave."""

    before: GaussianFilter
    steps: int
    share: Fraction
    n_numbers: int
    scale: int

    @property
    def cost(self):
        return Fraction(self.steps**2, self.scale**2)


@pytest.fixture
def payments(monkeypatch):
    """Every payment, in turn."""
    real, made = GaussianFilter.spend, []

    def spend(self, steps, *, share, n_numbers):
        scale, left = real(self, steps, share=share, n_numbers=n_numbers)
        made.append(Payment(self, steps, share, n_numbers, scale))
        return scale, left

    monkeypatch.setattr(GaussianFilter, "spend", spend)
    return made


@pytest.fixture
def scales(monkeypatch):
    """The scale of every measurement that noise was drawn from, in turn."""
    real, drawn = noise._gaussian_measurement, []

    def watched(scale):
        drawn.append(scale)
        return real(scale)

    monkeypatch.setattr(noise, "_gaussian_measurement", watched)
    return drawn


@pytest.fixture
def failures(monkeypatch):
    """The failure of every box: each asks for its threshold once."""
    real, asked = box.location_threshold, []

    def watched(scale, *, failure, n_features):
        asked.append(failure)
        return real(scale, failure=failure, n_features=n_features)

    monkeypatch.setattr(box, "location_threshold", watched)
    return asked


def records_of(n_features, n=3_000):
    """Two clusters."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, n_features)) + 6.0 * (rng.random((n, 1)) < 0.4)


def check_sum(payments):
    """One budget, handed on: before every payment it holds all the earlier ones, and the last one takes the rest."""
    paid = Fraction(0)
    for payment in payments:
        assert isinstance(payment.share, Fraction) and payment.before.spent == paid
        paid += payment.cost
    (limit,) = {payment.before.limit for payment in payments}
    assert limit * Fraction(999_999, 10**6) < paid <= limit


def check_maps(payments, scales):
    """What noise was drawn from is what was paid for: OpenDP's own bound, in zCDP, is half of the payment."""
    assert [scale for scale, _ in groupby(scales)] == [scale for scale, _ in groupby(p.scale for p in payments)]
    for payment in payments:
        assert float(payment.steps) == payment.steps and float(payment.scale) == payment.scale
        rho = Fraction(noise._gaussian_measurement(float(payment.scale)).map(float(payment.steps)))
        assert payment.cost / 2 <= rho <= payment.cost / 2 * (1 + Fraction(1, 10**9))


def check_failures(failures, payments, given):
    """One box without bounds, with what the budget set aside for it; none with bounds, and nothing set aside."""
    (set_aside,) = {payment.before.failure for payment in payments}
    assert failures == ([] if "bounds" in given else [set_aside])
    assert set_aside == (0.0 if "bounds" in given else FAILURE_SHARE * BUDGET["delta"])


@pytest.mark.thorough(quick=["both-accepted"])
@pytest.mark.parametrize("rejected", [False, True], ids=["accepted", "rejected"])
@KINDS
def test_every_branch_spends_the_budget_once(given, rejected, judge, payments, scales, failures):
    """With the noise of a release; which releases there are, and how many numbers they hold."""
    judge(rejected)
    release = dpg.fit_gmm(records_of(2), 3, **given, **BUDGET)
    check_sum(payments)
    check_maps(payments, scales)
    check_failures(failures, payments, given)
    assert sum(payment.share for payment in payments) == pytest.approx(1, abs=1e-6)
    rounds = [name for name in release.raw if name.startswith(("moments_", "sketch_"))]
    assert sum(name.startswith("sketch_") for name in rounds) == (3 if rejected else 2)
    if rejected:
        left = 1 - payments[-5].before.spent / payments[-5].before.limit
        half = left * (1 - 3 * DUEL) / 2
        shares = [payment.share for payment in payments[-5:]]
        assert shares == [half, left * DUEL, half, left * DUEL, left * DUEL]
    before = "neighbouring" in given  # a count; then two box stages or histograms
    earlier = before + (2 if "bounds" not in given else sum(name.startswith("cells_") for name in release.raw))
    problem = Problem(3_000, 2, 3, 1.0, 1e-6, None, release.guarantee.neighbouring)
    numbers = sum(payment.n_numbers for payment in payments[earlier:])
    assert numbers <= most_numbers(problem, SketchMethod().budget(problem))


@pytest.mark.parametrize("given, counts", [(BOUNDS, 0), (BOUNDS | HIDDEN, 3)], ids=["replace-one", "add-remove"])
def test_the_bound_on_numbers_is_reached_and_not_passed(given, counts, judge, payments):
    """One component, so that no cell can be lost, whose first fit is rejected; there are counts under add-remove."""
    judge(rejected=True)
    release = dpg.fit_gmm(records_of(2), 1, **given, **BUDGET)
    earlier = ("neighbouring" in given) + sum(name.startswith("cells_") for name in release.raw)
    numbers = sum(payment.n_numbers for payment in payments[earlier:])
    problem = Problem(3_000, 2, 1, 1.0, 1e-6, None, release.guarantee.neighbouring)
    assert numbers - counts == most_numbers(problem, SketchMethod().budget(problem)) - 3


@KINDS
def test_one_column_spends_the_budget_once(given, payments, scales, failures):
    release = dpg.fit_gmm(records_of(1), 1, **given, **BUDGET)
    check_sum(payments)
    check_maps(payments, scales)
    check_failures(failures, payments, given)
    histograms = 2 if "bounds" not in given else sum(name.startswith("cells_") for name in release.raw)
    assert len(payments) == ("neighbouring" in given) + histograms + 1


@RELATIONS
@pytest.mark.parametrize("n_features", [1, 2])
def test_a_refusal_has_paid_for_one_box_and_tries_no_other(n_features, given, payments, scales, failures):
    with pytest.raises(dpg.Unstable, match="no interval holds enough records") as refusal:
        dpg.fit_gmm(records_of(n_features, 40), 2, **given, **BUDGET)
    check_maps(payments, scales)
    check_failures(failures, payments, given)
    assert len(payments) == ("neighbouring" in given) + 2
    assert sum(payment.cost for payment in payments) < payments[0].before.limit  # the rest is not spent, nor given back
    assert refusal.value.guarantee.epsilon == 1.0 and float(refusal.value.guarantee.curve(50.0)) >= failures[0]


@RELATIONS
def test_a_refund_for_a_rejected_start_is_seen_in_the_sum(given, judge, monkeypatch, payments):
    """The planted fault: what the first sketch cost is there once more when its fit is rejected."""
    judge(rejected=True)
    real = sketch_rounds._rejected

    def refunded(records, evidence, fit, budget, *others):
        return real(records, evidence, fit, replace(budget, spent=budget.spent - payments[-1].cost), *others)

    monkeypatch.setattr(sketch_rounds, "_rejected", refunded)
    dpg.fit_gmm(records_of(2), 3, **given, **BUDGET)  # the filter alone does not see it
    with pytest.raises(AssertionError):
        check_sum(payments)
    assert sum(payment.cost for payment in payments) > Fraction(11, 10) * payments[0].before.limit
