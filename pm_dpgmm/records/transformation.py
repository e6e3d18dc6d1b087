"""Public transformations: what a number of a column becomes before anything else looks at it. Proof: transformation.md.

Each takes one number to one, by a rule that no record has a part in.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_positive, check_real, check_text, shown, unmasked

Function = Callable[[FloatArray], FloatArray]
LEAST, MOST = 1e-100, 1e100  # parameters, for which nothing overflows or vanishes
FARTHEST = 1e200  # from 0, of what asinh is taken of
LONGEST = 100  # characters of a name
SIX_DECADES, THOUSANDTH = 1e-6, 1e-3
NO_CODE = "files hold no code; log, logit and asinh can be saved"


def one_by_one(function: Callable[[float], float], values: FloatArray) -> FloatArray:
    """A function of Python's math module at every number by itself: the place of a number changes no bit of it."""
    found = np.fromiter(map(function, values.ravel().tolist()), dtype=float, count=values.size)
    return found.reshape(values.shape)


def _log(values: FloatArray) -> FloatArray:
    """Logarithms; -inf from 0 down, NaN of NaN."""
    known = values > 0
    found = np.where(np.isnan(values), np.nan, -np.inf)
    found[known] = one_by_one(math.log, values[known])
    return found


@dataclass(frozen=True, slots=True)
class Log:
    """log(x) of numbers from ``floor`` on; smaller ones count as ``floor``."""

    floor: float
    name = "log"

    def __post_init__(self) -> None:
        _check_size(floor=self.floor)

    @property
    def domain(self) -> tuple[float, float]:
        """Where records are kept."""
        return self.floor, math.inf

    @property
    def support(self) -> tuple[float, float]:
        """Where the density is above 0, ends excluded."""
        return 0.0, math.inf

    def forward(self, x: FloatArray) -> FloatArray:
        """Of every number; -inf from 0 down."""
        return _log(np.asarray(x, dtype=float))

    def inverse(self, y: FloatArray) -> FloatArray:
        """Of every number."""
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(y)

    def log_jacobian(self, x: FloatArray) -> FloatArray:
        """Logarithm of the slope of ``forward``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.log(x)


@dataclass(frozen=True, slots=True)
class Logit:
    """log((x - low) / (high - x)); numbers nearer to an end than ``margin`` of the width count as that far from it."""

    low: float
    high: float
    margin: float
    name = "logit"

    def __post_init__(self) -> None:
        check_real(low=self.low, high=self.high)
        if not (-MOST <= self.low < self.high <= MOST and self.high - self.low >= LEAST):
            rule = f"low and high must increase, lie within {MOST:g} and {LEAST:g} apart"
            raise ValueError(f"{rule}, got {shown(self.low)} and {shown(self.high)}")
        check_positive(margin=self.margin)
        first, last = self.domain
        if not (self.low < first < last < self.high and self.margin < 0.5):
            rule = "margin must be a share of the width below 1/2 that leaves numbers between low and high"
            raise ValueError(f"{rule}, got {shown(self.margin)}")

    @property
    def domain(self) -> tuple[float, float]:
        """Where records are kept."""
        width = self.margin * (self.high - self.low)
        return self.low + width, self.high - width

    @property
    def support(self) -> tuple[float, float]:
        """Where the density is above 0, ends excluded."""
        return self.low, self.high

    def forward(self, x: FloatArray) -> FloatArray:
        """Of every number; -inf up to ``low``, inf from ``high`` on."""
        values = np.asarray(x, dtype=float)
        inside = np.clip(values, self.low, self.high)  # NaN stays
        return _log(inside - self.low) - _log(self.high - inside)

    def inverse(self, y: FloatArray) -> FloatArray:
        """Of every number."""
        with np.errstate(over="ignore", under="ignore"):
            width = self.high - self.low
            return np.where(np.asarray(y) < 0, self.low + width / (1 + np.exp(-y)), self.high - width / (1 + np.exp(y)))

    def log_jacobian(self, x: FloatArray) -> FloatArray:
        """Logarithm of the slope of ``forward``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return math.log(self.high - self.low) - np.log(x - self.low) - np.log(self.high - x)


@dataclass(frozen=True, slots=True)
class Asinh:
    """asinh(x / scale): linear within ``scale`` of 0, like a logarithm with a sign beyond."""

    scale: float
    name = "asinh"

    def __post_init__(self) -> None:
        _check_size(scale=self.scale)

    @property
    def domain(self) -> tuple[float, float]:
        """Where records are kept."""
        return -FARTHEST, FARTHEST

    @property
    def support(self) -> tuple[float, float]:
        """Where the density is above 0."""
        return -math.inf, math.inf

    def forward(self, x: FloatArray) -> FloatArray:
        """Of every number."""
        with np.errstate(over="ignore"):
            return one_by_one(math.asinh, np.asarray(x, dtype=float) / self.scale)

    def inverse(self, y: FloatArray) -> FloatArray:
        """Of every number."""
        with np.errstate(over="ignore"):
            return self.scale * np.sinh(y)

    def log_jacobian(self, x: FloatArray) -> FloatArray:
        """Logarithm of the slope of ``forward``."""
        return -np.log(np.hypot(self.scale, x))


LAWS: dict[str, type[Log] | type[Logit] | type[Asinh]] = {"log": Log, "logit": Logit, "asinh": Asinh}
NAMES = tuple(LAWS)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Transformation:
    """An increasing map of a column's numbers onto all real numbers, public knowledge and never chosen by the records.

    :meth:`log`, :meth:`logit` and :meth:`asinh` make the named ones, which files can hold. Functions of your own are
    tried on public numbers before anything is spent, and a release that has them cannot be saved.

    Parameters
    ----------
    name : str
        Other than "log", "logit" and "asinh".
    forward, inverse : function
        From an array of numbers to an array of the same shape, every entry by itself: an entry must not depend on its
        place or on other entries, to the last bit. ``inverse(forward(x))`` is x, ``forward`` increases. Numbers of
        records are given to ``forward`` one at a time, in arrays of length 1: some ten seconds for a million.
    log_jacobian : function
        Likewise: log of the derivative of ``forward``, at x in the unit of the column.
    domain : (low, high)
        Where ``forward`` is finite. Records outside count as the nearest end.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as said.

    Guarantee
    ---------
    None of its own: a fit of transformed records has the guarantee of its method, since a map of every record by itself
    takes neighbours to neighbours. That holds as long as ``forward`` keeps nothing from one call to the next and knows
    nothing of the records; both are yours to keep. It never sees two numbers of records together.

    Examples
    --------
    >>> def signed_log(x):
    ...     return np.sign(x) * np.log1p(np.abs(x))
    >>> own = Transformation(
    ...     "signed log", signed_log, lambda y: np.sign(y) * np.expm1(np.abs(y)), lambda x: -np.log1p(np.abs(x))
    ... )
    >>> own, Transformation.log(floor=1.0) == Transformation.log(floor=1.0)
    (<Transformation: signed log>, True)
    """

    name: str
    forward: Function
    inverse: Function
    log_jacobian: Function
    domain: tuple[float, float] = (-math.inf, math.inf)
    law: Log | Logit | Asinh | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_text(longest=LONGEST, name=self.name)
        if self.name in NAMES:
            rule = f"name must be none of {', '.join(map(repr, NAMES))}"
            raise ValueError(f"{rule}, got {self.name!r}: Transformation.{self.name}(...) makes that one")
        for what in ("forward", "inverse", "log_jacobian"):
            if not callable(getattr(self, what)):
                raise TypeError(f"{what} must be a function of an array of numbers, got {shown(getattr(self, what))}")
        try:
            low, high = self.domain
        except (TypeError, ValueError):
            raise TypeError(f"domain must be (low, high), got {shown(self.domain)}") from None
        check_real(**{"domain[0]": low, "domain[1]": high})
        if not low < high:
            raise ValueError(f"domain must be (low, high) with low < high, got {shown(self.domain)}")
        object.__setattr__(self, "domain", (float(low), float(high)))

    # ------------------------------------------------------------------ named ones
    @classmethod
    def log(cls, floor: float) -> Transformation:
        """log(x); numbers below the public ``floor``, above 0, count as it.

        Examples
        --------
        >>> Transformation.log(floor=1.0)
        <Transformation: log, floor 1>
        """
        return cls.of(Log(_real(floor=floor)))

    @classmethod
    def logit(cls, low: float, high: float, *, margin: float = THOUSANDTH) -> Transformation:
        """log((x - low) / (high - x)) of numbers between public ends, such as shares between 0 and 1.

        Numbers nearer to an end than ``margin`` of the width, or beyond it, count as that far from it.

        Examples
        --------
        >>> Transformation.logit(0, 1)
        <Transformation: logit, low 0, high 1, margin 0.001>
        """
        return cls.of(Logit(_real(low=low), _real(high=high), _real(margin=margin)))

    @classmethod
    def asinh(cls, scale: float = 1.0) -> Transformation:
        """asinh(x / scale), for numbers of both signs and many sizes; ``scale`` is public and never that of the column.

        Examples
        --------
        >>> Transformation.asinh(100.0)
        <Transformation: asinh, scale 100>
        """
        return cls.of(Asinh(_real(scale=scale)))

    @classmethod
    def of(cls, law: Log | Logit | Asinh) -> Transformation:
        """The transformation of a named law."""
        made = cls("_", law.forward, law.inverse, law.log_jacobian, law.domain)
        object.__setattr__(made, "name", law.name)
        object.__setattr__(made, "law", law)
        return made

    @property
    def support(self) -> tuple[float, float]:
        """Open interval outside which there is no density; of one's own functions: all numbers, where finite."""
        return (-math.inf, math.inf) if self.law is None else self.law.support

    @property
    def parameters(self) -> dict[str, float]:
        """Public parameters of a named one."""
        return {} if self.law is None else {name: getattr(self.law, name) for name in self.law.__slots__}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transformation) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return (self.law,) if self.law is not None else (*self._functions, self.name, self.domain)

    @property
    def _functions(self) -> tuple[Function, Function, Function]:
        return self.forward, self.inverse, self.log_jacobian

    def __repr__(self) -> str:
        return f"<Transformation: {self.told}>"

    @property
    def told(self) -> str:
        """Name and parameters as text."""
        return ", ".join([self.name, *(f"{name} {value:g}" for name, value in self.parameters.items())])

    # ------------------------------------------------------------------ at records and at points
    def of_records(self, x: FloatArray) -> FloatArray:
        """Numbers of records (N,) in the transformed unit, always finite; every one by itself."""
        with np.errstate(all="ignore"):  # whatever the caller set: an underflow would tell of a record
            kept = np.clip(x, *self.domain) + 0.0  # of zeros there is one
            return self.forward(kept) if self.law is not None else _forced(self.forward, kept)

    def of_points(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Points (N,) in the transformed unit, and logarithms of slopes there; NaN and -inf without any density."""
        x = np.array(x, dtype=float)
        low, high = self.support
        inside = (x > low) & (x < high)
        y, slopes = np.full(x.shape, np.nan), np.full(x.shape, -np.inf)
        with np.errstate(all="ignore"):
            y[inside] = unmasked(self.forward(x[inside].copy()))
            slopes[inside] = unmasked(self.log_jacobian(x[inside].copy()))
        nowhere = ~(np.isfinite(y) & np.isfinite(slopes))
        y[nowhere], slopes[nowhere] = np.nan, -np.inf
        return y, slopes

    def to_units(self, y: FloatArray) -> FloatArray:
        """Numbers (N,) of the transformed unit in that of the column, within the support."""
        low, high = np.nextafter(self.support[0], math.inf), np.nextafter(self.support[1], -math.inf)
        largest = np.finfo(float).max
        with np.errstate(all="ignore"):
            found = np.asarray(unmasked(self.inverse(np.array(y, dtype=float))), dtype=float)
        return np.clip(found, max(low, -largest), min(high, largest))


def _forced(forward: Function, x: FloatArray) -> FloatArray:
    """Numbers of a function of the user's own, whatever it does: one that it has none for counts as 0.

    It is given every number alone, in an array of its own, so that none decides for another; its warnings, which might
    tell of a record, are not shown. What it prints is, to whoever runs the fit.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = np.fromiter((_alone(forward, x[i : i + 1]) for i in range(len(x))), dtype=float, count=len(x))
    return np.clip(np.where(np.isnan(found), 0.0, found), -MOST, MOST) + 0.0


def values_of(function: Function, x: FloatArray) -> FloatArray:
    """A function of the user's own at a copy of ``x``; TypeError unless it gives as many floats."""
    found = np.asarray(unmasked(function(x.copy())))
    if found.shape != x.shape or found.dtype.kind not in "fiu":
        rule = "a function of a transformation must give an array of numbers of the shape that it is given"
        raise TypeError(f"{rule}, got shape {found.shape} of type {found.dtype} for {x.shape}")
    return np.array(found, dtype=float)


def _alone(forward: Function, x: FloatArray) -> float:
    try:
        return float(values_of(forward, x)[0])
    except (Exception, SystemExit):
        return 0.0


def _check_size(**parameters: Any) -> None:
    check_positive(**parameters)
    for name, value in parameters.items():
        if not LEAST <= value <= MOST:
            raise ValueError(f"{name} must be from {LEAST:g} to {MOST:g}, got {shown(value)}")


def _real(**parameters: Any) -> float:
    check_real(**parameters)
    return float(next(iter(parameters.values())))
