"""Bins of histograms and slices: the name of the setting, and the former one."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import pm_dpgmm as dpg

X1 = np.random.default_rng(1).normal(3.0, 1.0, size=(400, 1))
X2 = np.random.default_rng(2).normal(3.0, 1.0, size=(400, 2))
BOTH = pytest.mark.parametrize("kind", [dpg.HistogramMethod, dpg.SliceMethod])


@BOTH
def test_the_former_name_is_an_alias(kind):
    found = kind(n_cells=9)
    assert found == kind(9) == kind(n_bins=9) and hash(found) == hash(kind(9))
    assert found.n_bins == found.n_cells == 9 and kind().n_bins is None
    assert repr(found) == f"{kind.__name__}(n_bins=9)" and replace(found, n_bins=7) == kind(7)
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
    with pytest.raises(TypeError, match=r"n_bins must be given alone, got n_cells=9, its former name, beside it"):
        kind(n_bins=9, n_cells=9)


@pytest.mark.parametrize("method, X", [("histogram", X1), ("slices", X2)])
def test_a_fit_takes_both_names_and_records_the_one_that_files_have(method, X, tmp_path):
    given = {"epsilon": 1.0, "bounds": (-5, 10), "method": method, "random_seed": 3, "progress": False}
    new, old = dpg.fit_gmm(X, 1, n_bins=8, **given), dpg.fit_gmm(X, 1, n_cells=8, **given)
    np.testing.assert_array_equal(new.means, old.means)
    assert new.settings == old.settings == {"n_cells": 8}
    new.save(tmp_path / "release.json")
    assert dpg.load(tmp_path / "release.json").settings == {"n_cells": 8}
