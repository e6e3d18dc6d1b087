"""Random numbers on a person's own device: exact, from the operating system, with nothing but the standard library.

What :mod:`pm_dpgmm.privacy.noise` is for a curator, this is for a client of local privacy, which is to load in
milliseconds: no NumPy, no OpenDP. All chances are integers over a power of two, so no float decides anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Source = Callable[[int], bytes]  # so many random bytes
LARGEST = (
    32.0  # epsilon beyond which nothing changes any more: chances within 1e-14 of 1, which floats can tell from it
)


def source_of(rng: Any) -> Source:
    """Random bytes of the operating system, or, for simulation, of a generator; TypeError for anything else."""
    if rng is None:
        return os.urandom
    for name in ("bytes", "randbytes"):  # numpy.random.Generator, random.Random
        found = getattr(rng, name, None)
        if callable(found) and not isinstance(rng, type):
            return found
    raise TypeError(
        f"rng must be None, a numpy.random.Generator or a random.Random, got {rng!r:.80} of type {type(rng).__name__}"
    )


def below(n: int, source: Source) -> int:
    """An integer uniform in range(n), exactly: drawn again where it is too large, whatever it is then used for."""
    bits = (n - 1).bit_length()
    size = (bits + 7) // 8
    surplus = 8 * size - bits
    while True:
        found = int.from_bytes(source(size), "big") >> surplus
        if found < n:
            return found


def exponential_below(epsilon: float, *, bits: int = 128) -> int:
    """An integer E with E / 2^bits <= exp(epsilon), and less than it by 2^(20 - bits) of it at most.

    Taylor's series of epsilon / 2^m, squared m times; every operation on integers rounds down, and all terms are
    positive, so the result is a lower bound. Above 32 it is that of 32.
    """
    numerator, denominator = min(float(epsilon), LARGEST).as_integer_ratio()
    halvings = max(0, (numerator // denominator).bit_length() + 2)
    step = (numerator << bits) // (denominator << halvings)
    total = term = 1 << bits
    k = 1
    while term:
        term = (term * step >> bits) // k
        total += term
        k += 1
    for _ in range(halvings):
        total = total * total >> bits
    return total
