"""Scores, areas and draws of normal laws. Each statistical test errs with probability below 1e-5."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from pm_dpgmm.mechanisms.normal_scores import (
    Arrangement,
    CountRanges,
    arrangement,
    drawn,
    in_cell,
    in_steps,
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
    x = np.sort(in_steps(records))
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


@pytest.mark.parametrize(
    "scale, shift, unit", [(2.0**-40, 0.0, 2.0**-40), (2.0**60, 0.0, 2.0**60), (1.0, 2.0**20, 1.0), (-1.0, 0.0, 1.0)]
)
def test_volumes_follow_the_unit_and_do_not_depend_on_the_origin(scale, shift, unit):
    records = np.round(np.random.default_rng(1).normal(size=201) * 2**20) / 2**20
    ranges = CountRanges.of(201)
    first = arrangement(records, ranges, limit=10).volumes
    second = arrangement(scale * records + shift, ranges, limit=10, unit=unit).volumes
    if scale < 0:  # mirrored, a record on a boundary changes sides
        np.testing.assert_allclose(second, first, rtol=0.2)
    else:
        assert (second == first).all()


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20, max_size=30),
    st.integers(0, 29),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-300, 300),
)
def test_volumes_of_hostile_records_are_finite_and_shift_by_one(records, place, new, power):
    ranges = CountRanges.of(len(records))
    other = [*records]
    other[place % len(records)] = new
    limit = ranges.n_finite - 1
    first, second = (arrangement(x, ranges, limit=limit, unit=2.0**power).volumes for x in (records, other))
    assert np.isfinite(first).all() and (np.diff(first) >= 0).all()
    assert (second[:-1] <= first[1:] * (1 + 1e-12)).all() and (first[:-1] <= second[1:] * (1 + 1e-12)).all()


def exactly(records, ranges, limit):
    """As ``brute``, with rational numbers and logarithms of 70 digits, in steps."""
    x = [Fraction(float(number)) for number in np.sort(in_steps(records))]
    n = len(x)
    with localcontext() as context:
        context.prec = 70
        totals = [Decimal(0)] * (limit + 1)
        for i, k, j in itertools.combinations(range(1, n), 3):
            score = int(ranges.scores([i, k - i, j - k, n - j]))
            a0, a1, b0, b1 = x[i - 1], x[i], x[j - 1], x[j]
            m0, m1 = max(x[k - 1], (a0 + b0) / 2), min(x[k], (a1 + b1) / 2)
            if score > limit or not (m0 < m1 and a0 < a1 and b0 < b1):
                continue
            turns = sorted(min(max(turn, m0), m1) for turn in ((a1 + b0) / 2, (a0 + b1) / 2))
            for low, high in itertools.pairwise([m0, *turns, m1]):
                if low < high:  # the integral of 1/lower - 1/upper, each of them a line of slope 1 or -1
                    m = (low + high) / 2
                    falls, grows = b0 - m > m - a1, m - a0 < b1 - m
                    lower = (b0 - low) / (b0 - high) if falls else (high - a1) / (low - a1)
                    upper = (high - a0) / (low - a0) if grows else (b1 - low) / (b1 - high)
                    ratio = lower / upper
                    totals[score] += (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
        return [float(total) for total in itertools.accumulate(totals)]


def far_and_near(case, n):
    """Records in steps: neighbouring places at both ends of what is kept and around 0, and gaps of every size."""
    rng = np.random.default_rng(case)
    end = 2.0**48
    if case == 0:
        return np.concatenate([-end + np.arange(n // 3), np.arange(n // 3), end - np.arange(n - 2 * (n // 3))])
    if case == 1:
        return np.sort(rng.choice([-1, 1], n) * 2.0 ** rng.integers(0, 49, n))
    if case == 2:
        return end - np.cumsum(2.0 ** rng.integers(0, 44, n))
    return np.concatenate([np.arange(n // 2), 2.0**40 + np.arange(n - n // 2) * 2.0**10])


@pytest.mark.parametrize("case", range(4))
def test_volumes_are_right_to_their_last_digits_wherever_the_records_lie(case):
    n, limit = 26, 3
    ranges, records = CountRanges.of(n), far_and_near(case, n) / 2**24
    found = arrangement(records, ranges, limit=limit)
    assert (found.records == np.sort(records) * 2**24).all()
    assert found.volumes[-1] > 0
    np.testing.assert_allclose(found.volumes, exactly(records, ranges, limit), rtol=1e-14, atol=0)


def test_every_record_is_rounded_by_itself_to_steps_of_the_unit():
    records = np.array([0.0, 1.0, -1e308, 3e8, 2.0**-26, 1 + 2.0**-24, 5e-324])
    assert (in_steps(records) == [0, 2**24, -(2**48), 2**48, 0, 2**24 + 1, 0]).all()
    assert (in_steps(records, 1e-100)[1:4] == [2**48, -(2**48), 2**48]).all()
    assert (in_steps(records, 1e100)[[0, 1, 3]] == 0).all()


@pytest.mark.parametrize("unit", [1e-101, 1e101])
def test_units_whose_squares_are_no_floats_are_refused(unit):
    with pytest.raises(ValueError, match="unit must be between 1e-100 and 1e\\+100, got"):
        arrangement(np.arange(100.0), CountRanges.of(100), limit=5, unit=unit)


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
    found = arrangement(np.random.default_rng(3).normal(size=101), CountRanges.of(101), limit=8)
    records, centre = found.records * found.step, found.records[50]
    weights = np.exp(-0.4 * np.arange(9))
    rng = np.random.default_rng(4) if seeded else None
    laws = [drawn(found, np.log(weights), rng=rng) for _ in range(800)]
    masses = found.by_row.sum(axis=0) * weights
    seen = np.bincount([score_of(records, *law) for law in laws], minlength=9)
    expected = masses / masses.sum() * len(laws)
    keep = expected > 5
    assert stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue > FALSE_ALARM
    below = 0.0
    for row in range(100):
        cells = row_cells(found.records, row + 1, found.ranges, limit=8)
        below += (cells.volumes * weights[cells.scores] * (cells.m1 <= centre)).sum()
    hits = sum(mean < centre * found.step for mean, _ in laws)
    assert stats.binomtest(hits, len(laws), below / masses.sum()).pvalue > FALSE_ALARM


def test_a_draw_within_one_cell_is_uniform_in_area():
    """Means by Kolmogorov and Smirnov against the areas to their left, 1/s between its ends likewise."""
    x = np.array([-2.0, -1.0, 0.0, 0.75, 2.0])
    ranges = CountRanges((1, 1, 1, 1), (2, 2, 2, 2))
    cells = row_cells(x, 1, ranges, limit=0)
    by_row = np.zeros((4, 1))
    by_row[0] = cells.volumes.sum()
    found = Arrangement(x, 1.0, ranges, by_row)
    rng = np.random.default_rng(5)
    laws = [drawn(found, np.zeros(1), rng=rng) for _ in range(400)]
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


@pytest.mark.parametrize(
    "cell", [(0, 1, 2, 3, 1, 2), (0, 1, 2**30, 2**30 + 1, 2**29, 2**29 + 1), (0, 90, 93, 99, 91, 93)]
)
def test_places_in_a_cell_far_out_have_their_law(cell):
    """Kolmogorov and Smirnov for m and for 1/s; the cells are as far from 0 as records may lie."""
    rng, far = np.random.default_rng(6), 2**48 - 2**31
    a0, a1, b0, b1, m0, m1 = cell
    shares, ups = [], []
    for _ in range(400):
        mean, deviation = in_cell(*(float(far + end) for end in cell), rng=rng)
        m = mean - far
        low, high = max(m - a1, b0 - m), min(m - a0, b1 - m)
        assert m0 <= m <= m1 and low <= deviation <= high
        shares.append(float(strip_volumes(a0, a1, b0, b1, m0, float(m)) / strip_volumes(*cell)))
        ups.append(float((1 / deviation - 1 / high) / (1 / low - 1 / high)))
    assert stats.kstest(shares, "uniform").pvalue > FALSE_ALARM
    assert stats.kstest(ups, "uniform").pvalue > FALSE_ALARM


def test_weights_too_small_for_floats_are_drawn_with_their_ratios():
    """All records at five places: scores 249 and 259 alone, where exp(-3 t) is 0; the second is rarer by e^-30."""
    records = np.repeat([-1.5, -1.0, -0.5, 0.5, 1.5], [440, 10, 550, 555, 445])
    found = arrangement(records, CountRanges.of(2000), limit=300)
    assert np.flatnonzero(found.by_row.any(axis=0)).tolist() == [249, 259] and math.exp(-3.0 * 249) == 0
    for seed in range(20):
        law = drawn(found, -3.0 * np.arange(301), rng=np.random.default_rng(seed))
        upto = [(records <= law[0] + place * law[1]).sum() for place in (-1, 0, 1)]
        assert upto == [440, 1000, 1555]


@given(st.fractions(-(10**30), 10**30), st.fractions(Fraction(1, 10**20), 10**20))
@settings(max_examples=examples(60))
def test_what_leaves_is_on_a_grid_of_its_own(mean, deviation):
    once = on_grid(mean, deviation)
    grid = 2.0 ** (math.frexp(once[1])[1] - 21)
    assert once[0] % grid == 0 and once[1] % grid == 0
    assert abs(once[0] - float(mean)) <= 2e-6 * deviation + 1e-15 * abs(float(mean))
    assert abs(once[1] - float(deviation)) <= 2e-6 * deviation


def test_records_beyond_the_largest_are_moved_there():
    records = np.linspace(-1, 1, 101)
    far = records.copy()
    far[-3:] = 1e308
    found = arrangement(far, CountRanges.of(101), limit=5)
    assert found.records[-1] == 2**48 and np.isfinite(found.volumes).all()
