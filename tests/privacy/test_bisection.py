"""Bisection: what is returned was asked and held, on either side, for any condition and any stop."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pm_dpgmm.privacy.bisection import arithmetic, bisected, geometric, whole


@given(
    threshold=st.floats(1e-6, 1e6),
    up=st.booleans(),
    n_halvings=st.integers(0, 300),
    middle=st.sampled_from([arithmetic, geometric]),
)
def test_the_side_that_held_is_returned_however_early_the_search_ends(threshold, up, n_halvings, middle):
    def holds(x):
        return x >= threshold if up else x <= threshold

    held, failed = (2e6, 1e-7) if up else (1e-7, 2e6)
    found = bisected(holds, held, failed, middle=middle, n_halvings=n_halvings)
    assert holds(found)
    if n_halvings >= 200:
        assert found == threshold  # the last float that holds


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 1), up=st.booleans())
def test_a_condition_without_any_order_is_never_trusted_beyond_what_was_asked(seed, share, up):
    rng, held_at = np.random.default_rng(seed), set()

    def holds(x):
        if rng.random() < share:
            held_at.add(x)
            return True
        return False

    held, failed = (1.0, 0.0) if up else (0.0, 1.0)
    found = bisected(holds, held, failed, middle=arithmetic)
    assert found == held or found in held_at


@given(least=st.integers(1, 10**15), low=st.integers(0, 100))
def test_integers_are_found_exactly(least, low):
    asked = []

    def enough(n):
        asked.append(n)
        return n >= least + low

    found = bisected(enough, 10**16, low, middle=whole)
    assert found == least + low and type(found) is int and all(type(n) is int for n in asked)


@pytest.mark.parametrize("close, most", [(lambda low, high: high / low < 1.5, 1.5), (lambda low, high: True, 2e12)])
def test_the_search_ends_where_the_interval_is_short_enough(close, most):
    found = bisected(lambda x: x >= 3.0, 1e12, 1e-12, middle=geometric, close=close)
    assert 3.0 <= found <= 3.0 * most and math.isfinite(found)
