"""Counts of cells: a record moves two of them by one at most, and their noise has the stated scale."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pm_dpgmm.mechanisms.histogram import cell_counts, histogram_loss, noisy_counts
from pm_dpgmm.privacy.guarantee import Neighbouring
from verification.neighbours import add_remove_pairs, replace_one_pairs

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE


@pytest.mark.parametrize("n_features", [1, 2])
@given(data=st.data())
@settings(deadline=None)
def test_replacing_a_record_changes_two_counts_by_one_and_adding_one_changes_one(n_features, data):
    bounds = np.array([[-2.0, 3.0], [0.0, 1e-3]])[:n_features]
    n_cells = data.draw(st.integers(2, 7))
    x, y = data.draw(replace_one_pairs(n_features, bounds=(-2.0, 3.0)))
    change = cell_counts(x, bounds=bounds, n_cells=n_cells) - cell_counts(y, bounds=bounds, n_cells=n_cells)
    assert np.abs(change).sum() <= histogram_loss(epsilon=1.0, neighbouring=REPLACE).n_counts == 2
    assert np.abs(change).max() <= 1 and change.sum() == 0
    x, y = data.draw(add_remove_pairs(n_features, bounds=(-2.0, 3.0)))
    change = cell_counts(x, bounds=bounds, n_cells=n_cells) - cell_counts(y, bounds=bounds, n_cells=n_cells)
    assert np.abs(change).sum() == histogram_loss(epsilon=1.0, neighbouring=ADD_REMOVE).n_counts == 1


def test_every_record_is_counted_once_in_the_right_cell():
    bounds = np.array([[0.0, 10.0]])
    counts = cell_counts([[0.0], [0.999], [1.0], [9.99], [10.0], [-1e308], [1e308]], bounds=bounds, n_cells=10)
    assert counts.tolist() == [3, 1, 0, 0, 0, 0, 0, 0, 0, 3]
    wide = cell_counts([[-1e308], [1e308]], bounds=np.array([[-1.7e308, 1.7e308]]), n_cells=2)
    assert wide.tolist() == [1, 1]


def test_histogram_noise_has_the_stated_scale():
    noisy, loss = noisy_counts(np.zeros(40_000, dtype=np.int64), epsilon=0.5, neighbouring=REPLACE)
    assert loss.scale == 4.0 and loss.delta(0.5) == 0.0 and loss.delta(0.49) > 0
    # E|z| of a discrete Laplace is 2 q/(1 - q^2), sd of the mean about 4/200
    q = math.exp(-1 / 4)
    assert np.abs(noisy).mean() == pytest.approx(2 * q / (1 - q * q), abs=6 * 4 / 200)
