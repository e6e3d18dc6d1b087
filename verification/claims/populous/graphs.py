"""The friend graph of the Private Populous Estimator: Arbas, Ashtiani, Liaw (2023), Algorithm 1 and Theorem 2.3.

q_i is the share of fits within the friend radius of fit i, itself included; Q is the mean of all q_i. When Q is large
enough, the first index whose q_i exceeds .6 is masked. Neighbouring data sets change one fit. The chosen fits j and j'
are close if they have a friend in common that did not change; that is a statement about graphs, and every pair of
graphs that differ in one vertex is tried.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.populous.friend_graphs import Graphs, described, graphs
from verification.claims.search import every, over, worst

FAMILY = "populous estimator"
PAPER = "Arbas, Ashtiani, Liaw (2023)"
THEOREM = f"{PAPER}, Theorem 2.3"
ALGORITHM = f"{PAPER}, Algorithm 1"
LARGEST = 6  # vertices of the graphs tried one by one
Thresholds = Callable[[int], tuple[int, int]]  # t -> least friends of the chosen index, least sum of all friend counts


def printed_thresholds(t: int) -> tuple[int, int]:
    """q_j > .6 and Q >= .8."""
    return 6 * t // 10 + 1, -(-8 * t**2 // 10)


def first_threshold_alone(t: int) -> tuple[int, int]:
    """q_j > .6, and Q > .6, so that such an index exists."""
    return 6 * t // 10 + 1, 6 * t**2 // 10 + 1


def plain_majority(t: int) -> tuple[int, int]:
    """More than half."""
    return t // 2 + 1, (t // 2 + 1) * t


def shared_majority(t: int) -> tuple[int, int]:
    """The least m with 2 m >= t + 2, and Q >= m / t."""
    return (t + 3) // 2, (t + 3) // 2 * t


def plain_with_second(t: int) -> tuple[int, int]:
    """More than half for the index, and Q >= .8."""
    return t // 2 + 1, -(-8 * t**2 // 10)


def half(t: int) -> tuple[int, int]:
    """At least half."""
    return (t + 1) // 2, (t + 1) // 2 * t


def _two_over(t: int) -> float:
    return 2 / t


def _slightly_less(t: int) -> float:
    return 0.99 * 2 * (t - 1) / t**2


@claim(
    id="agreement-sensitivity",
    family=FAMILY,
    source=f"{THEOREM}, sensitivity of Q",
    statement="one changed fit changes Q by less than 2/t",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"bound": _two_over},
    contrast={"bound": _slightly_less},
    otherwise="by at most .99 times 2 (t - 1)/t^2",
    constants="exactly 2 (t - 1)/t^2, attained by a fit that gains all friends",
)
def agreement(effort: Effort, *, bound: Callable[[int], float]) -> Finding:
    """|Q - Q'| over ``bound(t)``: all graph pairs of few vertices, and for many the fit that gains all friends."""

    def cases() -> Iterator[tuple[float, object]]:
        for t in range(2, LARGEST + 1):
            every_graph = _graphs(t)
            sums = every_graph.counts().sum(axis=2)
            i = int(np.argmax(np.ptp(sums, axis=1)))
            least, most = int(np.argmin(sums[i])), int(np.argmax(sums[i]))
            where = described(every_graph.others[i], every_graph.changed[least], every_graph.changed[most])
            yield float(np.ptp(sums[i])) / t**2 / bound(t), f"t = {t}, {where}"
        for t in (10, 100, 1000):
            friends = np.ones((t, t), dtype=np.int64)
            lonely = friends.copy()
            lonely[0, 1:] = lonely[1:, 0] = 0
            yield float(friends.sum() - lonely.sum()) / t**2 / bound(t), f"t = {t}, no friend of the first fit, or all"

    figures = {f"largest change times t^2, t = {t}": float(np.ptp(_graphs(t).counts().sum(2), 1).max()) for t in (3, 5)}
    return over(cases(), figures=figures)


@claim(
    id="populous-thresholds",
    family=FAMILY,
    source=ALGORITHM,
    statement="q_j > .6 and Q >= .8 in both data sets: j and j' share a friend that did not change, t >= 2",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"thresholds": printed_thresholds},
    contrast={"thresholds": first_threshold_alone},
    otherwise="q_j > .6 and Q > .6 are enough (they fail at t = 3)",
    constants="needs a count m with 2 m >= t + 2, or at t = 3 the second threshold",
)
def common_friend(effort: Effort, *, thresholds: Thresholds) -> Finding:
    """Whether j and j' share an unchanged friend whenever both data sets may pass, for every t.

    Every pair of graphs for t <= 6, the changed fit at every position of the order; the counting argument (two sets of
    m - 1 among t - 1 unchanged fits must meet) for t up to 1000.
    """
    exhaustive = every(
        (bad is None, f"t = {t}, {bad or 'all pairs'}") for t, bad in _worst_pairs(range(2, LARGEST + 1), thresholds)
    )
    counted = every((2 * (thresholds(t)[0] - 1) > t - 1, f"t = {t}, by counting") for t in range(LARGEST + 1, 1000))
    failing = {t for t in range(2, LARGEST + 1) if _n_without(t, thresholds)[0]}
    figures = {f"pairs without a common friend, t = {t}": float(_n_without(t, thresholds)[0]) for t in sorted(failing)}
    tried = float(sum(_n_without(t, thresholds)[1] for t in range(2, LARGEST + 1)))
    return worst(exhaustive, counted, every([(True, "")], figures=figures | {"graph pairs that may pass": tried}))


@claim(
    id="populous-plain-majority",
    family=FAMILY,
    source=f"{ALGORITHM} with other thresholds",
    statement="a plain majority is enough: q_j > 1/2 and Q >= (floor(t/2) + 1)/t in both data sets",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"thresholds": plain_majority},
    contrast={"thresholds": shared_majority},
    otherwise="m friends with 2 m >= t + 2, and Q >= m/t, are enough for every t >= 2",
    constants="plain majority: right for even t, wrong for t = 3, 5, and with Q >= .8 still wrong at t = 5",
)
def majority(effort: Effort, *, thresholds: Thresholds) -> Finding:
    """As ``common_friend``; the figures say up to which t the neighbouring thresholds fail."""
    figures: dict[str, float] = {}
    rules: dict[str, Thresholds] = {"plain": plain_majority, "plain and Q >= .8": plain_with_second, "half": half}
    for name, rule in rules.items():
        failing = [t for t in range(2, LARGEST + 1) if _n_without(t, rule)[0]]
        figures |= {f"{name}: t = {t}": float(_n_without(t, rule)[0]) for t in failing}
    found = common_friend(effort, thresholds=thresholds)
    return worst(found, every([(True, "")], figures=figures))


@claim(
    id="populous-more-than-five",
    family=FAMILY,
    source=f"{THEOREM}, hypothesis t > 5",
    statement="the thresholds .6 and .8 need t > 5: for every t <= 5 some j and j' share no unchanged friend",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"up_to": 5},
    contrast={"up_to": 1},
    otherwise="they need t > 1",
    constants="t >= 2 is enough, so t = 5 (Theorem 6.2) too",
)
def needed(effort: Effort, *, up_to: int) -> Finding:
    """Whether the thresholds .6 and .8 leave j and j' without a common unchanged friend for every t <= ``up_to``."""
    pairs = _worst_pairs(range(1, up_to + 1), printed_thresholds)
    return every((bad is not None, f"t = {t}, {bad or 'always a common unchanged friend'}") for t, bad in pairs)


def _worst_pairs(sizes: range, thresholds: Thresholds) -> Iterator[tuple[int, str | None]]:
    for t in sizes:
        yield t, _first_without(t, thresholds)


def _first_without(t: int, thresholds: Thresholds) -> str | None:
    for position, bad, _ in _pairs_without(t, thresholds):
        if bad.any():
            i, before, after = (int(k[0]) for k in np.nonzero(bad))
            chosen = _graphs(t)
            where = described(chosen.others[i], int(chosen.changed[before]), int(chosen.changed[after]))
            return f"changed fit at place {position}; {where}"
    return None


@functools.cache
def _n_without(t: int, thresholds: Thresholds) -> tuple[int, int]:
    """Pairs without a common unchanged friend, and pairs in which both data sets may pass."""
    found = [(int(bad.sum()), n) for _, bad, n in _pairs_without(t, thresholds)]
    return sum(bad for bad, _ in found), sum(n for _, n in found)


def _pairs_without(t: int, thresholds: Thresholds) -> Iterator[tuple[int, NDArray[np.bool_], int]]:
    """For every place of the changed fit in the order: where (graph, set, set') leaves j and j' without a friend."""
    least, total = thresholds(t)
    all_graphs = _graphs(t)
    counts = all_graphs.counts()
    may_pass = counts.sum(axis=2) >= total
    friends = np.broadcast_to(all_graphs.others[:, None, :], (*counts.shape[:2], t - 1))
    own = np.broadcast_to(all_graphs.changed[:, None], (*counts.shape[:2], 1))
    for position in range(t):  # among the others, in order, the changed fit is inserted here
        order = [*range(position), t - 1, *range(position, t - 1)]
        enough = counts[:, :, order] >= least
        chosen = np.argmax(enough, axis=2)[..., None]
        masks = np.take_along_axis(np.concatenate([friends, own], axis=2)[:, :, order], chosen, axis=2)[..., 0]
        passing = may_pass & enough.any(axis=2)
        both = passing[:, :, None] & passing[:, None, :]
        yield position, both & ((masks[:, :, None] & masks[:, None, :]) == 0), int(both.sum())


@functools.cache
def _graphs(t: int) -> Graphs:
    return graphs(t, invalid=False)
