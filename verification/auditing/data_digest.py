"""One hash of a data set of any kind, from its values alone: identities, layouts and caches of readers do not count.

Pickles would not do: they tell shared entries from equal ones, and a frame that was merely read pickles otherwise.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))
SORTED = ("_has_sorted_indices", "_has_canonical_format")  # what a sparse matrix knows of itself once it was read
PROTOCOL = 4  # buffers are bytes, not views, from which no digest follows


class NoDigest(Exception):
    """Something within the data has no values that could be read."""


def digest(data: Any, *, ordered: bool = True) -> bytes:
    """Hash of ``data``: equal for equal values of one type, and almost surely for no others.

    Parameters
    ----------
    data : any
        Numbers (zeros with their signs, NaN with their content), text, arrays, masked and sparse ones, containers,
        frames of pandas, whatever tells its state as pickling asks it to (Arrow, polars, dataclasses, objects with
        ``__dict__`` or ``__slots__``), and functions with what they close over.
    ordered : bool
        Whether the order of mappings counts; that of sets never does.

    Raises
    ------
    NoDigest
        If something within cannot be pickled, or is nested too deeply.
    """
    try:
        return _Walk(ordered).of(data)
    except RecursionError:
        raise NoDigest("nested too deeply") from None


class _Walk:
    """Digests of what has been seen, so that shared entries are read once and circles end."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.seen: dict[int, tuple[Any, bytes]] = {}  # by identity; the object is kept, so that no other one takes it
        self.open: dict[int, int] = {}  # objects that are being read, and how deep

    def of(self, value: Any) -> bytes:
        kind = type(value)
        if kind in PLAIN:
            return _hashed(kind.__name__, [_plain(value)])
        key = id(value)
        if key in self.seen:
            return self.seen[key][1]
        if key in self.open:
            return _hashed("circle", [str(len(self.open) - self.open[key]).encode()])
        self.open[key] = len(self.open)
        found = _hashed(f"{kind.__module__}.{kind.__qualname__}", self._parts(value))
        del self.open[key]
        self.seen[key] = value, found
        return found

    def _parts(self, value: Any) -> Iterable[bytes]:
        kind = type(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if kind in (list, tuple):
            return [_unmemoised(value)] if self._plain_throughout(value) else map(self.of, value)
        if kind in (set, frozenset):
            return sorted(map(self.of, value))
        if kind is dict:
            return [_unmemoised(value)] if self._plain_throughout(value) else self._pairs(value.items())
        if isinstance(value, types.ModuleType):
            return [value.__name__.encode()]
        if isinstance(value, type):
            return [f"{value.__module__}.{value.__qualname__}".encode()]
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
            inside = (value.__defaults__, value.__kwdefaults__, cells, value.__dict__)
            return [value.__qualname__.encode(), self.of(value.__code__), self.of(inside)]
        if isinstance(value, types.CodeType):
            return [value.co_code, self.of((value.co_consts, value.co_names))]
        if isinstance(value, types.MethodType):
            return [self.of(value.__func__), self.of(value.__self__)]
        pandas, sparse = sys.modules.get("pandas"), sys.modules.get("scipy.sparse")
        if pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series, pandas.Index)):
            return self._labelled(value, pandas)
        if sparse is not None and sparse.issparse(value):
            return self._sparse(value, sparse)
        labelled = sys.modules.get("xarray")
        if labelled is not None and isinstance(value, (labelled.Dataset, labelled.DataArray)):
            return [self.of(value.to_dict(data="array"))]
        return self._reduced(value)

    def _plain_throughout(self, value: Any, depth: int = 3) -> bool:
        """Whether a table or a list of records holds plain values only, which is read at once."""
        if type(value) is dict:
            if not self.ordered:
                return False
            value = [*value, *value.values()]
        rest = [entry for entry in value if type(entry) not in PLAIN]
        return not rest or (
            depth > 1
            and all(type(entry) in (list, tuple, dict) for entry in rest)
            and all(self._plain_throughout(entry, depth - 1) for entry in rest)
        )

    def _array(self, value: np.ndarray[Any, Any]) -> list[bytes]:
        about = dict(value.dtype.metadata or {})
        head = [str((value.dtype.str, value.dtype.descr, value.shape)).encode(), self.of(about)]
        if isinstance(value, np.ma.MaskedArray):
            filled = self.of(np.asarray(value.fill_value)), str(value.hardmask).encode()
            return [*head, self.of(np.asarray(value.data)), self.of(np.ma.getmaskarray(value)), *filled]
        head.append(self.of(getattr(value, "__dict__", {})))  # of a subclass
        if value.dtype.hasobject or value.dtype.kind == "T":  # strings of any length lie elsewhere
            return [*head, self.of(np.asarray(value).tolist())]
        return [*head, _contents(np.asarray(value))]

    def _pairs(self, items: Iterable[tuple[Any, Any]]) -> Iterable[bytes]:
        pairs = (self.of(key) + self.of(entry) for key, entry in items)
        return pairs if self.ordered else sorted(pairs)

    def _labelled(self, value: Any, pandas: Any) -> list[bytes]:
        """Labels and values of a frame: its blocks in memory change when it is read."""
        if isinstance(value, pandas.DataFrame):
            columns = [value.iloc[:, j] for j in range(value.shape[1])]
            inside = [self.of(value.index), self.of(value.columns), *(self._values(column) for column in columns)]
        elif isinstance(value, pandas.Series):
            inside = [self.of(value.name), self.of(value.index), self._values(value)]
        else:
            frequency = str(getattr(value, "freq", None)).encode()
            return [self.of(list(value.names)), frequency, self._values(value)]
        further = {label: getattr(value, label, None) for label in value._metadata}  # of a subclass
        further |= _beside(value, {*value._internal_names, "_attrs", "_flags"})
        return [*inside, self.of(dict(value.attrs)), self.of(further), str(value.flags).encode()]

    def _values(self, column: Any) -> bytes:
        inside = [str(column.dtype).encode()]
        if hasattr(column.dtype, "categories"):
            inside += [self.of(column.dtype.categories), str(column.dtype.ordered).encode()]
        numbers = isinstance(column.dtype, np.dtype) and not column.dtype.hasobject
        return _hashed("column", [*inside, self.of(column.to_numpy() if numbers else column.to_numpy(dtype=object))])

    def _sparse(self, value: Any, sparse: Any) -> list[bytes]:
        """Entries in one order: reading sorts them in place and sums the double ones."""
        entries = value.tocoo(copy=True)
        entries.sum_duplicates()
        inside = (value.format, entries.shape, *(np.asarray(axis) for axis in entries.coords), entries.data)
        numbers = tuple(a.astype(np.int64) if getattr(a, "dtype", "") == np.int32 else a for a in inside)
        own = vars(getattr(sparse, f"{value.format}_array")((1, 1)))
        return [self.of(numbers), self.of(_beside(value, {*own, *SORTED}))]

    def _reduced(self, value: Any) -> Iterable[bytes]:
        """What pickling would be told: how to make the object, and its state."""
        try:
            reduced = value.__reduce_ex__(PROTOCOL)
        except Exception as error:  # whatever an object's own code raises
            raise NoDigest(f"{type(error).__name__}: {error}") from None
        if isinstance(reduced, str):  # a name in a module
            return [reduced.encode()]
        make, given, state, entries, pairs = (*reduced, None, None, None)[:5]
        return [
            self.of(make),
            self.of(given),
            self.of(state),
            *map(self.of, entries or ()),
            b"pairs",
            *self._pairs(pairs or ()),
        ]


def _beside(value: Any, own: set[str]) -> dict[str, Any]:
    """Attributes that somebody gave an object beside those of its own kind."""
    return {name: given for name, given in getattr(value, "__dict__", {}).items() if name not in own}


def _plain(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else pickle.dumps(value, PROTOCOL)


def _unmemoised(values: Any) -> bytes:
    """Hash of a pickle without memo: equal entries look the same, whether or not they are one object."""
    stream = _Hash()
    pickler = pickle.Pickler(stream, PROTOCOL)
    pickler.fast = True
    pickler.dump(values)
    return stream.hash.digest()


class _Hash:
    """A file that keeps the hash of what is written to it."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return len(data)


def _contents(array: np.ndarray[Any, Any]) -> bytes:
    plain = np.ascontiguousarray(array).reshape(-1)
    return hashlib.blake2b(plain.view(np.uint8).data, digest_size=16).digest() if plain.size else b""


def _hashed(kind: str, parts: Iterable[bytes]) -> bytes:
    """Hash of a name and parts, each with its length, so that no two lists of parts run together."""
    whole = hashlib.blake2b(kind.encode(), digest_size=16)
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.digest()
