"""How many examples a property test draws: all of them in ``make test-all``, a third in ``make test``."""

from __future__ import annotations

import os

QUICK = os.environ.get("HYPOTHESIS_PROFILE") == "quick"
FEWEST = 10


def examples(number: int) -> int:
    """``number``, or a third of it in the quick profile, yet no fewer than 10."""
    return max(min(number, FEWEST), number // 3) if QUICK else number
