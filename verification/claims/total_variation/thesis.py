"""The thesis' variant of Theorem 1.8, with S1^-1 in place of S1^-1/2: Arbas (2023), Theorems 2.4.5 and 7.1.1."""

from __future__ import annotations

import math

import numpy as np

from pm_dpgmm.mixture.total_variation import total_variation_1d
from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import Component, FloatArray
from verification.claims.search import by_property, maximised, over, quotient, shown, worst
from verification.claims.total_variation.pair_search import FAMILY, HOSTILE_ROUNDING, ROUNDING, SMALL, THESIS, of_pair
from verification.references.gaussian_total_variation import gaussian_total_variation

Pair = tuple[Component, Component]


@claim(
    id="tv-thesis-lower",
    family=FAMILY,
    source=f"{THESIS}, Theorems 2.4.5 (ii) and 7.1.1",
    statement="TV < 1/600 implies Delta / 200 <= TV with ||S1^-1 (m1 - m2)|| in Delta",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"side": "lower", "power": 1.0},
    contrast={"side": "lower", "power": 0.5},
    otherwise="the same with S1^-1/2",
)
@claim(
    id="tv-thesis-upper",
    family=FAMILY,
    source=f"{THESIS}, Theorems 2.4.5 (ii) and 7.1.1",
    statement="TV < 1/600 implies TV <= Delta / sqrt(2) with ||S1^-1 (m1 - m2)|| in Delta",
    kind=Kind.SEARCH,
    verdict=Verdict.FALSE,
    printed={"side": "upper", "power": 1.0},
    contrast={"side": "upper", "power": 0.5},
    otherwise="the same with S1^-1/2",
)
def thesis(effort: Effort, *, side: str, power: float) -> Finding:
    """Theorem 1.8 with S1^-power (m1 - m2): spectra in d <= 2 with S1 = s^2 I, and hostile pairs; TV < 1/600."""
    from verification.claims.common.hostile import component_pairs

    def compare(tv: float, size: float) -> float:
        if tv >= SMALL:
            return math.nan
        return quotient(size / 200, tv) if side == "lower" else quotient(tv, size / math.sqrt(2))

    def of_hostile(pair: Pair) -> float:
        found, frobenius, _ = of_pair(pair)
        (m1, s1), (m2, _) = pair
        size = max(frobenius, _whitened(s1, m1 - m2, power))
        return compare(found.upper if side == "lower" else found.lower, size)

    def isotropic(x: FloatArray) -> float:
        # N(0, s^2) and N(s b, s^2 (1 + w)), s = 10^x[0], b = 10^x[1], w = x[2] b
        if abs(x[0]) > 6 or not -8 < x[1] < -2 or abs(x[2]) > 1:
            return math.nan
        s, b = 10 ** x[0], 10 ** x[1]
        w = x[2] * b
        tv = float(total_variation_1d(0.0, s, s * b, s * math.sqrt(1 + w)))
        return compare(tv, max(abs(w), s * b / s ** (2 * power)))

    drawn = by_property(component_pairs(0.007), of_hostile, effort, quick=25, thorough=1000, tolerance=HOSTILE_ROUNDING)
    starts = effort.rng.uniform([-4, -5, -1], [4, -2.5, 1], (effort.of(100, 1000), 3))
    scaled = maximised(
        isotropic,
        starts,
        tolerance=ROUNDING,
        shown_as=lambda x: (
            f"N(0, s^2), N(s b, s^2 (1 + w)), s = {10 ** x[0]:.6g}, b = {10 ** x[1]:.6g}, w = {x[2] * 10 ** x[1]:.6g}"
        ),
    )
    return worst(scaled, drawn)


@claim(
    id="whitening-thesis",
    family=FAMILY,
    source=f"{THESIS}, proof of Theorem 7.1.1",
    statement="TV(N(m1, S1), N(m2, S2)) = TV(N(0, I), N(S1^-1 (m2 - m1), S1^-1/2 S2 S1^-1/2))",
    kind=Kind.QUADRATURE,
    verdict=Verdict.FALSE,
    printed={"power": 1.0},
    contrast={"power": 0.5},
    otherwise="the same with S1^-1/2 (m2 - m1)",
)
def whitening(effort: Effort, *, power: float) -> Finding:
    """|TV of a pair - TV of N(0, I), N(S1^-power (m2 - m1), S1^-1/2 S2 S1^-1/2)| over the sum of the error bounds.

    The left side is the exact formula in one dimension and the contour integral from a Cholesky factor otherwise.
    """
    cases = []
    for _ in range(effort.of(150, 2000)):
        d = int(effort.rng.integers(1, 4))
        roots = effort.rng.normal(size=(2, d, d + 3)) * 10 ** effort.rng.uniform(-2, 2)
        s1, s2 = roots[0] @ roots[0].T, roots[1] @ roots[1].T
        m = np.sqrt(np.diag(s1)) * effort.rng.normal(size=d)
        values, vectors = np.linalg.eigh(s1)
        inverse_root = (vectors * values**-0.5) @ vectors.T
        covariance = inverse_root @ s2 @ inverse_root.T
        shift = (vectors * values**-power) @ vectors.T @ m
        whitened = gaussian_total_variation(np.zeros(d), np.eye(d), shift, (covariance + covariance.T) / 2)
        if d == 1:
            direct, error = float(total_variation_1d(0.0, math.sqrt(s1[0, 0]), m[0], math.sqrt(s2[0, 0]))), 1e-12
        else:
            found = gaussian_total_variation(np.zeros(d), s1, m, s2)
            direct, error = found.value, found.error
        # the whitening here by eigenvectors rounds like the one inside: the error of the direct value counts twice
        difference = quotient(abs(whitened.value - direct), whitened.error + 2 * error)
        cases.append((difference, f"means 0, {shown(m)}, S1 = {shown(s1)}, S2 = {shown(s2)}"))
    return over(cases)


def _whitened(covariance: FloatArray, difference: FloatArray, power: float) -> float:
    values, vectors = np.linalg.eigh(covariance)
    return float(np.linalg.norm(values**-power * (vectors.T @ difference)))
