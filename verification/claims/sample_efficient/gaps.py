"""The univariate learner of Ashtiani, Majid and Narayanan (2024), appendix F: a noisy histogram of consecutive gaps.

Records are integers, in units of a power of two, so that scale a = floor(log2 gap) and location
b = floor(left / (B 2^a)) of every pair of consecutive records are exact. B is the cell factor.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import stats

from verification.auditing.bisection import bracket
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.sample_efficient.exact import FAMILY, PAPER, enough
from verification.claims.search import over
from verification.references.references import truncated_laplace_delta

WIDE = 2**30  # one cell for all small data sets here
Records = tuple[int, ...]


def gap_counts(data: Sequence[int], cell: int) -> Counter[tuple[int, int]]:
    """How many pairs of consecutive sorted records fall into each bucket (a, b); equal records make no pair."""
    gaps = ((left, (right - left).bit_length() - 1) for left, right in consecutive(data) if right > left)
    return Counter((a, left // (cell << a)) for left, a in gaps)


def consecutive(data: Sequence[int]) -> list[tuple[int, int]]:
    """The n - 1 pairs of neighbours in sorted order."""
    return list(itertools.pairwise(sorted(data)))


@claim(
    id="few-candidates",
    family=FAMILY,
    source=f"{PAPER}, Lemma F.2",
    statement="the first step of the univariate learner gives at most n candidates",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"fewer": 0},
    contrast={"fewer": 2},
    otherwise="at most n - 2",
    constants="n - 1, attained",
)
def few_candidates(effort: Effort, *, fewer: int) -> Finding:
    """Buckets that can be released against n - ``fewer``; empty ones never are: noise does not pass the threshold."""

    def cases() -> Iterator[tuple[float, object]]:
        for cell in (1, 4, WIDE):
            for n in range(3, 6):
                for data in itertools.combinations_with_replacement(range(8), n):
                    yield len(gap_counts(data, cell)) / (n - fewer), {"data": data, "B": cell}
            for n in effort.rng.integers(3, 200, effort.of(20, 500)).tolist():
                data = tuple(np.rint(np.exp(effort.rng.uniform(0, 40, n))).astype(int).tolist())
                yield len(gap_counts(data, cell)) / (n - fewer), {"n": n, "B": cell, "first records": data[:5]}

    return over(cases())


@claim(
    id="consecutive-pairs",
    family=FAMILY,
    source=f"{PAPER}, Lemma F.5",
    statement="replacing a record changes at most 3 of the pairs of consecutive records",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"bound": 3},
    contrast={"bound": 2},
    otherwise="at most 2",
    constants="3 is attained by 0, 1, 2, 4 and 0, 2, 3, 4",
)
def consecutive_pairs(effort: Effort, *, bound: int) -> Finding:
    """Pairs of one data set that its neighbour lacks, over ``bound``: every pair of neighbours of up to 5 records."""

    def cases() -> Iterator[tuple[float, object]]:
        for data, other in _neighbours(5, effort.of(6, 8)):
            lost = Counter(consecutive(data)) - Counter(consecutive(other))
            yield sum(lost.values()) / bound, f"{data} and {other}"

    return over(cases())


@claim(
    id="gap-histogram",
    family=FAMILY,
    source=f"{PAPER}, Lemma F.6",
    statement="replacing a record changes the counts by at most 6 in L1; noise TLap(1, e/10, d/10) on each "
    "count is (e, d)-DP, e <= 1",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"change": 6, "divisor": 10.0, "needed": 2},
    contrast={"change": 5, "divisor": 5.95, "needed": 1},
    otherwise="by at most 5, or TLap(1, e/5.95, d/10) is enough",
    constants="6 is attained, one count can move by 3; TLap(1, e/10, d/10) spends .6 e and .643 d at e = 1; "
    "e/6 with d/10 is enough, and 6.68 is when both are divided alike",
)
def gap_histogram(effort: Effort, *, change: int, divisor: float, needed: int) -> Finding:
    """L1 change of the counts over ``change``, and the exact delta of TLap(1, e/divisor, d/10) noise over d.

    Every pair of neighbours of up to 4 small records gives a pattern of changes. Where both noisy counts are possible
    the loss of a pattern is at most e/divisor times its sum; where it is attained its probability is known as well,
    so that the delta is exact if that is at most e and a lower bound otherwise.
    """
    patterns: dict[tuple[int, ...], str] = {}
    n_cases = 0
    for data, other in _neighbours(4, effort.of(9, 13)):
        for cell in (1, 2, WIDE):
            n_cases += 1
            before, after = gap_counts(data, cell), gap_counts(other, cell)
            changes = sorted(abs(before[bucket] - after[bucket]) for bucket in {*before, *after})
            patterns.setdefault(tuple(c for c in changes if c), f"{data} and {other}, B = {cell}")
    single = max(max(pattern, default=0) for pattern in patterns)
    moved = over(((sum(p) / change, where) for p, where in patterns.items()), figures={"of one count": single})

    def share(pattern: tuple[int, ...], e: float, of_epsilon: float, of_delta: float) -> float:
        d = 1e-4
        deltas = [_noise_delta(c, e / of_epsilon, d / of_delta) for c in pattern]
        excess = -math.expm1(min(0.0, e - sum(pattern) * e / of_epsilon))
        return (1 - math.prod(1 - x for x in deltas) + excess * math.prod(0.5 - x for x in deltas)) / d

    def largest(e: float, of_epsilon: float, of_delta: float) -> float:
        return max(share(pattern, e, of_epsilon, of_delta) for pattern in patterns)

    # the curve of the noise has an absolute error of 1e-9, six of them over d = 1e-4
    private = over(
        ((share(p, e, divisor, 10), f"{where}, e = {e:g}") for p, where in patterns.items() for e in (0.1, 1.0)),
        tolerance=1e-4,
        figures={
            "sum of losses over e": max(map(sum, patterns)) / divisor,
            "delta over d, e = 1": largest(1.0, divisor, 10),
            "delta over d, e = 1, if one count could move by 6": _noise_delta(6, 1 / divisor, 1e-5) / 1e-4,
            "least divisor of e with d/10": _least(lambda c: largest(1.0, c, 10) <= 1 + 1e-4),
            "least divisor of e and d, e = 1": _least(lambda c: largest(1.0, c, c) <= 1 + 1e-4),
        },
    )
    return enough([Finding(moved.largest, moved.where, n_cases, 0.0, moved.figures), private], needed)


@claim(
    id="equal-width-cells",
    family=FAMILY,
    source=f"{PAPER}, Algorithm 3 read with cells as wide as the scale, B = 1",
    statement="for 2000 or more well-spread records some bucket of Algorithm 3 with B = 1 has a count "
    "above the threshold",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"wide": False},
    contrast={"wide": True},
    otherwise="the same with B = n",
    constants="with B = 1 every count is at most 1: left ends of gaps of at least 2^a are 2^a apart",
)
def candidates_found(effort: Effort, *, wide: bool) -> Finding:
    """Threshold over the largest count for data with room in every scale; B = 1, or with ``wide`` B = n.

    Records are quantiles of a law, moved and scaled; the threshold is the largest value of TLap(1, e/10, d/10).
    """
    threshold = _bound(0.1, 1e-7)  # e = 1, d = 1e-6

    def cases() -> Iterator[tuple[float, object]]:
        laws = {"normal": stats.norm, "uniform": stats.uniform, "Laplace": stats.laplace}
        for (name, law), n in itertools.product(laws.items(), (2000, effort.of(4000, 50_000))):
            quantiles = law.ppf((np.arange(n) + 0.5) / n)
            for _ in range(effort.of(2, 10)):
                shift, steps = effort.rng.uniform(-1000, 1000), 2 ** int(effort.rng.integers(30, 40))
                data = np.rint((quantiles + shift) * steps).astype(int).tolist()
                count = max(gap_counts(data, n if wide else 1).values())
                yield threshold / count, {"law": name, "n": n, "mean": shift, "largest count": count}

    small = {
        cell: max(
            max(gap_counts(data, cell).values(), default=0)
            for data in itertools.combinations_with_replacement(range(9), 5)
        )
        for cell in (1, 2, 3)
    }
    figures = {f"largest count of any 5 records below 9, B = {cell}": float(count) for cell, count in small.items()}
    return over(cases(), figures=figures | {"threshold": threshold})


def _neighbours(n_most: int, letters: int) -> Iterator[tuple[Records, Records]]:
    """Every sorted data set of up to ``n_most`` letters with every data set that has one record replaced."""
    for n in range(1, n_most + 1):
        for data in itertools.combinations_with_replacement(range(letters), n):
            for i, letter in itertools.product(range(n), range(letters)):
                if letter != data[i]:
                    yield data, tuple(sorted((*data[:i], letter, *data[i + 1 :])))


def _bound(epsilon: float, delta: float) -> float:
    """Largest value of TLap(1, epsilon, delta)."""
    return math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon


@functools.cache
def _noise_delta(shift: int, epsilon: float, delta: float) -> float:
    """Exact delta at ``shift`` epsilon between TLap(1, epsilon, delta) and its copy moved by ``shift``."""
    bound = _bound(epsilon, delta)
    return float(truncated_laplace_delta(shift * epsilon, scale=1 / epsilon, bound=bound, shift=shift))


def _least(enough_at: Callable[[float], bool]) -> float:
    """Smallest divisor from 4 to 12 at which the monotone condition holds, to 1e-4."""
    return bracket(lambda divisor: not enough_at(divisor), 4.0, 12.0, width=1e-4)[1]
