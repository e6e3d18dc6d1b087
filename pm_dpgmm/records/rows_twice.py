"""Rows that two tables in memory, or two maps of a file, have in common: their people would count twice, at one price.

Only places in memory and in files are compared, never values, since people may be alike.
"""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

MOST_COMPARED = 10_000  # steps of a search for memory that two arrays have in common

Column = list[NDArray[Any]]  # its pieces, where they lie


def check_apart(tables: Sequence[Any]) -> None:
    """ValueError if one object is there twice, or two have rows in common in all columns; None is no table in memory.

    Seen are arrays and maps, frames of pandas (columns of NumPy's types) and polars, Arrow tables and what xarray holds
    in memory, as far as they share it without a copy; of Dask the object alone.
    """
    found = next(itertools.chain(_same(tables), _in_common(tables)), None)
    if found is not None:
        raise ValueError(f"X must have every row once, got rows of table {min(found)} again in table {max(found)}")


def _same(tables: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Places of one object that is not empty."""
    firsts: dict[int, int] = {}
    for i, table in enumerate(tables):
        if table is None:
            continue
        first = firsts.setdefault(id(table), i)
        if first != i:
            n_rows = table.shape[0]  # a Dask frame does not know its own
            if not (isinstance(n_rows, int) and n_rows == 0):
                yield first, i


def _in_common(tables: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Places of tables whose first columns overlap, if the others do: a column may be one for many tables."""
    for j, i in _overlapping([_column(table, 0) for table in tables]):
        n_columns = min(tables[j].shape[1], tables[i].shape[1])
        rest = (_overlapping([_column(tables[j], c), _column(tables[i], c)]) for c in range(1, n_columns))
        if all(any(True for _ in found) for found in rest):
            yield j, i


def _overlapping(columns: Sequence[Column]) -> Iterator[tuple[int, int]]:
    """Places of columns with memory, or a part of a file, in common; each is compared with those that reach as far."""
    spans = [(*_span(piece), i, piece) for i, column in enumerate(columns) for piece in column if piece.size]
    reaching: list[tuple[str, int, int, int, NDArray[Any]]] = []
    for space, low, high, i, piece in sorted(spans, key=lambda span: span[:3]):
        reaching = [before for before in reaching if before[0] == space and before[2] > low]
        for _, first, _, j, other in reaching:
            if i != j and (_share_file(other, piece, low - first) if space else _share_memory(other, piece)):
                yield j, i
        reaching.append((space, low, high, i, piece))


def _share_file(one: NDArray[Any], other: NDArray[Any], apart: int) -> bool:
    """Whether two maps of which the ends overlap have an entry in common: taken to, unless their steps are the same."""
    return one.strides != other.strides or apart % max(abs(one.strides[0]), 1) == 0


def _share_memory(one: NDArray[Any], other: NDArray[Any]) -> bool:
    with suppress(np.exceptions.TooHardError):
        return bool(np.shares_memory(one, other, max_work=MOST_COMPARED))
    return False


def _span(piece: NDArray[Any]) -> tuple[str, int, int]:
    """The file that a piece is a map of, or "" for memory, and where it begins and ends there."""
    low, high = byte_bounds(piece)
    whole: Any = piece
    while whole is not None and not _is_named_map(whole):
        whole = getattr(whole, "base", None)
    try:
        file = None if whole is None else os.stat(whole.filename)
    except OSError:  # it was deleted since; its map stays
        file = None
    if file is None:
        return "", low, high
    first = byte_bounds(np.frombuffer(whole._mmap, dtype=np.uint8))[0]
    shift = whole.offset - whole.offset % mmap.ALLOCATIONGRANULARITY - first
    return f"{file.st_dev} {file.st_ino}", low + shift, high + shift


def _is_named_map(array: Any) -> bool:
    return isinstance(array, np.memmap) and array.filename is not None


def _column(table: Any, place: int) -> Column:
    """Where a column lies; nothing where it would have to be made first."""
    with suppress(Exception):  # of a foreign table: what cannot be had without a copy lies nowhere
        if isinstance(table, np.ndarray):
            return [table[:, place]]
        if hasattr(type(table), "iloc"):
            column = table.iloc[:, place]
            return [column.to_numpy(copy=False)] if isinstance(column.dtype, np.dtype) else []
        if isinstance(getattr(table, "data", None), np.ndarray):  # xarray
            return [table.data[:, place]]
        if hasattr(table, "to_series"):
            return [piece.to_numpy(allow_copy=False) for piece in table.to_series(place).get_chunks()]
        if hasattr(table, "column_names"):
            return [chunk.to_numpy(zero_copy_only=True) for chunk in table.column(place).chunks]
    return []
