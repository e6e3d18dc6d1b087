"""The steps of a lower bound such as Theorem 1.6 of Ashtiani, Majid, Narayanan (2024), with explicit constants.

The text of Lemmas H.1 to H.7 was not at hand. These are the facts by which every lower bound of that kind is put
together: privacy of groups, of a reduction, of a test and of a packing, samples that are coupled, values that few
records hold, and Fano's inequality. Which lemma says which of them is not claimed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy import optimize, special

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.sample_efficient.exact import FAMILY, PAPER
from verification.claims.search import over, quotient

SOURCE = f"{PAPER}, Theorem 1.6 and appendix H, a step of a lower bound, restated"
BUDGETS = tuple(itertools.product((0.05, 0.5, 1.0), (1e-6, 1e-3, 0.02)))


def group_delta(epsilon: float, delta: float, t: int) -> float:
    """delta (e^(t epsilon) - 1)/(e^epsilon - 1)."""
    return delta * math.expm1(t * epsilon) / math.expm1(epsilon)


def steepest(epsilon: float, delta: float) -> Iterator[float]:
    """Largest probabilities of an event that is impossible without, with 0, 1, 2, ... records for it."""
    p = 0.0
    while True:
        yield p
        p = min(1.0, math.exp(epsilon) * p + delta, 1 - math.exp(-epsilon) * (1 - p - delta))


@claim(
    id="group-privacy",
    family=FAMILY,
    source=SOURCE,
    statement="(e, d)-DP gives (t e, d (exp(t e) - 1)/(exp(e) - 1))-DP for t replaced records",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"linear": False},
    contrast={"linear": True},
    otherwise="it gives (t e, t d)-DP",
    constants="attained while the probability is below 1/2",
)
def groups(effort: Effort, *, linear: bool) -> Finding:
    """The largest probability of an event, impossible without any of t records, over the bound."""

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon, delta in BUDGETS:
            for t, p in enumerate(itertools.islice(steepest(epsilon, delta), effort.of(20, 200))):
                bound = t * delta if linear else group_delta(epsilon, delta, t)
                if t:
                    yield p / bound, {"e": epsilon, "d": delta, "t": t}

    return over(cases(), tolerance=1e-9)


@claim(
    id="padded-data",
    family=FAMILY,
    source=SOURCE,
    statement="records mixed with public random ones and given to an e-DP method: e-DP, if each is used once",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"copies": 1},
    contrast={"copies": 2},
    otherwise="also if each is used twice",
    constants="so a learner of mixtures gives one of a component, with the same budget",
)
def padded(effort: Effort, *, copies: int) -> Finding:
    """Largest loss over e: counts of ones with integer noise exp(-e |z|), among B random public records."""
    reach = 60

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon, public, share in itertools.product((0.2, 0.7), (0, 1, 5), (0.1, 0.5)):
            others = special.comb(public, np.arange(public + 1)) * share ** np.arange(public + 1)
            others = others * (1 - share) ** (public - np.arange(public + 1))
            outputs = np.arange(-reach, reach + 1)
            laws = []
            for ones in (0, 1):
                noise = np.abs(outputs[:, None] - copies * ones - np.arange(public + 1))
                laws.append(np.exp(-epsilon * noise) @ others)
            yield float(np.abs(np.log(laws[0] / laws[1])).max()) / epsilon, {"e": epsilon, "public": public}

    return over(cases(), tolerance=1e-9)


@claim(
    id="two-points",
    family=FAMILY,
    source=SOURCE,
    statement="an (e, d)-DP test of two data sets t records apart is wrong about one with probability at least "
    "(1 - d_t)/(1 + exp(t e)), d_t the delta of groups",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 1.02},
    otherwise="at least 1.02 times that",
    constants="attained by randomised response",
)
def two_points(effort: Effort, *, share: float) -> Finding:
    """Bound over the error of randomised response (t records spend t e), and of the best pass probabilities."""

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon, t in itertools.product((0.01, 0.1, 1.0), range(1, effort.of(8, 40))):
            error = float(special.expit(-t * epsilon))
            yield share / (1 + math.exp(t * epsilon)) / error, {"e": epsilon, "d": 0, "t": t}
        for epsilon, delta in BUDGETS:
            for t, p in enumerate(itertools.islice(steepest(epsilon, delta), effort.of(30, 300))):
                bound = share * (1 - group_delta(epsilon, delta, t)) / (1 + math.exp(t * epsilon))
                # say "second" with probability p q under the second, and a share of the rest at random
                grid = np.linspace(0, 1, 2001)
                error = np.maximum(grid, (1 - p) * (1 - grid)).min() if t else 0.5
                yield max(bound, 0.0) / max(float(error), 1e-300) if p < 1 else 0.0, {"e": epsilon, "d": delta, "t": t}

    return over(cases(), tolerance=1e-9)


@claim(
    id="packing",
    family=FAMILY,
    source=SOURCE,
    statement="an e-DP method names the right one of M data sets, t records apart, with average probability at most "
    "exp(t e)/(exp(t e) + M - 1)",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.99},
    otherwise="at most .99 times that",
    constants="attained by randomised response on M values; so t >= ln((M - 1) p/(1 - p))/e records must differ",
)
def packing(effort: Effort, *, share: float) -> Finding:
    """Largest average over the bound: a linear programme over all methods with M outputs."""

    def cases() -> Iterator[tuple[float, object]]:
        for m, loss in itertools.product((2, 3, effort.of(4, 6)), (0.1, 1.0, 3.0)):
            rows, growth = [], math.exp(loss)
            for i, j, out in itertools.product(range(m), range(m), range(m)):
                if i != j:
                    row = np.zeros((m, m))
                    row[i, out], row[j, out] = 1.0, -growth
                    rows.append(row.ravel())
            sums = np.kron(np.eye(m), np.ones(m))
            found = optimize.linprog(
                -np.eye(m).ravel() / m, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=sums, b_eq=np.ones(m)
            )
            yield -float(found.fun) / (share * growth / (growth + m - 1)), {"M": m, "t e": loss}

    return over(cases(), tolerance=1e-7)  # of the linear programme


@claim(
    id="coupled-samples",
    family=FAMILY,
    source=SOURCE,
    statement="n records of P and n of Q with TV(P, Q) = a can be drawn together so that n a differ on average, and "
    "no fewer",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"factor": 1.0},
    contrast={"factor": 0.9},
    otherwise="so that .9 n a differ on average",
    constants="so a private method tells P from Q only with n a of about 1/e and more",
)
def coupled(effort: Effort, *, factor: float) -> Finding:
    """Least average number of differing places over ``factor`` n a: optimal transport by linear programming."""

    def cases() -> Iterator[tuple[float, object]]:
        for _ in range(effort.of(6, 40)):
            letters, n = int(effort.rng.integers(2, 4)), int(effort.rng.integers(1, 3))
            p, q = effort.rng.dirichlet(np.ones(letters), 2)
            points = np.array(list(itertools.product(range(letters), repeat=n)))
            cost = (points[:, None] != points).sum(axis=2).astype(float)
            masses = [np.prod(law[points], axis=1) for law in (p, q)]
            size = len(points)
            sides = np.vstack([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
            found = optimize.linprog(cost.ravel(), A_eq=sides[:-1], b_eq=np.concatenate(masses)[:-1])
            stated = factor * n * float(np.abs(p - q).sum()) / 2
            yield max(float(found.fun) / stated, stated / float(found.fun)), {"P": p, "Q": q, "n": n}

    return over(cases(), tolerance=1e-6)  # of the linear programme


@claim(
    id="rare-values",
    family=FAMILY,
    source=SOURCE,
    statement="an (e, d)-DP method that never names a value which no record has needs m >= ln(1 + p (exp(e) - 1)/d)/e "
    "records of a value to name it with probability p",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"factor": 1.0, "p": 0.4},
    contrast={"factor": 1.5, "p": 0.4},
    otherwise="needs one and a half times as many",
    constants="the next whole number is enough up to p = 1/2: this is the term k ln(1/delta)/(a epsilon), m = n a/k",
)
def rare_values(effort: Effort, *, factor: float, p: float) -> Finding:
    """The bound over the least m of the best method."""

    def cases() -> Iterator[tuple[float, object]]:
        budgets = itertools.product((0.05, 0.3, 1.0), np.geomspace(1e-12, 1e-3, effort.of(7, 40)))
        for epsilon, delta in budgets:
            least = next(m for m, found in enumerate(steepest(epsilon, delta)) if found >= p)
            bound = math.log1p(p * math.expm1(epsilon) / delta) / epsilon
            yield factor * bound / least, {"e": epsilon, "d": float(delta), "least m": least}

    return over(cases(), tolerance=1e-9)


@claim(
    id="fano",
    family=FAMILY,
    source=SOURCE,
    statement="the best guess of one of M laws, equally likely, is wrong with probability at least "
    "1 - (I + ln 2)/ln M, I at most the largest divergence between two of them",
    kind=Kind.SEARCH,
    verdict=Verdict.SLACK,
    printed={"allowance": math.log(2)},
    contrast={"allowance": 0.0},
    otherwise="at least 1 - I/ln M",
    constants="with n records I is n times as large: this is the term k d^2/a^2",
)
def fano(effort: Effort, *, allowance: float) -> Finding:
    """The bound over the error of the best guess, I the largest Kullback-Leibler divergence, for random laws."""

    def bound_over_error(laws: FloatArray) -> float:
        m = len(laws)
        divergences = special.rel_entr(laws[:, None], laws[None]).sum(axis=2)
        error = 1 - laws.max(axis=0).sum() / m
        return quotient(max(0.0, 1 - (float(divergences.max()) + allowance) / math.log(m)), float(error))

    def cases() -> Iterator[tuple[float, object]]:
        for m, share in itertools.product((3, 8, 64, 150), (0.0, 0.1, 0.5, 0.9)):
            laws = np.full((m, m), (1 - share) / m) + share * np.eye(m)
            laws = laws / laws.sum(axis=1, keepdims=True)
            yield bound_over_error(laws), {"M": m, "randomised response with share": share}
        for _ in range(effort.of(200, 5000)):
            m, size = int(effort.rng.integers(3, 40)), int(effort.rng.integers(2, 30))
            laws = effort.rng.dirichlet(np.full(size, effort.rng.exponential(3) + 0.2), m)
            yield bound_over_error(laws), {"M": m, "letters": size}

    return over(cases(), tolerance=1e-12)
