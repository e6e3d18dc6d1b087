"""Guarantees: who is protected, by how much, and the whole curve of (epsilon, delta) pairs."""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import (
    FloatArray,
    check_choice,
    check_delta,
    check_flag,
    check_non_negative,
    check_positive,
    check_text,
    read_numbers,
    shown,
)
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.privacy.bisection import arithmetic, bisected
from pm_dpgmm.privacy.curve_files import profile_from_dict
from pm_dpgmm.privacy.curves import PointProfile, PrivacyProfile, TableProfile
from pm_dpgmm.privacy.dominating_pair import DominatingPair
from pm_dpgmm.privacy.simulated_fits import fits_may_warn

LONGEST_MECHANISM = 1_000_000  # characters: a combination of sites names every one
LONGEST_COMPOSITION = 10_000  # characters of the names of what was composed; the rest is cut off

NOT_PRIVATE = "NOT PRIVATE (seeded)"
LARGEST_EPSILON = 10.0  # above it Ponomareva et al. (2023), "How to DP-fy ML", see little or no formal protection


def seeded_mark(private: bool, before: str = ", ") -> str:
    """What a text says at its end of something that is not private; nothing of what is."""
    return "" if private else f"{before}{NOT_PRIVATE}"


class Neighbouring(enum.StrEnum):
    """Which data sets must be hard to tell apart."""

    REPLACE_ONE = "replace-one"  # the number of records is public
    ADD_REMOVE = "add-remove"  # the number of records is private

    @classmethod
    def parse(cls, value: object) -> Neighbouring:
        """The relation called ``value``; ValueError names the choices."""
        check_choice([str(relation) for relation in cls], neighbouring=value)
        return cls(str(value))


def replaces_one(neighbouring: object) -> bool:
    """Whether neighbours differ in one replaced record, of the relation or of its name; ValueError for any other value.

    A name compared with the relation by ``is`` would count as the other one, whose noise is half as wide.
    """
    return Neighbouring.parse(neighbouring) is Neighbouring.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of one release, with its privacy curve.

    For neighbouring data sets x, x' and every set S of outputs,
    P[M(x) in S] <= exp(epsilon) P[M(x') in S] + delta.

    Parameters
    ----------
    epsilon, delta : float
        The stated guarantee; epsilon > 0 and 0 <= delta < 1.
    neighbouring : Neighbouring
        Replacing one record (number of records public) or adding or removing one.
    mechanism : str
        What made the release, with the source of the proof.
    loss : PrivacyProfile
        Upper bound of delta for every epsilon; the exact curve where that is known.
    private : bool
        False for a release whose noise came from a known seed, as :class:`pm_dpgmm.Release` says: nobody is protected.

    Raises
    ------
    ValueError
        If the stated pair lies below the curve: the claim would be false.

    Examples
    --------
    >>> from pm_dpgmm.privacy.curves import GaussianProfile
    >>> g = Guarantee(1.0, 0.13, Neighbouring.REPLACE_ONE, "Gaussian", GaussianProfile(mu=1.0))
    >>> round(float(g.curve(1.0)), 4), round(g.epsilon_at(1e-3), 2)
    (0.1269, 3.14)
    """

    epsilon: float
    delta: float
    neighbouring: Neighbouring
    mechanism: str
    loss: PrivacyProfile
    private: bool = True
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)
        check_delta(self.delta)
        check_flag(private=self.private)
        check_text(longest=LONGEST_MECHANISM, mechanism=self.mechanism)
        object.__setattr__(self, "neighbouring", Neighbouring.parse(self.neighbouring))
        needed = self.loss.delta(self.epsilon)
        # rounding of the curve, not slack in the claim: below a thousandth of it, and a pure claim has none
        if not needed <= self.delta * (1 + 1e-9) + min(1e-15, 1e-3 * self.delta):  # NaN too
            raise ValueError(f"delta must be at least {needed:.6g} at epsilon {self.epsilon:g}, got {self.delta:.6g}")

    def curve(self, epsilon: ArrayLike) -> FloatArray:
        """Smallest proved delta at each ``epsilon`` (>= 0), same shape."""
        values = read_numbers(epsilon, "epsilon")
        if not (values >= 0).all():
            raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
        return np.vectorize(self.loss.delta, otypes=[float])(values)

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon that the curve proves at ``delta``; infinite when there is none."""
        check_delta(delta)
        return smallest_epsilon(self.loss.delta, delta)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; :meth:`from_dict` reads it."""
        mark = {} if self.private else {"private": False}
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbouring": str(self.neighbouring),
            "mechanism": self.mechanism,
            "loss": self.loss.to_dict(),
            **mark,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Guarantee:
        """Inverse of :meth:`to_dict` for fields from anywhere; TypeError and ValueError say what is wrong."""
        if not isinstance(fields, Mapping):
            raise ValueError(f"guarantee must be a mapping, got {shown(fields)}")
        missing = [name for name in cls.__slots__ if name not in fields and name != "private"]
        if missing:
            raise ValueError(f"guarantee must have the field {missing[0]!r}, got {shown(sorted(fields))}")
        loss = profile_from_dict(fields["loss"])
        relation = Neighbouring.parse(fields["neighbouring"])
        epsilon, delta = fields["epsilon"], fields["delta"]
        check_positive(epsilon=epsilon)
        check_delta(delta)
        try:
            if delta == 0 and loss.delta(epsilon) > 0:  # a scale rounded to the nearest: the next float holds
                epsilon = math.nextafter(epsilon, math.inf)
            return cls(epsilon, delta, relation, fields["mechanism"], loss, fields.get("private", True))
        except ArithmeticError as error:  # parameters of the curve that no mechanism has
            raise ValueError(f"guarantee must have a curve that can be computed: {error}") from None

    def marked(self, private: bool) -> Guarantee:
        """The same, private or not."""
        return self if self.private is private else replace(self, private=private)

    def check_storable(self) -> None:
        """Raise ValueError unless a file can hold it; asked before anything is spent."""
        try:
            again = Guarantee.from_dict(self.to_dict())
        except ValueError as error:
            given = f"{self.epsilon:g} and {self.delta:g}"
            raise ValueError(
                f"epsilon and delta must give a release that can be loaded, got {given}: {error}"
            ) from None
        if again != self:
            raise ValueError(f"epsilon must survive a file, got {self.epsilon!r}, read as {again.epsilon!r}")

    def __repr__(self) -> str:
        """The fields, and in words if it is not private: reprs of what has a guarantee show this one."""
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in Guarantee.__slots__)
        return f"Guarantee({fields}{seeded_mark(self.private)})"

    def __str__(self) -> str:
        kind = f"epsilon = {self.epsilon:g}" + (f", delta = {self.delta:g}" if self.delta else " (pure)")
        return f"{kind}, {self.neighbouring} neighbours, {self.mechanism}{seeded_mark(self.private)}"


class Unstable(RuntimeError):
    """A propose-test-release method refused to answer; nothing else about the records is known from this.

    Attributes
    ----------
    guarantee : Guarantee
        What the attempt cost. A second attempt is a second release and adds to it.
    """

    def __init__(self, message: str, guarantee: Guarantee) -> None:
        super().__init__(message)
        self.guarantee = guarantee

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in vars(self).items() if name != "guarantee"}
        return type(self), (str(self), self.guarantee), kept


class WeakGuarantee(UserWarning):
    """A guarantee that promises little: epsilon or delta is so large that a release may show a person's record."""


def warn_if_weak(epsilon: float, delta: float, n_records: int | None) -> None:
    """Warn the caller's caller of an epsilon above 10, or of a delta that lets whole records be published.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    n_records : int or None
        Number of records where it is public, or a public guess; None compares ``delta`` with nothing.
    """
    if not fits_may_warn():
        return
    if epsilon > LARGEST_EPSILON:
        warnings.warn(
            f"epsilon should be at most {LARGEST_EPSILON:g} to protect anyone, got {epsilon:g}: a reader's odds about a"
            f" record may change by a factor of exp({epsilon:g})",
            WeakGuarantee,
            stacklevel=3,
        )
    if n_records is not None and delta * n_records >= 1:
        warnings.warn(
            f"delta should be well below 1/N = {1 / n_records:.2g}, got {delta:g}: publishing a record at random has"
            " such a delta",
            WeakGuarantee,
            stacklevel=3,
        )


def smallest_epsilon(
    curve: Callable[[float], float], delta: float, *, largest: float = 1e4, rounding: float = 1e-12
) -> float:
    """Smallest epsilon in [0, ``largest``] with ``curve(epsilon) <= delta``, rounded up; infinite if none.

    By at most ``rounding`` of it or a thousandth of that, with some 66 values of ``curve`` at most, 40 for 1e-6.
    """
    if curve(0.0) <= delta:
        return 0.0
    high = min(1.0, largest)
    while curve(high) > delta:
        if high >= largest:
            return math.inf
        high = min(2 * high, largest)
    return bisected(
        lambda epsilon: curve(epsilon) <= delta,
        high,
        0.0,
        middle=arithmetic,
        close=lambda low, high: high - low <= rounding * max(high, 1e-3),
    )


def compose(*guarantees: Guarantee, delta: float) -> Guarantee:
    """Guarantee of publishing all the releases together, at ``delta``.

    Where a dominating pair of output laws is known their product is taken, with losses that are rounded up; a release
    known only by its curve enters by its stated (epsilon, delta). The result is an upper bound: of Gaussian releases it
    exceeds the exact curve by less than a part in 10^9 and by (1 + e^epsilon) times what each sampler is off its law
    (1.4e-14 for a sketch: a hundred of them at delta 1e-5 cost 0.1 % more), of pure ones by the rounding of their
    losses. Where that leaves nothing of delta, epsilons at equal parts of it are added. All must use the same
    neighbouring relation and be made with independent noise; later ones may depend on earlier ones. It is private if
    all are.

    Raises
    ------
    ValueError
        If none are given, relations differ, or no finite epsilon is proved at ``delta``.

    Examples
    --------
    >>> from pm_dpgmm.privacy.curves import GaussianProfile
    >>> g = Guarantee(1.0, 0.13, Neighbouring.REPLACE_ONE, "Gaussian", GaussianProfile(mu=1.0))
    >>> round(compose(g, g, delta=1e-3).epsilon, 2)  # mu = sqrt(2); basic composition gives 6.9
    4.85
    """
    if not guarantees:
        raise ValueError("compose needs at least one guarantee, got none")
    check_delta(delta)
    for guarantee in guarantees:
        if not isinstance(guarantee, Guarantee):
            raise TypeError(f"compose needs guarantees (release.guarantee), got {shown(guarantee)}")
    relations = {guarantee.neighbouring for guarantee in guarantees}
    if len(relations) > 1:
        raise ValueError(f"neighbouring relations must agree, got {sorted(map(str, relations))}")
    total, slack = DominatingPair(), 0.0
    for guarantee in guarantees:
        pair = guarantee.loss.dominating_pair() or PointProfile(guarantee.epsilon, guarantee.delta).dominating_pair()
        total = total.times(pair)
        slack += getattr(guarantee.loss, "slack", 0.0)  # total variation of each sampler, so these add up

    def curve(epsilon: ArrayLike) -> Any:
        epsilons = np.atleast_1d(np.asarray(epsilon, dtype=float))
        found = np.minimum(1.0, total.curve(epsilons) + (1 + np.exp(np.minimum(epsilons, 700.0))) * slack)
        return found if np.ndim(epsilon) else float(found[0])

    # a curve never rises, so the least value up to each epsilon holds
    epsilons = np.concatenate([np.linspace(0, 20, 401), np.linspace(20.5, 200, 360), np.geomspace(201, 1e4, 200)])
    deltas = np.minimum.accumulate(curve(epsilons))
    below = np.flatnonzero(deltas <= delta)
    epsilon = math.inf
    if below.size:
        epsilon = smallest_epsilon(curve, delta, largest=float(epsilons[below[0]])) if below[0] else 0.0
        epsilon = min(epsilon, float(epsilons[below[0]]))
    if sum(Fraction(g.delta) for g in guarantees) <= delta:  # basic composition, better where the grid is coarse
        added = rounded_up(sum(Fraction(g.epsilon) for g in guarantees))
        # of pure guarantees only the exact sum is pure: the grid's losses are rounded
        epsilon = added if delta == 0 else min(epsilon, added)
    if not math.isfinite(epsilon):
        epsilon = _added_at_equal_parts(guarantees, delta)
    if not math.isfinite(epsilon):
        raise ValueError(f"delta must leave room for the parts, got {delta:g}: no finite epsilon is proved")
    epsilon = max(epsilon, 1e-12)
    # the table is a step function: the stated pair becomes one of its points, and holds from there on
    order = int(np.searchsorted(epsilons, epsilon))
    deltas = np.insert(deltas, order, delta)
    loss = TableProfile(
        tuple(np.insert(epsilons, order, epsilon).tolist()), tuple(np.minimum.accumulate(deltas).tolist())
    )
    names = "; ".join(guarantee.mechanism for guarantee in guarantees)
    if len(names) > LONGEST_COMPOSITION:
        names = f"{len(guarantees)} releases, among them {names[:LONGEST_COMPOSITION]}..."
    private = all(guarantee.private for guarantee in guarantees)
    return Guarantee(epsilon, delta, relations.pop(), f"composition of {names}", loss, private)


def _added_at_equal_parts(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Basic composition, each at its part of ``delta``; infinite where one proves nothing there."""
    part = delta / len(guarantees)
    while len(guarantees) * Fraction(part) > Fraction(delta):
        part = math.nextafter(part, 0.0)
    known = {id(one): one.epsilon_at(part) for one in {id(one): one for one in guarantees}.values()}
    if not all(map(math.isfinite, known.values())):
        return math.inf
    return rounded_up(sum(Fraction(known[id(one)]) for one in guarantees))


def split_budget(epsilon: float, delta: float, share: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two budgets that add up to at most (epsilon, delta), in exact arithmetic; the first gets ``share`` of both."""
    check_positive(epsilon=epsilon)
    check_non_negative(delta=delta)
    first = (epsilon * share, delta * share)
    return first, (_rest(epsilon, first[0]), _rest(delta, first[1]))


def _rest(total: float, part: float) -> float:
    """``total`` less ``part``, rounded down where it is no float."""
    rest = total - part
    return rest if Fraction(rest) + Fraction(part) <= Fraction(total) else math.nextafter(rest, 0.0)


def rounded_up(number: Fraction | int) -> float:
    """Least float that is not below ``number``."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
