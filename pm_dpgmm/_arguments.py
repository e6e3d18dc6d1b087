"""Checks of public arguments: one clear message that names the parameter, the rule and what was given."""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
MOST_CHOICES = 64  # numbers of components to compare: each is a fit

TIMES = {"M": "; write a date as days since a public day", "m": "; write a duration as a number of days or hours"}


def shown(value: object) -> str:
    """A short repr for error messages."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_real(**parameters: Any) -> None:
    """Raise unless every value is a real number (booleans are not) that a float can hold: TypeError, ValueError."""
    for name, value in parameters.items():
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a real number, got {shown(value)} of type {type(value).__name__}")
        try:
            float(value)
        except OverflowError:
            raise ValueError(f"{name} must be a number that a float can hold, got {shown(value)}") from None


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


def check_count(*, least: int = 1, most: int | None = None, **parameters: Any) -> None:
    """Raise unless every value is an integer of at least ``least``, and at most ``most``."""
    for name, value in parameters.items():
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} must be an integer, got {shown(value)} of type {type(value).__name__}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {shown(value)}")
        if most is not None and value > most:
            raise ValueError(f"{name} must be at most {most}, got {shown(value)}")


def read_choices(n_components: object, *, most: int | None = None) -> tuple[int, ...]:
    """One number of components or several as an increasing tuple; raise unless they are distinct integers from 1 on.

    ``most`` is the largest number that is allowed, if there is one.
    """
    if isinstance(n_components, Iterable) and not isinstance(n_components, (str, bytes, Mapping)):
        try:
            given = list(itertools.islice(n_components, MOST_CHOICES + 1))
        except (TypeError, ValueError):  # a symbolic variable
            given = [n_components]
        if not 0 < len(given) <= MOST_CHOICES:
            raise ValueError(
                f"n_components must hold 1 to {MOST_CHOICES} numbers, got"
                f" {'none' if not given else f'more in {shown(n_components)}'}"
            )
    else:
        given = [n_components]
    for number in given:
        check_count(n_components=number)
        if most is not None and number > most:
            raise ValueError(f"n_components must be at most {most}, got {number}")
    if len(set(given)) < len(given):
        raise ValueError(f"n_components must hold distinct numbers, got {shown(n_components)}")
    return tuple(sorted(int(number) for number in given))


def check_choice(options: Sequence[str], **parameters: Any) -> None:
    """Raise unless every value is one of ``options``."""
    for name, value in parameters.items():
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {shown(value)}")


def check_text(*, longest: int = 10_000, **parameters: Any) -> None:
    """Raise unless every value is a text of bounded length that a file can hold: no half of a character."""
    for name, value in parameters.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be text, got {shown(value)} of type {type(value).__name__}")
        if len(value) > longest:
            raise ValueError(f"{name} must have at most {longest} characters, got {len(value)}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} must be text that UTF-8 can hold, got {shown(value)}") from None


def check_flag(**parameters: Any) -> None:
    """Raise unless every value is True or False."""
    for name, value in parameters.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {shown(value)} of type {type(value).__name__}")


def finite_numbers(value: Any, name: str, shape: tuple[int, ...] | None = None) -> FloatArray:
    """``value`` as a float array of that shape; ValueError unless it holds finite numbers and nothing else.

    TypeError for a mask.
    """
    check_masks(value, name=name, alone=True)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be an array of numbers, got rows of different lengths") from None
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be an array of numbers, got {shown(value)}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]}")
    return np.asarray(array, dtype=float)


def unmasked(values: Any) -> Any:
    """What a function of the user's own gave, with NaN for what it masked, under which there may be anything."""
    return values.astype(float).filled(np.nan) if np.ma.is_masked(values) else values


def check_masks(values: Any, *, name: str, alone: bool = False, levels: int = 4) -> None:
    """TypeError if masked arrays, or masked numbers, are within lists, whose masks NumPy drops.

    With ``alone`` also if ``values`` is a masked array itself, for readers that know of no missing values. No reader
    takes more than three dimensions, so lists within more than ``levels`` others are not looked at.
    """
    if isinstance(values, np.ma.MaskedArray) and alone:
        raise TypeError(f"{name} must have no mask, got a masked array; NaN stands for what is missing")
    if isinstance(values, (list, tuple)):
        for entry in values:
            if isinstance(entry, np.ma.MaskedArray):
                raise TypeError(
                    f"{name} must be plain numbers or one masked array, got masked ones within a"
                    f" {type(values).__name__}; stack them with np.ma.stack"
                )
            if isinstance(entry, (list, tuple)) and levels > 1:
                check_masks(entry, name=name, levels=levels - 1)


def read_numbers(values: Any, name: str) -> FloatArray:
    """``values`` as floats of any shape, NaN and infinite ones too; TypeError unless they are numbers without masks."""
    check_masks(values, name=name, alone=True)
    try:
        return as_floats(values)
    except (TypeError, ValueError, OverflowError):
        hint = TIMES.get(getattr(getattr(values, "dtype", None), "kind", ""), "")
        raise TypeError(f"{name} must be numbers in rows of equal length, got {shown(values)}{hint}") from None


def as_floats(values: Any) -> FloatArray:
    """An array of floats; TypeError for dates, texts and complex numbers, of which NumPy makes floats, too."""
    array = np.asarray(values)
    short = array.dtype.type.__module__ == "ml_dtypes"  # floats of JAX with few bits
    if array.dtype.kind == "O":
        wrong = not all(map(_is_number, array.ravel()))
    else:
        wrong = array.dtype.kind not in "buif" and not short
    if wrong:
        raise TypeError(f"numbers are needed, got dtype {array.dtype}")
    return np.asarray(values if array.dtype.kind == "O" else array, dtype=float)  # tables know what their NA are


def is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType"  # of pandas


def _is_number(value: Any) -> bool:
    """Whether it is a real number, or stands for one that is missing."""
    if isinstance(value, np.generic):
        return value.dtype.kind in "buif"
    return is_missing(value) or (
        not isinstance(value, complex) and (hasattr(value, "__float__") or hasattr(value, "__index__"))
    )


def printable(text: str) -> str:
    """A text for terminals and documents, on one line: what is no visible character is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain_numbers(settings: Any) -> None:
    """Make numbers of NumPy and fractions in the fields of a frozen dataclass Python's own: files hold no others."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, field.name, value.item())
        elif isinstance(value, numbers.Real) and not isinstance(value, (bool, int, float)):
            object.__setattr__(settings, field.name, float(value))


def read_path(path: Any, *, name: str = "path") -> Path:
    """The path; TypeError unless it is text or a path, ValueError if no file can have it."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise TypeError(f"{name} must be the path of a file, got {shown(path)}")
    try:
        encoded = os.fsencode(path)
    except UnicodeError:  # half a character
        encoded = b"\0"
    if not encoded or b"\0" in encoded:
        raise ValueError(f"{name} must be the path of a file, got {shown(path)}")
    return Path(path)


def generator_of(seed: Any, name: str = "random_seed") -> np.random.Generator:
    """A generator from None (fresh entropy), an integer of at least 0 or a generator; TypeError or ValueError else."""
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is not None:
        check_count(least=0, **{name: seed})
    return np.random.default_rng(seed)


def frozen(array: Any) -> FloatArray:
    """A read-only float copy of ``array``."""
    copy = np.array(array, dtype=float)
    copy.setflags(write=False)
    return copy


def freeze(item: object, **shapes: tuple[int, ...]) -> None:
    """Make fields of a frozen dataclass read-only copies; ValueError unless they have these shapes.

    Kernels check no bounds, so what they read is checked where it is made.
    """
    for name, shape in shapes.items():
        array = frozen(getattr(item, name))
        if array.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
        object.__setattr__(item, name, array)
