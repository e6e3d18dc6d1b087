"""Privacy losses and deltas of small mechanisms in closed form, without the code of the package."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]
Laplace = tuple[float, float]  # centre, scale


def laplace_loss(first: Laplace, second: Laplace) -> float:
    """Supremum over outputs of |log p - log q| of two Laplace densities; infinite when the scales differ."""
    (m1, s1), (m2, s2) = first, second
    return abs(m1 - m2) / s1 if s1 == s2 else math.inf


def laplace_delta(first: Laplace, second: Laplace, epsilon: float) -> float:
    """Hockey stick of two Laplace laws, ``first`` over ``second``; ``epsilon`` may be negative.

    log p - log q is linear between the centres and beyond, so it crosses ``epsilon`` at most once on each piece.
    """
    (m1, s1), (m2, s2) = first, second

    def loss(x: float) -> float:
        return abs(x - m2) / s2 - abs(x - m1) / s1 + math.log(s2 / s1)

    low, high = min(m1, m2), max(m1, m2)
    cuts = {low, high}
    for inside, left, right in ((low - s1, -math.inf, low), ((low + high) / 2, low, high), (high + s1, high, math.inf)):
        slope = math.copysign(1, inside - m2) / s2 - math.copysign(1, inside - m1) / s1
        if slope != 0 and left < right:
            root = inside + (epsilon - loss(inside)) / slope
            if left < root < right:
                cuts.add(root)
    ends = [-math.inf, *sorted(cuts), math.inf]
    total = 0.0
    for a, b in itertools.pairwise(ends):
        middle = (a + b) / 2 if math.isfinite(a + b) else (b - s1 if math.isfinite(b) else a + s1)
        if a < b and loss(middle) > epsilon:
            total += _between(a, b, m1, s1) - math.exp(epsilon) * _between(a, b, m2, s2)
    return max(0.0, total)


def _between(a: float, b: float, centre: float, scale: float) -> float:
    """Probability of (a, b], without cancellation on either side of the centre."""
    x, y = (a - centre) / scale, (b - centre) / scale
    if x >= 0:
        return (math.exp(-x) - math.exp(-y)) / 2
    if y <= 0:
        return (math.exp(y) - math.exp(x)) / 2
    return 1 - math.exp(x) / 2 - math.exp(-y) / 2


def responses_delta(epsilon: float, n: int, epsilon_each: float) -> float:
    """Exact delta of ``n`` randomised responses of ``epsilon_each``: the worst composition of n pure mechanisms.

    Source: Kairouz, Oh, Viswanath (2015), Theorem 3.3.
    """
    truths = np.arange(n + 1)
    loss = (2 * truths - n) * epsilon_each
    log_p = (
        special.gammaln(n + 1)
        - special.gammaln(truths + 1)
        - special.gammaln(n - truths + 1)
        + truths * epsilon_each
        - n * math.log1p(math.exp(epsilon_each))
    )
    return float(np.sum(np.exp(log_p) * -np.expm1(np.minimum(0.0, epsilon - loss))))


def leaking_delta(epsilon: float, n: int, epsilon_each: float, leaks: float) -> float:
    """Delta of ``n`` randomised responses next to an event of probability ``leaks`` that tells the records apart."""
    return leaks + (1 - leaks) * responses_delta(epsilon, n, epsilon_each)


def concentrated_epsilon(rho: float, delta: float) -> float:
    """epsilon of (rho, sqrt(2 rho))-CDP at ``delta``: rho + 2 sqrt(rho log(1/delta))."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def finite_loss(p: FloatArray, q: FloatArray) -> float:
    """Largest |log p - log q| of two probability vectors; infinite when one is 0 where the other is not."""
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    if np.any((p > 0) != (q > 0)):
        return math.inf
    there = p > 0
    return float(np.abs(np.log(p[there] / q[there])).max())


def finite_delta(p: FloatArray, q: FloatArray, epsilon: float) -> float:
    """Sum of max(0, p - exp(epsilon) q)."""
    return float(np.maximum(0.0, np.asarray(p) - math.exp(epsilon) * np.asarray(q)).sum())
