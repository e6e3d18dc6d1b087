"""The pass table of the aggregated populous estimator: what test and mask cost together; ``mask.py`` has the mask."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from verification.auditing.bisection import bracket
from verification.claims.aggregated.curve import Bound, largest_omega, proved
from verification.claims.aggregated.graphs import FAMILY, NOTE
from verification.claims.aggregated.mask import ROUNDING, SETTINGS, either
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.search import over

Curve = Callable[[float], float]


@claim(
    id="aggregated-table",
    family=FAMILY,
    source=f"{NOTE}, section 5 and Theorem 1",
    statement="a pass table that keeps (4) makes test and mask together (epsilon, delta)-DP",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"shifted": True, "first": 1.0},
    contrast={"shifted": False, "first": 1.0},
    otherwise="so does one that charges the mask at epsilon in place of epsilon - ln(p/q)",
    constants="attained at pi[1] = delta",
)
@claim(
    id="aggregated-first-level",
    family=FAMILY,
    source=f"{NOTE}, section 5",
    statement="the first level may pass with probability delta",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"shifted": True, "first": 1.0},
    contrast={"shifted": True, "first": 1.02},
    otherwise="with probability 1.02 delta",
)
def table(effort: Effort, *, shifted: bool, first: float) -> Finding:
    """Exact delta of the whole mechanism over its target, for adjacent levels in both orders and equal levels.

    The table is built from the bound of Theorem 3, the mechanism is judged with the exact single eigenvalue -omega or
    omega. ``shifted``: the mask is charged at epsilon - ln(p/q), else at epsilon. ``first`` is pi[1]/delta.
    """
    both = "largest delta over target where both may pass"
    figures = {both: 0.0}

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon, delta, size, eta in SETTINGS:
            limit = largest_omega(epsilon, delta, size, eta, exact=False)
            for share in (0.5, 0.8, 0.95) if not effort.thorough else (0.5, 0.65, 0.8, 0.9, 0.95):
                omega = share * limit
                passes = pass_table(epsilon, delta, stepped(proved(omega, size, eta)), shifted=shifted, first=first)
                name = f"level for .99, epsilon = {epsilon:g}, D = {size}, eta = {eta:g}, omega share {share:g}"
                figures[name] = float(np.argmax(np.array(passes) >= 0.99))
                pairs = [
                    *itertools.pairwise(passes),
                    *itertools.pairwise(passes[::-1]),
                    *zip(passes, passes, strict=True),
                ]
                for p, q in pairs:
                    found = _mechanism(p, q, epsilon, functools.partial(either, omega=omega, size=size, eta=eta))
                    if p > 0 and q > 0:
                        figures[both] = max(figures[both], found / delta)
                    yield found / delta, {"epsilon": epsilon, "D": size, "eta": eta, "omega": omega, "p": p, "q": q}

    found = over(cases(), tolerance=ROUNDING)
    return found.with_figures(figures)


def pass_table(epsilon: float, delta: float, bound: Curve, *, shifted: bool = True, first: float = 1.0) -> list[float]:
    """pi: 0, delta, then the largest p that keeps (4) in both orders against the entry before, until 1."""

    def fits(p: float, q: float) -> bool:
        return all(_mechanism(*order, epsilon, bound, shifted) <= delta for order in ((p, q), (q, p)))

    passes = [0.0, first * delta]
    while passes[-1] < 1 and len(passes) < 400:
        low, high = passes[-1], 1.0
        if fits(high, passes[-1]):
            passes.append(1.0)
            break
        low, _ = bracket(functools.partial(fits, q=passes[-1]), low, high, steps=60)
        if low <= passes[-1] * (1 + 1e-6):
            break  # the mask leaves no room
        passes.append(low * (1 - 1e-9))
    return passes


def stepped(bound: Bound, low: float = -2.0, high: float = 4.0, n: int = 1201) -> Curve:
    """The bound as a step function that does not increase: its value at the grid point below, 1 left of the grid."""
    values = np.minimum.accumulate([bound.delta(e) for e in np.linspace(low, high, n)])
    width = (high - low) / (n - 1)
    return lambda e: 1.0 if e < low else float(values[min(n - 1, int((e - low) / width))])


def _mechanism(p: float, q: float, epsilon: float, mask: Curve, shifted: bool = True) -> float:
    """The left side of (4): fails with probability 1 - p against 1 - q, and releases the mask otherwise."""
    fails = max(0.0, (1 - p) - math.exp(epsilon) * (1 - q))
    if p == 0:
        return fails
    if q == 0:
        return fails + p
    return fails + p * mask(epsilon - math.log(p / q) if shifted else epsilon)
