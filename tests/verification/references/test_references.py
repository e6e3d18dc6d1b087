"""References against quadrature, sums and each other: no two sides of a check share a formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, stats

from verification.neighbours import add_remove_pairs, replace_one_pairs
from verification.references import references as ref

EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0])


def quadrature(p, q, epsilon, low, high, points):
    """Integral of the positive part of p - exp(epsilon) q."""
    return integrate.quad(
        lambda y: max(0.0, p(y) - math.exp(epsilon) * q(y)), low, high, points=points, limit=500, epsabs=1e-13
    )[0]


@pytest.mark.parametrize("noise_multiplier", [0.2, 0.5, 1.0, 2.5747, 10.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_delta_is_the_integral_of_the_excess(epsilon, noise_multiplier):
    p, q = stats.norm(1.0, noise_multiplier).pdf, stats.norm(0.0, noise_multiplier).pdf
    crossing = epsilon * noise_multiplier**2 + 0.5
    high = max(crossing, 1.0) + 10 * noise_multiplier
    expected = quadrature(p, q, epsilon, crossing, high, [max(crossing, 1.0) + noise_multiplier])
    assert ref.gaussian_delta(epsilon, noise_multiplier=noise_multiplier) == pytest.approx(
        expected, rel=1e-8, abs=1e-13
    )


def test_gaussian_delta_keeps_its_relative_precision_in_the_tail():
    # Source: 40-digit arithmetic is replaced by the leading terms of Mills' ratio, m(x) ~ 1/x - 1/x^3 + 3/x^5 - 15/x^7.
    epsilon, z = 30.0, 1.0
    u, w = epsilon * z - 0.5 / z, epsilon * z + 0.5 / z

    def mills(x):
        return 1 / x - 1 / x**3 + 3 / x**5 - 15 / x**7 + 105 / x**9

    expected = stats.norm.pdf(u) * (mills(u) - mills(w))
    assert ref.gaussian_delta(epsilon, noise_multiplier=z) == pytest.approx(expected, rel=1e-6)


@given(delta=st.floats(1e-12, 0.9), z=st.floats(0.05, 100))
def test_gaussian_epsilon_inverts_gaussian_delta(delta, z):
    epsilon = ref.gaussian_epsilon(delta, noise_multiplier=z)
    assert ref.gaussian_delta(epsilon, noise_multiplier=z) <= delta * (1 + 1e-6)
    if epsilon > 1e-9:
        assert ref.gaussian_delta(epsilon * (1 - 1e-6), noise_multiplier=z) > delta * (1 - 1e-9)


def test_gaussian_epsilon_knows_the_specimens():
    assert ref.gaussian_epsilon(1e-3, noise_multiplier=2.5747) == pytest.approx(1.0, abs=1e-4)
    assert ref.gaussian_epsilon(1e-3, noise_multiplier=2.5747 / 2) == pytest.approx(2.302, abs=1e-3)
    assert ref.gaussian_epsilon(0.0, noise_multiplier=1.0) == math.inf
    assert ref.gaussian_epsilon(1.0, noise_multiplier=1.0) == 0.0


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_laplace_delta_is_the_integral_of_the_excess(epsilon, scale):
    p, q = stats.laplace(0.0, scale).pdf, stats.laplace(1.0, scale).pdf
    points = sorted({0.0, 1.0, min(max((1 - epsilon * scale) / 2, 0.0), 1.0)})
    expected = quadrature(p, q, epsilon, -40 * scale, 1 + 40 * scale, points)
    assert ref.laplace_delta(epsilon, scale=scale) == pytest.approx(expected, abs=1e-9)


@given(epsilon=st.floats(0, 20), true=st.floats(0, 20))
def test_randomised_response_delta_is_the_hockey_stick_of_two_points(epsilon, true):
    truth, lie = 1 / (1 + math.exp(-true)), 1 / (1 + math.exp(true))  # 1 - truth would lose digits
    expected = ref.hockey_stick([truth, lie], [lie, truth], epsilon)
    assert ref.randomised_response_delta(epsilon, true_epsilon=true) == pytest.approx(expected, abs=1e-9)


def test_hockey_stick_by_hand_and_at_extremes():
    p, q = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]
    assert ref.hockey_stick(p, q, [0.0, math.log(2), 5.0]) == pytest.approx([0.5, 0.0, 0.0])
    assert ref.hockey_stick([1.0, 0.0], [0.0, 1.0], [0.0, 1e6]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("scale, bound, shift", [(1.0, 5.0, 1.0), (0.5, 2.0, 0.3), (1e-3, 1.0, 1e-3), (2.0, 1.0, 3.0)])
def test_truncated_laplace_delta_is_the_limit_of_finite_sums(scale, bound, shift):
    width = (2 * bound + shift) / 400_001
    y = -bound + (np.arange(400_001) + 0.5) * width
    p = np.where(np.abs(y) <= bound, np.exp(-np.abs(y) / scale), 0.0)
    q = np.where(np.abs(y - shift) <= bound, np.exp(-np.abs(y - shift) / scale), 0.0)
    expected = ref.hockey_stick(p / p.sum(), q / q.sum(), EPSILONS)
    # the midpoint rule errs by a few cells at the jumps: density there times the width of a cell
    found = ref.truncated_laplace_delta(EPSILONS, scale=scale, bound=bound, shift=shift)
    assert found == pytest.approx(expected, abs=5 * width / scale)


def test_truncated_laplace_delta_tends_to_the_laplace_curve():
    assert ref.truncated_laplace_delta(EPSILONS, scale=0.5, bound=25.0, shift=1.0) == pytest.approx(
        ref.laplace_delta(EPSILONS, scale=0.5), abs=1e-9
    )


def test_references_broadcast():
    assert ref.gaussian_delta(EPSILONS[:, None], noise_multiplier=[1.0, 2.0]).shape == (6, 2)
    assert ref.gaussian_epsilon([[0.1], [0.2]], noise_multiplier=[1.0, 2.0]).shape == (2, 2)
    assert ref.laplace_delta(1.0, scale=[1.0, 2.0]).shape == (2,)
    assert ref.truncated_laplace_delta(EPSILONS.reshape(2, 3), scale=1.0, bound=2.0, shift=1.0).shape == (
        2,
        3,
    )


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ref.gaussian_delta(-1.0, noise_multiplier=1.0), "epsilon must be at least 0"),
        (
            lambda: ref.gaussian_delta(1.0, noise_multiplier=0.0),
            "noise_multiplier must be finite and greater",
        ),
        (lambda: ref.gaussian_epsilon(1.5, noise_multiplier=1.0), r"delta must lie in \[0, 1\]"),
        (lambda: ref.laplace_delta(1.0, scale=np.inf), "scale must be finite and greater"),
        (lambda: ref.randomised_response_delta(1.0, true_epsilon=-1.0), "true_epsilon must be at least 0"),
        (lambda: ref.hockey_stick([0.5, 0.4], [0.5, 0.5], 1.0), "p must be a vector of probabilities"),
        (lambda: ref.hockey_stick([1.0], [0.5, 0.5], 1.0), "p and q must have one length"),
        (lambda: ref.truncated_laplace_delta(1.0, scale=0.0, bound=1.0, shift=1.0), "scale must be finite"),
        (
            lambda: ref.truncated_laplace_delta(1.0, scale=1.0, bound=1.0, shift=np.nan),
            "shift must be finite",
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@given(pair=replace_one_pairs(2, max_records=5, bounds=(0.0, 1.0)))
def test_replaced_pairs_differ_in_exactly_one_row(pair):
    x, neighbour = pair
    assert x.shape == neighbour.shape and np.isfinite(neighbour).all()
    assert (x != neighbour).any(axis=1).sum() == 1


@given(pair=add_remove_pairs(3, max_records=5))
def test_added_pairs_are_one_removal_apart(pair):
    small, large = sorted(pair, key=len)
    assert len(large) == len(small) + 1
    assert any(np.array_equal(np.delete(large, i, axis=0), small) for i in range(len(large)))
