"""Randomisers by enumeration: what they draw is what they say, and that is exactly epsilon-private."""

import itertools
from collections import defaultdict
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pm_dpgmm.methods.local.randomisers import KINDS, Randomiser

EPSILONS = [1e-6, 0.1, 1.0, 4.0, 30.0]
PLACES = {"one-bit": 2, "symmetric": 4, "optimised": 4, "k-ary": 5, "subset": 6}


def drawn(randomiser, place):
    """Exact law of ``draw``: every path of uniform integers, with its weight."""
    law = defaultdict(Fraction)

    def explore(path):
        asked = []

        def below(n):
            asked.append(n)
            if len(asked) > len(path):
                raise IndexError
            return path[len(asked) - 1]

        try:
            output = randomiser.draw(place, below)
        except IndexError:
            for value in range(asked[-1]):
                explore([*path, value])
            return
        weight = Fraction(1)
        for n in asked:
            weight /= n
        law[output] += weight

    explore([])
    return law


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn_has_the_stated_law_exactly(kind):
    randomiser = Randomiser(kind, 1.0, 3 if kind in ("symmetric", "optimised") else PLACES[kind], precision=4)
    outputs = list(randomiser.outputs())
    for place in range(randomiser.n_places):
        law = drawn(randomiser, place)
        assert sum(law.values()) == 1 and set(law) <= set(outputs)
        for output in outputs:
            assert law[output] == randomiser.probability(output, place)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_randomiser_is_exactly_private(kind, epsilon):
    """All outputs, all pairs of places, as rational numbers, against e^epsilon rounded down to 400 digits."""
    randomiser = Randomiser(kind, epsilon, PLACES[kind])
    with mpmath.workdps(400):
        limit = Fraction(int(mpmath.floor(mpmath.exp(epsilon) * mpmath.mpf(10) ** 350)), 10**350)
    places = range(randomiser.n_places)
    largest = Fraction(0)
    for output in randomiser.outputs():
        chances = [randomiser.probability(output, place) for place in places]
        assert min(chances) > 0
        largest = max(largest, max(chances) / min(chances))
    assert largest <= limit
    assert largest > limit * (1 - Fraction(1, 2**20)) or epsilon > 20  # and nothing is given away
    for place in places:
        assert sum(randomiser.probability(output, place) for output in randomiser.outputs()) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_places", [2, 3, 16])
def test_chances_are_those_of_the_law(kind, n_places):
    if kind == "one-bit" and n_places > 2:
        return
    randomiser = Randomiser(kind, 0.7, n_places)
    outputs = list(randomiser.outputs()) if n_places < 16 or kind == "k-ary" else []
    own, other = randomiser.chances
    for place in range(n_places) if outputs else ():

        def has(output, cell):
            return output == cell if kind in ("one-bit", "k-ary") else output >> cell & 1

        for cell in range(n_places):
            found = sum(randomiser.probability(y, place) for y in outputs if has(y, cell))
            assert found == (own if cell == place else other)
    assert 0 < other < own < 1


def test_many_cells_and_the_smallest_epsilon_stay_private():
    """The rounding of 65,536 chances, and of epsilon 1e-6."""
    randomiser = Randomiser("k-ary", 1e-6, 2**16)
    own, other = randomiser.chances
    with mpmath.workdps(60):
        limit = Fraction(int(mpmath.floor(mpmath.exp(1e-6) * mpmath.mpf(10) ** 50)), 10**50)
    assert 1 < own / other <= limit and own + (2**16 - 1) * other == 1


@pytest.mark.parametrize(
    "kind, bad",
    [("one-bit", [2, -1]), ("k-ary", [5, -1]), ("subset", [0, 0b111111, 1 << 6]), ("symmetric", [16, -1])],
)
def test_what_cannot_be_drawn_is_not_valid(kind, bad):
    randomiser = Randomiser(kind, 1.0, PLACES[kind])
    assert all(map(randomiser.valid, randomiser.outputs())) and not any(map(randomiser.valid, bad))


def test_a_randomiser_is_frozen():
    randomiser = Randomiser("one-bit", 1.0, 2)
    with pytest.raises(AttributeError, match="frozen"):
        randomiser.cut = 0


def test_rounding_the_other_way_would_break_the_claim():
    """The fault that the audit catches, as an enumeration: a chance to keep that is rounded up."""
    keep = Fraction(-(-(2**4) * 731059 // 10**6), 2**4)
    assert keep / (1 - keep) > Fraction(27183, 10**4)
    assert list(itertools.islice(Randomiser("subset", 1.0, 4).outputs(), 2)) == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_how_much_is_drawn_says_nothing_of_the_place(kind):
    """Nor of the output: whoever meters a device's random numbers learns nothing."""
    randomiser = Randomiser(kind, 1.0, 2 if kind == "one-bit" else 16)
    rng, sizes = np.random.default_rng(1), set()
    for i in range(200):
        asked = []

        def below(n, asked=asked):
            asked.append(n)
            return int.from_bytes(rng.bytes(8)) % n

        randomiser.draw(i % randomiser.n_places, below)
        sizes.add(len(asked))
    assert len(sizes) == 1
