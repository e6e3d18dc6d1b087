"""A durable privacy budget: what has been spent on one data set, safe under several processes at once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pm_dpgmm._arguments import check_delta, check_positive
from pm_dpgmm.privacy import Neighbouring

ROUNDING = 1e-9  # relative: ten releases at epsilon 0.1 fit a budget of 1


class BudgetExceeded(ValueError):
    """The ledger refused a release before it started; nothing was spent."""


class Ledger:
    """Total (epsilon, delta) for one data set, kept in an SQLite file.

    Costs add up by basic composition, which holds for any order of adaptive releases. A cost is written before
    the fit starts, so a crashed or refused fit stays paid.

    Parameters
    ----------
    path : path
        SQLite file; made when missing.
    epsilon, delta : float
        Budget of the data set. Fixed when the file is made; opening it with another budget raises.
    neighbouring : {"replace-one", "add-remove"}
        Relation in which the budget counts. Releases under another relation are refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "clinic.sqlite", epsilon=1.0)
    >>> ledger.reserve(0.6, 0.0, Neighbouring.REPLACE_ONE, "histogram")
    >>> ledger.spent
    (0.6, 0.0)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        neighbouring: str = "replace-one",
    ) -> None:
        check_positive(epsilon=epsilon)
        check_delta(delta)
        self.path = Path(path)
        self.epsilon, self.delta = float(epsilon), float(delta)
        self.neighbouring = Neighbouring.parse(neighbouring)
        wanted = (self.epsilon, self.delta, str(self.neighbouring))
        with self._transaction() as connection:
            connection.execute("create table if not exists budget (epsilon real, delta real, neighbouring text)")
            connection.execute(
                "create table if not exists spending (time text default current_timestamp,"
                " epsilon real, delta real, mechanism text)"
            )
            row = connection.execute("select epsilon, delta, neighbouring from budget").fetchone()
            if row is None:
                connection.execute("insert into budget values (?, ?, ?)", wanted)
            elif tuple(row) != wanted:
                raise ValueError(f"the ledger {str(self.path)!r} has the budget {tuple(row)}, got {wanted}")

    @property
    def spent(self) -> tuple[float, float]:
        """Sum of all costs, (epsilon, delta)."""
        with self._transaction() as connection:
            return _totals(connection)

    def reserve(self, epsilon: float, delta: float, neighbouring: Neighbouring, mechanism: str) -> None:
        """Write down a cost, or raise :class:`BudgetExceeded` and write nothing."""
        check_positive(epsilon=epsilon)
        check_delta(delta)
        if neighbouring is not self.neighbouring:
            raise BudgetExceeded(f"neighbouring must be {str(self.neighbouring)!r} in this ledger, got {neighbouring}")
        with self._transaction() as connection:
            spent = _totals(connection)
            for name, used, cost, budget in zip(
                ("epsilon", "delta"), spent, (epsilon, delta), (self.epsilon, self.delta), strict=True
            ):
                if used + cost > budget * (1 + ROUNDING):
                    raise BudgetExceeded(
                        f"{name} must leave the ledger within its budget {budget:g}, got {cost:g} with {used:g} spent"
                    )
            connection.execute(
                "insert into spending (epsilon, delta, mechanism) values (?, ?, ?)", (epsilon, delta, mechanism)
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One exclusive transaction: two processes cannot both see the last of the budget."""
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            connection.execute("begin immediate")
            yield connection
            connection.execute("commit")
        finally:
            connection.close()  # closing without commit rolls back


def _totals(connection: sqlite3.Connection) -> tuple[float, float]:
    row = connection.execute("select total(epsilon), total(delta) from spending").fetchone()
    return float(row[0]), float(row[1])
