"""Runs that depend on when they were made, and the chance that others are taken for them."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from verification import audit, repeated
from verification.auditing.alike import (
    BY_CHANCE,
    _between,
    _by_calls,
    _by_changes,
    _by_means,
    _by_neighbours,
    _by_repeats,
    _log_by_chance,
    _upper,
    check_alike,
    come_again,
)
from verification.auditing.outputs import prepared, run_both
from verification.auditing.parts import OutputError
from verification.auditing.probing import probe


def drawn_once(data, n, rng):
    """A shift that all runs of a call share."""
    return 10 * rng.normal() + rng.laplace(size=n)


def drawn_faintly(size):
    """A shift of ``size`` standard deviations of the noise that all runs of a call share; a sound claim is 1."""
    return lambda data, n, rng: data + size * math.sqrt(2) * rng.normal() + rng.laplace(size=n)


def spread_by_call(data, n, rng):
    """A scale of the noise that all runs of a call share."""
    return rng.laplace(size=n) * math.exp(0.5 * rng.normal())


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


class ByCall:
    """Noise of scale 1 and, in some calls, a shift of a third of its standard deviation; a sound claim is 1."""

    def __init__(self, shifted):
        self.calls, self.shifted = itertools.count(), shifted

    def __call__(self, data, n, rng):
        return data + rng.laplace(size=n) + 0.5 * self.shifted(next(self.calls))


@pytest.mark.parametrize(
    "shifted, settings",
    [
        (lambda call: call >= 12, {}),  # the probes make 8 calls; 4 of x came before all of x_neighbour
        (lambda call: call % 2, {"sequential": True, "n_samples": 5_000}),  # those of x and x_neighbour took turns
    ],
    ids=["later", "every other"],
)
def test_what_changes_with_the_number_of_calls_does_not_tell_the_data_sets_apart(shifted, settings):
    with pytest.raises(ValueError, match="mechanism must draw every run by itself"):
        audit(
            ByCall(shifted), 0, 1, **{"epsilon": 1.0, "n_samples": 10_000, "rng": np.random.default_rng(1)} | settings
        )


def resampled(size):
    """From a pool that each call draws anew, as posterior draws are."""
    return lambda data, n, rng: data + rng.choice(rng.laplace(size=size), n)


def mirrored(data, n, rng):
    """A number that two runs share, half a call apart, beside one that they do not."""
    half = rng.laplace(size=(n + 1) // 2)
    return data + np.tile(half, 2)[:n], rng.laplace(size=n)


@pytest.mark.parametrize(
    "mechanism, sequential",
    [(resampled(1_000), False), (resampled(1_000), True), (resampled(20_000), False), (mirrored, False)],
)
def test_runs_that_share_a_pool_of_draws_are_refused(mechanism, sequential):
    rng, n_samples = np.random.default_rng(1), 3_000 if sequential else 10_000
    with pytest.raises(ValueError, match="repeat each other and none of another call"):
        audit(mechanism, 1, 0, epsilon=2.0, n_samples=n_samples, sequential=sequential, rng=rng)


@pytest.mark.thorough(quick=["counts1"])
@pytest.mark.parametrize("counts", [[2] * 8, [2, 2, 2, 1, 1, 1, 1], [5, 4, 3, 2, 2], [3] * 5])
def test_the_probability_of_repeats_is_right(counts):
    """At most b in a share of at most b of 20,000 orders, within five standard errors."""
    values, rng = np.repeat(np.arange(len(counts)), counts).astype(float), np.random.default_rng(6)
    for sizes in ([2, len(values) - 2], [3, 3, len(values) - 6]):
        found = np.sort([_by_repeats(rng.permutation(values), np.array(sizes)) for _ in range(20_000)])
        share = np.arange(1, 20_001) / 20_000
        last = np.append(found[1:] > found[:-1], True)
        assert (share[last] <= (found + 5 * np.sqrt(share / 20_000) + 5 / 20_000)[last]).all()
    assert _by_repeats(np.repeat(np.arange(100.0), 2), np.array([100, 100])) == pytest.approx((99 / 151) ** 25)


@pytest.mark.thorough(quick=["drawn_once-settings1"])
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
    with pytest.raises(ValueError, match="mechanism must draw every run by itself"):
        audit(mechanism, 1, 0, **options)


@pytest.mark.parametrize(
    "mechanism, n, least",
    [
        (drawn_faintly(1), 100, 0.7),
        (drawn_faintly(1), 300, 0.8),
        (drawn_faintly(1), 700, 0.9),
        (drawn_faintly(0.5), 700, 0.7),
        (drawn_faintly(0.3), 2_000, 0.7),
        (drawn_faintly(0.2), 10_000, 0.8),
        (spread_by_call, 2_000, 0.8),
    ],
)
def test_what_runs_of_a_call_share_is_seen_though_faint(mechanism, n, least):
    """Of 20 audits; seeds are fixed."""
    seen = 0
    for seed in range(20):
        try:
            run(mechanism, n, seed)
        except OutputError:
            seen += 1
    assert seen >= 20 * least


def run(mechanism, n, seed):
    """Probes and runs of an audit, without its learning."""
    rng = np.random.default_rng((3, seed))
    runner = prepared(mechanism, 1, 0)
    probe(runner, rng)
    run_both(runner, rng.integers(2, size=n).astype(bool), rng)


@pytest.mark.thorough(quick=["8-None"])
@pytest.mark.parametrize("n, values", [(8, None), (9, None), (8, [0, 0, 0, 1, 1, 2, 2, 2]), (6, [0, 0, 0, 0, 0, 1])])
def test_probabilities_are_right_over_all_orders(n, values):
    """Each is at most b in a share of at most b of the orders."""
    score = np.arange(n, dtype=float) if values is None else np.array(values, dtype=float)
    rng, sizes = np.random.default_rng(1), np.array([n // 2, n - n // 2])
    orders = list(itertools.permutations(range(n))) if n < 8 else [rng.permutation(n) for _ in range(20_000)]
    by_means = np.sort([_by_means(score[list(order)], sizes) for order in orders])
    upper = _upper(score)
    by_neighbours, by_changes = (
        np.sort([f(upper[list(order)]) for order in orders]) for f in (_by_neighbours, _by_changes)
    )
    share = np.arange(1, len(orders) + 1) / len(orders)
    error = 5 * np.sqrt(share / len(orders)) + 5 / len(orders)  # of 20,000 orders; ties of values come last
    for found in (by_means, by_neighbours, by_changes):
        last = np.append(found[1:] > found[:-1], True)
        assert (share[last] <= found[last] + error[last]).all()


@pytest.mark.parametrize("m, n", [(1, 1), (1, 6), (3, 4), (5, 5), (2, 11)])
@pytest.mark.parametrize("ties", [False, True])
def test_moments_of_a_split_are_at_most_those_of_a_gaussian(m, n, ties):
    """Over all ways to choose the first m of m + n runs: exact."""
    values = np.arange(m + n) // (3 if ties else 1)
    squares, signs = [], []
    for chosen in itertools.combinations(range(m + n), m):
        order = [*chosen, *(i for i in range(m + n) if i not in chosen)]
        squares += [*_between(values[order].astype(float), np.array([m, n]))]
        signs.append(np.sign(np.mean(values[list(chosen)]) - np.mean(values)))
    z = np.sqrt(squares) * np.array(signs)
    for t in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        assert np.mean(np.exp(t * z)) <= math.exp(t**2 / 2) * (1 + 1e-12)
    for s in (0.1, 0.3, 0.45):
        assert np.mean(np.exp(s * np.array(squares))) <= (1 - 2 * s) ** -0.5
    assert ties or np.mean(squares) == pytest.approx(1)


@pytest.mark.thorough(quick=["None"])
@pytest.mark.parametrize("values", [None, [0, 0, 0, 1, 1, 2, 2, 2, 2, 3], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]])
def test_the_probability_between_calls_is_right(values):
    """At most b in a share of at most b of 20,000 orders, within five standard errors."""
    values, rng = np.arange(10) if values is None else np.array(values), np.random.default_rng(4)
    sizes = [np.array([2, 3, 1, 4]), np.array([5, 5])]  # of two data sets
    found = np.sort(
        [_by_calls([z for own in sizes for z in _between(rng.permutation(values), own)]) for _ in range(20_000)]
    )
    share = np.arange(1, 20_001) / 20_000
    last = np.append(found[1:] > found[:-1], True)
    assert (share[last] <= (found + 5 * np.sqrt(share / 20_000) + 5 / 20_000)[last]).all()
    assert _by_calls([]) == _by_calls([1.0] * 4) == 1
    assert _by_calls([25.0] * 2) == pytest.approx(25 * math.exp(-24))


def test_looks_share_the_false_alarm():
    rng = np.random.default_rng(5)
    calls = [[rng.laplace(size=(500, 1)) + shift for shift in (0.0, 0.6)] for _ in range(2)]
    with pytest.raises(OutputError, match="when they were made"):
        check_alike(calls)
    check_alike(calls, look=10**9)


@pytest.mark.parametrize("n", [2, 7, 8])
@pytest.mark.parametrize("law", [_by_neighbours, _by_changes])
def test_laws_of_neighbours_are_exact(law, n):
    """Over all ways to be above the middle, as many runs each time: of an odd number the last has no partner."""
    for high in range(n + 1):
        sides = [np.isin(np.arange(n), chosen) for chosen in itertools.combinations(range(n), high)]
        if law is _by_changes:
            counts = np.array([(s[1:] != s[:-1]).sum() for s in sides])
        else:
            sides = [s[: n // 2 * 2] for s in sides if s[: n // 2 * 2].sum() == high]
            counts = np.array([(s[::2] != s[1::2]).sum() for s in sides])
        for side, count in zip(sides, counts, strict=True):
            assert law(side) == pytest.approx((counts <= count).mean())


def test_equal_values_are_on_one_side_of_the_middle():
    assert _upper(np.array([0.0, 0.0, 0.0, 1.0])).tolist() == [False, False, False, True]
    assert _upper(np.array([0.0, 1.0, 1.0, 1.0])).tolist() == [False, True, True, True]
    assert _upper(np.arange(4.0)).sum() == 2 and not _upper(np.zeros(5)).any()


@pytest.mark.parametrize("kept", ["half of the coins", "every second coin", "the others"])
def test_copies_of_the_run_before_are_seen_among_two_values(kept):
    """A median that broke ties by chance hid them, and the exact score refuted sound claims in 24 % of audits."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        calls = []
        for _ in range(2):
            coins = rng.random(500) < 0.73
            for i in range(1, 500):
                alternate = i % 2 == (kept == "every second coin")  # in the pairs 0 and 1, 2 and 3, or between them
                if rng.random() < 0.5 if kept == "half of the coins" else alternate:
                    coins[i] = coins[i - 1]
            calls.append([np.array_split(coins[:, None].astype(float), 4)[j] for j in range(4)])
        with pytest.raises(OutputError, match="when they were made"):
            check_alike(calls)


@pytest.mark.thorough
@pytest.mark.parametrize("d", [1, 3, 50])
def test_independent_runs_are_never_refused(d):
    """False alarm 1e-9 of each."""
    assert BY_CHANCE == 1e-9
    for seed in range(30):
        rng = np.random.default_rng(seed)
        hostile = np.array([np.nan, np.inf, -np.inf, 0.0, 1e308])
        laws = (
            rng.standard_cauchy,
            rng.random,
            partial(rng.integers, 200),
            partial(rng.choice, [0.0, 1.0]),
            partial(rng.choice, hostile),
        )
        for law in laws:
            check_alike([[law(size=(n, d)) for n in rng.integers(0, 400, size=5)] for _ in range(2)])
    check_alike([[np.ones((50, d)), np.ones((9, d))], []])
    check_alike([[], []])
    check_alike([[np.zeros((1, d))], [np.zeros((2, d)), np.zeros((0, d))]])


@pytest.mark.parametrize(
    "ours, theirs",
    [("abcd", "abcd"), ("aabc", "aabb"), ("aaabb", "aabbb"), ("abcde", "fghab"), ("aaab", "cccd"), ("aaaa", "aaaa")],
)
def test_numbers_that_come_again_by_chance_are_bounded_over_all_orders(ours, theirs):
    orders = [*itertools.permutations(theirs)]
    same = np.array([sum(a == b for a, b in zip(ours, order, strict=True)) for order in orders])
    places = {letter: i for i, letter in enumerate(sorted({*ours, *theirs}))}
    for order, count in zip(orders, same, strict=True):
        bound = math.exp(_log_by_chance(np.array([places[letter] for letter in (*ours, *order)])))
        assert (same >= count).mean() <= bound * (1 + 1e-9)


def test_numbers_that_come_again_are_seen_alone_and_in_part():
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 64, 3))
    assert not come_again(one, other)
    other[:14, 1] = one[:14, 1]
    assert come_again(one, other)
    coins = rng.integers(2, size=(64, 1)).astype(float)
    rare = np.zeros((64, 1))
    rare[3] = 1.0
    assert come_again(coins, coins) and not come_again(coins, 1 - coins) and not come_again(rare, rare)
    assert not come_again(np.zeros((64, 2)), np.zeros((64, 2)))


@pytest.mark.thorough
@pytest.mark.parametrize("values", [2, 3, 10, 1_000])
def test_independent_calls_never_come_again(values):
    """False alarm 1e-9 of each."""
    rng = np.random.default_rng(values)
    for _ in range(2_000):
        assert not come_again(*(rng.integers(values, size=(2, 64, 2)) * 1.0))
