"""Every key of a JSON object once; loads nothing, so that a device can ask for it."""

from __future__ import annotations

from collections import Counter
from typing import Any


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping of ``pairs``; ValueError for a key that is there twice, of which json.loads would drop the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"keys must be there once, got {twice[:40]!r} twice")
    return found
