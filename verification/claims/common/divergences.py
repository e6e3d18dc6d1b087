"""Total variation and indistinguishability of laws on few points: Arbas, Ashtiani, Liaw (2023), appendices A and C.

Laws with at most six points are compared in exact rational arithmetic.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.common.gaussians import FAMILY, PAPER, above_log
from verification.claims.search import by_property, maximised, quotient, shown, worst

if TYPE_CHECKING:
    from verification.claims.common.finite_laws import Law, Rows


@claim(
    id="tv-of-products",
    family=FAMILY,
    source=f"{PAPER}, A.1; Arbas (2023), 2.3.1",
    statement="TV of products <= sum of the TVs of the factors",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"power": 1.0},
    contrast={"power": 1.05},
    otherwise="TV of products <= (sum of TV_i^1.05)^(1/1.05)",
    constants="attained by one factor; 1 - prod(1 - TV_i), which is smaller, bounds it too and is attained",
)
def tv_of_products(effort: Effort, *, power: float) -> Finding:
    """TV of products of up to three laws over (sum of TV_i^power)^(1/power); rational for power 1.

    The figure is the same with 1 - prod(1 - TV_i), which is never larger than the sum, in place of the sum.
    """
    from verification.claims.common import finite_laws as finite

    tighter = 0.0

    def ratio(pairs: list[tuple[Law, Law]]) -> float:
        nonlocal tighter
        whole = finite.tv(*(finite.product_law(laws) for laws in zip(*pairs, strict=True)))
        parts = [finite.tv(p, q) for p, q in pairs]
        tighter = max(tighter, finite.share(whole, 1 - math.prod((1 - part for part in parts), start=Fraction(1))))
        if power == 1:
            return finite.share(whole, sum(parts, Fraction(0)))
        return quotient(float(whole), float(np.linalg.norm([float(part) for part in parts], power)))

    found = by_property(finite.factors(), ratio, effort)
    return worst(found, Finding(0.0, "", 1, figures={"over 1 - prod(1 - TV_i)": tighter}))


@claim(
    id="tv-data-processing",
    family=FAMILY,
    source=f"{PAPER}, A.2; Arbas (2023), 2.3.2",
    statement="TV(f(X), f(Y)) <= TV(X, Y)",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"rejecting": False},
    contrast={"rejecting": True},
    otherwise="the same when f may reject values and the laws are conditioned on what is kept",
    constants="attained by every f that is one to one; the thesis leaves out that f is measurable",
)
def data_processing(effort: Effort, *, rejecting: bool) -> Finding:
    """TV after a map, deterministic or random, over TV before; ``rejecting``: some values are dropped, the rest kept.

    Exact rational arithmetic on laws of at most six points.
    """
    from verification.claims.common import finite_laws as finite

    def ratio(case: tuple[tuple[Law, Law], Rows]) -> float:
        pair, rows = case
        after = [finite.mixed(law, rows) for law in pair]
        if any(sum(law) == 0 for law in after):
            return math.nan
        return finite.share(finite.tv(*(finite.normalised(law) for law in after)), finite.tv(*pair))

    return by_property(finite.processed_pairs(rejecting), ratio, effort)


@claim(
    id="pinsker",
    family=FAMILY,
    source=f"{PAPER}, A.4",
    statement="TV <= sqrt(KL / 2)",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"constant": 1.0},
    contrast={"constant": 0.99},
    otherwise="TV <= .99 sqrt(KL / 2)",
    constants="attained in the limit by two close coins near 1/2; for normal laws at most .8612 was found, at "
    "equal means and standard deviations in the ratio 4.889",
)
def pinsker(effort: Effort, *, constant: float) -> Finding:
    """TV over ``constant`` sqrt(KL / 2): laws of at most six points, two points searched, Gaussians in one column."""
    from verification.claims.common import finite_laws as finite

    def of_laws(pair: tuple[Law, Law]) -> float:
        return quotient(float(finite.tv(*pair)), constant * math.sqrt(_kl_of_laws(*pair) / 2))

    def of_coins(x: FloatArray) -> float:
        p, q = special.expit(x)
        if abs(p - q) < 1e-3:  # closer laws lose digits and come no nearer to the bound than 1 - 1e-6
            return math.nan
        sides = ((p, q), (1 - p, 1 - q))
        kl = sum(a * float(above_log(np.array((b - a) / a))) for a, b in sides)
        return abs(p - q) / (constant * math.sqrt(kl / 2))

    def of_gaussians(x: FloatArray) -> float:
        m, s = abs(x[0]), math.exp(x[1])
        distance = _tv_of_normals(m, s)
        if distance < 1e-3:  # the difference of four distribution functions has no digits left
            return math.nan
        return distance / (constant * math.sqrt((float(above_log(np.array(s**-2 - 1))) + (m / s) ** 2) / 4))

    starts = effort.rng.normal(size=(effort.of(40, 400), 2)) * [2, 1]
    gaussian = maximised(
        of_gaussians, starts, shown_as=lambda x: f"N(0, 1), N({abs(x[0]):.6g}, {math.exp(x[1]):.6g}^2)"
    )
    coins = maximised(of_coins, starts, shown_as=lambda x: f"coins {shown(special.expit(x))}", tolerance=1e-9)
    figures = {"largest for normal laws": gaussian.largest * constant}
    drawn = by_property(finite.law_pairs(), of_laws, effort, tolerance=1e-9)  # rounding of logarithms
    return worst(drawn, coins, gaussian, Finding(0.0, "", 1, figures=figures))


@claim(
    id="same-weight-mixtures",
    family=FAMILY,
    source=f"{PAPER}, C.8",
    statement="if P_i and Q_i are (epsilon, delta)-close for all i, so are sum w_i P_i and sum w_i Q_i",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"apart": Fraction(0)},
    contrast={"apart": Fraction(1, 100)},
    otherwise="so are mixtures whose weights differ by a factor of 1.01 / .99",
    constants="attained by one component",
)
def mixtures_of_pairs(effort: Effort, *, apart: Fraction) -> Finding:
    """Hockey-stick divergence of two mixtures over the largest of a pair of components, both ways, in rationals.

    The weights of the second mixture are w_i (1 + ``apart``) and w_i (1 - ``apart``) in turn, normalised.
    """
    from verification.claims.common import finite_laws as finite

    def ratio(case: tuple[Law, list[tuple[Law, Law]], Fraction]) -> float:
        weights, pairs, growth = case
        others = finite.normalised([w * (1 + apart * (-1) ** i) for i, w in enumerate(weights)])
        first, second = (
            finite.mixed(w, laws) for w, laws in zip((weights, others), zip(*pairs, strict=True), strict=True)
        )
        parts = [max(finite.hockey_stick(p, q, growth), finite.hockey_stick(q, p, growth)) for p, q in pairs]
        whole = max(finite.hockey_stick(first, second, growth), finite.hockey_stick(second, first, growth))
        return finite.share(whole, max(parts))

    return by_property(finite.weighted_pairs(), ratio, effort, quick=200, thorough=2000)


@claim(
    id="loss-tails",
    family=FAMILY,
    source=f"{PAPER}, C.9",
    statement="two laws are (epsilon, delta)-indistinguishable if P(loss >= epsilon) <= delta in both orders",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"converse": False},
    contrast={"converse": True},
    otherwise="the converse, even with P(loss > epsilon) <= delta",
    constants="attained by laws with disjoint supports; P(loss > epsilon) <= delta is enough",
)
def loss_tails(effort: Effort, *, converse: bool) -> Finding:
    """Hockey-stick divergence over the larger tail P(loss >= epsilon) of both orders, in rationals.

    ``converse``: P(loss > epsilon), which is smaller, over the divergence. The figure is the divergence over that.
    """
    from verification.claims.common import finite_laws as finite

    strict = 0.0

    def tail(p: Law, q: Law, growth: Fraction, attained: bool) -> Fraction:
        losses = ((x, x > growth * y or (attained and x == growth * y)) for x, y in zip(p, q, strict=True))
        return sum((x for x, above in losses if above), Fraction(0))

    def ratio(case: tuple[Law, Law, Fraction]) -> float:
        nonlocal strict
        p, q, growth = case
        delta = max(finite.hockey_stick(p, q, growth), finite.hockey_stick(q, p, growth))
        weak, strong = (max(tail(p, q, growth, at), tail(q, p, growth, at)) for at in (True, False))
        strict = max(strict, finite.share(delta, strong))
        return finite.share(strong, delta) if converse else finite.share(delta, weak)

    found = by_property(finite.law_pairs_with_growth(), ratio, effort)
    return worst(found, Finding(0.0, "", 1, figures={"largest with P(loss > epsilon)": strict}))


def _kl_of_laws(p: Law, q: Law) -> float:
    """sum of p ln(p/q) - p + q, every term at least 0."""
    if any(x > 0 and y == 0 for x, y in zip(p, q, strict=True)):
        return math.inf
    terms = [
        float(x) * float(above_log(np.array(float((y - x) / x)))) if x else float(y) for x, y in zip(p, q, strict=True)
    ]
    return math.fsum(terms)


def _tv_of_normals(m: float, s: float) -> float:
    """TV of N(0, 1) and N(m, s^2): the densities cross at the roots of a quadratic."""
    if abs(s - 1) < 1e-7:
        return float(special.erf(m / math.sqrt(8)))  # 2 Phi(m/2) - 1
    a, half = (s**-2 - 1) / 2, -m / s**2
    root = math.sqrt(max(0.0, (m / s) ** 2 + 2 * math.log(s) * (1 - s**-2)))
    far = -half + math.copysign(root, -half)
    crossings = sorted([far / (2 * a), 2 * (m**2 / (2 * s**2) + math.log(s)) / far])
    first, second = special.ndtr(crossings), special.ndtr((np.array(crossings) - m) / s)
    return abs(float((first[1] - first[0]) - (second[1] - second[0])))
