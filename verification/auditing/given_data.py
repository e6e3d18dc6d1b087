"""Data sets as an audit is given them: they can be read again, and a mechanism leaves them as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from verification._arguments import shown
from verification.auditing.data_digest import NoDigest, digest

EXACT = 2**53  # integers up to it are doubles
CHANGED = "{who} must leave its data as they are, got other data after {when} (a cache within them counts); copy them"


def check_readable(**data: Any) -> None:
    """Raise TypeError for data that are gone once they are read: every later run would see none."""
    for name, value in data.items():
        if isinstance(value, Iterator):
            raise TypeError(f"{name} must be data that every run can read again, got {shown(value)}; give list({name})")


def fingerprint(name: str, data: Any) -> bytes:
    """Bytes that change when ``data`` do: containers of any kind, frames, sparse matrices, objects with their fields.

    Raises
    ------
    TypeError
        If something within, such as a lock or an open file, cannot be looked at: whether a run changes it would go
        unseen.
    """
    try:
        return digest(data)
    except NoDigest as error:
        raise TypeError(
            f"{name} must be data of which an audit can see whether a run changes them (numbers, text, containers,"
            f" arrays, frames, objects of these), got {shown(data)}: {error}"
        ) from None


def same_data(x: Any, x_neighbour: Any) -> bool:
    """Whether two data sets are one, entry by entry; the order of mappings and sets does not matter."""
    if x is x_neighbour:
        return True
    if type(x) is not type(x_neighbour):
        return False
    try:
        if digest(x, ordered=False) == digest(x_neighbour, ordered=False):
            return True
    except NoDigest:
        return False
    if type(x).__module__.split(".")[0] == "pandas":  # of which ``equals`` compares less than a digest
        return False
    equals = getattr(x, "equals", None)  # of a table of polars or Arrow, however it is laid out in memory
    if not callable(equals):
        return False
    try:
        schema: Any = getattr(x, "schema", None)
        if hasattr(schema, "metadata") and not schema.equals(x_neighbour.schema, check_metadata=True):
            return False  # of Arrow, whose tables are compared without it
        return equals(x_neighbour) is True
    except Exception:  # whatever a foreign method raises
        return False


def as_given(data: Any) -> Any:
    """What was read from JSON; nested lists of one shape and one kind of entry, which an array holds as is, are one."""
    return np.array(data) if isinstance(data, list) and _form(data) is not None else data


def _form(data: Any) -> tuple[str, tuple[int, ...]] | None:
    """Kind of entry and shape; None where NumPy would make text or numbers of others, or drop digits."""
    if isinstance(data, list):
        forms = {_form(entry) for entry in data} or {("number", ())}
        form = forms.pop()
        return None if forms or form is None else (form[0], (len(data), *form[1]))
    kind = {bool: "truth", str: "text", float: "number", int: "number"}.get(type(data))
    if type(data) is int and abs(data) > EXACT:
        kind = "integer" if abs(data) < 2**63 else None
    return None if kind is None else (kind, ())
