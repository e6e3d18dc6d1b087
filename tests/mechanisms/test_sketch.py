"""The noisy sketch and the box stage: noise of the right size, records of any kind, budgets that are kept."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pm_dpgmm.mechanisms import box
from pm_dpgmm.mechanisms.box import EXPONENTS, location_threshold, noisy_box, noisy_cells
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.mechanisms.sketch_features import GRID, sketch_sums
from pm_dpgmm.privacy.guarantee import Neighbouring

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
BUDGET = GaussianFilter.of(1.0, 1e-6, failure=1e-7)
FRAMES = RieszProduct(np.random.default_rng(1).normal(size=(2, 4, 3)), np.zeros(3))
LADDER = FejerHarmonics(0.5, 16, 0.0)


# ------------------------------------------------------------------ sketch
@pytest.mark.parametrize("rng", [None, np.random.default_rng(4)], ids=["release", "simulation"])
@pytest.mark.parametrize("frequencies", [FRAMES, LADDER], ids=["riesz", "fejer"])
def test_noise_is_independent_normal_of_the_stated_scale(frequencies, rng):
    """Alarm 1e-6 for each of the two tests."""
    records = np.random.default_rng(1).normal(size=(50, frequencies.frequencies.shape[1]))
    exact = sketch_sums(records, frequencies) * GRID
    noise = []
    for _ in range(60):
        found, left = noisy_sketch(
            records, frequencies, budget=BUDGET, share=Fraction(1, 2), neighbouring=REPLACE, rng=rng
        )
        noise.append((found.values - exact) / found.noise_scale)
    assert found.n_records == 50 and found.n_records_scale == 0 and not found.values.flags.writeable
    assert left.spent <= BUDGET.limit / 2 and left.remaining_share == pytest.approx(0.5, abs=1e-6)
    smallest = math.sqrt(2 * frequencies.squared_sensitivity(REPLACE) / BUDGET.limit)
    assert found.noise_scale == pytest.approx(smallest, rel=1e-6)  # nothing wasted
    pooled = np.concatenate([part.ravel() for part in noise])
    assert stats.kstest(pooled, "norm").pvalue > 1e-6
    # products of neighbouring numbers have mean 0
    products = pooled[1:] * pooled[:-1]
    assert abs(products.mean()) < 4.9 * products.std() / math.sqrt(products.size)


def test_under_add_remove_the_number_of_records_is_one_more_number_with_noise():
    """Alarm 1e-6."""
    records = np.zeros((1_000, 3))
    counts = []
    for _ in range(200):
        found, _ = noisy_sketch(records, FRAMES, budget=BUDGET, share=Fraction(1), neighbouring=ADD_REMOVE)
        counts.append((found.n_records - 1_000) / found.n_records_scale)
    assert stats.kstest(counts, "norm").pvalue > 1e-6
    replace, _ = noisy_sketch(records, FRAMES, budget=BUDGET, share=Fraction(1), neighbouring=REPLACE)
    assert found.noise_scale == pytest.approx(replace.noise_scale / math.sqrt(2), rel=1e-6)
    assert found.n_records_scale == pytest.approx(found.noise_scale / math.sqrt(2), rel=1e-6)  # weight sqrt(F)


@pytest.mark.parametrize("frequencies", [FRAMES, LADDER], ids=["riesz", "fejer"])
def test_the_error_of_computed_features_is_paid_for(frequencies, monkeypatch):
    """A thousand steps of error in each of R features of both records ask for 2000 sqrt(R) steps more."""

    def scale():
        settings = {"budget": BUDGET, "share": Fraction(1), "neighbouring": REPLACE, "rng": np.random.default_rng(1)}
        columns = frequencies.frequencies.shape[1]
        return noisy_sketch(np.zeros((1, columns)), frequencies, **settings)[0].noise_scale / GRID

    due = scale()
    monkeypatch.setattr(type(frequencies), "feature_error", 1_000 * GRID)
    more = 2_000 * math.sqrt(2 * frequencies.n_frequencies) / math.sqrt(BUDGET.limit)
    assert more <= scale() - due < 1.3 * more


def test_a_budget_that_is_too_small_is_refused_before_a_record_is_read():
    def blocks():
        raise AssertionError("read")
        yield

    _, left = BUDGET.spend(2**40, share=Fraction(9, 10), n_numbers=1)
    with pytest.raises(ValueError, match="share"):
        noisy_sketch(blocks(), LADDER, budget=left, share=Fraction(1, 2), neighbouring=REPLACE)


def test_blocks_of_records_are_one_data_set():
    records = np.random.default_rng(3).normal(size=(500, 1))
    settings = {"budget": BUDGET, "share": Fraction(1), "neighbouring": REPLACE}
    whole, _ = noisy_sketch(records, LADDER, rng=np.random.default_rng(1), **settings)
    parts, _ = noisy_sketch(iter(np.array_split(records, 5)), LADDER, rng=np.random.default_rng(1), **settings)
    assert np.array_equal(whole.values, parts.values) and parts.n_records == 500


# ------------------------------------------------------------------ box
def find(records, *, rng=None, budget=BUDGET, neighbouring=REPLACE, share=Fraction(1, 10)):
    return noisy_box(records, budget=budget, share=share, neighbouring=neighbouring, rng=rng)


@pytest.mark.parametrize("offset, unit", [(0.0, 1.0), (1e9, 1.0), (-1e6, 1e-3), (3e12, 1e5), (1e-9, 1e-12)])
def test_intervals_hold_the_middle_of_the_records_at_any_offset_and_unit(offset, unit):
    records = offset + unit * np.random.default_rng(1).normal(size=(5_000, 2))
    found, left = find(records)
    assert found.found and left.remaining_share == pytest.approx(0.9, abs=1e-6)
    for column, values in zip(found.columns, records.T, strict=True):
        low, high = column.interval
        inside = np.mean((values >= low) & (values < high))
        assert inside > 0.8 and high - low < 16 * unit
        assert 0.25 * unit <= column.width <= 8 * unit


@pytest.mark.parametrize("values", [np.full(3_000, np.nan), np.full(3_000, np.inf), np.array([1.0, 2.0]), np.zeros(0)])
def test_columns_that_say_nothing_are_not_found(values):
    found, left = find(values[:, None])
    assert not found.found and math.isnan(found.columns[0].interval[0])
    assert left.spent > 0


def test_a_constant_column_is_refused():
    """No distance is counted, so no width stands out; noise alone does so in one column of 150. Alarm below 1e-6."""
    outcomes = [find(np.full((3_000, 1), 7.0), rng=np.random.default_rng(seed))[0] for seed in range(30)]
    refused = [found for found in outcomes if not found.found]
    assert len(refused) >= 25
    assert all(np.isnan(found.columns[0].width) and not found.columns[0].index.size for found in refused)


def test_records_that_are_not_finite_are_in_no_bin():
    records = np.random.default_rng(1).normal(size=(4_000, 1))
    records[::2] = [[np.nan], [np.inf], [-np.inf], [np.nan]] * 500
    found, _ = find(records)
    low, high = found.columns[0].interval
    assert -10 < low < high < 10


def test_the_box_needs_a_failure_probability():
    with pytest.raises(ValueError, match="failure must be greater than 0"):
        find(np.zeros((10, 1)), budget=GaussianFilter.of(1.0, 1e-6))


def test_a_lone_record_is_kept_as_rarely_as_promised():
    """10^6 draws at probability 1e-3; alarm 1e-6."""
    scale = 2**31
    threshold = location_threshold(scale, failure=2e-3, n_features=2)
    noise = np.rint(np.random.default_rng(1).normal(scale=scale, size=1_000_000))
    kept = int((box.GRID + noise > threshold).sum())
    assert stats.binom.cdf(kept, 1_000_000, 1e-3) > 5e-7 and stats.binom.sf(kept - 1, 1_000_000, 1e-3) > 5e-7
    # without the record's own count in the threshold it would be kept too often
    assert (box.GRID + noise > threshold - box.GRID).mean() > 1.2e-3


def test_one_record_moves_each_histogram_as_little_as_said():
    rng = np.random.default_rng(1)
    for n in (10, 11):
        for _ in range(200):
            records = rng.choice([0.0, 1.0, 5.0, 1e6, np.nan], size=(n, 2))
            other = records.copy()
            other[rng.integers(n)] = rng.choice([0.0, 3.0, 1e9, np.inf], size=2)
            order = rng.permutation(n)
            change = box.pair_distance_counts(records, order) - box.pair_distance_counts(other, order)
            assert (np.square(change).sum(axis=1) <= 2).all() and (np.abs(change.sum(axis=1)) <= 1).all()


def test_pairs_by_position_would_not_do_under_add_remove():
    """The planted fault: a sorted file without its first record pairs everyone anew."""
    records = np.cumsum(np.tile([1.0, 1_000.0], 500))[:, None]

    def by_position(rows):
        order = np.concatenate([np.arange(0, len(rows) - 1, 2), np.arange(1, len(rows), 2)])
        return box.pair_distance_counts(rows, order)

    change = by_position(records) - by_position(records[1:])
    assert np.square(change).sum() > 1_000


def test_the_scale_counts_cover_public_exponents_only():
    found, _ = find(np.random.default_rng(1).normal(size=(2_000, 1)) * 1e-200)
    assert found.scale_counts.shape == (1, EXPONENTS.size)
    assert found.scale_counts[0, 0] > 300  # tiny distances go to the first bin


@pytest.mark.parametrize("neighbouring, moved", [(REPLACE, 2), (ADD_REMOVE, 1)])
@pytest.mark.parametrize("n_features", [1, 3])
def test_the_noise_of_counts_is_what_their_sensitivity_asks_for(neighbouring, moved, n_features):
    share = Fraction(1, 10)
    found, _ = find(np.zeros((10, n_features)), neighbouring=neighbouring, share=share)
    limit = float(BUDGET.limit * share)
    assert found.scale_noise == pytest.approx(math.sqrt(2 * n_features / (limit / 2)), rel=1e-6)
    assert found.location_noise == pytest.approx(math.sqrt(moved * n_features / (limit / 2)), rel=1e-6)
    _, cell_noise, left = noisy_cells(
        np.zeros((10, n_features)),
        np.tile([0.0, 1.0], (n_features, 1)),
        4,
        budget=BUDGET,
        share=share,
        neighbouring=neighbouring,
    )
    assert left.remaining_share == pytest.approx(0.9, abs=1e-6)
    assert cell_noise == pytest.approx(math.sqrt(moved * n_features / limit), rel=1e-6)


def test_every_public_bin_and_cell_gets_noise_empty_ones_too():
    """Alarm 1e-6 for each."""
    found, _ = find(np.zeros((2, 2)))  # equal records: no distance is counted
    assert stats.kstest(found.scale_counts.ravel() / found.scale_noise, "norm").pvalue > 1e-6
    cells, cell_noise, _ = noisy_cells(
        np.zeros((0, 2)), np.array([[0.0, 1.0]] * 2), 200, budget=BUDGET, share=Fraction(1, 10), neighbouring=REPLACE
    )
    assert stats.kstest(cells.ravel() / cell_noise, "norm").pvalue > 1e-6


@pytest.mark.parametrize("rng", [None, np.random.default_rng(6)], ids=["release", "simulation"])
def test_pairs_are_drawn_at_random_not_by_position(rng):
    """Half of random pairs join the two halves of the file; by position all or none would. Alarm below 1e-6."""
    records = np.repeat([0.0, 1e6], 5_000)[:, None]
    found, _ = find(records, rng=rng)
    far = found.scale_counts[0, EXPONENTS == 19][0]
    assert abs(far - 2_500) < 5 * math.hypot(found.scale_noise, math.sqrt(5_000) / 2)
