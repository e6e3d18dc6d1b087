"""Places of narrow components on a grid: the sums against plain ones, groups that are found, and none of noise."""

from dataclasses import replace

import numpy as np
import pytest

from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search import matched_filter
from pm_dpgmm.methods.sketch.search.matched_filter import PlaceGrid, _peaks
from pm_dpgmm.mixture.rounding import RoundedWaves
from tests.builders.sketch_evidence import round_components, sketch_of


def data_of(truth, metric, **settings):
    """The sketch of a law in unit 1."""
    unit = np.ones(truth.means.shape[1])
    return SketchData.of((sketch_of(truth, metric, unit, **settings),), unit)


def narrow_places(data, found, low, high):
    """Of the grid over a box, where there is one."""
    grid = PlaceGrid.over(data, found, low, high)
    return None if grid is None else grid.places(data, found)


@pytest.mark.parametrize("sizes", [(50,), (30, 40), (6, 7, 8), (3, 4, 3, 5)])
def test_sums_are_those_of_all_points_one_by_one(sizes, monkeypatch):
    monkeypatch.setattr(matched_filter, "CONSIDERED", 20)
    rng = np.random.default_rng(1)
    frequencies, cosines, sines = rng.normal(size=(60, len(sizes))), rng.normal(size=60), rng.normal(size=60)
    axes = [np.sort(rng.uniform(-5, 5, size)) for size in sizes]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    phases = points @ frequencies.T
    whole = np.cos(phases) @ cosines + np.sin(phases) @ sines
    peaks, chosen = _peaks(cosines, sines, frequencies, axes)
    assert peaks[0] == pytest.approx(whole.max(), rel=1e-4) and len(peaks) == len(chosen) > 1
    assert whole[tuple(chosen.T)] == pytest.approx(peaks, rel=1e-4)
    assert np.isin(np.round(peaks, 2), np.round(np.sort(whole.ravel())[-20:], 2)).all()
    apart = np.abs(chosen[:, None] - chosen).max(axis=2)[np.triu_indices(len(chosen), 1)]
    assert apart.min() >= 2


@pytest.mark.parametrize("d, far", [(2, 300.0), (3, 20.0)])
def test_a_small_group_far_away_is_found_to_within_its_width(d, far):
    """2 % of 10,000 records; of each of 5 seeds the best place is that of the group."""
    found = round_components([0.5, 0.5], [[0.0] * d, [4.0] * d])
    truth = round_components([0.49, 0.49, 0.02], [[0.0] * d, [4.0] * d, [far] * d])
    for seed in range(5):
        data = data_of(truth, found, seed=seed)
        places = narrow_places(data, found, np.full(d, -1.2 * far), np.full(d, 1.2 * far))
        gains = places.gains(data.residuals(found) / data.deviations)[0]
        assert np.abs(places.means[gains.argmax()] - far).max() < 1.0


def test_noise_has_no_places():
    """Seeded; by the bound of exp(-12/2) a grid, of 100 a quarter of one at most."""
    found = round_components([0.5, 0.5], [[0.0, 0.0], [4.0, 4.0]])
    ends = np.full(2, -60.0), np.full(2, 60.0)
    assert not any(narrow_places(data_of(found, found, seed=seed), found, *ends) for seed in range(100))


def test_no_place_is_looked_for_where_that_costs_too_much():
    found = round_components([0.5, 0.5], [[0.0, 0.0], [4.0, 4.0]])
    truth = round_components([0.49, 0.49, 0.02], [[0.0, 0.0], [4.0, 4.0], [50.0, 50.0]])
    data = data_of(truth, found)
    assert narrow_places(data, found, np.full(2, -60.0), np.full(2, 60.0)) is not None
    for far in (1e6, 1e300, np.inf, np.nan):
        assert narrow_places(data, found, np.full(2, -far), np.full(2, far)) is None


def test_long_axes_many_points_and_many_columns_are_not_looked_at():
    """Each within the multiplications that a grid may cost: they took 7 GB, 1 GB and 30 s."""
    for sizes, frames in (([400_000, 4], 16), ([5_000, 5_000], 2), ([4] * 10, 16)):
        d = len(sizes)
        found = round_components([0.5, 0.5], [[0.0] * d, [4.0] * d])
        data = data_of(found, found, frames=frames)
        assert np.prod([float(size) + 1 for size in sizes]) * data.values.size < 2 * matched_filter.MULTIPLICATIONS
        assert PlaceGrid.over(data, found, np.zeros(d), np.array(sizes, dtype=float)) is None
    data = data_of(round_components([1.0], [[0.0, 0.0]]), round_components([1.0], [[0.0, 0.0]]))
    assert PlaceGrid.over(data, round_components([1.0], [[0.0, 0.0]]), np.zeros(2), np.full(2, 2_000.0)) is not None


@pytest.mark.parametrize("floor, rounded", [(1.0, False), (0.0, True)])
def test_a_component_is_as_wide_as_the_floor_or_the_rounding_makes_it(floor, rounded):
    found = round_components([0.5, 0.5], [[0.0, 0.0], [4.0, 4.0]])
    narrow = ScaledMixture(found.weights, found.means, 1e-3 * found.factors)
    data, ends = data_of(found, found), (np.full(2, -60.0), np.full(2, 60.0))
    assert PlaceGrid.over(data, narrow, *ends) is None
    steps = RoundedWaves.of(data.frequencies, np.full(2, np.sqrt(12.0))) if rounded else None
    seen = replace(data, variance_floor=np.full(2, floor) if floor else None, rounded=steps)
    assert PlaceGrid.over(seen, narrow, *ends) is not None


def test_of_many_points_a_part_of_the_waves_is_enough(monkeypatch):
    found = round_components([0.5, 0.5], [[0.0, 0.0], [4.0, 4.0]])
    truth = round_components([0.48, 0.48, 0.04], [[0.0, 0.0], [4.0, 4.0], [50.0, -50.0]])
    data, ends = data_of(truth, found), (np.full(2, -60.0), np.full(2, 60.0))
    monkeypatch.setattr(matched_filter, "MULTIPLICATIONS", 121.0**2 * data.values.size / 2)
    assert np.abs(narrow_places(data, found, *ends).means[0] - [50.0, -50.0]).max() < 1.0
    monkeypatch.setattr(matched_filter, "MULTIPLICATIONS", 121.0**2 * data.values.size / 3)
    assert narrow_places(data, found, *ends) is None  # 426 numbers are too few


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1e300, np.inf, np.nan])
def test_shapes_without_a_width_raise_nothing(variance):
    """The budget is spent by then."""
    found = round_components([0.5, 0.5], [[0.0, 0.0], [4.0, 4.0]])
    factors = np.tile(np.diag([np.sqrt(variance), 1.0]), (2, 1, 1))
    flat = ScaledMixture(found.weights, found.means, factors)
    places = narrow_places(data_of(found, found), flat, np.full(2, -9.0), np.full(2, 9.0))
    assert places is None or np.isfinite(places.means).all()
