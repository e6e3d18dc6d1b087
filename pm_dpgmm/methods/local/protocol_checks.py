"""Checks of a protocol's parts that need no NumPy: one clear message each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pm_dpgmm.methods.local.randomisers import MOST_BITS, MOST_CELLS

MOST_WAVES, MOST_FEATURES, MOST_NUMBERS = 2**16, 1024, 2**20  # frequencies in all: a device reads them in seconds
LARGEST = 1e100  # of frequencies and edges: nothing overflows within


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def read_number(value: Any, name: str) -> float:
    """A float; booleans, texts and complex numbers are none."""
    if type(value) is float:
        return value
    kind = type(value).__name__
    no_number = TypeError(f"{name} must be a real number, got {shown(value)} of type {kind}")
    if isinstance(value, (bool, str, bytes)) or kind in ("bool_", "bool") or not hasattr(value, "__float__"):
        raise no_number
    try:
        return float(value)
    except TypeError:  # of an array of several
        raise no_number from None
    except OverflowError:
        raise ValueError(f"{name} must be a number that a float can hold, got {shown(value)}") from None


def read_row(values: Any, name: str) -> tuple[float, ...]:
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a sequence of numbers, got {shown(values)}")
    found = tuple(read_number(value, name) for value in values)
    if not all(abs(value) <= LARGEST for value in found):  # NaN too
        raise ValueError(f"{name} must be finite and of size at most {LARGEST:g}, got {shown(found)}")
    return found


def read_rows(values: Any, name: str) -> tuple[tuple[float, ...], ...]:
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a sequence of rows of numbers, got {shown(values)}")
    found = tuple(read_row(row, name) for row in values)
    if found and (len(set(map(len, found))) > 1 or not len(found[0]) >= 1):
        raise ValueError(f"{name} must have rows of equal length from 1 on, got {shown(values)}")
    return found


def check_waves(waves: Sequence[Sequence[float]], phases: Sequence[float], edges: Sequence[Any]) -> None:
    if edges:
        raise ValueError(f"edges must be left out with randomiser 'one-bit', got {shown(edges)}")
    if not 1 <= len(waves) <= MOST_WAVES or len(waves[0]) > MOST_FEATURES:
        raise ValueError(
            f"frequencies must have 1 to {MOST_WAVES} rows of at most {MOST_FEATURES} numbers, got {len(waves)} rows"
        )
    if len(waves) * len(waves[0]) > MOST_NUMBERS:
        raise ValueError(
            f"frequencies must be at most {MOST_NUMBERS} numbers, got {len(waves)} rows of {len(waves[0])}"
        )
    if len(phases) != len(waves):
        raise ValueError(f"phases must be as many as frequencies, {len(waves)}, got {len(phases)}")


def check_cells(
    randomiser: str, waves: Sequence[Any], phases: Sequence[float], edges: Sequence[Sequence[float]]
) -> int:
    """The number of cells."""
    if waves or phases:
        raise ValueError(f"frequencies and phases must be left out with randomiser {randomiser!r}, got some")
    if not edges:
        raise ValueError(f"edges must be given with randomiser {randomiser!r}, got none")
    if any(a >= b for row in edges for a, b in pairwise(row)):
        raise ValueError(f"edges must increase in every column, got {shown(edges)}")
    most = MOST_CELLS if randomiser == "k-ary" else MOST_BITS
    n_cells = 1
    for row in edges:
        n_cells *= len(row) + 1
        if n_cells > most:
            raise ValueError(f"edges must make at most {most} cells with randomiser {randomiser!r}, got more")
    return n_cells
