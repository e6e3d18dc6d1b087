"""Sensitivities of central private EM: Harrington and Mayolo, with those they quote from Wu and others.

Records are replaced, one at a time; every statistic is computed on both data sets, in exact rational arithmetic where
the records lie on a grid. Clusters are those of a k-means step, so a record belongs to one of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.losses import FloatArray
from verification.claims.search import maximised, over, shown, worst

FAMILY = "local and central"
PAPER = "Harrington, Mayolo"
ROUNDING = 1e-12
N_RECORDS = 1000
BORDER = 0.99  # between the centroids 0 and 1.98
SHARES = {"start": Fraction(1, 10), "weights": Fraction(4, 100), "means": Fraction(16, 100)}  # with .7 for variances
Records = tuple[Fraction, ...]


def _of_all(n: int, size: int) -> Fraction:
    return Fraction(n - 1, n * n)


def _quarter(n: int, size: int) -> Fraction:
    return Fraction(1, 4)


@claim(
    id="budget-shares",
    family=FAMILY,
    source=f"{PAPER}, budgets of both central methods; the shares as in a public implementation",
    statement="start .1, weights .04, K means of .16/K, K variances of .7/K, over T iterations: within epsilon",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"variances": Fraction(70, 100)},
    contrast={"variances": Fraction(71, 100)},
    otherwise="with .71/K for the variances",
    constants="exactly epsilon for every K and T",
)
def budget(effort: Effort, *, variances: Fraction) -> Finding:
    """Sum over all releases of their shares of epsilon, means and variances split over K clusters and T iterations.

    T = 1 is the form of Harrington and Mayolo, T > 1 that of Wu and others.
    """

    def cases() -> Iterator[tuple[float, object]]:
        for k, t in itertools.product(range(1, effort.of(20, 60)), (1, 2, 3, 10, 100)):
            each = [SHARES["weights"] / t, *[SHARES["means"] / (t * k)] * k, *[variances / (t * k)] * k]
            yield float(SHARES["start"] + t * sum(each)), {"K": k, "T": t}

    return over(cases())  # of exact fractions: no rounding


@claim(
    id="wu-sensitivities",
    family=FAMILY,
    source=f"{PAPER}, equations 1 to 3, after Wu and others; GS_Sigma as in a public implementation",
    statement="GS_pi = K/n, GS_mu = 4RK/n, GS_Sigma = (12nKR^2 + 8K^2R^2)/n^2, if n_k >= n/K before and after",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"share": Fraction(1)},
    contrast={"share": Fraction(45, 100)},
    otherwise="so it is if n_k >= .45 n/K",
    constants="GS_pi is tight at K = 2; in one dimension GS_mu is twice and GS_Sigma 3 times the change",
)
@claim(
    id="wu-sensitivities-any-cluster",
    family=FAMILY,
    source=f"{PAPER}, equations 1 to 3, after Wu and others; GS_Sigma as in a public implementation",
    statement="GS_pi = K/n, GS_mu = 4RK/n, GS_Sigma = (12nKR^2 + 8K^2R^2)/n^2 for all data",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"share": None},
    contrast={"share": Fraction(1)},
    otherwise="they hold if n_k >= n/K before and after",
    constants="the mean of a cluster of one record moves by 2R, whatever n",
)
def quoted(effort: Effort, *, share: Fraction | None) -> Finding:
    """Changes of weights (L1), mean and variance of a cluster over K/n, 4RK/n and (12nKR^2 + 8K^2R^2)/n^2, d = 1.

    ``share``: the cluster has at least ``share`` n/K records before and after; None: any number but 0. K >= 2, R = 1.
    """
    worst_of = {"weights": Fraction(0), "mean": Fraction(0), "variance": Fraction(0)}

    def cases() -> Iterator[tuple[float, object]]:
        for k, n in itertools.product((2, 3), (6, 12, 20, 40) if effort.thorough else (6, 20, 40)):
            least = 1 if share is None else math.ceil(share * n / k)
            for m in range(max(1, least), min(n, least + 2)):
                for before, after in _replaced(m, _grid(1 if m > 3 else 2, -1), least):
                    found = {
                        "weights": Fraction(2 * (len(before) - len(after)), n)
                        / Fraction(k, n),  # its new cluster grows
                        "mean": abs(_mean(before) - _mean(after)) / Fraction(4 * k, n),
                        "variance": abs(_variance(before) - _variance(after)) / Fraction(12 * n * k + 8 * k * k, n * n),
                    }
                    for name, value in found.items():
                        worst_of[name] = max(worst_of[name], value)
                    name = max(found, key=lambda key: found[key])
                    yield float(found[name]), f"{name}, K = {k}, n = {n}, {shown(before)} becomes {shown(after)}"

    found = over(cases())
    figures = {f"{name}, change over bound": float(value) for name, value in worst_of.items()}
    return found.with_figures(figures)


@claim(
    id="central-weights-sensitivity",
    family=FAMILY,
    source=f"{PAPER}, GS_pi",
    statement="with fixed centroids the vector of weights moves by at most 2/n in L1",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"share": Fraction(1)},
    contrast={"share": Fraction(99, 100)},
    otherwise="by at most 1.98/n",
    constants="exactly 2/n for the vector, 1/n for each weight",
)
def weights(effort: Effort, *, share: Fraction) -> Finding:
    """L1 change of the vector of weights over ``share`` 2/n, and of one weight: every labelling, n <= 5, K <= 4."""
    entry = Fraction(0)

    def cases() -> Iterator[tuple[float, object]]:
        nonlocal entry
        for n, k in itertools.product(range(1, effort.of(5, 6)), (2, 3, 4)):
            for labels in itertools.product(range(k), repeat=n):
                for new in range(k):
                    other = (new, *labels[1:])
                    change = [Fraction(labels.count(i) - other.count(i), n) for i in range(k)]
                    entry = max(entry, max(map(abs, change)) * n)
                    yield float(sum(map(abs, change)) * n / (2 * share)), f"labels {labels} become {other}"

    found = over(cases())
    return found.with_figures({"n times the change of one weight": float(entry)})


@claim(
    id="central-mean-sensitivity",
    family=FAMILY,
    source=f"{PAPER}, GS_mu",
    statement="with fixed centroids the mean of a cluster moves by at most (b - a)/n",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"own_count": True},
    contrast={"own_count": False},
    otherwise="the sum of a cluster over n does, a = 0",
    constants="cell width over n_k: at n = 1000 and eps_mu = .08 the loss is .158, .79, 7.9, 79 for n_k = 500, "
    "100, 10, 1; an emptied cluster gives 0/0, so delta = 1",
)
def cluster_mean(effort: Effort, *, own_count: bool) -> Finding:
    """Change of a cluster's mean, or without ``own_count`` of its sum over n, over (b - a)/n; cell [0, .99) of [0, 1].

    n - m records at 1, the m of the cell equal; one of them moves anywhere in [0, 1]. The figures are losses for
    n = 1000 with the .08 of epsilon = 1 that each of two means gets.
    """

    def statistic(data: FloatArray) -> float:
        inside = data[data < BORDER]
        return float(inside.sum() / (len(inside) if own_count else len(data)))

    def ratio(n: int, m: int, start: float, crowd: float, end: float) -> float:
        if max(start, crowd) >= BORDER:
            return math.nan
        data = np.where(np.arange(n) < m, crowd, 1.0)
        data[0] = start
        other = data.copy()
        other[0] = end
        if not (other < BORDER).any():
            return math.nan
        return abs(statistic(data) - statistic(other)) * n

    def searched(n: int, m: int) -> Finding:
        starts = effort.rng.uniform(0, 1, (effort.of(15, 100), 3))
        starts[:, :2] *= BORDER
        return maximised(
            lambda x: ratio(n, m, *np.clip(x, 0, 1)),
            starts,
            steps=200,
            polished=2,
            tolerance=ROUNDING,
            shown_as=lambda x: (
                f"n = {n}, {m} in the cell, the moving one, the others, its end: {shown(np.clip(x, 0, 1))}"
            ),
        )

    found = worst(*(searched(n, m) for n, m in ((2, 1), (10, 1), (10, 9), (N_RECORDS, 10), (N_RECORDS, 1))))
    figures = {
        f"loss, n_k = {m}": 0.08 * ratio(N_RECORDS, m, 0.0, 0.0, float(np.nextafter(BORDER, 0)))
        for m in (500, 100, 10, 1)
    }
    return found.with_figures(figures if own_count else {})


@claim(
    id="central-variance-sensitivity",
    family=FAMILY,
    source=f"{PAPER}, GS_Sigma",
    statement="the variance of n records of [a, b] moves by at most (n - 1)(b - a)^2 / n^2, n fixed",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"share": Fraction(1)},
    contrast={"share": Fraction(99, 100)},
    otherwise="by at most .99 of that",
    constants="exactly that: one record goes from the others at a to b",
)
def variance(effort: Effort, *, share: Fraction) -> Finding:
    """Change of the variance of n records of [0, 1] over ``share`` (n - 1)/n^2: every data set on a grid, n fixed."""

    def cases() -> Iterator[tuple[float, object]]:
        for n in (2, 3, 4, 5, 8):
            for before, after in _replaced(n, _grid(2 if n < 5 or effort.thorough else 1, 0), n):
                change = abs(_variance(before) - _variance(after))
                where = f"{shown(before)} becomes {shown(after)}"
                yield float(change / (share * Fraction(n - 1, n * n))), where

    def ratio(x: FloatArray) -> float:
        data = np.clip(x[1:], 0, 1)
        n = len(data)
        other = np.append(np.clip(x[0], 0, 1), data[1:])
        return abs(float(data.var() - other.var())) / (float(share) * (n - 1) / n**2)

    starts = [effort.rng.uniform(-0.5, 1.5, 1 + n) for n in (2, 3, 5, 8) for _ in range(effort.of(5, 30))]
    off_grid = maximised(
        ratio, starts, tolerance=ROUNDING, shown_as=lambda x: f"new value, data: {shown(np.clip(x, 0, 1))}"
    )
    return worst(over(cases()), off_grid)


@claim(
    id="central-cluster-variance-sensitivity",
    family=FAMILY,
    source=f"{PAPER}, GS_Sigma",
    statement="the variance of a cluster moves by at most (n - 1)(b - a)^2 / n^2",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"bound": _of_all},
    contrast={"bound": _quarter},
    otherwise="by at most (b - a)^2 / 4",
    constants="(n_k - 1)/n_k^2, n_k the larger size: largest at n_k = 2, where it is (b - a)^2 / 4",
)
def cluster_variance(effort: Effort, *, bound: Callable[[int, int], Fraction]) -> Finding:
    """Change of the variance of a cluster of n_k records of [0, 1] over ``bound`` (n, n_k); one moves or leaves."""
    by_size: dict[str, float] = {}

    def cases() -> Iterator[tuple[float, object]]:
        for size in range(2, effort.of(7, 9)):
            for before, after in _replaced(size, _grid(2, 0), 1):
                change = abs(_variance(before) - _variance(after))
                by_size[f"sup, n_k = {size}"] = max(by_size.get(f"sup, n_k = {size}", 0.0), float(change))
                for n in (size, 10, 1000):
                    where = f"n = {n}, {shown(before)} becomes {shown(after)}"
                    yield float(change / bound(n, size)), where

    found = over(cases())
    return found.with_figures(by_size)


def _grid(parts: int, low: int) -> list[Fraction]:
    """Equally spaced points of [low, 1]."""
    return [low + Fraction(i * (1 - low), 2 * parts) for i in range(2 * parts + 1)]


def _replaced(m: int, grid: list[Fraction], least: int) -> Iterator[tuple[Records, Records]]:
    """A cluster of ``m`` records of the grid, and the same after one moved, or left if ``least`` stay."""
    for rest in itertools.combinations_with_replacement(grid, m - 1):
        for record in grid:
            for new in grid:
                if record < new:
                    yield (record, *rest), (new, *rest)
            if m - 1 >= least:
                yield (record, *rest), rest


def _mean(x: Records) -> Fraction:
    return sum(x, Fraction(0)) / len(x)


def _variance(x: Records) -> Fraction:
    return sum((v * v for v in x), Fraction(0)) / len(x) - _mean(x) ** 2
