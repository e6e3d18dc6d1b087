"""Roots that are rounded outwards: by bisection that keeps both ends, or moved to the side that was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import optimize


def bracket(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    width: float = 0.0,
    relative: float = 0.0,
    steps: int = 200,
    geometric: bool = False,
) -> tuple[float, float]:
    """Two numbers around the place from which on a condition no longer holds.

    A bound that must not be too high takes the first, one that must not be too low the second; the middle of the two,
    or the root that a library returns, may lie on either side.

    Parameters
    ----------
    holds : callable
        True below some place of the interval and false above it.
    low, high : float
        Where it holds and where it does not; neither is evaluated, and both are positive if ``geometric``.
    width, relative : float
        The ends are at most ``width`` + ``relative`` * the upper end apart. With 0 and 0 they are neighbouring
        floating-point numbers, or ``steps`` were taken.
    steps : int
        Halvings at most.
    geometric : bool
        Halve the logarithm of the interval.

    Returns
    -------
    tuple of two floats
        The condition held at the first and not at the second, wherever it was evaluated.

    Examples
    --------
    >>> bracket(lambda x: x * x < 2, 0.0, 2.0, width=0.1)
    (1.375, 1.4375)
    """
    for _ in range(steps):
        middle = math.sqrt(low * high) if geometric else (low + high) / 2
        if high - low <= width + relative * high or not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def root_from_below(excess: Callable[[float], float], low: float, high: float, *, width: float) -> float:
    """A place about ``width`` or less below the root of a rising function, where it is not above 0.

    For functions that cost too much to bisect. ``excess`` is at most 0 at ``low`` and above 0 at ``high``; the root of
    `scipy.optimize.brentq` lies on either side.
    """
    root, step = float(optimize.brentq(excess, low, high, xtol=width)), width
    while excess(root) > 0:
        root, step = max(low, root - step), 2 * step
    return root
