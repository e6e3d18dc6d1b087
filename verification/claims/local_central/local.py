"""Local private EM of Harrington and Mayolo: bits of a histogram, flipped by every user.

A user in bin x has bits (or signs) that mark x, and each is flipped with probability 1/(1 + exp(e)); e is the epsilon
of one bit. All distributions are enumerated, output by output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict, claim
from verification.claims.common.losses import FloatArray, finite_delta, finite_loss
from verification.claims.search import every, over

FAMILY = "local and central"
PAPER = "Harrington, Mayolo"
ROUNDING = 1e-12
EPSILONS = (0.05, 0.5, 1.0, 2.0, 4.0)
Law = dict[Any, float]  # output: probability


def _whole(epsilon: float) -> float:
    return epsilon


def _half(epsilon: float) -> float:
    return epsilon / 2


def _full(epsilon: float) -> float:
    return (math.exp(epsilon) + 1) / math.expm1(epsilon)


def _halved(epsilon: float) -> float:
    return _full(epsilon / 2)


def _off(epsilon: float) -> float:
    return 1.001 * _full(epsilon)


def _mixed(epsilon: float) -> float:
    return (math.exp(epsilon / 2) + 1) / math.expm1(epsilon)


@claim(
    id="one-hot-per-user",
    family=FAMILY,
    source=f"{PAPER}, equations 8 and 9",
    statement="a vector that marks a user's bin, every bit flipped with epsilon, is epsilon-DP per user",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"share": 1.0},
    contrast={"share": 0.5},
    otherwise="with epsilon/2 for every bit it is",
    constants="exactly 2 epsilon, two bits change: delta .338 at epsilon = 1 of 1, and 0 only at 2",
)
def per_user(effort: Effort, *, share: float) -> Finding:
    """Largest log ratio over epsilon of the reports of users in two bins, each bit with ``share`` of epsilon."""

    def cases() -> Iterator[tuple[float, object]]:
        for bins, epsilon in itertools.product(range(2, effort.of(6, 10)), EPSILONS):
            for x, y in itertools.permutations(range(bins), 2):
                loss = _loss(_report(bins, x, share * epsilon), _report(bins, y, share * epsilon))
                yield loss / epsilon, {"bins": bins, "epsilon": epsilon, "x": x, "y": y}

    first, second = _aligned(_report(4, 0, share), _report(4, 1, share))
    figures = {f"delta of epsilon = 1 at {e:g}": finite_delta(first, second, e) for e in (1.0, 1.5, 2.0)}
    return over(cases(), tolerance=ROUNDING, figures=figures)


@claim(
    id="one-hot-unbiased",
    family=FAMILY,
    source=f"{PAPER}, equations 8 and 9",
    statement="c = (exp(epsilon) + 1)/(exp(epsilon) - 1) makes flipped signs unbiased: E[c Q] = q",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"constant": _full, "flips": (_whole,)},
    contrast={"constant": _off, "flips": (_whole,)},
    otherwise="so does 1.001 c",
    constants="exact; for bits of epsilon/2 the same with epsilon/2",
)
@claim(
    id="algorithm-constant",
    family=FAMILY,
    source=f"{PAPER}, Algorithm 1",
    statement="c = (exp(e/2) + 1)/(exp(e) - 1) makes signs unbiased that are flipped with e, or with e/2",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"constant": _mixed, "flips": (_whole, _half)},
    contrast={"constant": _halved, "flips": (_half,)},
    otherwise="c = (exp(e/2) + 1)/(exp(e/2) - 1) does, for e/2",
    constants="E[c Q] / q = .712 for e and .378 for e/2, at e = 1",
)
def debiased(
    effort: Effort, *, constant: Callable[[float], float], flips: tuple[Callable[[float], float], ...]
) -> Finding:
    """The larger of E[c Q] / q and its inverse, q the mean of n signs -1 or 1 and Q that of the flipped signs.

    ``constant`` gives c from epsilon, each of ``flips`` the epsilon of one bit; the best of ``flips`` counts. Every
    outcome is enumerated, n <= 3.
    """

    def ratio(epsilon: float, each: float, signs: tuple[int, ...]) -> float:
        keep = 1 / (1 + math.exp(-each))
        mean = 0.0
        for kept in itertools.product((1, -1), repeat=len(signs)):
            p = math.prod(keep if k == 1 else 1 - keep for k in kept)
            mean += p * constant(epsilon) * sum(k * q for k, q in zip(kept, signs, strict=True)) / len(signs)
        return mean / (sum(signs) / len(signs))

    def cases() -> Iterator[tuple[float, object]]:
        for n, epsilon in itertools.product((1, 2, 3), np.geomspace(0.05, 5, effort.of(9, 60))):
            for signs in itertools.product((1, -1), repeat=n):
                if sum(signs) != 0:
                    found = [ratio(epsilon, flip(epsilon), signs) for flip in flips]
                    nearest = min(found, key=lambda value: abs(value - 1))
                    where = {"epsilon": epsilon, "signs": signs, "E[c Q] / q": nearest}
                    yield max(nearest, 1 / nearest), where

    figures = {f"E[c Q] / q at epsilon = 1, form {i + 1}": ratio(1.0, flip(1.0), (1,)) for i, flip in enumerate(flips)}
    return over(cases(), tolerance=ROUNDING, figures=figures)  # c is at most 41, so errors stay below 1e-14


@claim(
    id="bins-from-data",
    family=FAMILY,
    source=f"{PAPER}, Algorithm 1",
    statement="bins between the smallest and the largest record cost nothing",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"public": False},
    contrast={"public": True},
    otherwise="bins of a public range cost nothing",
    constants="delta = 1 at every epsilon: when the only maximum moves, so do the bins",
)
def binned(effort: Effort, *, public: bool) -> Finding:
    """Largest log ratio over epsilon of (middles of the bins, all reports), bins from the records or of [0, 3].

    Every pair of different records of {0, 1, 2, 3} and every replaced record, 3 bins, half of epsilon on every bit.
    """
    epsilon, largest_delta = 1.0, 0.0

    def law(data: tuple[int, ...]) -> Law:
        low, high = (0, 3) if public else (min(data), max(data))
        width = Fraction(high - low, 3)
        middles = tuple(low + width * Fraction(2 * i + 1, 2) for i in range(3))
        bins = [min(2, int((x - low) / width)) for x in data]
        reports = [_report(3, b, epsilon / 2) for b in bins]
        return {(middles, first, second): p * q for first, p in reports[0].items() for second, q in reports[1].items()}

    def cases() -> Iterator[tuple[float, object]]:
        nonlocal largest_delta
        for x, rest, y in itertools.product(range(4), repeat=3):
            if rest in (x, y):
                continue  # the bins would have no width
            first, second = _aligned(law((x, rest)), law((y, rest)))
            largest_delta = max(largest_delta, finite_delta(first, second, 20.0))
            yield finite_loss(first, second) / epsilon, f"records {(x, rest)} and {(y, rest)}"

    found = over(cases(), tolerance=ROUNDING)
    return found.with_figures({"delta at epsilon = 20": largest_delta})


@claim(
    id="literal-response",
    family=FAMILY,
    source=f"{PAPER}, Algorithm 1 to the letter",
    statement="Q(x) = x or -x is epsilon-DP for records x of [0, 1]",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"values": (0.0, 0.25, 0.5, 0.75, 1.0)},
    contrast={"values": (-1.0, 1.0)},
    otherwise="for signs x = -1, 1 it is",
    constants="|x| is published",
)
def response(effort: Effort, *, values: tuple[float, ...]) -> Finding:
    """Largest log ratio over epsilon of Q(x) = x with probability exp(e)/(1 + exp(e)), else -x, x one of ``values``."""

    def law(x: float, epsilon: float) -> Law:
        keep = 1 / (1 + math.exp(-epsilon))
        return {x: keep, -x: 1 - keep} if x else {0.0: 1.0}

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon, x, y in itertools.product(EPSILONS, values, values):
            yield _loss(law(x, epsilon), law(y, epsilon)) / epsilon, {"epsilon": epsilon, "x": x, "y": y}

    return over(cases(), tolerance=ROUNDING)


@claim(
    id="clipping-bias",
    family=FAMILY,
    source=f"{PAPER}, remark on clipping",
    statement="setting negative estimated counts to 0 adds bias, whatever the true count",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"at_zero": True},
    contrast={"at_zero": False},
    otherwise="the estimate without clipping is biased upwards as well",
    constants="upwards, most for empty bins",
)
def clipped(effort: Effort, *, at_zero: bool) -> Finding:
    """Whether E[estimated share] is above m/n, in rational arithmetic; ``at_zero``: negative estimates become 0.

    Without that it must be m/n exactly, or the clipping would not be what adds the bias.
    m of n users have the bit, kept with probability p = 2/3, 3/4, 9/10; the estimate is (mean - (1 - p)) / (2 p - 1).
    """

    def bias(n: int, m: int, p: Fraction, *, at_zero: bool = at_zero) -> Fraction:
        mean = Fraction(0)
        for ones in itertools.product(range(m + 1), range(n - m + 1)):
            mass = math.comb(m, ones[0]) * p ** ones[0] * (1 - p) ** (m - ones[0])
            mass *= math.comb(n - m, ones[1]) * (1 - p) ** ones[1] * p ** (n - m - ones[1])
            estimate = (Fraction(sum(ones), n) - (1 - p)) / (2 * p - 1)
            mean += mass * (max(estimate, Fraction(0)) if at_zero else estimate)
        return mean - Fraction(m, n)

    def cases() -> Iterator[tuple[bool, object]]:
        for n, p in itertools.product(range(1, effort.of(7, 13)), (Fraction(2, 3), Fraction(3, 4), Fraction(9, 10))):
            for m in range(n + 1):
                yield bias(n, m, p) > 0 and bias(n, m, p, at_zero=False) == 0, f"n = {n}, m = {m}, p = {p}"

    figures = {f"bias, n = 6, p = 3/4, m = {m}": float(bias(6, m, Fraction(3, 4))) for m in (0, 1, 3)}
    return every(cases(), figures=figures)


SIZE_DOES_NOT_MATTER = Claim(
    id="size-does-not-matter",
    family=FAMILY,
    source=f"{PAPER}, experiments",
    statement="the size of the data set does not matter for the accuracy",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="a reading of simulations, without a quantity, a range of n or a size of the effect",
)


def _report(bins: int, x: int, epsilon: float) -> Law:
    """Probability of every vector of bits of a user in bin ``x``."""
    keep = 1 / (1 + math.exp(-epsilon))
    ones = [keep if i == x else 1 - keep for i in range(bins)]
    return {
        bits: math.prod(p if bit else 1 - p for bit, p in zip(bits, ones, strict=True))
        for bits in itertools.product((0, 1), repeat=bins)
    }


def _aligned(first: Law, second: Law) -> tuple[FloatArray, FloatArray]:
    """Probability vectors over all outputs of either law."""
    outputs = dict.fromkeys([*first, *second])
    p, q = (np.array([law.get(output, 0.0) for output in outputs]) for law in (first, second))
    return p, q


def _loss(first: Law, second: Law) -> float:
    return finite_loss(*_aligned(first, second))
