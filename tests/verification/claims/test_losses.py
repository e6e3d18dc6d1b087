"""Deltas in closed form against sums over a fine grid."""

import math

import numpy as np
import pytest

from verification.claims.common.losses import laplace_delta

NEAR = np.linspace(-60, 60, 400_001)  # steps of 3e-4: kinks cost less than 1e-6, the tails below 1e-12


@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "first, second",
    [((0.0, 1.0), (0.7, 1.0)), ((0.0, 2.0), (0.5, 1.0)), ((0.5, 0.5), (0.0, 2.0)), ((0.0, 1.5), (0.0, 2.0))],
)
def test_the_hockey_stick_of_two_laplace_laws_is_the_sum_over_a_grid(first, second, epsilon):
    p, q = (np.exp(-np.abs(NEAR - centre) / scale) / (2 * scale) for centre, scale in (first, second))
    expected = np.maximum(0.0, p - math.exp(epsilon) * q).sum() * (NEAR[1] - NEAR[0])
    assert laplace_delta(first, second, epsilon) == pytest.approx(expected, abs=1e-6)
