"""Writes the card of a release: to a file that is there whole or not at all, or as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pm_dpgmm._arguments import check_flag, read_path
from pm_dpgmm.files.writing import check_destination, write_text
from pm_dpgmm.methods.released import Released
from pm_dpgmm.release.card.contents import contents
from pm_dpgmm.release.card.facts import read_facts
from pm_dpgmm.release.card.markdown import to_markdown
from pm_dpgmm.release.card.page import to_html

LAYOUTS = {".html": to_html, ".htm": to_html, ".md": to_markdown, ".markdown": to_markdown, ".txt": to_markdown}


def card_text(release: Released, *, suffix: str = ".md", **facts: Any) -> str:
    """The card of a release, laid out for files whose names end in ``suffix``."""
    return LAYOUTS[suffix.lower()](contents(release, read_facts(release, **facts)))


def write_card(release: Released, path: str | os.PathLike[str], *, force: bool = False, **facts: Any) -> Path:
    """See :meth:`pm_dpgmm.Release.card`."""
    check_flag(force=force)
    place = check_card(path, force=force)
    return write_text(place, card_text(release, suffix=place.suffix, **facts))


def check_card(path: str | os.PathLike[str], *, name: str = "path", force: bool = False, never: Any = ()) -> Path:
    """Raise unless a card can be written there: before it is made."""
    place = check_destination(read_path(path, name=name), name=name, force=force, never=never)
    if place.suffix.lower() not in LAYOUTS:
        raise ValueError(f"{name} must end in one of {', '.join(LAYOUTS)}, got {str(path)!r}")
    return place
