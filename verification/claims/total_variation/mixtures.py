"""Total variation of mixtures' components against dist_PARAM: Arbas, Ashtiani, Liaw (2023), Lemma 6.3."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from pm_dpgmm.mixture.total_variation import total_variation_1d
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray, Weighted, dist_param, lifted, table_of
from verification.claims.search import by_property, maximised, quotient, shown, worst
from verification.claims.total_variation.pair_search import (
    FAMILY,
    HOSTILE_ROUNDING,
    PAPER,
    ROUNDING,
    SMALL,
    THESIS,
    distance,
    parameters,
    searched,
)
from verification.references.gaussian_total_variation import gaussian_total_variation

GMM = "dist_GMM = min over matchings of max(|w_i - w_j'|, TV of components), dist_PARAM with Delta for TV"
SOURCE = f"{PAPER}, Lemma 6.3; {THESIS}, Lemma 7.1.2"


@claim(
    id="gmm-parameters-lower",
    family=FAMILY,
    source=SOURCE,
    statement=f"dist_GMM < 1/600 implies dist_PARAM <= 200 dist_GMM; {GMM}",
    kind=Kind.SEARCH,
    verdict=Verdict.SLACK,
    printed={"lower": 200.0},
    contrast={"lower": 4.42},
    otherwise="dist_PARAM <= 4.42 dist_GMM",
    constants="4.147 in one dimension; the components decide, so about sqrt(2) pi = 4.443 for d of 2 or more",
)
@claim(
    id="gmm-parameters-upper",
    family=FAMILY,
    source=SOURCE,
    statement=f"dist_GMM < 1/600 implies dist_GMM <= dist_PARAM / sqrt(2); {GMM}",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"upper": 1 / math.sqrt(2)},
    contrast={"upper": 1.0},
    otherwise="dist_GMM <= dist_PARAM",
    constants="exactly 1: mixtures that differ in their weights only; proof by the best matching of dist_PARAM",
)
def mixtures(effort: Effort, *, lower: float = math.inf, upper: float = math.inf) -> Finding:
    """PARAM / (lower GMM) or GMM / (upper PARAM), GMM < 1/600, k <= 3: a search for d = 1, hostile cases for d <= 2.

    Single components, for which the weights say nothing, are searched for d = 2 too.
    One bound is given, the other infinite and so not compared. The distances try every matching.
    """
    from verification.claims.common.hostile import mixture_pairs

    def compare(gmm: float, param: float) -> float:
        if gmm >= SMALL:
            return math.nan
        return quotient(param, lower * gmm) if math.isfinite(lower) else quotient(gmm, upper * param)

    def of_hostile(case: tuple[Weighted, Weighted]) -> float:
        first, second = case
        gmm = lifted(table_of(first, second, lambda a, b: max(abs(a[0] - b[0]), _of_components(a, b))))
        return compare(gmm, dist_param(first, second))

    def of_components(w: FloatArray, b: FloatArray) -> float:
        inner = np.sqrt(1 + w)  # the other order of both distances: in the coordinates of the second component
        return compare(distance(w, b), max(parameters(w, b), parameters(w / (1 + w), b / inner)))

    def of_numbers(x: FloatArray) -> float:
        gmm, param = _distances(*_mixtures(x))
        return compare(gmm, param)

    drawn = by_property(mixture_pairs(0.006), of_hostile, effort, quick=40, thorough=1500, tolerance=HOSTILE_ROUNDING)
    single = searched(of_components, effort, close=True, means=False, dims=(2,))
    found, figures = [drawn, single], {}
    for k in (1, 2, 3):
        n = effort.of(40, 400)
        starts = effort.rng.normal(size=(n, 5 * k + 1)) * np.repeat([5.0, 1.0, 1.0, 1.0, 1.0, 1.0], [k, k, k, k, k, 1])
        starts[:, -1] = effort.rng.uniform(-4.5, -2.2, n)
        for part in range(2, 5):  # often no change of the variances, of the means, or of the weights
            starts[effort.rng.random(n) < 0.4, part * k : (part + 1) * k] = 0.0
        best = maximised(
            of_numbers,
            starts,
            tolerance=ROUNDING,
            polished=2,
            steps=effort.of(150, 1200),
            shown_as=lambda x: f"(weights; means; sds) {shown(_mixtures(x))}",
        )
        bound = f"largest PARAM / GMM, k = {k}" if math.isfinite(lower) else f"largest GMM / PARAM, k = {k}"
        figures[bound] = best.largest * (lower if math.isfinite(lower) else upper)
        found.append(best)
    return replace(worst(*found), figures=figures)


def _of_components(a: tuple[float, FloatArray, FloatArray], b: tuple[float, FloatArray, FloatArray]) -> float:
    (_, m1, s1), (_, m2, s2) = a, b
    if len(m1) > 1:
        return gaussian_total_variation(m1, s1, m2, s2).value
    return float(total_variation_1d(m1[0], math.sqrt(s1[0, 0]), m2[0], math.sqrt(s2[0, 0])))


def _mixtures(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(weights, means, sds) of two mixtures, (3, k) each: a general one, and one moved by about 10^x[-1]."""
    k = len(x) // 5
    means, log_sds, changes, steps, weights = x[:-1].reshape(5, k)
    size, sds = 10 ** float(np.clip(x[-1], -6, -1)), np.exp(np.clip(log_sds, -5, 5))
    base = np.full(k, 1 / k)
    moved = base + np.clip(size * (weights - weights.mean()), -0.2, 0.2)
    variances = 1 + np.clip(size * changes, -0.5, 0.5)
    return np.stack([base, means, sds]), np.stack([moved, means + size * steps * sds, sds * np.sqrt(variances)])


def _distances(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """(dist_GMM, dist_PARAM) of two mixtures in one dimension, each (3, k)."""
    w1, m1, s1 = (row[:, None] for row in first)
    w2, m2, s2 = second
    weights, ratio = np.abs(w1 - w2), (s2 / s1) ** 2
    spread = np.maximum(np.abs(ratio - 1), np.abs(1 / ratio - 1))
    delta = np.maximum(spread, np.abs(m1 - m2) / np.minimum(s1, s2))
    tv = total_variation_1d(m1, s1, m2, s2)
    return _matched(np.maximum(weights, tv)), _matched(np.maximum(weights, delta))


def _matched(table: FloatArray) -> float:
    rows = np.arange(len(table))
    return min(float(table[rows, list(order)].max()) for order in itertools.permutations(range(len(table))))
