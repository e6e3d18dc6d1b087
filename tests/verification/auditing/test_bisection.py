"""Roots are rounded to the side that was asked for."""

import math

import numpy as np
import pytest

from verification.auditing.bisection import bracket, root_from_below
from verification.auditing.guessing import GuessCounts, delta_bound, epsilon_bound, p_value


@pytest.mark.parametrize("place", [0.1, 1 / 3, math.pi, 7.999])
@pytest.mark.parametrize("geometric", [False, True])
def test_a_bracket_holds_the_place_and_is_as_narrow_as_asked(place, geometric):
    for width, relative in [(0.0, 0.0), (1e-3, 0.0), (0.0, 1e-3), (1e-6, 1e-6)]:
        low, high = bracket(lambda x: x < place, 0.01, 8.0, width=width, relative=relative, geometric=geometric)
        assert low < place <= high
        assert high - low <= max(width + relative * high, 2 * math.ulp(high))
    low, high = bracket(lambda x: x < place, 0.01, 8.0, steps=3, geometric=geometric)
    assert low < place <= high and high - low >= 0.9 * 7.99 / 8 * (0.01 / 8 if geometric else 1)


def test_the_ends_are_not_evaluated():
    seen = []
    bracket(lambda x: bool(seen.append(x)) or x < 0.3, 0.0, 1.0, width=0.1)
    assert seen and all(0 < x < 1 for x in seen)


@pytest.mark.parametrize("width", [1e-3, 1e-9])
def test_a_root_from_below_is_near_the_root_and_not_above(width):
    for place in np.random.default_rng(1).uniform(0, 10, 50):
        for bent in (lambda x, p=place: x - p, lambda x, p=place: math.expm1(x - p)):
            found = root_from_below(bent, -1, 11, width=width)
            assert place - 4 * width <= found <= place


def test_the_bounds_of_an_audit_are_refuted_themselves():
    """A root to 1e-11 on either side would leave some of them just above."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        rounds = int(rng.choice([5, 100, 5000]))
        planned = int(rng.integers(1, rounds + 1))
        counts = GuessCounts(int(planned * rng.uniform(0.6, 1)), planned, planned, rounds, int(rng.integers(1, 3)), 3)
        delta, error = float(rng.choice([0, 1e-6, 1e-3])), float(rng.choice([0.05, 1e-6]))
        epsilon = epsilon_bound(counts, delta=delta, error=error)
        if epsilon > 0:
            assert p_value(counts, epsilon=epsilon, delta=delta) <= error
        least = delta_bound(counts, epsilon=0.5, error=error)
        if least > 0:
            assert p_value(counts, epsilon=0.5, delta=least) <= error
