"""Formulas in the plain text of proof notes and of claims, drawn; the files stay as they are."""

from __future__ import annotations

import re
from typing import Any

from formulas import formulas_in
from sphinx.application import Sphinx

KEPT = re.compile(r"```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\)|^#.*?$|^\|.*?$|https?://\S+", re.DOTALL | re.MULTILINE)


def typeset(text: str) -> str:
    """Markdown with its formulas between dollar signs; code, links, headings and tables as they are."""
    paragraphs = re.split(r"(\n\s*\n)", text)
    return "".join(part if not part.strip() else _paragraph(part) for part in paragraphs)


def _paragraph(text: str) -> str:
    parts, done = [], 0
    for kept in KEPT.finditer(text):
        parts += [formulas_in(text[done : kept.start()]), kept.group()]
        done = kept.end()
    return "".join([*parts, formulas_in(text[done:])])


def on_read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Proof notes stand beside the code."""
    if docname.startswith(("pm_dpgmm/", "verification/")):
        # a claim, its argument and its checks are paragraphs of their own
        text = re.sub(r"\n(?=(?:Argument|Assumes|Checked by|Not covered|Claim|Source|Sources)\b[^\n]*[:.])", "\n\n", content[0])
        content[0] = typeset(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to what is read."""
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
