"""What the claims on Ashtiani, Majid, Narayanan (2024) share: names, exact matrices, and several bounds in one claim.

The paper's constants are often hidden in O(.) or words; each statement says which explicit constant is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from verification.claims.claim import Finding

FAMILY = "sample-efficient"
PAPER = "Ashtiani, Majid, Narayanan (2024)"

Exact = list[list[Fraction]]  # rows of a matrix of rational numbers


def enough(findings: Sequence[Finding], needed: int) -> Finding:
    """The statement that at least ``needed`` of the bounds hold: the finding of the one in that place.

    With all of them it is the statement that every bound holds; with 1 it is false only if each bound is violated,
    so that the contrast of a claim with several bounds tests them all.
    """
    ordered = sorted(findings, key=lambda finding: finding.largest)
    figures: dict[str, float] = {}
    for finding in findings:
        figures |= finding.figures
    n_cases = sum(finding.n_cases for finding in findings)
    return replace(ordered[needed - 1], n_cases=n_cases, figures=figures)


def rational(rng: np.random.Generator, rows: int, columns: int) -> Exact:
    """Random quotients of small integers, some zero; rows at scales from 1e-4 to 1e4 in half of the matrices."""
    spread = 4 if rng.random() < 0.5 else 0
    scales = [Fraction(10) ** int(rng.integers(-spread, spread + 1)) for _ in range(rows)]
    return [
        [scale * Fraction(int(rng.integers(-6, 7)), int(rng.integers(1, 5))) for _ in range(columns)]
        for scale in scales
    ]


def text(matrix: Exact) -> str:
    """Rows with semicolons between."""
    return "[" + "; ".join(", ".join(map(str, row)) for row in matrix) + "]"


def identity(d: int) -> Exact:
    """I."""
    return [[Fraction(int(i == j)) for j in range(d)] for i in range(d)]


def product(*matrices: Exact) -> Exact:
    """Product from left to right."""
    result = matrices[0]
    for matrix in matrices[1:]:
        columns = list(zip(*matrix, strict=True))
        result = [
            [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in columns]
            for row in result
        ]
    return result


def transposed(matrix: Exact) -> Exact:
    """Rows and columns exchanged."""
    return [list(column) for column in zip(*matrix, strict=True)]


def minus(first: Exact, second: Exact) -> Exact:
    """Difference of two matrices of one shape."""
    return [[a - b for a, b in zip(r, s, strict=True)] for r, s in zip(first, second, strict=True)]


def trace(matrix: Exact) -> Fraction:
    """Sum of the diagonal."""
    return sum((matrix[i][i] for i in range(len(matrix))), Fraction(0))


def determinant(matrix: Exact) -> Fraction:
    """By elimination, exactly."""
    return _eliminated(matrix)[0]


def inverse(matrix: Exact) -> Exact:
    """By elimination, exactly; the matrix must be invertible."""
    return _eliminated(matrix)[1]


def _eliminated(matrix: Exact) -> tuple[Fraction, Exact]:
    """Determinant and, unless it is 0, the inverse."""
    d, value = len(matrix), Fraction(1)
    rows = [[*row, *unit] for row, unit in zip(matrix, identity(d), strict=True)]
    for i in range(d):
        pivot = next((j for j in range(i, d) if rows[j][i] != 0), None)
        if pivot is None:
            return Fraction(0), []
        if pivot != i:
            rows[i], rows[pivot] = rows[pivot], rows[i]
            value = -value
        value *= rows[i][i]
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for j in range(d):
            if j != i and rows[j][i] != 0:
                factor = rows[j][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return value, [row[d:] for row in rows]
