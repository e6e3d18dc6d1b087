"""Kullback-Leibler divergence and relative eigenvalues of Gaussians: Arbas, Ashtiani, Liaw (2023), appendix A."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import integrate, optimize, stats

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import Component, FloatArray, mahalanobis, one_sided, relative_change
from verification.claims.search import by_property, maximised, over, quotient, worst

if TYPE_CHECKING:
    from verification.claims.common.finite_laws import Entries

FAMILY = "common facts"
PAPER = "Arbas, Ashtiani, Liaw (2023)"


@claim(
    id="kl-of-gaussians",
    family=FAMILY,
    source=f"{PAPER}, A.3",
    statement="KL(N1, N2) = (tr(S2^-1 S1) - d - ln det(S2^-1 S1) + (m1 - m2)' S2^-1 (m1 - m2)) / 2",
    kind=Kind.QUADRATURE,
    verdict=Verdict.HOLDS,
    printed={"whitened_by": 2},
    contrast={"whitened_by": 1},
    otherwise="the same with (m1 - m2)' S1^-1 (m1 - m2)",
)
def kl_formula(effort: Effort, *, whitened_by: int) -> Finding:
    """The closed form over the integral of ln(p1/p2) dP1, and the reverse; ``whitened_by``: covariance for the means.

    One column: adaptive quadrature. Up to three columns: Gauss-Hermite nodes, exact since ln(p1/p2) is quadratic.
    """

    def cases() -> list[tuple[float, object]]:
        found: list[tuple[float, object]] = []
        for i in range(effort.of(60, 600)):
            d = 1 + i % 3
            first, second = _component(effort.rng, d), _component(effort.rng, d)
            formula, integral = kl_of_gaussians(first, second, whitened_by=whitened_by), _kl_integral(first, second)
            found.append((max(formula / integral, integral / formula), {"N1": first, "N2": second}))
        return found

    return over(cases(), tolerance=1e-8)  # adaptive quadrature to 1e-10, whitening at condition numbers of 1e2


@claim(
    id="kl-upper-bound",
    family=FAMILY,
    source=f"{PAPER}, A.3",
    statement="KL <= (||S2^-1/2 S1 S2^-1/2 - I||_F^2 + maha^2) / 2 if that matrix has eigenvalues >= 1/2 only",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"least": 0.5},
    contrast={"least": 0.3161},
    otherwise="the same for relative eigenvalues of at least .3161",
    constants="true down to eigenvalues of .316197, root of l - 1 - ln l = (l - 1)^2; .7726 F^2 is "
    "enough at 1/2; the term in the means is exact",
)
def kl_upper_bound(effort: Effort, *, least: float) -> Finding:
    """2 KL - maha^2 over F^2 (maha^2 is on both sides), relative eigenvalues at least ``least``, many of them exactly.

    The figures hold the true threshold, the root below 1 of l - 1 - ln l = (l - 1)^2.
    """

    def of_matrices() -> list[tuple[float, object]]:
        found: list[tuple[float, object]] = []
        for _ in range(effort.of(150, 3000)):
            d = int(effort.rng.integers(1, 5))
            second = _component(effort.rng, d)
            ratios = np.maximum(least, np.exp(effort.rng.normal(math.log(least), 1.5, d)))
            q, factor = rotation(d, effort.rng), np.linalg.cholesky(second[1])
            covariance = factor @ ((q * ratios) @ q.T) @ factor.T
            first = (second[0] + factor @ effort.rng.normal(size=d), (covariance + covariance.T) / 2)
            left = 2 * kl_of_gaussians(first, second) - mahalanobis(first[0] - second[0], second[1]) ** 2
            size = one_sided(second[1], first[1])
            found.append((left / size**2, {"eigenvalues": ratios, "N1": first, "N2": second}))
        return found

    def ratio(x: FloatArray) -> float:
        change = np.maximum(least, np.exp(x)) - 1
        return quotient(float(np.sum(above_log(change))), float(np.sum(change**2)))

    starts = [np.log(least) + 3 * effort.rng.random(d) for d in (1, 2, 3) for _ in range(4)]
    threshold = optimize.brentq(lambda x: float(above_log(np.array(x - 1))) - (x - 1) ** 2, 0.1, 0.9, xtol=1e-14)
    rounding = 1e-9  # condition numbers of 1e2 in the whitening, a shift of some standard deviations that cancels
    return worst(
        over(of_matrices(), tolerance=rounding, figures={"least eigenvalue of all": threshold}),
        maximised(ratio, starts, tolerance=rounding, shown_as=lambda x: {"eigenvalues": np.maximum(least, np.exp(x))}),
    )


@claim(
    id="same-spectrum",
    family=FAMILY,
    source=f"{PAPER}, A.9",
    statement="S1^-1/2 S2 S1^-1/2, S2^1/2 S1^-1 S2^1/2 and S1^-1 S2 have the same eigenvalues",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"singular": False},
    contrast={"singular": True},
    otherwise="and the same singular values",
)
def same_spectrum(effort: Effort, *, singular: bool) -> Finding:
    """Characteristic polynomials of R1^-1 S2 R1^-1, R2 S1^-1 R2 and S1^-1 S2, S = R^2, in rational arithmetic.

    ``singular``: the same of their singular values; the last matrix is not symmetric.
    """
    from verification.claims.common import finite_laws as finite

    def ratio(case: tuple[Entries, Entries]) -> float:
        r1, r2 = (_root(entries) for entries in case)
        s1, s2 = r1 @ r1, r2 @ r2
        inner, outer = _inverse(r1) @ s2 @ _inverse(r1), r2 @ _inverse(s1) @ r2
        plain = _inverse(s1) @ s2
        values = [_characteristic(m.T @ m if singular else m) for m in (inner, outer, plain)]
        return 0.0 if values[0] == values[1] == values[2] else math.inf

    return by_property(finite.roots_of_covariances(), ratio, effort)


def kl_of_gaussians(first: Component, second: Component, *, whitened_by: int = 2) -> float:
    """(tr(S2^-1 S1) - d - ln det(S2^-1 S1) + ||S2^-1/2 (m1 - m2)||^2) / 2."""
    change: FloatArray = np.asarray(np.linalg.eigvalsh(relative_change(second[1], first[1])), dtype=float)
    shift = mahalanobis(first[0] - second[0], second[1] if whitened_by == 2 else first[1])
    return (float(np.sum(above_log(change))) + shift**2) / 2


def rotation(d: int, rng: np.random.Generator) -> FloatArray:
    """Random orthogonal matrix."""
    return np.asarray(np.linalg.qr(rng.standard_normal((d, d)))[0])


def above_log(u: FloatArray) -> FloatArray:
    """u - ln(1 + u), by its series near 0, where the difference has no digits left."""
    small = np.where(np.abs(u) < 1e-2, u, 0.0)
    series = sum(((-1) ** n * small**n / n for n in range(2, 10)), np.zeros_like(small))
    return np.where(np.abs(u) < 1e-2, series, u - np.log1p(u))


def _kl_integral(first: Component, second: Component) -> float:
    d, factor = len(first[0]), np.linalg.cholesky(first[1])
    laws = [stats.multivariate_normal(mean, covariance) for mean, covariance in (first, second)]

    def log_ratio(z: FloatArray) -> FloatArray:
        x = first[0] + z @ factor.T
        return np.asarray(laws[0].logpdf(x) - laws[1].logpdf(x))

    if d == 1:
        law = stats.norm.pdf
        return float(
            integrate.quad(lambda z: law(z) * float(log_ratio(np.array([[z]]))), -38, 38, points=[0], epsrel=1e-10)[0]
        )
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    points = np.array(list(itertools.product(nodes, repeat=d)))
    shares = np.array([math.prod(part) for part in itertools.product(weights / weights.sum(), repeat=d)])
    return float(shares @ log_ratio(points))


def _component(rng: np.random.Generator, d: int) -> Component:
    """Condition number to 100, scales over four orders of magnitude, a mean some standard deviations from 0."""
    q, scale = rotation(d, rng), 10.0 ** rng.uniform(-0.5, 0.5)
    covariance = (q * 10.0 ** rng.uniform(-1, 1, d)) @ q.T * scale**2
    return rng.normal(size=d) * scale, (covariance + covariance.T) / 2


def _characteristic(matrix: Any) -> list[Fraction]:
    """Coefficients of det(x I - A), A with rational entries: Faddeev and LeVerrier."""
    return _faddeev(matrix)[0]


def _inverse(matrix: Any) -> Any:
    """A^-1 of rational entries, from the same recursion."""
    coefficients, last = _faddeev(matrix)
    return last * (-1 / coefficients[-1])


def _faddeev(matrix: Any) -> tuple[list[Fraction], Any]:
    unit = _identity(len(matrix))
    product, coefficients, last = unit * Fraction(0), [Fraction(1)], unit
    for k in range(1, len(matrix) + 1):
        last = product + unit * coefficients[-1]
        product = matrix @ last
        coefficients.append(-Fraction(np.trace(product)) / k)
    return coefficients, last


def _identity(d: int) -> Any:
    return np.array([[Fraction(int(i == j)) for j in range(d)] for i in range(d)], dtype=object)


def _root(entries: Entries) -> Any:
    matrix = np.array([[Fraction(entry) for entry in row] for row in entries], dtype=object)
    return _identity(len(matrix)) + matrix @ matrix.T
