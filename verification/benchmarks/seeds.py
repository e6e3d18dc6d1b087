"""The command line of an experiment: how many runs, and of one that runs an instance a seed its seeds."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def seed_parser(description: str, *, count: int, counted: str) -> argparse.ArgumentParser:
    """A parser of ``--first``, the first seed, and ``--count``, the number of what is ``counted`` in the help."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--first", type=at_least(0), default=0, help="first seed (default 0)")
    parser.add_argument("--count", type=at_least(1), default=count, help=counted)
    return parser


def at_least(least: int) -> Callable[[str], int]:
    """A type of an argument: a whole number that is no less."""

    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
        return value

    return integer
