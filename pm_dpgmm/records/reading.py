"""Reading and checking the records and their public bounds, before any budget is spent. Proof: reading.md.

Errors about values (a NaN, a constant column) are for the curator who holds the records; do not publish them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, read_numbers, shown
from pm_dpgmm.records.columns import numbers_of
from pm_dpgmm.records.csv_and_parquet import file_blocks
from pm_dpgmm.records.feature_names import (
    as_mapping,
    axes_in_order,
    axis_labels,
    column_labels,
    in_order,
    names_given,
    names_of_features,
    names_of_records,
    positions,
    selected,
)

# names of columns of a table of bounds, in small letters
ENDS = [("low", "high"), ("lower", "upper"), ("min", "max"), ("minimum", "maximum"), ("from", "to"), ("left", "right")]


def read_records(
    X: Any, *, columns: Sequence[str] | None = None, few: bool = False
) -> tuple[FloatArray, tuple[str, ...]]:
    """Records as an array of floats, with the names of the columns.

    Every number depends on its own text or entry alone, so that changing one record changes one row.

    Parameters
    ----------
    X : array_like, DataFrame, Arrow table, Dask collection or path
        Shape (N, D), or (N,) for one column. Tables keep their column names; a path ends in .csv (UTF-8, with a
        header, commas between fields, points in numbers) or .parquet.
    columns : sequence of str, optional
        Columns of a file or table to read, in this order; the others are not looked at. All by default. Of an array,
        which has no names: names for all of its columns.
    few : bool
        Whether also no rows, and equal ones, are records.

    Returns
    -------
    records : ndarray, shape (N, D)
    feature_names : tuple of str, length D

    Raises
    ------
    TypeError
        If the values are not numbers.
    ValueError
        If the shape is wrong, a file is no such table, a name is a number or its text, a value is missing, NaN or
        infinite, there are no rows, a column is constant, or ``columns`` names others than there are, or too few
        of an array.
    FileNotFoundError
        If the path does not exist.
    ImportError
        If a .parquet file is given and pyarrow is not installed.
    """
    names: tuple[str, ...] | None
    if isinstance(X, (str, os.PathLike)):
        blocks, found = zip(*file_blocks(Path(X), columns=columns), strict=True)
        records, names = np.concatenate(blocks), found[0]
    else:
        names = names_of_records(X)
        if names is None and hasattr(type(X), "compute"):  # dask.delayed
            X = X.compute()
            names = names_of_records(X)
        X, names = chosen_columns(X, names, columns)
        records = numbers_of(computed(X, names))
    if 0 in records.shape[int(few) :]:
        raise ValueError(f"X must have at least one row and one column, got shape {records.shape}")
    if names is None and columns is not None:
        names = names_given(columns, records.shape[1])
    feature_names = names_of_features(names, records.shape[1])
    check_finite(records, feature_names)
    if not few:
        check_varies(records.min(axis=0), records.max(axis=0), len(records), feature_names)
    return records, feature_names


def chosen_columns(
    X: Any, names: tuple[str, ...] | None, columns: Sequence[str] | None
) -> tuple[Any, tuple[str, ...] | None]:
    """The columns of a table with their names, ``names`` or those chosen; a table without names as it is."""
    if columns is None or names is None:
        return X, names
    wanted = positions(columns, names_of_features(names, len(names)))
    return selected(X, wanted), tuple(names[j] for j in wanted)


def computed(X: Any, names: tuple[str, ...] | None) -> Any:
    """A Dask collection in memory, anything else as it is.

    Its partitions need not have the columns, or their order, that it says it has.
    """
    if not hasattr(type(X), "compute"):
        return X
    if names is None:
        return X.compute()
    rule = f"X must have the columns {shown(names)} in every partition"
    try:
        table = X.compute()
        found = names_of_records(table)
    except KeyError as error:
        raise ValueError(f"{rule}, got one without {error}") from None
    except ValueError as error:
        if "provided metadata" not in str(error):  # older releases of Dask look, too
            raise
        raise ValueError(f"{rule}, got others: {' '.join(str(error).split())}") from None
    except AttributeError as error:  # of Dask where partitions are no tables, or of the caller's own functions
        raise ValueError(f"{rule}; computing them ended with AttributeError: {error}") from error
    if found is None or sorted(found) != sorted(names):
        raise ValueError(f"{rule}, got {shown(found)}")
    return table if found == names else selected(table, [found.index(name) for name in names])


def check_finite(records: FloatArray, feature_names: tuple[str, ...], *, first_row: int = 0) -> None:
    """Refuse NaN and infinite values; rows are counted from ``first_row``."""
    # NaN passes through both; the extremes need less memory than a mask of all values
    extremes = np.stack([records.min(axis=0, initial=0.0), records.max(axis=0, initial=0.0)])
    if not np.isfinite(extremes).all():
        row, column = np.argwhere(~np.isfinite(records))[0]
        raise ValueError(
            f"X must be finite, got {records[row, column]} in column {feature_names[column]!r} (row {first_row + row},"
            " counted from 0); leave such records out, which needs neighbouring='add-remove', as how many there are is"
            " private, or put a public number in their place"
        )


def check_varies(low: FloatArray, high: FloatArray, n_records: int, feature_names: tuple[str, ...]) -> None:
    """Refuse a constant column, unless there is one record only."""
    constant = low == high
    if n_records > 1 and constant.any():
        raise ValueError(
            f"X must vary in every column, got a constant column {feature_names[int(np.argmax(constant))]!r}; drop it"
        )


def read_bounds(bounds: Any, n_features: int, feature_names: tuple[str, ...] | None = None) -> FloatArray | None:
    """Bounds as an array (D, 2), from None, (low, high) for all columns, (D, 2), or a mapping by name of column.

    With two columns, a 2 x 2 array is read as one (low, high) pair per column. Of a data frame either the rows are
    labelled by the names of the columns, or its own columns have them, and low and high are its two rows; rows that are
    labelled by other texts are refused where ``feature_names``, the names of the columns, are known, and 2 x 2 numbers
    whose columns have other names than low and high or the like.

    Raises
    ------
    TypeError, ValueError
        If they are not numeric, of another shape, not finite, or reversed, or labelled by other names.
    """
    if bounds is None:
        return None
    own = names_of_features(feature_names, n_features)
    by_name = as_mapping(bounds, own, name="bounds")
    if isinstance(by_name, Mapping) and not _of_all_columns(by_name, bounds):
        bounds = _listed(by_name, own)
    elif _has_columns(bounds, own):
        bounds = read_numbers(in_order(bounds, own, name="bounds"), "bounds").T
    elif feature_names is not None or set(axis_labels(bounds, 0, own) or ()) & set(own):
        bounds = axes_in_order(bounds, (own, None), name="rows of bounds")
    values = read_numbers(bounds, "bounds")
    if values.shape == (2,):
        values = np.tile(values, (n_features, 1))
    if values.shape != (n_features, 2):
        raise ValueError(f"bounds must be (low, high) or have shape ({n_features}, 2), got shape {values.shape}")
    for name, (low, high) in zip(own, values.tolist(), strict=True):
        if not np.isfinite([low, high]).all():
            raise ValueError(f"bounds must be finite, got {shown([low, high])} for column {shown(name)}")
        if not low < high:
            raise ValueError(f"bounds must have low < high, got {shown([low, high])} for column {shown(name)}")
    return values


def _has_columns(bounds: Any, names: Sequence[str]) -> bool:
    """Whether the columns of a data frame, and not its rows, are named as the columns of X are, one or more of them.

    ValueError where rows and columns are, and where neither are and 2 x 2 numbers do not show which way round they are.
    """
    columns, rows = column_labels(bounds, names), axis_labels(bounds, 0, names)
    two_by_two = len(names) == 2 and rows is None and getattr(bounds, "shape", ()) == (2, 2)
    as_ends = tuple(column.strip().lower() for column in columns) in ENDS
    if not set(columns) & set(names):
        if columns and two_by_two and not as_ends:
            raise ValueError(
                f"bounds must have the columns {shown(tuple(names))}, or 'low' and 'high', or names for its rows, got"
                f" {shown(columns)}: which way round two by two numbers are to be read does not show"
            )
        return False
    of_rows = rows is not None and set(rows) == set(names)
    if of_rows and set(columns) == set(names):
        raise ValueError(
            f"bounds must be a dict by name of column, got a table of which rows and columns are both named"
            f" {shown(tuple(names))}"
        )
    if two_by_two and as_ends:
        raise ValueError(
            f"bounds must be a dict by name of column, got a table of which the columns {shown(columns)} may be ends or"
            " columns of X, which has these names, too"
        )
    return not of_rows


def _of_all_columns(by_name: Mapping[Any, Any], bounds: Any) -> bool:
    """Whether a labelled Series is one pair for all columns: two numbers that are called low and high, or by place."""
    labels = tuple(str(label).strip().lower() for label in by_name)
    numbers = len(by_name) == 2 and all(np.ndim(value) == 0 for value in by_name.values())
    return by_name is not bounds and numbers and labels in [*ENDS, ("0", "1")]


def _listed(bounds: Mapping[Any, Any], names: Sequence[str]) -> Any:
    """Pairs in the order of the columns; ValueError unless every column has one, and nothing else does."""
    if set(bounds) != set(names):
        raise ValueError(
            f"bounds must name the columns {shown(names)} and no others (or low and high, in a Series of two numbers),"
            f" got {shown(list(bounds))}"
        )
    for name in names:
        if np.shape(bounds[name]) != (2,):
            raise ValueError(f"bounds must be (low, high), got {shown(bounds[name])} for column {shown(name)}")
    return [bounds[name] for name in names]
