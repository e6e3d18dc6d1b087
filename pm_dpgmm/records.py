"""Reading and checking the records and their public bounds, before any budget is spent.

Errors about values (a NaN, a constant column) are for the curator who holds the records; do not publish them.
"""

from __future__ import annotations

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
        _check_header(X)
    names = getattr(X, "columns", None)
    if hasattr(X, "compute"):  # Dask
        X = X.compute()
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    try:
        values = np.asarray(X)
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
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"X must have one row per record and one column per feature, got shape {values.shape}")
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise ValueError(f"X must have at least one row and one column, got shape {values.shape}")
    records = np.array(values, dtype=float)
    feature_names = _feature_names(names, records.shape[1])
    bad = ~np.isfinite(records)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"X must be finite, got {records[row, column]} in column {feature_names[column]!r} (row {row});"
            " drop or impute missing values before the fit"
        )
    constant = records.min(axis=0) == records.max(axis=0)
    if len(records) > 1 and constant.any():
        raise ValueError(
            f"X must vary in every column, got a constant column {feature_names[int(np.argmax(constant))]!r}; drop it"
        )
    return records, feature_names


def _check_header(table: Any) -> None:
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


def _feature_names(names: Any, n_features: int) -> tuple[str, ...]:
    if names is None or len(names) != n_features:
        return tuple(f"x{j}" for j in range(n_features))
    texts = tuple(map(str, names))
    if len(set(texts)) != len(texts):
        raise ValueError(f"X must have distinct column names, got {shown(list(texts))}")
    return texts


def _read_file(path: Path) -> Any:
    if path.suffix not in SUFFIXES:
        raise ValueError(f"X must be a path that ends in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"X must be an existing file, got {str(path)!r}")
    import pandas as pd

    try:
        return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except ImportError:
        raise ImportError(
            "X must be readable: a .parquet file needs pyarrow (pip install 'pm_dpgmm[parquet]')"
        ) from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"X must be a readable table, got {str(path)!r}: {error}") from None


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
