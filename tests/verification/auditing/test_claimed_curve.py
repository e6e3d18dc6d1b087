"""Claims that are curves, against closed forms."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from pm_dpgmm.privacy.curves import GaussianProfile, TableProfile
from pm_dpgmm.privacy.guarantee import Guarantee
from tests.builders.discrete_pairs import discrete_pair, orders
from verification.auditing.claimed_curve import GAUSSIAN, GDP, ZCDP, claimed_curve, gaussian_family
from verification.references.references import gaussian_delta, laplace_delta

ALPHA = np.linspace(0, 1, 41)


def test_trade_off_of_gaussian_noise_is_the_closed_form():
    for mu in (0.1, 0.2367, 1.0, 3.0):
        exact = special.ndtr(special.ndtri(1 - ALPHA) - mu)
        found = claimed_curve(profile=GDP(mu)).trade_off(ALPHA)
        assert np.all(found <= exact + 1e-12)
        assert np.abs(found - exact).max() < 5e-4  # tangents at some epsilons only


def test_trade_off_of_laplace_noise_is_the_closed_form():
    # quantiles of Laplace noise moved by one: f(a) = 1 - F(F^-1(1 - ... )): Dong, Roth and Su (2022), Appendix C
    laplace = stats.laplace(scale=1.0)
    exact = laplace.cdf(laplace.ppf(1 - ALPHA) - 1)
    found = claimed_curve(profile=lambda epsilon: float(laplace_delta(epsilon, scale=1.0))).trade_off(ALPHA)
    assert np.all(found <= exact + 1e-12)
    assert np.abs(found - exact).max() < 2e-3


def test_a_point_claims_the_curve_of_randomised_response():
    claim = claimed_curve(profile=([1.0], [0.0]))
    exact = np.maximum(1 - math.e * ALPHA, np.maximum(0, (1 - ALPHA) / math.e))
    np.testing.assert_allclose(claim.trade_off(ALPHA), exact, atol=1e-12)
    assert claim.first[0] == pytest.approx(math.tanh(0.5))  # the total variation, which the table does not say


def test_convex_curves_are_read_as_they_are():
    claim = claimed_curve(profile=GDP(1.0))
    np.testing.assert_array_equal(claim.first, claim.second)
    np.testing.assert_allclose(claim.first, gaussian_delta(claim.epsilons, noise_multiplier=1.0), rtol=1e-9, atol=1e-15)


def test_zcdp_allows_whatever_a_gaussian_of_that_rho_does():
    for rho in (1e-4, 0.03, 0.5, 5.0):
        epsilon = np.linspace(0, 30, 200)
        assert np.all(ZCDP(rho).delta(epsilon) >= GDP(math.sqrt(2 * rho)).delta(epsilon))


def test_a_table_may_come_from_an_iterator():
    table = [0.0, 1.0], [0.2, 0.1]
    assert claimed_curve(profile=iter(table)).words == claimed_curve(profile=table).words


def test_a_loss_distribution_of_dp_accounting_is_a_claim():
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    loss = accounting.from_gaussian_mechanism(1.0, value_discretization_interval=1e-3, use_connect_dots=True)
    found = claimed_curve(profile=loss).trade_off(ALPHA)
    exact = special.ndtr(special.ndtri(1 - ALPHA) - 1.0)
    assert np.all(found <= exact + 1e-9) and np.abs(found - exact).max() < 1e-3


def test_guarantees_of_releases_are_claims():
    guarantee = Guarantee(1.0, 0.13, "replace-one", "Gaussian", GaussianProfile(mu=1.0))
    claim = claimed_curve(guarantee=guarantee)
    assert (claim.delta, claim.family.parameter, claim.family.claimed) == (0.13, "mu", 1.0)
    assert claim.family.delta(1.0, 0.5) == pytest.approx(float(GDP(1.0).delta(0.5)))
    table = Guarantee(1.0, 0.1, "replace-one", "table", TableProfile((0.0, 1.0), (0.5, 0.1)))
    read = claimed_curve(guarantee=table)
    assert read.family is GAUSSIAN and read.first[read.epsilons == 1.0] <= 0.1


@pytest.mark.parametrize("seed", range(5))
def test_asymmetric_curves_give_the_trade_off_function_of_their_pair(seed):
    p, q = discrete_pair(seed)
    order = np.argsort(-p / q)
    knots = np.cumsum(np.append(0, q[order])), 1 - np.cumsum(np.append(0, p[order]))
    exact = np.interp(ALPHA, *knots)
    claim = claimed_curve(profile=orders(p, q))
    found = claim.trade_off(ALPHA)
    assert np.all(found <= exact + 1e-12)
    assert np.abs(found - exact).max() < 0.02  # kinks lie between the epsilons that are read
    assert not np.array_equal(claim.first, claim.second)


def test_a_parameter_that_is_only_called_mu_makes_no_family():
    @dataclasses.dataclass
    class Scale:
        mu: float

        def delta(self, epsilon):
            return GDP(1 / self.mu).delta(epsilon)  # falls with mu: "no curve with mu below" would be wrong

    claim = claimed_curve(profile=Scale(mu=2.0))
    assert claim.family is GAUSSIAN and claim.words == "the curve given"


def test_a_family_is_refuted_below_and_tells_an_epsilon():
    delta = float(GDP(0.5).delta(0.2))
    assert 0.5 * (1 - 1e-8) < GAUSSIAN.refuted_below(0.2, delta) <= 0.5
    assert GAUSSIAN.refuted_below(0.2, 0.0) == 0.0
    epsilon = GAUSSIAN.epsilon_at(0.5, 1e-6)
    assert float(GDP(0.5).delta(epsilon)) == pytest.approx(1e-6, rel=1e-6)
    assert GAUSSIAN.epsilon_at(0.0, 1e-6) == 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, ValueError, "guarantee or profile must be given"),
        ({"profile": GDP(1.0), "guarantee": 1}, ValueError, "guarantee or profile must be given"),
        ({"guarantee": 1.0}, TypeError, "guarantee must have 'curve'"),
        (
            {"guarantee": SimpleNamespace(epsilon=1.0, delta=1e-7, curve=GDP(0.2367).delta)},
            ValueError,
            "guarantee must have a curve of at most 1e-07 at epsilon 1, got 9.996e-07",
        ),
        ({"profile": 3}, TypeError, "profile must be a curve"),
        ({"profile": lambda epsilon: 1 / 0}, RuntimeError, "profile raised at epsilon 0: ZeroDivisionError"),
        ({"profile": GDP}, TypeError, "profile must be a curve, as GDP"),
        ({"profile": ([1.0, 0.5], [0.1, 0.0])}, ValueError, "epsilons increasing"),
        ({"profile": ([math.nan], [0.1])}, ValueError, "epsilons increasing from a finite one"),
        ({"profile": ([math.inf], [0.1])}, ValueError, "epsilons increasing from a finite one"),
        ({"profile": lambda epsilon: "a"}, TypeError, "profile must give a number at every epsilon, got 'a' at 0"),
        ({"profile": lambda epsilon: math.nan}, ValueError, "delta of at least 0, got nan at epsilon 0"),
        ({"profile": GDP(1.0), "delta": 2.0}, ValueError, "delta must be at least 0 and below 1"),
    ],
)
def test_what_is_no_claim_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        claimed_curve(**arguments)
    for made in (lambda: GDP(0.0), lambda: ZCDP(-1.0)):
        with pytest.raises(ValueError, match="must be finite and greater than 0"):
            made()


@pytest.mark.parametrize("which", [0, 1])
def test_a_table_with_a_mask_is_refused(which):
    table = [np.linspace(0, 5, 6), np.linspace(1, 0.1, 6)]
    table[which] = np.ma.masked_array(table[which], mask=np.arange(6) == 3)
    with pytest.raises((TypeError, ValueError), match="profile must"):
        claimed_curve(profile=table)


def test_a_table_too_long_for_a_certificate_is_refused_before_the_audit():
    for n in (9_759, 9_760):
        epsilons = np.linspace(0.0004, 50, n)  # none of those at which every claim is read
        table = (epsilons, np.exp(-epsilons))
        if n == 9_759:
            assert claimed_curve(profile=table).epsilons.size == 10_000
        else:
            with pytest.raises(ValueError, match="profile must have at most 9759 epsilons up to 60, got 9760"):
                claimed_curve(profile=table)


@pytest.mark.parametrize(
    "slack, failure", [(0.0, 0.0), (1e-9, 0.0), (1e-4, 0.0), (0.0, 1e-4), (1e-6, 0.01), (0.3, 0.0)]
)
@pytest.mark.parametrize("mu", [1e-3, 0.2367, 1.0, 30.0])
def test_the_family_of_gaussian_noise_has_the_curves_of_its_profiles(mu, slack, failure):
    family = gaussian_family(mu, slack, failure)
    for value in (mu / 3, mu, 2 * mu):
        profile = GaussianProfile(mu=value, slack=slack, failure=failure)
        for epsilon in (0.0, 1e-3, 0.1, 1.0, 4.0, 60.0):
            assert family.delta(value, epsilon) == pytest.approx(profile.delta(epsilon), rel=1e-6, abs=1e-13)


def test_a_curve_that_only_calls_itself_gaussian_is_of_no_family_with_mu():
    @dataclasses.dataclass
    class Named:
        mu: float
        kind: str = "gaussian"

        def delta(self, epsilon):
            return 0.5 * math.exp(-epsilon)

    assert claimed_curve(profile=Named(1.0)).family is GAUSSIAN
    assert claimed_curve(profile=GaussianProfile(mu=1.0)).family.claimed == 1.0


@pytest.mark.parametrize("slack, failure", [(0.0, 0.0), (1.42e-14, 0.0), (1e-7, 0.0), (0.0, 1e-4)])
@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0, 6.0])
def test_the_certified_epsilon_is_that_of_gaussian_noise_whatever_a_guarantee_adds(mu, slack, failure):
    """The slack made it infinite from a mu of 2.9 on at delta 1e-6."""
    for delta in (1e-12, 1e-6, 0.01):
        told = gaussian_family(0.1, slack, failure).certified_epsilon(mu, delta)
        assert math.isclose(gaussian_delta(told, noise_multiplier=1 / mu), delta, rel_tol=1e-5)
