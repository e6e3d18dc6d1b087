"""Names of the columns of a table, and the one rule by which tables are matched with a release: by name, or refused."""

from __future__ import annotations

import contextlib
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from pm_dpgmm._arguments import shown

LONGEST_NAME = 1000  # characters
# As programs write a missing value; NaN, which the caller refuses with the column and the row.
MISSING = ("", "NA", "N/A", "#N/A", "<NA>", "NULL", "Null", "null", "None", ".")
NO_NAMES = (
    "words for missing values alone: names are published, and this is the first record of a file without a header"
)
REPEATED = re.compile(r"(\.\d+|_duplicated_\d+)?")  # what pandas and polars add to a name that was there before
TUPLE = re.compile(r"\((.*)\)", re.DOTALL)  # as which a name of several header lines is written to a file


def labels_of(table: Any) -> list[Any] | None:
    """Labels of the columns of a data frame or Arrow table as they are; None for anything else."""
    kind = type(table)  # not the table: a data frame has its columns as attributes, a dask.delayed has any
    if hasattr(kind, "column_names"):  # Arrow, whose ``columns`` are the values
        return list(table.column_names)
    if hasattr(kind, "collect_schema") and not hasattr(kind, "to_series"):  # a lazy frame of polars
        return list(table.collect_schema().names())
    if is_labelled_array(table):
        return _labels_of_columns(table) if table.ndim == 2 else None
    return list(table.columns) if hasattr(kind, "columns") else None


def _labels_of_columns(table: Any) -> list[Any] | None:
    """Texts, or the numbers 0, 1 and so on in another order, which a DataArray without labels does not have."""
    numbered = list(range(table.shape[1]))
    labels = axis_labels(table, 1, list(map(str, numbered)))
    return labels if labels is None or set(labels) != set(map(str, numbered)) else list(map(int, labels))


def is_labelled_array(table: Any) -> bool:
    """Whether it is a DataArray of xarray, whose dimensions may have labels."""
    kind = type(table)
    return kind.__module__.partition(".")[0] == "xarray" and hasattr(kind, "coords") and hasattr(kind, "to_numpy")


def column_labels(table: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Labels of the columns of a table: of pandas and xarray as :func:`axis_labels`, of others all; perhaps none."""
    if len(getattr(table, "shape", ())) != 2:
        return ()
    return tuple((axis_labels(table, 1, names) if _has_axes(table) else names_of(table)) or ())


def _has_axes(values: Any) -> bool:
    """Whether it is of pandas or xarray, where what labels an axis need not be names."""
    return hasattr(type(values), "iloc") or is_labelled_array(values)


def axis_labels(values: Any, axis: int, names: Sequence[str]) -> list[str] | None:
    """Texts that label an axis of a Series, data frame or DataArray; None where there are none.

    Labels that are no texts, such as numbers or those of several header lines, count as texts where they are ``names``,
    in any order, and are none elsewhere: an index tells rows apart, too. Of 0, 1 and so on, which pandas has where
    nothing was given, only another order of the names tells anything.
    """
    labels = _all_labels_along(values, axis)
    if labels and all(isinstance(label, str) for label in labels):
        return labels
    texts = list(map(str, labels))
    told = sorted(texts) == sorted(names) and not (_is_default(labels) and texts == list(names))
    return texts if labels and told else None


def _labels_along(values: Any, axis: int) -> list[Any]:
    """Labels of an axis as they are, empty where it has none, or 0, 1 and so on, which is where pandas has none."""
    labels = _all_labels_along(values, axis)
    return [] if _is_default(labels) else labels


def _is_default(labels: Sequence[Any]) -> bool:
    return list(labels) == list(range(len(labels)))


def _all_labels_along(values: Any, axis: int) -> list[Any]:
    labels: list[Any] = []
    if is_labelled_array(values):
        dim = values.dims[axis]
        labels = values.coords[dim].to_numpy().tolist() if dim in values.coords else []
    elif hasattr(type(values), "iloc"):
        labels = list(values.axes[axis])
    return labels


def row_labels(table: Any) -> Any:
    """The index of the rows of pandas or xarray; None where there is none."""
    if is_labelled_array(table):
        return table.indexes.get(table.dims[0]) if table.dims else None
    return table.index if hasattr(type(table), "iloc") else None


def axes_in_order(values: Any, names: Sequence[Sequence[Any] | None], *, name: str) -> Any:
    """A Series, data frame or DataArray with its labels in the order of ``names``, for every axis those or None.

    Anything else, and an axis for which there are no names, or which has no labels (:func:`axis_labels`), stays as it
    is: its entries count by place. ValueError, about the parameter ``name``, where labels are others than the names.
    """
    for axis, wanted in enumerate(names):
        if wanted is None or getattr(values, "ndim", 0) != len(names):
            continue
        labels = axis_labels(values, axis, list(map(str, wanted)))
        if labels is None or labels == list(wanted):
            continue
        if sorted(labels) != sorted(map(str, wanted)):
            rule = f"{name} must be labelled {shown(tuple(wanted))} and nothing else"
            raise ValueError(f"{rule}, got {shown(tuple(labels))}; rename them, or give an array in that order")
        places = [labels.index(str(label)) for label in wanted]
        where = (*(slice(None) for _ in range(axis)), places)
        values = values[where] if is_labelled_array(values) else values.iloc[where]
    return values


def as_mapping(values: Any, names: Sequence[str], *, name: str) -> Any:
    """A Series or DataArray of one dimension that has labels (:func:`axis_labels`) as a dict; all else as it is.

    ValueError, about the parameter ``name``, where a label is there twice.
    """
    labels = axis_labels(values, 0, names) if getattr(values, "ndim", 0) == 1 else None
    if labels is not None and len({*labels}) < len(labels):
        raise ValueError(f"{name} must have one entry for each column, got labels {shown(tuple(labels))}")
    return values if labels is None else dict(zip(labels, values.to_numpy().tolist(), strict=True))


def check_unlabelled(values: Any, *, name: str, rows: bool = False) -> None:
    """TypeError if entries, or columns of rows, have names: ``name`` is a setting, which takes them by place.

    ``rows``: nor may the rows have names.
    """
    labels = _labels_along(values, values.ndim - 1) if _has_axes(values) else names_of(values)
    if rows and not labels and _has_axes(values):
        labels = _labels_along(values, 0)
    if labels:
        raise TypeError(
            f"{name} must be numbers in the order of the columns of X, got names, {shown(tuple(labels))}: nothing would"
            " match them; give the numbers alone, in that order"
        )


def names_of(table: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame or Arrow table as text; None for anything else."""
    labels = labels_of(table)
    return None if labels is None else tuple(map(str, labels))


def is_value(text: str) -> bool:
    """Whether a text is a number or a truth value: what stands in a record, and in a header only if it is a record.

    So is the text of a tuple with such a part: a file with one header line that was read as one with two, and stored.
    """
    several = TUPLE.fullmatch(text.strip())
    if several and "," in several[1]:
        parts = (part.rpartition("(")[2].strip(" '\")") for part in several[1].split(","))  # np.int64(3) is 3
        return any(part and is_value(part) for part in parts)
    for comma in (".", ""):  # of decimals, of thousands
        with contextlib.suppress(ValueError):
            float(text.replace(",", comma))
            return True
    return text.strip().lower() in ("true", "false")


def names_of_records(table: Any) -> tuple[str, ...] | None:
    """As :func:`names_of`, of records, whose names are published.

    ValueError where a name is a number or a truth value, or the text of one, or all are words for missing values: a
    file without a header was read as if it had one, and the names are somebody's record. The numbers of columns without
    names, 0 to D - 1 in any order, are none.
    """
    labels = labels_of(table) or _name_of_series(table)
    for label in labels:
        if _is_of_a_record(label, len(labels)):
            raise ValueError(
                f"X must have names for its columns, got {'the text of ' if isinstance(label, str) else ''}a number or"
                " truth value for one: names are published, and this is the first record of a file without a header"
                " (read it with header=None), or should be renamed"
            )
    if labels and all_missing(labels):
        raise ValueError(f"X must have names for its columns, got {NO_NAMES} (read it with header=None)")
    return names_of(table) or tuple(_name_of_series(table)) or None


def _name_of_series(table: Any) -> list[str]:
    """The name of one column of pandas, polars or Dask, in a list; none where it has none, or a number."""
    one = hasattr(type(table), "to_frame") and hasattr(type(table), "name") and not hasattr(type(table), "columns")
    name = table.name if one else None
    return [name] if isinstance(name, str) and name else []


def all_missing(labels: Sequence[Any]) -> bool:
    """Whether all labels are words for missing values, such as NA: a first record without a single value."""
    return all(
        isinstance(label, str)
        and any(label.startswith(word) and REPEATED.fullmatch(label[len(word) :]) for word in MISSING if word)
        for label in (text.strip() if isinstance(text, str) else text for text in labels)
    )


def _is_of_a_record(label: Any, n_columns: int) -> bool:
    """Whether a label stands in a record rather than in a header, as far as one can tell."""
    if isinstance(label, tuple):  # of several header lines, where a file may have had one
        return any(_is_of_a_record(part, 0) for part in label)
    if isinstance(label, str):
        return is_value(label)
    if isinstance(label, (bool, np.bool_)):
        return True
    numbered = isinstance(label, numbers.Integral) and 0 <= int(label) < n_columns
    return isinstance(label, numbers.Number) and not numbered


def names_of_features(names: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    """The names, or x0, x1 and so on where there are none; ValueError if two are equal."""
    if names is None:
        return tuple(f"x{j}" for j in range(n_features))
    if len(set(names)) != len(names):
        raise ValueError(f"X must have distinct column names, got {shown(list(names))}")
    return tuple(names)


def own_names(names: Sequence[str]) -> tuple[str, ...] | None:
    """The names of columns; None for x0, x1 and so on, which stand for columns that have none."""
    return None if tuple(names) == names_of_features(None, len(names)) else tuple(names)


def positions(columns: Sequence[str] | None, names: Sequence[str]) -> list[int]:
    """Where ``columns`` are among distinct ``names``; all in order for None.

    Raises
    ------
    TypeError, ValueError
        If ``columns`` is no sequence of names, is empty, repeats one or names one that is not there.
    """
    if columns is None:
        return list(range(len(names)))
    wanted = listed_names(columns)
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        raise ValueError(f"columns must be among {shown(tuple(names))}, got {shown(unknown) if unknown else 'none'}")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"columns must be distinct, got {shown(wanted)}")
    return [list(names).index(name) for name in wanted]


def listed_names(columns: Any) -> list[str]:
    """Names as they were listed; TypeError for one text, for what has no order, and for names that are no texts."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a sequence of column names, got the text {columns!r}")
    wanted = None
    if isinstance(columns, Iterable) and not isinstance(columns, (Set, Mapping)):
        with contextlib.suppress(TypeError, ValueError):  # of tensors, which look as if they were iterable
            wanted = list(columns)
    if wanted is None or not all(isinstance(name, str) for name in wanted):
        raise TypeError(f"columns must be a sequence of column names, got {shown(columns)}")
    return [str(name) for name in wanted]


def names_given(columns: Sequence[str], n_columns: int) -> tuple[str, ...]:
    """Names for the columns of an array, which has none: one for each, texts that are no numbers.

    Raises
    ------
    TypeError, ValueError
        If ``columns`` is no sequence of so many distinct names.
    """
    names = tuple(listed_names(columns))
    if len(names) != n_columns or len(set(names)) < n_columns:
        raise ValueError(f"columns must be {n_columns} distinct names, one for each column of X, got {shown(names)}")
    if not all(name and not is_value(name) for name in names):
        raise TypeError(f"columns must be texts that are no numbers or truth values, got {shown(names)}")
    return names


def place_of(name: object, features: Sequence[str], *, parameter: str) -> int:
    """Place of a feature, from 0; ValueError, about ``parameter``, if there is none of this name."""
    if name not in features:
        raise ValueError(f"{parameter} must be among {shown(tuple(features))}, got {shown(name)}")
    return tuple(features).index(str(name))


def selected(table: Any, wanted: Sequence[int]) -> Any:
    """Columns of a data frame or Arrow table, by their places."""
    if len(getattr(table, "shape", ())) == 1:  # a series, of which there is one column
        return table
    if hasattr(type(table), "iloc"):
        return table.iloc[:, list(wanted)]
    if is_labelled_array(table):
        return table[:, list(wanted)]
    labels = labels_of(table) or []
    return table.select([labels[j] for j in wanted])  # polars, Arrow


def in_order(table: Any, features: Sequence[str], *, name: str) -> Any:
    """``table`` with its columns in the order of ``features`` if it has names; anything else as it is.

    Parameters
    ----------
    table : array_like, DataFrame (pandas, polars) or Arrow table
        Only tables whose columns have names are looked at.
    features : sequence of str
        Of a release.
    name : str
        Of the parameter, for messages.

    Raises
    ------
    ValueError
        If the columns are not the features in some order. Others beside them are refused too: a table that has more
        is often another table.

    Examples
    --------
    >>> import pandas as pd
    >>> in_order(pd.DataFrame({"b": [1], "a": [2]}), ("a", "b"), name="points").columns.tolist()
    ['a', 'b']
    """
    given = names_of(table)
    if given is None:  # a DataArray whose labels are no texts may have those of the features
        given = column_labels(table, features) or None
    if given is None or given == tuple(features):
        return table
    if sorted(given) != sorted(features):
        raise ValueError(
            f"{name} must have the columns {shown(tuple(features))} and no others, got {shown(given)}; select or rename"
            " them, or give an array in that order"
        )
    return selected(table, [given.index(feature) for feature in features])


def check_order(given: Sequence[Any] | None, features: Sequence[str] | None, *, name: str) -> None:
    """ValueError if a feature is among ``given`` at another place; names of one's own, numbers and None are let pass.

    For labels that a user chose for the features, in a model or in posterior draws; those of data are held to
    :func:`check_columns`.
    """
    if given is None or features is None:
        return
    labels = tuple(map(str, given))
    if misplaced(labels, features):
        raise ValueError(f"{name} must have its columns in the order {shown(tuple(features))}, got {shown(labels)}")


def misplaced(labels: Sequence[Any], features: Sequence[Any]) -> bool:
    """Whether a feature is among the labels, but at another place."""
    places = {label: place for place, label in enumerate(labels)}
    return any(places.get(feature, place) != place for place, feature in enumerate(features))


def check_columns(given: Sequence[str] | None, features: Sequence[Any] | None, *, name: str) -> None:
    """ValueError unless ``given``, columns of a table of data, are the features in their order.

    Passes where there is nothing to compare: None, as for an array, or features that are numbered.
    """
    if given is None or features is None or not all(isinstance(feature, str) for feature in features):
        return
    check_order(given, features, name=name)
    if tuple(given) != tuple(features):
        raise ValueError(
            f"{name} must have the columns {shown(tuple(features))} and no others, got {shown(tuple(given))}; select or"
            " rename them, or give an array in that order"
        )
