"""Privacy profiles: delta as a function of epsilon, exact where a dominating pair of output laws is known.

Each class is one family of mechanisms. ``delta(epsilon)`` is never below the true hockey-stick divergence
sup_S P(S) - exp(epsilon) Q(S), and ``to_dict`` keeps the few public numbers that define the curve. Guarantees are
composed by :func:`pm_dpgmm.privacy.guarantee.compose` (``dominating_pair.py``, with its proof); what stands here is
basic composition inside one method.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray, check_count, check_delta, check_non_negative, check_positive, shown
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.privacy.curve_values import values
from pm_dpgmm.privacy.dominating_pair import DominatingPair, response
from pm_dpgmm.privacy.gaussian_curve import gaussian_delta, gaussian_deltas

SPLITS = 202  # of epsilon that a composition of two releases tries


class PrivacyProfile(Protocol):
    """What every privacy profile offers."""

    kind: ClassVar[str]

    def delta(self, epsilon: float) -> float:
        """Upper bound of the hockey-stick divergence at any real ``epsilon``; propose, test, release asks below 0."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, JSON-ready."""
        ...

    def dominating_pair(self) -> DominatingPair | None:
        """What composes; None where the curve alone is known."""
        ...


class _Parameters:
    """Serialisation shared by the dataclasses below."""

    kind: ClassVar[str]
    __reduce__ = by_constructor

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    def dominating_pair(self) -> DominatingPair | None:
        return None


@dataclass(frozen=True, slots=True)
class PointProfile(_Parameters):
    """All that follows from (epsilon0, delta0)-DP alone: Kairouz, Oh, Viswanath (2015), Theorem 3.1."""

    epsilon0: float
    delta0: float = 0.0
    kind: ClassVar[str] = "point"

    def __post_init__(self) -> None:
        check_non_negative(epsilon0=self.epsilon0)
        check_delta(self.delta0, name="delta0")

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon0:
            return self.delta0
        # randomised response is the worst epsilon0-DP pair; (e^a - e^b)/(1 + e^a) without overflow
        pure = -math.expm1(epsilon - self.epsilon0) / (1 + math.exp(-self.epsilon0))
        # the larger below -epsilon0, where all outputs are in the worst set
        pure = max(pure, -math.expm1(min(epsilon, 0.0)))
        return self.delta0 + (1 - self.delta0) * pure

    def dominating_pair(self) -> DominatingPair:
        return response(self.epsilon0, self.delta0)


@dataclass(frozen=True, slots=True)
class GeometricProfile(_Parameters):
    """``n_counts`` counts, each moved by one, with discrete Laplace noise of ``scale``: the exact curve.

    One count moved by one is randomised response at 1/scale: the loss is +1/scale when the output does not
    exceed the smaller count and -1/scale otherwise, and nothing between.
    """

    scale: float
    n_counts: int
    kind: ClassVar[str] = "geometric"

    def __post_init__(self) -> None:
        check_positive(scale=self.scale)
        check_count(n_counts=self.n_counts)

    def delta(self, epsilon: float) -> float:
        keep, lose = special.expit(1 / self.scale), special.expit(-1 / self.scale)
        total = 0.0
        for against in range(self.n_counts + 1):
            excess = (self.n_counts - 2 * against) / self.scale - epsilon
            if excess == 0:  # the quotient was rounded: a pure guarantee must not hang on that
                excess = float((self.n_counts - 2 * against) / Fraction(self.scale) - Fraction(epsilon))
            if excess > 0:
                mass = math.comb(self.n_counts, against) * keep ** (self.n_counts - against) * lose**against
                total -= mass * math.expm1(-excess)
        return total

    def dominating_pair(self) -> DominatingPair:
        return response(math.nextafter(1 / self.scale, math.inf)).power(self.n_counts)


@dataclass(frozen=True, slots=True)
class GaussianProfile(_Parameters):
    """Gaussian noise, ``mu`` = sensitivity / noise scale: exact curve of Balle and Wang (2018), Theorem 8.

    ``slack`` pays for the distance in total variation between the sampler's law and a rounded Gaussian; it
    adds (1 + exp(epsilon)) slack (mechanisms/gaussian.md). Outside an event of probability ``failure`` the law is as
    said, inside it is anything (mechanisms/gaussian_filter.md).
    """

    mu: float
    slack: float = 0.0
    failure: float = 0.0
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_positive(mu=self.mu)
        check_non_negative(slack=self.slack)
        check_delta(self.failure, name="failure")

    def delta(self, epsilon: float) -> float:
        if self.slack == 0:
            return self.failure + (1 - self.failure) * gaussian_delta(epsilon, self.mu)
        epsilon = min(epsilon, self._lowest)
        curve = self.failure + (1 - self.failure) * gaussian_delta(epsilon, self.mu)
        return min(1.0, curve + (1 + math.exp(min(epsilon, 700.0))) * self.slack)

    def curve(self, epsilons: FloatArray) -> FloatArray:
        """:meth:`delta` at every one of ``epsilons``, any shape."""
        if self.slack == 0:
            return self.failure + (1 - self.failure) * gaussian_deltas(epsilons, self.mu)
        epsilons = np.minimum(epsilons, self._lowest)
        curve = self.failure + (1 - self.failure) * gaussian_deltas(epsilons, self.mu)
        return np.minimum(1.0, curve + (1 + np.exp(np.minimum(epsilons, 700.0))) * self.slack)

    @property
    def _lowest(self) -> float:
        """Where the curve with its slack is least.

        The sum is convex in epsilon with derivative exp(epsilon) (slack - (1 - failure) Phi(-mu/2 - epsilon/mu)).
        Beyond its minimum the value there still holds, since a curve never rises.
        """
        quantile = float(special.ndtri(min(1.0, self.slack / (1 - self.failure))))
        return max(-self.mu * (quantile + self.mu / 2), 0.0)

    def dominating_pair(self) -> DominatingPair:
        """Without the slack; :func:`pm_dpgmm.compose` adds the slacks of all parts to its curve."""
        return DominatingPair(self.mu**2 * (1 + 4e-16), infinite=self.failure)


@dataclass(frozen=True, slots=True)
class TruncatedLaplaceProfile(_Parameters):
    """An integer moved by at most ``shift`` plus discrete Laplace noise conditioned on [-bound, bound]."""

    scale: float
    bound: int
    shift: int
    kind: ClassVar[str] = "truncated-laplace"

    def __post_init__(self) -> None:
        check_positive(scale=self.scale)
        check_count(shift=self.shift)
        check_count(least=self.shift, bound=self.bound)

    def delta(self, epsilon: float) -> float:
        # The largest shift is the worst: the loss at output x is (|x - s| - |x|)/scale, monotone in x, and
        # infinite on the s lowest outputs that the neighbour cannot produce.
        only_first = -self.bound + self.shift - 1
        if epsilon >= self.shift / self.scale:
            return self._cdf(only_first)
        last = max(only_first, math.ceil((self.shift - epsilon * self.scale) / 2) - 1)
        if epsilon < -self.shift / self.scale:  # below every finite loss
            last = self.bound
        # a smaller factor than exp(epsilon) only makes the bound larger
        other = math.exp(min(epsilon, 700.0)) * self._cdf(last - self.shift)
        return max(self._cdf(only_first), self._cdf(last) - other)

    def _cdf(self, x: int) -> float:
        """P[noise <= x]."""
        if x < -self.bound:
            return 0.0
        rate = 1 / self.scale
        if x < 0:  # sum of exp(rate j) over j = -bound..x
            part = math.exp(rate * x) * -math.expm1(-rate * (x + self.bound + 1)) / -math.expm1(-rate)
            return part / self._normaliser()
        return 1 - self._cdf(-min(x, self.bound) - 1)

    def _normaliser(self) -> float:
        rate = 1 / self.scale
        return 1 + 2 * math.exp(-rate) * -math.expm1(-rate * self.bound) / -math.expm1(-rate)


@dataclass(frozen=True, slots=True)
class RenyiProfile(_Parameters):
    """Renyi divergences at finitely many orders (above 1), turned into (epsilon, delta).

    delta = exp((order - 1)(divergence - epsilon)) (1 - 1/order)^order / (order - 1), the conversion of
    Canonne, Kamath, Steinke (2020), Proposition 12; every order gives a valid bound, the best is taken.
    """

    orders: tuple[float, ...]
    divergences: tuple[float, ...]
    kind: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(map(float, self.orders)))
        object.__setattr__(self, "divergences", tuple(map(float, self.divergences)))
        if not self.orders or len(self.orders) != len(self.divergences) or not all(order > 1 for order in self.orders):
            raise ValueError(
                f"orders must all exceed 1 and match divergences in number, got {len(self.orders)} orders"
                f" and {len(self.divergences)} divergences"
            )
        if not all(divergence >= 0 for divergence in self.divergences):
            raise ValueError(f"divergences must be at least 0, got {min(self.divergences)}")

    def delta(self, epsilon: float) -> float:
        order, divergence = np.array(self.orders), np.array(self.divergences)
        log_delta = (order - 1) * (divergence - epsilon) + order * np.log1p(-1 / order) - np.log(order - 1)
        return max(float(np.exp(min(0.0, log_delta.min()))), 1e-300)  # never 0 by underflow


@dataclass(frozen=True, slots=True)
class CompositionProfile(_Parameters):
    """Basic composition of two releases in one method: least first.delta(e) + second.delta(epsilon - e) over splits.

    ``split`` is the epsilon that the first was made for; it is tried besides a grid. Every split is valid, so a coarse
    search costs accuracy and never soundness.
    """

    first: PrivacyProfile
    second: PrivacyProfile
    split: float
    kind: ClassVar[str] = "sum"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        check_non_negative(split=self.split)

    def delta(self, epsilon: float) -> float:
        return float(self.curve(np.array([epsilon]))[0])

    def curve(self, epsilons: FloatArray) -> FloatArray:
        """:meth:`delta` at every one of ``epsilons``, shape (n,)."""
        grid = epsilons[:, None] * np.linspace(0, 1, SPLITS - 1)
        splits = np.column_stack([grid, np.minimum(self.split, epsilons)])
        rest = epsilons[:, None] - splits
        both = values(self.first, splits.ravel()) + values(self.second, rest.ravel())
        return np.minimum(1.0, both.reshape(splits.shape).min(axis=1))

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "split": self.split,
        }


@dataclass(frozen=True, slots=True)
class MaximumProfile(_Parameters):
    """Parallel composition, the largest delta of the ``parts`` at every epsilon: each person is in one of them."""

    parts: tuple[PrivacyProfile, ...]
    kind: ClassVar[str] = "max"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("parts must hold at least one profile, got none")

    @property
    def slack(self) -> float:
        """Largest of the parts' slacks; :func:`pm_dpgmm.compose` adds it."""
        return float(max(getattr(part, "slack", 0.0) for part in self.parts))

    def delta(self, epsilon: float) -> float:
        return max(part.delta(epsilon) for part in self.parts)

    def curve(self, epsilons: FloatArray) -> FloatArray:
        """:meth:`delta` at every one of ``epsilons``, shape (n,)."""
        largest = values(self.parts[0], epsilons)
        for part in self.parts[1:]:
            largest = np.maximum(largest, values(part, epsilons))
        return largest

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    def dominating_pair(self) -> DominatingPair | None:
        gaussian = [part for part in self.parts if isinstance(part, GaussianProfile)]
        if len(gaussian) < len(self.parts):
            return None
        # larger parameters dominate
        return GaussianProfile(max(g.mu for g in gaussian), failure=max(g.failure for g in gaussian)).dominating_pair()


@dataclass(frozen=True, slots=True)
class EitherProfile(_Parameters):
    """A first release decides which of several ways its method goes on; ``parts`` are the curves of the whole ways.

    The sum of their deltas: an event of outputs is the union of those parts of it that each way can make, and on its
    own part every way has the law that it would have if it were always taken.
    """

    parts: tuple[PrivacyProfile, ...]
    kind: ClassVar[str] = "either"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("parts must hold at least one profile, got none")

    def delta(self, epsilon: float) -> float:
        return min(1.0, sum(part.delta(epsilon) for part in self.parts))

    def curve(self, epsilons: FloatArray) -> FloatArray:
        """:meth:`delta` at every one of ``epsilons``, shape (n,)."""
        added = values(self.parts[0], epsilons)
        for part in self.parts[1:]:
            added = added + values(part, epsilons)
        return np.minimum(1.0, added)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}


@dataclass(frozen=True, slots=True)
class TableProfile(_Parameters):
    """A curve given by points; between points the value at the smaller epsilon counts."""

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    kind: ClassVar[str] = "table"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilons", tuple(map(float, self.epsilons)))
        object.__setattr__(self, "deltas", tuple(map(float, self.deltas)))
        if len(self.epsilons) != len(self.deltas) or not all(a <= b for a, b in itertools.pairwise(self.epsilons)):
            raise ValueError("epsilons must increase and match deltas in number")
        if not all(0 <= delta <= 1 for delta in self.deltas) or any(b > a for a, b in itertools.pairwise(self.deltas)):
            raise ValueError(f"deltas must lie from 0 to 1 and not increase, got {shown(self.deltas)}")

    def delta(self, epsilon: float) -> float:
        place = bisect.bisect_right(self.epsilons, epsilon) - 1
        return 1.0 if place < 0 else self.deltas[place]
