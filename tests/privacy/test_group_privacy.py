"""Guarantees for several records: never below exact curves of noise whose sensitivity is as many times as large."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.privacy.curves import CompositionProfile, GaussianProfile, GeometricProfile, PointProfile
from pm_dpgmm.privacy.group_privacy import group_epsilons, of_stated_pair, points_of
from pm_dpgmm.privacy.guarantee import Guarantee, smallest_epsilon
from verification.references.references import gaussian_delta, hockey_stick

RELATION = dpg.Neighbouring.REPLACE_ONE


def of_point(epsilon, delta):
    return Guarantee(epsilon, delta, RELATION, "any", PointProfile(epsilon, delta))


@pytest.mark.parametrize("m", [1, 2, 3, 10])
def test_pure_guarantees_are_multiplied(m):
    (found,) = group_epsilons(of_point(0.3, 0.0), [m], delta=0.0)
    assert m * 0.3 <= found <= m * 0.3 * (1 + 1e-12)


@pytest.mark.parametrize("m", [2, 5])
def test_a_single_point_pays_for_every_step(m):
    """Vadhan (2017), Lemma 2.2, with numbers: delta grows by 1 + e^epsilon + ..., and just below that none holds."""
    epsilon, delta = 0.4, 1e-8
    needed = delta * sum(math.exp(i * epsilon) for i in range(m))
    assert group_epsilons(of_point(epsilon, delta), [m], delta=1.0001 * needed) == pytest.approx([m * epsilon])
    (below,) = group_epsilons(of_point(epsilon, delta), [m], delta=0.9999 * needed)
    assert below == math.inf


@pytest.mark.parametrize("m", [1, 2, 7])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
def test_gaussian_noise_is_exact(m, delta):
    guarantee = Guarantee(1.0, 0.2, RELATION, "Gaussian", GaussianProfile(mu=0.3))
    (found,) = group_epsilons(guarantee, [m], delta=delta)
    assert gaussian_delta(found, noise_multiplier=1 / (0.3 * m)) <= delta * (1 + 1e-9)
    assert found == 0 or gaussian_delta(found * (1 - 1e-6), noise_multiplier=1 / (0.3 * m)) > delta


@pytest.mark.parametrize("m", [2, 4])
def test_other_curves_are_above_the_truth_and_near_it(m):
    """One count with geometric noise, and a composition that is searched: m records move the count by m."""
    scale, delta = 5.0, 1e-3
    guarantee = Guarantee(1 / scale, 0.0, RELATION, "count", GeometricProfile(scale=scale, n_counts=1))
    (found,) = group_epsilons(guarantee, [m], delta=delta)
    masses = np.exp(-np.abs(np.arange(-300, 301)) / scale)
    p, q = (np.roll(masses, shift) / masses.sum() for shift in (0, m))
    exact = smallest_epsilon(lambda epsilon: float(hockey_stick(p, q, epsilon)), delta)
    assert exact <= found <= m / scale * (1 + 1e-12)
    both = CompositionProfile(PointProfile(0.2, 1e-7), PointProfile(0.3, 1e-7), 0.2)
    (found,) = group_epsilons(Guarantee(0.5, 2e-7, RELATION, "two", both), [m], delta=1e-5)
    assert m * 0.5 <= found <= m * 0.5 * 1.1


@pytest.mark.parametrize("m", [1, 2, 3, 10, 1000, 10**6])
@pytest.mark.parametrize(
    "epsilon, delta",
    [(1.0, 1e-6), (1e-3, 1e-9), (1e-8, 1e-12), (1e-9, 1e-6), (1e-12, 1e-6), (2e-16, 1e-6), (40.0, 1e-30), (0.3, 0.0)],
)
def test_the_stated_pair_gives_a_pair_for_any_number_of_records(m, epsilon, delta):
    """Never below the sum, in 50 digits; at that delta :func:`group_epsilons` finds m times epsilon or less."""
    found, at = of_stated_pair(of_point(epsilon, delta), m)
    assert m * epsilon <= found <= m * epsilon * (1 + 1e-12)
    with localcontext(prec=50) as context:
        context.Emax, context.Emin = 10**9, -(10**9)
        e = Decimal(epsilon)
        exact = Decimal(delta) * ((m * e).exp() - 1) / (e.exp() - 1)
        assert min(exact, Decimal(1)) <= Decimal(at) <= exact * (1 + Decimal("1e-8") * (1 + m * e))
    if at < 1:
        assert group_epsilons(of_point(epsilon, delta), [m], delta=min(at * (1 + 1e-12), 0.9))[0] <= found


def test_points_at_epsilon_zero_pay_for_every_step():
    """Total variation .001: twice that for two records, whatever else the curve says."""
    guarantee = Guarantee(1e-3, 0.001, RELATION, "any", PointProfile(0.0, 0.001))
    assert group_epsilons(guarantee, [2], delta=0.0021) == [pytest.approx(0.0, abs=1e-300)]
    assert group_epsilons(guarantee, [2], delta=0.0015) == [math.inf]


def test_two_records_of_one_in_a_million():
    """(1 + e) 1e-6, not 2 e 1e-6: Vadhan (2017), Lemma 2.2, before its sum is bounded by its largest term."""
    assert of_stated_pair(of_point(1.0, 1e-6), 2) == pytest.approx((2.0, (1 + math.e) * 1e-6), rel=1e-7)


def test_points_of_a_curve_never_rise_and_hold_the_stated_one():
    guarantee = Guarantee(1.0, 1e-4, RELATION, "any", PointProfile(0.7, 1e-5))
    epsilons, deltas = points_of(guarantee)
    assert (deltas[1:] <= deltas[:-1]).all() and epsilons[0] == 0 and 1.0 in epsilons
    assert (deltas[epsilons >= 0.7] == 1e-5).all()


@pytest.mark.parametrize("group, delta", [([0], 0.0), ([1.5], 0.0), ([2], -1.0), ([2], 1.0)])
def test_bad_numbers_are_refused(group, delta):
    with pytest.raises((TypeError, ValueError), match=r"number of records|delta must"):
        group_epsilons(of_point(1.0, 0.0), group, delta=delta)
