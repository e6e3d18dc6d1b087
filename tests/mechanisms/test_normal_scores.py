"""Scores, areas and draws of normal laws. Each statistical test errs with probability below 1e-5."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pm_dpgmm.mechanisms.normal_scores import (
    LARGEST,
    Arrangement,
    CountRanges,
    arrangement,
    drawn,
    on_grid,
    row_cells,
    strip_volumes,
)
from tests.builders.examples import examples

FALSE_ALARM = 1e-5
lengths = st.floats(1e-6, 1e6)


def by_boundary(a0, a1, b0, b1, m0, m1):
    """Integral of dm/s around the cell, counterclockwise: dm/s has the area form as its differential."""

    def part(fixed, low, high, sign):
        return sign * math.log(abs(fixed - low) / abs(fixed - high)) if high > low else 0.0

    total = 0.0
    for b, sign in ((b0, 1), (b1, -1)):
        total += part(b, max(a0, 2 * m0 - b), min(a1, 2 * m1 - b), sign)
    for a, sign in ((a1, 1), (a0, -1)):
        low, high = max(b0, 2 * m0 - a), min(b1, 2 * m1 - a)
        total += part(a, low, high, -sign)
    return total


@given(lengths, lengths, lengths, st.floats(0, 1), st.floats(0, 1))
def test_areas_are_those_of_the_boundary(first, gap, second, u, v):
    a0, a1, b0, b1 = np.cumsum([0.0, first, gap, second])
    low, high = (a0 + b0) / 2, (a1 + b1) / 2
    m0, m1 = sorted(low + (high - low) * share for share in (u, v))
    found = float(strip_volumes(a0, a1, b0, b1, m0, m1))
    assert found >= 0
    # the boundary's logarithms cancel; theirs is the error, up to 1e-12 of the largest
    size = 1 + abs(math.log(gap)) + math.log(first + gap + second) + 30
    assert found == pytest.approx(by_boundary(a0, a1, b0, b1, m0, m1), rel=1e-8, abs=1e-11 * size)


@given(lengths, lengths, lengths, st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_areas_add_up(first, gap, second, cuts):
    a0, a1, b0, b1 = np.cumsum([0.0, first, gap, second])
    ends = (a0 + b0) / 2 + np.sort([0.0, *cuts, 1.0]) * (a1 + b1 - a0 - b0) / 2
    parts = strip_volumes(a0, a1, b0, b1, ends[:-1], ends[1:])
    whole = 2 * math.log1p((a1 - a0) / (b0 - a1) * ((b1 - b0) / (b1 - a0)))
    assert parts.sum() == pytest.approx(whole, rel=1e-9)


def brute(records, ranges, limit):
    """Volumes by score over all triples of gaps, each area from its boundary."""
    x = np.sort(records)
    n = len(x)
    totals = np.zeros(limit + 1)
    for i, k, j in itertools.combinations(range(1, n), 3):
        score = int(ranges.scores([i, k - i, j - k, n - j]))
        if score <= limit:
            a0, a1, b0, b1 = x[i - 1], x[i], x[j - 1], x[j]
            m0, m1 = max(x[k - 1], (a0 + b0) / 2), min(x[k], (a1 + b1) / 2)
            if m1 > m0:
                totals[score] += by_boundary(a0, a1, b0, b1, m0, m1)
    return np.cumsum(totals)


@pytest.mark.parametrize("n, limit", [(20, 2), (33, 4)])
def test_volumes_are_those_of_all_cells(n, limit):
    rng = np.random.default_rng(n)
    for records in (rng.normal(size=n), rng.standard_cauchy(n), np.round(rng.normal(size=n), 1)):
        found = arrangement(records, CountRanges.of(n), limit=limit)
        np.testing.assert_allclose(found.volumes, brute(records, CountRanges.of(n), limit), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale, shift", [(2.0**-40, 0.0), (2.0**60, 0.0), (1.0, 2.0**20), (-1.0, 0.0)])
def test_volumes_do_not_depend_on_unit_and_origin(scale, shift):
    records = np.round(np.random.default_rng(1).normal(size=201) * 2**20) / 2**20
    first, second = (arrangement(x, CountRanges.of(201), limit=10).volumes for x in (records, scale * records + shift))
    tolerance = 0.2 if scale < 0 else 1e-9  # mirrored, a record on a boundary changes sides
    np.testing.assert_allclose(second, first, rtol=tolerance)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20, max_size=30),
    st.integers(0, 29),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_volumes_of_hostile_records_are_finite_and_shift_by_one(records, place, new):
    ranges = CountRanges.of(len(records))
    other = [*records]
    other[place % len(records)] = new
    limit = ranges.n_finite - 1
    first, second = (arrangement(x, ranges, limit=limit).volumes for x in (records, other))
    assert np.isfinite(first).all() and (np.diff(first) >= 0).all()
    assert (second[:-1] <= first[1:] * (1 + 1e-9)).all() and (first[:-1] <= second[1:] * (1 + 1e-9)).all()


def test_a_replaced_record_moves_a_score_by_at_most_one():
    ranges = CountRanges.of(12)
    counts = np.array([c for c in itertools.product(range(13), repeat=4) if sum(c) == 12])
    scores = ranges.scores(counts)
    for i, j in itertools.permutations(range(4), 2):
        from_i = counts[counts[:, i] > 0]
        moved = from_i - np.eye(4, dtype=int)[i] + np.eye(4, dtype=int)[j]
        assert np.abs(ranges.scores(moved) - ranges.scores(from_i)).max() <= 1
    assert scores.min() == 0


def test_the_ranges_hold_what_a_normal_law_expects():
    for n in (1, 7, 100, 12345):
        ranges = CountRanges.of(n)
        shares = np.diff(stats.norm.cdf([-np.inf, -1, 0, 1, np.inf])) * n
        assert (np.array(ranges.low) <= shares).all() and (np.array(ranges.high) >= shares).all()
        assert sum(ranges.low) <= n <= sum(ranges.high)


def test_a_limit_at_which_volumes_may_be_infinite_is_refused():
    with pytest.raises(ValueError, match="limit must be at most 14, got 15"):
        arrangement(np.arange(100.0), CountRanges.of(100), limit=15)


def score_of(records, mean, deviation):
    upto = [(records <= end).sum() for end in (mean - deviation, mean, mean + deviation)]
    return int(CountRanges.of(len(records)).scores(np.diff(upto, prepend=0, append=len(records))))


@pytest.mark.parametrize("seeded", [True, False], ids=["simulation", "release"])
def test_draws_have_their_law(seeded):
    """Scores by chi-square; below the middle record by a binomial, whose share is a sum of areas."""
    records = np.random.default_rng(3).normal(size=101)
    found = arrangement(records, CountRanges.of(101), limit=8)
    weights = np.exp(-0.4 * np.arange(9))
    rng = np.random.default_rng(4) if seeded else None
    laws = [drawn(found, weights, rng=rng) for _ in range(800)]
    masses = found.by_row.sum(axis=0) * weights
    seen = np.bincount([score_of(records, *law) for law in laws], minlength=9)
    expected = masses / masses.sum() * len(laws)
    keep = expected > 5
    assert stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue > FALSE_ALARM
    below = 0.0
    for row in range(100):
        cells = row_cells(found.records, row + 1, found.ranges, limit=8)
        below += (cells.volumes * weights[cells.scores] * (cells.m1 <= 0)).sum()
    hits = sum(mean < found.centre for mean, _ in laws)
    assert stats.binomtest(hits, len(laws), below / masses.sum()).pvalue > FALSE_ALARM


def test_a_draw_within_one_cell_is_uniform_in_area():
    """Means by Kolmogorov and Smirnov against the areas to their left, 1/s between its ends likewise."""
    x = np.array([-2.0, -1.0, 0.0, 0.7, 2.0])
    ranges = CountRanges((1, 1, 1, 1), (2, 2, 2, 2))
    cells = row_cells(x, 1, ranges, limit=0)
    by_row = np.zeros((4, 1))
    by_row[0] = cells.volumes.sum()
    found = Arrangement(x, 0.0, ranges, by_row)
    rng = np.random.default_rng(5)
    laws = [drawn(found, np.ones(1), rng=rng) for _ in range(400)]
    shares, ups = [], []
    for mean, deviation in laws:
        cut = strip_volumes(cells.a0, cells.a1, cells.b0, cells.b1, cells.m0, np.clip(mean, cells.m0, cells.m1))
        before = cells.m1 <= mean
        shares.append((cut * ~before + cells.volumes * before).sum() / cells.volumes.sum())
        k = int(np.argmax((cells.b0 <= mean + deviation) & (mean + deviation <= cells.b1)))
        low = max(mean - cells.a1, cells.b0[k] - mean)
        high = min(mean - cells.a0, cells.b1[k] - mean)
        ups.append((1 / deviation - 1 / high) / (1 / low - 1 / high))
    order = np.sort(cells.b0)
    if len(np.unique(order)) == 1:  # one gap for m + s, so that strips do not overlap
        assert stats.kstest(shares, "uniform").pvalue > FALSE_ALARM
    assert stats.kstest(np.clip(ups, 0, 1), "uniform").pvalue > FALSE_ALARM


@given(st.floats(-1e30, 1e30), st.floats(1e-20, 1e20))
@settings(max_examples=examples(60))
def test_what_leaves_is_on_a_grid_of_its_own(mean, deviation):
    once = on_grid(mean, deviation)
    grid = 2.0 ** (math.frexp(once[1])[1] - 21)
    assert once[0] % grid == 0 and once[1] % grid == 0
    assert abs(once[0] - mean) <= 2e-6 * deviation + 1e-15 * abs(mean)
    assert abs(once[1] - deviation) <= 2e-6 * deviation


def test_records_beyond_the_largest_are_moved_there():
    records = np.linspace(-1, 1, 101)
    far = records.copy()
    far[-3:] = 1e308
    found = arrangement(far, CountRanges.of(101), limit=5)
    assert found.records[-1] == LARGEST and np.isfinite(found.volumes).all()
