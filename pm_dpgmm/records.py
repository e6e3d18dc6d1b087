"""Reading and checking the records and their public bounds, before any budget is spent.

Errors about values (a NaN, a constant column) are for the curator who holds the records; do not publish them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, shown

SUFFIXES = (".csv", ".parquet")


def read_records(X: Any) -> tuple[FloatArray, tuple[str, ...]]:
    """Records as an array of floats, with the names of the columns.

    Parameters
    ----------
    X : array_like, DataFrame, Dask array or path
        Shape (N, D), or (N,) for one column. Data frames (pandas, polars) keep their column names; a path ends in
        .csv (with a header) or .parquet.

    Returns
    -------
    records : ndarray, shape (N, D)
    feature_names : tuple of str, length D

    Raises
    ------
    TypeError
        If the values are not numbers.
    ValueError
        If the shape is wrong, a value is NaN or infinite, there are no rows, or a column is constant.
    FileNotFoundError
        If the path does not exist.
    ImportError
        If a .parquet file is given and pyarrow is not installed.
    """
    if isinstance(X, (str, Path)):
        X = _read_file(Path(X))
        check_header(X)
    names = getattr(X, "columns", None)
    records = numbers_of(X.compute() if hasattr(X, "compute") else X)  # Dask
    if 0 in records.shape:
        raise ValueError(f"X must have at least one row and one column, got shape {records.shape}")
    feature_names = names_of_features(names, records.shape[1])
    check_finite(records, feature_names)
    check_varies(records.min(axis=0), records.max(axis=0), len(records), feature_names)
    return records, feature_names


def numbers_of(table: Any) -> FloatArray:
    """A new array of floats, shape (N, D), from an array or data frame of numbers; (N,) is one column.

    Raises
    ------
    TypeError, ValueError
        If the values are not numbers, or not in rows and columns.
    """
    if hasattr(table, "to_numpy"):
        table = table.to_numpy()
    try:
        values = np.asarray(table)
    except ValueError:  # ragged rows
        raise ValueError("X must have rows of equal length, got ragged rows") from None
    if values.dtype.kind == "O":  # mixed columns of a data frame: numbers of several types are fine
        if not all(isinstance(v, (int, float, np.number, np.bool_)) for v in values.ravel()):
            raise TypeError("X must be numeric, got values of other types (encode or drop those columns)")
        try:
            values = values.astype(float)
        except (TypeError, ValueError, OverflowError):
            raise TypeError("X must be numeric, got values of other types (encode or drop those columns)") from None
    if values.dtype.kind not in "buif":
        raise TypeError(f"X must be numeric, got dtype {values.dtype}")
    check_two_dimensional(values.shape)
    return np.array(values[:, None] if values.ndim == 1 else values, dtype=float)


def check_two_dimensional(shape: tuple[float, ...]) -> None:
    """Refuse what is neither one column (N,) nor a table (N, D)."""
    if len(shape) not in (1, 2):
        raise ValueError(f"X must have one row per record and one column per feature, got shape {shape}")


def check_finite(records: FloatArray, feature_names: tuple[str, ...], *, first_row: int = 0) -> None:
    """Refuse NaN and infinite values; rows are counted from ``first_row``."""
    # NaN passes through both; the extremes need less memory than a mask of all values
    extremes = np.stack([records.min(axis=0, initial=0.0), records.max(axis=0, initial=0.0)])
    if not np.isfinite(extremes).all():
        row, column = np.argwhere(~np.isfinite(records))[0]
        raise ValueError(
            f"X must be finite, got {records[row, column]} in column {feature_names[column]!r} (row {first_row + row});"
            " drop or impute missing values before the fit"
        )


def check_varies(low: FloatArray, high: FloatArray, n_records: int, feature_names: tuple[str, ...]) -> None:
    """Refuse a constant column, unless there is one record only."""
    constant = low == high
    if n_records > 1 and constant.any():
        raise ValueError(
            f"X must vary in every column, got a constant column {feature_names[int(np.argmax(constant))]!r}; drop it"
        )


def check_header(table: Any) -> None:
    """Refuse a file whose first line is a record: the names of the columns are published."""
    for name in table.columns:
        text = str(name)
        # pandas marks repeated names by .1, .2 and so on
        for candidate in (text, text.rpartition(".")[0]):
            try:
                float(candidate)
            except ValueError:
                continue
            raise ValueError("X must be a file with a header line of column names, got a number for a name")


def names_of_features(names: Any, n_features: int) -> tuple[str, ...]:
    """Names as text, or x0, x1 and so on; ValueError if two are equal."""
    if names is None or len(names) != n_features:
        return tuple(f"x{j}" for j in range(n_features))
    texts = tuple(map(str, names))
    if len(set(texts)) != len(texts):
        raise ValueError(f"X must have distinct column names, got {shown(list(texts))}")
    return texts


def check_file(path: Path) -> None:
    """Refuse a path that is no .csv or .parquet file."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"X must be a path that ends in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"X must be an existing file, got {str(path)!r}")


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """What readers raise about the file ``path``, in the words of this package."""
    try:
        yield
    except ImportError:
        raise ImportError(
            "X must be readable: a .parquet file needs pyarrow (pip install 'pm_dpgmm[parquet]')"
        ) from None
    except (ValueError, OSError) as error:  # of pandas and pyarrow
        raise ValueError(f"X must be a readable table, got {str(path)!r}: {error}") from None


def _read_file(path: Path) -> Any:
    check_file(path)
    import pandas as pd

    with readable(path):
        return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


def read_bounds(bounds: ArrayLike | None, n_features: int) -> FloatArray | None:
    """Bounds as an array (D, 2), from None, (low, high) for all columns, or (D, 2).

    With two columns, a 2 x 2 array is read as one (low, high) pair per column.

    Raises
    ------
    TypeError, ValueError
        If they are not numeric, of another shape, not finite, or reversed.
    """
    if bounds is None:
        return None
    try:
        values = np.asarray(bounds, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"bounds must be numbers, got {shown(bounds)}") from None
    if values.shape == (2,):
        values = np.tile(values, (n_features, 1))
    if values.shape != (n_features, 2):
        raise ValueError(f"bounds must be (low, high) or have shape ({n_features}, 2), got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"bounds must be finite, got {shown(values.tolist())}")
    if not (values[:, 0] < values[:, 1]).all():
        raise ValueError(f"bounds must have low < high in every column, got {shown(values.tolist())}")
    return values
