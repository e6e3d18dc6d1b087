"""A progress bar that cannot end what it shows: by the time it is shown, the budget is spent."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress_bar(progress: bool, label: str, *, what: str = "private fit") -> Iterator[Callable[[int, int], None]]:
    """A rich progress bar on a terminal or in a notebook with ipywidgets, nothing in a pipe.

    A stderr that is missing, closed or no file, or a terminal that hangs up, costs the bar alone.
    """
    bar: Any = None
    with contextlib.suppress(Exception):
        console = _console() if progress else None
        if console is not None:
            from rich.progress import Progress as Bar, TimeElapsedColumn

            # the seconds go on where a step takes long
            bar = Bar(*Bar.get_default_columns(), TimeElapsedColumn(), console=console, transient=True)
            task = bar.add_task(f"{what} ({label})", total=None)
            bar.start()

    def step(done: int, total: int) -> None:
        with contextlib.suppress(Exception):
            if bar is not None:
                bar.update(task, completed=done, total=total)

    try:
        yield step
    finally:
        with contextlib.suppress(Exception):
            if bar is not None:
                bar.stop()


def _console() -> Any:
    """Where a bar can be shown: the terminal, or the notebook; None where there is neither."""
    if sys.stderr.isatty():
        from rich.console import Console

        stream: Any = _Unfailing(sys.stderr)  # a thread of the bar's writes, too
        return Console(file=stream)
    if "IPython" not in sys.modules or importlib.util.find_spec("ipywidgets") is None:
        return None
    from rich.console import Console

    console = Console()  # in a notebook rich draws by ipywidgets, as PyMC's bars are drawn
    return console if console.is_jupyter else None


class _Unfailing:
    """A stream whose writes do not fail."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(Exception):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(Exception):
            self._stream.flush()
