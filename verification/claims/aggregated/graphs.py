"""The aggregated populous estimator as a graph: level, common friends and the mass that one replaced fit moves.

Every graph on few fits, valid or not, and every two sets of friends of the changed fit; stars and random graphs for
more. ``reference.py`` has the definitions.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from verification.claims.aggregated.reference import FloatArray, IntArray, core_floor, level, mass_bound, ramp
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.populous.friend_graphs import Graphs, described, graphs
from verification.claims.search import every, over, quotient

FAMILY = "aggregated estimator"
NOTE = "this project, aggregated populous estimator"
Weights = Callable[[IntArray, int, int], FloatArray]
Bound = Callable[[int, int, int, int], float]
RULES = (False, True)  # the pair rule, the triple rule
EXACT_BOUND: Bound = mass_bound


def _slightly_less(t: int, floor: int, top: int, full: int) -> float:
    return 0.98 * mass_bound(t, floor, top, full)


def _ramp_only(t: int, floor: int, top: int, full: int) -> float:
    u = (t - 1 - full) / (top - floor)
    return quotient(u, full + u)


def _threshold(counts: IntArray, floor: int, top: int) -> FloatArray:
    return (counts > floor).astype(float)


@claim(
    id="aggregated-level",
    family=FAMILY,
    source=f"{NOTE}, Lemma 1",
    statement="one replaced fit changes the stability level h by at most 1",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"slope": 1},
    contrast={"slope": 0},
    otherwise="so it does with #{n_i >= top + m} >= F in place of F + m in the definition of h",
    constants="attained",
)
def stability(effort: Effort, *, slope: int) -> Finding:
    """Largest |h - h'| over 1, for all graphs of 4 and 5 fits (6 in a thorough run) and random graphs up to 40."""

    def cases() -> Iterator[tuple[float, object]]:
        for t in _sizes(effort):
            g = _graphs(t)
            counts = g.counts()
            for top, full in itertools.product(range(1, t + 1), repeat=2):
                h = level(counts, top, full, slope)
                most, least = np.where(g.allowed, h, -1), np.where(g.allowed, h, t + 1)
                jump = most.max(axis=1) - least.min(axis=1)
                i = int(np.argmax(jump))
                sets = g.changed[int(most[i].argmax())], g.changed[int(least[i].argmin())]
                yield float(jump[i]), f"t = {t}, top = {top}, F = {full}: {described(g.others[i], *sets)}"
        for counts, other, t in _random_pairs(effort):
            top, full = (int(effort.rng.integers(1, t + 1)) for _ in range(2))
            jump = abs(int(level(counts, top, full, slope)) - int(level(other, top, full, slope)))
            yield float(jump), {"top": top, "F": full, "counts": counts, "counts'": other}

    return over(cases())


@claim(
    id="aggregated-common-friends",
    family=FAMILY,
    source=f"{NOTE}, Lemma 2",
    statement="any two (pair rule) or three (triple rule) fits of both cores share a friend other than fit l",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"together": {False: 2, True: 3}, "lowered": 0},
    contrast={"together": {False: 3, True: 3}, "lowered": 0},
    otherwise="any three do under the pair rule too",
)
@claim(
    id="aggregated-core-floor",
    family=FAMILY,
    source=f"{NOTE}, Lemma 2",
    statement="n0 = ceil(t/2) for two fits and ceil((2 t + 2)/3) - 1 for three are large enough",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"together": {False: 2, True: 3}, "lowered": 0},
    contrast={"together": {False: 2, True: 3}, "lowered": 1},
    otherwise="n0 less one is large enough",
)
def common_friends(effort: Effort, *, together: dict[bool, int], lowered: int) -> Finding:
    """Whether any 2 (3) fits of the two cores have a common friend other than the changed fit; n0 less ``lowered``.

    ``together`` is how many fits share a friend under the pair rule (False) and the triple rule (True). All graphs of 4
    and 5 fits (6 in a thorough run), then sets of n0 friends that overlap as little as they can, up to 400 fits.
    """

    failing = dict.fromkeys(RULES, 0)

    def cases() -> Iterator[tuple[bool, object]]:
        for t, triple in itertools.product(_sizes(effort), RULES):
            floor, g = core_floor(t, triple=triple) - lowered, _graphs(t)
            counts = g.counts()
            core = counts > floor
            both = g.allowed[:, :, None] & g.allowed[:, None, :]
            shape = both.shape
            member = [core[:, :, None, i] | core[:, None, :, i] for i in range(t - 1)]  # in the core of D or of D'
            member += [np.broadcast_to(core[:, :, None, -1], shape), np.broadcast_to(core[:, None, :, -1], shape)]
            masks = [g.others[:, None, None, i] for i in range(t - 1)] + [g.changed[None, :, None], g.changed]
            for group in itertools.combinations_with_replacement(range(t + 1), together[triple]):
                shared = functools.reduce(np.bitwise_and, [masks[i] for i in group])
                bad = functools.reduce(np.logical_and, [member[i] for i in group]) & both & (shared == 0)
                where = f"t = {t}, n0 = {floor}, triple rule {triple}"
                if bad.any():
                    i, before, after = (int(place[0]) for place in np.nonzero(bad))
                    where += f", fits {group}: {described(g.others[i], g.changed[before], g.changed[after])}"
                failing[triple] += int(bad.sum())
                yield not bad.any(), where
        for t, triple in itertools.product(range(4, 400), RULES):
            floor, r = core_floor(t, triple=triple) - lowered, together[triple]
            # r sets of the least size among t - 1 fits miss (t - 1 - floor) each
            yield r * (t - 1 - floor) < t - 1, f"t = {t}, n0 = {floor}, {r} sets that overlap as little as possible"

    found = every(cases())
    names = {False: "pair rule: groups without a common friend", True: "triple rule: groups without a common friend"}
    figures = {names[rule]: float(n) for rule, n in failing.items()}
    return found.with_figures(figures)


@claim(
    id="aggregated-moved-mass",
    family=FAMILY,
    source=f"{NOTE}, Lemma 4",
    statement="h >= 1 in D or D': moved mass at most W = (1 + u)/(F + 1 + u), u = (t - 1 - F)/(top - n0)",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"bound": EXACT_BOUND, "weights": ramp},
    contrast={"bound": _slightly_less, "weights": ramp},
    otherwise="at most .98 W",
    constants="attained by stars: F fits are friends of all, the others lose their place on the ramp",
)
@claim(
    id="aggregated-sensitivity-one-replaced",
    family=FAMILY,
    source=f"{NOTE}, Lemma 4",
    statement="W counts the replaced fit itself: the moved mass is at most (1 + u)/(F + 1 + u)",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"bound": EXACT_BOUND, "weights": ramp},
    contrast={"bound": _ramp_only, "weights": ramp},
    otherwise="at most u/(F + u), the fits on the ramp alone",
)
@claim(
    id="aggregated-ramp",
    family=FAMILY,
    source=f"{NOTE}, Lemma 4",
    statement="with weights that grow linearly from n0 to top friends the moved mass is at most W",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"bound": EXACT_BOUND, "weights": ramp},
    contrast={"bound": EXACT_BOUND, "weights": _threshold},
    otherwise="with weights 1 for more than n0 friends and 0 otherwise it is at most the same W",
)
def moved_mass(effort: Effort, *, bound: Bound, weights: Weights) -> Finding:
    """1 - sum over unchanged fits of min(a_i, a'_i), over ``bound``; ``weights`` are the c_i before normalisation.

    All graphs of 4 and 5 fits (6 in a thorough run); random graphs; stars: some fits are friends of all, the others
    lose the changed fit, with every number of further friends.
    """

    def ratio(t: int, triple: bool, top: int, full: int, counts: IntArray, other: IntArray) -> FloatArray:
        floor = core_floor(t, triple=triple)
        c, c_other = weights(counts, floor, top), weights(other, floor, top)
        released = np.maximum(level(counts, top, full), level(other, top, full)) >= 1
        sums = np.where(released, c.sum(-1), 1.0), np.where(released, c_other.sum(-1), 1.0)
        lost = np.where((sums[0] == 0) | (sums[1] == 0), np.inf, 0.0)  # an average that does not exist
        a, b = c / np.maximum(sums[0], 1e-300)[..., None], c_other / np.maximum(sums[1], 1e-300)[..., None]
        moved = 1 - np.minimum(a, b)[..., :-1].sum(-1)  # the changed fit is last
        limit = bound(t, floor, top, full)
        share = moved / limit if limit > 0 else np.where(moved > 1e-12, np.inf, 0.0)
        return np.asarray(np.where(released, share + lost, 0.0))

    def cases() -> Iterator[tuple[float, object]]:
        for t, triple in itertools.product(_sizes(effort), RULES):
            g, floor = _graphs(t), core_floor(t, triple=triple)
            counts = g.counts()
            for top, full in itertools.product(range(floor + 1, t), range(1, t)):  # beyond, no level reaches 1
                released = level(counts, top, full) >= 1
                pairs = (released[:, :, None] | released[:, None, :]) & g.allowed[:, :, None] & g.allowed[:, None, :]
                i, before, after = np.nonzero(np.triu(pairs))  # the bound is symmetric
                if not len(i):
                    continue
                found = ratio(t, triple, top, full, counts[i, before], counts[i, after])
                best = int(np.argmax(found))
                where = f"t = {t}, triple rule {triple}, top = {top}, F = {full}: "
                sets = int(g.changed[before[best]]), int(g.changed[after[best]])
                yield float(found[best]), where + described(g.others[i[best]], *sets)
        for counts, other, t in _random_pairs(effort):
            triple = bool(effort.rng.integers(2))
            floor = core_floor(t, triple=triple)
            top, full = int(effort.rng.integers(floor + 1, t + 1)), int(effort.rng.integers(1, t))
            case = {"triple": triple, "top": top, "F": full, "counts": counts, "counts'": other}
            yield float(ratio(t, triple, top, full, counts, other)), case
        for t, triple in itertools.product((12, 24, 60) if not effort.thorough else range(6, 61, 3), RULES):
            floor = core_floor(t, triple=triple)
            for top in range(floor + 1, t - 1, max(1, t // 12)):
                for full, friends in itertools.product({top, (top + t) // 2, t - 1}, (floor - 2, floor - 1, floor)):
                    counts, other = _star(t, full, max(0, min(friends, full)))
                    case = {"t": t, "triple": triple, "top": top, "F": full, "star, friends of the others": friends}
                    yield float(ratio(t, triple, top, full, counts, other)), case

    return over(cases(), tolerance=1e-12)


@functools.cache
def _graphs(t: int) -> Graphs:
    return graphs(t, invalid=True)


def _sizes(effort: Effort) -> tuple[int, ...]:
    return (4, 5, 6) if effort.thorough else (4, 5)


def _random_pairs(effort: Effort) -> Iterator[tuple[IntArray, IntArray, int]]:
    """Friend counts of random graphs of 7 to 40 fits, some invalid, before and after the last one is replaced."""
    for _ in range(effort.of(300, 6000)):
        rng = effort.rng
        t = int(rng.integers(7, 41))
        alive = rng.random(t) >= rng.choice([0.0, 0.1])
        alive[-1] = True
        edges = np.triu(rng.random((t, t)) < rng.choice([0.5, 0.8, 0.95]), 1)
        ready = int(rng.integers(0, t))
        edges[:ready, :] |= np.triu(np.ones((ready, t), dtype=bool), 1)
        friends = (edges | edges.T | np.eye(t, dtype=bool)) & np.outer(alive, alive)
        other = friends.copy()
        new = (rng.random(t) < rng.choice([0.0, 0.5, 1.0])) & alive
        new[-1] = bool(new.any() or rng.integers(2))  # without friends it may be invalid
        other[-1] = other[:, -1] = new
        yield friends.sum(axis=1), other.sum(axis=1), t


def _star(t: int, full: int, friends: int) -> tuple[IntArray, IntArray]:
    """``full`` fits, friends of each other; the others have ``friends`` of them and lose the changed fit, the last."""
    table = np.eye(t, dtype=np.int64)
    table[:full, :full] = 1
    for place, i in enumerate(range(full, t - 1)):
        chosen = (place + np.arange(friends)) % full
        table[i, chosen] = table[chosen, i] = 1
    table[-1] = table[:, -1] = 1
    other = table.copy()
    other[full:-1, -1] = other[-1, full:-1] = 0
    return table.sum(axis=1), other.sum(axis=1)
