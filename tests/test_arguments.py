"""Readers of arguments: what is no number is refused, although NumPy makes a float of it."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import pm_dpgmm as dpg
from pm_dpgmm._arguments import read_numbers

DAYS = np.array(["2010-01-01", "2030-01-01"], "M8[D]")


@pytest.mark.parametrize(
    "values",
    [
        DAYS,
        DAYS.astype("M8[Y]"),
        pd.to_datetime(["2010-01-01", "2030-01-01"]),
        DAYS.astype(object),
        np.timedelta64(5, "D"),
        [np.timedelta64(5, "D"), 1.0],
        [datetime.date(2010, 1, 1), datetime.date(2030, 1, 1)],
        ["0", "1"],
        "5",
        np.array([1.0, "2"], dtype=object),
        np.array([1 + 2j, 3.0]),
        np.array([1 + 2j, 3.0], dtype=object),
        np.array([np.complex128(1.0)], dtype=object),
        [b"1"],
        [[1.0], [1.0, 2.0]],
    ],
    ids=repr,
)
def test_dates_texts_and_complex_numbers_are_no_numbers(values):
    """Bounds in years clipped all records to 60, and the budget was spent."""
    with pytest.raises(TypeError, match="x must be numbers in rows of equal length, got"):
        read_numbers(values, "x")


def test_a_date_is_told_what_to_be():
    records = np.random.default_rng(1).normal(18_000.0, 200.0, 500)
    with pytest.raises(TypeError, match=r"bounds must be numbers .*; write a date as days since a public day"):
        dpg.fit_gmm(records, 1, epsilon=1.0, bounds=DAYS)


@pytest.mark.parametrize(
    "values, found",
    [
        ([1, 2.5, True], [1.0, 2.5, 1.0]),
        ([Fraction(1, 2), Decimal("0.25"), np.float32(2)], [0.5, 0.25, 2.0]),
        ([None, 1.0], [np.nan, 1.0]),
        (np.array([1, np.int8(3)], dtype=object), [1.0, 3.0]),
        (np.array([2**63, 1], dtype=np.uint64), [2.0**63, 1.0]),
        (3, 3.0),
        (pd.Series([True, None], dtype="boolean"), [1.0, np.nan]),
        (pd.Series([1, None], dtype="Int64"), [1.0, np.nan]),
        ([], []),
    ],
)
def test_real_numbers_of_any_kind_are(values, found):
    np.testing.assert_array_equal(read_numbers(values, "x"), found)
