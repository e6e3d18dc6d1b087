"""Names of columns, from a series too: they are published, so a name that is somebody's value is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.records.feature_names import in_order
from pm_dpgmm.records.reading import read_bounds, read_records
from pm_dpgmm.records.resolution import read_resolution

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


LIMITS = {"weight": [20.0, 300.0], "age": [0.0, 110.0]}
FRAMES = {
    "columns of pandas": pd.DataFrame(LIMITS),
    "columns of pandas, rows named": pd.DataFrame(LIMITS, index=["low", "high"]),
    "columns of polars": pl.DataFrame(LIMITS),
    "columns of Arrow": pa.table(LIMITS),
    "columns of xarray": xr.DataArray(
        [[20.0, 0.0], [300.0, 110.0]], coords={"limit": ["low", "high"], "column": ["weight", "age"]}
    ),
    "rows of pandas": pd.DataFrame(LIMITS).T,
    "rows of pandas, columns named": pd.DataFrame(LIMITS, index=["age", "high"]).T,
    "pairs": pd.Series({"weight": (20.0, 300.0), "age": (0.0, 110.0)}),
    "places": pd.DataFrame({"low": [0.0, 20.0], "high": [110.0, 300.0]}),
}


@pytest.mark.parametrize("bounds", FRAMES.values(), ids=list(FRAMES))
def test_bounds_in_tables_belong_to_the_columns_that_they_name(bounds):
    assert read_bounds(bounds, 2, ("age", "weight")).tolist() == [[0.0, 110.0], [20.0, 300.0]]


LEVELS = pd.MultiIndex.from_tuples([("blood", "age"), ("body", "weight")])
OTHER_LABELS = {
    "no names": (["x1", "x0"], None),
    "numbers": ([1, 0], ("0", "1")),
    "several header lines": (LEVELS[::-1], tuple(map(str, LEVELS))),
}


@pytest.mark.parametrize("labels, names", OTHER_LABELS.values(), ids=list(OTHER_LABELS))
def test_labels_that_are_no_texts_belong_to_the_columns_that_they_name(labels, names):
    rows = pd.DataFrame([[20.0, 300.0], [0.0, 110.0]], index=labels)
    pairs = pd.Series([(20.0, 300.0), (0.0, 110.0)], index=labels)
    for bounds in (rows, rows.T, pairs, xr.DataArray(rows.to_numpy(), coords={"column": labels}, dims=["column", "b"])):
        assert read_bounds(bounds, 2, names).tolist() == [[0.0, 110.0], [20.0, 300.0]]
    steps = read_resolution(pd.Series([5.0, 1.0], index=labels), names or ("x0", "x1"), None)
    assert steps.tolist() == [1.0, 5.0]


def test_numbers_of_columns_in_another_order_are_names_also_where_the_labels_count_from_0():
    """They were taken by place there, and by name only where the rows of bounds were in yet another order."""
    rows = pd.DataFrame({"low": [0.0, 20.0], "high": [110.0, 300.0]})
    for bounds in (rows, rows[::-1], rows.T, pd.Series([(0.0, 110.0), (20.0, 300.0)])):
        assert read_bounds(bounds, 2, ("1", "0")).tolist() == [[20.0, 300.0], [0.0, 110.0]]
    assert read_resolution(pd.Series([5.0, 1.0]), ("1", "0"), None).tolist() == [1.0, 5.0]
    with pytest.raises(ValueError, match="rows and columns are both named"):
        read_bounds(pd.DataFrame(rows.to_numpy()), 2, ("1", "0"))


def test_points_with_numbers_for_labels_belong_to_columns_of_those_numbers():
    points = xr.DataArray([[2.0, 1.0]], dims=("point", "column"), coords={"column": [1, 0]})
    assert in_order(points, ("0", "1"), name="points").to_numpy().tolist() == [[1.0, 2.0]]


def test_numbers_of_rows_are_no_labels():
    """An index that is left of a larger table, or 0 and 1, of which each could be a row or a column."""
    table = pd.DataFrame([[0.0, 110.0], [20.0, 300.0]])
    for index in ([0, 1], [7, 3]):
        for names in (None, ("0", "1"), ("a", "b")):
            assert read_bounds(table.set_axis(index), 2, names).tolist() == [[0.0, 110.0], [20.0, 300.0]]


def test_columns_of_bounds_are_no_rows_where_columns_of_x_are_named():
    """In two columns the table read the other way round is a table of bounds, too: (0, 20) and (110, 300)."""
    X = pd.DataFrame({"age": [40.0, 50.0], "weight": [70.0, 80.0]})
    assert read_bounds(pd.DataFrame({"age": [0, 110], "weight": [20, 300]}), 2, tuple(X))[0].tolist() == [0.0, 110.0]
    assert read_bounds(pd.DataFrame({"x0": [0, 110], "x1": [20, 300]}), 2)[0].tolist() == [0.0, 110.0]
    with pytest.raises(ValueError, match="which way round two by two numbers are to be read does not show"):
        read_bounds(pd.DataFrame({"age": [0, 110], "weight": [20, 300]}), 2)  # of an array
    pairs = pd.DataFrame({"Lower": [0, 20], "Upper": [110, 300]})
    assert read_bounds(pairs, 2)[0].tolist() == read_bounds(pairs, 2, tuple(X))[0].tolist() == [0.0, 110.0]


@pytest.mark.parametrize(
    "bounds, words",
    [
        (pd.DataFrame({"age": [0, 110], "wieght": [20, 300]}), "bounds must have the columns .* and no others"),
        (pd.DataFrame({"Age": [0, 110], "Weight": [20, 300]}), "bounds must have the columns .*, or 'low' and 'high'"),
        (pl.DataFrame([[0, 110], [20, 300]]), "bounds must have the columns .*, or 'low' and 'high'"),
        (pd.DataFrame({"age": [0, 110]}), "bounds must have the columns .* and no others"),
        (pd.DataFrame({"age": [0, 1, 2], "weight": [1, 2, 3]}), r"bounds must be \(low, high\) or have shape"),
        (pd.Series({"age": 0.0, "weight": 110.0}), r"bounds must be \(low, high\), got 0.0 for column 'age'"),
        (
            pd.DataFrame([[0, 1], [2, 3]], index=["age", "weight"], columns=["weight", "age"]),
            "bounds must be a dict by name of column, got a table of which rows and columns are both named",
        ),
    ],
)
def test_tables_of_bounds_with_other_names_are_refused(bounds, words):
    with pytest.raises(ValueError, match=words):
        read_bounds(bounds, 2, ("age", "weight"))


@pytest.mark.parametrize("columns", [["low", "high"], ["Lower", "Upper"]])
def test_bounds_of_columns_that_are_called_low_and_high_must_be_named(columns):
    """A table with these columns was read as one whose rows are ends, and no word was said."""
    table = pd.DataFrame([[30, 150], [50, 250]], columns=columns)
    with pytest.raises(ValueError, match="may be ends or columns of X"):
        read_bounds(table, 2, tuple(columns))
    named = table.set_axis(columns, axis=0)
    with pytest.raises(ValueError, match="rows and columns are both named"):
        read_bounds(named, 2, tuple(columns))
    assert read_bounds({columns[0]: (30, 50), columns[1]: (150, 250)}, 2, tuple(columns)).tolist()[0] == [30, 50]


@pytest.mark.parametrize(
    "setting",
    [
        lambda given: SketchMethod(reg_covar=given),
        lambda given: dpg.LocalMethod(centre=given),
        lambda given: dpg.LocalMethod(scale=given),
        lambda given: dpg.LocalProtocol.design(2, epsilon=1.0, centre=given, scale=1.0),
        lambda given: dpg.LocalProtocol.design(2, epsilon=1.0, scale=given),
        lambda given: dpg.LocalProtocol.design(2, epsilon=1.0, bounds=pd.DataFrame([given, given + 1])),
        lambda given: dpg.LocalProtocol.design(2, epsilon=1.0, bounds=pd.DataFrame([given, given + 1]).T),
        lambda given: dpg.EM(estimate="k-means", start=given.to_frame().T),
        lambda given: dpg.EM(estimate="k-means", start=pl.from_pandas(given.to_frame().T)),
    ],
)
def test_settings_that_know_no_names_take_none(setting):
    with pytest.raises(TypeError, match=r"must be numbers in the order of the columns of X, got names, \('b', 'a'\)"):
        setting(pd.Series({"b": 1.0, "a": 2.0}))


def test_settings_without_names_may_be_series():
    given = pd.Series([1.0, 2.0])
    assert SketchMethod(reg_covar=given).reg_covar == dpg.LocalMethod(scale=given).scale == (1.0, 2.0)
    assert dpg.EM(estimate="k-means", start=given.to_frame().T).start == ((1.0, 2.0),)


def test_a_label_that_is_there_twice_is_refused():
    """The last entry won in silence."""
    with pytest.raises(ValueError, match=r"resolution must have one entry for each column, got labels \('a', 'a'\)"):
        read_resolution(pd.Series([1.0, 0.5], index=["a", "a"]), ("a", "b"), None)
    with pytest.raises(ValueError, match="bounds must have one entry for each column"):
        read_bounds(pd.Series([(1.0, 5.0), (2.0, 9.0), (3.0, 4.0)], index=["a", "b", "b"]), 2, ("a", "b"))


def test_two_numbers_are_bounds_of_all_columns_only_without_other_names():
    assert read_bounds(pd.Series({"Low": 0.0, "High": 9.0}), 2, ("a", "b")).tolist() == [[0.0, 9.0]] * 2
    for names in (("a", "b"), ("0", "1"), ("1", "0"), ("low", "high")):
        assert read_bounds(pd.Series([0.0, 9.0]), 2, names).tolist() == [[0.0, 9.0]] * 2
    pairs = pd.Series([(0.0, 1.0), (2.0, 3.0)], index=["low", "high"])
    assert read_bounds(pairs, 2, ("low", "high")).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    for names in (None, ("a", "b")):
        with pytest.raises(ValueError, match=r"bounds must name the columns .* and no others \(or low and high"):
            read_bounds(pd.Series({"height": 0.0, "age": 9.0}), 2, names)


def test_numbers_in_another_order_are_names_of_columns_of_xarray_as_of_pandas():
    rows = np.array([[1.0, 20.0, 300.0], [2.0, 10.0, 100.0]])
    table = xr.DataArray(rows, dims=("row", "column"), coords={"column": [2, 0, 1]})
    for X in (table, table.to_pandas()):
        names = read_records(X)[1]
        assert names == ("2", "0", "1")
        limits = pd.DataFrame({"low": [0.0, 2.0, 1.0], "high": [9.0, 8.0, 7.0]}, index=[0, 2, 1])
        assert read_bounds(limits, 3, names).tolist() == [[2.0, 8.0], [0.0, 9.0], [1.0, 7.0]]
    for labels in ([0, 1, 2], [10, 20, 30]):
        assert read_records(table.assign_coords(column=labels))[1] == ("x0", "x1", "x2")
