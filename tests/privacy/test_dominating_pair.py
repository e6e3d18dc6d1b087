"""Composition is an upper bound of closed forms, at every epsilon and for every size of noise, and close to them."""

import functools
import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.common import DifferentialPrivacyParameters

from pm_dpgmm.privacy.curves import GaussianProfile, GeometricProfile, PointProfile, TableProfile
from pm_dpgmm.privacy.dominating_pair import MOST_LOSSES, DominatingPair, merged, response
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, compose

EPSILONS = np.geomspace(1e-6, 1e3, 37)
RELATIVE, ABSOLUTE = 1e-9, 1e-14  # stated excess of Gaussian and of pure compositions


def gaussian(epsilon, mu):
    """Balle and Wang (2018), Theorem 8, in 60 digits."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(float(epsilon)), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def binomial(epsilon, each, times):
    """``times`` randomised responses at ``each``, in 60 digits."""
    with mpmath.workdps(60):
        e0, e = mpmath.mpf(each), mpmath.mpf(float(epsilon))
        keep, total = 1 / (1 + mpmath.exp(-e0)), mpmath.mpf(0)
        for lies in range(times + 1):
            excess = (times - 2 * lies) * e0 - e
            if excess > 0:
                mass = mpmath.binomial(times, lies) * keep ** (times - lies) * (1 - keep) ** lies
                total -= mass * mpmath.expm1(-excess)
        return total


def product(losses):
    total = DominatingPair()
    for loss in losses:
        total = total.times(loss.dominating_pair())
    return total


@pytest.mark.parametrize("mus", [(1e-6, 1e-6), (1e-3, 3e-4), (0.3, 0.4, 1.2), (5.0, 7.0), (40.0, 30.0), (300.0,)])
def test_gaussians_compose_to_the_gaussian_of_the_root_of_the_sum_of_squares(mus):
    with mpmath.workdps(60):
        whole = mpmath.sqrt(sum(mpmath.mpf(mu) ** 2 for mu in mus))
    for epsilon, found in zip(EPSILONS, product(map(GaussianProfile, mus)).curve(EPSILONS), strict=True):
        true = gaussian(epsilon, whole)
        assert true <= found <= true * (1 + RELATIVE) + ABSOLUTE


@pytest.mark.parametrize("each, times", [(1e-6, 30), (0.02, 200), (1.0, 20), (30.0, 3), (400.0, 2)])
@pytest.mark.parametrize("made", ["points", "counts"])
def test_pure_releases_compose_to_the_binomial(each, times, made):
    points = [PointProfile(each)] * times
    losses = (
        points
        if made == "points"
        else [GeometricProfile(1 / each, times // 2), GeometricProfile(1 / each, -(-times // 2))]
    )
    step = each if made == "points" else 1 / (1 / each)
    pair = product(losses)
    assert len(pair.losses) == times + 1  # those that differ by rounding alone were put together
    # a little below the largest loss the curve is a difference of two numbers that are almost equal
    epsilons = EPSILONS[np.abs(EPSILONS - each * np.arange(-times, times + 1)[:, None]).min(axis=0) > 1e-6 * EPSILONS]
    for epsilon, found in zip(epsilons, pair.curve(epsilons), strict=True):
        true = binomial(epsilon, step, times)
        assert true <= found <= true * (1 + 1e-8) + ABSOLUTE * max(1, each)


def test_a_gaussian_and_responses_compose_to_the_sum_over_the_responses():
    pair = product([GaussianProfile(0.7), PointProfile(0.5), PointProfile(0.5), GaussianProfile(0.2)])
    for epsilon, found in zip(EPSILONS, pair.curve(EPSILONS), strict=True):
        with mpmath.workdps(60):
            keep = 1 / (1 + mpmath.exp(mpmath.mpf("-0.5")))
            mu = mpmath.sqrt(mpmath.mpf(0.7) ** 2 + mpmath.mpf(0.2) ** 2)
            masses = {1.0: keep**2, 0.0: 2 * keep * (1 - keep), -1.0: (1 - keep) ** 2}
            true = sum(mass * gaussian(epsilon - loss, mu) for loss, mass in masses.items())
        assert true <= found <= true * (1 + RELATIVE) + ABSOLUTE


def test_many_different_losses_keep_a_bounded_number_and_stay_above():
    """Sixteen responses have 2^16 sums; on the grid they stay above the exact curve, and close."""
    each = np.random.default_rng(0).uniform(0.2, 1.0, 16).tolist()
    pair = product([PointProfile(e) for e in each])
    assert len(pair.losses) <= MOST_LOSSES
    sums, masses = np.zeros(1), np.ones(1)
    for e in each:
        sums = np.add.outer(sums, [e, -e]).ravel()
        masses = np.multiply.outer(masses, [1 / (1 + math.exp(-e)), 1 / (1 + math.exp(e))]).ravel()
    for epsilon in (0.01, 0.5, 2.0, 5.0, 8.0):
        exact = float(masses @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - sums, 0.0))))
        assert exact * (1 - 1e-12) <= pair.curve(np.array([epsilon]))[0] <= exact * (1 + 1e-4)


def test_losses_that_are_one_up_to_rounding_are_the_largest_of_them():
    losses, masses = merged(np.array([0.3, 0.1 + 0.2, 1.0]), np.array([0.25, 0.25, 0.5]))
    assert losses.tolist() == [0.1 + 0.2, 1.0] and masses[0] >= 0.5


def test_compositions_are_those_of_dp_accounting_less_what_its_grid_costs():
    """Another library by another route: privacy loss distributions on a grid, rounded pessimistically."""
    intervals = {"value_discretization_interval": 1e-4}
    parts = [
        (GaussianProfile(0.7), pld.from_gaussian_mechanism(1 / 0.7, **intervals)),
        (GaussianProfile(0.4), pld.from_gaussian_mechanism(1 / 0.4, **intervals)),
        (PointProfile(0.3, 1e-5), pld.from_privacy_parameters(DifferentialPrivacyParameters(0.3, 1e-5), **intervals)),
        (PointProfile(0.9), pld.from_privacy_parameters(DifferentialPrivacyParameters(0.9, 0.0), **intervals)),
    ]
    epsilons = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 4.0])
    found = product([loss for loss, _ in parts]).curve(epsilons)
    whole = functools.reduce(lambda one, other: one.compose(other), [law for _, law in parts])
    theirs = np.array([whole.get_delta_for_epsilon(epsilon) for epsilon in epsilons])
    assert (found <= theirs).all() and (found >= (1 - 1e-4) * theirs).all()


def guarantee(epsilon, loss):
    return Guarantee(epsilon, min(0.999, loss.delta(epsilon)), Neighbouring.REPLACE_ONE, "test", loss)


@pytest.mark.parametrize("epsilon", [50.0, 1e3, 1e13])
def test_large_epsilons_compose(epsilon):
    """Curves above 1, and masses that underflow, were errors."""
    noisy = (
        guarantee(epsilon, GaussianProfile(0.2, slack=1e-14))
        if epsilon < 700
        else guarantee(epsilon, GaussianProfile(0.2))
    )
    for part in (
        noisy,
        guarantee(epsilon, PointProfile(epsilon)),
        guarantee(epsilon, GeometricProfile(1 / epsilon, 1)),
    ):
        total = compose(part, part, delta=0.5)
        assert total.epsilon <= 2 * epsilon and isinstance(total.loss, TableProfile)
        assert max(total.loss.deltas) <= 1 and total.curve(0.0) <= 1
    pure = guarantee(epsilon, PointProfile(epsilon))
    assert compose(pure, pure, delta=0.0).epsilon == 2 * epsilon


def test_hostile_noise_takes_neither_memory_nor_time():
    """One Gaussian with mu = 300 took a grid of gigabytes."""
    start = time.perf_counter()
    parts = [
        guarantee(5e4, GaussianProfile(300.0)),
        guarantee(1e12, PointProfile(1e12)),
        guarantee(2e6, GeometricProfile(1e-3, 1024)),
    ]
    total = compose(*parts, *[guarantee(3.0, PointProfile(e)) for e in np.linspace(0.1, 3, 12)], delta=0.9999)
    assert total.curve(1.0) > 0.99
    assert time.perf_counter() - start < 20


def test_a_count_of_large_epsilon_keeps_the_digits_of_its_lies():
    """1 - expit(30) has three digits: the curve was 8e-4 too low."""
    loss = GeometricProfile(1 / 30, 3)
    for epsilon in (10.0, 29.0):
        assert loss.delta(epsilon) == pytest.approx(float(binomial(epsilon, 30.0, 3)), rel=1e-12)
    assert response(30.0).masses[0] == pytest.approx(float(1 / (1 + Fraction(math.exp(30.0)))), rel=1e-14)
