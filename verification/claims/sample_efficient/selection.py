"""Choosing a hypothesis, repairing a density, boosting: Ashtiani, Majid, Narayanan (2024), appendices D and G.

The selection is that of Bun, Kamath, Steinke, Wu (2019) with explicit constants. For hypotheses j, l let
W = {H_j > H_l}, p = H_j(W), p' = H_l(W) and t the share of records in W; G(j, l) = n if p - p' <= (2 + z) a, otherwise
n max(0, t - p' - (1 + z/2) a). The score of j is the least G(j, l), and j is chosen with probability proportional to
exp(e score / 2). Replacing a record moves n t by at most 1, so the scores have sensitivity 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.sample_efficient.exact import FAMILY, PAPER
from verification.claims.search import every, over, shown, worst
from verification.references.references import hockey_stick


@dataclass(frozen=True)
class Selection:
    """Hypotheses (m, letters) in whole multiples of 1/units, with copies; a is a whole number of units."""

    hypotheses: FloatArray
    units: int
    a: int
    z: float
    epsilon: float
    copies: tuple[int, ...] = ()

    def scores(self, counts: FloatArray) -> FloatArray:
        """Scores (..., m) of data sets with these counts (..., letters) of the letters."""
        n = counts.sum(axis=-1)[..., None]
        found = []
        for h in self.hypotheses:
            inside = h > self.hypotheses  # (m, letters): W for every l
            p, other = (inside * h).sum(axis=1), (inside * self.hypotheses).sum(axis=1)
            far = p - other > (2 + self.z) * self.a  # whole numbers and z a multiple of 1/2: exact
            excess = counts @ inside.T.astype(float) - n * (other + (1 + self.z / 2) * self.a) / self.units
            found.append(np.min(np.where(far, np.maximum(0.0, excess), n), axis=-1))
        return np.stack(found, axis=-1)

    def probabilities(self, counts: FloatArray) -> FloatArray:
        """Law (..., m) of the choice."""
        logs = self.epsilon * self.scores(counts) / 2  # a copy is at distance 0, so it has the same score
        weights = np.exp(logs - logs.max(axis=-1, keepdims=True)) * np.array(self.copies or 1)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def enough_records(m: int, a: float, z: float, epsilon: float, failure: float) -> int:
    """8 ln(4 m / b) / (z a)^2 + 8 ln(2 m / b) / (z a e), rounded up."""
    first = 8 * math.log(4 * m / failure) / (z * a) ** 2
    return math.ceil(first + 8 * math.log(2 * m / failure) / (z * a * epsilon))


@claim(
    id="hypothesis-selection",
    family=FAMILY,
    source=f"{PAPER}, Theorem D.2, with the constants of the module's text",
    statement="n >= 8 ln(4m/b)/(z a)^2 + 8 ln(2m/b)/(z a e) and a hypothesis within a: the choice is e-DP and "
    "within (3 + z) a with probability 1 - b",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"accuracy": Fraction(3)},
    contrast={"accuracy": Fraction(59, 20)},
    otherwise="within (2.95 + z) a",
    constants="3 + z is needed for two hypotheses on opposite sides of the truth; half of n was enough in all "
    "cases tried with two letters",
)
def hypothesis_selection(effort: Effort, *, accuracy: Fraction) -> Finding:
    """Exact probability of a choice farther than (``accuracy`` + z) a from the truth, over b; and the privacy.

    Two letters, so that the count of one is binomial and the sum over all data sets is finite. One hypothesis within a
    of the truth, one anywhere on a grid of a/50, and one or many copies of one that is far. The sensitivity of the
    scores and the loss of the choice are compared on every pair of neighbouring data sets of a few records with three
    letters.
    """
    failures = (0.3, 0.01) if effort.thorough else (0.1,)
    cases: list[tuple[float, object]] = []
    shares = []
    for z, epsilon, copies, failure in itertools.product((0.5, 1.0), (0.01, 1.0, 100.0), (1, 10**6), failures):
        found, share = _worst_choices(z, epsilon, copies, failure, accuracy, step=effort.of(20, 5))
        cases += found
        shares.append(share)
    sensitivity, loss, private = _private(effort)
    found_all = worst(over(cases), private)
    figures = {
        "sensitivity of the scores": sensitivity,
        "loss of the choice over e": loss,
        "share of n that is needed": max(shares),
        "n for m = 1000, a = .1, e = z = 1, b = .1": enough_records(1000, 0.1, 1.0, 1.0, 0.1),
    }
    return found_all.with_figures(figures)


@claim(
    id="density-outside-a-set",
    family=FAMILY,
    source=f"{PAPER}, Lemma G.3",
    statement="if the integral of |f - g| off a set is at most a, some density h is g off the set and TV(f, h) <= a",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"share": Fraction(1)},
    contrast={"share": Fraction(49, 50)},
    otherwise="and TV(f, h) <= .98 a",
    constants="a, attained where f - g has one sign off the set; 2 a if a bounds half the integral",
)
def density_outside(effort: Effort, *, share: Fraction) -> Finding:
    """TV(f, h) over ``share`` times the integral of |f - g| off a set, h the best density that is g off the set.

    Laws on up to 6 points in rational numbers; on the set h is f, rescaled to the mass that is left. No density that
    is g off the set is closer, because the masses of the set differ by as much.
    """

    def cases() -> Iterator[tuple[float, object]]:
        for _ in range(effort.of(1500, 30_000)):
            size = int(effort.rng.integers(2, 7))
            f, g = (_law(effort.rng, size) for _ in range(2))
            inside = [bool(x) for x in effort.rng.integers(0, 2, size)]
            mass = sum((x for x, chosen in zip(f, inside, strict=True) if chosen), Fraction(0))
            left = sum((x for x, chosen in zip(g, inside, strict=True) if chosen), Fraction(0))
            off = sum((abs(x - y) for x, y, chosen in zip(f, g, inside, strict=True) if not chosen), Fraction(0))
            if mass == 0 or off == 0:
                continue
            h = [x * left / mass if chosen else y for x, y, chosen in zip(f, g, inside, strict=True)]
            if min(h) < 0 or sum(h) != 1:
                raise AssertionError("h must be a law")
            between = sum((abs(x - y) for x, y in zip(f, h, strict=True)), Fraction(0)) / 2
            yield float(between / (share * off)), f"f = {shown(f)}, g = {shown(g)}, set {inside}"

    found = over(cases())
    doubled = {"largest if the hypothesis is half the integral": 2 * float(share) * found.largest}
    return found.with_figures(doubled)


@claim(
    id="boosting",
    family=FAMILY,
    source=f"{PAPER}, footnote 3",
    statement="if most candidates are within a of the truth, one within 2 a of most of them is within 3 a; "
    "disjoint groups cost no more than one",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"distance": 60},
    contrast={"distance": 59},
    otherwise="within 2.95 a of it",
    constants="3, attained; one of the two majorities may be just half, but not both",
)
def boosting(effort: Effort, *, distance: int) -> Finding:
    """Farthest majority pick from the truth over ``distance``/20 of a; groups of records are private in parallel.

    Candidates on a grid of a line, every multiset, and random laws on three points with total variation. More than
    half of them are within a of the truth; a majority pick has more than half of them within 2 a.
    """
    figures: dict[str, float] = {}

    def picked(table: np.ndarray, from_truth: np.ndarray, unit: int, case: object) -> Iterator[tuple[float, object]]:
        t = len(from_truth)
        good, close = (from_truth <= unit).sum(), (table <= 2 * unit).sum(axis=1)
        for name, enough_good in {"of the picks alone": 2 * good > t, "of both": 2 * good >= t}.items():
            if enough_good and (2 * close >= t).any():
                tied = float(from_truth[2 * close >= t].max() / unit)
                figures[f"farthest, half {name}"] = max(tied, figures.get(f"farthest, half {name}", 0.0))
        if 2 * good <= t:
            return
        yield (0.0 if (2 * close > t).any() else math.inf), f"no majority pick among {case}"
        for i in np.flatnonzero(2 * close > t):
            yield 20 * from_truth[i] / (distance * unit), f"{case}, picked {i}, a = {unit}"

    def cases() -> Iterator[tuple[float, object]]:
        unit, places = 2, range(-10, 11)
        for t in range(1, effort.of(4, 6)):
            for candidates in itertools.combinations_with_replacement(places, t):
                x = np.array(candidates)
                yield from picked(np.abs(x[:, None] - x), np.abs(x), unit, f"truth 0, candidates {candidates}")
        for _ in range(effort.of(300, 5000)):
            laws = effort.rng.multinomial(8, effort.rng.dirichlet(np.ones(3)), int(effort.rng.integers(3, 8)))
            table = np.abs(laws[:, None] - laws).sum(axis=2)  # 16 times the total variation
            yield from picked(table[1:, 1:], table[0, 1:], int(effort.rng.integers(1, 6)), f"truth first, {laws / 8}")

    def parallel() -> Iterator[tuple[bool, object]]:
        for _ in range(effort.of(20, 200)):
            p, q, *rest = effort.rng.dirichlet(np.ones(3), 4)
            for e in (0.0, 0.3, 1.0):
                group = hockey_stick(p, q, e)
                joint = hockey_stick(_joint([p, *rest]), _joint([q, *rest]), e)
                yield bool(abs(joint - group) < 1e-12), {"changed group": (p, q), "others": rest, "e": e}

    found = worst(over(cases()), every(parallel()))
    return found.with_figures(figures)


VOLUME_SELECTION = Claim(
    id="volume-selection",
    family=FAMILY,
    source=f"{PAPER}, Lemma C.3",
    statement="bounded sensitivity and bounded growth of volumes give an (e, d)-DP selection",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="the growth condition is stated with unnamed constants, and a run needs volumes over all data sets",
)


NET_SIZE = Claim(
    id="net-size",
    family=FAMILY,
    source=f"{PAPER}, Lemma D.1",
    statement="there is a net of size (G sqrt(d) / a)^O(d^2)",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="an order without constants; the volume argument is sound",
)


PIGEONHOLE = Claim(
    id="pigeonhole",
    family=FAMILY,
    source=f"{PAPER}, Lemmas F.3 and F.4",
    statement="some bucket holds many consecutive pairs of a component",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="polylogarithmic factors without constants; the pigeonhole argument is sound",
)


HEADLINE_RATES = Claim(
    id="headline-rates",
    family=FAMILY,
    source=f"{PAPER}, Theorems 1.4 to 1.6",
    statement="sample sizes k d^2 + k^1.5 d^1.75 + k^2 d, in one dimension k, and a lower bound",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="orders without constants or logarithms; the lower bound speaks of all algorithms",
)


def _worst_choices(
    z: float, epsilon: float, copies: int, failure: float, accuracy: Fraction, *, step: int
) -> tuple[list[tuple[float, object]], float]:
    """(failure over b of every place tried for two hypotheses, share of n that the worst place needs).

    In multiples of 1/500 with a = .1 and the truth at .5: the first hypothesis at distance a or 0, the second on a
    grid that is refined where the failure is largest, the last one and its copies just beyond (3 + z) a.
    """
    units, a, truth, reach = 500, 50, 250, math.ceil((3 + z) * 50)
    n = enough_records(copies + 2, a / units, z, epsilon, failure)

    def failing(best: int, second: int, n: int) -> float:
        places = truth + np.array([best, second, reach + 1], dtype=float)
        letters = np.column_stack([places, units - places])
        bad = np.abs(places - truth) > float(accuracy + Fraction(z)) * a
        return _failure(Selection(letters, units, a, z, epsilon, (1, 1, copies)), bad, truth / units, n)

    tried = {at: failing(*at, n) for at in itertools.product((-a, 0, a), range(-reach, reach + 1, step))}
    for finer in (10, 6, 3, 1, 1, 1):
        best, second = max(tried, key=tried.__getitem__)
        tried |= {(best, s): failing(best, s, n) for s in (second - finer, second + finer) if abs(s) <= reach}
    case = {"a": a / units, "z": z, "e": epsilon, "b": failure, "n": n, "truth": truth / units, "copies": copies}
    found: list[tuple[float, object]] = []
    for at, value in tried.items():
        hypotheses = (truth + np.array([*at, reach + 1])) / units
        found.append((value / failure, case | {"hypotheses, the last one copied": hypotheses}))
    top, share = max(tried, key=tried.__getitem__), 0.0
    for fortieth in range(40, 0, -1):
        if failing(*top, n * fortieth // 40) > failure:
            share = min(1.0, (fortieth + 1) / 40)
            break
    return found, share


def _failure(chosen: Selection, bad: NDArray[np.bool_], truth: float, n: int) -> float:
    """Probability of a bad choice from n records; counts that have probability 2e-12 together are left out."""
    reach = math.sqrt(14 * n)  # Hoeffding: 2 exp(-28)
    counts = np.arange(max(0, math.floor(n * truth - reach)), min(n, math.ceil(n * truth + reach)) + 1)
    choice = chosen.probabilities(np.column_stack([counts, n - counts]))
    return float(stats.binom.pmf(counts, n, truth) @ choice[:, bad].sum(axis=1))


def _private(effort: Effort) -> tuple[float, float, Finding]:
    """Sensitivity and largest loss over e on every pair of neighbours; and whether they are at most 1."""
    sensitivity = loss = 0.0
    cases: list[tuple[bool, object]] = []
    for _ in range(effort.of(30, 400)):
        units, n, epsilon = 20, int(effort.rng.integers(2, 7)), float(effort.rng.uniform(0.1, 3))
        hypotheses = effort.rng.multinomial(units, [1 / 3] * 3, int(effort.rng.integers(2, 6))).astype(float)
        z = 0.5 * int(effort.rng.integers(1, 4))
        chosen = Selection(hypotheses, units, int(effort.rng.integers(1, 4)), z, epsilon)
        counts = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)], dtype=float)
        neighbours = np.abs(counts[:, None] - counts).sum(axis=2) == 2
        scores, logs = chosen.scores(counts), np.log(chosen.probabilities(counts))
        changes = np.abs(scores[:, None] - scores).max(axis=2)[neighbours].max()
        losses = np.abs(logs[:, None] - logs).max(axis=2)[neighbours].max() / epsilon
        sensitivity, loss = max(sensitivity, float(changes)), max(loss, float(losses))
        private = changes <= 1 + 1e-12 and losses <= 1 + 1e-12  # rounding of sums of at most 6 records
        cases.append((bool(private), {"hypotheses": hypotheses / units, "n": n, "e": epsilon}))
    return sensitivity, loss, every(cases)


def _law(rng: np.random.Generator, size: int) -> list[Fraction]:
    counts = [1, *rng.integers(0, 5, size - 1).tolist()]
    return [Fraction(counts[i], sum(counts)) for i in rng.permutation(size)]


def _joint(laws: list[FloatArray]) -> FloatArray:
    """Law of independent outputs."""
    joint = np.ones(1)
    for law in laws:
        joint = np.multiply.outer(joint, law).ravel()
    return joint
