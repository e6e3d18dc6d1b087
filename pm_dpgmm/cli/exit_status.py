"""How a command ends: one line for bad input and for each warning, a reliable status, nothing for a closed pipe."""

from __future__ import annotations

import argparse
import io
import os
import re
import sqlite3
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TextIO

from pm_dpgmm._arguments import printable

NEGATIVE = re.compile(r"^-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$", re.IGNORECASE)  # argparse takes -1e3 for an option
BAD_INPUT, INTERRUPTED, UNREAD = 2, 130, 141  # the last two: 128 and the signal, as shells have them
FAULTS = (TypeError, ValueError, OSError, ImportError, OverflowError, RecursionError, sqlite3.Error)  # of an input


def run_command(program: str, parser: Callable[[], argparse.ArgumentParser], arguments: Sequence[str] | None) -> int:
    """Parse ``arguments`` and call the function ``run`` that the command has set; returns the exit status."""
    _usable_streams()
    parsed: list[argparse.Namespace] = []

    def parse() -> int:
        parsed.append(parser().parse_args(arguments))
        return 0

    status = ended(program, parse)
    if not parsed:
        return status
    (options,) = parsed
    name = f"{program} {options.command}"

    def told(message: Warning | str, *place: object) -> None:
        try:
            print(f"{name}: {one_line(message)}", file=sys.stderr, flush=True)
        except OSError:  # nobody reads on, or a full disk: no reason to end what was paid for
            stop_writing(sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = told  # type: ignore[assignment]  # without file and line of the source
        return ended(name, lambda: int(options.run(options)))


def ended(program: str, command: Callable[[], int]) -> int:
    """The status of ``command``; 2 and one line on bad input, 130 on Ctrl-C, 141 and nothing when nobody reads on.

    Other exceptions are faults of the program and pass, and so does any that carries numbers that were paid for.
    """
    try:
        status = command()
        sys.stdout.flush()
    except SystemExit as asked:  # of argparse, which has said why
        return asked.code if isinstance(asked.code, int) else BAD_INPUT
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        stop_writing()
        return UNREAD
    except (*FAULTS, Warning) as error:
        if hasattr(error, "released") or hasattr(error, "release"):
            raise
        print(f"{program}: {one_line(error)}", file=sys.stderr)
        return BAD_INPUT
    return status


def one_line(error: BaseException | str) -> str:
    """Message of an exception or warning without line breaks and control characters, or its name."""
    return printable(" ".join(str(error).split())) or type(error).__name__


def _usable_streams() -> None:
    """A daemon may have no output, and a terminal not the letters of a column: neither may end a fit that was paid."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 until the process ends
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def stop_writing(stream: TextIO | None = None) -> None:
    """Python flushes at its end, too: what is left goes nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())
    except (OSError, ValueError, AttributeError):  # no real file, as under a test
        return
