"""A card as Markdown. Texts from people and files stand in cells and paragraphs with every special letter escaped."""

from __future__ import annotations

import re

from pm_dpgmm.release.card.contents import Block, Code, Contents, Drawings, Points, Table, Text

SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$!])")
IN_WORDS = re.compile(r"(?<=\w)\\_(?=\w)")  # an underscore between letters begins nothing


def to_markdown(contents: Contents) -> str:
    """The whole card; drawings are left out."""
    parts = [f"# {plain(contents.title)}"]
    if contents.alarm:
        parts.append(f"**{plain(contents.alarm)}**")
    for section in contents.sections:
        parts.append(f"## {plain(section.title)}")
        parts += [laid for block in section.blocks if (laid := _laid(block))]
    parts.append(f"Made with pm_dpgmm {plain(contents.version)}.")
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """A text as it is read, whatever is in it."""
    escaped = SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return IN_WORDS.sub("_", escaped)


def _laid(block: Block) -> str:
    if isinstance(block, Text):
        return plain(block.words)
    if isinstance(block, Points):
        return "\n".join(f"- {plain(entry)}" for entry in block.entries)
    if isinstance(block, Table):
        rule = "|".join("---:" if i in block.numbers else "---" for i in range(len(block.head)))
        rows = [block.head, *block.rows]
        lines = ["| " + " | ".join(plain(cell) for cell in row) + " |" for row in rows]
        return "\n".join([lines[0], f"|{rule}|", *lines[1:]])
    if isinstance(block, Code):
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", block.text))])
        return f"{fence}\n{block.text.rstrip()}\n{fence}"
    assert isinstance(block, Drawings)
    return ""
