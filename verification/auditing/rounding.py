"""Numbers of a verdict as text: bounds rounded outwards, claims exact.

A lower bound that is printed above what is certified is none, and a claim that is printed below what was refuted is
another one.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

DIGITS = 4
_DOWN, _UP = (Context(prec=DIGITS, rounding=towards) for towards in (ROUND_FLOOR, ROUND_CEILING))


def rounded_down(bound: float) -> str:
    """Four digits that are no larger than the bound.

    >>> rounded_down(1.23456), rounded_down(2.99999), rounded_down(float("inf"))
    ('1.234', '2.999', 'inf')
    """
    return to_nearest(float(_DOWN.create_decimal_from_float(float(bound))))


def rounded_up(bound: float) -> str:
    """Four digits that are no smaller than the upper bound.

    >>> rounded_up(0.12341), rounded_up(0.99999), rounded_up(float("inf"))
    ('0.1235', '1', 'inf')
    """
    return to_nearest(float(_UP.create_decimal_from_float(float(bound))))


def to_nearest(number: float) -> str:
    """Four digits, as earlier versions printed certified bounds, too."""
    return f"{number:.{DIGITS}g}"


def exactly(number: float) -> str:
    """Six digits where they are the number, else all that tell it from others.

    >>> exactly(1.0), exactly(1e-5), exactly(1.681085004)
    ('1', '1e-05', '1.681085004')
    """
    value = float(number)  # a NumPy float of 32 bits would be compared as one
    return six_digits(value) if float(six_digits(value)) == value else repr(value)


def six_digits(number: float) -> str:
    """As earlier versions printed claims."""
    return f"{number:g}"


def rounded_down_to(places: int, bound: float) -> str:
    """Digits behind the point for columns of tables, no larger than the bound, which is finite.

    >>> rounded_down_to(3, 0.6169)
    '0.616'
    """
    return f"{Decimal(float(bound)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_FLOOR):f}"
