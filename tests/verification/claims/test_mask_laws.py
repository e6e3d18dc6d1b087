"""The exact curves of the masks: closed form, inversion and simulation agree.

False alarms: the simulated curves lie outside six standard errors with probability below 1e-8 each.
"""

import math

import numpy as np
import pytest

from verification.claims.masks import laws
from verification.references.references import gaussian_delta

PAIRS = [
    (0.5, (0.5, 1.2, 1)), (0.5, (0.5, 0.8, 1)), (0.5, (0.5, 0.8, 4)), (0.5, (0.5, 1.2, 4)), (1.0, (0.4, 0.97, 9)),
    (0.3, (0.0, 0.7, 2)), (1.0, (0.5, 1 + 1e-12, 1)), (1.0, (0.5, 1.0, 1)),
]  # fmt: skip


def simulated(epsilon, pairs, rng, n_samples=100_000):
    """Mean and standard error of max(0, 1 - exp(epsilon - loss)) under P, the loss from the densities."""
    loss = np.zeros(n_samples)
    for shift, variance, n in pairs:
        x = rng.normal(size=(n_samples, n))
        moved = x - np.eye(n)[0] * shift
        loss += n / 2 * math.log(variance) - (x**2).sum(axis=1) / 2 + (moved**2).sum(axis=1) / (2 * variance)
    values = -np.expm1(np.minimum(0, epsilon - loss))
    return values.mean(), values.std() / math.sqrt(n_samples)


@pytest.mark.parametrize("epsilon, pair", PAIRS)
def test_closed_form_inversion_and_simulation_agree(epsilon, pair):
    exact = math.exp(laws.log_delta(epsilon, pair))
    inverted, error = laws.spread_delta(epsilon, [pair])
    assert inverted == pytest.approx(exact, rel=1e-9, abs=error + 1e-12)
    mean, deviation = simulated(epsilon, [pair], np.random.default_rng(1))
    assert abs(mean - exact) < 6 * deviation


def test_an_unequal_spectrum_agrees_with_simulation():
    pairs = laws.matrix_pairs([1.3, 1 / 1.2, 1.0], 0.4)
    inverted, error = laws.spread_delta(0.5, pairs)
    mean, deviation = simulated(0.5, pairs, np.random.default_rng(2))
    assert error < 1e-9 and abs(mean - inverted) < 6 * deviation


def test_a_shift_alone_is_the_gaussian_mechanism_also_in_the_far_tail():
    for epsilon, shift in [(1.0, 0.5), (0.1, 0.01), (5.0, 2.0), (1.0, 0.03)]:
        expected = gaussian_delta(epsilon, noise_multiplier=1 / shift)
        for variance in (1.0, 1 + 1e-12):
            assert laws.log_delta(epsilon, (shift, variance, 1)) == pytest.approx(math.log(expected), rel=1e-6)


def test_the_published_product_is_less_revealing_than_the_matrix():
    for ratio, d, rows in [(1.1, 1, 1), (1 / 1.1, 1, 1), (1.1, 3, 3), (1 / 1.1, 3, 1)]:
        released = laws.released_log_delta(0.3, ratio, rows * d, 0.2, rows)
        shift = abs(math.sqrt(ratio) - 1) * math.sqrt(rows) / 0.2
        exact = laws.log_delta(0.3, (shift, ratio, rows * d))
        assert released <= exact + 1e-9
        assert released == -math.inf or released > exact - 1


def test_curves_fall_and_the_published_radius_is_far_below_the_claim():
    radius = min(laws.covariance_conditions(1.0, math.log(2e6), 0.05, 2, frobenius=True))
    epsilons = [0.0, 0.05, 0.1]
    curves = [
        laws.weight_curve(epsilons, radius=radius, noise=0.05),
        laws.mean_curve(epsilons, radius=radius, noise=0.05, d=2),
        laws.covariance_curve(epsilons, radius=radius, noise=0.05, d=2, frobenius=True),
    ]
    for curve in curves:
        assert curve.shape == (3,) and np.all(np.diff(curve) < 0) and curve[0] > 1e-3
    assert laws.mean_curve(1.0, radius=radius, noise=0.05, d=2) < 1e-30
