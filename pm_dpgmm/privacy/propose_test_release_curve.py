"""Privacy profile of a stability test, passed with known probabilities, and the release after it.

Proof: mechanisms/propose_test_release.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.privacy.curve_values import values

if TYPE_CHECKING:
    from pm_dpgmm.privacy.curves import PrivacyProfile

ROUNDING = 1e-12  # relative allowance of the left side for floating point


def divergence(p: float, q: float, loss: PrivacyProfile, epsilon: float) -> float:
    """Left side of (4): bound of the hockey-stick divergence of test and release, passing with ``p`` against ``q``.

    Rounded upwards.
    """
    # (1 - p) - e^epsilon (1 - q), written so that entries close to 1 keep their digits
    growth = math.expm1(min(epsilon, 700.0))  # a smaller factor only makes the bound larger
    fails = max(0.0, (q - p) - growth * (1 - q) + ROUNDING * max(q - p, 0.0))
    if p == 0:
        return fails
    if q == 0:
        return fails + p
    if p == q:
        return fails + p * loss.delta(epsilon)
    shifted = epsilon - math.log(p / q)
    shifted -= ROUNDING * (1 + abs(shifted))
    return (fails + p * loss.delta(shifted)) * (1 + ROUNDING)


def adjacent_pairs(probabilities: tuple[float, ...]) -> list[tuple[float, float]]:
    """Pass probabilities that neighbours may have, in both orders: equal ones and those of levels that differ by 1."""
    steps = list(itertools.pairwise(probabilities))
    return [*zip(probabilities, probabilities, strict=True), *steps, *((q, p) for p, q in steps)]


@dataclass(frozen=True, slots=True)
class ProposeTestReleaseProfile:
    """Test and release together: the largest left side of (4) over neighbouring levels, at every epsilon.

    ``probabilities`` are those of the levels 0, 1, ...; ``loss`` is the curve of the release in both orders of
    neighbours, at every real epsilon, not increasing.
    """

    probabilities: tuple[float, ...]
    loss: PrivacyProfile
    kind: ClassVar[str] = "pass-table"
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        table = tuple(map(float, self.probabilities))
        object.__setattr__(self, "probabilities", table)
        if len(table) < 2 or table[0] != 0 or table[-1] != 1 or not all(0 <= p <= 1 for p in table):
            raise ValueError(f"probabilities must go from 0 to 1 and stay between, got {table[:9]}")

    def delta(self, epsilon: float) -> float:
        """Upper bound of the hockey-stick divergence at ``epsilon`` >= 0."""
        return float(self.curve(np.array([epsilon]))[0])

    def curve(self, epsilons: FloatArray) -> FloatArray:
        """:meth:`delta` at every one of ``epsilons``, shape (n,): :func:`divergence` of all pairs at once."""
        p, q = np.array(adjacent_pairs(self.probabilities)).T
        growth = np.expm1(np.minimum(epsilons, 700.0))[:, None]
        fails = np.maximum(0.0, (q - p) - growth * (1 - q) + ROUNDING * np.maximum(q - p, 0.0))
        both, moved = (p > 0) & (q > 0), p != q
        # logarithms are below 745 in size: rounding of their difference is far below ROUNDING
        shifted = epsilons[:, None] - (np.log(p[both]) - np.log(q[both]))
        shifted -= ROUNDING * (1 + np.abs(shifted)) * moved[both]
        passes = np.tile(p, (len(epsilons), 1))  # whole where q is 0
        passes[:, both] *= values(self.loss, shifted.ravel()).reshape(shifted.shape)
        return np.minimum(1.0, ((fails + passes) * (1 + ROUNDING * (both & moved))).max(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, JSON-ready."""
        return {"kind": self.kind, "probabilities": list(self.probabilities), "loss": self.loss.to_dict()}

    def dominating_pair(self) -> None:
        """None: only the curve is known."""
        return None
