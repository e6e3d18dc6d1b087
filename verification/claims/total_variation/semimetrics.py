"""Approximate triangle inequalities of the components' distances: Arbas, Ashtiani, Liaw (2023), sections 3 and 4.

``z(r)`` is the smallest constant with d(1, 3) <= z (d(1, 2) + d(2, 3)) whenever both distances on the right are at most
``r``. Every claim about it is checked twice over: Hypothesis looks for a violation among hostile covariances (condition
numbers to 1e8, standard deviations from 1e-6 to 1e6, distances up to the radius itself), and an optimiser looks for the
place where the constant is attained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common import distances as by_definition
from verification.claims.common.distances import Component, FloatArray, Weighted
from verification.claims.search import by_property, every, maximised, quotient, shown, worst

FAMILY = "semimetrics"
PAPER = "Arbas, Ashtiani, Liaw (2023)"
RADIUS = 1.0
# Two whitenings of d <= 3 columns at condition number 1e8 move a distance by at most 4 d^2 1.1e-16 1e8 of itself.
ROUNDING = 2e-6
ROOT = "(1 + sqrt(1 + r)) / 2"


def _always(z: float) -> Callable[[float], float]:
    return lambda r: z


def _mean_constant(r: float) -> float:
    return (1 + math.sqrt(1 + r)) / 2


def _slightly_less(r: float) -> float:
    return 0.995 * _mean_constant(r)


@claim(
    id="mean-metric",
    family=FAMILY,
    source=f"{PAPER}, proof of Lemma 4.1; Arbas (2023), proof of Lemma 5.0.1",
    statement="dist_MEAN is a metric: d(1, 3) <= d(1, 2) + d(2, 3)",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"constant": _always(1000.0), "jointly": False},
    contrast={"constant": _mean_constant, "jointly": True},
    otherwise=f"dist_MEAN(1, 3) <= {ROOT} (d(1, 2) + d(2, 3)) with d the larger of dist_MEAN and dist_COV",
    constants="no finite z: the search refutes the inequality even with z = 1000 in place of 1",
)
@claim(
    id="mean-triangle",
    family=FAMILY,
    source=f"{PAPER}, needed by Lemma 4.1",
    statement=f"dist_MEAN(1, 3) <= {ROOT} (d(1, 2) + d(2, 3)), d = max(dist_MEAN, dist_COV) at most r",
    kind=Kind.SEARCH,
    verdict=Verdict.HOLDS,
    printed={"constant": _mean_constant, "jointly": True},
    contrast={"constant": _slightly_less, "jointly": True},
    otherwise=f"the same with .995 of {ROOT}",
    constants="1.2071 at r = 1, attained by the means 0, r, r + r sqrt(1 + r) with variances 1, 1 + r, 1 + r",
)
def mean_triangle(
    effort: Effort, *, constant: Callable[[float], float], jointly: bool, radius: float = RADIUS
) -> Finding:
    """d13 / (z(r) (d12 + d23)) of dist_MEAN in one dimension; ``jointly``: r bounds dist_COV of both pairs too."""

    def ratio(x: FloatArray) -> float:
        if np.abs(x[:2]).max() > 300.0:  # a search that climbs for ever leaves the floats
            return math.nan
        spreads = np.exp(np.array([x[0], 0.0, x[1]]))[:, None, None]
        first, second, third = ((np.array([m]), s) for m, s in zip((x[2], 0.0, x[3]), spreads, strict=True))
        distance = by_definition.dist_comp if jointly else by_definition.dist_mean
        x12, x23 = distance(first, second), distance(second, third)
        if max(x12, x23) > radius:
            return math.nan
        return quotient(by_definition.dist_mean(first, third), constant(max(x12, x23)) * (x12 + x23))

    reach = math.log1p(radius) if jointly else 14.0
    starts = effort.rng.uniform(-1, 1, (effort.of(400, 4000), 4)) * [reach, reach, radius, radius]
    starts[:, 2:] *= np.where(starts[:, :2] < 0, np.exp(starts[:, :2] / 2), 1.0)
    return maximised(ratio, starts, tolerance=ROUNDING, steps=2000, shown_as=_one_column_means)


@claim(
    id="mean-identity",
    family=FAMILY,
    source=f"{PAPER}, proof of Lemma 4.1; Arbas (2023), proof of Lemma 5.0.1",
    statement="dist_MEAN, being a metric, is 0 only between equal components",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"distance": by_definition.dist_mean},
    contrast={"distance": by_definition.dist_comp},
    otherwise="dist_COMP is 0 only between equal components",
)
def mean_identity(effort: Effort, *, distance: Callable[[Component, Component], float]) -> Finding:
    """Whether a distance of 0 means equal components, on pairs that share mean, covariance, both or neither."""

    def cases() -> list[tuple[bool, object]]:
        found: list[tuple[bool, object]] = []
        for d in (1, 2, 3):
            for same_mean, same_covariance in itertools.product((True, False), repeat=2):
                means = effort.rng.normal(size=(2, d))
                roots = effort.rng.normal(size=(2, d, 2 * d))
                a = (means[0], roots[0] @ roots[0].T)
                b = (means[0 if same_mean else 1], a[1] if same_covariance else roots[1] @ roots[1].T)
                equal = same_mean and same_covariance
                found.append(((distance(a, b) == 0) == equal, f"{shown(a)} and {shown(b)}"))
        return found

    return every(cases())


@claim(
    id="covariance-spectral-triangle",
    family=FAMILY,
    source=f"{PAPER}, Lemma A.8",
    statement="dist_COV in the spectral norm has z = 1 + r/2, so 3/2 at radius 1",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"norm": "2", "slope": 0.5},
    contrast={"norm": "2", "slope": 0.49},
    otherwise="z = 1 + .49 r",
    constants="exactly 1 + r/2: attained by the variances 1, 1 + r, (1 + r)^2",
)
@claim(
    id="covariance-frobenius-triangle",
    family=FAMILY,
    source=f"{PAPER}, used in Lemma 4.1 (Lemma A.8 has only the spectral norm)",
    statement="dist_COV in the Frobenius norm has z = 1 + r/2, so 3/2 at radius 1",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"norm": "fro", "slope": 0.5},
    contrast={"norm": "fro", "slope": 0.49},
    otherwise="z = 1 + .49 r",
    constants="exactly 1 + r/2; proof: A - C = (A - B) + (B - C), and whitening by another matrix costs 1 + d",
)
def covariance_triangle(effort: Effort, *, norm: str, slope: float) -> Finding:
    """d13 / ((1 + slope r) (d12 + d23)) for dist_COV, r the larger of d12 and d23, at most ``RADIUS``."""
    from verification.claims.common.hostile import covariance_triples

    def ratio(case: tuple[FloatArray, FloatArray, FloatArray]) -> float:
        return _share(lambda a, b: by_definition.dist_cov(a, b, norm), *case, slope=slope)

    drawn = by_property(covariance_triples(RADIUS), ratio, effort, tolerance=ROUNDING)
    return worst(drawn, one_column_triangle(effort, norm=norm, slope=slope))


def one_column_triangle(effort: Effort, *, norm: str, slope: float, radius: float = RADIUS) -> Finding:
    """The same in one column, where the constant is attained, by search; slope 0 gives the constant itself."""

    def ratio(x: FloatArray) -> float:
        first, middle, third = np.exp(np.array([x[0], 0.0, x[1]]))[:, None, None]
        return _share(lambda a, b: by_definition.dist_cov(a, b, norm), first, middle, third, slope=slope, radius=radius)

    starts = effort.rng.uniform(-1, 1, (effort.of(60, 600), 2)) * math.log1p(radius)
    return maximised(ratio, starts, tolerance=ROUNDING, shown_as=lambda x: f"log variances {shown(x)}, 0 between")


@claim(
    id="component-triangle",
    family=FAMILY,
    source=f"{PAPER}, Lemma 4.1",
    statement="dist_COMP has z = 1 + r/2, so 3/2 at radius 1",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"slope": 0.5},
    contrast={"slope": 0.49},
    otherwise="z = 1 + .49 r",
    constants="exactly 1 + r/2: the covariance decides",
)
def component_triangle(effort: Effort, *, slope: float) -> Finding:
    """d13 / ((1 + slope r) (d12 + d23)) for dist_COMP."""
    from verification.claims.common.hostile import component_triples

    def ratio(case: tuple[Component, Component, Component]) -> float:
        return _share(by_definition.dist_comp, *case, slope=slope)

    return worst(
        by_property(component_triples(RADIUS), ratio, effort, tolerance=ROUNDING), _one_column_search(ratio, effort)
    )


@claim(
    id="components-triangle",
    family=FAMILY,
    source=f"{PAPER}, Lemma 3.6; Arbas (2023), Lemma 6.1.2",
    statement="dist^k of components has z = 1 + r/2",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"slope": 0.5, "weights": False},
    contrast={"slope": 0.49, "weights": False},
    otherwise="z = 1 + .49 r",
    constants="exactly 1 + r/2",
)
@claim(
    id="parameters-triangle",
    family=FAMILY,
    source=f"{PAPER}, Lemma 4.1 with Lemma 3.6",
    statement="dist_PARAM has z = 1 + r/2, so 3/2 at radius 1",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"slope": 0.5, "weights": True},
    contrast={"slope": 0.49, "weights": True},
    otherwise="z = 1 + .49 r",
    constants="exactly 1 + r/2; at the radius gamma that the estimator uses, 1 + gamma/2",
)
def mixture_triangle(effort: Effort, *, slope: float, weights: bool) -> Finding:
    """d13 / ((1 + slope r) (d12 + d23)) for dist^k of components, or with ``weights`` for dist_PARAM; k <= 3."""
    from verification.claims.common.hostile import mixture_triples

    distance = by_definition.dist_param if weights else by_definition.dist_components

    def ratio(case: tuple[Weighted, Weighted, Weighted]) -> float:
        return _share(distance, *case, slope=slope)

    def of_equal_components(case: tuple[Component, Component, Component]) -> float:
        first, second, third = ([(0.5, *part), (0.5, *part)] for part in case)
        return ratio((first, second, third))

    drawn = by_property(mixture_triples(RADIUS), ratio, effort, quick=40, thorough=600, tolerance=ROUNDING)
    return worst(drawn, _one_column_search(of_equal_components, effort))


def _share(
    distance: Callable[[Any, Any], float], first: Any, second: Any, third: Any, *, slope: float, radius: float = RADIUS
) -> float:
    x, y = distance(first, second), distance(second, third)
    if max(x, y) > radius * (1 + 1e-9):
        return math.nan
    return quotient(distance(first, third), (1 + slope * max(x, y)) * (x + y))


def _one_column_search(ratio: Callable[[tuple[Component, Component, Component]], float], effort: Effort) -> Finding:
    """The same in one column, means and variances searched: there the constant is attained."""

    def of_numbers(x: FloatArray) -> float:
        first, third = ((np.array([m]), np.array([[math.exp(s)]])) for m, s in ((x[2], x[0]), (x[3], x[1])))
        return ratio((first, (np.zeros(1), np.eye(1)), third))

    starts = effort.rng.uniform(-1, 1, (effort.of(20, 400), 4)) * math.log1p(RADIUS)
    starts[::2, 2:] *= 0.1
    return maximised(of_numbers, starts, tolerance=ROUNDING, steps=effort.of(200, 400), shown_as=_one_column_means)


def _one_column_means(x: FloatArray) -> str:
    return f"means {x[2]:.6g}, 0, {x[3]:.6g}; variances {math.exp(x[0]):.6g}, 1, {math.exp(x[1]):.6g}"
