"""Files of records: every number is read from its own text or its own cell, by the same steps whatever else there is.

No step looks at other rows: a parser that chooses the type of a column from all of its cells would move the values of
other people when one record changes. Proof: csv_and_parquet.md. Errors about values are for the curator, as in
reading.py.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, shown
from pm_dpgmm.records.columns import CATEGORIES, arrow_values, floats_of
from pm_dpgmm.records.feature_names import MISSING, NO_NAMES, all_missing, is_value, positions

SUFFIXES = (".csv", ".parquet")
ROWS = 65_536  # to a block
CELLS = 1 << 18  # to a block of a .csv file: as text each is ten times as large as its number
PARQUET_BUFFER = 1 << 18  # bytes to a column
SEPARATORS = {";": "semicolons", "\t": "tabs"}
MORE = " (an index without a name, or commas in numbers?)"
WORDS = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}

Block = tuple[FloatArray, tuple[str, ...]]


def file_blocks(path: Path, *, n_rows: int = ROWS, columns: Sequence[str] | None = None) -> Iterator[Block]:
    """Blocks of at most ``n_rows`` rows of a file, perhaps empty, with the names of their columns.

    Parameters
    ----------
    path : Path
        A .csv file in UTF-8 with a header, commas and decimal points, or a .parquet file.
    n_rows : int
        The numbers do not depend on it.
    columns : sequence of str, optional
        Columns to read, in this order; others may hold anything, in a .csv file any text in UTF-8 of up to 131,072
        characters. All by default.

    Yields
    ------
    numbers : ndarray, shape (n, D)
        NaN where a value is missing.
    names : tuple of str, length D

    Raises
    ------
    TypeError
        If a value that is read is no number.
    ValueError
        If the file is no such table.
    FileNotFoundError
        If it does not exist.
    ImportError
        If it is a .parquet file and pyarrow is not installed.
    """
    check_file(path)
    return (_csv_blocks if is_csv(path) else _parquet_blocks)(path, n_rows, columns)


def is_csv(path: Path) -> bool:
    """Whether the name ends in .csv, in small letters or capital ones."""
    return path.suffix.lower() == ".csv"


def check_file(path: Path) -> None:
    """Refuse a path that is no .csv or .parquet file."""
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        raise ValueError(f"X must be a path, got {shown(str(path))}") from None
    if is_folder:
        raise ValueError(
            f"X must be a file, got the folder {str(path)!r}; RecordBlocks reads folders of .parquet files"
        )
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"X must be a path that ends in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if not is_file:
        raise FileNotFoundError(f"X must be an existing file, got {str(path)!r}")


def labels_of_file(path: Path, name: str) -> tuple[list[Any], tuple[str, ...]]:
    """The entries of the column ``name`` of a file, and the names of all of its columns, as of :func:`file_blocks`.

    Entries are texts as they stand in a .csv file, or values of a .parquet file.

    Raises
    ------
    ValueError
        If the file is no such table, or has no such column.
    FileNotFoundError, ImportError
        As of :func:`file_blocks`.
    """
    check_file(path)
    if is_csv(path):
        with _csv_rows(path) as (header, rows):
            place = _place(name, header)
            return [row[place] for _, row in rows], tuple(header)
    with _parquet(path) as (file, names):
        _place(name, names)
        batches = file.iter_batches(ROWS, columns=[name])
        return [label for batch in batches for label in batch.column(name).to_pylist()], names


def _place(name: str, header: Sequence[str]) -> int:
    if name not in header:
        raise ValueError(f"by must be the name of a column of X, got {name!r} and the columns {shown(tuple(header))}")
    return header.index(name)


def _csv_blocks(path: Path, n_rows: int, columns: Sequence[str] | None) -> Iterator[Block]:
    with _csv_rows(path) as (header, rows):
        wanted = positions(columns, tuple(header))
        names = tuple(header[j] for j in wanted)
        whole = wanted == list(range(len(header)))
        n_rows = min(n_rows, max(1, CELLS // len(wanted)))
        texts: list[str] = []
        lines: list[int] = []
        n_blocks = 0
        for line, row in rows:
            texts += row if whole else [row[j] for j in wanted]
            lines.append(line)
            if len(lines) == n_rows:
                yield _numbers(texts, names, lines), names
                n_blocks += 1
                texts, lines = [], []
        if lines or not n_blocks:
            yield _numbers(texts, names, lines), names


Rows = Iterator[tuple[int, list[str]]]  # the number of its line in the file, and its fields


@contextlib.contextmanager
def _csv_rows(path: Path) -> Iterator[tuple[list[str], Rows]]:
    """The header of a .csv file, and its records, each with as many fields."""
    # a lone surrogate stands for a byte that is no UTF-8, so that the line can be named; "-sig" drops a leading mark
    with _readable(path), open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_utf8(file, path), strict=True)
        rows = _rows(reader, path)
        header = next(rows, None)
        if header is None:
            raise ValueError(f"X must have a header line and records, got the empty file {str(path)!r}")
        _check_header(header, path)
        n_fields = len(header)

        def records() -> Rows:
            for row in rows:
                if len(row) != n_fields:
                    raise ValueError(
                        f"X must have {n_fields} fields in every line, as in its header, got {len(row)} in line"
                        f" {reader.line_num} of {str(path)!r}{MORE if len(row) > n_fields else ''}"
                    )
                yield reader.line_num, row

        yield header, records()


@contextlib.contextmanager
def _readable(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """What readers raise about the file ``path``, in the words of this package."""
    foreign: tuple[type[Exception], ...] = (OSError, csv.Error, *kinds)
    try:
        yield
    except foreign as error:
        raise ValueError(f"X must be a readable table, got {str(path)!r}: {error}") from None


def _utf8(file: Iterable[str], path: Path) -> Iterator[str]:
    for i, line in enumerate(file):
        if not line.isascii():
            try:
                line.encode()
            except UnicodeEncodeError:
                raise ValueError(f"X must be text in UTF-8, got other bytes in line {i + 1} of {str(path)!r}") from None
        yield line


def _rows(reader: Any, path: Path) -> Iterator[list[str]]:
    """Rows of fields; empty lines are allowed before the header, and at the end of a file of several columns."""
    n_fields, empty = 0, 0  # of the header; the first of the empty lines since the last row
    try:
        for row in reader:
            if not row:
                empty = empty or reader.line_num
                continue
            if n_fields and empty:
                raise _no_record(empty, n_fields, path)
            n_fields, empty = n_fields or len(row), 0
            yield row
    except csv.Error as error:  # quotes that do not close, text after a closing quote
        raise csv.Error(f"{error} (line {reader.line_num})") from None
    if n_fields == 1 and empty:  # were it skipped, the public number of records would tell a missing value
        raise _no_record(empty, n_fields, path)


def _no_record(line: int, n_fields: int, path: Path) -> ValueError:
    why = " (a missing value? else remove the line)" if n_fields == 1 else ""
    return ValueError(f"X must have a record in every line, got none in line {line} of {str(path)!r}{why}")


def _check_header(header: Sequence[str], path: Path) -> None:
    """Refuse a first line that is a record, since the names of the columns are published, or no list of names."""
    for separator, name in SEPARATORS.items():
        if len(header) == 1 and separator in header[0]:
            raise ValueError(f"X must be separated by commas, got {name} in the header of {str(path)!r}")
    for j, text in enumerate(header):
        if is_value(text):
            rule = "X must be a file with a header line of column names"
            raise ValueError(f"{rule}, got a number for a name, or a truth value")
        if "\ufeff" in text:  # a file that was saved twice as "UTF-8 with BOM"
            raise ValueError(f"X must have names without byte order marks, got {text!r} in the header of {str(path)!r}")
        if not text.strip():
            raise ValueError(
                f"X must have a name for every column, got none for column {j + 1} of {str(path)!r} (a table written"
                " with its index?)"
            )
    if len(set(header)) != len(header):
        raise ValueError(f"X must have distinct column names, got {shown(list(header))}")
    if all_missing(header):
        raise ValueError(f"X must be a file with a header line of column names, got {NO_NAMES}")


def _numbers(texts: list[str], names: tuple[str, ...], lines: list[int]) -> FloatArray:
    """Every text as its number, by itself, shape (rows, names); ``lines`` are those of the rows."""
    try:
        if not _plain("".join(texts)):
            raise ValueError
        values = np.fromiter(map(float, texts), float, len(texts))
    except ValueError:  # one or more are words, or no numbers; the others become what they would have become
        places = ((names[i % len(names)], lines[i // len(names)]) for i in range(len(texts)))
        values = np.fromiter(map(_number, texts, places), float, len(texts))
    return values.reshape(len(lines), len(names))


def _plain(text: str) -> bool:
    """Nothing that float() would take and files do not mean: 1_000, digits of other alphabets."""
    return text.isascii() and "_" not in text


def _number(text: str, place: tuple[str, int]) -> float:
    """The nearest float, or that of a truth value, or NaN for a missing one; TypeError names column and line."""
    word = text.strip()
    if _plain(word):
        with contextlib.suppress(ValueError):
            return float(word)
    if word in WORDS:
        return WORDS[word]
    if word in MISSING:
        return float("nan")
    comma = "," in word and not set(word) - set("+-0123456789.,eE ")
    raise TypeError(
        f"X must be numeric, got {'a comma in a number' if comma else 'text'} in column {place[0]!r} (line {place[1]});"
        f" {'write 1000.5' if comma else CATEGORIES}"
    )


def _parquet_blocks(path: Path, n_rows: int, columns: Sequence[str] | None) -> Iterator[Block]:
    with _parquet(path) as (file, header):
        names = tuple(header[j] for j in positions(columns, header))
        found, promised = 0, file.metadata.num_rows
        for batch in file.iter_batches(n_rows, columns=list(names)):
            found += len(batch)
            yield _arrow_numbers(batch, names), names
        if found != promised:  # a row group that lost its length to a damaged footer
            what = f"{found:,} of the {promised:,} rows that its footer tells of"
            raise ValueError(f"X must be a readable table, got {str(path)!r} with {what}")
        if not found:
            yield _arrow_numbers(file.schema_arrow.empty_table(), names), names


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """A .parquet file, open, and the names of its columns but for those of an index of pandas."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            "X must be readable: a .parquet file needs pyarrow (pip install 'pm_dpgmm[parquet]')"
        ) from None
    import pyarrow as pa

    # without pre_buffer=False the whole file, without a buffer whole row groups would be in memory
    with (
        _readable(path, pa.ArrowException),
        pq.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER, page_checksum_verification=True) as file,
    ):
        index = _index_columns(file.schema_arrow)
        header = tuple(name for name in file.schema_arrow.names if name not in index)
        if not header:
            what = "an index alone; table.reset_index() makes columns of it" if index else "none"
            raise ValueError(f"X must be a table with columns, got {what} in {str(path)!r}")
        _check_header(header, path)
        yield file, header


def _index_columns(schema: Any) -> list[Any]:
    """Names of the columns that pandas stored as an index; none where its note in the file is no such note."""
    try:
        note = schema.pandas_metadata
    except ValueError:  # no JSON, no UTF-8
        return []
    index = note.get("index_columns") if isinstance(note, dict) else None
    return index if isinstance(index, list) else []


def _arrow_numbers(table: Any, names: tuple[str, ...]) -> FloatArray:
    return np.column_stack([floats_of(arrow_values(table.column(name)), name=name) for name in names])
