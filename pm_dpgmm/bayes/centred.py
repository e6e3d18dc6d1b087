"""Free variables of a model whose value 0 is a released mixture: where samplers should start."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

# Names only: a random variable held here could keep its model alive for ever.
_CENTRED: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()


def remember_centred(model: Any, name: str) -> None:
    """Remember that all zeros of free variable ``name`` of ``model`` are a mixture."""
    _CENTRED.setdefault(model.root, []).append(name)


def centred_variables(model: Any) -> tuple[str, ...]:
    """Names given to :func:`remember_centred`, oldest first; copies of a model start without any."""
    return tuple(_CENTRED.get(model.root, ()))
