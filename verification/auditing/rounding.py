"""Certified lower bounds as text: rounded down, since a bound that is printed above what is certified is none."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal

DIGITS = 4
_DOWN = Context(prec=DIGITS, rounding=ROUND_FLOOR)


def rounded_down(bound: float) -> str:
    """Four digits that are no larger than the bound.

    >>> rounded_down(1.23456), rounded_down(2.99999), rounded_down(float("inf"))
    ('1.234', '2.999', 'inf')
    """
    return to_nearest(float(_DOWN.create_decimal_from_float(float(bound))))


def to_nearest(number: float) -> str:
    """Four digits, as earlier versions printed certified bounds, too."""
    return f"{number:.{DIGITS}g}"


def rounded_down_to(places: int, bound: float) -> str:
    """Digits behind the point for columns of tables, no larger than the bound, which is finite.

    >>> rounded_down_to(3, 0.6169)
    '0.616'
    """
    return f"{Decimal(float(bound)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_FLOOR):f}"
