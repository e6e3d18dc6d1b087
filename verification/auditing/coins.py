"""Fair coins of which no copy is left in freed memory.

Functions that an audit calls, a score or a mechanism, may leave numbers of their output unset (``np.empty``, the data
under a mask), which are then whatever the memory held last: a copy of the coins, had the audit freed one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def fair_coins(rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
    """Coins of ``n`` runs or slots, shape (n,)."""
    drawn = rng.integers(2, size=n)
    coins = drawn.astype(bool)
    drawn[:] = 0
    return coins
