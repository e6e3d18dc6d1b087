"""Checks of public arguments: one clear message that names the parameter, the rule and what was given."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def shown(value: object) -> str:
    """A short repr for error messages."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_real(**parameters: Any) -> None:
    """Raise TypeError unless every value is a real number (booleans are not)."""
    for name, value in parameters.items():
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a real number, got {shown(value)} of type {type(value).__name__}")


def check_positive(**parameters: Any) -> None:
    """Raise unless every value is a finite real number greater than 0."""
    check_real(**parameters)
    for name, value in parameters.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be finite and greater than 0, got {shown(value)}")


def check_non_negative(**parameters: Any) -> None:
    """Raise unless every value is a finite real number of at least 0."""
    check_real(**parameters)
    for name, value in parameters.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and at least 0, got {shown(value)}")


def check_delta(delta: Any, *, name: str = "delta", zero: bool = True) -> None:
    """Raise unless ``delta`` is a number in [0, 1), or in (0, 1) when ``zero`` is False."""
    check_real(**{name: delta})
    if not (0 <= delta < 1) or (delta == 0 and not zero):
        raise ValueError(f"{name} must be {'at least' if zero else 'greater than'} 0 and below 1, got {shown(delta)}")


def check_probability(**parameters: Any) -> None:
    """Raise unless every value is a number strictly between 0 and 1."""
    check_real(**parameters)
    for name, value in parameters.items():
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie strictly between 0 and 1, got {shown(value)}")


def check_count(*, least: int = 1, **parameters: Any) -> None:
    """Raise unless every value is an integer of at least ``least``."""
    for name, value in parameters.items():
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} must be an integer, got {shown(value)} of type {type(value).__name__}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {shown(value)}")


def check_choice(options: Sequence[str], **parameters: Any) -> None:
    """Raise unless every value is one of ``options``."""
    for name, value in parameters.items():
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {shown(value)}")


def frozen(array: Any) -> FloatArray:
    """A read-only float copy of ``array``."""
    copy = np.array(array, dtype=float)
    copy.setflags(write=False)
    return copy
