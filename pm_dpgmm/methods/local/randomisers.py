"""Randomisers of local privacy with chances that are integers over a power of two. Proof: randomisers.md.

A person's *place* is all that a report may tell of: on which side of a public wave their record lies, or in which of J
public cells. A randomiser turns the place into an integer, its *output*:

==============  =======================================================  ==========================================
kind            output                                                   with chance
==============  =======================================================  ==========================================
"one-bit"       the side 0 or 1, or the other one                        keep, flip: keep / flip <= e^epsilon
"symmetric"     J bits, each its own coin; bit j is 1 at place j only    every bit flipped as of epsilon / 2
"optimised"     the same                                                 own bit 1 with 1/2, others with 1/(1 + E)
"k-ary"         one of J cells                                           own / other <= e^epsilon
"subset"        k of J cells as bits, k near J / (1 + e^epsilon)         own cell among them or not
==============  =======================================================  ==========================================

Nothing here imports NumPy: it runs on the person's own device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from pm_dpgmm.privacy.device_noise import exponential_below

KINDS = ("one-bit", "symmetric", "optimised", "k-ary", "subset")
PRECISION = 64  # bits of a chance
EXPONENT_BITS = 128  # of the lower bound of e^epsilon
MOST_BITS = 64  # cells of a report that has a bit for each
MOST_CELLS = 2**16  # of a report that names one

Below = Callable[[int], int]  # uniform in range(n)


class Randomiser:
    """A randomiser of one kind: a frozen value.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.
    epsilon : float
        At least 1e-6, which a protocol asks for and the proof needs.
    n_places : int
        2 for "one-bit", else the number of cells.
    precision : int
        Bits of a chance; other than 64 for tests, which go through all that can be drawn.

    Guarantee
    ---------
    epsilon-local differential privacy, exactly: P[output | place] <= e^epsilon P[output | other place] for the chances
    that :meth:`draw` has, as rational numbers. Proof: randomisers.md.

    Examples
    --------
    >>> coin = Randomiser("one-bit", 1.0, 2)
    >>> round(float(coin.probability(1, place=1)), 4), round(float(coin.probability(1, place=0)), 4)
    (0.7311, 0.2689)
    """

    __slots__ = ("cut", "epsilon", "kind", "n_chosen", "n_places", "precision")
    kind: str
    epsilon: float
    n_places: int
    precision: int
    n_chosen: int  # of "subset"
    cut: int  # the chance that decides, times 2^precision

    def __init__(self, kind: str, epsilon: float, n_places: int, *, precision: int = PRECISION) -> None:
        one, whole = 1 << EXPONENT_BITS, 1 << precision
        odds = exponential_below(epsilon / 2 if kind == "symmetric" else epsilon, bits=EXPONENT_BITS)
        chosen = 1
        if kind in ("one-bit", "symmetric", "optimised"):
            cut = _up(whole * one, one + odds)  # of a bit that is not as it is
        elif kind == "k-ary":
            cut = _up(whole * one, odds + (n_places - 1) * one)  # of every other cell
        else:
            chosen = max(1, min(n_places - 1, round(n_places * one / (one + odds))))
            cut = whole * odds * chosen // (odds * chosen + (n_places - chosen) * one)  # of one's own among them
        for name, value in zip(
            ("kind", "epsilon", "n_places", "precision", "n_chosen", "cut"),
            (kind, epsilon, n_places, precision, chosen, cut),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a randomiser is frozen, {name} cannot be set")

    def draw(self, place: int, below: Below) -> int:
        """The output for a person at ``place``; ``below(n)`` is uniform in range(n)."""
        whole = 1 << self.precision
        if self.kind == "one-bit":
            return place ^ (below(whole) < self.cut)
        if self.kind == "k-ary":
            other = below(whole) // self.cut
            if other >= self.n_places - 1:
                return place
            return other + (other >= place)
        if self.kind == "subset":
            return self._subset(place, below)
        found = 0
        for j in range(self.n_places):
            if j == place and self.kind == "optimised":
                bit = below(2)
            else:
                bit = (j == place) ^ (below(whole) < self.cut)
            found |= bit << j
        return found

    def _subset(self, place: int, below: Below) -> int:
        others = [j for j in range(self.n_places) if j != place]
        own = below(1 << self.precision) < self.cut
        found = own << place
        for i in range(self.n_chosen):  # as many numbers whatever ``own`` is: how much is drawn would tell it
            j = i + below(len(others) - i)
            others[i], others[j] = others[j], others[i]
            found |= (i < self.n_chosen - own) << others[i]
        return found

    def outputs(self) -> Iterator[int]:
        """Everything that :meth:`draw` can return."""
        if self.kind in ("one-bit", "k-ary"):
            yield from range(self.n_places)
        elif self.kind == "subset":
            for chosen in itertools.combinations(range(self.n_places), self.n_chosen):
                yield sum(1 << j for j in chosen)
        else:
            yield from range(1 << self.n_places)

    def valid(self, output: int) -> bool:
        """Whether :meth:`draw` can return it."""
        if self.kind == "subset":
            return output < 1 << self.n_places and output.bit_count() == self.n_chosen
        return 0 <= output < (self.n_places if self.kind in ("one-bit", "k-ary") else 1 << self.n_places)

    def probability(self, output: int, place: int) -> Fraction:
        """P[output | place], a rational number: the law of :meth:`draw`."""
        whole = 1 << self.precision
        cut = Fraction(self.cut, whole)
        if self.kind == "one-bit":
            return 1 - cut if output == place else cut
        if self.kind == "k-ary":
            return 1 - (self.n_places - 1) * cut if output == place else cut
        if self.kind == "subset":
            own, rest = output >> place & 1, self.n_places - 1
            ways = math.comb(rest, self.n_chosen - own)
            return (cut if own else 1 - cut) / ways
        found = Fraction(1)
        for j in range(self.n_places):
            one = self.chances[0 if j == place else 1]
            found *= one if output >> j & 1 else 1 - one
        return found

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """Chance that a person's own place is in the output, and that a given other one is."""
        cut = Fraction(self.cut, 1 << self.precision)
        if self.kind == "optimised":
            return Fraction(1, 2), cut
        if self.kind == "k-ary":
            return 1 - (self.n_places - 1) * cut, cut
        if self.kind == "subset":
            return cut, (self.n_chosen - cut) / (self.n_places - 1)
        return 1 - cut, cut


def _up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
