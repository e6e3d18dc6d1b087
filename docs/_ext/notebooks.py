"""Reads the course: scripts in cells (py:percent), which say nothing of their language or kernel."""

from __future__ import annotations

from typing import Any

import jupytext


def reads(text: str) -> Any:
    """A notebook of Python."""
    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    return notebook
