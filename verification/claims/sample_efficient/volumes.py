"""Determinants, the invariant volume and its growth: Ashtiani, Majid, Narayanan (2024), appendix C."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.sample_efficient.exact import (
    FAMILY,
    PAPER,
    Exact,
    determinant,
    product,
    rational,
    text,
    transposed,
)
from verification.claims.search import by_property, every, over


def _one_more(d: int) -> int:
    return d + 1


def _twice(d: int) -> int:
    return 2 * d


@claim(
    id="congruence-determinant",
    family=FAMILY,
    source=f"{PAPER}, Lemma C.1",
    statement="X -> A X A' on the symmetric d x d matrices has determinant (det A)^(d+1), so |det A|^(d+1)",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"exponent": _one_more},
    contrast={"exponent": _twice},
    otherwise="it has determinant (det A)^(2d), as on all d x d matrices",
    constants="the sign is right too; d <= 4, also singular A",
)
def congruence_determinant(effort: Effort, *, exponent: Callable[[int], int]) -> Finding:
    """det of X -> A X A' on the symmetric matrices against (det A)^exponent, both in rational numbers."""

    def cases() -> Iterator[tuple[bool, object]]:
        for d in (1, 2, 3, 4):
            for _ in range(effort.of(12, 150)):
                a = rational(effort.rng, d, d)
                yield determinant(_congruence(a)) == determinant(a) ** exponent(d), f"A = {text(a)}"

    return every(cases())


@claim(
    id="invariant-weight",
    family=FAMILY,
    source=f"{PAPER}, Lemma C.2",
    statement="a weight on (m, S) is invariant under x -> A x + b only if proportional to det(S)^(-(d+2)/2)",
    kind=Kind.EXACT,
    verdict=Verdict.HOLDS,
    printed={"shift": 2},
    contrast={"shift": 1},
    otherwise="only if proportional to det(S)^(-(d+1)/2)",
    constants="forced, because the maps act transitively: w(B B') = w(I) / |det B|^(d+2)",
)
def invariant_weight(effort: Effort, *, shift: int) -> Finding:
    """Whether det(S)^(-(d + shift)/2) is the invariant weight: squares of both sides, in rational numbers.

    Invariant: w(A S A') J = w(S), J the determinant of (m, S) -> (A m + b, A S A'). Forced: every S is B B', so w(S)
    must be w(I) / J(B). Both are computed from the matrix of the map.
    """

    def squared(s: Exact) -> Fraction:
        return determinant(s) ** -(len(s) + shift)

    def jacobian(a: Exact) -> Fraction:
        return determinant(a) * determinant(_congruence(a))  # block matrix: means by A, covariances by the congruence

    def cases() -> Iterator[tuple[bool, object]]:
        for d in (1, 2, 3):
            for _ in range(effort.of(25, 300)):
                a, b = rational(effort.rng, d, d), rational(effort.rng, d, d)
                if determinant(a) == 0 or determinant(b) == 0:
                    continue
                s = product(b, transposed(b))
                moved = product(a, s, transposed(a))
                invariant = squared(moved) * jacobian(a) ** 2 == squared(s)
                forced = squared(s) * jacobian(b) ** 2 == 1
                yield invariant and forced, f"A = {text(a)}, S = B B', B = {text(b)}"

    return every(cases())


@claim(
    id="determinant-ratio",
    family=FAMILY,
    source=f"{PAPER}, Lemma C.4",
    statement="c >= 1, ||M|| <= g, c g <= 1/2: det(I + c M)/det(I + M) is between ((1 - c g)/(1 - g))^d and "
    "((1 + c g)/(1 + g))^d",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"share": 1.0},
    contrast={"share": 0.98},
    otherwise="between the same bounds with .98 d in place of d",
    constants="attained by M = -g I and M = g I; M need not be symmetric",
)
def determinant_ratio(effort: Effort, *, share: float) -> Finding:
    """det(I + c M) / det(I + M) against both bounds to the power ``share``; M need not be symmetric."""
    from hypothesis import strategies as st

    from verification.claims.common.strategies import rotation

    @st.composite
    def matrices(draw: st.DrawFn) -> tuple[FloatArray, float]:
        d = draw(st.integers(1, 4))
        values = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]) | st.floats(-1, 1), min_size=d, max_size=d)))
        left = rotation(d, draw(st.integers(0, 2**32 - 1)))
        right = left if draw(st.booleans()) else rotation(d, draw(st.integers(0, 2**32 - 1)))
        c = draw(st.sampled_from([1.0, 2.0]) | st.floats(1, 1e6))
        reach = draw(st.sampled_from([0.5, 0.1]) | st.floats(1e-3, 0.5)) / c
        return reach * (left * values) @ right.T, c

    def ratio(case: tuple[FloatArray, float]) -> float:
        m, c = case
        d, g = len(m), float(np.linalg.norm(m, 2))
        if c * g > 0.5 * (1 + 1e-12):
            return math.nan
        logs = np.linalg.slogdet(np.eye(d) + c * m)[1] - np.linalg.slogdet(np.eye(d) + m)[1]
        low, high = (d * (math.log1p(s * c * g) - math.log1p(s * g)) for s in (-1, 1))
        return math.exp(max(logs - share * high, share * low - logs))

    # condition numbers of at most 3, so the logarithms of the determinants are right to d^2 1e-15
    return by_property(matrices(), ratio, effort, quick=150, tolerance=1e-12)


@claim(
    id="volume-ratio",
    family=FAMILY,
    source=f"{PAPER}, Lemma C.5",
    statement="c1, c2 >= 1, c2 g <= 1/2: the normalised volume grows by c1^d c2^(d(d+1)/2) times a factor "
    "between 1 and exp(.36 c2 g d^2)",
    kind=Kind.QUADRATURE,
    verdict=Verdict.HOLDS,
    printed={"constant": 0.36},
    contrast={"constant": 0.35},
    otherwise="between 1 and exp(.35 c2 g d^2)",
    constants="exp(O(c2 g d^2)) in the paper; the largest constant for d <= 3 is that of d = 1",
)
def volume_ratio(effort: Effort, *, constant: float) -> Finding:
    """The factor beyond c1^d c2^(d(d+1)/2) against exp(``constant`` c2 g d^2), and 1 against it; d <= 3.

    The volume of {||M|| <= g} with weight det(I + M)^-p is an integral over ordered eigenvalues with the Vandermonde
    product, smooth, so Gauss-Legendre rules give it. p = (d+2)/2 for the elements close to a centre, (d+1)/2 for the
    centres close to an element. The means contribute c1^d exactly.
    """
    figures: dict[str, float] = {}

    def cases() -> Iterator[tuple[float, object]]:
        grid = [(0.5 / c, c) for c in (1.01, 1.5, 2.0, 5.0, 10.0, 100.0, 1e4)] + [(0.01, 10.0), (0.1, 2.0), (0.02, 1.1)]
        for _ in range(effort.of(6, 200)):
            c = float(np.exp(effort.rng.uniform(0, 7)))
            grid.append((float(effort.rng.uniform(0.01, 0.5)) / c, c))
        for d in (1, 2, 3):
            for power in ((d + 2) / 2, (d + 1) / 2):
                for g, c in grid:
                    extra = _average(d, power, c * g) / _average(d, power, g)
                    needed = math.log(extra) / (c * g * d**2)
                    name = f"constant needed, d = {d}, power {power:g}"
                    figures[name] = max(figures.get(name, 0.0), needed)
                    largest = max(1 / extra, extra / math.exp(constant * c * g * d**2))
                    yield largest, {"d": d, "power": power, "g": g, "c2": c, "extra": extra}
        for g, c in ((0.01, 10.0), (0.05, 10.0), (0.1, 5.0)):
            figures[f"extra factor, d = 1, g = {g:g}, c2 = {c:g}"] = _average(1, 1.5, c * g) / _average(1, 1.5, g)

    # the quadrature is compared with the closed form of d = 1
    largest_error = max(abs(_average(1, 1.5, g) / _closed(g) - 1) for g in (0.01, 0.1, 0.5))
    found = over(cases(), tolerance=1e-10)
    return found.with_figures(figures | {"relative error of the quadrature, d = 1": largest_error})


def _congruence(a: Exact) -> Exact:
    """Matrix of X -> A X A' in the coordinates X_ij, i <= j."""
    d = len(a)
    places = [(i, j) for i in range(d) for j in range(i, d)]
    columns = []
    for p, q in places:
        unit = [[Fraction(int((i, j) in ((p, q), (q, p)))) for j in range(d)] for i in range(d)]
        image = product(a, unit, transposed(a))
        columns.append([image[i][j] for i, j in places])
    return transposed(columns)


def _average(d: int, power: float, reach: float) -> float:
    """Mean of det(I + M)^-power over the symmetric M with spectral norm at most ``reach``."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    u, w = (nodes + 1) / 2, weights / 2
    grids = np.meshgrid(*[u] * d, indexing="ij")
    total = np.ones_like(grids[0])
    for axis in range(d):
        total = total * w.reshape([-1 if i == axis else 1 for i in range(d)])
    values, top = [], np.ones_like(grids[0])
    for share in grids:  # ordered: every value is a share of the one before, on [-1, top]
        total, top = total * (top + 1), (top + 1) * share - 1
        values.append(top)
    for i in range(d):
        for j in range(i):
            total = total * (values[j] - values[i])
    integrand = np.prod([(1 + reach * value) ** -power for value in values], axis=0)
    return float(np.sum(total * integrand) / np.sum(total))


def _closed(g: float) -> float:
    """`_average` for d = 1 and power 3/2."""
    return (1 / math.sqrt(1 - g) - 1 / math.sqrt(1 + g)) / g
