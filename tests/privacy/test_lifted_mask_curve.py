"""The curve of the lifted mask against exact curves, a reference written apart from it, and Gaussian integrals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.lifted_mask import largest_omega
from pm_dpgmm.privacy.curve_files import profile_from_dict
from pm_dpgmm.privacy.lifted_mask_curve import REACH, STEP, LiftedMaskProfile
from tests.builders.examples import examples
from verification.claims.aggregated import curve as reference

# Largest omega at delta = 1e-6 as published with the theorem: epsilon, eta, then D = 2, 3, 6, 11.
PUBLISHED = [
    (0.5, 0.05, (0.01026, 0.01024, 0.01018, 0.01009)),
    (1.0, 0.02, (0.00871, 0.00870, 0.00870, 0.00868)),
    (1.0, 0.05, (0.01942, 0.01938, 0.01928, 0.01911)),
    (1.0, 0.10, (0.03276, 0.03258, 0.03207, 0.03127)),
    (1.0, 0.20, (0.04936, 0.04872, 0.04692, 0.04430)),
    (2.0, 0.05, (0.03645, 0.03638, 0.03619, 0.03588)),
]
CELLS = [(*row[:2], d, value) for row in PUBLISHED for d, value in zip((2, 3, 6, 11), row[2], strict=True)]


@pytest.mark.parametrize("epsilon, eta, dimension, published", CELLS)
def test_largest_omega_is_the_published_one_and_below_the_exact_one(epsilon, eta, dimension, published):
    found = largest_omega(epsilon=epsilon, delta=1e-6, eta=eta, dimension=dimension)
    # the figure is rounded, and found with longer pieces
    assert published - 0.5e-5 <= found <= published * 1.0015
    assert LiftedMaskProfile(found, eta, dimension).delta(epsilon) <= 1e-6
    exact = reference.largest_omega(epsilon, 1e-6, dimension, eta, exact=True)
    assert 0.97 < found / exact < 1
    # The same theorem on other grids, either may be luckier: a tenth of delta, which goes with the 28th power of omega.
    other = reference.largest_omega(epsilon, 1e-6, dimension, eta, exact=False)
    assert abs(math.log(found / other)) < math.log(1.1) / 28


@pytest.mark.parametrize("eta, least", [(0.05, 0.995), (0.2, 0.98), (0.5, 0.965)])
def test_share_of_the_exact_omega_is_the_stated_one(eta, least):
    found = largest_omega(epsilon=1.0, delta=1e-6, eta=eta, dimension=6)
    assert least < found / reference.largest_omega(1.0, 1e-6, 6, eta, exact=True) < 1


@given(
    share=st.floats(0.02, 1.0),
    eta=st.floats(0.02, 1.0),
    dimension=st.integers(2, 12),
    epsilon=st.floats(-2.0, 9.0),
)
@settings(deadline=None, max_examples=examples(60))
def test_no_exact_curve_of_one_eigenvalue_or_of_weights_exceeds_the_bound(share, eta, dimension, epsilon):
    omega = share * min(0.6, 1.5 * eta)
    bound = LiftedMaskProfile(omega, eta, dimension).delta(epsilon)
    rounding = 1e-12  # of differences of tails near 1
    for x in (-omega, omega, -omega / 2):
        assert reference.single_delta(epsilon, x, dimension, eta) <= bound + rounding
    assert reference.weight_delta(epsilon, omega, dimension, eta) <= bound + rounding


@pytest.mark.thorough
def test_random_spreads_over_rows_and_weights_stay_below_the_bound():
    rng = np.random.default_rng(20261121)
    for _ in range(40):
        dimension, eta, epsilon = int(rng.choice([2, 3, 6])), float(rng.choice([0.05, 0.2, 0.5])), rng.uniform(0.2, 2)
        omega = largest_omega(epsilon=epsilon, delta=10 ** rng.uniform(-8, -3), eta=eta, dimension=dimension)
        xs = rng.normal(size=dimension + 1) * rng.choice([0.1, 1.0, -3.0], size=dimension + 1)
        xs *= omega / np.linalg.norm(xs)
        found = reference.spread_delta(epsilon, xs[:-1], float(xs[-1]), dimension, eta)
        assert found <= LiftedMaskProfile(omega, eta, dimension).delta(epsilon) * (1 + 1e-5)  # quadrature


@pytest.mark.parametrize("loss", [LiftedMaskProfile(0.019, 0.05, 3), LiftedMaskProfile(0.3, 0.5, 2)])
def test_the_curve_is_a_falling_step_function_at_every_real_epsilon_and_survives_json(loss):
    epsilons = np.linspace(-REACH - 1, REACH + 2, 6001)
    deltas = np.array([loss.delta(e) for e in epsilons.tolist()])
    assert (np.diff(deltas) <= 0).all() and deltas.min() > 0 and deltas.max() == 1
    for epsilon in (-1.0, 0.0, 1.0, REACH - STEP, float(REACH), REACH + 1.0):
        inside = np.nextafter(epsilon + STEP, -math.inf)
        assert loss.delta(epsilon) == loss.delta(epsilon + STEP / 2) == loss.delta(inside)
        assert loss.delta(np.nextafter(epsilon, -math.inf)) == loss.delta(epsilon - STEP) >= loss.delta(epsilon)
    for epsilon in (0.25, 1.0, 3.0):  # grid points
        mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * loss.delta(epsilon)
        assert loss.delta(-epsilon) <= mirrored * (1 + 1e-11)
    assert profile_from_dict(loss.to_dict()) == loss and loss.dominating_pair() is None
    assert 0 < loss.delta(math.inf) < 1e-100


@given(share=st.floats(0.01, 0.99), omega=st.floats(1e-4, 0.5), eta=st.floats(0.02, 1.0), dimension=st.integers(2, 12))
@settings(deadline=None, max_examples=examples(60))
def test_moments_are_those_of_the_reference_and_fall_over_x_squared(share, omega, eta, dimension):
    loss, order = LiftedMaskProfile(omega, eta, dimension), share / math.expm1(omega)
    xs = omega * np.linspace(-1, 1, 20)
    values = np.array([float(loss.log_moment(x, order)) for x in xs])
    # Lambda is a difference of terms of size D order x
    rounding = 1e-14 * dimension * order * omega
    assert values == pytest.approx(reference.log_moment(xs, order, dimension, eta), rel=1e-12, abs=rounding)
    assert (np.diff(values / xs**2) <= 4 * rounding / xs.min() ** 2 * 400 + 1e-12 * values.max() / xs[0] ** 2).all()
    assert loss.log_moment(-omega, 1.01 / math.expm1(omega)) == math.inf


def test_contours_bound_the_integral_that_they_replace():
    loss = LiftedMaskProfile(0.05, 0.2, 3)
    lambdas, logs = loss.contours()
    for i in (*range(0, len(lambdas), 16), len(lambdas) - 1):  # the moments are largest on the last one
        place, u = lambdas[i], lambdas[i] * np.append(0, np.geomspace(1e-4, 1e5, 20_000))
        for x in (-0.05, 0.05, 0.01):  # rows of one size, as many as fit into omega
            rows = (0.05 / x) ** 2
            moments = reference.log_moment(x, place + 1j * u, 3, 0.2).real * rows
            kernel = np.exp(moments - moments[0]) / np.abs((place + 1j * u) * (place + 1 + 1j * u))
            integral = math.log(np.trapezoid(kernel, u) / math.pi) + moments[0]
            assert integral <= logs[i] + 1e-6  # trapezoidal rule
    assert logs.shape == lambdas.shape and lambdas.max() * math.expm1(0.05) < 1


@pytest.mark.parametrize("omega, eta, dimension", [(0.012, 0.05, 3), (0.3, 0.5, 2), (0.99, 1e-3, 50), (1e-9, 0.05, 3)])
def test_the_best_contour_is_found_without_a_look_at_all(omega, eta, dimension):
    loss, epsilons = (
        LiftedMaskProfile(omega, eta, dimension),
        np.append(np.linspace(0, 10, 2_000), np.geomspace(11, 1e9)),
    )
    lambdas, logs = loss.contours()
    least = np.min(logs - lambdas * (1 - 1e-12) * epsilons[:, None], axis=1)
    assert loss.bounds(epsilons) == pytest.approx(np.maximum(np.exp(np.minimum(least, 0)), 1e-300), rel=1e-12, abs=0)


def closed_form_epsilon(*, delta: float, omega: float, eta: float, dimension: int) -> float:
    """An epsilon at which the lifted mask is (epsilon, ``delta``)-indistinguishable, in closed form: another route.

    mu^2/2 + mu sqrt(2 (1 + A) ln(1/delta)) + A ln(1/delta), with A = e^omega - 1 and
    mu^2 = ((e^(omega/2) - 1)/eta)^2 + D A^2/2: the tail of a sub-gamma loss. About 4/3 of what the curve proves.

    By the worst row the total log moment is at most Lambda_{-omega}(lambda); -ln(1 - r) <= r + r^2/(2(1 - r)) and
    A - ln(1 + A) <= A^2/2 give at most lambda(1 + lambda) mu^2/(2(1 - A lambda)), so the loss minus mu^2/2 is sub-gamma
    with variance mu^2 (1 + A) and scale A (Boucheron, Lugosi and Massart 2013, section 2.4).
    """
    growth, log_term = math.expm1(omega), -math.log(delta)
    mu = math.hypot(math.expm1(omega / 2) / eta, growth * math.sqrt(dimension / 2))
    return mu**2 / 2 + mu * math.sqrt(2 * (1 + growth) * log_term) + growth * log_term


@pytest.mark.parametrize("eta, share", [(0.05, 0.7), (0.2, 0.5)])
def test_the_closed_form_is_a_weaker_bound(eta, share):
    exact = reference.largest_omega(1.0, 1e-6, 3, eta, exact=True)
    low, high = 0.1 * exact, exact
    for _ in range(40):
        middle = (low + high) / 2
        fits = closed_form_epsilon(delta=1e-6, omega=middle, eta=eta, dimension=3) <= 1.0
        low, high = (middle, high) if fits else (low, middle)
    assert share < low / exact < 0.85
    for delta in (1e-9, 1e-6, 1e-3):
        epsilon = closed_form_epsilon(delta=delta, omega=exact, eta=eta, dimension=3)
        assert LiftedMaskProfile(exact, eta, 3).delta(epsilon) <= delta


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: LiftedMaskProfile(1.5, 0.05, 3), "omega must lie"),
        (lambda: LiftedMaskProfile(0.1, 0.0, 3), "eta must be"),
        (lambda: LiftedMaskProfile(0.1, 0.1, 1), "dimension must be at least 2"),
        (lambda: largest_omega(epsilon=1.0, delta=0.0, eta=0.1, dimension=2), "delta must be greater than 0"),
        (lambda: largest_omega(epsilon=1e-9, delta=1e-200, eta=0.1, dimension=2), "leave room"),
    ],
)
def test_parameters_out_of_range_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_generous_budget_admits_the_largest_omega_that_is_allowed():
    assert largest_omega(epsilon=200.0, delta=0.5, eta=1.0, dimension=2) == 0.9
