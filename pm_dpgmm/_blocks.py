"""Records as a mechanism sees them: one array, or blocks of rows that are read again at every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray

Records = FloatArray | Iterable[FloatArray]  # shape (N, n_features), or an iterable that starts anew each time


def blocks_of(records: Records) -> Iterable[FloatArray]:
    """Blocks of rows, one after the other; an array is a single block."""
    return [records] if isinstance(records, np.ndarray) else records


def mapped(records: Records, function: Callable[[FloatArray], FloatArray]) -> Records:
    """``function`` of an array, or of every block when it is read; it must treat every row by itself."""
    return function(records) if isinstance(records, np.ndarray) else _Mapped(records, function)


@dataclass(frozen=True, slots=True, eq=False)
class _Mapped:
    blocks: Iterable[FloatArray]
    function: Callable[[FloatArray], FloatArray]

    def __iter__(self) -> Iterator[FloatArray]:
        return map(self.function, self.blocks)
