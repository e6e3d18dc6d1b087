"""Total variation against one part of the parameters: Arbas, Ashtiani, Liaw (2023), appendix B."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import special

from pm_dpgmm.mixture.total_variation import total_variation_1d
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import Component, FloatArray, mahalanobis
from verification.claims.search import by_property, maximised, over, quotient, shown, worst
from verification.claims.total_variation.pair_search import (
    FAMILY,
    HOSTILE_ROUNDING,
    PAPER,
    ROUNDING,
    SMALL,
    distance,
    of_pair,
    searched,
)
from verification.references.gaussian_total_variation import gaussian_total_variation, of_spectrum

Pair = tuple[Component, Component]


@claim(
    id="tv-frobenius",
    family=FAMILY,
    source=f"{PAPER}, Theorem B.1",
    statement="equal means: min(1, F) / 100 <= TV, F = ||S1^-1/2 S2 S1^-1/2 - I||_F",
    kind=Kind.SEARCH,
    verdict=Verdict.SLACK,
    printed={"share": 0.01},
    contrast={"share": 0.1675},
    otherwise=".1675 min(1, F) <= TV",
    constants=".16606 is the least TV / min(1, F) found in d <= 6: variances 1 and 2 in one direction",
)
def frobenius(effort: Effort, *, share: float) -> Finding:
    """share min(1, F) / TV for equal means: spectra in d <= 6, and hostile pairs in d <= 3."""
    from verification.claims.common.hostile import component_pairs

    def ratio(w: FloatArray, b: FloatArray) -> float:
        return quotient(share * min(1.0, float(np.linalg.norm(w))), distance(w, b))

    def of_hostile(pair: Pair) -> float:
        found, frobenius, _ = of_pair(pair)
        return quotient(share * min(1.0, frobenius), found.upper)

    drawn = by_property(
        component_pairs(2.0, equal_means=True), of_hostile, effort, quick=25, thorough=1000, tolerance=HOSTILE_ROUNDING
    )
    least = searched(ratio, effort, close=False, means=False)
    near = searched(ratio, effort, close=True, means=False, dims=(2,))
    figures = {"least TV / min(1, F), d <= 6": share / least.largest, "the same for F below .01": share / near.largest}
    return replace(worst(drawn, least, near), figures=figures)


@claim(
    id="tv-one-column",
    family=FAMILY,
    source=f"{PAPER}, Theorem B.2",
    statement="d = 1, s <= t the sds: min(1, max((t^2 - s^2) / s^2, 40 |m| / s)) / 200 <= TV"
    " <= 3 (t^2 - s^2) / (2 t^2) + |m| / (2 t)",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"lower": 1 / 200, "upper": 1.0},
    contrast={"lower": 1 / 200, "upper": 0.79},
    otherwise="the same with .79 of the upper bound",
    constants="lower bound: 1.994 times as large, attained at |m| = s / 40; upper: .7979 as large, |m| to 0",
)
def one_column(effort: Effort, *, lower: float, upper: float) -> Finding:
    """Both sides for d = 1 against the exact distance: a grid whose worst places are refined, and hostile pairs."""
    from verification.claims.common.hostile import component_pairs

    def sides(mean: FloatArray, log_sd: FloatArray) -> tuple[FloatArray, FloatArray]:
        # N(0, 1) and N(mean, sd^2), sd >= 1: the first has the smaller sd
        mean, sd = np.abs(mean), np.exp(np.abs(log_sd))
        exact = total_variation_1d(0.0, 1.0, mean, sd)
        change = np.expm1(2 * np.abs(log_sd))
        below = lower * np.minimum(1.0, np.maximum(change, 40 * mean)) / exact
        above = exact / (upper * (1.5 * change / sd**2 + mean / (2 * sd)))
        return below, above

    n = effort.of(120, 600)
    log_sds = np.concatenate([[0.0], np.geomspace(1e-8, math.log(1e4), n)])[:, None]
    means = np.concatenate([[0.0], np.geomspace(1e-8, 1e3, n)])[1:]
    tables = sides(*np.broadcast_arrays(means, log_sds))
    found, figures = [], {}
    for index, name in enumerate(("lower", "upper")):

        def side(x: FloatArray, index: int = index) -> float:
            inside = np.abs(x).max() > 0 and abs(x[0]) < 1e3 and abs(x[1]) < 9
            return float(sides(x[0], x[1])[index]) if inside else math.nan

        def text(x: FloatArray, name: str = name) -> str:
            return f"{name} side, N(0, 1) and N({abs(x[0]):.6g}, {math.exp(2 * abs(x[1])):.9g})"

        i, j = np.unravel_index(int(np.argmax(tables[index])), tables[index].shape)
        start = np.array([means[j], log_sds[i, 0]])
        at_grid = over([(side(start), text(start))], tolerance=ROUNDING)
        refined = worst(at_grid, maximised(side, [start], tolerance=ROUNDING, shown_as=text))
        figures[f"slack of the {name} side"] = 1 / refined.largest
        found.append(refined)

    def of_hostile(pair: Pair) -> float:
        (m1, s1), (m2, s2) = ((float(m[0]), math.sqrt(s[0, 0])) for m, s in pair)
        if m1 == m2 and s1 == s2:
            return math.nan  # 0 <= 0 <= 0
        return float(max(sides(np.asarray((m1 - m2) / min(s1, s2)), np.log(np.asarray(s2 / s1)))))

    found.append(by_property(component_pairs(5.0, 1), of_hostile, effort, quick=40, thorough=1500, tolerance=1e-10))
    joined = worst(*found)
    return replace(joined, n_cases=joined.n_cases + 2 * tables[0].size, figures=figures)


@claim(
    id="tv-equal-means",
    family=FAMILY,
    source=f"{PAPER}, Lemma B.3",
    statement="TV(N(0, S1), N(0, S2)) <= 2 TV(N(m1, S1), N(m2, S2))",
    kind=Kind.SEARCH,
    verdict=Verdict.SLACK,
    printed={"share": 2.0},
    contrast={"share": 0.99},
    otherwise="the same with .99 in place of 2",
    constants="exactly 1: superlevel sets of the ratio are symmetric and convex, and Anderson's inequality",
)
def equal_means(effort: Effort, *, share: float) -> Finding:
    """TV of N(0, S1), N(0, S2) over share TV of N(m1, S1), N(m2, S2): spectra in d <= 6, and hostile pairs."""
    from verification.claims.common.hostile import component_pairs

    def ratio(w: FloatArray, b: FloatArray) -> float:
        return quotient(distance(w, 0 * b), share * distance(w, b))

    def of_hostile(pair: Pair) -> float:
        (m1, s1), (m2, s2) = pair
        with_means = gaussian_total_variation(m1, s1, m2, s2)
        return quotient(gaussian_total_variation(0 * m1, s1, 0 * m1, s2).lower, share * with_means.upper)

    drawn = by_property(component_pairs(2.0), of_hostile, effort, quick=25, thorough=1000, tolerance=HOSTILE_ROUNDING)
    found = searched(ratio, effort, close=False, dims=(1, 2, 6), quick=8)
    figures = {"largest quotient of the distances": share * max(found.largest, drawn.largest)}
    return replace(worst(drawn, found), figures=figures)


@claim(
    id="tv-mean-shift",
    family=FAMILY,
    source=f"{PAPER}, Lemma B.4",
    statement="TV(N(0, I), N(m, I)) <= 3 a < 1/200 implies ||m|| <= 15 a",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"constant": 15.0},
    contrast={"constant": 7.5},
    otherwise="the same with 7.5 a",
    constants="7.51993 in place of 15, attained at TV = 1/200; the limit for small a is 3 sqrt(2 pi) = 7.51988",
)
def mean_shift(effort: Effort, *, constant: float) -> Finding:
    """norm(m) / (constant a), 3 a = TV < 1/200: closed form on a grid; contour integral, d <= 6; hostile pairs."""
    from verification.claims.common.hostile import component_pairs

    largest = math.sqrt(8) * float(special.erfinv(1 / 200))  # TV = erf(||m|| / sqrt 8)
    sizes = np.geomspace(1e-9, largest * (1 - 1e-9), effort.of(300, 3000))
    exact = total_variation_1d(0.0, 1.0, sizes, 1.0)
    cases = [
        (m / (constant * tv / 3), f"norm of the mean {m:.6g}, TV {tv:.6g}")
        for m, tv in zip(sizes, exact, strict=True)
        if tv < 1 / 200
    ]
    for _ in range(effort.of(40, 400)):
        d = int(effort.rng.integers(1, 7))
        direction = effort.rng.normal(size=d)
        b = direction * (10 ** effort.rng.uniform(-5, -2) / float(np.linalg.norm(direction)))
        tv = of_spectrum(np.zeros(d), b).value
        if tv < 1 / 200:
            cases.append((float(np.linalg.norm(b)) / (constant * tv / 3), f"mean {shown(b)}"))

    def of_hostile(pair: Pair) -> float:
        (m1, s1), (m2, _) = pair
        tv = gaussian_total_variation(m1, s1, m2, s1)
        return math.nan if tv.value >= 1 / 200 else quotient(mahalanobis(m1 - m2, s1), constant * tv.upper / 3)

    drawn = by_property(component_pairs(0.012), of_hostile, effort, quick=25, thorough=200, tolerance=HOSTILE_ROUNDING)
    found = worst(over(cases, tolerance=ROUNDING), drawn)
    return found.with_figures({"smallest constant in place of 15": constant * found.largest})


@claim(
    id="tv-to-parameters",
    family=FAMILY,
    source=f"{PAPER}, Lemma B.5",
    statement="TV <= a < 1/600 implies F <= 200 a and ||S1^-1/2 (m1 - m2)|| <= 15 a",
    kind=Kind.SEARCH,
    verdict=Verdict.SLACK,
    printed={"covariance": 200.0, "mean": 15.0},
    contrast={"covariance": 4.4, "mean": 15.0},
    otherwise="the same with F <= 4.4 a",
    constants="about sqrt(2) pi = 4.443 and sqrt(2 pi) = 2.507, the limits for small a",
)
def to_parameters(effort: Effort, *, covariance: float, mean: float) -> Finding:
    """F / (covariance TV) and the Mahalanobis part / (mean TV), TV < 1/600: spectra in d <= 6, and hostile pairs."""
    from verification.claims.common.hostile import component_pairs

    def part(index: int, w: FloatArray, b: FloatArray) -> float:
        tv = distance(w, b)
        return (
            math.nan if tv >= SMALL else quotient(float(np.linalg.norm((w, b)[index])), (covariance, mean)[index] * tv)
        )

    def of_hostile(pair: Pair) -> float:
        found, frobenius, shift = of_pair(pair)
        if found.value >= SMALL:
            return math.nan
        return max(quotient(frobenius, covariance * found.upper), quotient(shift, mean * found.upper))

    drawn = by_property(component_pairs(0.007), of_hostile, effort, quick=25, thorough=1000, tolerance=HOSTILE_ROUNDING)
    by_covariance = searched(lambda w, b: part(0, w, b), effort, close=True, means=False, dims=(1, 2, 6))
    by_mean = searched(lambda w, b: part(1, w, b), effort, close=True, dims=(1, 2, 6), quick=8)
    figures = {"largest F / TV": covariance * by_covariance.largest, "largest mean / TV": mean * by_mean.largest}
    return replace(worst(drawn, by_covariance, by_mean), figures=figures)
