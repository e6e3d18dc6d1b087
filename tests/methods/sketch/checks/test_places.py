"""Components whose places waves know up to whole periods: the counts of the cells say which, or leave it open."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.checks.places import (
    MOST_PLACES,
    _places,
    beyond_the_interval,
    counted_cells,
    nearest_images,
    period_of,
    placed,
    told_shares,
)
from pm_dpgmm.methods.sketch.estimate import SketchFit, sketch_data
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture

BOUNDS, PERIOD, N = np.array([[0.0, 100.0]]), 25.0, 2_000.0
SHARES = np.array([0.95, 0.05])


def fit_with(means, deviations=(1.0, 1.0), order=8):
    """A fit in an interval from 10 to 30, its evidence of no noise, and the ladder of a period of 25."""
    ladder = FejerHarmonics(2 * np.pi / PERIOD, order, 20.0)
    evidence = SketchStatistics((NoisySketch(ladder, np.zeros((2, order)), 5.0, N),), np.array([10.0]), bounds=BOUNDS)
    mixture = Mixture(SHARES, np.array(means)[:, None], np.square(deviations)[:, None, None])
    found = ScaledMixture.about(mixture, evidence.centre, evidence.unit)
    return SketchFit(sketch_data(evidence), found, 0.0), evidence


def cells_of(means, deviations=(1.0, 1.0), *, noise=0.0, seed=0, interval=(0.0, 100.0)):
    """Counts of the two normal groups, as a release has them."""
    edges = np.linspace(*interval, 17)
    shares = np.diff(stats.norm.cdf(edges[:, None], means, deviations), axis=0) @ SHARES
    counts = N * shares + np.random.default_rng(seed).normal(0.0, noise or 0.0, 16)
    return {"cells_0": np.array([[0.0, *interval, *counts]]), "cell_noise": np.array([noise or 1.0])}


def counts_of(*given, **settings):
    return counted_cells(cells_of(*given, **settings), BOUNDS)


def test_an_image_is_moved_to_where_its_records_were_counted():
    fit, evidence = fit_with([20.0, 12.0])
    moved, caveats = placed(fit, evidence, counts_of([20.0, 87.0], noise=15.0))
    assert moved.mixture.means.ravel() == pytest.approx([20.0, 87.0]) and caveats == []
    assert moved.mixture.weights == pytest.approx(SHARES) and moved.mixture.covariances == pytest.approx(1.0)
    same = moved.data.expected(moved.found), fit.data.expected(fit.found)
    assert same[0] == pytest.approx(same[1], abs=1e-6 * N)  # the sketch cannot tell


def test_a_component_whose_records_were_counted_there_stays():
    fit, evidence = fit_with([20.0, 12.0])
    stays, caveats = placed(fit, evidence, counts_of([20.0, 12.0], noise=15.0))
    assert np.array_equal(stays.found.means, fit.found.means) and caveats == []


def test_how_often_a_place_is_wrong_or_said_to_be_open():
    """Seeded. Of 300 images and 300 components that are there, 100 records each; with noise 20, 2 and 28."""
    fit, evidence = fit_with([20.0, 12.0])
    silent, told = 0, 0
    for seed in range(300):
        for true in (12.0, 62.0):
            moved, caveats = placed(fit, evidence, counts_of([20.0, true], noise=16.0, seed=seed))
            silent += moved.mixture.means[1, 0] != pytest.approx(true) and not caveats
            told += bool(caveats)
    assert silent == 0 and told <= 12


def test_what_noise_hides_is_said():
    fit, evidence = fit_with([20.0, 19.0])
    _, caveats = placed(fit, evidence, counts_of([20.0, 19.0], noise=200.0))
    assert len(caveats) == 1
    assert caveats[0].startswith("the place of component 1, 19, may be anywhere from 44 to 94 instead")


def test_where_there_is_nothing_to_move_the_fit_is_the_same():
    fit, evidence = fit_with([20.0, 12.0])
    assert placed(fit, evidence, []) == (fit, [])  # without cells, as without bounds
    assert placed(fit, replace(evidence, bounds=None), counts_of([20.0, 12.0])) == (fit, [])
    narrow = np.array([[11.0, 34.0]])  # bounds of less than a period
    cells = counted_cells(cells_of([20.0, 12.0], interval=(11.0, 34.0)), narrow)
    stays, caveats = placed(fit, replace(evidence, bounds=narrow), cells)
    assert np.array_equal(stays.found.means, fit.found.means) and caveats == []


def test_two_columns_have_no_periods():
    waves = RieszProduct(np.ones((1, 2, 2)), np.zeros(2))
    plane = SketchStatistics(
        (NoisySketch(waves, np.zeros((2, 4)), 5.0, N),), np.ones(2), bounds=np.tile(BOUNDS, (2, 1))
    )
    assert period_of(plane) == np.inf
    fit, _ = fit_with([20.0, 12.0])
    assert placed(fit, plane, counts_of([20.0, 87.0])) == (fit, [])


@pytest.mark.parametrize("low", np.round(np.random.default_rng(1).uniform(-50, 50, 40), 1))
def test_the_cell_beside_the_interval_is_beyond_it_whatever_its_ends_round_to(low):
    """A narrowed interval ends where cells do; centre and unit and back may be off in the last bit."""
    bounds = np.array([[low, low + 61.7]])
    edges = np.linspace(*bounds[0], 17)
    ends = np.array([bounds[0, 0] + 3 * (bounds[0, 1] - bounds[0, 0]) / 16, edges[8]])
    unit = ends[1] / 2 - ends[0] / 2
    ladder = FejerHarmonics(2 * np.pi / (2.5 * unit), 8, float(ends[0] + unit))
    evidence = SketchStatistics((NoisySketch(ladder, np.zeros((2, 8)), 5.0, N),), np.array([unit]), bounds=bounds)
    middle = Mixture([1.0], [[float(ends.mean())]], [[[1.0]]])
    fit = SketchFit(sketch_data(evidence), ScaledMixture.about(middle, evidence.centre, evidence.unit), 0.0)
    for beside in (2, 8):
        counts = np.where(np.arange(16) == beside, 200.0, np.where(np.arange(16) == 5, 1_800.0, 0.0))
        raw = {"cells_0": np.array([[0.0, *bounds[0], *counts]]), "cell_noise": np.array([5.0])}
        assert beyond_the_interval(fit, evidence, counted_cells(raw, bounds))


def test_places_are_periods_apart_within_the_bounds_and_not_too_many():
    assert _places(12.0, 25.0, BOUNDS[0]).tolist() == [12.0, 37.0, 62.0, 87.0]
    assert _places(87.0, 25.0, BOUNDS[0]).tolist() == [87.0, 12.0, 37.0, 62.0]
    assert _places(112.0, 25.0, BOUNDS[0]).tolist() == [112.0, 12.0, 37.0, 62.0, 87.0]  # the fit's own comes first
    assert _places(50.0, 1e3, BOUNDS[0]).tolist() == [50.0]
    assert len(_places(np.nan, 25.0, BOUNDS[0])) == len(_places(np.inf, 25.0, BOUNDS[0])) == 1
    many = _places(50.0, 1e-4, BOUNDS[0])
    assert len(many) <= MOST_PLACES + 1 and many[0] == 50.0 and many.min() >= 0 and many.max() <= 100
    assert (many - 50.0) / 1e-4 == pytest.approx(np.rint((many - 50.0) / 1e-4), abs=1e-6)


def test_outermost_cells_hold_what_was_moved_to_the_bounds():
    inner = {"cells_0": np.array([[0.0, 25.0, 100.0, *np.ones(16)]]), "cell_noise": np.array([2.0])}
    whole, part = counted_cells(cells_of([0.0, 100.0]), BOUNDS)[0], counted_cells(inner, BOUNDS)[0]
    assert whole.limits[[0, -1]].tolist() == [-np.inf, np.inf] and part.limits[[0, -1]].tolist() == [25.0, np.inf]
    assert whole.edges[[0, -1]].tolist() == [0.0, 100.0]
    assert whole.shares(np.array([-50.0, 130.0]), np.ones(2)).sum(axis=1) == pytest.approx(1.0)
    assert (part.column, part.noise) == (0, 2.0)


@pytest.mark.parametrize("noise, told", [(10.0, True), (60.0, False)])
def test_records_beyond_the_interval_that_the_mixture_has_not_got_are_told(noise, told):
    fit, evidence = fit_with([20.0, 12.0])
    found = beyond_the_interval(fit, evidence, counts_of([20.0, 78.0], noise=noise))
    assert bool(found) == told
    assert not told or "about 4% from 75 to 81.25 in column 0, where the mixture has 0%" in found[0]


def test_a_wide_group_beyond_the_interval_is_told_by_all_cells_together():
    """Seeded, 100 of 2,000 records: where no few cells stand out of the noise, all of them do."""
    fit, evidence = fit_with([20.0, 12.0])
    raws = [cells_of([20.0, 70.0], (1.0, 15.0), noise=6.0, seed=seed) for seed in range(40)]
    found = [beyond_the_interval(fit, evidence, counted_cells(raw, BOUNDS)) for raw in raws]
    assert all(found) and sum("beyond 10 to 30 in column 0, where the mixture has 0%" in one[0] for one in found) >= 20
    inner = raws[0]["cells_0"][:, [0, 1, 2]]
    part = {
        "cells_0": np.column_stack([inner + np.array([0, 5.0, -5.0]), raws[0]["cells_0"][:, 3:]]),
        "cell_noise": np.ones(1),
    }
    told = beyond_the_interval(fit, evidence, counted_cells(part, BOUNDS))
    assert not any("beyond" in text.split(". ")[0] for text in told)


def test_right_mixtures_are_hardly_ever_said_to_lack_records():
    """Seeded; the bound is 2e-4 a column, so none of 500."""
    fit, evidence = fit_with([20.0, 87.0])
    assert not any(
        beyond_the_interval(fit, evidence, counts_of([20.0, 87.0], noise=15.0, seed=seed)) for seed in range(500)
    )


@pytest.mark.thorough
def test_a_small_group_far_away_is_found_where_the_bounds_are_narrowed_without_it():
    """Whole fits, seeded: 180 of 40,000 records, fewer than hold the search up; the waves alone have them near 26."""
    found = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        records = np.concatenate([rng.normal(20.0, 1.0, 39_820), rng.normal(88.0, 1.0, 180)])[:, None]
        release = dpg.fit_gmm(
            records, 2, epsilon=0.8, delta=1e-6, bounds=(0, 100), random_seed=seed, progress=False, method="sketch"
        )
        assert release.noise["unit"][0] < 10  # narrowed
        found += np.abs(release.means - 88.0).min() < 2.0
        assert release.refit(2).means == pytest.approx(release.means, abs=1e-6)
        assert release.check_fit(random_seed=1).p_value > 1e-4
    assert found >= 3


def test_uncertainty_is_that_of_the_image():
    """A prior about the middle of the interval is no evidence against a component that lies periods away."""
    rng = np.random.default_rng(1)
    records = np.concatenate([rng.normal(20.0, 1.0, 4_000), rng.normal(30.0, 1.0, 1_000)])[:, None]
    release = dpg.fit_gmm(
        records, 2, epsilon=1.0, delta=1e-6, bounds=(10, 40), random_seed=1, progress=False, method="sketch"
    )
    evidence = replace(SketchStatistics.from_arrays(release.raw, release.noise), bounds=np.array([[-1e3, 1e3]]))
    period, far = period_of(evidence), int(release.means[:, 0].argmax())
    noise = release.noise | {"bounds": [[-1e3, 1e3]]}
    means = release.means + np.where(np.arange(2) == far, 20 * period, 0.0)[:, None]
    moved = replace(release, noise=noise, mixture=replace(release.mixture, means=means))
    same, its = release.standard_errors(), moved.standard_errors()
    assert its.means == pytest.approx(same.means, rel=1e-4) and its.weights == pytest.approx(same.weights, rel=1e-4)
    assert same.means.max() < 1.0


@pytest.mark.parametrize(
    "waves",
    [
        [RieszProduct(np.zeros((1, 1, 1)), np.zeros(1))],
        [RieszProduct(np.array([[[1.0], [1.0]]]), np.zeros(1))],
        [FejerHarmonics(1e-310, 6, 0.0)],
        [FejerHarmonics(0.1, 6, 20.0), FejerHarmonics(0.3, 6, 20.0)],
    ],
    ids=["no wave", "equal waves", "denormal", "two ladders"],
)
def test_waves_without_a_period_move_nothing(waves):
    """Whatever a reference holds; the budget is spent by then."""
    fit, evidence = fit_with([20.0, 12.0])
    sketches = [NoisySketch(wave, np.zeros((2, wave.n_frequencies)), 5.0, N) for wave in waves]
    evidence = replace(evidence, sketches=tuple(sketches))
    stays, caveats = placed(fit, evidence, counts_of([20.0, 87.0], noise=5.0))
    assert stays is fit and caveats == [] and nearest_images(fit.found, evidence) is fit.found


def test_rounded_columns_have_whole_values_in_their_cells():
    """Seeded: whole numbers, two or one of them in a cell; none of 60 right mixtures may be said to lack records."""
    bounds, told = np.array([[0.0, 20.0]]), 0
    ladder = FejerHarmonics(2 * np.pi / 12.5, 8, 10.0)
    sketch = NoisySketch(ladder, np.zeros((2, 8)), 5.0, 10_000.0)
    own = {"bounds": bounds, "resolution": np.ones(1)}
    evidence = SketchStatistics((sketch,), np.array([5.0]), **own)
    mixture = Mixture([1.0], [[12.0]], [[[9.0]]])
    fit = SketchFit(sketch_data(evidence), ScaledMixture.about(mixture, evidence.centre, evidence.unit), 0.0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = np.clip(np.rint(rng.normal(12.0, 3.0, 10_000)), 0, 20)
        counts = np.bincount(np.minimum((values / 1.25).astype(int), 15), minlength=16) + rng.normal(0, 30.0, 16)
        raw = {"cells_0": np.array([[0.0, 0.0, 20.0, *counts]]), "cell_noise": np.array([30.0])}
        cells = counted_cells(raw, bounds, np.ones(1))
        told += bool(beyond_the_interval(fit, evidence, cells))
        shares = cells[0].shares(np.array([12.0]), np.array([3.0]))[0]
        assert shares.sum() == pytest.approx(1.0)
        assert shares[8] == pytest.approx(np.diff(stats.norm.cdf([9.5, 11.5], 12.0, 3.0))[0])  # 10 and 11
    assert told == 0


def test_only_columns_with_steps_are_read_as_rounded():
    """A step of 0 had no number as limit, and the share of the mixture was none, which set the warning off."""
    raw = {"cells_0": np.array([[j, 0.0, 20.0, *np.ones(16)] for j in (0.0, 1.0)]), "cell_noise": np.ones(1)}
    smooth, rounded = counted_cells(raw, np.tile([[0.0, 20.0]], (2, 1)), np.array([0.0, 1.0]))
    assert smooth.limits[1:-1].tolist() == smooth.edges[1:-1].tolist()
    assert rounded.limits[1:3].tolist() == [1.5, 2.5]  # of values from 2, and from 3, on


@pytest.mark.parametrize(
    "counts, told",
    [(np.ones((1, 5, 2)), "cells_0 must have 19 columns"), (np.ones((1, 6)), "cells_0 must have 19 columns")],
)
def test_cells_of_a_file_that_do_not_fit_are_refused(counts, told):
    with pytest.raises(ValueError, match=told):
        counted_cells({"cells_0": counts, "cell_noise": np.array([1.0])}, BOUNDS)
    good = cells_of([20.0, 80.0])
    for name, wrong, words in (
        ("cells_0", good["cells_0"] * np.nan, "cells_0 must be finite"),
        ("cells_0", good["cells_0"] + 1.0, "cells_0 must be of columns 0 to 0, got 1"),
        ("cells_0", good["cells_0"] * np.array([1, 1, 0, *[1] * 16]), "cells_0 must be of intervals with a width"),
        ("cell_noise", np.array(1.0), "cell_noise must be a list of numbers"),
        ("cell_noise", np.array([1e300]), "cell_noise must be a list of numbers up to 1e"),
        ("cell_noise", np.array([0.0]), "cell_noise must be finite and greater than 0"),
        ("cell_noise", np.array([1.0, 1.0]), "a release with cells must have 'cells_1', got none"),
    ):
        with pytest.raises(ValueError, match=words):
            counted_cells(good | {name: wrong}, BOUNDS)


@pytest.mark.parametrize(
    "counted, has, words",
    [
        (0.04, 0.001, "about 4% beyond 3 in column 1, where the mixture has 0%"),
        (0.004, 0.0, "about 0.40% beyond 3 in column 1, where the mixture has 0.00%"),  # "about 0%" was said
        (-0.01, 0.02, "about 0% beyond 3 in column 1, where the mixture has 2%"),
    ],
)
def test_small_shares_have_digits(counted, has, words):
    assert told_shares(counted, "beyond 3", 1, has) == words
