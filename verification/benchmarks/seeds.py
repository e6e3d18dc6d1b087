"""The command line of an experiment that runs one instance a seed."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def seed_parser(description: str, *, count: int, counted: str) -> argparse.ArgumentParser:
    """A parser of ``--first``, the first seed, and ``--count``, the number of what is ``counted`` in the help."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--first", type=_at_least(0), default=0, help="first seed (default 0)")
    parser.add_argument("--count", type=_at_least(1), default=count, help=counted)
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
        return value

    return integer
