"""Exceptions of the user's own signal handlers stop a run: whoever forgives a learner everything lets these by.

:func:`pm_dpgmm.learners.quiet.outside_events` knows them for sure, but puts its own handlers in the place of all others
and back: right around a learner of this process, which may change them, and not while others fit, where only the user
does.
"""

from __future__ import annotations

import inspect
import signal
from collections.abc import Iterator
from types import CodeType, TracebackType
from typing import Any

from pm_dpgmm.learners.quiet import SIGNALS

_known: set[CodeType] = set()  # of handlers that were there when somebody began to wait


def note_handlers() -> None:
    """Remember which handlers there are, before a wait: one may have put another in its place when it raises."""
    _known.update(_handlers())


def stop_if_told(error: BaseException) -> None:
    """Raise ``error`` if a signal handler did; for what is otherwise forgiven, or tried again."""
    if raised_by_a_handler(error):
        raise error


def raised_by_a_handler(error: BaseException) -> bool:
    """Whether a signal handler of this process raised ``error``, such as one that a time limit of the user's calls.

    By its traceback: some frame runs the code of a function that is a handler, or was one at the last
    :func:`note_handlers`. Handlers written in C raise KeyboardInterrupt, which nobody forgives.
    """
    note_handlers()
    return any(code in _known for code in _codes(error.__traceback__))


def _handlers() -> Iterator[CodeType]:
    for number in SIGNALS:
        handler: Any = signal.getsignal(number)
        while hasattr(handler, "func"):  # functools.partial
            handler = handler.func
        for function in (handler, inspect.getattr_static(type(handler), "__call__", None)):
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _codes(trace: TracebackType | None) -> Iterator[CodeType]:
    while trace is not None:
        yield trace.tb_frame.f_code
        trace = trace.tb_next
