"""Lists and dictionaries that cannot be changed, at any depth: equal to plain ones, and JSON writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn


def _refused(self: object, *args: object, **named: object) -> NoReturn:
    raise TypeError("a release cannot be changed; to_dict() gives a copy that can")


class FrozenList(list[Any]):
    """A list without the methods that change it."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refused
    append = extend = insert = pop = remove = clear = sort = reverse = _refused

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


class FrozenDict(dict[str, Any]):
    """A dictionary without the methods that change it."""

    __setitem__ = __delitem__ = __ior__ = _refused
    clear = pop = popitem = setdefault = update = _refused

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


def frozen_values(value: Any) -> Any:
    """A copy of nested mappings, lists and tuples that cannot be changed; other values as they are."""
    if isinstance(value, Mapping):
        return FrozenDict({name: frozen_values(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return FrozenList(frozen_values(inner) for inner in value)
    return tuple(frozen_values(inner) for inner in value) if type(value) is tuple else value


def plain_values(value: Any) -> Any:
    """A copy of nested mappings, lists and tuples of plain dictionaries, lists and tuples."""
    if isinstance(value, Mapping):
        return {name: plain_values(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain_values(inner) for inner in value]
    return tuple(plain_values(inner) for inner in value) if type(value) is tuple else value
