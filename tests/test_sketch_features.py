"""Features on the grid: a function of the record alone, total, and never farther apart than the bound says."""

import math

import numpy as np
import pytest

from pm_dpgmm.mechanisms import sketch_features
from pm_dpgmm.mechanisms.frequencies import FejerLadder, RieszFrames
from pm_dpgmm.mechanisms.gaussian_budget import steps_of
from pm_dpgmm.mechanisms.sketch_features import ERROR, GRID, sketch_sums
from pm_dpgmm.privacy import Neighbouring

RNG = np.random.default_rng(5)
FRAMES = RieszFrames(RNG.normal(size=(2, 4, 3)), np.array([0.3, -1.0, 2.0]))
LADDER = FejerLadder(0.7, 16, 0.3)
BOTH = pytest.mark.parametrize("frequencies", [FRAMES, LADDER], ids=["riesz", "fejer"])


def columns(frequencies):
    return frequencies.frequencies.shape[1]


def one_by_one(records, frequencies):
    """Integer features of every record, shape (N, 2 m)."""
    return np.array([sketch_sums(row[None], frequencies).ravel() for row in records])


def bound(frequencies):
    n_numbers = 2 * frequencies.n_frequencies
    squared = frequencies.squared_sensitivity(Neighbouring.REPLACE_ONE)
    return steps_of(squared, grid=GRID, n_numbers=n_numbers, error=ERROR)


def hostile(n_records, n_columns, scale):
    rng = np.random.default_rng(round(math.log10(scale)) if scale else 0)
    records = scale * rng.normal(size=(n_records, n_columns))
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.7e308, -1.7e308]
    places = rng.integers(n_records, size=(40, 1)), rng.integers(n_columns, size=(40, 1))
    records[places] = rng.choice(special, size=(40, 1))
    return records


@BOTH
def test_features_are_cosines_and_sines_of_the_phases(frequencies):
    records = np.random.default_rng(1).normal(size=(500, columns(frequencies)))
    phases = (records - frequencies.centre) @ frequencies.frequencies.T
    exact = frequencies.amplitudes * np.stack([np.cos(phases), np.sin(phases)], axis=1)
    features = one_by_one(records, frequencies).reshape(exact.shape)
    # rounding to the grid, the error of the phases computed here, and that of the features
    assert np.abs(features * GRID - exact).max() <= GRID / 2 + 1e-13 + ERROR
    assert np.array_equal(sketch_sums(records, frequencies), features.sum(axis=0))


@BOTH
def test_sums_do_not_depend_on_order_blocks_or_threads(frequencies, monkeypatch):
    monkeypatch.setattr(sketch_features, "BLOCK", 100)
    records = hostile(1_037, columns(frequencies), 1e3)
    sums = sketch_sums(records, frequencies)
    shuffled = np.random.default_rng(2).permutation(records)
    assert np.array_equal(sums, one_by_one(records, frequencies).sum(axis=0).reshape(sums.shape))
    assert np.array_equal(sums, sketch_sums(shuffled, frequencies, n_threads=3))
    assert np.array_equal(sums, sketch_sums((part for part in np.array_split(shuffled, 7)), frequencies))
    assert np.array_equal(sums, sketch_sums(np.asfortranarray(records), frequencies))


@BOTH
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e8, 1e16, 1e150, 1e300])
def test_no_two_records_are_farther_apart_than_the_bound(frequencies, scale):
    features = one_by_one(hostile(800, columns(frequencies), scale), frequencies).astype(float)
    assert np.isfinite(features).all() and np.abs(features).max() <= 2**30
    norms = np.square(features).sum(axis=1)
    squared = norms[:, None] + norms - 2 * features @ features.T
    assert squared.max() <= float(bound(frequencies)) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e8, 1e16])
def test_composite_phases_computed_directly_break_the_bound(scale):
    """The planted fault of arithmetic: cosines of w.x instead of products, in single or double precision."""
    frames = RieszFrames(np.random.default_rng(0).normal(size=(1, 4, 5)), np.zeros(5))
    records = scale * np.random.default_rng(1).normal(size=(1_500, 5))
    phases = records @ frames.frequencies.T
    phases = phases.astype(np.float32) if scale == 1e8 else phases
    features = np.concatenate([frames.amplitudes * np.cos(phases), frames.amplitudes * np.sin(phases)], axis=1)
    norms = np.square(features).sum(axis=1)
    assert (norms[:, None] + norms - 2 * features @ features.T).max() > 1.2 * 32


@BOTH
def test_what_is_not_a_number_counts_as_a_phase_of_zero(frequencies):
    n = columns(frequencies)
    centre = np.atleast_1d(frequencies.centre)[None]
    at_centre = sketch_sums(centre, frequencies)
    assert (at_centre[1] == 0).all() and (at_centre[0] > 0).all()
    for value in (np.nan, np.inf, -np.inf):
        assert np.array_equal(sketch_sums(np.full((1, n), value), frequencies), at_centre)
    assert np.array_equal(sketch_sums(np.zeros((0, n)), frequencies), np.zeros_like(at_centre))


def test_rounding_needs_its_term():
    """On a coarse grid integer features pass the unrounded bound, and never the one that is paid for."""
    ladder = FejerLadder(1.0, 8, 0.0)
    angles = np.linspace(0, 2 * math.pi, 2_000)[:, None]
    phases = angles * np.arange(1, 9)
    exact = np.concatenate([ladder.amplitudes * np.cos(phases), ladder.amplitudes * np.sin(phases)], axis=1)
    squared = ladder.squared_sensitivity(Neighbouring.REPLACE_ONE)
    for grid, exceeds in ((2.0**-3, True), (2.0**-10, True)):
        steps = np.rint(exact / grid)
        norms = np.square(steps).sum(axis=1)
        largest = (norms[:, None] + norms - 2 * steps @ steps.T).max()
        assert (largest > float(squared) / grid**2) == exceeds
        assert largest <= steps_of(squared, grid=grid, n_numbers=16, error=ERROR) ** 2


def test_sums_of_the_most_records_fit():
    assert sketch_features.MAX_RECORDS * round(1 / GRID) <= 2**61
