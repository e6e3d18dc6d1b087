"""Tables in memory as floats: every entry by itself, every column by its own type. Proof: columns.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from decimal import Decimal
from typing import Any

import numpy as np

from pm_dpgmm._arguments import TIMES, FloatArray, check_masks, is_missing
from pm_dpgmm.records.feature_names import is_labelled_array, names_of

NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal)
CATEGORIES = (
    "leave it out by columns=, fit each level with fit_levels(by=...), or write a level as 0 and 1 with resolution=1,"
    " and a date as days since a public day"
)


def numbers_of(table: Any) -> FloatArray:
    """A new array of floats, shape (N, D), from an array or table of numbers; (N,) is one column.

    NaN stands for entries that are masked, None or NA. Columns of a table are converted one by one, so that the type
    of one does not touch the values of another.

    Raises
    ------
    TypeError, ValueError
        If the values are not numbers, or not in rows and columns, as in a struct within a data frame, or masked within
        a list, where masks are lost.
    """
    names = names_of(table)
    if names is not None:
        columns = [floats_of(column, name=name) for name, column in zip(names, _columns(table), strict=True)]
        for name, column in zip(names, columns, strict=True):
            if column.ndim != 1:  # a struct or an array of polars
                raise TypeError(
                    f"X must have one number for each record in a column, got {column.shape[1:]} in column {name!r};"
                    " spread it over columns of its own"
                )
        return np.column_stack(columns) if columns else np.empty((len(table), 0))
    _check_rows(table)
    check_masks(table, name="X")
    mask = np.ma.getmask(table)
    try:
        values = floats_of(_values_without_names(table))
    except ValueError:  # ragged rows
        raise ValueError("X must have rows of equal length, got ragged rows") from None
    check_two_dimensional(values.shape)
    if mask is not np.ma.nomask:
        values[mask] = np.nan
    return values[:, None] if values.ndim == 1 else values


def _values_without_names(table: Any) -> Any:
    if hasattr(type(table), "to_frame") and not hasattr(type(table), "iloc"):  # a column of polars
        return _polars_values(table)
    if hasattr(type(table), "dictionary_encode"):  # a column of Arrow, in one piece or in several
        return arrow_values(table)
    return table.to_numpy() if hasattr(table, "to_numpy") else np.asarray(table)


def _check_rows(table: Any) -> None:
    """Refuse what NumPy takes for one value, or for the numbers of its bytes."""
    if isinstance(table, Mapping):
        hint = "; make a data frame of it"
    elif hasattr(type(table), "tocsr"):
        hint = "; X.toarray() is one"
    elif isinstance(table, (str, bytes, bytearray, Set, Iterator)):
        hint = ""
    else:
        return
    raise TypeError(f"X must be an array or table with a row for each record, got {type(table).__name__}{hint}")


def check_in_memory(table: Any) -> None:
    """TypeError for what has no rows, or named columns of a kind that is not read here, as a query that was not run."""
    kinds = ("iloc", "column_names", "to_series")
    if names_of(table) is None:
        _check_rows(table)
        return
    if is_labelled_array(table) or any(hasattr(type(table), kind) for kind in kinds):
        return
    raise TypeError(f"X must be a table in memory, got {type(table).__name__}; collect it first")


def _columns(table: Any) -> Iterable[Any]:
    check_in_memory(table)
    if hasattr(type(table), "iloc"):
        return (_pandas_values(table.iloc[:, j]) for j in range(table.shape[1]))
    if is_labelled_array(table):
        return table.to_numpy().T
    if hasattr(type(table), "column_names"):
        return (arrow_values(table.column(j)) for j in range(table.num_columns))
    return (_polars_values(table.to_series(j)) for j in range(table.shape[1]))


def _pandas_values(column: Any) -> Any:
    try:
        return column.to_numpy()
    except NotImplementedError:  # types of Arrow for which there is nothing in NumPy
        raise TypeError(_other_types(str(column.name))) from None


def _polars_values(column: Any) -> Any:
    """A column of polars as a NumPy array; integers of 128 bits, of which NumPy has none, as objects."""
    if str(column.dtype) in ("Int128", "UInt128"):
        return np.array([*column.to_list(), None], dtype=object)[:-1]
    kinds = {"Date": "datetime64[us]", "Dura": "timedelta64[us]"}  # refused as such; polars 1.0 cannot convert them
    if kind := kinds.get(str(column.dtype)[:4]):
        return np.empty(len(column), kind)
    return column.to_numpy()


def _other_types(name: str | None) -> str:
    where, help_ = ("", "encode or drop those columns") if name is None else (f" in column {name!r}", CATEGORIES)
    return f"X must be numeric, got values of other types{where} ({help_})"


def arrow_values(column: Any) -> Any:
    """An Arrow column as a NumPy array of the type that the column declares; a dictionary's as that of its values."""
    if hasattr(column.type, "index_type"):
        column = column.cast(column.type.value_type)
    try:
        return column.to_numpy(zero_copy_only=False)
    except NotImplementedError:  # of Arrow: types for which there is nothing in NumPy, such as unions
        raise TypeError(_other_types(None)) from None


def floats_of(values: Any, *, name: str | None = None) -> FloatArray:
    """Every entry of an array of numbers as the nearest float, in a new array of its shape; ``name`` is of a column.

    Raises
    ------
    TypeError
        If an entry is no number, or an integer beyond the largest float.
    """
    values = np.asarray(values)
    if values.dtype.kind == "O":
        entries = values.ravel()
        if not all((isinstance(v, NUMBERS) and not isinstance(v, np.timedelta64)) or is_missing(v) for v in entries):
            raise TypeError(_other_types(name))
        try:
            floats = [np.nan if is_missing(v) else float(v) for v in entries]
        except (ValueError, OverflowError):
            raise TypeError(_other_types(name)) from None
        return np.array(floats, dtype=float).reshape(values.shape)
    if values.dtype.kind not in "buif":
        where = "" if name is None else f" in column {name!r}"
        raise TypeError(f"X must be numeric, got dtype {values.dtype}{where}{TIMES.get(values.dtype.kind, '')}")
    return np.array(values, dtype=float, order="C")


def check_two_dimensional(shape: tuple[float, ...]) -> None:
    """Refuse what is neither one column (N,) nor a table (N, D)."""
    if len(shape) not in (1, 2):
        raise ValueError(f"X must have one row per record and one column per feature, got shape {shape}")
