"""Frozen values are pickled and copied by their constructor: what it checks is checked again, what it freezes stays so.

Default pickling restores fields without a check, and NumPy forgets that an array was read-only.
"""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import Any


def by_constructor(self: Any) -> tuple[type, tuple[Any, ...]]:
    """``__reduce__`` of a dataclass: its class, called with its fields; views of mappings go as dictionaries."""
    values = (getattr(self, field.name) for field in fields(self))
    return type(self), tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values)
