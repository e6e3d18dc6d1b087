"""What a ledger tells beside its sums: which release an entry became, and what all of them reveal together."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from pm_dpgmm._arguments import check_count, check_delta
from pm_dpgmm.notebook_html import box, table
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, compose

if TYPE_CHECKING:
    from pm_dpgmm.privacy.ledger import Entry

NOTES = {  # tables of a ledger beside its costs: nothing that is charged depends on them
    "data_set": "(name text)",
    "releases": "(entry integer, release text, guarantee text)",
}
SAME = 1e-9  # relative: pure guarantees may be stated a float away from what was charged
BRIEFLY = 5.0  # seconds that a finished fit waits for another process: a note is not worth more
LONGEST_GUARANTEE = 1_000_000  # characters; a longer one is not kept, and its entry counts by its stated pair


class Linked(NamedTuple):
    """What is written down once a fit has ended: fingerprint of its release, and its guarantee as JSON, or ""."""

    release: str
    guarantee: str


def text_of(value: object) -> str:
    """A text of the file, whatever somebody wrote there."""
    return value.decode("utf-8", errors="backslashreplace") if isinstance(value, bytes) else str(value)


class LedgerHistory:
    """Methods of :class:`pm_dpgmm.Ledger` that charge nothing."""

    epsilon: float
    delta: float
    neighbouring: Neighbouring
    data_set: str

    if TYPE_CHECKING:

        @property
        def spent(self) -> tuple[float, float]: ...
        @property
        def remaining(self) -> tuple[float, float]: ...
        def entries(self) -> list[Entry]: ...
        def _opened(self, mode: str, patience: float | None = None) -> AbstractContextManager[sqlite3.Connection]: ...
        def _verify(self, connection: sqlite3.Connection) -> tuple[Fraction, Fraction]: ...

    def history(self) -> Any:
        """All costs as a data frame, with what each left of the budget and the release that it became.

        Returns
        -------
        DataFrame
            Indexed by the number of the entry, from 1: ``time`` (UTC), ``mechanism``, ``epsilon``, ``delta``,
            ``epsilon_left``, ``delta_left``, and ``release``, its fingerprint, or "" where none is known.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pm_dpgmm.privacy.ledger import Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "clinic.sqlite", epsilon=1.0)
        >>> ledger.reserve(0.25, 0.0, Neighbouring.REPLACE_ONE, "histogram")
        1
        >>> ledger.history()[["epsilon", "epsilon_left"]].loc[1].tolist()
        [0.25, 0.75]
        """
        return _history(*self._entries_and_links(), (self.epsilon, self.delta))

    def link(self, entry: int, release: Any) -> None:
        """Write down which release an entry became: its fingerprint and its guarantee. ``fit_gmm`` does.

        Parameters
        ----------
        entry : int
            What :meth:`reserve` gave.
        release : Release

        Raises
        ------
        ValueError, OSError
            If there is no such entry, it has a release already, or the release cannot be saved; TimeoutError if another
            process has the file for five seconds.
        """
        found = linked(release)
        check_count(entry=entry)
        with self._opened("rw", BRIEFLY) as connection:  # a finished release waits
            self._verify(connection)
            (n_entries,) = connection.execute("select count(*) from spending").fetchone()
            query = "select 1 from releases where entry = ?"  # SQLite takes integers of 64 bits only
            if entry > n_entries or connection.execute(query, (int(entry),)).fetchone():
                raise ValueError(f"entry must be one of {n_entries} that has no release yet, got {entry}")
            connection.execute("insert into releases values (?, ?, ?)", (int(entry), *found))

    def entry_of(self, release: Any) -> Entry | None:
        """The cost that became this release, by its fingerprint; None where the ledger knows of none.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import numpy as np
        >>> import pm_dpgmm as dpg
        >>> ledger = dpg.Ledger(pathlib.Path(tempfile.mkdtemp()) / "clinic.sqlite", epsilon=3.0)
        >>> X = np.random.default_rng(1).normal(size=(500, 1))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5), ledger=ledger)
        >>> ledger.entry_of(release).mechanism
        'histogram'
        """
        asked = fingerprint(release.to_dict())
        entries, links = self._entries_and_links()
        return next((entries[i - 1] for i, link in links.items() if link.release == asked and i <= len(entries)), None)

    def composed(self, delta: float) -> Guarantee:
        """What all entries reveal together, by the whole curves of the releases that are known: often less than spent.

        Only told: the budget is charged by basic composition, whatever this says. It holds where the fits and their
        budgets were decided on before the first of them was seen. An entry without a release counts by its epsilon and
        delta.

        Parameters
        ----------
        delta : float
            At which epsilon is wanted.

        Returns
        -------
        Guarantee
            Of :func:`pm_dpgmm.compose`.

        Raises
        ------
        ValueError
            If there are no entries, or no epsilon is proved at ``delta``.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from pm_dpgmm.privacy.ledger import Ledger
        >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "clinic.sqlite", epsilon=1.0)
        >>> ledger.reserve(0.25, 0.0, Neighbouring.REPLACE_ONE, "histogram")
        1
        >>> ledger.composed(delta=0.0).epsilon
        0.25
        """
        check_delta(delta)
        entries, links = self._entries_and_links()
        if not entries:
            raise ValueError("composed needs a ledger with at least one entry, got none")
        return _composed(entries, links, self.neighbouring, delta)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        entries, spent, left = self.entries(), self.spent, self.remaining
        name = f"Ledger of {self.data_set}" if self.data_set else "Ledger"
        sums = [("budget", self.epsilon, self.delta), ("spent", *spent), ("left", *left)]
        rows = [(what, f"{epsilon:g}", f"{delta:g}") for what, epsilon, delta in sums]
        costs = [(e.time, f"{e.epsilon:g}", f"{e.delta:g}", e.mechanism) for e in reversed(entries)]
        parts = [table(rows, head=("", "epsilon", "delta"))]
        if costs:
            parts.append(table(costs, head=("time (UTC), latest first", "epsilon", "delta", "mechanism")))
        return box(f"{name}, {self.neighbouring} neighbours", *parts)

    def _entries_and_links(self) -> tuple[list[Entry], dict[int, Linked]]:
        entries = self.entries()
        with self._opened("rw") as connection:
            query = "select entry, cast(release as blob), cast(guarantee as blob) from releases order by rowid"
            rows = connection.execute(query).fetchall()
        # the first of several holds
        return entries, {int(i): Linked(text_of(a), text_of(b)) for i, a, b in reversed(rows) if isinstance(i, int)}


def fingerprint(fields: dict[str, Any]) -> str:
    """SHA-256 of a release's fields, the same for the release and for its file."""
    text = json.dumps(fields, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def linked(release: Any) -> Linked:
    """What a ledger keeps of a release; ValueError where it cannot be saved."""
    fields = release.to_dict()
    guarantee = json.dumps(fields["guarantee"], allow_nan=False)
    return Linked(fingerprint(fields), guarantee if len(guarantee) <= LONGEST_GUARANTEE else "")


def _composed(entries: Sequence[Entry], links: dict[int, Linked], relation: Neighbouring, delta: float) -> Guarantee:
    """See :meth:`pm_dpgmm.Ledger.composed`."""
    return compose(*(_guarantee(entry, links.get(i), relation) for i, entry in enumerate(entries, 1)), delta=delta)


def _guarantee(entry: Entry, link: Linked | None, relation: Neighbouring) -> Guarantee:
    """The curve of an entry where its release is known and says what was charged; else the stated pair."""
    stated = Guarantee(entry.epsilon, entry.delta, relation, entry.mechanism, PointProfile(entry.epsilon, entry.delta))
    if link is None or not link.guarantee:
        return stated
    try:
        found = Guarantee.from_dict(json.loads(link.guarantee))
    except (TypeError, ValueError, RecursionError):  # somebody else wrote there
        return stated
    same = entry.epsilon * (1 - SAME) <= found.epsilon <= entry.epsilon and found.delta == entry.delta
    return found if same and found.neighbouring is relation else stated


def _history(entries: Sequence[Entry], links: dict[int, Linked], budget: tuple[float, float]) -> Any:
    """See :meth:`pm_dpgmm.Ledger.history`."""
    import pandas as pd

    rows, used = [], [Fraction(0), Fraction(0)]
    for i, entry in enumerate(entries, 1):
        used = [used[0] + Fraction(entry.epsilon), used[1] + Fraction(entry.delta)]
        left = [float(max(Fraction(0), Fraction(whole) - part)) for whole, part in zip(budget, used, strict=True)]
        link = links.get(i)
        rows.append((entry.time, entry.mechanism, entry.epsilon, entry.delta, *left, link.release if link else ""))
    names = ["time", "mechanism", "epsilon", "delta", "epsilon_left", "delta_left", "release"]
    return pd.DataFrame(rows, columns=names, index=pd.RangeIndex(1, len(rows) + 1, name="entry"))
