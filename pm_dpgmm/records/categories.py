"""A column of categories with public levels: which level each row has, and the rows of one. Proof: categories.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import check_text, shown
from pm_dpgmm.files.untrusted_json import LARGEST_INTEGER
from pm_dpgmm.records.columns import check_in_memory
from pm_dpgmm.records.csv_and_parquet import WORDS, file_blocks, is_csv, labels_of_file
from pm_dpgmm.records.feature_names import LONGEST_NAME, is_labelled_array, labels_of, names_of_records, row_labels

Level = str | int | bool
MOST_LEVELS = 1000  # a fit for each
UNNAMED = "level"  # of labels that have no name
AS_LISTS = ("to_pylist", "to_list", "tolist")  # of a column of Arrow, polars, pandas or NumPy


@dataclass(frozen=True, slots=True, eq=False)
class RowsOfLevel:
    """The rows of one level, as records of a fit: how many there are is private, so also none are read as they are."""

    table: Any


def check_levels(levels: Any, *, name: str = "levels") -> tuple[Level, ...]:
    """The levels, in order: two or more different texts, integers or truth values; TypeError or ValueError else."""
    rule = f"{name} must be a sequence of texts, integers or truth values"
    unordered = isinstance(levels, (str, bytes, Set, Mapping))
    if unordered or not hasattr(levels, "__len__") or not hasattr(levels, "__iter__"):
        raise TypeError(f"{rule}, got {shown(levels)}")
    found: list[Level] = [level.item() if isinstance(level, np.generic) else level for level in levels]
    for level in found:
        if not isinstance(level, (str, int)):
            raise TypeError(f"{rule}, got {shown(level)} among them")
        if isinstance(level, str):
            check_text(a_level=level)
        elif not -LARGEST_INTEGER <= level < LARGEST_INTEGER:
            raise ValueError(f"{name} must be integers of 64 bits, got {shown(level)} among them")
    if not 2 <= len(found) <= MOST_LEVELS:
        raise ValueError(f"{name} must be 2 to {MOST_LEVELS}, got {len(found)}")
    if len(set(found)) < len(found):  # True is 1, and False is 0
        raise ValueError(f"{name} must be different from each other, got {shown(found)}")
    return tuple(found)


def check_apart(by: str, feature_names: Sequence[str]) -> None:
    """Raise unless the column of categories has a name of its own."""
    check_text(longest=LONGEST_NAME, by=by)
    if by in feature_names:
        rule = f"by must have another name than the columns of the mixtures {shown(tuple(feature_names))}"
        raise ValueError(f"{rule}, got {by!r}; labels without a name are called {UNNAMED!r}")


def labelled(
    X: Any, by: Any, columns: Sequence[str] | None, parameter: str = "by"
) -> tuple[str, list[Any], Sequence[str] | None]:
    """Name of the column of categories, the label of every row, and the columns of numbers, None for all.

    ``by`` is the name of a column, or holds a label for every row.

    Raises
    ------
    TypeError, ValueError
        If X is not a table in memory, there is no such column, or labels and rows are not equally many, or in the order
        of another index.
    """
    no_table = isinstance(X, (str, bytes, Mapping, Set)) or not hasattr(X, "__len__") or getattr(X, "ndim", 1) == 0
    if no_table or (hasattr(type(X), "compute") and not is_labelled_array(X)):
        raise TypeError(f"X must be a data frame, Arrow table or array in memory, got {shown(X)}")
    check_in_memory(X)
    rule = f"{parameter} must be the name of a column of X, or labels of the rows in their order"
    if isinstance(by, str):
        names = names_of_records(X)
        if names is None or by not in names:
            raise ValueError(f"{rule}, got {by!r} and the columns {shown(names)}")
        if columns is None:
            columns = [column for column in names if column != by]
        return by, _listed(_column(X, names.index(by))), columns
    if isinstance(by, (bytes, bytearray, Mapping, Set)) or not hasattr(by, "__len__"):
        raise TypeError(f"{rule}, got {shown(by)}")
    rows, others = row_labels(X), row_labels(by)
    if rows is not None and others is not None and not rows.equals(others):
        raise ValueError(f"{parameter} must have the index of X, got another; give an array to match by place")
    labels = _listed(by)
    if len(labels) != len(X):
        raise ValueError(f"{parameter} must have a label for each of {len(X)} rows, got {len(labels)}")
    name = getattr(by, "name", None)
    return name if isinstance(name, str) and name else UNNAMED, labels, columns


def table_of_file(path: Path, by: Any, levels: Sequence[Level], columns: Sequence[str] | None) -> Any:
    """A file as a data frame: the columns of numbers, each read from its own text or entry, and that of categories.

    A .csv file knows texts alone: that of an integer among ``levels`` is that level; True, true and TRUE are that truth
    value.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError, ImportError
        If there is no such file or column, or a column of numbers has others.
    """
    if not isinstance(by, str):
        raise TypeError(f"by must be the name of a column where X is a file, got {shown(by)}")
    known: dict[Any, Level] = {}
    if is_csv(path):
        written = [(text, level) for level in levels for text in _texts(level)]
        known = dict(written)
        if len(known) < len(written):  # 1 and "1", True and "true"
            rule = "levels must be different from each other as texts, which is all that a .csv file has"
            raise ValueError(f"{rule}, got {shown(levels)}")
    import pandas as pd

    labels, every = labels_of_file(path, by)
    wanted = [name for name in every if name != by] if columns is None else columns
    blocks, names = zip(*file_blocks(path, columns=wanted), strict=True)
    table = pd.DataFrame(np.concatenate(blocks), columns=list(names[0]))
    if len(labels) != len(table):  # it was read twice
        raise ValueError(f"X must stay as it is while it is read, got {len(labels)} rows and then {len(table)}")
    table[by] = pd.Series([known.get(label, label) for label in labels] if known else labels, dtype=object)
    return table


def _texts(level: Level) -> list[str]:
    """How files write it."""
    return [word for word, value in WORDS.items() if value == level] if isinstance(level, bool) else [str(level)]


def places_of(labels: Sequence[Any], levels: Sequence[Level], name: str) -> NDArray[np.int64]:
    """The place of every row's level, shape (N,); ValueError names the first label that is none."""
    known: dict[Any, int] = {level: place for place, level in enumerate(levels)}
    places = np.empty(len(labels), dtype=np.int64)
    for row, given in enumerate(labels):
        label = given.item() if isinstance(given, np.generic) else given
        place = known.get(label) if isinstance(label, (str, int, float)) else None
        if place is None:
            rule = f"{name} must be among the levels {shown(tuple(levels))}"
            raise ValueError(f"{rule}, got {shown(label)} (row {row}, counted from 0)")
        places[row] = place
    return places


def rows_at(X: Any, places: NDArray[np.int64]) -> Any:
    """Some rows of a table, in its own kind."""
    if hasattr(type(X), "column_names"):  # Arrow
        return X.take(places)
    if hasattr(type(X), "iloc"):
        return X.iloc[places]
    as_it_is = isinstance(X, np.ndarray) or labels_of(X) is not None  # an array may be masked
    return X[places] if as_it_is else np.asarray(X)[places]


def _column(X: Any, place: int) -> Any:
    if hasattr(type(X), "column_names"):  # Arrow
        return X.column(place)
    return X.iloc[:, place] if hasattr(type(X), "iloc") else X[:, place]


def _listed(column: Any) -> list[Any]:
    column = column.to_numpy() if is_labelled_array(column) else column
    for method in AS_LISTS:
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)
