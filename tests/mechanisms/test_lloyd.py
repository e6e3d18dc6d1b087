"""Noisy Lloyd: how far a record moves its integers, the noise of both relations, what it finds, what it refuses."""

import math

import numpy as np
import pytest

from pm_dpgmm.mechanisms import lloyd
from pm_dpgmm.mechanisms.lloyd import GRID, cell_sums, in_box, lloyd_scale, noisy_lloyd
from pm_dpgmm.privacy.guarantee import Neighbouring

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
BOUNDS = [[-5.0, 5.0], [0.0, 2.0]]
START = [[-1.0, 1.0], [1.0, 1.0]]
WAYS = {"bounds": BOUNDS, "n_steps": 3, "epsilon": 1.0}


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e8, 1e300])
def test_no_record_moves_the_integers_farther_than_is_paid_for(scale):
    rng = np.random.default_rng(1)
    records = scale * rng.normal(size=(300, 2))
    records[rng.integers(300, size=20), rng.integers(2, size=20)] = rng.choice([np.nan, np.inf, -np.inf, 1.7e308], 20)
    inside = in_box(records, np.array([0.0, 1.0]), np.array([5.0, 1.0]))
    centres = np.array([[-0.2, 0.0], [0.2, 0.0]])
    found = np.array([cell_sums(row[None], centres).ravel() for row in inside])
    assert np.abs(found).sum(axis=1).max() <= 3 * GRID
    assert np.abs(found[:, None] - found).sum(axis=2).max() <= 6 * GRID


def test_the_printed_noise_is_for_a_record_that_comes_or_goes():
    printed = 3 * 4 / 0.5  # (D + 1) J / epsilon
    assert lloyd_scale(2, 4, 0.5, ADD_REMOVE) / GRID == pytest.approx(printed, rel=1e-15)
    assert lloyd_scale(2, 4, 0.5, REPLACE) / GRID == pytest.approx(2 * printed, rel=1e-15)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbouring", [REPLACE, ADD_REMOVE])
def test_it_finds_clusters_and_says_what_it_costs(delta, neighbouring):
    """10,000 records: noise moves a centre by less than a hundredth of these limits; the seed is fixed."""
    rng = np.random.default_rng(2)
    middle = np.array([[-3.0, 0.5], [3.0, 1.5]])
    records = middle[rng.integers(2, size=10_000)] + 0.2 * rng.normal(size=(10_000, 2))
    found = noisy_lloyd(records, START, delta=delta, neighbouring=neighbouring, rng=rng, **WAYS)
    np.testing.assert_allclose(found.centres, middle, atol=0.15)
    assert abs(found.steps[-1].counts.sum() - 10_000) < 500 and len(found.steps) == 3
    assert (found.guarantee.epsilon, found.guarantee.delta) == (1.0, delta)
    assert found.guarantee.neighbouring is neighbouring and not found.centres.flags.writeable


def test_noise_of_counts_has_the_stated_scale():
    """600 counts of no record: Laplace noise within 6 standard errors of its deviation, which kurtosis makes wider."""
    runs = [
        noisy_lloyd(np.empty((0, 2)), START, rng=np.random.default_rng(i), **WAYS).steps[0].counts for i in range(300)
    ]
    expected = math.sqrt(2) * lloyd_scale(2, 3, 1.0, REPLACE) / GRID
    assert abs(np.std(runs) / expected - 1) < 6 * math.sqrt(5 / (4 * 600))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"n_steps": 0}, "n_steps must be at least 1"),
        ({"epsilon": 0.0}, "epsilon must be finite and greater than 0"),
        ({"delta": 1.0}, "delta must"),
        ({"bounds": [[1.0, 0.0], [0.0, 1.0]]}, "bounds must be finite rows"),
        ({"start": [[0.0]]}, "start must be finite rows of 2 numbers"),
        ({"start": [[np.nan, 0.0]]}, "start must be finite rows of 2 numbers"),
        ({"records": np.zeros(4)}, "records must have 2 columns"),
        ({"neighbouring": "any"}, "neighbouring must be one of"),
    ],
)
def test_bad_arguments_get_one_clear_error(change, words, monkeypatch):
    monkeypatch.setattr(lloyd, "discrete_laplace", None)  # nothing is drawn
    with pytest.raises((TypeError, ValueError), match=words):
        noisy_lloyd(**({"records": np.zeros((4, 2)), "start": START} | WAYS | change))


def test_a_record_has_its_cell_whatever_the_order_in_memory_and_the_others():
    """Both centres are as far from the record, up to the rounding of a sum, which a layout may not change."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        centre = rng.uniform(-1, 1, 16)
        centres = np.stack([centre, rng.permutation(centre)])
        alone, beside = (np.zeros((n, 16), dtype=np.int64, order="F") for n in (1, 2))
        assert (lloyd.cell_sums(beside, centres) == 2 * lloyd.cell_sums(alone, centres)).all()


def test_a_number_far_outside_a_narrow_box_counts_at_its_end():
    records = np.array([[1e300], [-1e300], [np.inf], [np.nan]])
    assert in_box(records, np.array([0.0]), np.array([1e-20])).ravel().tolist() == [GRID, -GRID, 0, 0]


def test_epsilons_whose_noise_cannot_be_drawn_are_refused():
    with pytest.raises(ValueError, match="epsilon must leave a noise scale"):
        lloyd.noisy_lloyd([[0.0]], [[-1.0], [1.0]], bounds=[[-2.0, 2.0]], n_steps=1, epsilon=1e-10)
