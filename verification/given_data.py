"""Data sets as an audit is given them: they can be read again, and a mechanism leaves them as they are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from verification._checks import shown

PLAIN = (np.ndarray, list, dict, tuple, set)  # data whose copies can be compared
CHANGED = "mechanism must leave its data as they are, got other data after a run; copy them"


def check_readable(**data: Any) -> None:
    """Raise TypeError for data that are gone once they are read: every later run would see none."""
    for name, value in data.items():
        if isinstance(value, Iterator):
            raise TypeError(f"{name} must be data that every run can read again, got {shown(value)}; give list({name})")


def fingerprint(data: Any) -> bytes | None:
    """Bytes that change when plain data do; None for anything else, or if it cannot be pickled."""
    if not isinstance(data, PLAIN):
        return None
    try:
        return pickle.dumps(data)
    except Exception:  # whatever an entry's own code raises
        return None


def same_data(x: Any, x_neighbour: Any) -> bool:
    """Whether two plain data sets are one, entry by entry; False for what cannot be compared."""
    if x is x_neighbour:
        return True
    if type(x) is not type(x_neighbour) or not isinstance(x, (*PLAIN, int, float, str, bytes)):
        return False
    if isinstance(x, np.ndarray):
        return x.dtype == x_neighbour.dtype and x.shape == x_neighbour.shape and x.tobytes() == x_neighbour.tobytes()
    if isinstance(x, (int, float, str, bytes)):
        return bool(x == x_neighbour)
    return fingerprint(x) is not None and fingerprint(x) == fingerprint(x_neighbour)
