"""Slices: public directions, and the sensitivity of the counts under both relations, also for hostile records."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.histogram import histogram_loss
from pm_dpgmm.mechanisms.slices import Slices, slice_counts, slice_directions
from pm_dpgmm.privacy.guarantee import Neighbouring
from tests.builders.examples import examples
from verification.neighbours import add_remove_pairs, replace_one_pairs

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE


@pytest.mark.parametrize("d", [3, 4, 5, 8])
def test_directions_are_public_unit_vectors_that_determine_every_covariance(d):
    directions = slice_directions(d)
    assert directions.shape == (d * (d + 3) // 2, d) and (directions[:d] == np.eye(d)).all()
    assert np.allclose(np.linalg.norm(directions, axis=1), 1)
    row, column = np.triu_indices(d)
    forms = directions[:, row] * directions[:, column] * np.where(row == column, 1, np.sqrt(2))
    noise = np.trace(np.linalg.inv(forms.T @ forms)) / len(row)  # of one covariance entry, for unit noise a direction
    axes_and_pairs = [
        (np.eye(d)[i] + np.eye(d)[j]) / np.linalg.norm(np.eye(d)[i] + np.eye(d)[j])
        for i, j in zip(row, column, strict=True)
    ]
    plain = (
        np.array(axes_and_pairs)[:, row] * np.array(axes_and_pairs)[:, column] * np.where(row == column, 1, np.sqrt(2))
    )
    # the budget is split over all directions, so noise counts with the square of their number
    more = (len(directions) / len(plain)) ** 2
    assert noise * more <= np.trace(np.linalg.inv(plain.T @ plain)) / len(row)
    assert (slice_directions.__wrapped__(d) == directions).all()


@given(data=st.data())
@settings(max_examples=examples(50))
def test_a_replaced_record_moves_two_slices_of_each_direction_at_most(data):
    bounds = np.array([[-2.0, 3.0], [0.0, 1e-3], [-1e9, 1e9]])
    slices = Slices(slice_directions(3), data.draw(st.integers(2, 7)))
    n = len(slices.directions)
    x, y = data.draw(replace_one_pairs(3, bounds=(-2.0, 3.0)))
    change = slice_counts(x, slices, bounds=bounds) - slice_counts(y, slices, bounds=bounds)
    assert np.abs(change).sum() <= histogram_loss(epsilon=1.0, neighbouring=REPLACE, n_histograms=n).n_counts == 2 * n
    assert (np.add.reduceat(change, slices.offsets[:-1]) == 0).all()
    assert (np.add.reduceat(np.abs(change), slices.offsets[:-1]) <= 2).all()
    x, y = data.draw(add_remove_pairs(3, bounds=(-2.0, 3.0)))
    change = slice_counts(x, slices, bounds=bounds) - slice_counts(y, slices, bounds=bounds)
    loss = histogram_loss(epsilon=1.0, neighbouring=ADD_REMOVE, n_histograms=n)
    assert np.abs(change).sum() == loss.n_counts == n
    assert (np.add.reduceat(np.abs(change), slices.offsets[:-1]) == 1).all()


@pytest.mark.parametrize("hostile", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0])
def test_hostile_records_count_once_in_each_direction(hostile):
    slices = Slices(slice_directions(4), 5)
    for bounds in (np.array([[0.0, 1.0]] * 4), np.array([[-1.7e308, 1.7e308]] * 4)):
        for column in range(4):
            rows = np.full((3, 4), 0.5)
            rows[1, column] = hostile
            counts = slice_counts(rows, slices, bounds=bounds)
            assert (np.add.reduceat(counts, slices.offsets[:-1]) == 3).all() and counts.min() >= 0


@pytest.mark.parametrize("d, n_cells", [(2, 2), (3, 2), (3, 24), (5, 7)])
def test_the_sensitivity_is_attained_by_records_in_the_box_and_by_no_more(d, n_cells):
    """Random pairs and corners: the largest change is twice the number of directions, exactly."""
    slices, bounds = Slices(slice_directions(d), n_cells), np.array([[0.0, 1.0]] * d)
    rng = np.random.default_rng(d)
    ends = np.vstack([rng.random((50, d)), rng.integers(0, 2, (50, d)), rng.normal(size=(50, d))])
    alone = np.array([slice_counts(row[None], slices, bounds=bounds) for row in ends])
    change = np.abs(alone[:, None, :] - alone[None, :, :]).sum(axis=2)
    assert change.max() == 2 * len(slices.directions)


def test_the_slice_of_a_record_depends_on_no_other_record():
    """Bit for bit: alone, at any position, in any block. Records sit on edges, where one bit moves a count."""
    slices = Slices(slice_directions(5), 24)
    rng = np.random.default_rng(0)
    points = rng.integers(-12, 13, (3_000, 5)) * slices.directions[rng.integers(20, size=3_000)]
    together = slices.index(points)
    for rows in (slice(0, 1), slice(17, 24), slice(1001, 3000)):
        assert (slices.index(points[rows]) == together[rows]).all()
    order = rng.permutation(3_000)
    assert (slices.index(np.asfortranarray(points[order])) == together[order]).all()


def test_blocks_of_records_add_up():
    slices, bounds = Slices(slice_directions(2), 6), np.array([[0.0, 1.0]] * 2)
    records = np.random.default_rng(1).random((70_000, 2))  # more than a block
    parts = [slice_counts(part, slices, bounds=bounds) for part in np.array_split(records, 7)]
    assert (slice_counts(records, slices, bounds=bounds) == np.sum(parts, axis=0)).all()
