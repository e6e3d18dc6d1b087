"""What an experiment of a paper is here, once it has run: settings, mechanisms, numbers, and what they say."""

from __future__ import annotations

import enum
import itertools
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from verification.auditing.workers import stopping_is_no_error

Task = TypeVar("Task")
Result = TypeVar("Result")


class Kind(enum.StrEnum):
    """What a mechanism of an experiment is."""

    NONE = "not private"
    PRINTED = "printed"
    SOUND = "sound"


class Verdict(enum.StrEnum):
    """What became of a printed result here."""

    REPRODUCES = "reproduces"
    DIFFERS = "does not reproduce"
    UNCOMPARED = "cannot be compared"
    NEW = "of this project"  # about mechanisms that the paper does not have


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One curve or column of an experiment.

    ``parameter`` says what its "epsilon" is a parameter of, ``guarantee`` what it really gives.
    """

    name: str
    kind: Kind
    parameter: str
    guarantee: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Medians (or what the panel says) of one mechanism over x, and a range around them where there is one."""

    mechanism: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of an experiment."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = True
    log_y: bool = False
    y_range: tuple[float, float] | None = None  # curves beyond are cut


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about an experiment.

    ``printed`` and ``found`` are the numbers that it compares; ``holds`` whether what was found is as ``verdict`` and
    ``why`` say: a test of this project, which may fail for either verdict.
    """

    statement: str
    printed: str
    found: str
    verdict: Verdict
    holds: bool
    why: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or a figure of a paper, run again. ``missing`` is not empty where its data are not there."""

    name: str
    paper: str
    title: str
    setting: str
    mechanisms: tuple[Mechanism, ...] = ()
    tables: tuple[Table, ...] = ()
    panels: tuple[Panel, ...] = ()
    findings: tuple[Finding, ...] = ()
    missing: str = ""
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """Statements that do not hold."""
        return [f"{self.name}: {finding.statement}" for finding in self.findings if not finding.holds]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to run.

    Attributes
    ----------
    quick : bool
    seed : int
        Every run has a generator of its own, so that results do not depend on ``n_jobs``.
    n_jobs : int
        Processes, as joblib counts them.
    digitised : Path or None
        Table of digitised curves of Harrington and Mayolo, to draw beside; nothing depends on it.
    """

    quick: bool = False
    seed: int = 20261123
    n_jobs: int = 1
    digitised: Path | None = None

    def command(self, only: Sequence[str]) -> str:
        """What makes these experiments again, all of them where ``only`` is empty."""
        given = ["--seed", str(self.seed), *["--quick"] * self.quick, *["--only"] * bool(only), *only]
        given += [] if self.digitised is None else ["--digitised", str(self.digitised)]
        return f"python -m verification reproductions {shlex.join(given)}"

    def of(self, quick: int, full: int) -> int:
        """A number of repeats."""
        return quick if self.quick else full

    def each(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """``function`` of every task, in order; it must be importable where there are several processes."""
        from joblib import Parallel, delayed

        chosen = list(tasks)
        if self.n_jobs == 1 or len(chosen) < 2:
            return [function(task) for task in chosen]
        with stopping_is_no_error():
            return list(Parallel(n_jobs=self.n_jobs)(delayed(function)(task) for task in chosen))


def shown(value: float, digits: int = 3) -> str:
    """A number in a table."""
    return (
        f"{value:.{digits}g}" if abs(value) < 1e4 else f"{value:.{digits}e}" if abs(value) >= 1e6 else f"{value:,.0f}"
    )


def in_order(values: Sequence[float]) -> bool:
    """Whether every value is above the next."""
    return all(first > second for first, second in itertools.pairwise(values))
