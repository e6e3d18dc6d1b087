"""Privacy curves against sums over whole probability tables and against references that share no code."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

from pm_dpgmm.privacy.curve_files import PROFILES, profile_from_dict
from pm_dpgmm.privacy.curve_values import values
from pm_dpgmm.privacy.curves import (
    SPLITS,
    CompositionProfile,
    EitherProfile,
    GaussianProfile,
    GeometricProfile,
    MaximumProfile,
    PointProfile,
    RenyiProfile,
    TableProfile,
    TruncatedLaplaceProfile,
)
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from pm_dpgmm.privacy.propose_test_release_curve import ProposeTestReleaseProfile, adjacent_pairs, divergence
from tests.builders.examples import examples
from verification.references.references import gaussian_delta, hockey_stick, truncated_laplace_delta

LOSSES = [
    PointProfile(1.0, 1e-5),
    GeometricProfile(2.0, 2),
    GaussianProfile(0.5, slack=1e-15),
    TruncatedLaplaceProfile(20.0, 100, 7),
    RenyiProfile((2.0, 4.0, 8.0), (0.1, 0.2, 0.4)),
    TableProfile((0.0, 1.0, 2.0), (0.5, 0.1, 0.0)),
    CompositionProfile(GeometricProfile(2.0, 1), TruncatedLaplaceProfile(20.0, 100, 7), 0.5),
    EitherProfile((GaussianProfile(0.3, failure=1e-9), PointProfile(1.0, 1e-5))),
]


@given(
    scale=st.floats(0.3, 40),
    shift=st.integers(1, 12),
    extra=st.integers(0, 60),
    epsilon=st.floats(0, 4),
    data=st.data(),
)
@settings(deadline=None)
def test_truncated_laplace_curve_is_the_sum_over_its_table_and_grows_with_the_shift(scale, shift, extra, epsilon, data):
    bound = shift + extra
    z = np.arange(-bound - shift, bound + shift + 1)
    p = np.where(np.abs(z) <= bound, np.exp(-np.abs(z) / scale), 0.0)
    p /= p.sum()
    smaller = data.draw(st.integers(1, shift))
    curve = TruncatedLaplaceProfile(scale, bound, shift).delta(epsilon)
    assert curve == pytest.approx(hockey_stick(p, np.roll(p, shift), epsilon), abs=1e-12)
    assert hockey_stick(p, np.roll(p, smaller), epsilon) <= curve + 1e-12


def test_truncated_laplace_on_a_fine_grid_is_the_continuous_one():
    steps = 4096
    loss = TruncatedLaplaceProfile(2.0 * steps, 9 * steps, steps)
    for epsilon in (0.0, 0.1, 0.3, 0.49, 0.6):
        # a grid of 1/4096 moves masses and thresholds by about that much
        expected = truncated_laplace_delta(epsilon, scale=2.0, bound=9.0, shift=1.0)
        assert loss.delta(epsilon) == pytest.approx(expected, abs=2 / steps)


@given(scale=st.floats(0.3, 20), n_counts=st.integers(1, 3), epsilon=st.floats(0, 6))
@settings(deadline=None, max_examples=examples(50))
def test_geometric_curve_is_the_sum_over_the_table_of_all_counts(scale, n_counts, epsilon):
    z = np.arange(-40, 42)
    p, q = np.exp(-np.abs(z) / scale), np.exp(-np.abs(z - 1) / scale)
    # cut the tails off exactly: beyond the moved count both laws have one constant ratio
    p[0] /= -math.expm1(-1 / scale)
    q[0] /= -math.expm1(-1 / scale)
    p[-1] /= -math.expm1(-1 / scale)
    q[-1] /= -math.expm1(-1 / scale)
    p, q = p / p.sum(), q / q.sum()
    joint_p, joint_q = np.ones(1), np.ones(1)
    for _ in range(n_counts):
        joint_p, joint_q = np.outer(joint_p, p).ravel(), np.outer(joint_q, q).ravel()
    assert GeometricProfile(scale, n_counts).delta(epsilon) == pytest.approx(
        hockey_stick(joint_p, joint_q, epsilon), abs=1e-9
    )


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 40.0])
def test_gaussian_curve_agrees_with_the_reference(mu, epsilon):
    expected = float(gaussian_delta(epsilon, noise_multiplier=1 / mu))
    assert GaussianProfile(mu).delta(epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(mu=st.floats(0.05, 3), epsilon=st.floats(0.01, 8))
def test_renyi_conversion_is_never_below_the_exact_gaussian_curve(mu, epsilon):
    orders = tuple(1 + np.geomspace(0.05, 500, 80))
    loss = RenyiProfile(orders, tuple(order * mu**2 / 2 for order in orders))
    assert loss.delta(epsilon) >= GaussianProfile(mu).delta(epsilon)


@given(epsilon0=st.floats(0, 5), delta0=st.floats(0, 0.5), epsilon=st.floats(0, 6))
def test_point_loss_is_the_curve_of_randomised_response_with_a_leak(epsilon0, delta0, epsilon):
    a = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    p = np.array([delta0, 0.0, (1 - delta0) * a, (1 - delta0) * (1 - a)])
    q = np.array([0.0, delta0, (1 - delta0) * (1 - a), (1 - delta0) * a])
    assert PointProfile(epsilon0, delta0).delta(epsilon) == pytest.approx(hockey_stick(p, q, epsilon), abs=1e-12)


@given(
    epsilon0=st.floats(0, 4),
    delta0=st.sampled_from([0.0, 0.01]),
    shift=st.integers(1, 20),
    scale=st.floats(0.3, 40),
    extra=st.integers(0, 40),
    epsilon=st.floats(-6, 0),
)
@settings(deadline=None)
def test_curves_of_known_pairs_hold_below_0_where_pass_tables_ask(epsilon0, delta0, shift, scale, extra, epsilon):
    more, less = (1 - delta0) * special.expit([epsilon0, -epsilon0])
    noise = np.exp(-np.abs(np.arange(-shift - extra, shift + extra + 1)) / scale)
    p, q = (np.concatenate([*ends]) / noise.sum() for ends in ((noise, np.zeros(shift)), (np.zeros(shift), noise)))
    pairs = {
        PointProfile(epsilon0, delta0): ([delta0, 0, more, less], [0, delta0, less, more]),
        TruncatedLaplaceProfile(scale, shift + extra, shift): (p, q),
        GeometricProfile(scale, 1): (special.expit([1 / scale, -1 / scale]), special.expit([-1 / scale, 1 / scale])),
    }
    for loss, (one, other) in pairs.items():
        exact = np.maximum(0, np.subtract(one, np.multiply(math.exp(epsilon), other))).sum()
        assert loss.delta(epsilon) == pytest.approx(exact, abs=1e-12)


def test_a_test_and_randomised_response_keep_under_the_curve_of_the_pass_table():
    loss = ProposeTestReleaseProfile((0.0, 0.01, 0.9, 1.0), PointProfile(0.5))
    answers = special.expit([0.5, -0.5])
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        for p, q in adjacent_pairs(loss.probabilities):
            pair = [1 - p, *(p * answers)], [1 - q, *(q * answers[::-1])]
            assert hockey_stick(*map(np.array, pair), epsilon) <= loss.delta(epsilon) * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_every_curve_falls_stays_within_0_and_1_and_survives_json(loss):
    epsilons = np.linspace(0, 20, 81)
    deltas = np.array([loss.delta(e) for e in epsilons])
    assert (np.diff(deltas) <= 1e-15).all() and deltas.min() >= 0 and deltas.max() <= 1
    again = profile_from_dict(loss.to_dict())
    assert again == loss


NESTED = CompositionProfile(
    ProposeTestReleaseProfile((0.0, 1e-6, 1e-3, 0.5, 0.999, 1.0), LiftedMaskProfile(0.012, 0.05, 3)),
    MaximumProfile((GaussianProfile(0.2, slack=1e-15, failure=1e-9), GaussianProfile(0.15))),
    0.3,
)


@pytest.mark.parametrize(
    "loss",
    [*LOSSES, LiftedMaskProfile(0.3, 0.5, 2), *NESTED.second.parts, NESTED.first, NESTED.second, NESTED],
    ids=repr,
)
def test_many_values_at_once_are_the_values_one_by_one(loss):
    epsilons = np.concatenate([np.linspace(0, 3, 40), [7.9999, 8.0, 8.0001, 30.0]])
    one_by_one = [loss.delta(epsilon) for epsilon in epsilons.tolist()]
    assert values(loss, epsilons) == pytest.approx(one_by_one, rel=1e-12, abs=1e-300)


def test_a_pass_table_is_the_largest_divergence_over_its_pairs():
    loss = NESTED.first
    for epsilon in (0.0, 0.3, 1.0, 5.0):
        pairs = adjacent_pairs(loss.probabilities)
        largest = max(divergence(p, q, loss.loss, epsilon) for p, q in pairs)
        assert loss.delta(epsilon) == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize(
    "profile, parameters, words",
    [
        (TruncatedLaplaceProfile, (0.0, 9, 1), "scale must be finite and greater than 0, got 0.0"),
        (TruncatedLaplaceProfile, (-1.0, 9, 1), "scale must be finite and greater than 0, got -1.0"),
        (TruncatedLaplaceProfile, (1.0, 9, 0), "shift must be at least 1, got 0"),
        (TruncatedLaplaceProfile, (1.0, 1, 2), "bound must be at least 2, got 1"),
        (GeometricProfile, (math.nan, 1), "scale must be finite and greater than 0, got nan"),
        (GeometricProfile, (1.0, 0), "n_counts must be at least 1, got 0"),
        (GaussianProfile, (-0.5,), "mu must be finite and greater than 0, got -0.5"),
        (GaussianProfile, (0.5, -1e-9), "slack must be finite and at least 0, got -1e-09"),
        (CompositionProfile, (LOSSES[0], LOSSES[1], -0.1), "split must be finite and at least 0, got -0.1"),
    ],
)
def test_parameters_that_are_no_noise_are_named(profile, parameters, words):
    with pytest.raises(ValueError, match=words):
        profile(*parameters)


def test_sums_try_every_split():
    splits = [*np.linspace(0, 1.0, SPLITS - 1), 0.3]
    least = min(NESTED.first.delta(part) + NESTED.second.delta(1.0 - part) for part in splits)
    assert NESTED.delta(1.0) == pytest.approx(least, rel=1e-12)


def test_basic_composition_is_never_below_the_exact_curve_of_two_gaussians():
    loss = CompositionProfile(GaussianProfile(0.5), GaussianProfile(1.0), 1.0)
    exact = GaussianProfile(math.hypot(0.5, 1.0))
    for epsilon in np.linspace(0, 8, 17):
        assert loss.delta(epsilon) >= exact.delta(epsilon)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"kind": "magic"}, "kind"),
        ({}, "kind"),
        ({"kind": "gaussian"}, "parameters"),
        ({"kind": "geometric", "x": 1}, "parameters"),
    ],
)
def test_unknown_curves_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        profile_from_dict(fields)


def test_a_kind_of_curve_whose_cost_nobody_stated_is_not_read(monkeypatch):
    """It would pass for one of the cheapest, and a hostile file of it for a harmless one."""
    monkeypatch.setitem(PROFILES, "new", PointProfile)
    with pytest.raises(KeyError, match="new"):
        profile_from_dict({"kind": "new", "epsilon0": 1.0})


def test_underflow_is_no_error_where_the_caller_made_it_one():
    with np.errstate(all="raise"):
        assert GaussianProfile(mu=0.01).delta(50.0) == 1e-300
        assert GaussianProfile(mu=0.3).delta(1e-9) == pytest.approx(0.1192354, rel=1e-6)
