"""Gaussian noise: calibrated exactly, paid for with rounding and sampler, refused where neither can be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.gaussian import gaussian_mechanism, gaussian_mu


@given(epsilon=st.floats(0.01, 30), log_delta=st.floats(-30, -0.5))
@settings(deadline=None)
def test_gaussian_calibration_is_exact(epsilon, log_delta):
    from verification.references.references import gaussian_delta

    delta = math.exp(log_delta)
    mu = gaussian_mu(epsilon, delta)
    assert float(gaussian_delta(epsilon, noise_multiplier=1 / mu)) <= delta
    assert float(gaussian_delta(epsilon, noise_multiplier=1 / (mu * (1 + 1e-6)))) > delta


def test_gaussian_mechanism_pays_for_rounding_and_sampler():
    noisy, scale, loss = gaussian_mechanism(np.full(20_000, 3.0), sensitivity=2.0, epsilon=1.0, delta=1e-6)
    assert loss.delta(1.0) <= 1e-6 and loss.mu >= 2.0 / scale
    assert scale == pytest.approx(2.0 / gaussian_mu(1.0, 1e-6), rel=1e-6)
    assert noisy.std() == pytest.approx(scale, rel=6 / math.sqrt(40_000))
    assert noisy.mean() == pytest.approx(3.0, abs=6 * scale / math.sqrt(20_000))


def test_gaussian_mechanism_at_extreme_budgets():
    _, _, loss = gaussian_mechanism(np.zeros(10_000), sensitivity=1.0, epsilon=800.0, delta=1e-6)
    assert loss.delta(800.0) <= 1e-6
    with pytest.raises(ValueError, match=r"epsilon must be at least 0\.0001"):
        gaussian_mechanism([0.0], sensitivity=1.0, epsilon=1e-6, delta=1e-6)
    with pytest.raises(ValueError, match="delta must be at least"):
        gaussian_mechanism(np.zeros(10_000), sensitivity=1.0, epsilon=1.0, delta=1e-17)


def test_gaussian_mechanism_refuses_values_that_are_not_finite():
    with pytest.raises(ValueError, match="value must be finite"):
        gaussian_mechanism([1.0, math.nan], sensitivity=1.0, epsilon=1.0, delta=1e-6)
