"""Code of the user's: whatever it raises becomes an error of the audit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def foreign(raised: str, *, passing: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Turn what is raised inside into RuntimeError, in the words ``raised``; Ctrl-C and what is ``passing`` pass.

    An exit, a cancelled task or a failed test of pytest are no Exception, and end a program with a status that would be
    read as a verdict.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, *passing)):
            raise
        raise RuntimeError(f"{raised}: {type(error).__name__}: {error}") from error
