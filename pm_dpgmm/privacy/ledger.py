"""A durable privacy budget: what has been spent on one data set, safe under several processes at once."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sqlite3
import sys
import uuid
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from pm_dpgmm._arguments import check_delta, check_positive, check_text, read_path, shown
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.ledger_history import NOTES, LedgerHistory, text_of

ROUNDING = Fraction(1, 10**9)  # relative: ten releases at epsilon 0.1 fit a budget of 1
PATIENCE = 60.0  # seconds to wait for another process
TABLES = {
    "budget": "(epsilon real, delta real, neighbouring text)",
    "spending": "(time text default current_timestamp, epsilon real, delta real, mechanism text)",
    "identity": "(id text)",  # of this file: another one with an equal budget has another
    "checks": "(entry integer primary key, digest text)",  # of costs, 0 of the budget: see _check
    "marks": "(entry integer primary key, id text)",  # no two entries have one, in whatever copy they were written
}


class BudgetExceeded(ValueError):
    """The ledger refused a release before it started; nothing was spent."""


class Entry(NamedTuple):
    """One cost in a :class:`Ledger`; the time is UTC."""

    time: str
    epsilon: float
    delta: float
    mechanism: str


class Last(NamedTuple):
    """The last entry that a process saw: its number, and what no other one has; entries of old versions have no id."""

    number: int
    row: tuple[object, ...] | None


class Ledger(LedgerHistory):
    """Total (epsilon, delta) for one data set, kept in an SQLite file.

    Costs add up by basic composition, which holds for any order of adaptive releases. A cost is written before
    the fit starts, so a crashed or refused fit stays paid.

    Parameters
    ----------
    path : path
        SQLite file; made when missing. It is looked up once: changes of the working directory or of a link do not
        lead elsewhere. Keep it where nobody deletes it: a file that went before a ledger was opened again is new.
    epsilon, delta : float
        Budget of the data set. Fixed when the file is made; opening it with another budget raises.
    neighbouring : {"replace-one", "add-remove"}
        Relation in which the budget counts. Releases under another relation are refused.
    data_set : str, optional
        What the records are called, such as "north clinic, 2019 to 2024"; kept in the file. None: as the file says.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, the file has another budget, or it is no ledger. Like the errors below also
        from every later use, if the file was replaced, or entries have gone or are no costs; on opening also if it is
        damaged. A checksum of each entry tells of a faulty disk, not of a person who writes to the file.
    FileNotFoundError, PermissionError, TimeoutError, OSError
        If the file has gone or its folder does not exist; cannot be written; is locked for a minute; or the disk fails.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "clinic.sqlite", epsilon=1.0)
    >>> ledger.reserve(0.625, 0.0, Neighbouring.REPLACE_ONE, "histogram")
    1
    >>> ledger.spent, ledger.remaining
    ((0.625, 0.0), (0.375, 0.0))
    >>> [(entry.epsilon, entry.mechanism) for entry in ledger.entries()]
    [(0.625, 'histogram')]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        neighbouring: str = "replace-one",
        data_set: str | None = None,
    ) -> None:
        check_positive(epsilon=epsilon)
        check_delta(delta)
        if data_set is not None:
            check_text(longest=1000, data_set=data_set)
        if isinstance(path, str) and not path:
            raise TypeError("path must be the path of a file, got ''")
        self.path = read_path(path).resolve()
        self.epsilon, self.delta = float(epsilon), float(delta)
        self.neighbouring = Neighbouring.parse(neighbouring)
        self._seen = Last(0, None)  # a file without this entry is one of earlier times, or another copy
        self._identity: str | None = None
        with self._opened("rwc") as connection:
            found = _tables(connection, self.path)
            if found and not {"budget", "spending"} <= found:
                raise ValueError(f"path must be a ledger or a new file, got {str(self.path)!r} with other tables")
            for name, columns in (TABLES | NOTES).items():
                connection.execute(f"create table if not exists {name} {columns}")
            if not found:
                connection.execute("insert into budget values (?, ?, ?)", self._budget)
                connection.execute("insert into checks values (0, ?)", (_digest(*self._budget),))
            if connection.execute("select id from identity").fetchone() is None:
                connection.execute("insert into identity values (?)", (uuid.uuid4().hex,))
            self._identity = connection.execute("select id from identity").fetchone()[0]
            self._verify(connection)
            self._check(connection)
            names = connection.execute("select cast(name as blob) from data_set").fetchall()
            if not names and data_set is not None:
                connection.execute("insert into data_set values (?)", (data_set,))
            elif data_set is not None and text_of(names[0][0]) != data_set:
                has = text_of(names[0][0])
                raise ValueError(f"data_set must be {has!r}, as the ledger {str(self.path)!r} says, got {data_set!r}")
            self.data_set = data_set or (text_of(names[0][0]) if names else "")

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger in a file that is there, with the budget that the file holds: a mistyped path makes none.

        Raises
        ------
        FileNotFoundError, TypeError, ValueError
            If there is no such file, or it is no ledger; otherwise as the constructor.
        """
        found = read_path(path)
        try:
            found = found.resolve()
            is_file = found.is_file()
        except OSError:  # a name that no file can have
            is_file = False
        if not is_file:
            raise FileNotFoundError(
                f"the ledger must be an existing file (pm-dpgmm ledger makes one), got {str(path)!r}"
            )
        # only a question: opening a file as a ledger would make tables in an empty one. Mode "ro" cannot undo what a
        # process that was killed in the middle of its writing has left
        try:
            with contextlib.closing(
                sqlite3.connect(f"{found.as_uri()}?mode=rw", timeout=PATIENCE, uri=True)
            ) as connection:
                _tables(connection, found)
                rows = connection.execute("select epsilon, delta, neighbouring from budget").fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            other = f"the ledger must be a file made by pm-dpgmm ledger, got {str(path)!r}: {error}"
            raise _outside(error, str(path), PATIENCE) or ValueError(other) from None
        if len(rows) != 1:
            raise ValueError(f"the ledger {str(path)!r} must hold one budget, got {len(rows)}")
        epsilon, delta, neighbouring = rows[0]
        try:
            check_positive(epsilon=epsilon)
            check_delta(delta)
            Neighbouring.parse(neighbouring)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the ledger {str(path)!r} must hold a budget, got {shown(rows[0])}: {error}") from None
        return cls(found, epsilon=epsilon, delta=delta, neighbouring=neighbouring)

    def __repr__(self) -> str:
        epsilon, delta, neighbouring = self._budget
        return f"Ledger({str(self.path)!r}, epsilon={epsilon!r}, delta={delta!r}, neighbouring={neighbouring!r})"

    @property
    def spent(self) -> tuple[float, float]:
        """Sum of all costs, (epsilon, delta)."""
        with self._opened("rw") as connection:
            epsilon, delta = self._verify(connection)
        return float(epsilon), float(delta)

    @property
    def remaining(self) -> tuple[float, float]:
        """What is left of the budget, (epsilon, delta)."""
        epsilon, delta = self.spent
        return max(0.0, self.epsilon - epsilon), max(0.0, self.delta - delta)

    def entries(self) -> list[Entry]:
        """All costs, in the order in which they were written."""
        with self._opened("rw") as connection:
            self._verify(connection)
            query = "select cast(time as blob), epsilon, delta, cast(mechanism as blob) from spending order by rowid"
            rows = connection.execute(query).fetchall()
            return [Entry(text_of(time), epsilon, delta, text_of(label)) for time, epsilon, delta, label in rows]

    def reserve(self, epsilon: float, delta: float, neighbouring: Neighbouring | str, mechanism: str) -> int:
        """Write down a cost, or raise TypeError, ValueError or :class:`BudgetExceeded` and write nothing.

        Returns the number of the entry, from 1.
        """
        check_positive(epsilon=epsilon)
        check_delta(delta)
        label = str(mechanism)
        check_text(mechanism=label)
        relation = Neighbouring.parse(neighbouring)
        if relation is not self.neighbouring:
            raise BudgetExceeded(
                f"neighbouring must be {str(self.neighbouring)!r} in this ledger, got {relation}; which of them it"
                " counts is settled when it is made"
            )
        # SQLite keeps a number of another type as bytes, which do not count
        costs = float(epsilon), float(delta)
        with self._opened("rw") as connection:
            spent = self._verify(connection)
            for name, used, cost, budget in zip(
                ("epsilon", "delta"), spent, costs, (self.epsilon, self.delta), strict=True
            ):
                if used + Fraction(cost) > Fraction(budget) * (1 + ROUNDING):
                    raise BudgetExceeded(
                        f"{name} must leave the ledger within its budget {budget:g}, got {cost:g} with"
                        f" {float(used):g} spent"
                    )
            connection.execute("insert into spending (epsilon, delta, mechanism) values (?, ?, ?)", (*costs, label))
            (number,) = connection.execute("select count(*) from spending").fetchone()
            connection.execute("insert or ignore into checks values (?, ?)", (number, _digest(*costs, label)))
            connection.execute("insert or replace into marks values (?, ?)", (number, uuid.uuid4().hex))
            # a constraint of somebody else's table may drop an entry for another
            due = tuple(used + Fraction(cost) for used, cost in zip(spent, costs, strict=True))
            if self._sums(connection)[1:] != due:
                raise ValueError(f"the ledger {str(self.path)!r} must keep every cost, got one that does not")
            seen = _last(connection, number)
        self._seen = max(self._seen, seen, key=_number)  # not before it is committed
        return number

    @property
    def _budget(self) -> tuple[float, float, str]:
        return self.epsilon, self.delta, str(self.neighbouring)

    def _verify(self, connection: sqlite3.Connection) -> tuple[Fraction, Fraction]:
        """The exact sums of all costs, once the file was found to be the ledger that it was."""
        _tables(connection, self.path)
        budgets = connection.execute("select epsilon, delta, neighbouring from budget").fetchall()
        if budgets != [self._budget]:
            has = f"the budget {budgets[0]}" if len(budgets) == 1 else f"{len(budgets)} budgets"
            raise ValueError(f"the ledger {str(self.path)!r} has {has}, got {self._budget}")
        same = connection.execute("select id from identity").fetchall() == [(self._identity,)]
        seen = self._seen  # read once: another thread moves it on after its commit, outside of all transactions
        if not same or _last(connection, seen.number) != seen:
            raise ValueError(f"the ledger {str(self.path)!r} must stay in its place, got another file, or an older one")
        n_entries, epsilon, delta = self._sums(connection)
        self._seen = max(self._seen, _last(connection, n_entries), key=_number)
        return epsilon, delta

    def _sums(self, connection: sqlite3.Connection) -> tuple[int, Fraction, Fraction]:
        """How many entries there are, and the exact sums of their costs."""
        costs = connection.execute("select epsilon, delta, count(*) from spending group by epsilon, delta").fetchall()
        for epsilon, delta, _ in costs:
            if not (_is_cost(epsilon) and _is_cost(delta) and epsilon > 0):
                raise ValueError(
                    f"the ledger {str(self.path)!r} must hold costs, got the entry {shown((epsilon, delta))}"
                )
        epsilon, delta = (sum((row[2] * Fraction(row[i]) for row in costs), start=Fraction(0)) for i in (0, 1))
        if max(epsilon, delta) > Fraction(sys.float_info.max):
            raise ValueError(f"the ledger {str(self.path)!r} must hold costs, got a sum that no number holds")
        return sum(times for _, _, times in costs), epsilon, delta

    def _check(self, connection: sqlite3.Connection) -> None:
        """ValueError if the file lost or altered what was written: half a page, or a bit, that a disk did not keep.

        Entries without a checksum, of older versions, are taken as they are.
        """
        (state,) = connection.execute("pragma quick_check(1)").fetchone()
        query = "select epsilon, delta, cast(mechanism as blob) from spending order by rowid"
        found = dict(enumerate(connection.execute(query).fetchall(), 1)) | {0: self._budget}
        checks = connection.execute("select entry, cast(digest as blob) from checks").fetchall()
        wrong = [i for i, digest in checks if i not in found or text_of(digest) != _digest(*found[i])]
        if state != "ok" or wrong:
            what = shown(state) if state != "ok" else "another budget" if wrong[0] == 0 else f"entry {wrong[0]} altered"
            raise ValueError(f"the ledger {str(self.path)!r} must be as it was written, got {what}: restore a backup")

    @contextlib.contextmanager
    def _opened(self, mode: str, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """One exclusive transaction: two processes cannot both see the last of the budget.

        With mode "rw" the file is never made: a ledger that was deleted is not one with a fresh budget.
        """
        patience = PATIENCE if patience is None else patience
        try:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}", timeout=patience, isolation_level=None, uri=True
            )
            with contextlib.closing(connection):  # closing without commit rolls back
                connection.execute("begin immediate")
                yield connection
                connection.execute("commit")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._explained(error, patience) from None

    def _explained(self, error: sqlite3.Error | UnicodeDecodeError, patience: float) -> Exception:
        place = repr(str(self.path))
        if not os.path.exists(self.path):
            return FileNotFoundError(
                f"the ledger {place} must stay in its place, got no file"
                if self._identity
                else f"path must be a file in a folder that exists and can be written, got {place}"
            )
        other = f"the ledger {place} must be an SQLite file that a Ledger made, got {error}"
        return _outside(error, str(self.path), patience) or ValueError(other)


def _outside(error: sqlite3.Error | UnicodeDecodeError, place: str, patience: float) -> Exception | None:
    """What to raise where a file could not be used for what is outside it: a lock, permissions, a disk; else None."""
    name, path = getattr(error, "sqlite_errorname", ""), repr(place)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return TimeoutError(f"the ledger {path} must be free within {patience:g} seconds, got {error}")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        return PermissionError(f"the ledger {path} must be a file that can be written, got {error}")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return OSError(f"the ledger {path} must be on a disk that works, got {error}")
    return None


def _tables(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Names of the tables in a file from anywhere; ValueError if it holds triggers or views.

    They are somebody else's program: a trigger may take an entry back, a view may never end.
    """
    found = connection.execute("select type, name from sqlite_master").fetchall()
    for kind, _ in found:
        if kind not in ("table", "index"):
            raise ValueError(f"the ledger {str(path)!r} must hold tables alone, got a {kind}")
    return {name for kind, name in found if kind == "table"}


def _last(connection: sqlite3.Connection, number: int) -> Last:
    """An entry by its number, or that there is none; a file that only grew has the same one for ever."""
    if not number:
        return Last(0, None)
    query = "select cast(time as blob), epsilon, delta, cast(mechanism as blob) from spending order by rowid limit 1"
    row = connection.execute(f"{query} offset ?", (number - 1,)).fetchone()
    has_marks = connection.execute("select 1 from sqlite_master where name = 'marks'").fetchone()
    mark = has_marks and connection.execute("select cast(id as blob) from marks where entry = ?", (number,)).fetchone()
    return Last(number, row and (*row, mark))


def _number(last: Last) -> int:
    return last.number


def _is_cost(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value >= 0


def _digest(epsilon: float, delta: float, label: object) -> str:
    """Checksum of one row; floats by their repr, which is exact. SQLite keeps -0.0 as 0.0."""
    costs = [value + 0.0 if isinstance(value, float) else value for value in (epsilon, delta)]
    return hashlib.sha256(repr((*costs, text_of(label))).encode()).hexdigest()[:16]
