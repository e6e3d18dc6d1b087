"""A bar is shown on a terminal and in a notebook that can draw it, and nowhere else."""

import importlib.util
import io
import sys

import pytest
import rich.console

from pm_dpgmm import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("ipython, ipywidgets, notebook, shown", [
    (True, True, True, True), (True, True, False, False), (True, False, True, False), (False, True, True, False),
])  # fmt: skip
def test_a_notebook_has_a_bar_where_ipywidgets_is_there(monkeypatch, ipython, ipywidgets, notebook, shown):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    if ipython:
        monkeypatch.setitem(sys.modules, "IPython", sys)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: sys if ipywidgets else None)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: notebook)
    found = progress_bar._console()
    assert (found is not None) is shown and (not shown or found.is_jupyter)


def test_a_terminal_has_a_bar_and_a_pipe_none(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar.progress_bar(True, "sketch") as step:
        step(1, 2)
    assert "private fit (sketch)" in stream.getvalue() and "0:00:00" in stream.getvalue()
    for progress, stream in ((False, Terminal()), (True, io.StringIO())):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar.progress_bar(progress, "sketch") as step:
            step(1, 2)
        assert stream.getvalue() == ""
