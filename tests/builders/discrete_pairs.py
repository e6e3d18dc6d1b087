"""Asymmetric pairs of laws on a few outputs, whose curves are sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def discrete_pair(seed: int) -> tuple[FloatArray, FloatArray]:
    """Two laws on five outputs."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(5, 0.7)), rng.dirichlet(np.full(5, 0.7))


def orders(p: FloatArray, q: FloatArray) -> tuple[Callable[[float], float], ...]:
    """The exact curves of p over q and of q over p."""

    def curve(over: FloatArray, under: FloatArray) -> Callable[[float], float]:
        return lambda epsilon: float(np.maximum(over - math.exp(epsilon) * under, 0).sum())

    return curve(p, q), curve(q, p)
