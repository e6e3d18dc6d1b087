"""Code of the user's: whatever it raises becomes an error of the audit."""

from __future__ import annotations

from types import TracebackType


class foreign:
    """Turn what is raised inside into RuntimeError, in the words ``raised``; Ctrl-C and what is ``passing`` pass.

    An exit, a cancelled task or a failed test of pytest are no Exception, and end a program with a status that would be
    read as a verdict. No generator with ``contextmanager``: that hands StopIteration on as it is, and whoever iterates
    would take it for the end.
    """

    def __init__(self, raised: str, *, passing: tuple[type[BaseException], ...] = ()) -> None:
        self.raised, self.passing = raised, passing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None and not isinstance(error, (KeyboardInterrupt, *self.passing)):
            try:
                words = str(error)
            except Exception:  # whatever its own words raise
                words = ""
            raise RuntimeError(f"{self.raised}: {type(error).__name__}: {words}") from error
