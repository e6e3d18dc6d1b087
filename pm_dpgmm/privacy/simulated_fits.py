"""Simulated fits warn nobody: their records are made up, and what simulated them says what they are worth.

Filters of warnings are shared by all threads of a process, so that two plans at once would put back each other's, and
what another thread has to say would be lost meanwhile. This holds for one thread, and for tasks that it starts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_SIMULATED: ContextVar[bool] = ContextVar("pm_dpgmm_simulated", default=False)


@contextlib.contextmanager
def without_warnings_of_fits() -> Iterator[None]:
    """What fits and their guarantees would warn of is not told inside."""
    before = _SIMULATED.set(True)
    try:
        yield
    finally:
        _SIMULATED.reset(before)


def fits_may_warn() -> bool:
    """Whether somebody is to be told of what a fit, or its guarantee, is worth."""
    return not _SIMULATED.get()
