import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy import optimize, stats

from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood


def brute_force(c, m, b):
    """The sum over all Poisson counts, in logarithms."""
    y = np.arange(0, int(m + 40 * np.sqrt(m + 1) + abs(c) + 60 * b + 50))
    return np.logaddexp.reduce(stats.poisson.logpmf(y, m) - np.abs(c - y) / b)


@given(c=st.integers(-60, 400), log_m=st.floats(-14, 6.5), b=st.floats(0.2, 50))
@example(c=4000, log_m=7.6, b=1.0)  # the tail above, and that below, where their second terms count
@example(c=1000, log_m=8.3, b=0.5)
@settings(deadline=None)
def test_the_closed_form_is_the_sum_over_all_counts(c, log_m, b):
    m = float(np.exp(log_m))
    value = count_log_likelihood(np.array([float(c)]), np.array([m]), noise_scale=b)[0][0]
    # beyond 1e-290 the tail expansion has three orders; cancellation of terms of size m exp(1/b) <= 1e5 adds 1e-10
    assert value == pytest.approx(brute_force(c, m, b), rel=1e-9, abs=1e-9)


@given(c=st.integers(-30, 200), log_m=st.floats(-6, 6), b=st.floats(0.3, 20))
@settings(deadline=None)
def test_the_derivative_is_the_derivative(c, log_m, b):
    m = float(np.exp(log_m))

    def value(v):
        return count_log_likelihood(np.array([float(c)]), np.atleast_1d(v), noise_scale=b)[0][0]

    slope = count_log_likelihood(np.array([float(c)]), np.array([m]), noise_scale=b)[1][0]
    numeric = optimize.approx_fprime(np.array([m]), value, 1e-6 * m)[0]
    assert slope == pytest.approx(numeric, rel=2e-3, abs=2e-4)


def test_shapes_that_fit_each_other_give_the_numbers_of_whole_arrays():
    counts, expected = np.array([[-3.0], [0.0], [40.0], [4_000.0]]), np.array([1e-200, 0.3, 2_000.0])
    found = count_log_likelihood(counts, expected, noise_scale=0.5)
    whole = count_log_likelihood(*np.broadcast_arrays(counts, expected), noise_scale=0.5)
    np.testing.assert_array_equal(found, whole)


def test_extreme_counts_stay_finite():
    counts = np.array([-1e15, -5.0, 0.0, 3.0, 1e6, 1e15])
    for m in (1e-6, 1.0, 1e3, 1e8, 1e14):
        for b in (1e-3, 0.2, 2.0, 1e4, 1e7):
            with np.errstate(divide="ignore"):
                value, slope = count_log_likelihood(counts, np.full(6, m), noise_scale=b)
            assert np.isfinite(value).all() and np.isfinite(slope).all()


def test_large_counts_follow_the_poisson_likelihood():
    counts, expected = np.array([900.0, 1500.0]), np.array([1000.0, 1000.0])
    value = count_log_likelihood(counts, expected, noise_scale=0.2)[0]
    assert np.diff(value)[0] == pytest.approx(np.diff(stats.poisson.logpmf(counts, expected))[0], rel=0.02)
