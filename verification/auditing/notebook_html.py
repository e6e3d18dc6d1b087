"""What notebooks show of an audit: claim, bound and verdict, every text escaped, in the notebook's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from verification._arguments import printable

LONGEST = 300
REFUTED = "border: 2px solid #c5221f; border-radius: 4px; padding: 2px 8px; display: inline-block"


def audit_html(title: str, rows: Sequence[tuple[str, str]], *, refuted: bool, notes: Sequence[str] = ()) -> str:
    """A verdict, a table and what a reader should know."""
    style = f' style="{REFUTED}"' if refuted else ""
    verdict = "refuted" if refuted else "no violation found, which is no proof"
    body = "".join(
        f'<tr><td style="text-align: left">{_text(name)}</td><td style="text-align: left">{_text(value)}</td></tr>'
        for name, value in rows
    )
    told = "".join(f"<p>{_text(note)}</p>" for note in notes)
    return (
        f"<div><p><strong>{_text(title)}</strong></p><p{style}><strong>{verdict}</strong></p>"
        f"<table><tbody>{body}</tbody></table>{told}</div>"
    )


def _text(words: str) -> str:
    shown = printable(words)
    return escape(shown if len(shown) <= LONGEST else shown[: LONGEST - 2] + " …")
