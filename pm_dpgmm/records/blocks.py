"""Records that do not fit in memory: checked in one pass, then read block by block, as often as needed.

Errors about values are for the curator who holds the records, as in reading.py; do not publish them.
Proof: blocks.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, shown
from pm_dpgmm.records.columns import check_in_memory, check_two_dimensional, numbers_of
from pm_dpgmm.records.csv_and_parquet import check_file, file_blocks
from pm_dpgmm.records.feature_names import (
    is_labelled_array,
    listed_names,
    names_given,
    names_of_features,
    names_of_records,
)
from pm_dpgmm.records.reading import check_finite, check_varies, chosen_columns, computed
from pm_dpgmm.records.rows_twice import check_apart


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class RecordBlocks:
    """Records as blocks of rows: every iteration reads the source again and yields arrays (n, D) of finite floats.

    At no time is more in memory than one block and what the source needs to make it: one partition of a Dask
    collection, one batch of a file. Blocks are copies. Their sizes and order follow the source; the sums of a sketch
    depend on neither.

    Parameters
    ----------
    X : array (N, D) or (N,), memmap, DataFrame, DataArray, Arrow table, Dask array or frame, path, or list of these
        The records, one row per person. A path is a .csv file (with a header), a .parquet file, or a folder of .parquet
        files and of nothing else, but for what begins with . and files that begin with _; no file or array may be there
        twice, nor rows that two tables share without a copy. In a list every part is a table of two dimensions or a
        path, with the same columns; a list of anything else is a list of rows. Not copied: X must hold the same rows as
        long as the blocks are in use. Dask partitions are computed at every iteration; store or persist what is
        expensive. A .parquet file is read about ten times as fast as a .csv file.
    columns : sequence of str, optional
        Columns to use, in this order, by public choice; others may hold anything (in a .csv file, any text in
        UTF-8). Of arrays, which have no names, the names of all their columns. All by default.
    rows_per_block : int
        No block has more rows.

    Attributes
    ----------
    source : object
        ``X``; paths with their folder, so that a change of the working directory leads to no other file.
    feature_names : tuple of str, length D
    n_records : int
        Number of rows; private under add-remove neighbours.
    columns : tuple of str, length D, or None
    rows_per_block : int

    Raises
    ------
    TypeError, ValueError, FileNotFoundError, ImportError
        As :func:`pm_dpgmm.records.reading.read_records` does, or if parts have different columns. Iteration raises them
        too, and ValueError if there are more or fewer rows than at first; a file changed otherwise is not noticed.

    Examples
    --------
    >>> blocks = RecordBlocks(np.arange(10.0).reshape(5, 2), rows_per_block=2)
    >>> blocks.n_records, blocks.feature_names, [block.shape for block in blocks]
    (5, ('x0', 'x1'), [(2, 2), (2, 2), (1, 2)])
    >>> [block[0, 0] for block in blocks]  # again
    [np.float64(0.0), np.float64(4.0), np.float64(8.0)]
    """

    source: Any
    feature_names: tuple[str, ...]
    n_records: int
    columns: tuple[str, ...] | None
    rows_per_block: int

    def __init__(self, X: Any, *, columns: Sequence[str] | None = None, rows_per_block: int = 65_536) -> None:
        check_count(rows_per_block=rows_per_block)
        chosen = None if columns is None else tuple(listed_names(columns))
        _check_once(X)
        low, high, n_records = np.array(np.inf), np.array(-np.inf), 0
        names: tuple[str, ...] = ()
        for records, found in _checked(X, rows_per_block, chosen):
            names = found  # the same for all
            n_records += len(records)
            low = np.minimum(low, records.min(axis=0, initial=np.inf))
            high = np.maximum(high, records.max(axis=0, initial=-np.inf))
        if n_records == 0:
            raise ValueError(f"X must have at least one row and one column, got shape (0, {len(names)})")
        check_varies(low, high, n_records, names)
        fields = {
            "source": _placed(X),
            "feature_names": names,
            "n_records": n_records,
            "columns": chosen,
            "rows_per_block": int(rows_per_block),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return len(self.feature_names)

    def __iter__(self) -> Iterator[FloatArray]:
        n_records = 0
        for records, names in _checked(self.source, self.rows_per_block, self.columns):
            if names != self.feature_names:
                raise ValueError(f"X must have columns {shown(self.feature_names)} at every pass, got {shown(names)}")
            n_records += len(records)
            if n_records > self.n_records:
                raise ValueError("X must have the same number of rows at every pass, got more than at first")
            if len(records):
                yield records
        if n_records < self.n_records:
            raise ValueError("X must have the same number of rows at every pass, got fewer than at first")

    def __repr__(self) -> str:
        return f"<RecordBlocks: {self.n_features} features, at most {self.rows_per_block} rows to a block>"


# Numbers, names of columns, file where it is one of many
Piece = tuple[FloatArray, tuple[str, ...] | None, Path | None]


def _checked(source: Any, n_rows: int, columns: Sequence[str] | None) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
    """Blocks of finite numbers, perhaps empty, with the names of their columns: the same names for all."""
    first: tuple[str, ...] = ()
    n_records = n_before = 0
    file: Path | None = None
    for records, found, of_file in _pieces(source, n_rows, columns):
        if of_file != file:
            file, n_before = of_file, n_records
        with _named(file):
            if records.shape[1] == 0:
                raise ValueError(f"X must have at least one row and one column, got shape {records.shape}")
            if found is None and columns is not None:
                found = names_given(columns, records.shape[1])
            names = names_of_features(found, records.shape[1])
            first = first or names
            if names != first:
                raise ValueError(f"X must have the same columns in every part, got {shown(names)} after {shown(first)}")
            check_finite(records, names, first_row=n_records - (n_before if file else 0))
        n_records += len(records)
        yield records, names


@contextmanager
def _named(file: Path | None) -> Iterator[None]:
    """Errors about values say which file they are about; None: it is the only one."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if file is None or repr(str(file)) in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{error}; this is in {str(file)!r}") from None


def _pieces(source: Any, n_rows: int, columns: Sequence[str] | None, *, one_of_many: bool = False) -> Iterator[Piece]:
    """At most ``n_rows`` rows, one piece after the other; unchecked."""
    if isinstance(source, (str, os.PathLike)):
        files = _files(Path(source))
        for file in files:
            name = file if one_of_many or len(files) > 1 else None
            with _named(name):
                for numbers, found in file_blocks(file, n_rows=n_rows, columns=columns):
                    yield numbers, found, name
    elif _is_list_of_tables(source):
        for part in source:
            yield from _pieces(part, n_rows, columns, one_of_many=len(source) > 1)
    elif is_labelled_array(source) and source.chunks is not None:  # of xarray, with an array of Dask in it
        source, names = chosen_columns(source, names_of_records(source), columns)
        yield from ((numbers, names, None) for numbers, _, _ in _pieces(source.data, n_rows, None))
    elif isinstance(getattr(source, "npartitions", None), int):  # Dask
        if not hasattr(source, "partitions"):
            raise TypeError(f"X must be an array or data frame of Dask, got a {type(source).__name__}")
        if hasattr(source, "rechunk"):
            check_two_dimensional(source.shape)
            source = source.rechunk({1: -1}) if source.ndim == 2 else source  # whole rows
        names = names_of_records(source)
        for i in range(source.npartitions):
            yield from ((*piece, None) for piece in _slices(computed(source.partitions[i], names), n_rows, columns))
    else:
        yield from ((*piece, None) for piece in _slices(source, n_rows, columns))


def _placed(source: Any) -> Any:
    """The same with absolute paths, links kept."""
    if isinstance(source, (str, os.PathLike)):
        return Path(os.path.abspath(source))
    if _is_list_of_tables(source):
        return [_placed(part) for part in source]
    return source


def _check_once(source: Any) -> None:
    """Raise if a file is there twice, under whatever names, or an array: its people would count twice, at one price."""
    seen: dict[tuple[int, int], Path] = {}
    parts = source if _is_list_of_tables(source) else [source]
    check_apart([None if isinstance(part, (str, os.PathLike)) else part for part in parts])
    for part in parts:
        for file in _files(Path(part)) if isinstance(part, (str, os.PathLike)) else ():
            found = file.stat()
            first = seen.setdefault((found.st_dev, found.st_ino), file)
            if first is not file:
                raise ValueError(f"X must have every file once, got {str(file)!r} after {str(first)!r}, the same file")


def _is_list_of_tables(source: Any) -> bool:
    return isinstance(source, (list, tuple)) and len(source) > 0 and all(map(_is_table, source))


def _is_table(part: Any) -> bool:
    shape = getattr(part, "shape", None)
    return isinstance(part, (str, os.PathLike)) or (isinstance(shape, tuple) and len(shape) == 2)


def _slices(
    table: Any, n_rows: int, columns: Sequence[str] | None
) -> Iterator[tuple[FloatArray, tuple[str, ...] | None]]:
    table = table.compute() if hasattr(type(table), "compute") else table  # a dask.delayed
    shape = getattr(table, "shape", None)
    if not (isinstance(shape, tuple) and len(shape) in (1, 2)):  # rows of a list
        table = numbers_of(table)
    check_in_memory(table)
    table, names = chosen_columns(table, names_of_records(table), columns)
    rows = table.iloc if hasattr(type(table), "iloc") else table
    for start in range(0, max(len(table), 1), n_rows):  # an empty table has columns to check too
        piece = rows[start : start + n_rows]
        yield numbers_of(piece), names


def _files(path: Path) -> list[Path]:
    """``path``, or the .parquet files of the folder ``path`` by name: nothing else may be there that could be records.

    What begins with . is none, nor is a file that begins with _: writers of parts leave _SUCCESS and _metadata.
    """
    if not path.is_dir():
        check_file(path)
        return [path]
    if not os.access(path, os.R_OK | os.X_OK):
        raise PermissionError(f"X must be a folder that can be read, got {str(path)!r}")
    visible = (entry for entry in path.iterdir() if not entry.name.startswith("."))
    files = sorted(entry for entry in visible if entry.is_dir() or not entry.name.startswith("_"))
    rule = "X must be a folder that holds .parquet files, none in folders inside it"
    if not files:
        raise ValueError(f"{rule}, got {str(path)!r}")
    other = [file.name for file in files if file.is_dir() or file.suffix.lower() != ".parquet"]
    if other:
        raise ValueError(f"{rule}, and no others, got {str(path)!r} with {shown(other[0])}")
    return files
