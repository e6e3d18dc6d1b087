"""Argument checks of the audit core: one error that names the parameter, the rule and what was given.

A small copy of the package's own checks, because the audit core imports nothing from what it audits.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np


def shown(value: object) -> str:
    """A short repr for error messages."""
    try:
        text = repr(value)
    except Exception:  # whatever a foreign repr raises; nested too deeply
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_real(name: str, value: Any, low: float, high: float, *, rule: str) -> None:
    """Raise unless ``value`` is a real number (no boolean) with ``low < value < high``; ``rule`` words it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {shown(value)} of type {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:  # an integer that no float holds
        number = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if not low < number < high:  # false for NaN
        raise ValueError(f"{name} must {rule}, got {shown(value)}")


def check_positive(**parameters: Any) -> None:
    """Raise unless every value is finite and greater than 0."""
    for name, value in parameters.items():
        check_real(name, value, 0.0, math.inf, rule="be finite and greater than 0")


def check_non_negative(**parameters: Any) -> None:
    """Raise unless every value is finite and at least 0."""
    for name, value in parameters.items():
        check_real(name, value, -math.ulp(0.0), math.inf, rule="be finite and at least 0")


def check_delta(delta: Any) -> None:
    """Raise unless ``delta`` is a number in [0, 1)."""
    check_real("delta", delta, -math.ulp(0.0), 1.0, rule="be at least 0 and below 1")


def check_probability(**parameters: Any) -> None:
    """Raise unless every value lies strictly between 0 and 1."""
    for name, value in parameters.items():
        check_real(name, value, 0.0, 1.0, rule="lie strictly between 0 and 1")


def check_count(*, least: int, most: int | None = None, **parameters: Any) -> None:
    """Raise unless every value is an integer of at least ``least``, and at most ``most``."""
    for name, value in parameters.items():
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} must be an integer, got {shown(value)} of type {type(value).__name__}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {shown(value)}")
        if most is not None and value > most:
            raise ValueError(f"{name} must be at most {most}, got {shown(value)}")


def check_choice(options: Sequence[str], **parameters: Any) -> None:
    """Raise unless every value is one of ``options``."""
    for name, value in parameters.items():
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {shown(value)}")


def check_callable(**parameters: Any) -> None:
    """Raise unless every value can be called."""
    for name, value in parameters.items():
        if not callable(value):
            raise TypeError(f"{name} must be callable, got {shown(value)} of type {type(value).__name__}")


def check_switch(**parameters: Any) -> None:
    """Raise unless every value is True or False."""
    for name, value in parameters.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {shown(value)} of type {type(value).__name__}")


def unmasked(values: Any) -> Any:
    """What a function of the user's own gave, with NaN for what it masked, under which there may be anything."""
    return values.astype(float).filled(math.nan) if np.ma.is_masked(values) else values


def check_rng(rng: Any) -> np.random.Generator:
    """``rng`` itself, or fresh entropy for None; raise for anything but a Generator."""
    if rng is None:
        return np.random.default_rng()
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {shown(rng)} of type {type(rng).__name__}")
    return rng


def printable(text: str) -> str:
    """A text on one line: what is no visible character is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
