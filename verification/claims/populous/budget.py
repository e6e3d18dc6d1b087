"""Privacy of the Private Populous Estimator as exact laws: Arbas, Ashtiani, Liaw (2023), Theorem 2.3.

The test passes when Q plus truncated Laplace noise of scale s/epsilon reaches Q_min plus the bound of the noise; s is
the sensitivity of Q. What a pass releases is an (epsilon, delta) mask, and every such mask is post-processing of one
pair of laws on four points (Kairouz, Oh, Viswanath 2015). So the worst delta over all masks and all Q, Q' is a maximum
over finitely many pairs of laws on five points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.populous.graphs import FAMILY, PAPER
from verification.claims.search import over

ROUNDING = 1e-7  # probabilities to a few times 1e-16, relative to a delta of at least 1e-8
Total = Callable[[float, float, float, float], tuple[float, float]]  # test's and mask's epsilon and delta -> the claim
THEOREM = f"{PAPER}, Theorem 2.3"


def _sums(e1: float, d1: float, e2: float, d2: float) -> tuple[float, float]:
    return e1 + e2, d1 + d2


def _larger_delta(e1: float, d1: float, e2: float, d2: float) -> tuple[float, float]:
    return e1 + e2, max(d1, d2)


@claim(
    id="populous-private",
    family=FAMILY,
    source=f"{THEOREM}, privacy",
    statement="an (epsilon, delta) test and mask make the estimator (2 epsilon, 4 e^epsilon delta)-DP, t > 5",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"factor": 4.0, "growth": 1.0},
    contrast={"factor": 1.95, "growth": 0.0},
    otherwise="they make it (2 epsilon, 1.95 delta)-DP",
    constants="(2 epsilon, 2 delta) by basic composition, approached where the test can pass surely; for fewer "
    "subsets the worst is just below delta",
)
def whole_law(effort: Effort, *, factor: float, growth: float) -> Finding:
    """Exact worst delta at 2 epsilon over ``factor`` e^(``growth`` epsilon) delta; test and mask have one budget."""

    def cases() -> Iterator[tuple[float, object]]:
        for t, epsilon, delta in _settings(effort):
            worst, where = worst_delta(t, (epsilon, delta), (epsilon, delta), 2 * epsilon)
            shares[t] = max(shares.get(t, 0.0), worst / delta)
            case = {"t": t, "epsilon": epsilon, "delta": delta, "sums of friend counts": where}
            yield worst / (factor * math.exp(growth * epsilon) * delta), case

    shares: dict[int, float] = {}
    found = over(cases(), tolerance=ROUNDING)
    figures = {f"worst delta at 2 epsilon over delta, t = {t}": share for t, share in shares.items()}
    return found.with_figures(figures)


@claim(
    id="populous-subsets",
    family=FAMILY,
    source=f"{THEOREM}, utility",
    statement="t >= 20 ln(1 + (e^epsilon - 1)/(2 delta))/epsilon: a private test surely passes Q = 1",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"constant": 20.0},
    contrast={"constant": 7.9},
    otherwise="the same with 7.9 in place of 20",
    constants="20 is exact for Q_min = .8; 10 for Q_min = .6; 8 with 2 m >= t + 2, Q_min = m/t",
)
def subsets_needed(effort: Effort, *, constant: float) -> Finding:
    """Least t with which Q = 1 passes surely, over ``constant`` ln(1 + (e^epsilon - 1)/(2 delta))/epsilon.

    The least t is that of a private test: exact sensitivity 2 (t - 1)/t^2, and Q_min = m/t for the least m with
    2 m >= t + 2. The figures add the least t with the printed Q_min = .8 and sensitivity 2/t, and with Q_min = .6.
    """

    def cases() -> Iterator[tuple[float, object]]:
        for epsilon in (0.05, 0.1, 0.2):
            for delta in (1e-3, 1e-6, 1e-9, 1e-12):
                logarithm = math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon
                least = _least_subsets(logarithm, _shared_share, exact=True)
                for name, share, exact in settings:
                    figures[name] = max(figures[name], (_least_subsets(logarithm, share, exact) - 1) / logarithm)
                case = {"epsilon": epsilon, "delta": delta, "least t": least, "bound": constant * logarithm}
                # least - 1 subsets are not enough, and the statement allows every whole number from the bound on
                yield (least - 1) / (constant * logarithm), case

    settings = [
        ("constant with Q_min = .8 and sensitivity 2/t", lambda t: 0.8, False),
        ("constant with Q_min = .6 and sensitivity 2/t", lambda t: 0.6, False),
        ("constant with Q_min = m/t and exact sensitivity", _shared_share, True),
    ]
    figures = {name: 0.0 for name, _, _ in settings}
    found = over(cases())
    return found.with_figures(figures)


@claim(
    id="populous-budgets",
    family=FAMILY,
    source=f"{THEOREM}, with separate budgets",
    statement="test (e1, d1) and mask (e2, d2) make the estimator (e1 + e2, d1 + d2)-DP",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"total": _sums},
    contrast={"total": _larger_delta},
    otherwise="(e1 + e2, max(d1, d2))-DP",
    constants="attained as d1/d2 -> 0 or d2/d1 -> 0",
)
def separate_budgets(effort: Effort, *, total: Total) -> Finding:
    """Exact worst delta of a test with one budget and a mask with another, over the delta of ``total``."""
    epsilons, deltas = (0.1, 1.0, 3.0), (1e-5, 1e-3, 1e-2)

    def cases() -> Iterator[tuple[float, object]]:
        for e1 in epsilons:
            for e2 in epsilons:
                for d1 in deltas:
                    for d2 in deltas:
                        epsilon, delta = total(e1, d1, e2, d2)
                        for t in (20, 60) if not effort.thorough else (6, 20, 60, 120):
                            worst, where = worst_delta(t, (e1, d1), (e2, d2), epsilon)
                            yield worst / delta, {"t": t, "test": (e1, d1), "mask": (e2, d2), "sums": where}

    return over(cases(), tolerance=ROUNDING)


def worst_delta(
    t: int, test: tuple[float, float], mask: tuple[float, float], epsilon: float, q_min: float = 0.8
) -> tuple[float, tuple[int, int]]:
    """(smallest delta at ``epsilon``, the two sums t^2 Q and t^2 Q') over all neighbouring Q, Q' and all masks."""
    sums = np.arange(t, t**2 + 1, 2)  # every fit is its own friend, and friends come in pairs
    passes = passing(sums / t**2, t, *test, q_min)
    worst, where = 0.0, (t, t)
    for step in range(t):  # a fit gains or loses up to t - 1 friends
        low, high = passes[: len(passes) - step], passes[step:]
        for first, second, rising in ((low, high, True), (high, low, False)):
            found = _of_five_points(first, second, mask, epsilon)
            i = int(np.argmax(found))
            if found[i] > worst:
                low_sum, high_sum = int(sums[i]), int(sums[i + step])
                worst, where = float(found[i]), (low_sum, high_sum) if rising else (high_sum, low_sum)
    return worst, where


def passing(q: FloatArray, t: int, epsilon: float, delta: float, q_min: float) -> FloatArray:
    """P[Q + noise >= q_min + bound]; the noise is Laplace of scale 2/(t epsilon) conditioned on [-bound, bound]."""
    scale = 2 / (t * epsilon)
    bound = scale * math.log1p(math.expm1(epsilon) / (2 * delta))
    x = np.clip(q_min + bound - q, -bound, bound)
    # mass of [|x|, bound]; the factor in front keeps the difference exact near the bound
    upper = np.exp(-bound / scale) * np.expm1((bound - np.abs(x)) / scale) / (-2 * np.expm1(-bound / scale))
    return np.where(x >= 0, upper, 1 - upper)


def _settings(effort: Effort) -> Iterator[tuple[int, float, float]]:
    yield 200, 1.0, 1e-3  # so many that Q = 1 passes surely
    if effort.thorough:
        yield 400, math.log(2) / 3, 1e-3
    for t in (6, 20, 50, 100) if not effort.thorough else (6, 7, 10, 20, 50, 100, 200):
        for epsilon in (0.05, 0.1, math.log(2) / 3):
            for delta in (1e-8, 1e-5, 1e-3):
                yield t, epsilon, delta


def _of_five_points(p: FloatArray, q: FloatArray, mask: tuple[float, float], epsilon: float) -> FloatArray:
    """Hockey-stick divergence of fail or pass (probability ``p`` against ``q``) with the worst mask after a pass.

    The mask's pair: mass delta where only the first law is, delta where only the second is, and a ratio of e^epsilon
    and its inverse on two points between.
    """
    e2, d2 = mask
    grown = math.exp(epsilon)
    likely, unlikely = (1 - d2) / (1 + math.exp(-e2)), (1 - d2) / (1 + math.exp(e2))
    fails = np.maximum(0.0, (1 - p) - grown * (1 - q))
    close = np.maximum(0.0, p * likely - grown * q * unlikely) + np.maximum(0.0, p * unlikely - grown * q * likely)
    return np.asarray(fails + np.where(q > 0, p * d2 + close, p))  # q = 0: Q' < Q_min, and the masks may be far apart


def _least_subsets(logarithm: float, share: Callable[[int], float], exact: bool) -> int:
    """The least t from which on Q = 1 passes surely: 1 - bound >= share + bound at t and at the next 3."""
    t = 2
    while not all(_passes(logarithm, n, share(n), exact) for n in range(t, t + 4)):
        t += 1
    return t


def _passes(logarithm: float, t: int, share: float, exact: bool) -> bool:
    sensitivity = 2 * (t - 1) / t**2 if exact else 2 / t
    return 2 * sensitivity * logarithm <= (1 - share) * (1 + 1e-12)


def _shared_share(t: int) -> float:
    return (t + 3) // 2 / t
