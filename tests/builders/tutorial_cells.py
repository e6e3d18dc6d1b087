"""Cells of the tutorials, and their runs: ``python tests/builders/tutorial_cells.py tutorials/01-....py``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple


class Cell(NamedTuple):
    line: int  # of its first line, from 1
    markdown: bool
    tags: tuple[str, ...]
    text: str  # of markdown without the comment signs


def cells(path: Path) -> list[Cell]:
    """The cells of a notebook in jupytext's percent format."""
    found: list[Cell] = []
    lines = path.read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("# %%")]
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        body = lines[start + 1 : stop]
        markdown = "[markdown]" in lines[start]
        if markdown:
            body = [re.sub(r"^# ?", "", line) for line in body]
        tags = re.findall(r'"([\w-]+)"', lines[start].partition("tags=")[2])
        found.append(Cell(start + 2, markdown, tuple(tags), "\n".join(body).strip("\n")))
    return found


def run(path: Path) -> int:
    """Run every cell in order; number of exercises.

    After a skeleton the check of its exercise runs before the solution is there, as for a student who has deleted it,
    and must say, by an AssertionError with words, that the answer is not right yet.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    notebook = [cell for cell in cells(path) if not cell.markdown]
    exercises = 0
    for number, cell in enumerate(notebook):
        execute(cell, path, names)
        if "exercise" in cell.tags:
            exercises += 1
            if not refusal(notebook[number + 2], path, dict(names)):
                raise ValueError(f"{path.name}, line {cell.line}: the check takes the skeleton for an answer")
    return exercises


def refusal(check: Cell, path: Path, names: dict[str, object]) -> str:
    """What a check says of an answer that it does not accept."""
    try:
        execute(check, path, names)
    except AssertionError as error:
        return str(error)
    return ""


def execute(cell: Cell, path: Path, names: dict[str, object]) -> None:
    code = "\n" * (cell.line - 1) + cell.text  # errors then name the line of the file
    exec(compile(code, str(path), "exec"), names)


if __name__ == "__main__":
    print(f"exercises: {run(Path(sys.argv[1]))}")
