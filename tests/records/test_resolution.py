"""Steps of rounded columns: read from what users give, and refused in clear words."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from pm_dpgmm.records.resolution import near_enough, on_grid, read_resolution

NAMES = ("age", "height")
BOUNDS = np.array([[0.0, 120.0], [1.0, 2.5]])


@pytest.mark.parametrize(
    "given, expected",
    [
        (None, None),
        (0, None),
        ((0.0, 0.0), None),
        ({}, None),
        (0.5, [0.5, 0.5]),
        (np.array([1, 0]), [1.0, 0.0]),
        ({"height": 0.01}, [0.0, 0.01]),
        (pd.Series({"height": 0.01, "age": 1.0}), [1.0, 0.01]),
        (pd.Series([1.0, 0.01]), [1.0, 0.01]),
        (xr.DataArray([0.01, 1.0], coords={"column": ["height", "age"]}), [1.0, 0.01]),
    ],
)
def test_what_may_be_given(given, expected):
    found = read_resolution(given, NAMES, BOUNDS)
    assert found is None if expected is None else found.tolist() == expected


@pytest.mark.parametrize(
    "given", ["1", True, [1.0], [1, 2, 3], [[1.0, 1.0]], [[1.0], [1.0, 2.0]], -1.0, np.nan, np.inf, 1e-200, 1e101,
              {"weight": 1.0}, pd.Series({"weight": 1.0, "age": 1.0}), {"age": "1"}, {"age": None}, [0.0, 1.6], 1j]
)  # fmt: skip
def test_bad_input_is_one_error_that_names_resolution(given):
    with pytest.raises((TypeError, ValueError), match=r"^resolution must .*got"):
        read_resolution(given, NAMES, BOUNDS)


def test_points_are_rounded_in_rounded_columns_alone():
    points = np.array([[0.26, 0.26], [-0.74, 3.0]])
    assert np.allclose(on_grid(points, np.array([0.5, 0.0])), [[0.5, 0.26], [-0.5, 3.0]])


def test_steps_that_numbers_cannot_tell_apart_are_none():
    far = np.array([1e16, 3.0])
    assert near_enough(np.array([1.0, 1.0]), far).tolist() == [0.0, 1.0]
    assert near_enough(np.array([1.0, 0.0]), far) is None


def test_a_mask_is_no_resolution():
    with pytest.raises(TypeError, match="resolution must have no mask"):
        read_resolution(np.ma.masked_array([0.1, 0.2], mask=[True, False]), ("a", "b"), None)
