"""Bisection that ends on the side where a condition was seen to hold."""

from __future__ import annotations

import math
from collections.abc import Callable

MOST_HALVINGS = 200  # between neighbouring floats the middle is one of the ends, and nothing changes any more


def arithmetic(low: float, high: float) -> float:
    """Middle of an interval of floats."""
    return (low + high) / 2


def geometric(low: float, high: float) -> float:
    """Middle of an interval of positive floats on a logarithmic scale."""
    return math.sqrt(low * high)


def whole(low: float, high: float) -> int:
    """Middle of an interval of integers, rounded down."""
    return int(low + high) // 2


def bisected(
    holds: Callable[[float], bool],
    held: float,
    failed: float,
    *,
    middle: Callable[[float, float], float],
    close: Callable[[float, float], bool] = lambda low, high: False,
    n_halvings: int = MOST_HALVINGS,
) -> float:
    """A point at which ``holds`` was seen to be true, next to one at which it was not.

    Every privacy parameter that is searched for is rounded outwards by this: what is returned is ``held`` or a point
    that was asked itself, whichever side it lies on, whatever the condition does elsewhere, and however early the
    search ends. A condition that is not monotone costs sharpness and never the guarantee.

    Parameters
    ----------
    holds : function of a number
        The condition, computed with its own rounding on the safe side.
    held, failed : float
        Ends of the interval, in either order: where the condition is known to hold, and where it need not.
    middle : function of two numbers
        :func:`arithmetic`, :func:`geometric` or :func:`whole`; gets the lower end first.
    close : function of two numbers
        Whether the interval from the first to the second is short enough; asked after every halving.
    n_halvings : int
        At most this many.

    Examples
    --------
    >>> found = bisected(lambda x: x * x >= 2, 2.0, 1.0, middle=arithmetic, close=lambda low, high: high - low < 1e-9)
    >>> found**2 >= 2, round(found, 6)
    (True, 1.414214)
    """
    for _ in range(n_halvings):
        low, high = min(held, failed), max(held, failed)
        asked = middle(low, high)
        if asked in (low, high):
            break
        if holds(asked):
            held = asked
        else:
            failed = asked
        if close(min(held, failed), max(held, failed)):
            break
    return held
