"""Counts of gaps: what one record moves, for hostile records too, and the noise that hides it."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.gap_histogram import MOVED, gap_counts, gap_noise, noisy_gap_counts
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring
from tests.builders.examples import examples

HOSTILE = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 1e308, -1e308, 5e-324, 2.0**-1074 * 3, 1e9, 1e9 + 2.0**-20])
RECORDS = st.lists(
    HOSTILE | st.integers(-9, 9).map(float) | st.floats(allow_nan=False, allow_infinity=False), max_size=9
)
BITS = st.sampled_from([0, 1, 13, 40])
ONE = Neighbouring.REPLACE_ONE
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "neighbouring": ONE}


def cells(records, cell_bits):
    found = gap_counts(np.array(records, dtype=float), cell_bits=cell_bits)
    return Counter(dict(zip(zip(found.exponents, found.places, strict=True), found.counts, strict=True)))


def moved(before, after):
    lost, gained = before - after, after - before
    return sum(lost.values()), sum(gained.values())


@given(records=RECORDS, old=st.data(), new=HOSTILE | st.floats(-20, 20), cell_bits=BITS)
@settings(deadline=None, max_examples=examples(300))
def test_one_record_moves_at_most_three_pairs_out_and_three_in(records, old, new, cell_bits):
    other = list(records)
    if other:
        other[old.draw(st.integers(0, len(other) - 1))] = new
    lost, gained = moved(cells(records, cell_bits), cells(other, cell_bits))
    assert lost <= MOVED[ONE][0] and gained <= MOVED[ONE][1]


@given(records=RECORDS, new=HOSTILE | st.floats(-20, 20), cell_bits=BITS)
@settings(deadline=None, max_examples=examples(300))
def test_one_more_record_moves_one_pair_out_and_two_in(records, new, cell_bits):
    lost, gained = moved(cells(records, cell_bits), cells([*records, new], cell_bits))
    assert lost <= 1 and gained <= 2


def test_the_most_is_attained():
    assert moved(cells([0, 1, 2, 6], 16), cells([0, 2, 4, 6], 16)) == (3, 3)


def test_cells_hold_their_gaps_exactly():
    found = gap_counts([1e9, 1e9 + 0.25, 1e9 + 0.625, -3.0], cell_bits=3)
    assert found.exponents.tolist() == [-2, 29] and found.counts.tolist() == [2, 1]
    assert (found.lows <= [1e9, -3.0]).all() and (found.lows + found.widths > [1e9, -3.0]).all()


@pytest.mark.parametrize("relation, pairs", [(ONE, (3, 3)), (Neighbouring.ADD_REMOVE, (2, 1))])
@pytest.mark.parametrize("epsilon, delta", [(1.0, 1e-6), (0.1, 1e-9), (5.0, 0.1)])
def test_the_bound_is_the_least_that_keeps_delta(relation, pairs, epsilon, delta):
    noise = gap_noise(epsilon=epsilon, delta=delta, neighbouring=relation)
    assert sum(pairs) / noise.scale <= epsilon

    def ends(bound):
        return sum(TruncatedLaplaceProfile(noise.scale, bound, j).delta(math.inf) for j in pairs)

    assert ends(noise.bound) <= delta and (noise.bound == max(pairs) or ends(noise.bound - 1) > delta * (1 - 1e-9))


def test_no_cell_without_a_gap_is_ever_released_and_none_below_the_end_of_the_noise():
    rng = np.random.default_rng(1)
    records = np.concatenate([rng.normal(1e6, 1e-2, 800), rng.normal(-3.0, 1e3, 800), np.arange(5.0)])
    exact = cells(records, 13)
    for _ in range(20):
        found, noise = noisy_gap_counts(records, cell_bits=13, rng=rng, **BUDGET)
        assert (found.counts > noise.bound).all() and len(found.counts) >= 2
        for key in zip(found.exponents, found.places, strict=True):
            assert exact[key] > 0
    none, _ = noisy_gap_counts(np.arange(30.0), cell_bits=13, **BUDGET)
    assert len(none.counts) == 0
    empty, _ = noisy_gap_counts(np.zeros(0), cell_bits=13, **BUDGET)
    assert len(empty.counts) == 0


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"epsilon": 0.0}, "epsilon must be finite and greater than 0"),
        ({"epsilon": 1e-10}, "epsilon must be at least 1e-09"),
        ({"epsilon": 1e14}, "epsilon must be at most"),
        ({"delta": 0.0}, "delta must"),
        ({"cell_bits": 41}, "cell_bits must be"),
    ],
)
def test_bad_arguments_are_named(changed, words):
    with pytest.raises(ValueError, match=words):
        noisy_gap_counts([0.0, 1.0], **({"cell_bits": 13} | BUDGET | changed))


@pytest.mark.parametrize("records", [np.zeros((6, 2)), np.zeros((6, 1)), 1.0])
def test_tables_are_refused_whose_numbers_would_each_be_a_record(records):
    with pytest.raises(ValueError, match=r"records must have shape \(N,\), got"):
        noisy_gap_counts(records, cell_bits=13, **BUDGET)
