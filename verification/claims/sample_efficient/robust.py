"""Robustness to privacy in one column with one component (``pm_dpgmm/mechanisms/robust_normal.py``).

The idea is that of Ashtiani, Majid, Narayanan (2024), Algorithm 2; the statements are this package's, with explicit
constants, and are checked on all data sets of a few records on a small grid. Normal laws are those of a finite set
there, so that volumes are numbers of laws and every output has an exact probability: the proofs use no more of the
measure than that it is one.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import integrate

from pm_dpgmm.mechanisms.normal_scores import CountRanges, arrangement
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities, pass_probabilities
from pm_dpgmm.mechanisms.robust_normal import RobustDesign
from pm_dpgmm.privacy.curves import PointProfile
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.sample_efficient.exact import FAMILY, PAPER
from verification.claims.search import every, over, quotient
from verification.references.references import hockey_stick

SOURCE = f"{PAPER}, Algorithm 2 for one column and one component"
MEANS = np.arange(-1, 12) / 2
DEVIATIONS = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
World = tuple[list[tuple[int, ...]], Any]


def counts_of(data: FloatArray, means: FloatArray, deviations: FloatArray) -> Any:
    """Records up to m - s, then to m, then to m + s, and above: shape (laws, 4)."""
    ends = np.stack([means - deviations, means, means + deviations], axis=-1)
    upto = (data <= ends[..., None]).sum(axis=-1)
    return np.diff(upto, prepend=0, append=len(data), axis=-1)


@functools.cache
def world(n: int, letters: int) -> World:
    """Every multiset of ``n`` letters, and the score of every law for it."""
    sets = list(itertools.combinations_with_replacement(range(letters), n))
    means, deviations = (grid.ravel() for grid in np.meshgrid(MEANS, DEVIATIONS))
    ranges = CountRanges.of(n)
    return sets, np.array([ranges.scores(counts_of(np.array(data), means, deviations)) for data in sets])


def neighbours(sets: list[tuple[int, ...]], letters: int) -> Iterator[tuple[int, int]]:
    """Indices of all ordered pairs with one record replaced."""
    place = {data: i for i, data in enumerate(sets)}
    for data, i in place.items():
        for at, letter in itertools.product(range(len(data)), range(letters)):
            if letter != data[at]:
                yield i, place[tuple(sorted((*data[:at], letter, *data[at + 1 :])))]


def volumes_of(scores: Any, limit: int) -> FloatArray:
    """Number of laws with score at most t, t = 0, ..., limit, for every data set."""
    return np.asarray((scores[:, :, None] <= np.arange(limit + 1)).sum(axis=1), dtype=float)


@claim(
    id="robust-score",
    family=FAMILY,
    source=SOURCE,
    statement="counts c come into [l, u] by replacing max(sum (c - u)_+, sum (l - c)_+) records, and no fewer",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"joined": np.maximum},
    contrast={"joined": np.add},
    otherwise="by replacing sum (c - u)_+ + sum (l - c)_+",
    constants="so one replaced record moves the score by at most 1",
)
def score(effort: Effort, *, joined: Callable[[Any, Any], Any]) -> Finding:
    """The closed form against the least number of replaced records over all counts in the ranges."""

    def cases() -> Iterator[tuple[bool, object]]:
        for n in range(1, effort.of(6, 9)):
            every_count = np.array([c for c in itertools.product(range(n + 1), repeat=4) if sum(c) == n])
            for _ in range(effort.of(4, 30)):
                high = effort.rng.integers(0, n + 1, 4)
                low = effort.rng.integers(0, high + 1)
                if not low.sum() <= n <= high.sum():
                    continue
                inside = every_count[((every_count >= low) & (every_count <= high)).all(axis=1)]
                moved = np.maximum(every_count[:, None] - inside, 0).sum(axis=2).min(axis=1)
                above, below = (np.maximum(part, 0).sum(axis=1) for part in (every_count - high, low - every_count))
                wrong = np.flatnonzero(joined(above, below) != moved)
                where = {"l": low, "u": high, "c": every_count[wrong[0] if wrong.size else 0]}
                yield wrong.size == 0, where

    return every(cases())


@claim(
    id="robust-volumes",
    family=FAMILY,
    source=SOURCE,
    statement="the volume V_t of laws with score at most t has V_t(X') <= V_(t+1)(X) for neighbours X, X'",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"step": 1},
    contrast={"step": 0},
    otherwise="V_t(X') <= V_t(X)",
    constants="attained; so the largest j with V_(T+1+j)/V_(T0-j) below a limit moves by at most 1",
)
def shifted_volumes(effort: Effort, *, step: int) -> Finding:
    """V_t(X') over V_(t + step)(X), for numbers of laws on a grid and for the areas of the package."""

    def cases() -> Iterator[tuple[float, object]]:
        letters = effort.of(5, 6)
        sets, scores = world(5, letters)
        volumes = volumes_of(scores, 5)
        for i, j in neighbours(sets, letters):
            for t in range(4):
                yield quotient(volumes[j, t], volumes[i, t + step]), f"{sets[i]} and {sets[j]}, t = {t}"
        ranges, limit = CountRanges.of(40), 4
        for _ in range(effort.of(10, 200)):
            data = effort.rng.standard_normal(40) * 10.0 ** effort.rng.uniform(-3, 3)
            other = np.append(data[1:], effort.rng.choice([data[3], effort.rng.normal(), 1e6]))
            first, second = (arrangement(x, ranges, limit=limit).volumes for x in (data, other))
            for t in range(limit):
                where = f"40 records, {data[0]:.6g} becomes {other[-1]:.6g}, t = {t}"
                yield quotient(second[t], first[t + step]), where

    return over(cases(), tolerance=1e-9)  # rounding of sums of a few thousand areas


@claim(
    id="robust-areas",
    family=FAMILY,
    source=SOURCE,
    statement="dm ds/s^2 over a0 <= m - s <= a1, b0 <= m + s <= b1 is 2 ln((b0 - a0)(b1 - a1)/((b0 - a1)(b1 - a0)))",
    kind=Kind.QUADRATURE,
    verdict=Verdict.HOLDS,
    printed={"power": 2},
    contrast={"power": 1},
    otherwise="dm ds/s over it is",
    constants="it does not change if records are moved or scaled",
)
def areas(effort: Effort, *, power: int) -> Finding:
    """Integral of s^-power over a rectangle in m - s and m + s, against the logarithm of a cross ratio."""

    def cases() -> Iterator[tuple[float, object]]:
        for _ in range(effort.of(20, 200)):
            a0, a1, b0, b1 = np.cumsum(effort.rng.uniform(0.2, 2, 4)) * effort.rng.uniform(0.5, 3)
            found, _ = integrate.dblquad(
                lambda b, a: 0.5 * ((b - a) / 2) ** -power, a0, a1, b0, b1, epsabs=1e-12, epsrel=1e-10
            )
            stated = 2 * math.log((b0 - a0) * (b1 - a1) / ((b0 - a1) * (b1 - a0)))
            yield max(found / stated, stated / found), {"a0": a0, "a1": a1, "b0": b0, "b1": b1}

    return over(cases(), tolerance=1e-8)  # of the quadrature


@claim(
    id="robust-draw",
    family=FAMILY,
    source=SOURCE,
    statement="a law of score s <= T drawn with density exp(-e s/2) is (e + ln(1 + h), h)-DP from every data set with "
    "h = exp(-e (T - T0)/2) V_(T+1)/V_T0",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.SLACK,
    printed={"share": 1.0},
    contrast={"share": 0.0},
    otherwise="it is e-DP",
    constants="the bound concerns the data set whose h it is; its neighbour may have a larger one",
)
def draw(effort: Effort, *, share: float) -> Finding:
    """Exact delta at e + ln(1 + h) over h, or at e over 0, for all pairs of neighbours."""

    def cases() -> Iterator[tuple[float, object]]:
        letters = effort.of(5, 6)
        sets, scores = world(5, letters)
        for e, core, reach in itertools.product((0.5, 2.0, 6.0), (0, 1), (2, 3)):
            volumes = volumes_of(scores, reach + 1)
            densities = np.where(scores <= reach, np.exp(-e * scores / 2), 0.0)
            totals = densities.sum(axis=1)
            for i, j in neighbours(sets, letters):
                if volumes[i, core] == 0 or totals[j] == 0:
                    continue
                h = math.exp(-e * (reach - core) / 2) * volumes[i, reach + 1] / volumes[i, core]
                p, q = densities[i] / totals[i], densities[j] / totals[j]
                delta = max(0.0, float(hockey_stick(p, q, e + share * math.log1p(h))))
                where = {"X": sets[i], "X'": sets[j], "e": e, "T0": core, "T": reach}
                yield quotient(delta if delta > 1e-14 else 0.0, share * h), where

    return over(cases(), tolerance=1e-9)


def tested(n: int) -> RobustDesign:
    """A design for a handful of records: a large budget, as scores go to 3 only."""
    table = pass_probabilities(PointProfile(4.0, 0.1), epsilon=5.0, delta=0.2)
    return RobustDesign(n, 4.0 - math.log1p(0.1), 0.1, 1, 3, table)


def certain(n: int) -> RobustDesign:
    """The same without a coin: any level above 0 passes."""
    sound = tested(n)
    table = object.__new__(PassProbabilities)  # its check would refuse
    for name, value in {"probabilities": (0.0, 1.0), "loss": sound.table.loss, "epsilon": 5.0, "delta": 0.2}.items():
        object.__setattr__(table, name, value)
    return RobustDesign(n, sound.exponent, sound.excess, sound.core, sound.reach, table)


@claim(
    id="robust-certificate",
    family=FAMILY,
    source=SOURCE,
    statement="the draw after its test by propose, test, release is (epsilon, delta)-DP, a refusal included",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"design": tested},
    contrast={"design": certain},
    otherwise="so is the draw after the test without its coin",
    constants="the level is the largest j + 1 with exp(-e (T - T0)/2) V_(T+1+j)/V_(T0-j) <= h, or 0",
)
def certificate(effort: Effort, *, design: Callable[[int], RobustDesign]) -> Finding:
    """Exact delta of test and draw over the stated one, for all pairs of neighbours, refusals among the outputs."""
    passed: list[float] = []

    def cases() -> Iterator[tuple[float, object]]:
        for n, letters in ((4, 5), (5, effort.of(5, 6))):
            chosen = design(n)
            sets, scores = world(n, letters)
            levels = [chosen.level(volumes) for volumes in volumes_of(scores, chosen.limit)]
            coins = np.array([chosen.table.probability(level) for level in levels])
            weights = np.append(np.exp(chosen.log_weights), np.zeros(int(scores.max()) + 1))
            densities = weights[scores]
            totals = np.maximum(densities.sum(axis=1, keepdims=True), 1e-300)
            laws = np.column_stack([1 - coins, coins[:, None] * densities / totals])
            passed.extend(coins.tolist())
            for i, j in neighbours(sets, letters):
                delta = float(hockey_stick(laws[i], laws[j], chosen.table.epsilon))
                yield delta / chosen.table.delta, {"X": sets[i], "X'": sets[j], "levels": (levels[i], levels[j])}

    found = over(cases(), tolerance=1e-9)
    return found.with_figures({"largest probability of passing": max(passed), "smallest": min(passed)})
