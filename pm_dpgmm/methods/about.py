"""Numbers of records as they are told: about so many, never fewer."""

from __future__ import annotations

import math


def at_least_about(size: float) -> int:
    """Up to two significant digits."""
    unit = 10 ** max(0, math.floor(math.log10(size)) - 1)
    return math.ceil(size / unit) * unit
