"""What a part of an output may be: numbers that a double holds exactly, and nothing beside them."""

from __future__ import annotations

from array import array as typed_array
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from enum import Enum
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification._arguments import shown

FloatArray = NDArray[np.float64]

EXACT = 2**53  # integers up to it are doubles
MANTISSA = {2: (np.uint16, 10), 4: (np.uint32, 23)}  # bits stored, by bytes of a float
PLAIN = (list, dict, OrderedDict, Counter, defaultdict)
TABLES = ("to_numpy", "__dataframe__", "__arrow_c_stream__", "__arrow_c_array__")
PYTHON = (float, int, bool)
KEYS = (str, bytes, *PYTHON, NoneType)
BUFFERS = (memoryview, typed_array)
AS_PYTHON = {np.float64: float, np.int64: int, np.bool_: bool}
ONE_TYPE = (
    "mechanism must return one type of number in every run, got {} and {}; the type is an output too: convert with"
    " float(...)"
)
ONE_SHAPE = "mechanism must return runs of one shape"


class OutputError(ValueError):
    """Runs that cannot be put side by side."""


class OutputTypeError(TypeError):
    """An output of which some would go unseen."""


def checked_part(part: Any) -> NDArray[Any]:
    """A copy of ``part`` as a plain array of numbers; raise TypeError or ValueError where some of it would go unseen.

    Taken are numbers, arrays, lists and tuples of them. Refused are masked arrays and labelled ones, alone or in lists,
    complex numbers, other objects, floats of more than 64 bits and integers beyond 2^53.
    """
    _check_plain(part)
    try:
        array = np.array(part)  # a copy, because the next call may write to the same memory
    except ValueError as error:  # lists of different lengths
        raise OutputError(f"{ONE_SHAPE} (pad with NaN), got {shown(part)}") from error
    except TypeError as error:  # of tensors in lists
        raise OutputTypeError(f"mechanism must return numbers, got {shown(part)}: {error}") from error
    except OverflowError as error:
        raise OutputError(f"integer outputs must lie within 2^53, got {shown(part)}") from error
    if array.dtype == object and array.size and all(isinstance(v, (int, np.integer)) for v in array.ravel()):
        _raise_beyond(array.min(), array.max())  # of more than 64 bits
    if not _is_of_numpy(array.dtype):
        raise OutputTypeError(
            f"mechanism must return numbers (NaN for failure), got dtype {array.dtype}: {shown(part)}"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise OutputTypeError(
            f"mechanism must return floats of at most 64 bits, got dtype {array.dtype}, whose last bits would go unseen"
        )
    if array.dtype.kind in "iu" and array.size and (array.max() > EXACT or array.min() < -EXACT):
        _raise_beyond(array.min(), array.max())
    if array.dtype.kind == "f" and not isinstance(part, (np.ndarray, np.generic, float)):
        _check_integers_among_floats(part, array)
    return array


def _is_of_numpy(dtype: Any) -> bool:
    """Whether it is a number of NumPy's own; others may call themselves floats, of a width whose NaN is not read."""
    return dtype.kind in "biuf" and dtype.isbuiltin != 2


def widened(part: NDArray[Any]) -> FloatArray:
    """``part`` in double precision: every number exactly, and the content of every NaN in the same leading bits."""
    with np.errstate(invalid="ignore"):  # a signalling NaN; its content is copied below
        wide = part.astype(np.float64)
    if part.dtype.kind == "f" and part.dtype.itemsize in MANTISSA and np.isnan(wide).any():
        word, stored = MANTISSA[part.dtype.itemsize]
        native = part.astype(part.dtype.newbyteorder("="), order="C", copy=False)  # of no dimension, too
        bits = native.view(word).astype(np.uint64)
        content = (bits & np.uint64(2**stored - 1)) << np.uint64(52 - stored)
        sign = (bits >> np.uint64(8 * part.dtype.itemsize - 1)) << np.uint64(63)
        whole = (sign | np.uint64(0x7FF << 52) | content).view(np.float64)
        wide = np.where(np.isnan(wide), whole, wide)
    return wide


def _check_plain(part: Any) -> None:
    """Raise for whatever is no number, plain array, list or tuple of these: NumPy would drop masks, labels and more."""
    if type(part) in PYTHON:
        return
    if isinstance(part, np.ma.MaskedArray):
        raise OutputTypeError("mechanism must return plain arrays with NaN for what is missing, got a masked array")
    if isinstance(part, np.ndarray):
        labelled = type(part) not in (np.ndarray, np.memmap) or bool(part.dtype.metadata)  # such as one with a unit
    elif isinstance(part, (str, bytes, complex)):  # are no numbers: by their dtype
        return
    elif isinstance(part, (int, float, np.generic)):
        if type(part).__module__ != "numpy":
            raise OutputTypeError(
                "mechanism must return plain numbers, as float(...) or int(...), got a"
                f" {type(part).__name__}, whose attributes would go unseen"
            )
        return
    elif isinstance(part, (list, tuple)):
        check_no_attributes(part)
        for entry in part:
            if type(entry) not in PYTHON:  # of long lists
                _check_plain(entry)
        return
    elif type(part) in BUFFERS:
        return
    else:  # tables; of what else becomes an array, JAX's and the like are the numbers alone
        labelled = any(hasattr(part, name) for name in TABLES)
        labelled |= hasattr(part, "__array__") and not hasattr(part, "__dlpack__")
        if not labelled and not hasattr(part, "__dlpack__"):
            raise OutputTypeError(
                "mechanism must return numbers (NaN for failure), or arrays, lists or tuples of them, got a"
                f" {type(part).__name__}: {shown(part)}"
            )
    if labelled:
        raise OutputTypeError(
            "mechanism must return plain arrays, got a"
            f" {type(part).__name__}, whose labels would go unseen; return its numbers, and what else varies as numbers"
        )


def check_no_attributes(output: Any, known: Collection[str] = ()) -> None:
    """Raise if something is on a holder of numbers, beside what is ``known``, that nothing here looks at."""
    slots = [name for kind in type(output).__mro__ for name in _slots_of(kind) if hasattr(output, name)]
    unseen = sorted({*getattr(output, "__dict__", ()), *slots} - {*known})
    more = isinstance(output, (dict, list)) and type(output) not in PLAIN
    more |= type(output) is defaultdict and not isinstance(output.default_factory, (type, NoneType))
    if unseen or more:
        attributes = f" whose attributes {shown(unseen)}" if unseen else ", of which more than its entries"
        raise OutputTypeError(
            f"mechanism must return numbers in plain tuples, lists, dicts or dataclasses, got a {type(output).__name__}"
            f"{attributes} would go unseen"
        )


def check_keys(keys: Iterable[Any]) -> None:
    """Raise unless keys are texts or numbers of Python's own, members of an enumeration, or tuples of these."""
    for key in keys:
        if type(key) is tuple:
            check_keys(key)
        elif type(key) not in KEYS and not isinstance(key, Enum):
            raise OutputTypeError(
                "mechanism must return dicts whose keys are texts, numbers or tuples of them, got a key of type"
                f" {type(key).__name__}, of which more than its text may differ"
            )


def _slots_of(kind: type) -> list[str]:
    """Names of attributes that objects of this class have without a ``__dict__``, as Python stores them."""
    found = vars(kind).get("__slots__", ())
    names = [found] if isinstance(found, str) else list(found)
    private = [name.startswith("__") and not name.endswith("__") for name in names]
    return [
        f"_{kind.__name__.lstrip('_')}{name}" if own else name
        for name, own in zip(names, private, strict=True)
        if name not in ("__dict__", "__weakref__")
    ]


def type_of(part: Any) -> Any:
    """All that is told by types: of a list or tuple also those of what is in it, as NumPy gives all entries one.

    NumPy's float64, int64 and bool count as Python's float, int and bool, which a mechanism mixes without a thought.
    """
    if isinstance(part, (list, tuple)):
        return (kind_of(part), *map(type_of, part))
    kind = AS_PYTHON.get(type(part), type(part))
    if isinstance(part, BUFFERS):
        return (kind, memoryview(part).format)
    return kind if isinstance(part, (np.generic, *PYTHON)) else (kind, getattr(part, "dtype", None))


def kind_of(holder: Any) -> Any:
    """The class of a holder of numbers: by its name, as one made in the mechanism is another one in every run."""
    kind = type(holder)
    if kind is defaultdict:
        return f"defaultdict of {getattr(holder.default_factory, '__qualname__', None)}"
    return kind if kind in (list, tuple, dict) else f"{kind.__module__}.{kind.__qualname__}"


def check_one_type(runs: Any) -> None:
    """Raise where the runs in a list are of several types, which NumPy makes one."""
    kinds = list(dict.fromkeys(map(type_of, runs))) if isinstance(runs, (list, tuple)) else []
    if len(kinds) > 1:
        raise OutputError(ONE_TYPE.format(type_in_words(kinds[0]), type_in_words(kinds[1])))


def type_in_words(kind: Any) -> str:
    """What :func:`type_of` found, for a message."""
    if isinstance(kind, tuple):
        holder, *entries = map(type_in_words, kind)
        return f"{holder} of {', '.join(entries[:5])}{', ...' * (len(entries) > 5)}"
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _check_integers_among_floats(part: Any, array: NDArray[Any]) -> None:
    """Raise where a list holds an integer beyond 2^53 beside a float, whose type NumPy then gives to both."""
    if np.any(np.isfinite(array) & (np.abs(array) >= EXACT)):
        whole = [v for v in np.array(part, dtype=object).ravel() if isinstance(v, (int, np.integer))]
        if whole and (max(whole) > EXACT or min(whole) < -EXACT):
            _raise_beyond(min(whole), max(whole))


def _raise_beyond(least: Any, largest: Any) -> None:
    raise OutputError(
        "integer outputs must lie within 2^53, beyond which low digits would go unseen; return high and low"
        f" parts, got values from {shown(least)} to {shown(largest)}"
    )
