"""Searches over pairs of Gaussians for the claims on their total variation distance.

Total variation does not change under affine maps, so N(0, I) against N(b, I + diag(w)) is every pair, up to the two
distances of the papers, which do not change either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pm_dpgmm.mixture.total_variation import total_variation_1d
from verification.claims.claim import Effort, Finding
from verification.claims.common.distances import Component, FloatArray, mahalanobis, one_sided
from verification.claims.search import maximised, shown, worst
from verification.references.gaussian_total_variation import Estimate, gaussian_total_variation, of_spectrum

FAMILY = "tv bounds"
PAPER = "Arbas, Ashtiani, Liaw (2023)"
THESIS = "Arbas (2023)"
SMALL = 1 / 600  # total variation below which the papers compare it with the parameters
# The reference is within 1e-12 of max(norm of w, norm of b), and that is at most five times the distance while small.
ROUNDING = 1e-10
# Whitening of d <= 3 columns at condition number 1e6 moves both sides by at most 8 d^2 2.2e-16 1e6 of themselves.
HOSTILE_ROUNDING = 1e-6

Ratio = Callable[[FloatArray, FloatArray], float]  # (w, b) -> left over right


def distance(w: FloatArray, b: FloatArray) -> float:
    """Total variation of N(0, I) and N(b, I + diag(w)): exact formula for d = 1, contour integral otherwise."""
    if len(w) == 1:
        return float(total_variation_1d(0.0, 1.0, b[0], math.sqrt(1 + w[0])))
    return of_spectrum(w, b).value


def parameters(w: FloatArray, b: FloatArray) -> float:
    """Delta = max(||S1^-1/2 S2 S1^-1/2 - I||_F, ||S1^-1/2 (m1 - m2)||); searching all w covers the other order."""
    return max(float(np.linalg.norm(w)), float(np.linalg.norm(b)))


def of_pair(pair: tuple[Component, Component]) -> tuple[Estimate, float, float]:
    """(total variation, Frobenius part, mean part) of a pair, both parts in the coordinates of the first."""
    (m1, s1), (m2, s2) = pair
    return gaussian_total_variation(m1, s1, m2, s2), one_sided(s1, s2), mahalanobis(m1 - m2, s1)


def searched(
    ratio: Ratio,
    effort: Effort,
    *,
    close: bool,
    means: bool = True,
    dims: Sequence[int] = (1, 2, 6),
    quick: int = 12,
    thorough: int = 150,
    reach: float = 2.0,
) -> Finding:
    """Largest ratio over spectra and directions of the mean, for every d of ``dims``.

    ``close``: Delta from 1e-4 to .01 and total variation below 1/600. Otherwise log variances and shifts from 1e-3 of
    ``reach`` to ``reach`` at the start of the search.
    """
    found = []

    def norms(rows: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(rows, axis=1))

    for d in dims:

        def pair(x: FloatArray, d: int = d) -> tuple[FloatArray, FloatArray] | None:
            # the last coordinate is the logarithm of the size, which the search then moves by itself
            w, b = x[:d], x[d : 2 * d] if means else np.zeros(d)
            if close:
                if x[-1] > -2 or x[-1] < -5 or not parameters(w, b) > 0:
                    return None
                size = 10 ** x[-1] / parameters(w, b)
                return w * size, b * size
            if max(np.abs(w).max(), np.abs(b).max()) > 30:  # variances to exp(30)
                return None
            return np.expm1(w), b

        def value(x: FloatArray, pair: Callable[[FloatArray], Any] = pair) -> float:
            case = pair(x)
            return math.nan if case is None else ratio(*case)

        def text(x: FloatArray, pair: Callable[[FloatArray], Any] = pair) -> str:
            case = pair(x)
            return (
                "nothing" if case is None else f"N(0, I), N(b, I + diag(w)), w = {shown(case[0])}, b = {shown(case[1])}"
            )

        n = effort.of(quick, thorough)
        starts = effort.rng.normal(size=(n, (2 if means else 1) * d + (1 if close else 0)))
        if close:
            starts[:, -1] = effort.rng.uniform(-4, -2.2, n)
        else:
            starts *= reach * 10 ** effort.rng.uniform(-3, 0, (n, 1))
        if means:  # many worst cases have a part that is exactly 0, or one common direction
            starts[::4, :d] = 0.0
            starts[1::4, d : 2 * d] = 0.0
            starts[2::4, :d] = starts[2::4, :1]
            starts[2::4, d : 2 * d] *= (norms(starts[2::4, :d]) / norms(starts[2::4, d : 2 * d]))[:, None]
        found.append(maximised(value, starts, tolerance=ROUNDING, polished=2, steps=effort.of(120, 900), shown_as=text))
    return worst(*found)
