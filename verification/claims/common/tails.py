"""Tails of chi-squared laws and of log-likelihood ratios, and a bound of the exponential.

Source: Arbas, Ashtiani, Liaw (2023), appendix A; Arbas (2023), chapter 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from verification.claims.claim import Claim, Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import Component, FloatArray
from verification.claims.common.gaussians import FAMILY, PAPER, kl_of_gaussians, rotation
from verification.claims.search import maximised, over, shown, worst

LONGEST = 600.0  # tails down to e^-600, above the smallest number of double precision


@claim(
    id="chi-squared-tail",
    family=FAMILY,
    source=f"{PAPER}, A.5",
    statement="P(chi2_k >= k + 2 sqrt(k t) + 2 t) <= e^-t",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"root": 2.0},
    contrast={"root": 1.9},
    otherwise="the same with 1.9 sqrt(k t)",
    constants="e^-t / 2 is enough on k to 10^6, t to 600; P e^t is .494 at k = 1000, t = 0 and nears 1/2 as k "
    "grows; neither 2 can be 1.9",
)
def chi_squared_tail(effort: Effort, *, root: float) -> Finding:
    """P(chi2_k >= k + ``root`` sqrt(k t) + 2 t) e^t from scipy's incomplete gamma function; k to 10^6, t to 600.

    The figures hold the value at k = 1000 and t = 0, and the largest one with 1.9 t in place of 2 t.
    """
    k = np.unique(np.round(np.geomspace(1, 1e6, effort.of(80, 400))))[:, None]
    t = np.concatenate([np.linspace(0, 5, effort.of(60, 300)), np.geomspace(5, LONGEST, effort.of(60, 300))])[None, :]

    def largest(linear: float) -> tuple[float, str]:
        with np.errstate(divide="ignore"):
            log_share = stats.chi2.logsf(k + root * np.sqrt(k * t) + linear * t, k) + t
        i, j = np.unravel_index(int(np.argmax(log_share)), log_share.shape)
        return float(np.exp(log_share[i, j])), f"k = {k[i, 0]:.0f}, t = {t[0, j]:.6g}"

    figures = {"k = 1000, t = 0": float(stats.chi2.sf(1000, 1000)), "largest with 1.9 t": largest(1.9)[0]}
    found, where = largest(2.0)
    return Finding(found, where, k.size * t.size, 1e-9, figures)  # relative error of scipy's tails, against mpmath


@claim(
    id="log-ratio-tail",
    family=FAMILY,
    source=f"{PAPER}, A.6",
    statement="with probability 1 - delta, ln(p1/p2) of N1 is at most KL + 2 F sqrt(L) + 2 op L + "
    "||A|| maha sqrt(2 L), L = ln(2/delta)",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"root": 2.0, "linear": 2.0, "mean": 1.0},
    contrast={"root": 0.98, "linear": 0.98, "mean": 1.0},
    otherwise="the same with .98 in place of both factors 2",
    constants="both factors 2 can be 1; .98 F, .9 op and .98 ||A|| are too little; the largest tail over delta "
    "is .1195, Phi(-sqrt(2 ln 2)), at equal covariances as delta nears 1",
)
def log_ratio_tail(effort: Effort, *, root: float, linear: float, mean: float) -> Finding:
    """P(ln p1/p2 >= KL + root F sqrt(L) + linear op L + mean ||A|| maha sqrt(2 L)) over delta, L = ln(2 / delta).

    With A = S1^1/2 S2^-1 S1^1/2 of eigenvalues a, and whitened means c, ln p1/p2 - KL is the sum over columns of
    (a - 1) (g^2 - 1) / 2 + a c g, g standard normal. One column: normal tails between the roots. Equal columns:
    chi-squared tails. Up to six unequal ones: the inversion integral of the moment generating function.
    """
    found = _log_ratio_search(effort, root, linear, mean)
    others = {
        "largest with 1 for both factors 2": (1.0, 1.0, 1.0),
        "largest with F sqrt(L) + .9 op L": (1.0, 0.9, 1.0),
        "largest with .98 ||A||": (2.0, 2.0, 0.98),
    }
    figures = {name: _log_ratio_search(effort, *factors, mixed=False).largest for name, factors in others.items()}
    return found.with_figures(figures)


@claim(
    id="exponential-bound",
    family=FAMILY,
    source=f"{PAPER}, A.7",
    statement="e^x <= 1 + 2x for 0 < x < ln 2",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"least": 0.0, "most": math.log(2)},
    contrast={"least": 0.0, "most": 1.26},
    otherwise="e^x <= 1 + 2x for 0 < x < 1.26",
    constants="true exactly on [0, 1.256431]",
)
@claim(
    id="exponential-bound-thesis",
    family=FAMILY,
    source="Arbas (2023), 2.3.7",
    statement="e^x <= 1 + 2x for x < ln 2",
    kind=Kind.EXACT,
    verdict=Verdict.FALSE,
    printed={"least": -2.0, "most": math.log(2)},
    contrast={"least": 0.0, "most": math.log(2)},
    otherwise="e^x <= 1 + 2x for 0 < x < ln 2",
    constants="false for every x < 0",
)
def exponential_bound(effort: Effort, *, least: float, most: float) -> Finding:
    """e^x <= 1 + 2x on a grid of (least, most): (e^x - 1) / 2x for x > 0, its inverse for x < 0, as signs change there.

    The figures hold the end of the true domain, where e^x = 1 + 2x, and the smallest value for x < 0.
    """
    x = np.linspace(least, most, effort.of(10_001, 200_001))
    x = np.concatenate([x[x != 0], [y for y in (-1e-6, 1e-6) if least <= y <= most]])
    share = np.expm1(x) / (2 * x)
    share[x < 0] = 1 / share[x < 0]
    end = optimize.brentq(lambda y: math.expm1(y) - 2 * y, 1, 2, xtol=1e-14)
    figures = {"end of the domain": end}
    if least < 0:
        figures["smallest for x < 0"] = float(share[x < 0].min())
    i = int(np.argmax(share))
    return Finding(float(share[i]), f"x = {x[i]:.6g}", len(x), 1e-12, figures)


def log_tail_of_columns(change: FloatArray, slope: FloatArray, level: float) -> float:
    """ln P(sum of change (g^2 - 1) / 2 + slope g >= level), level > 0, on the line through the saddle point.

    Relative error of a few 1e-3 for two columns, 1e-6 for more, against chi-squared laws.
    """
    poles = change[change > 0]
    end = 1 / poles.max() if len(poles) else math.inf
    if not len(poles) and level >= float(np.sum(-change / 2 + np.divide(slope**2, -2 * change))):
        return -math.inf  # a sum that is bounded above

    def exponent(s: Any) -> Any:
        rest = 1 - np.multiply.outer(s, change)
        terms = -np.log(rest) - np.multiply.outer(s, change) + (np.multiply.outer(s, slope)) ** 2 / rest
        return terms.sum(axis=-1) / 2 - s * level - np.log(s)

    def at(u: float) -> float:  # log s, or its logit towards the pole
        return float(exponent(np.array(end * special.expit(u) if math.isfinite(end) else math.exp(u))))

    u = optimize.minimize_scalar(at, bracket=(-2.0, 2.0), options={"xtol": 1e-6}).x
    saddle = end * special.expit(u) if math.isfinite(end) else math.exp(u)
    step = 1e-3 * min(saddle, end - saddle)  # which the pole may be nearer to
    curvature = float(
        exponent(np.array(saddle + step)) + exponent(np.array(saddle - step)) - 2 * exponent(np.array(saddle))
    )
    width = step / math.sqrt(max(curvature, 1e-12))
    grid = np.linspace(0, 12, 3001)
    values = exponent(saddle + 1j * width * np.sinh(grid))
    top = float(values[0].real)
    integral = np.trapezoid(np.exp(values - top).real * width * np.cosh(grid), grid)
    return top + math.log(max(float(integral), 1e-300) / math.pi)


def columns_of(first: Component, second: Component, point: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(eigenvalues of A, whitened means in its axes); checked against the two densities at ``point``."""
    values, vectors = np.linalg.eigh(first[1])
    half = (vectors * np.sqrt(values)) @ vectors.T
    a, axes = np.linalg.eigh(half @ np.linalg.solve(second[1], half))
    c = axes.T @ np.linalg.solve(half, first[0] - second[0])
    x = first[0] + half @ (axes @ point)
    printed = (stats.multivariate_normal.logpdf(x, *law) for law in (first, second))
    by_columns = kl_of_gaussians(first, second) + float(np.sum((a - 1) * (point**2 - 1) / 2 + a * c * point))
    first_density, second_density = printed
    if abs(first_density - second_density - by_columns) > 1e-6 * (1 + abs(second_density)):
        raise ArithmeticError(f"log ratio {first_density - second_density}, by columns {by_columns}")
    return a, c


SPECTRAL_LOCALITY = Claim(
    id="spectral-locality",
    family=FAMILY,
    source="Arbas (2023), chapter 2",
    statement="the spectral distance of covariances is 1-local",
    kind=Kind.READ,
    verdict=Verdict.NOT_CHECKABLE,
    reason="locality of a distance is nowhere defined there; the approximate triangle inequality beside it is "
    "covariance-spectral-triangle",
)


def _log_ratio_search(effort: Effort, root: float, linear: float, mean: float, *, mixed: bool = True) -> Finding:
    def limit(a: FloatArray, c: FloatArray, log_delta: float) -> float:
        length, change = math.log(2) - log_delta, a - 1
        quadratic = root * float(np.linalg.norm(change)) * math.sqrt(length)
        quadratic += linear * float(np.abs(change).max()) * length
        return quadratic + mean * float(a.max() * np.linalg.norm(c)) * math.sqrt(2 * length)

    def share(log_tail: float, log_delta: float) -> float:
        return math.exp(min(log_tail - log_delta, LONGEST))

    def alone(x: FloatArray) -> float:
        log_a, c, log_delta = x[0], x[1], -abs(x[2])
        if max(abs(log_a), abs(c)) > 15 or -log_delta > LONGEST:
            return math.nan
        a = math.exp(log_a)
        return share(_log_tail_of_one(a, c, limit(np.array([a]), np.array([c]), log_delta)), log_delta)

    def equal() -> Iterator[tuple[float, object]]:
        lengths = np.append(np.geomspace(1e-6, LONGEST, effort.of(12, 60)), 0.0)
        for d, change, log_delta in itertools.product(
            (2, 3, 10, 100, 10**4, 10**6), np.expm1([-4.0, -1, -0.1, 0.1, 1, 4]), -lengths
        ):
            length = math.log(2) - log_delta
            level = d + 2 * math.copysign(root * math.sqrt(d * length) + linear * length, change)
            with np.errstate(divide="ignore"):
                log_tail = stats.chi2.logsf(level, d) if change > 0 else stats.chi2.logcdf(max(level, 0.0), d)
            yield share(log_tail, log_delta), f"{d} columns with A = {1 + change:.6g}, ln delta = {log_delta:.6g}"

    def unequal() -> Iterator[tuple[float, object]]:
        for _ in range(effort.of(60, 1500) if mixed else 1):
            d = int(effort.rng.integers(2, 7))
            a, c = columns_of(*_pair(effort.rng, d), effort.rng.normal(size=d))
            log_delta = -(10.0 ** effort.rng.uniform(-2, 1.5))
            log_tail = log_tail_of_columns(a - 1, a * c, limit(a, c, log_delta))
            yield share(log_tail, log_delta), f"A = diag{shown(a)}, means {shown(c)}, ln delta = {log_delta:.6g}"

    starts = effort.rng.normal(size=(effort.of(300, 3000), 3)) * [2, 1, 1]
    starts[:, 2] = 10.0 ** effort.rng.uniform(-3, math.log10(LONGEST), len(starts))
    starts[::3, 0] = 0.0  # equal covariances
    starts[1::3, 1] = 0.0  # equal means

    def place(x: FloatArray) -> str:
        return f"A = {math.exp(x[0]):.6g}, whitened means {x[1]:.6g} apart, ln delta = {-abs(x[2]):.6g}"

    rounding = 1e-9  # distribution functions of scipy
    one = maximised(alone, starts, shown_as=place, tolerance=rounding)
    return worst(one, over(equal(), tolerance=rounding), over(unequal(), tolerance=rounding))


def _log_tail_of_one(a: float, c: float, level: float) -> float:
    """ln P((a - 1) (g^2 - 1) / 2 + a c g >= level): two tails for a > 1, a stretch for a < 1, one tail for a = 1."""
    change, slope = a - 1, a * abs(c)
    if abs(change) < 1e-9:
        return float(special.log_ndtr(-level / slope)) if slope > 0 else -math.inf if level > 0 else 0.0
    inside = slope**2 + change * (2 * level + change)  # of the roots (-slope +- sqrt(inside)) / change
    if inside <= 0:
        return 0.0 if change > 0 else -math.inf
    far = -(slope + math.sqrt(inside))
    low, high = sorted([far / change, -(2 * level + change) / far])
    if change > 0:
        return float(np.logaddexp(special.log_ndtr(low), special.log_ndtr(-high)))
    low, high = (low, high) if low + high < 0 else (-high, -low)
    upper, lower = float(special.log_ndtr(high)), float(special.log_ndtr(low))
    return upper + math.log1p(-math.exp(lower - upper)) if lower < upper else -math.inf


def _pair(rng: np.random.Generator, d: int) -> tuple[Component, Component]:
    """Two rotated Gaussians; A has eigenvalues from e^-5 to e^5, at least one above 1."""
    spread = np.exp(rng.uniform(-1, 1) * rng.uniform(-5, 5, d))
    q, factor = rotation(d, rng), np.diag(np.exp(rng.uniform(-1, 1, d)))
    factor = rotation(d, rng) @ factor
    first, second = factor @ factor.T, factor @ ((q / spread) @ q.T) @ factor.T
    shift = factor @ rng.normal(size=d) * 10.0 ** rng.uniform(-2, 1)
    return (shift, (first + first.T) / 2), (np.zeros(d), (second + second.T) / 2)
