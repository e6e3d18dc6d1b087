"""Near isometries and the tail of a quadratic form: Ashtiani, Majid, Narayanan (2024), appendix A."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.common.distances import FloatArray
from verification.claims.sample_efficient.exact import FAMILY, PAPER
from verification.claims.search import by_property, over, quotient, shown, worst

ROUNDING = 1e-9  # products of matrices with d <= 4, compared at phi >= 1e-4: at most 1e-13 / 1e-4
CORNER = (1 - math.log(2)) / 2  # largest constant of the Hanson-Wright inequality, proof in the claim


@claim(
    id="near-isometry",
    family=FAMILY,
    source=f"{PAPER}, Lemma A.6",
    statement="||J J' - I|| <= phi <= 1 implies (1 - 3 phi) ||M||_F^2 <= ||J'MJ||_F^2 <= (1 + 3 phi) ||M||_F^2",
    kind=Kind.PROPERTY,
    verdict=Verdict.HOLDS,
    printed={"factor": 3.0},
    contrast={"factor": 2.95},
    otherwise="the same with 2.95 phi",
    constants="exactly (1 - phi)^2 to (1 + phi)^2, so 3 is needed at phi = 1 and too small beyond",
)
def near_isometry(effort: Effort, *, factor: float) -> Finding:
    """| ||J' M J||^2 - ||M||^2 | against ``factor`` phi ||M||^2, phi the spectral norm of J J' - I; J may be wide."""
    tight = [0.0]

    def ratio(case: tuple[FloatArray, FloatArray]) -> float:
        j, m = case
        phi = float(np.linalg.norm(j @ j.T - np.eye(len(j)), 2))
        before, after = (float(np.sum(np.square(x))) for x in (m, j.T @ m @ j))
        if not 1e-4 <= phi <= 1 + 1e-12 or before == 0:
            return math.nan
        below = (1 - phi) ** 2 * before / after if phi < 0.99 else 0.0
        tight[0] = max(tight[0], after / ((1 + phi) ** 2 * before), below)
        return quotient(abs(after - before), factor * phi * before)

    found = by_property(_near_isometries(), ratio, effort, tolerance=ROUNDING)
    ends = over(
        (
            (ratio((math.sqrt(1 + s) * np.eye(d), np.ones((d, d)))), f"J = sqrt({1 + s:.6g}) I, M = ones, d = {d}")
            for d in (1, 2)
            for s in (-1.0, -0.5, -0.1, 0.1, 0.5, 1.0)
        ),
        tolerance=ROUNDING,
    )
    joined = worst(found, ends)
    return replace(joined, figures={"largest share of the interval (1 - phi)^2 to (1 + phi)^2": tight[0]})


@claim(
    id="hanson-wright",
    family=FAMILY,
    source=f"{PAPER}, Theorem A.7, with the constant that Laurent and Massart (2000) give",
    statement="P(|g'Ag - tr A| >= t) <= 2 exp(-min(t^2/||A||_F^2, t/||A||)/16), g standard normal",
    kind=Kind.EXACT,
    verdict=Verdict.SLACK,
    printed={"constant": 1 / 16},
    contrast={"constant": 0.157},
    otherwise="the same with .157 in place of 1/16",
    constants="(1 - ln 2)/2 = .15343 is the best constant: Chernoff's exponent v h(t/v), with "
    "h(u) = (u - ln(1 + u))/2, v = ||A||_F^2/||A||^2, is least at u = 1; A = I_k, t = k reaches it as k grows",
)
def hanson_wright(effort: Effort, *, constant: float) -> Finding:
    """P(|g'Ag - tr A| >= t) against 2 exp(-c min(t^2 / ||A||_F^2, t / ||A||)), from the exact law of the form.

    The law depends on the eigenvalues of the symmetric part of A alone. One eigenvalue of any multiplicity gives a
    chi-square law, distinct eigenvalues of multiplicity two a mixture of exponential laws.
    """
    largest, least = 0.0, math.inf

    def compared(probability: float, t: float, square: float, top: float) -> float:
        nonlocal largest, least
        exponent = min(t**2 / square, t / top)
        largest = max(largest, probability * math.exp(constant * exponent))
        least = min(least, -math.log(probability / 2) / exponent)
        return math.exp(math.log(probability / 2) + constant * exponent)

    def cases() -> Iterator[tuple[float, object]]:
        counts = [1, 2, 3, 5, 10, 30, 100, 300, 1000, 2000, 4000, *effort.rng.integers(2, 4000, effort.of(5, 200))]
        for k in map(float, counts):
            for u in (1e-3, 0.01, 0.1, 0.3, 0.6, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0, 10.0):
                tail = float(special.chdtrc(k, k * (1 + u)) + special.chdtr(k, max(0.0, k * (1 - u))))
                if tail > 1e-290:
                    yield compared(tail, u * k, k, 1.0), f"A = I_{k:.0f}, t = {u * k:.6g}"
        for _ in range(effort.of(200, 4000)):
            values = _separated(effort.rng)
            square, top = 2 * float(np.sum(values**2)), float(np.abs(values).max())
            for u in (0.01, 0.3, 1.0, 2.0, 4.0):
                t = u * square / top
                tail = _pairs_tail(values, t + 2 * values.sum()) + _pairs_tail(-values, t - 2 * values.sum())
                if tail > 1e-6:  # differences of weights below 1e4, so relative errors below 1e-5
                    yield compared(tail, t, square, top), f"eigenvalues {shown(values)}, each twice, t = {t:.6g}"

    found = over(cases())
    figures = {"least constant c needed": least, "(1 - ln 2)/2": CORNER, "largest with 1 in place of 2": largest}
    return found.with_figures(figures)


def _near_isometries() -> Any:
    """(J, M): J with d rows, at least d columns and J J' - I of spectral norm at most 1; M up to 1e8 across."""
    from hypothesis import strategies as st

    from verification.claims.common.strategies import rotation

    seeds, signs = st.integers(0, 2**32 - 1), st.sampled_from([-1.0, 0.0, 1.0]) | st.floats(-1, 1)

    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[FloatArray, FloatArray]:
        d = draw(st.integers(1, 4))
        phi = draw(st.sampled_from([1.0, 1 - 1e-12, 0.5]) | st.floats(1e-3, 1))
        values = np.sqrt(1 + phi * np.array(draw(st.lists(signs, min_size=d, max_size=d))))
        columns = d + draw(st.integers(0, 2))
        left, right = rotation(d, draw(seeds)), rotation(columns, draw(seeds))
        scales = 10.0 ** np.array(draw(st.lists(st.floats(-4, 4), min_size=d, max_size=d)))
        m = (rotation(d, draw(seeds)) * scales) @ rotation(d, draw(seeds)).T
        return (left * values) @ right[:, :d].T, m

    return drawn()


def _separated(rng: np.random.Generator) -> FloatArray:
    """Two to four eigenvalues of any sign, no two of them close."""
    while True:
        values = rng.choice([-1.0, 1.0], 4) * np.exp(rng.uniform(-3, 3, 4))
        values = values[: int(rng.integers(2, 5))]
        gaps = np.abs(values[:, None] - values)[~np.eye(len(values), dtype=bool)]
        if gaps.min() > 0.1 * np.abs(values).max():
            return np.asarray(values)


def _pairs_tail(values: FloatArray, x: float) -> float:
    """P(sum of 2 values E >= x), E independent exponential variables: partial fractions of the transform."""
    if x < 0:
        return 1 - _pairs_tail(-values, -x)
    differences = values[:, None] - values + np.eye(len(values))
    ratios = np.where(np.eye(len(values), dtype=bool), 1.0, values[:, None] / differences)
    positive = values > 0
    weights = np.prod(ratios, axis=1)[positive]
    return float(np.sum(weights * np.exp(-x / (2 * values[positive]))))
