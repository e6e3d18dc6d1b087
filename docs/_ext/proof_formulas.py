"""Formulas in the plain text of proof notes and of claims, drawn; the files stay as they are."""

from __future__ import annotations

import re
from typing import Any

from formulas import typeset
from sphinx.application import Sphinx


def on_read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Proof notes stand beside the code."""
    if docname.startswith(("pm_dpgmm/", "verification/")):
        # the hash of a heading below it
        text = re.sub(r"(?m)^(#+ \S+) \(source as read: (sha256 \w+)\)$", r"\1\n\n*Source as read: \2*\n", content[0])
        # a claim, its argument and its checks are paragraphs of their own
        content[0] = typeset(re.sub(r"\n(?=(?:Argument|Assumes|Checked by|Not covered|Sources?)\b)", "\n\n", text))


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to what is read."""
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
