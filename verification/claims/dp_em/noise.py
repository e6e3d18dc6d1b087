"""The noise of DP-EM: scales that depend on the true count, and noise that is never negative.

Source: Park, Foulds, Chaudhuri, Welling (2017). Each check searches neighbouring data sets for the largest privacy
loss of the mechanism over the eps' it is said to have; infinite where one output belongs to one neighbour only or the
loss has no bound. The exact deltas go into the figures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import integrate, stats

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.losses import FloatArray, Laplace, laplace_delta, laplace_loss
from verification.claims.search import maximised, over, quotient, shown

FAMILY = "dp-em"
PAPER = "Park, Foulds, Chaudhuri, Welling (2017)"
EPSILON = 1.0  # eps' of the release
ROUNDING = 1e-12
COARSE_ERROR = 1e-3  # of the quadrature over the cone with 60 nodes each way; doubling them moves it by 1e-4 at most


@claim(
    id="mean-true-count",
    family=FAMILY,
    source=f"{PAPER}, equations 12 and 15",
    statement="the mean of a cluster plus Laplace(2/(eps' N_k)) noise, N_k its true count, is eps'-DP (d = 1)",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"released": False},
    contrast={"released": True},
    otherwise="with one released count in the mean and in the scale it is",
    constants="no finite epsilon; delta at eps' = 1 is .142, .0754, .0335, .0090 for 1, 2, 5, 20 other records",
)
def counted_mean(effort: Effort, *, released: bool) -> Finding:
    """Mean of a cluster plus Laplace(2/(eps' c)), c the true count, or with ``released`` one count for both neighbours.

    m records at a and one at b, which moves to b' or leaves; a, b, b' on a grid of [-1, 1]. The figures are the
    largest delta at eps' for each m.
    """
    grid = np.linspace(-1, 1, effort.of(5, 9))
    deltas: dict[str, float] = {}

    def law(m: int, a: float, last: tuple[float, ...]) -> Laplace:
        count = m + 1 if released else m + len(last)
        return (m * a + sum(last)) / count, 2 / (EPSILON * count)

    def cases() -> Iterator[tuple[float, object]]:
        for m, a, b in itertools.product((1, 2, 5, 20), grid, grid):
            for last in [(), *((x,) for x in grid)]:
                first, second = law(m, a, (b,)), law(m, a, last)
                delta = max(laplace_delta(first, second, EPSILON), laplace_delta(second, first, EPSILON))
                name = f"delta at eps' = 1, m = {m}"
                deltas[name] = max(deltas.get(name, 0.0), delta)
                where = {"m": m, "a": a, "b": b, "b'": last[0] if last else "gone"}
                yield laplace_loss(first, second) / EPSILON, where

    return over(cases(), tolerance=ROUNDING, figures=deltas)


@claim(
    id="mean-mixed-count",
    family=FAMILY,
    source=f"{PAPER}, release of the means",
    statement="the mean over the true count with scale 2/(eps' c), c the noisy count, is eps'-DP given c",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"one_count": False},
    contrast={"one_count": True},
    otherwise="the sum over c with that scale is eps'-DP given c",
    constants="loss c eps' / N_k; at eps' = 1 the pair has delta .25 at 1, .152 at 2, .034 at 5",
)
def mixed_mean(effort: Effort, *, one_count: bool) -> Finding:
    """Loss of the mean given the noisy count c, scale 2/(eps' c), c at least 1: sum over true count, or over c.

    The figures are deltas of the pair (noisy count, mean), one record that turns from 1 to -1, by quadrature over c
    with error 1e-8; the count has noise Laplace(2/eps').
    """
    counts = np.concatenate([np.linspace(1, 30, effort.of(30, 300)), np.geomspace(30, 1000, 20)])

    def law(records: tuple[float, ...], c: float) -> Laplace:
        return sum(records) / (c if one_count else len(records)), 2 / (EPSILON * c)

    def cases() -> Iterator[tuple[float, object]]:
        for n, rest, x in itertools.product((1, 2, 5), (-1.0, 0.0, 1.0), (1.0, 0.3)):
            first = (x,) + (rest,) * (n - 1)
            for last in [(-1.0,), (0.0,), (0.5,)] + ([()] if n > 1 else []):
                second = last + (rest,) * (n - 1)
                for c in counts:
                    where = {"c": c, "records": first, "others": second}
                    yield laplace_loss(law(first, c), law(second, c)) / EPSILON, where

    def excess(c: float, epsilon: float) -> float:
        inside = max(c, 1.0)
        delta = laplace_delta(law((1.0,), inside), law((-1.0,), inside), epsilon)
        return EPSILON / 4 * math.exp(-abs(c - 1) * EPSILON / 2) * delta

    figures = {}
    for epsilon in (1.0, 2.0, 5.0):
        pieces = itertools.pairwise((-80.0, 1.0, epsilon + 1e-9, 20.0, 80.0))
        total = sum(integrate.quad(excess, a, b, args=(epsilon,), epsabs=1e-10)[0] for a, b in pieces)
        figures[f"delta of the pair at {epsilon:g}"] = total
    return over(cases(), tolerance=ROUNDING, figures=figures)


@claim(
    id="gamma-variance",
    family=FAMILY,
    source=f"{PAPER}, Gamma noise for isotropic covariances",
    statement="the variance sum of gamma |x|^2 / (d c) plus Gamma(1, rate eps' d c) noise is eps'-DP",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"one_sided": True},
    contrast={"one_sided": False},
    otherwise="with Laplace noise of the same scale it is",
    constants="exact delta 1 - exp(-eps') at every epsilon: the supports of the outputs differ",
)
def variance_noise(effort: Effort, *, one_sided: bool) -> Finding:
    """Second moment over d plus Gamma(1) noise of rate eps' d c, or Laplace noise of that scale; c released.

    A record x of the unit ball becomes y, d <= 3. Infinite where the hockey stick at eps', by quadrature of both
    densities, is above 0 by more than the error of the quadrature; otherwise 0. The figures compare that of Gamma noise
    with 1 - exp(-eps') and, in the other direction, with max(0, 1 - exp(eps - eps')); eps from 0 to 50.
    """

    def cases() -> Iterator[tuple[float, object]]:
        for _ in range(effort.of(100, 1500)):
            d, c = int(effort.rng.integers(1, 4)), float(effort.rng.uniform(0.5, 20))
            x, y = (
                part / np.linalg.norm(part) * effort.rng.choice([0, 0.3, 1]) for part in effort.rng.normal(size=(2, d))
            )
            scale = 1 / (EPSILON * d * c)
            a, b = float(x @ x) / (d * c) / scale, float(y @ y) / (d * c) / scale
            delta = max(_exponential_delta(*order, EPSILON, one_sided=one_sided) for order in ((a, b), (b, a)))
            loss = quotient(max(0.0, delta - 1e-9), 0.0)  # 1e-9: certified error of the quadrature
            yield loss, {"c": c, "x": x, "y": y, "delta at eps'": delta}

    figures = {}
    for shift in (1.0, 0.1) if one_sided else ():
        ways = [
            (_exponential_delta(0.0, shift, e), _exponential_delta(shift, 0.0, e), e)
            for e in (0.0, 0.05, 0.5, 2.0, 50.0)
        ]
        figures[f"delta at epsilon = 50, eps' = {shift:g}"] = ways[-1][0]
        figures[f"largest deviation from the formulas, eps' = {shift:g}"] = max(
            max(abs(down + math.expm1(-shift)), abs(up - max(0.0, -math.expm1(min(0.0, e - shift)))))
            for down, up, e in ways
        )
    return over(cases(), tolerance=ROUNDING, figures=figures)


@claim(
    id="wishart-covariance",
    family=FAMILY,
    source=f"{PAPER}, Wishart noise for covariances",
    statement="second moments plus Wishart noise (d + 1 degrees of freedom, scale 1/(2 eps' c)) are eps'-DP",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"allowed": 0.0},
    contrast={"allowed": -math.expm1(-EPSILON)},
    otherwise="an output is impossible for the neighbour with probability at most 1 - exp(-eps')",
    constants="exact delta 1 - exp(-eps') at every epsilon and d, attained by a unit vector against 0",
)
def cone_noise(effort: Effort, *, allowed: float) -> Finding:
    """P(an output is impossible for the neighbour) over ``allowed``: second moments plus Wishart noise, d = 2, c = 1.

    The noise has d + 1 degrees of freedom and scale 1/(2 eps' c). Pairs x, y of the unit disc. The release is private
    at no epsilon as soon as P(W >= x x' - y y') < 1, by quadrature over the cone of positive semidefinite matrices;
    where both laws live their ratio is constant.
    """
    found = _searched_records(lambda change: 1 - cone_probability(change, EPSILON, nodes=60), effort, 0.0)
    largest = quotient(max(0.0, found.largest - COARSE_ERROR), allowed)
    return Finding(largest, found.where, found.n_cases, 0.0, _wishart_figures(effort, found.largest))


@claim(
    id="wishart-covariance-corrected",
    family=FAMILY,
    source=f"{PAPER}, noise for covariances, corrected",
    statement="second moments plus Laplace noise of scale sqrt(5)/(eps' c) on the upper triangle are eps'-DP, d = 2",
    kind=Kind.SEARCH,
    verdict=Verdict.HOLDS,
    printed={"scale": math.sqrt(5)},
    contrast={"scale": 2.2},
    otherwise="so they are with scale 2.2/(eps' c)",
    constants="attained: the upper triangle moves by sqrt(5) in L1",
)
def triangle_noise(effort: Effort, *, scale: float) -> Finding:
    """Loss over eps' of second moments with Laplace noise of ``scale``/(eps' c) on the upper triangle; d = 2, c = 1."""

    def loss(change: FloatArray) -> float:
        width = scale / EPSILON
        return sum(laplace_loss((0.0, width), (float(c), width)) for c in change[np.triu_indices(2)]) / EPSILON

    return _searched_records(loss, effort, ROUNDING)


def cone_probability(change: FloatArray, epsilon: float, nodes: int = 200) -> float:
    """P(W >= change) in the order of matrices, W the 2 x 2 Wishart noise with c = 1.

    W = [[t + y, z], [z, t - y]] has density proportional to exp(-2 epsilon t) on t >= |(y, z)|, and W >= change iff
    also t - tau >= |(y, z) - v|; the integral over t is elementary, that over (y, z) is done in polar coordinates.
    """
    tau = float(np.trace(change)) / 2
    length = math.hypot(float(change[0, 0] - change[1, 1]) / 2, float(change[0, 1]))
    rate = 2 * epsilon
    cosines = np.cos((np.arange(nodes) + 0.5) * math.pi / nodes)  # of the angle to v; the lower half plane mirrors it
    farthest = length + abs(tau) + 40 / rate
    with np.errstate(divide="ignore"):  # beyond ``split`` the first cone is the narrower one
        split = np.where(length * cosines > tau, (length**2 - tau**2) / (2 * (length * cosines - tau)), farthest)
    split = np.clip(split, 0.0, farthest)
    if tau < -length:
        return 1.0
    x, w = np.polynomial.legendre.leggauss(nodes)
    radii = split[:, None] * (x + 1) / 2
    gap = np.sqrt(np.maximum(0.0, radii**2 - 2 * radii * length * cosines[:, None] + length**2))
    inner = (np.exp(-rate * (tau + gap)) * radii) @ w * split / 2
    outer = np.exp(-rate * split) * (split / rate + 1 / rate**2)
    return min(1.0, float((inner + outer).mean() * rate**2))


def _exponential_delta(start: float, other: float, epsilon: float, *, one_sided: bool = True) -> float:
    """Hockey stick of exp(start - x) on x >= start over the same from ``other``, by quadrature of the densities.

    Not ``one_sided``: of exp(-|x - start|) / 2.
    """

    def density(x: float, centre: float) -> float:
        if one_sided:
            return math.exp(centre - x) if x >= centre else 0.0
        return math.exp(-abs(x - centre)) / 2

    def excess(x: float) -> float:
        return max(0.0, density(x, start) - math.exp(epsilon) * density(x, other))

    low, high = min(start, other), max(start, other)
    cuts = sorted({low if one_sided else low - 40.0, low, high, high + 40.0})
    pieces = [(a, b) for a, b in itertools.pairwise(cuts) if b - a > ROUNDING]  # no more mass in the others
    return sum(float(integrate.quad(excess, a, b, epsabs=1e-12)[0]) for a, b in pieces)


def _searched_records(value: Callable[[FloatArray], float], effort: Effort, tolerance: float) -> Finding:
    """Largest ``value`` of x x' - y y' over pairs of the unit disc."""

    def records(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = (part / max(1.0, float(np.linalg.norm(part))) for part in (x[:2], x[2:]))
        return first, second

    def ratio(x: FloatArray) -> float:
        first, second = records(x)
        return value(np.outer(first, first) - np.outer(second, second))

    starts = effort.rng.normal(size=(effort.of(40, 400), 4))
    return maximised(
        ratio,
        starts,
        steps=200,
        tolerance=tolerance,
        shown_as=lambda x: "x, y = {}, {}".format(*map(shown, records(x))),
    )


def _wishart_figures(effort: Effort, largest: float) -> dict[str, float]:
    """Deltas for a unit vector against 0 in d = 1, 2, 3, and against an orthogonal one; d = 3 by simulation."""
    figures = {"largest found, eps' = 1": largest}
    for epsilon in (0.1, 1.0):
        unit, turned = np.diag([1.0, 0.0]), np.diag([1.0, -1.0])
        n = effort.of(40_000, 400_000)
        factors = effort.rng.standard_normal((n, 3, 4)) / math.sqrt(2 * epsilon)
        inverse = np.linalg.inv(factors @ np.swapaxes(factors, 1, 2))
        outside = float(np.mean(inverse[:, 0, 0] > 1))  # W >= u u' iff u' W^-1 u <= 1
        figures |= {
            f"1 - exp(-eps'), eps' = {epsilon:g}": -math.expm1(-epsilon),
            f"d = 1, eps' = {epsilon:g}": float(stats.chi2.cdf(2 * epsilon, 2)),
            f"d = 2, eps' = {epsilon:g}": 1 - cone_probability(unit, epsilon, nodes=400),
            f"d = 3, eps' = {epsilon:g}, simulated": outside,
            f"standard error of that, eps' = {epsilon:g}": math.sqrt(outside * (1 - outside) / n),
            f"orthogonal records, eps' = {epsilon:g}": 1 - cone_probability(turned, epsilon, nodes=400),
        }
    return figures
