"""Rows with missing values: read them, and group them by what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray, as_floats, check_masks, shown
from pm_dpgmm.privacy.noise import IntArray
from pm_dpgmm.records.columns import numbers_of
from pm_dpgmm.records.feature_names import names_of
from pm_dpgmm.records.reading import computed

BoolArray = NDArray[np.bool_]


def read_rows(data: Any, *, name: str = "observed") -> tuple[FloatArray, tuple[str, ...] | None]:
    """Numbers (N, D) with NaN for what is missing, and the column names of a table.

    Parameters
    ----------
    data : array_like, masked array, DataFrame (pandas, polars, Dask) or Arrow table, shape (N, D)
        Masked, NaN, NA and null entries are missing.
    name : str
        Of the parameter, for messages.

    Raises
    ------
    TypeError
        If ``data`` is not numeric, or holds masked arrays in a list, where masks are lost.
    ValueError
        If it has another number of dimensions, no row or column, or an infinite number.

    Examples
    --------
    >>> read_rows(np.ma.masked_greater([[1.0, 9.0]], 5))[0]
    array([[ 1., nan]])
    """
    columns = names_of(data)
    check_masks(data, name=name)
    try:
        if columns is not None:  # a table: column by column, NA and null are NaN
            rows = numbers_of(computed(data, columns))
        elif isinstance(data, np.ma.MaskedArray):
            rows = np.where(np.ma.getmaskarray(data), np.nan, as_floats(np.ma.getdata(data)))
        else:
            rows = np.array(as_floats(data))
    except (TypeError, ValueError, OverflowError):  # integers beyond floats
        raise TypeError(f"{name} must be numeric, got {shown(data)} of type {type(data).__name__}") from None
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"{name} must have shape (n_rows, n_features), got {rows.shape}")
    if np.isinf(rows).any():
        raise ValueError(f"{name} must hold finite numbers, or NaN where one is missing, got {rows[np.isinf(rows)][0]}")
    return rows, columns


def patterns(rows: FloatArray) -> tuple[BoolArray, IntArray]:
    """Which features are present in ``rows`` (N, D): the different patterns (M, D), and the index (N,) of each row's.

    Examples
    --------
    >>> present, which = patterns(np.array([[1.0, np.nan], [2.0, 3.0], [4.0, np.nan]]))
    >>> present.tolist(), which.tolist()
    ([[True, False], [True, True]], [0, 1, 0])
    """
    present, which = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    return present, which.ravel()
