"""Truncated Laplace noise: the smallest bound that keeps delta, on integers and on real numbers."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.truncated_laplace import (
    truncated_laplace,
    truncated_laplace_count,
    truncated_laplace_loss,
    truncation_bound,
)
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile


@given(epsilon=st.floats(0.01, 5), delta=st.floats(1e-9, 0.4), sensitivity=st.integers(1, 500))
@settings(deadline=None)
def test_the_bound_is_the_smallest_that_keeps_delta(epsilon, delta, sensitivity):
    loss = truncated_laplace_loss(sensitivity=sensitivity, epsilon=epsilon, delta=delta)
    assert loss.delta(epsilon) <= delta
    if loss.bound > sensitivity:
        assert TruncatedLaplaceProfile(loss.scale, loss.bound - 1, sensitivity).delta(epsilon) > delta


def test_bound_at_an_epsilon_whose_quotient_rounds_down():
    loss = truncated_laplace_loss(sensitivity=127, epsilon=94.31629687814274, delta=1.14e-25)
    assert loss.delta(94.31629687814274) <= 1.14e-25 and loss.bound < 1000


def test_integer_bound_tends_to_the_papers_formula():
    loss = truncated_laplace_loss(sensitivity=100_000, epsilon=0.3, delta=1e-5)
    assert loss.bound / 100_000 == pytest.approx(truncation_bound(sensitivity=1.0, epsilon=0.3, delta=1e-5), rel=1e-4)


def test_real_values_get_grid_noise_within_the_bound():
    bound = truncation_bound(sensitivity=0.5, epsilon=1.0, delta=1e-3)
    values = [truncated_laplace(10.0, sensitivity=0.5, epsilon=1.0, delta=1e-3)[0] for _ in range(200)]
    assert max(abs(v - 10.0) for v in values) <= bound * (1 + 1e-5) and len(set(values)) > 190
    loss = truncated_laplace_loss(sensitivity=2, epsilon=1.0, delta=1e-3)
    assert all(abs(truncated_laplace_count(5, loss=loss) - 5) <= loss.bound for _ in range(50))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_truncated_laplace_refuses_values_that_are_not_finite(value):
    with pytest.raises(ValueError, match="value must be finite"):
        truncated_laplace(value, sensitivity=1.0, epsilon=1.0, delta=0.1)
