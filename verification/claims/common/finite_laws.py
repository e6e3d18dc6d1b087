"""Laws on at most six points with rational masses, compared without rounding, and Hypothesis strategies for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from hypothesis import strategies as st

Law = tuple[Fraction, ...]
Rows = tuple[Law, ...]
Entries = tuple[tuple[int, ...], ...]

_masses = st.sampled_from([0, 0, 0, 1, 2, 3, 5, 10, 37, 100, 10**6, 10**12])
_steps = st.sampled_from([Fraction(1), Fraction(0), Fraction(1, 10), Fraction(1, 10**3), Fraction(1, 10**9)])


def tv(p: Law, q: Law) -> Fraction:
    """Total variation distance."""
    return hockey_stick(p, q, Fraction(1))


def hockey_stick(p: Law, q: Law, growth: Fraction) -> Fraction:
    """sup_S P(S) - growth Q(S), with growth = e^epsilon at least 1."""
    return sum((max(Fraction(0), x - growth * y) for x, y in zip(p, q, strict=True)), Fraction(0))


def product_law(laws: Sequence[Law]) -> Law:
    """Joint law of independent draws."""
    return tuple(math.prod(point, start=Fraction(1)) for point in itertools.product(*laws))


def mixed(weights: Law, laws: Sequence[Law]) -> Law:
    """sum of w_i P_i."""
    return tuple(
        sum((w * law[x] for w, law in zip(weights, laws, strict=True)), Fraction(0)) for x in range(len(laws[0]))
    )


def normalised(masses: Sequence[Fraction | int]) -> Law:
    """Masses over their sum."""
    total = sum(masses, Fraction(0))
    return tuple(Fraction(mass) / total for mass in masses)


def share(left: Fraction, right: Fraction) -> float:
    """left / right of exact numbers of at least 0, where 0 <= 0 holds; above 1 exactly when left > right."""
    if right == 0:
        return 0.0 if left == 0 else math.inf
    found = float(left / right)
    return found if (found > 1) == (left > right) else (1.0 if left <= right else math.nextafter(1.0, 2.0))


def text(*laws: Law) -> str:
    """The laws as fractions."""
    return "; ".join("(" + ", ".join(str(mass) for mass in law) + ")" for law in laws)


def laws(size: int) -> st.SearchStrategy[Law]:
    """Zeros, equal masses and tiny masses are common."""
    return st.tuples(*[_masses] * size).filter(any).map(normalised)


@st.composite
def law_pairs(
    draw: st.DrawFn, max_size: int = 6, size: int | None = None, step: Fraction | None = None
) -> tuple[Law, Law]:
    """Two laws on the same points: unrelated, equal, or the second a small ``step`` away from the first."""
    n = size or draw(st.integers(1, max_size))
    first = draw(laws(n))
    step = draw(_steps) if step is None else step
    return first, mixed((1 - step, step), (first, draw(laws(n)))) if step else first


@st.composite
def factors(draw: st.DrawFn) -> list[tuple[Law, Law]]:
    """Up to three pairs of laws, often the same pair again."""
    first, n = draw(law_pairs(4)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        return [first] * n
    return [first, *(draw(law_pairs(4)) for _ in range(n - 1))]


@st.composite
def processed_pairs(draw: st.DrawFn, rejecting: bool) -> tuple[tuple[Law, Law], Rows]:
    """Two laws and a map of their points to laws on other points; ``rejecting``: to nothing for some."""
    pair = draw(law_pairs())
    n = len(pair[0])
    size = n if (same := draw(st.booleans())) else draw(st.integers(1, 6))
    rows: list[Law] = []
    for i in range(n):
        place = i if same else draw(st.integers(0, size - 1))
        point = tuple(Fraction(int(x == place)) for x in range(size))
        rows.append(point if draw(st.booleans()) else draw(laws(size)))
        if rejecting and draw(st.booleans()):
            rows[-1] = (Fraction(0),) * size
    return pair, tuple(rows)


@st.composite
def weighted_pairs(draw: st.DrawFn) -> tuple[Law, list[tuple[Law, Law]], Fraction]:
    """Weights of up to three components, a pair of laws for each on the same points, and a growth e^epsilon.

    Often all pairs are equally close, so that only the weights can tell the mixtures apart.
    """
    k, size = draw(st.sampled_from([2, 1, 3])), draw(st.integers(1, 6))
    step = draw(st.sampled_from([None, Fraction(0), Fraction(0), Fraction(1, 10**9)]))
    pairs = [draw(law_pairs(size=size, step=step)) for _ in range(k)]
    return draw(laws(k)), pairs, draw(growths())


def growths() -> st.SearchStrategy[Fraction]:
    """e^epsilon, at least 1."""
    return st.sampled_from([Fraction(1), Fraction(1), Fraction(21, 20), Fraction(3, 2), Fraction(3), Fraction(20)])


@st.composite
def law_pairs_with_growth(draw: st.DrawFn) -> tuple[Law, Law, Fraction]:
    """Two laws and a growth; some points have exactly that ratio of masses."""
    first, second = draw(law_pairs())
    growth = draw(growths())
    if draw(st.booleans()):  # second' = first / growth on some points: losses of exactly epsilon
        kept = [x / growth if draw(st.booleans()) else Fraction(0) for x in first]
        rest = 1 - sum(kept, Fraction(0))
        second = tuple(y + rest * z for y, z in zip(kept, second, strict=True))
    return first, second, growth


@st.composite
def roots_of_covariances(draw: st.DrawFn) -> tuple[Entries, Entries]:
    """Two integer matrices B, (d, d) with d at most 3: I + B B' is a positive definite root of a covariance."""
    d = draw(st.integers(1, 3))
    matrix = st.tuples(*[st.tuples(*[st.integers(-3, 3)] * d)] * d)
    return draw(matrix), draw(matrix)
