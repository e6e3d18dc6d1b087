"""What a fit, or a tool, changes for its time and all threads of the process share: one thread at a time.

Filters of warnings, streams, the level of logs and seeds are put back at the end. Two threads at once would put back
each other's, and warnings and prints would be lost for good.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
from scipy import special

_SPECIAL = threading.Lock()
_special_kept: list[dict[str, str]] = []  # what the caller set; there while a thread of ours needs it otherwise
_special_users = 0

# held around a single fit, or the functions of a tool, in which no other thread of ours waits for it
ALONE = threading.RLock()
SIGNALS = tuple(int(number) for number in signal.valid_signals())  # asked once: every single fit looks at all of them
TIMERS = {
    getattr(signal, name): getattr(signal, timer)
    for name, timer in (("SIGALRM", "ITIMER_REAL"), ("SIGVTALRM", "ITIMER_VIRTUAL"), ("SIGPROF", "ITIMER_PROF"))
    if hasattr(signal, name)
}


@contextlib.contextmanager
def without_warnings(kind: type[Warning] = Warning, message: str = "") -> Iterator[None]:
    """Other people's code without its warnings of a kind, those alone whose text begins with ``message``."""
    with ALONE, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message, kind)
        yield


@contextlib.contextmanager
def without_float_errors() -> Iterator[None]:
    """No floating-point warnings and errors of NumPy and SciPy, whatever the caller set for them.

    What SciPy's special functions do is set for all threads at once: the first in keeps it, the last out puts it back.
    """
    global _special_users
    with _SPECIAL:
        if _special_users == 0:
            _special_kept[:] = [special.geterr()]
            special.seterr(all="ignore")
        _special_users += 1
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        with _SPECIAL:
            _special_users -= 1
            if _special_users == 0:
                special.seterr(**_special_kept.pop())


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """No prints, no log lines and no questions from Python code: they depend on records. For who holds ``ALONE``."""
    level, stdin = logging.root.manager.disable, sys.stdin
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        logging.disable(sys.maxsize)
        sys.stdin = io.StringIO()
        try:
            yield
        finally:
            sys.stdin = stdin
            logging.disable(level)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """A function of the user's own sees records: nothing that it prints, logs, asks or warns of gets out.

    What it raises does. Not covered: text from compiled code.
    """
    with ALONE, silence(), without_warnings(), without_float_errors():
        yield


@contextlib.contextmanager
def outside_events() -> Iterator[list[BaseException]]:
    """Exceptions that the user's signal handlers raise meanwhile, such as KeyboardInterrupt: not the learner's."""
    raised: list[BaseException] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        try:
            before[number](number, frame)
        except BaseException as event:
            raised.append(event)
            raise

    if threading.current_thread() is threading.main_thread():  # no other thread hears signals
        for number in SIGNALS:
            handler = before[number] = signal.getsignal(number)
            if callable(handler):
                signal.signal(number, note)
    try:
        yield raised
    finally:
        for changed, handler in before.items():  # also those that the learner set
            now = signal.getsignal(changed)
            if handler is None or now is handler:  # None: set by other than Python code
                continue
            if now is not note and changed in TIMERS:  # the learner's own, whose signal would meet our handler
                signal.setitimer(TIMERS[changed], 0.0)
            signal.signal(changed, handler)
