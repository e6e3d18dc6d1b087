"""Runs that depend on when they were made, and the chance that others are taken for them."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from verification import audit, repeated
from verification.alike import BY_CHANCE, _by_means, _by_neighbours, check_alike


def drawn_once(data, n, rng):
    """A shift that all runs of a call share."""
    return 10 * rng.normal() + rng.laplace(size=n)


def counting():
    count = itertools.count()
    return repeated(lambda data, rng: {"number": next(count), "noise": rng.laplace()})


def drifting():
    """Noise that remembers."""
    state = [0.0]

    def mechanism(data, rng):
        state[0] = 0.99 * state[0] + rng.normal()
        return state[0]

    return repeated(mechanism)


def in_order(data, n, rng):
    """Sorted along the wrong axis."""
    return np.sort(rng.laplace(size=(n, 3)), axis=0)


@pytest.mark.parametrize(
    "mechanism, settings",
    [
        (drawn_once, {}),
        (drawn_once, {"sequential": True, "epsilon": 50.0}),
        (counting(), {}),
        (counting(), {"sequential": True}),
        (drifting(), {}),
        (in_order, {}),
    ],
)
def test_runs_that_depend_on_when_they_were_made_are_refused(mechanism, settings):
    options = {"epsilon": 1.0, "n_samples": 2_000, "rng": np.random.default_rng(1)} | settings
    with pytest.raises(ValueError, match="mechanism must draw every run by itself, got runs that depend on when"):
        audit(mechanism, 1, 0, **options)


@pytest.mark.parametrize("n, values", [(8, None), (9, None), (8, [0, 0, 0, 1, 1, 2, 2, 2]), (6, [0, 0, 0, 0, 0, 1])])
def test_both_probabilities_are_right_over_all_orders(n, values):
    """Each is at most b in a share of at most b of the orders."""
    score = np.arange(n, dtype=float) if values is None else np.array(values, dtype=float)
    rng, sizes = np.random.default_rng(1), np.array([n // 2, n - n // 2])
    orders = list(itertools.permutations(range(n))) if n < 8 else [rng.permutation(n) for _ in range(20_000)]
    by_means = np.sort([_by_means(score[list(order)], sizes) for order in orders])
    by_neighbours = np.sort([_by_neighbours(score[list(order)], rng.permutation(n)) for order in orders])
    share = np.arange(1, len(orders) + 1) / len(orders)
    error = 5 * np.sqrt(share / len(orders)) + 5 / len(orders)  # of 20,000 orders; ties of values come last
    for found in (by_means, by_neighbours):
        last = np.append(found[1:] > found[:-1], True)
        assert (share[last] <= found[last] + error[last]).all()


def test_the_law_of_neighbours_sums_to_one():
    alternating = np.tile([0.0, 1.0], 50)
    assert _by_neighbours(alternating, np.arange(100)) == pytest.approx(1)
    apart = np.repeat([0.0, 1.0], 50)  # C(50, 25) of C(100, 50) orders
    assert _by_neighbours(apart, np.arange(100)) == pytest.approx(math.comb(50, 25) / math.comb(100, 50))


@pytest.mark.parametrize("d", [1, 3, 50])
def test_independent_runs_are_never_refused(d):
    """False alarm 1e-9 of each."""
    assert BY_CHANCE == 1e-9
    for seed in range(30):
        rng = np.random.default_rng(seed)
        hostile = np.array([np.nan, np.inf, -np.inf, 0.0, 1e308])
        laws = (rng.standard_cauchy, rng.random, partial(rng.choice, [0.0, 1.0]), partial(rng.choice, hostile))
        for law in laws:
            check_alike([law(size=(n, d)) for n in rng.integers(1, 400, size=5)], "x")
    check_alike([np.ones((50, d)), np.ones((9, d))], "x")
    check_alike([], "x")
    check_alike([np.zeros((1, d))], "x")
