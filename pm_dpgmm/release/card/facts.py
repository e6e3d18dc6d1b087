"""What a card says that no release knows: what the data are, who is answerable, units, how many rows a person has."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pm_dpgmm._arguments import check_count, check_text, shown
from pm_dpgmm.methods.released import Released
from pm_dpgmm.privacy.group_privacy import MOST_RECORDS
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.records.feature_names import place_of

TITLE = "Release of a private Gaussian mixture"


@dataclass(frozen=True, slots=True)
class Facts:
    """Public texts and numbers, given by whoever publishes the release."""

    title: str
    data: str
    contact: str
    licence: str
    date: str
    file: str
    units: tuple[str, ...]  # by column, "" where none was given
    descriptions: tuple[str, ...]
    rows_per_person: int | None
    ledger: Ledger | None


def read_facts(
    release: Released,
    *,
    title: Any = TITLE,
    data: Any = "",
    contact: Any = "",
    licence: Any = "",
    date: Any = None,
    file: Any = "release.json",
    units: Any = None,
    descriptions: Any = None,
    rows_per_person: Any = None,
    ledger: Any = None,
) -> Facts:
    """The facts, checked: TypeError or ValueError with the name of what is wrong."""
    check_text(title=title, data=data, contact=contact, licence=licence, file=file)
    if not title.strip():
        raise ValueError(f"title must be a text that can be read, got {title!r}")
    if rows_per_person is not None:
        check_count(most=MOST_RECORDS, rows_per_person=rows_per_person)
    if isinstance(ledger, (str, os.PathLike)):
        ledger = Ledger.existing(ledger)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a pm_dpgmm.Ledger, got {shown(ledger)}")
    return Facts(
        title=title,
        data=data,
        contact=contact,
        licence=licence,
        date=_date(date),
        file=file,
        units=_by_column(units, release, "units"),
        descriptions=_by_column(descriptions, release, "descriptions"),
        rows_per_person=rows_per_person,
        ledger=ledger,
    )


def _date(given: Any) -> str:
    if given is None:
        return datetime.date.today().isoformat()
    if isinstance(given, datetime.date) and given == given:  # pandas' NaT is a date that is none
        return given.isoformat()[:10]
    try:
        check_text(date=given)
    except TypeError:
        raise TypeError(f"date must be text or a date, got {shown(given)} of type {type(given).__name__}") from None
    return str(given)


def _by_column(given: Any, release: Released, name: str) -> tuple[str, ...]:
    if given is None:
        return ("",) * release.n_features
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must map names of columns to texts, got {shown(given)}")
    texts = [""] * release.n_features
    for column, text in given.items():
        place = place_of(column, release.feature_names, parameter=name)
        check_text(**{f"{name}[{shown(column)}]": text})
        texts[place] = text
    return tuple(texts)
