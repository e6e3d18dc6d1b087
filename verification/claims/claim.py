"""What a claim is: a statement of a paper, a check of it, and the same check of a statement with the other truth value.

A check measures left side over right side of an inequality, at many places; above 1 the statement is violated. Every
check is run twice with different arguments: on the statement as printed, and on a contrast. The contrast of a true
statement is a false one close to it (a constant sharpened, a condition dropped), which shows that the check could have
failed; the contrast of a false statement is the corrected one.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

TIGHT = 0.99  # share of the bound from which on a statement counts as tight


class Kind(StrEnum):
    """How a statement is checked."""

    EXACT = "exact"  # closed form or certified arithmetic, on a grid
    EXHAUSTIVE = "exhaustive"  # every case of a finite family
    QUADRATURE = "quadrature"  # numerical integral with a stated error
    PROPERTY = "property-based"  # Hypothesis, hostile cases, guided towards the bound
    SEARCH = "adversarial search"  # optimisation from many starts
    SAMPLED = "Monte Carlo"  # with a stated probability of a wrong verdict
    AUDIT = "audit"  # likelihood-ratio tests on neighbouring data sets
    READ = "read"  # not checkable by experiment


class Verdict(StrEnum):
    """What is true of a statement as printed."""

    HOLDS = "holds"
    SLACK = "holds with slack"  # also with a better constant, or on a larger domain
    FALSE = "false as printed"
    NOT_CHECKABLE = "not checkable"


@dataclass(frozen=True, slots=True)
class Effort:
    """Randomness and patience of one check."""

    rng: np.random.Generator
    thorough: bool = False

    def of(self, quick: int, thorough: int) -> int:
        """Number of cases to try."""
        return thorough if self.thorough else quick


@dataclass(frozen=True, slots=True)
class Finding:
    """The worst case that a check met.

    Parameters
    ----------
    largest : float
        Left side over right side there; 0 or infinity for statements that are true or false and nothing between.
    where : str
        The worst case, in enough detail to compute it by hand.
    n_cases : int
        Cases compared; a check without cases raises ValueError.
    tolerance : float
        On ``largest``: rounding, or the certified error of the reference. Never room for a violation.
    figures : mapping of str to float
        Constants measured on the way, for the report.
    false_alarm : float
        Probability that a true statement is called violated; 0 unless the check samples.
    """

    largest: float
    where: str
    n_cases: int
    tolerance: float = 0.0
    figures: Mapping[str, float] = field(default_factory=dict)
    false_alarm: float = 0.0

    def __post_init__(self) -> None:
        if math.isnan(self.largest):
            raise ValueError(f"a check must not end in NaN, at {self.where}")
        if self.n_cases < 1:
            raise ValueError("a check must compare at least one case")

    @property
    def holds(self) -> bool:
        """No case violates the statement."""
        return self.largest <= 1 + self.tolerance

    def with_figures(self, figures: Mapping[str, float]) -> Finding:
        """The same, with more constants measured on the way."""
        return replace(self, figures={**self.figures, **figures})


Check = Callable[..., Finding]  # (effort, **arguments)
AnyCheck = TypeVar("AnyCheck", bound=Check)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement with its source, its check and what is known of it.

    Parameters
    ----------
    id : str
        Name in ``verdicts.csv``; every figure of the report can be traced to it.
    family, source : str
        Group, and paper with the number of the statement.
    statement : str
        In plain notation.
    kind : Kind
    verdict : Verdict
        What this project says of the statement as printed.
    check : callable, optional
        ``check(effort, **arguments) -> Finding``; None when the statement is not checkable.
    printed, contrast : mapping
        Arguments of the check for the statement as printed and for a close one with the other truth value.
    otherwise : str
        The contrast in words: for a false statement the corrected one, for a true one what would be false.
    constants : str
        Tight constants, or the range in which the statement holds, and how they are known.
    reason : str
        Why it is not checkable.
    """

    id: str
    family: str
    source: str
    statement: str
    kind: Kind
    verdict: Verdict
    check: Check | None = None
    printed: Mapping[str, Any] = field(default_factory=dict)
    contrast: Mapping[str, Any] = field(default_factory=dict)
    otherwise: str = ""
    constants: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.check is None) != (self.verdict is Verdict.NOT_CHECKABLE):
            raise ValueError(f"{self.id}: exactly the claims that are not checkable have no check")
        if self.check is None and not self.reason:
            raise ValueError(f"{self.id}: reason must say why it is not checkable")
        if self.check is not None and (self.printed == self.contrast or not self.otherwise):
            raise ValueError(f"{self.id}: the contrast must differ from the statement as printed, and be stated")


def claim(
    *,
    id: str,
    family: str,
    source: str,
    statement: str,
    kind: Kind,
    verdict: Verdict,
    printed: Mapping[str, Any],
    contrast: Mapping[str, Any],
    otherwise: str,
    constants: str = "",
) -> Callable[[AnyCheck], AnyCheck]:
    """State on its check what the check is of; the fields are those of ``Claim``.

    The function stays what it is. A check of several statements bears one decorator for each, the first on top.

    Examples
    --------
    >>> @claim(id="square", family="numbers", source="Example 1", statement="x^2 <= 1 on [0, 1]", kind=Kind.EXACT,
    ...        verdict=Verdict.HOLDS, printed={"bound": 1}, contrast={"bound": 0.9}, otherwise="x^2 <= .9")
    ... def square(effort, *, bound):
    ...     return Finding(largest=1 / bound, where="x = 1", n_cases=1)
    >>> [stated.id for stated in square.claims]
    ['square']
    """

    def state(check: AnyCheck) -> AnyCheck:
        stated = Claim(
            id=id,
            family=family,
            source=source,
            statement=statement,
            kind=kind,
            verdict=verdict,
            check=check,
            printed=printed,
            contrast=contrast,
            otherwise=otherwise,
            constants=constants,
        )
        vars(check)["claims"] = (stated, *vars(check).get("claims", ()))
        return check

    return state


def claims_of(module: ModuleType) -> Iterator[Claim]:
    """The claims of a module in the order in which they stand there; those that are not checkable stand alone."""
    for value in vars(module).values():
        if isinstance(value, Claim):
            yield value
        elif inspect.isfunction(value) and value.__module__ == module.__name__:
            yield from vars(value).get("claims", ())
