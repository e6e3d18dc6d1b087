"""What notebooks show of results: short tables in the notebook's own colours, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pm_dpgmm._arguments import printable

MOST_ROWS, LONGEST = 12, 300
ALARM = "border: 2px solid #c5221f; border-radius: 4px; padding: 2px 8px; display: inline-block"  # seen on any ground


def box(title: str, *parts: str) -> str:
    """A heading and parts that are HTML already."""
    return f"<div><p><strong>{text(title)}</strong></p>{''.join(parts)}</div>"


def text(words: str) -> str:
    """A text of anybody's, on one line, escaped and not too long."""
    shown = printable(words)
    return escape(shown if len(shown) <= LONGEST else shown[: LONGEST - 2] + " …")


def paragraph(words: str) -> str:
    """A paragraph."""
    return f"<p>{text(words)}</p>"


def alarm(words: str) -> str:
    """A paragraph that nobody misses."""
    return f'<p style="{ALARM}"><strong>{text(words)}</strong></p>'


def table(rows: Sequence[Sequence[str]], *, head: Sequence[str] = ()) -> str:
    """Rows of texts, the first of each a name; after the first dozen it says how many there are."""
    cells = "".join(f'<th style="text-align: left">{text(name)}</th>' for name in head)
    top = f"<thead><tr>{cells}</tr></thead>" if head else ""
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align: left">{text(cell)}</td>' for cell in row) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    more = paragraph(f"and {len(rows) - MOST_ROWS:,} more") if len(rows) > MOST_ROWS else ""
    return f"<table>{top}<tbody>{body}</tbody></table>{more}"
