"""Frozen values are pickled and copied by their constructor: what it checks is checked again, what it freezes stays so.

Default pickling restores fields without a check, and NumPy forgets that an array was read-only.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def by_constructor(self: Any) -> tuple[type, tuple[Any, ...]]:
    """``__reduce__`` of a dataclass: its class, called with its fields."""
    return type(self), tuple(getattr(self, field.name) for field in fields(self))
