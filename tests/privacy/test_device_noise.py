"""Exact randomness without NumPy: uniform integers, and rational bounds of exponentials."""

import random
from collections import Counter

import mpmath
import numpy as np
import pytest

from pm_dpgmm.privacy.device_noise import LARGEST, below, exponential_below, source_of


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 200, 256])
def test_integers_below_are_uniform_over_all_first_bytes(n):
    """Bytes that are too large are drawn again; of the others each integer has as many."""
    counts = Counter()
    for first in range(256):
        given = iter([bytes([first])])

        def source(size, given=given):
            return b"" if size == 0 else next(given)

        try:
            counts[below(n, source)] += 1
        except StopIteration:
            continue
    assert set(counts) == set(range(n)) and len(set(counts.values())) == 1


def test_large_integers_take_all_their_bytes():
    assert below(2**64, lambda size: b"\xff" * size) == 2**64 - 1
    assert below(2**65, lambda size: b"\xff" * size) == 2**65 - 1
    tries = iter([b"\xff\xff", b"\x01\x00"])
    assert below(300, lambda size: next(tries)) == 2  # nine bits of two bytes


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 0.5, 1.0, np.nextafter(1.0, 2), 3.0, 10.0, 31.0, 32.0])
@pytest.mark.parametrize("bits", [64, 128])
def test_exponentials_are_bounded_from_below_and_closely(epsilon, bits):
    with mpmath.workdps(200):
        found, true = mpmath.mpf(exponential_below(epsilon, bits=bits)) / mpmath.mpf(2) ** bits, mpmath.exp(epsilon)
        assert found <= true
        assert (true - found) / true < mpmath.mpf(2) ** (20 - bits)


def test_beyond_the_largest_epsilon_nothing_changes():
    assert exponential_below(1e300) == exponential_below(LARGEST)


def test_sources_are_the_systems_or_a_generators():
    assert len(source_of(None)(5)) == 5
    assert source_of(np.random.default_rng(1))(4) == np.random.default_rng(1).bytes(4)
    assert source_of(random.Random(1))(4) == random.Random(1).randbytes(4)
    for wrong in (5, "x", np.random.Generator, object()):
        with pytest.raises(TypeError, match=r"rng must be None, a numpy\.random.Generator or a random\.Random, got"):
            source_of(wrong)
