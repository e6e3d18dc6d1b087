"""Utility of the Private Populous Estimator, and its use for mixtures: Arbas, Ashtiani, Liaw (2023), Theorems 2.3, 6.2.

An (r, epsilon, delta) mask is (epsilon, delta)-indistinguishable on any two inputs at distance at most r; it is
(a, beta)-concentrated when its output is farther than a from the input with probability at most beta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import optimize, sparse, special

from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict, claim
from verification.claims.common import distances as by_definition
from verification.claims.populous.budget import passing
from verification.claims.populous.graphs import FAMILY, PAPER
from verification.claims.search import over
from verification.references.references import gaussian_delta, gaussian_epsilon

LARGEST_EPSILON = math.log(2) / 3  # of the mask, in the paper
ETA = 0.1 / math.sqrt(3 * (1 + math.log(10)))  # mean mask at alpha = beta = .1, one feature
GAMMA = 0.2 * 0.1 / (24 * math.log(2e5) * math.sqrt(1 + math.log(10)))  # its radius at (.2, 1e-5): Lemma F.2
THEOREM = f"{PAPER}, Theorem 2.3; Arbas (2023), Theorem 4.3.1"


@claim(
    id="populous-utility",
    family=FAMILY,
    source=f"{THEOREM}, utility",
    statement="some (r, ln(2)/3, delta) mask of points r apart is (alpha/(2 z), .44)-concentrated, alpha <= r/(2 z)",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.FALSE,
    printed={"radius": 0.25, "beta": 0.44},
    contrast={"radius": 0.25, "beta": 0.89},
    otherwise="some (r, ln(2)/3, delta) mask is (alpha/(2 z), .89)-concentrated",
    constants="beta >= (1 - delta)/(1 + e^epsilon): the balls of two points are disjoint; .885 on a long line; "
    "beta = .1 needs balls of about 11 r",
)
def concentrated_masks(effort: Effort, *, radius: float, beta: float) -> Finding:
    """Smallest beta of any r-mask concentrated within ``radius`` r, over ``beta``; linear programme, r = 1."""

    def cases() -> Iterator[tuple[float, object]]:
        epsilon = LARGEST_EPSILON  # the easiest one that the paper allows
        for delta in (1e-6, 1e-3):
            bound = (1 - delta) / (1 + math.exp(epsilon))
            figures[f"(1 - delta)/(1 + e^epsilon), delta = {delta:g}"] = bound
            for n in (2, 28) if not effort.thorough else (2, 3, 28, 40):
                least = smallest_beta(n, epsilon, delta, radius)
                figures[f"smallest beta, {n} points, delta = {delta:g}"] = least
                yield least / beta, {"points": n, "epsilon": epsilon, "delta": delta, "smallest beta": least}

    figures: dict[str, float] = {}
    found = over(cases(), tolerance=1e-6)  # of the linear programme
    return found.with_figures(figures)


@claim(
    id="populous-utility-corrected",
    family=FAMILY,
    source=f"{THEOREM}, corrected",
    statement="all fits within r/(4 z^2) of Y*: surely passes, output within z (a_B + r/(4 z^2)) w.p. 1 - beta",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"accuracy": 1.0},
    contrast={"accuracy": 1.03},
    otherwise="the same for fits within 1.03 r/(4 z^2) of Y*",
    constants="the mask is (a_B, beta)-concentrated, a_B apart from r; both bounds attained",
)
def corrected_utility(effort: Effort, *, accuracy: float) -> Finding:
    """Fits within ``accuracy`` r/(4 z^2) of Y*: distance over r/(2 z), output over z (a_B + r/(4 z^2)), sure pass.

    Finite semimetrics with ties; z is the constant of the space itself, and every point within a_B may be the output.
    """

    def cases() -> Iterator[tuple[float, object]]:
        for _ in range(effort.of(150, 1500)):
            n = int(effort.rng.integers(3, 7))
            space = np.triu(effort.rng.integers(1, 7, (n, n)).astype(float), 1)
            space += space.T
            corners = itertools.permutations(range(n), 3)
            z = max(1.0, max(space[a, c] / (space[a, b] + space[b, c]) for a, b, c in corners))
            for truth, reach in itertools.product(range(n), np.unique(space)[1:]):
                fits = np.flatnonzero(space[truth] <= reach)
                r = reach * 4 * z**2 / accuracy
                case = {"space": space, "Y*": truth, "r": r, "z": z, "fits": fits}
                yield space[np.ix_(fits, fits)].max() / (r / (2 * z)), case
                for j, output in itertools.product(fits, range(n)):
                    limit = z * (space[j, output] + r / (4 * z**2))
                    yield space[output, truth] / limit, case | {"chosen": j, "output": output}
        for epsilon, delta in itertools.product((0.01, 0.1, LARGEST_EPSILON), (1e-3, 1e-9)):
            t = math.ceil(20 * math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon)
            sure = float(passing(np.array([1.0]), t, epsilon, delta, 0.8)[0])
            yield (0.0 if sure >= 1 - 1e-12 else math.inf), {"t": t, "P[pass]": sure}

    return over(cases(), tolerance=1e-12)


@claim(
    id="reduction-radius",
    family=FAMILY,
    source=f"{PAPER}, proof of Theorem 6.2, r = 1",
    statement="with r = 1 and the mask of a much smaller radius gamma the estimator is (.4, 4.9e-5)-DP",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"r": 1.0},
    contrast={"r": 0.006},
    otherwise="with r = .006 it is for learners that only move the mean; r = gamma, the radius of the mask, serves all",
    constants="exact epsilon 308.8 at delta = 1e-5 for means 2/3 apart; gamma is 3.8e-5; the thesis never names r",
)
def radius(effort: Effort, *, r: float) -> Finding:
    """Exact epsilon of the estimator on one-record blocks over the claimed .4; friends within r/3, mask of sd ``ETA``.

    The learner returns N(x, 1) for the record x. Searched: the changed record before and after, and the place of all
    others, such that every two fits are friends in both data sets and the test passes surely.
    """
    epsilon, delta = 0.2, 1e-5
    t = math.ceil(20 * math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon)
    claimed = 2 * epsilon, 4 * math.exp(epsilon) * delta

    def cases() -> Iterator[tuple[float, object]]:
        sure = float(passing(np.array([1.0]), t, epsilon, delta, 0.8)[0])
        grid = np.linspace(-0.5, 0.5, effort.of(31, 121)) * r
        before, after, others = np.meshgrid(grid, grid, grid[:: max(1, len(grid) // 6)], indexing="ij")
        friends = np.maximum(abs(before - others), abs(after - others)) <= r / 3
        moved = np.where(friends & (sure > 1 - 1e-12), abs(before - after), 0.0).ravel()
        kinds = [i for i in np.unique(moved, return_index=True)[1] if moved[i] > 0]
        exact = gaussian_epsilon(claimed[1], noise_multiplier=ETA / moved[kinds])
        for i, found in zip(kinds, exact, strict=True):
            case = {"before": before.ravel()[i], "after": after.ravel()[i], "others": others.ravel()[i]}
            yield float(found) / claimed[0], case | {"t": t, "exact epsilon": found}

    largest = optimize.brentq(lambda s: gaussian_delta(claimed[0], noise_multiplier=ETA / s) - claimed[1], 1e-6, 1.0)
    figures = {
        "subsets": float(t),
        "noise of the mean": ETA,
        "radius of the mask": GAMMA,
        "exact epsilon at delta = 1e-5, shift 2 r/3": float(
            gaussian_epsilon(delta, noise_multiplier=ETA / (2 * r / 3))
        ),
        "largest r with this noise of the mean": 1.5 * largest,
    }
    found = over(cases())
    return found.with_figures(figures)


@claim(
    id="reduction-accuracy",
    family=FAMILY,
    source=f"{PAPER}, Theorem 6.2",
    statement="learners within min(1/600, gamma/(800 z^2)) in TV and weights, z = 3/2, make all fits friends",
    kind=Kind.SEARCH,
    verdict=Verdict.SLACK,
    printed={"share": lambda gamma: min(1 / 600, gamma / 1800)},
    contrast={"share": lambda gamma: gamma / 28},
    otherwise="learners within gamma/28 do, for every gamma <= 1",
    constants="gamma/28.7 for gamma <= 1, 24.8 at 0; 39.2 (z = 1: 18.5) for gamma/(4 z^2) to the truth",
)
def learner_accuracy(effort: Effort, *, share: Callable[[float], float]) -> Finding:
    """Distance of two fits, each at TV and weight distance ``share(gamma)`` of the truth, over gamma/(2 z), z = 3/2.

    One component; d equal variances, or one feature with mean and variance in every direction. Exact TV.
    """
    z = 1.5

    def cases() -> Iterator[tuple[float, object]]:
        for gamma in (1e-4, 1e-2, 0.1, 1.0):
            tv, friends = share(gamma), gamma / (2 * z)
            yield 2 * tv / friends, f"gamma = {gamma:g}: weights at {tv:.3g} on both sides"
            for d in (1, 2, 3, 10):
                up, down = (_variance_at(tv, d, sign) for sign in (1, -1))
                far = by_definition.dist_cov(up * np.eye(d), down * np.eye(d))
                yield far / friends, f"gamma = {gamma:g}, d = {d}: variances {down:.8g} and {up:.8g} around 1"
            edge = [_at(tv, angle) for angle in np.linspace(0, 2 * np.pi, effort.of(16, 64), endpoint=False)]
            for (m1, v1), (m2, v2) in itertools.combinations(edge, 2):
                far = by_definition.dist_comp((np.array([m1]), np.array([[v1]])), (np.array([m2]), np.array([[v2]])))
                yield far / friends, f"gamma = {gamma:g}: N({m1:.6g}, {v1:.6g}) and N({m2:.6g}, {v2:.6g})"

    def needed(gamma: float, constant: float) -> float:
        """gamma over the TV distance of variances 1 and 1/(1 + gamma/(4 constant^2)), which are gamma/(4 z^2) apart."""
        return gamma / _tv_of_variances(1 / (1 + gamma / (4 * constant**2)), 1)

    figures = {
        f"gamma over the TV distance at gamma/(4 z^2), gamma = {gamma:g}, z = {constant:g}": needed(gamma, constant)
        for gamma, constant in itertools.product((1e-3, 1.0), (1.5, 1.0))
    }
    for gamma in (1e-3, 1.0):
        largest = optimize.brentq(lambda tv, g=gamma: _apart(tv) - g / (2 * z), 1e-8, 0.2, xtol=1e-14)
        figures[f"gamma over the largest TV distance with all fits friends, gamma = {gamma:g}"] = gamma / largest
    found = over(cases(), tolerance=1e-9)  # root finding, at tv >= 5e-8
    return found.with_figures(figures)


def smallest_beta(n: int, epsilon: float, delta: float, reach: float) -> float:
    """Least beta over random maps of {0..n-1} to itself, private between neighbours, within ``reach`` w.p. 1 - beta.

    Variables: the map (n, n), the excess of each ordered pair of neighbours (n), and beta.
    """
    pairs = [(x, x + s) for x in range(n) for s in (1, -1) if 0 <= x + s < n]
    n_cells, grown = n * n, math.exp(epsilon)
    rows = sparse.lil_matrix((len(pairs) * n + len(pairs) + n, n_cells + len(pairs) * n + 1))
    limits = np.zeros(rows.shape[0])
    for p, (x, other) in enumerate(pairs):
        for y in range(n):
            row = p * n + y
            rows[row, x * n + y], rows[row, other * n + y], rows[row, n_cells + row] = 1.0, -grown, -1.0
        rows[len(pairs) * n + p, n_cells + p * n : n_cells + (p + 1) * n] = 1.0
        limits[len(pairs) * n + p] = delta
    for x in range(n):
        row = len(pairs) * (n + 1) + x
        for y in range(n):
            if abs(y - x) > reach:
                rows[row, x * n + y] = 1.0
        rows[row, -1] = -1.0
    whole = sparse.lil_matrix((n, rows.shape[1]))
    for x in range(n):
        whole[x, x * n : (x + 1) * n] = 1.0
    cost = np.zeros(rows.shape[1])
    cost[-1] = 1.0
    solved = optimize.linprog(cost, rows.tocsr(), limits, whole.tocsr(), np.ones(n), method="highs")
    return float(solved.fun)


REDUCTION_LEARNER = Claim(
    id="reduction-learner",
    family=FAMILY,
    source=f"{PAPER}, 6.4 to 6.6",
    statement="the learner of Moitra and Valiant makes the estimator polynomial in time and sample size",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="an order without constants, about an algorithm of another paper that is used as a black box",
)


def _tv_of_variances(variance: float, d: int) -> float:
    """TV distance of N(0, I) and N(0, variance I) in d dimensions: the densities cross on one sphere."""
    if variance == 1:
        return 0.0
    squared = d * variance * math.log(variance) / (variance - 1)
    return abs(float(special.gammainc(d / 2, squared / 2) - special.gammainc(d / 2, squared / variance / 2)))


def _apart(tv: float) -> float:
    """dist_COV of the two variances at this TV distance of 1, below and above."""
    up, down = (np.array([[_variance_at(tv, 1, sign)]]) for sign in (1, -1))
    return by_definition.dist_cov(up, down)


def _variance_at(tv: float, d: int, sign: int) -> float:
    log = optimize.brentq(lambda x: _tv_of_variances(math.exp(sign * x), d) - tv, 1e-10, 5.0, xtol=1e-16)
    return math.exp(sign * log)


def _tv(mean: float, variance: float) -> float:
    """TV distance of N(0, 1) and N(mean, variance), whose densities cross at the roots of a quadratic."""
    a, b, c = (1 - 1 / variance) / 2, mean / variance, -(mean**2 / variance + math.log(variance)) / 2
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    lead = -(b + math.copysign(root, b)) / 2
    ends = sorted(_crossing(n, m) for n, m in ((lead, a), (c, lead)))
    centred = [(end - mean) / math.sqrt(variance) for end in ends]
    return abs(
        float(special.ndtr(ends[1]) - special.ndtr(ends[0]) - special.ndtr(centred[1]) + special.ndtr(centred[0]))
    )


def _crossing(numerator: float, denominator: float) -> float:
    """A crossing point; infinite where the quadratic is linear."""
    return numerator / denominator if abs(denominator) > 1e-300 else math.copysign(math.inf, numerator)


def _at(tv: float, angle: float) -> tuple[float, float]:
    """Mean and variance in direction ``angle`` (log variance upwards) at this TV distance of N(0, 1)."""
    m, v = math.cos(angle), math.sin(angle)
    scale = optimize.brentq(lambda s: _tv(s * m, math.exp(s * v)) - tv, 1e-9, 5.0, xtol=1e-16)
    return scale * m, math.exp(scale * v)
