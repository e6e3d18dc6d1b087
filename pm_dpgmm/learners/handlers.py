"""Exceptions of the user's own signal handlers stop a run: whoever forgives a learner everything lets these by."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import CodeType, TracebackType
from typing import Any


def stop_if_told(error: BaseException) -> None:
    """Raise ``error`` if a signal handler did; for what is otherwise forgiven, or tried again."""
    if raised_by_a_handler(error):
        raise error


def raised_by_a_handler(error: BaseException) -> bool:
    """Whether a signal handler of this process raised ``error``, such as one that a time limit of the user's calls.

    By its traceback: some frame runs the code of a function that is a handler now. Handlers written in C raise
    KeyboardInterrupt, which nobody forgives.
    """
    handlers = set(_handlers())
    return any(code in handlers for code in _codes(error.__traceback__))


def _handlers() -> Iterator[CodeType]:
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while hasattr(handler, "func"):  # functools.partial
            handler = handler.func
        for function in (handler, vars(type(handler)).get("__call__")):
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _codes(trace: TracebackType | None) -> Iterator[CodeType]:
    while trace is not None:
        yield trace.tb_frame.f_code
        trace = trace.tb_next
