"""The released normal law: its certificate, its exact privacy loss, its answers. No test here is random but by seed."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.normal_scores import CountRanges, arrangement, in_steps, row_cells
from pm_dpgmm.mechanisms.robust_normal import ROUNDING, certified_draw, robust_design, robust_normal
from verification.references.references import hockey_stick

EPSILON, DELTA = 4.0, 0.05


def quantiles(n):
    return stats.norm.ppf((np.arange(n) + 0.5) / n)


def contaminated(n, m):
    """Quantiles of a normal law, ``m`` of them far out."""
    records = quantiles(n)
    records[np.linspace(0, n - 1, m).astype(int)] = 1e4 * (1 + np.arange(m))
    return records


def fewest(epsilon, delta):
    for n in range(20, 5000, 10):
        try:
            return n, robust_design(n, epsilon, delta)
        except ValueError:
            continue
    raise AssertionError("no number of records is enough")


def scores_at(records, means, deviations):
    ends = np.stack([means - deviations, means, means + deviations], axis=1)
    upto = np.searchsorted(np.sort(records), ends, side="right")
    return CountRanges.of(len(records)).scores(np.diff(upto, prepend=0, append=len(records), axis=1))


def exact_delta(records, other, design):
    """Hockey-stick divergence of test and draw, both ways, over the cells of both data sets together."""
    records, other = in_steps(records), in_steps(other)
    both = np.sort(np.union1d(records, other))
    everything = CountRanges((0, 0, 0, 0), (len(both),) * 4)
    laws = []
    places, areas = [], []
    for below in range(1, len(both)):
        cells = row_cells(both, below, everything, limit=0)
        middle = (cells.m0 + cells.m1) / 2
        low = np.maximum(middle - cells.a1, cells.b0 - middle)
        high = np.minimum(middle - cells.a0, cells.b1 - middle)
        places.append(np.column_stack([middle, (low + high) / 2]))
        areas.append(cells.volumes)
    place, area = np.concatenate(places), np.concatenate(areas)
    for data in (records, other):
        scores = scores_at(data, *place.T)
        weights = np.append(np.exp(design.log_weights), 0.0)[np.minimum(scores, design.reach + 1)]
        volumes = np.array([area[scores <= t].sum() for t in range(design.limit + 1)])
        coin = design.table.probability(design.level(volumes))
        masses = area * weights
        laws.append(np.append(coin * masses / max(masses.sum(), 1e-300), 1 - coin))
    return max(float(hockey_stick(*pair, design.table.epsilon)) for pair in (laws, laws[::-1]))


@pytest.mark.thorough
def test_the_exact_loss_of_neighbours_is_within_the_budget():
    """Records far out, in the middle, at the border: levels from 0 to the top of the table."""
    n = 200
    design = robust_design(n, EPSILON, DELTA)
    seen, largest = set(), 0.0
    for m in range(0, 40, 2):
        records = contaminated(n, m)
        for place, new in ((n // 2, 3e6), (n // 2, 0.3))[: 1 + (m % 6 == 0)]:
            other = records.copy()
            other[place] = new
            largest = max(largest, exact_delta(records, other, design))
        found = arrangement(records, CountRanges.of(n), limit=design.limit)
        seen.add(design.level(found.volumes))
    assert largest <= DELTA * (1 + 1e-9)
    assert largest >= DELTA / 100  # something is spent, so the pairs are not all far from the limit
    assert 0 in seen and len(seen) >= 4


def test_the_areas_over_both_data_sets_are_those_of_one():
    records = contaminated(60, 0)
    other = records.copy()
    other[5] = 0.111
    direct = arrangement(records, CountRanges.of(60), limit=6).volumes
    records, other = in_steps(records), in_steps(other)
    both = np.sort(np.union1d(records, other))
    total = np.zeros(7)
    for below in range(1, len(both)):
        cells = row_cells(both, below, CountRanges((0,) * 4, (len(both),) * 4), limit=0)
        middle = (cells.m0 + cells.m1) / 2
        low = np.maximum(middle - cells.a1, cells.b0 - middle)
        high = np.minimum(middle - cells.a0, cells.b1 - middle)
        scores = scores_at(records, middle, (low + high) / 2)
        total += [cells.volumes[scores <= t].sum() for t in range(7)]
    np.testing.assert_allclose(total, direct, rtol=1e-9)


def test_the_level_of_neighbours_differs_by_at_most_one():
    n, design = fewest(EPSILON, DELTA)
    rng = np.random.default_rng(1)
    for _ in range(40):
        records = contaminated(n, int(rng.integers(0, 12))) + rng.normal(scale=0.2, size=n)
        other = records.copy()
        other[rng.integers(n)] = rng.choice([1e9, -1e6, rng.normal(), records[3]])
        levels = [design.level(arrangement(x, CountRanges.of(n), limit=design.limit).volumes) for x in (records, other)]
        assert abs(levels[0] - levels[1]) <= 1


def of_two_sizes(first, second, far):
    """A thousand records at 0 and a thousand at ``far``, with these gaps; then the last of them moves to 0."""
    places = np.arange(1000)
    records = np.concatenate([places * first, far + places * second])
    return records, np.append(records[:-1], 1000 * first)


def at_five_places(middle):
    places = [-1.7, -0.3, 0.4, 1.9, 1.9184177560255]
    return np.repeat(places, np.diff([0, 318, middle, 1533, 1683, 2000]))


@pytest.mark.parametrize(
    "pair",
    [
        of_two_sizes(2.0**-70, 2.0**-40, 1.0),
        of_two_sizes(1e-9, 1e-3, 1e9),
        (at_five_places(1000), at_five_places(1001)),
        of_two_sizes(2.0**-24, 2.0**-20, 2.0**23),
    ],
    ids=["gaps below the rounding of the others", "a centre far away", "equal ratios of volumes", "gaps of a step"],
)
@pytest.mark.parametrize("unit", [2.0**-60, 2.0**-30, 1.0, 100.0])
def test_the_level_does_not_jump_where_floats_round(pair, unit):
    """Neighbours of which one was always refused and the other always released, by rounding alone."""
    design = robust_design(2000, 1.0, 1e-6)
    volumes = [arrangement(x, CountRanges.of(2000), limit=design.limit, unit=unit).volumes for x in pair]
    levels = [design.level(part) for part in volumes]
    assert abs(levels[0] - levels[1]) <= 1
    if unit == 1.0 and pair[0][1] == 2.0**-24:
        assert min(levels) > 100  # every gap counts, so half of the records could be replaced


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.floats(-0.2, 0.2))
def test_errors_of_volumes_below_the_allowance_move_the_level_by_no_more_than_one(seed, steps, distance):
    """Volumes V, V' with V'_(t-1) <= V_t <= V'_(t+1), nearly flat about the threshold, each with its own errors."""
    design, rng = robust_design(1500, 1.0, 1e-6), np.random.default_rng(seed)
    allowed = design.excess * math.exp(design.exponent * (design.reach - design.core) / 2)
    volumes = np.ones(design.limit + 2)
    volumes[design.reach + 1 :] = allowed * (1 - ROUNDING) ** (1 + steps) * (1 + distance * ROUNDING)
    volumes *= np.cumprod(1 + 1e-7 * rng.integers(0, 2, len(volumes)) * rng.integers(0, 4))
    lower, upper = np.append(0.0, volumes[:-2]), volumes[1:]
    other = np.maximum.accumulate(np.where(rng.random(len(upper)) < rng.random(), lower, upper))
    levels = [
        design.level(v[: design.limit + 1] * (1 + 0.1 * ROUNDING * rng.uniform(-1, 1, design.limit + 1)))
        for v in (volumes, other)
    ]
    assert abs(levels[0] - levels[1]) <= 1


@pytest.mark.thorough
def test_a_law_is_drawn_where_all_weights_would_be_zero_as_floats():
    """Four places with scores from 38 on, and a design whose weights from 249 on are below the smallest float."""
    design = robust_design(20_000, 10.0, 1e-3)
    for counts in ((3423, 6577, 6826, 3174), (3422, 6578, 6826, 3174)):
        found = arrangement(np.repeat([-1.5, -0.5, 0.5, 1.5], counts), CountRanges.of(20_000), limit=design.limit)
        law = certified_draw(found, design, rng=np.random.default_rng(1))
        assert law is None or np.isfinite(law).all()
        assert design.level(found.volumes) > 0


def test_the_level_is_the_largest_that_the_definition_allows():
    """0 without volume; every step outwards is asked in turn."""
    design = robust_design(1500, 1.0, 1e-6)
    flat = np.ones(design.limit + 1)
    assert design.level(flat) == design.core + 1
    none = np.zeros(design.limit + 1)
    assert design.level(none) == 0
    allowed = design.excess * math.exp(design.exponent * (design.reach - design.core) / 2)
    for steps in (0, 1, 5):
        steep = np.ones(design.limit + 1)
        steep[design.reach + 1 + steps :] = 1.01 * allowed
        assert design.level(steep) == steps
        empty = np.ones(design.limit + 1)
        empty[: design.core - steps + 1] = 0.0
        assert design.level(empty) == steps


@pytest.mark.thorough(quick=["1200-9"])
@pytest.mark.parametrize("n, least", [(1200, 9), (2000, 10)])
def test_it_answers_at_epsilon_one(n, least):
    """With 1,200 and 2,000 records of a normal law at (1, 1e-6): of 10, and close to the truth."""
    rng = np.random.default_rng(n)
    answers = 0
    for _ in range(10):
        try:
            found = robust_normal(rng.normal(5.0, 2.0, n), epsilon=1.0, delta=1e-6, random_seed=rng)
        except dpg.Unstable:
            continue
        answers += 1
        assert abs(found.mean - 5) < 0.5 and abs(math.log(found.standard_deviation / 2)) < 0.25
    assert answers >= least


def test_a_release_says_what_it_is():
    with pytest.warns(dpg.WeakGuarantee):
        found = dpg.robust_normal(quantiles(400)[:, None], epsilon=10.0, delta=1e-2)
    assert found.guarantee.private and found.guarantee.neighbouring == "replace-one"
    assert found.guarantee.curve(10.0) <= 1e-2
    assert found.mixture.means[0, 0] == found.mean
    assert found.mixture.covariances[0, 0, 0] == found.standard_deviation**2
    seeded = dpg.robust_normal(quantiles(1500), epsilon=1.0, delta=1e-6, random_seed=1)
    assert not seeded.guarantee.private
    assert seeded == dpg.robust_normal(quantiles(1500), epsilon=1.0, delta=1e-6, random_seed=1)


@pytest.mark.thorough(quick=["1e-100"])
@pytest.mark.parametrize("unit", [1e-100, 1e-5, 2e3, 1e100])
def test_a_release_follows_the_unit(unit):
    records = quantiles(1500)
    expected = robust_normal(records, epsilon=1.0, delta=1e-6, random_seed=1)
    found = robust_normal(records * unit, epsilon=1.0, delta=1e-6, unit=unit, random_seed=1)
    assert found.unit == unit
    assert found.mean == pytest.approx(expected.mean * unit, rel=1e-4)
    assert found.standard_deviation == pytest.approx(expected.standard_deviation * unit, rel=1e-4)
    assert np.isfinite(found.mixture.covariances).all() and (found.mixture.covariances > 0).all()


def test_equal_records_are_refused_and_cost_the_budget(tmp_path):
    ledger = dpg.Ledger(tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-6)
    records = np.append(quantiles(300), np.zeros(1200))  # no normal law has so many records at one place
    with pytest.raises(dpg.Unstable, match="no normal law") as refusal:
        dpg.robust_normal(records, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert refusal.value.guarantee.epsilon == 1.0 and ledger.spent == (1.0, 1e-6)
    with pytest.raises(dpg.BudgetExceeded):
        dpg.robust_normal(records, epsilon=1.0, delta=1e-6, ledger=ledger)


@pytest.mark.parametrize(
    "changed, error, words",
    [
        ({"epsilon": 0}, ValueError, "epsilon must be finite and greater than 0, got 0"),
        ({"epsilon": 11.0}, ValueError, "epsilon must be at most 10, got 11"),
        ({"epsilon": 1e-6}, ValueError, "X must have more rows"),
        ({"delta": 0.0}, ValueError, "delta must be greater than 0"),
        ({"delta": 1e-9}, ValueError, "delta must be above"),
        ({"X": np.ones((5, 2)) * [[1], [2], [3], [4], [5]]}, ValueError, "X must have one column, got 2"),
        ({"X": quantiles(100)}, ValueError, "X must have more rows"),
        ({"X": np.arange(20_001)}, ValueError, "X must have at most 20000 rows, got 20001"),
        ({"X": [1.0, math.nan]}, ValueError, "X must be finite"),
        ({"unit": 0.0}, ValueError, "unit must be finite and greater than 0, got 0"),
        ({"unit": 1e200}, ValueError, "unit must be between 1e-100 and 1e\\+100, got 1e\\+200"),
        ({"ledger": "file"}, TypeError, "ledger must be a Ledger or None, got str"),
        ({"random_seed": -1}, ValueError, "random_seed must be at least 0"),
    ],
)
def test_bad_arguments_are_refused(changed, error, words):
    with pytest.raises(error, match=words):
        dpg.robust_normal(**({"X": quantiles(1500), "epsilon": 1.0, "delta": 1e-6} | changed))


@pytest.mark.thorough
def test_refusals_and_answers_come_as_often_as_the_table_says():
    """A level in the middle of the table: a binomial at 1e-5."""
    n, _ = fewest(1.0, 1e-2)
    design = robust_design(n, 1.0, 1e-2)
    for m in range(60):
        found = arrangement(contaminated(n, m), CountRanges.of(n), limit=design.limit)
        probability = design.table.probability(design.level(found.volumes))
        if 0.1 < probability < 0.9:
            break
    rng = np.random.default_rng(1)
    hits = sum(certified_draw(found, design, rng=rng) is not None for _ in range(300))
    assert stats.binomtest(hits, 300, probability).pvalue > 1e-5
