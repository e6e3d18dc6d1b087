"""Names of columns, from a series too: they are published, so a name that is somebody's value is refused."""

import numpy as np
import pandas as pd
import pytest

from pm_dpgmm.records.reading import read_bounds, read_records

VALUES = np.array([3.0, 1.0, 2.0])


@pytest.mark.parametrize("name, kept", [("age", ("age",)), (None, ("x0",)), ("", ("x0",)), (0, ("x0",))])
def test_a_series_keeps_its_name(name, kept):
    records, names = read_records(pd.Series(VALUES, name=name))
    assert names == kept and records.tolist() == [[3.0], [1.0], [2.0]]


def test_a_series_whose_name_is_a_value_is_refused():
    with pytest.raises(ValueError, match="names are published"):
        read_records(pd.Series(VALUES, name="41.5"))


def test_a_series_is_read_by_its_name_and_no_other():
    assert read_records(pd.Series(VALUES, name="age"), columns=["age"])[1] == ("age",)
    with pytest.raises(ValueError, match="columns must be among"):
        read_records(pd.Series(VALUES, name="age"), columns=["fee"])


def test_a_series_of_polars_keeps_its_name():
    polars = pytest.importorskip("polars")
    assert read_records(polars.Series("age", VALUES))[1] == ("age",)


@pytest.mark.parametrize("bounds, words", [
    ({"age": (0, 110), "fee": (3, 1)}, r"bounds must have low < high, got \[3.0, 1.0\] for column 'fee'"),
    ({"age": (0, 110), "fee": (0, np.inf)}, "bounds must be finite, got .* for column 'fee'"),
    ({"age": (0, 110), "fee": 3}, r"bounds must be \(low, high\), got 3 for column 'fee'"),
])  # fmt: skip
def test_errors_about_bounds_name_the_column(bounds, words):
    with pytest.raises(ValueError, match=words):
        read_bounds(bounds, 2, ("age", "fee"))
