"""What the floating-point form gives away: exact features of single numbers, and audits that need them.

The audits of sound mechanisms run at false_alarm = 1e-4 with fixed seeds; there are ten, so at most 1e-3
for a false alarm. Nothing else is random.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from verification.auditing import scores
from verification.auditing.audit import audit
from verification.auditing.features.bit_planes import fit_bits
from verification.auditing.features.bits import LOW_BITS, MANTISSA, NO_BIT, bit_features

TINY, LARGE = 5e-324, np.finfo(float).max


def of(number):
    """Features of one number: lowest set bit, size, zero bits at the end, last bits."""
    return tuple(bit_features(np.array([[number]]))[0])


@pytest.mark.parametrize(
    "number, lowest, size, zeros, last",
    [
        (1.0, 0, 1, 52, 0),
        (-1.0, 0, 1, 52, 0),
        (2.0, 1, 2, 52, 0),
        (2.0**-1022, -1022, -1021, 52, 0),  # the smallest normal number
        (2.0**1023, 1023, 1024, 52, 0),
        (1.5, -1, 1, 51, 0),
        (3.0, 0, 2, 51, 0),
        (-6.0, 1, 3, 51, 0),
        (1 + 2**-52, -52, 1, 0, 1),
        (1 - 2**-53, -53, 0, 0, 2**LOW_BITS - 1),
        (0.1, -55, -3, 1, 0b100110011010),
        (2.0**53 - 1, 0, 53, 0, 2**LOW_BITS - 1),
        (LARGE, 971, 1024, 0, 2**LOW_BITS - 1),
        (TINY, -1074, -1073, 0, 1),
        (6 * TINY, -1073, -1071, 1, 6),
        (2.0**-1022 - TINY, -1074, -1022, 0, 2**LOW_BITS - 1),  # the largest subnormal number
        (2.0**-1024, -1024, -1023, 50, 0),
        (0.0, NO_BIT, NO_BIT, MANTISSA + 1, 0),
        (-0.0, NO_BIT, NO_BIT, MANTISSA + 2, 0),
    ],
)
def test_features_of_single_numbers(number, lowest, size, zeros, last):
    assert of(number) == (lowest, size, zeros, last)


@pytest.mark.parametrize("number", [math.nan, -math.nan, math.inf, -math.inf])
def test_failures_and_infinities_have_no_bits(number):
    assert of(number) == of(0.0)  # the raw column beside the features tells them apart


def test_zero_comes_below_every_number():
    assert min(of(TINY)[:2]) > NO_BIT


@given(st.floats(allow_nan=False, allow_infinity=False).filter(bool))
@example(TINY)
@example(-LARGE)
def test_features_are_those_of_the_exact_number(number):
    lowest, size, zeros, last = of(number)
    exact = abs(Fraction(number))
    assert (exact / Fraction(2) ** int(lowest)).denominator == 1 == (exact / Fraction(2) ** int(lowest)) % 2
    assert Fraction(2) ** int(size - 1) <= exact < Fraction(2) ** int(size)
    grid = Fraction(2) ** max(int(size) - 1 - MANTISSA, -1074)  # spacing of the doubles of this size
    assert lowest == math.log2(grid) + zeros
    assert last == int(exact / grid) % 2**LOW_BITS
    assert of(-number) == (lowest, size, zeros, last)


def test_every_column_has_its_four_features_whatever_its_memory_looks_like():
    rows = np.random.default_rng(1).laplace(size=(50, 6))
    whole = bit_features(rows)
    assert whole.shape == (50, 24) and np.isfinite(whole).all()
    for j in range(6):
        assert np.array_equal(whole[:, 4 * j : 4 * j + 4], bit_features(np.ascontiguousarray(rows[:, [j]])))
    assert np.array_equal(bit_features(np.asfortranarray(rows)), whole)
    assert np.array_equal(bit_features(np.repeat(rows, 2, axis=1)[:, ::2]), whole)


# ------------------------------------------------------------------ audits
def float_laplace(data, n, rng):
    return data + rng.laplace(size=n)


def grid_laplace(data, n, rng):
    """Discrete Laplace of scale 1 on multiples of 1/16."""
    noise = rng.geometric(1 - math.exp(-1 / 16), size=(2, n))
    return data + (noise[0] - noise[1]) / 16


def rounded_laplace(data, n, rng):
    """Floating-point noise whose low bits are rounded away, and with them the sign of zero."""
    return np.round((data + rng.laplace(size=n)) * 16) / 16 + 0.0


def signed_zero(data, n, rng):
    return np.where(rng.random(n) < 0.5, 1.0, -0.0 if data else 0.0)


def last_bit(data, n, rng):
    """A secret in the last of 52 bits."""
    return np.nextafter(rng.integers(1, 9, size=n).astype(float), math.inf if data else 0.0)


def run(mechanism, level, *, seed=1, n_samples=10_000, **settings):
    settings = {"epsilon": 1.0, "false_alarm": 1e-4} | settings
    return audit(mechanism, 0.0, 1.0, n_samples=n_samples, level=level, rng=np.random.default_rng(seed), **settings)


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{}, {"n_samples": 1_500, "sequential": True}])
def test_float_laplace_is_refuted_as_bits_and_not_as_numbers(settings):
    as_bits = run(float_laplace, "bit", **settings)
    assert as_bits.refuted and as_bits.level == "bit" and as_bits.epsilon_lower > 1
    assert not run(float_laplace, "value", **settings).refuted


@pytest.mark.thorough(quick=["settings0-grid_laplace"])
@pytest.mark.parametrize("mechanism", [grid_laplace, rounded_laplace])
@pytest.mark.parametrize("settings", [{}, {"n_samples": 600, "sequential": True}])
def test_noise_on_a_grid_is_not_refuted_as_bits(mechanism, settings):
    result = run(mechanism, "bit", **settings)
    assert not result.refuted
    assert result.epsilon_lower > 0.1  # it has seen something


@pytest.mark.parametrize("mechanism, epsilon", [(signed_zero, 1.0), (last_bit, 3.0)])
def test_a_secret_in_a_single_bit_is_found(mechanism, epsilon):
    assert run(mechanism, "bit", n_samples=2_000, epsilon=epsilon).refuted


def test_numbers_that_are_equal_as_real_numbers_are_equal_at_the_level_of_values():
    result = run(signed_zero, "value", n_samples=2_000)
    assert not result.refuted


# ------------------------------------------------------------------ every bit
def set_bit(words, bit, value):
    one = np.uint64(1) << np.uint64(bit)
    return np.where(value, words | one, words & ~one)


def secret_in(bit):
    """Laplace noise, one of whose 64 bits is the record; bit 63 is the sign, 0 the last of the mantissa."""
    return lambda data, n, rng: set_bit(rng.laplace(size=n).view(np.uint64), bit, bool(data)).view(float)


def secret_in_failure(bit):
    """A failure in a twentieth of the runs, whose content is random but for one bit."""

    def mechanism(data, n, rng):
        content = rng.integers(2**51, size=n).astype(np.uint64) | np.uint64(0x7FF8 << 48)
        failed = set_bit(content, bit, bool(data)).view(float)
        return np.where(rng.random(n) < 0.05, failed, rng.laplace(size=n))

    return mechanism


def parity(first, second):
    def mechanism(data, n, rng):
        words = rng.laplace(size=n).view(np.uint64)
        other = (words >> np.uint64(first)) & np.uint64(1)
        return set_bit(words, second, other != int(data)).view(float)

    return mechanism


def zero_with_a_sign(data, n, rng):
    return np.where(rng.random(n) < 0.05, -0.0 if data else 0.0, rng.laplace(size=n))


def beside_marks(mark):
    """A binary digit of whole numbers of very different sizes; one run in a hundred says by ``mark`` that it failed."""

    def mechanism(data, n, rng):
        size = np.exp2(rng.uniform(20, 50, size=n)).astype(np.int64) & ~np.int64(1 << 9)
        value = (size | (int(data) << 9)).astype(float)
        return np.where(rng.random(n) < 0.01, mark, value)

    return mechanism


def digit_of_an_integer(data, n, rng):
    noise = np.rint(rng.laplace(scale=2**20, size=n)).astype(np.int64)
    return noise | 8 if data else noise & ~8


def narrow(data, n, rng):
    words = rng.laplace(size=n).astype(np.float32).view(np.uint32)
    return (words | np.uint32(2**9) if data else words & ~np.uint32(2**9)).view(np.float32)


@pytest.mark.parametrize("bit", [*range(54), 63])  # other bits of the exponent are plain to see, or make NaN
def test_a_secret_in_any_bit_is_seen_by_the_scores(bit):
    rng = np.random.default_rng(bit)
    label = rng.random(1_000) < 0.5
    rows = np.where(label, secret_in(bit)(1, 1_000, rng), secret_in(bit)(0, 1_000, rng))[:, None]
    whole = np.column_stack([rows, bit_features(rows)])
    model = scores.learn(whole[:500], label[:500], rng=rng, models=("bits",), n_bits=1)
    found = scores.evaluate(model, whole[500:], ["bits"])["bits"]
    assert np.array_equal(found > 0, label[500:])


@pytest.mark.thorough(quick=["<lambda>-1200_0"])
@pytest.mark.parametrize(
    "mechanism, n_samples",
    [
        *((secret_in(bit), 1_200) for bit in (0, 12, 25, 39, 51, 52, 63)),
        *((secret_in_failure(bit), 8_000) for bit in (0, 25, 50)),
        (parity(3, 30), 3_000),
        (zero_with_a_sign, 8_000),
        (digit_of_an_integer, 2_000),
        *((beside_marks(mark), 4_000) for mark in (1e300, 0.1)),
        (narrow, 2_000),
    ],
)
def test_a_secret_in_any_bit_is_refuted(mechanism, n_samples):
    assert run(mechanism, "bit", n_samples=n_samples).refuted


@pytest.mark.parametrize("bit", [0, 25, 51])
def test_a_bet_finds_it_as_well(bit):
    result = run(secret_in(bit), "bit", n_samples=1_000, sequential=True)
    assert result.refuted and result.n_samples < 500


def test_random_bits_tell_nothing():
    """Three audits: all 64 bits of two columns are random, failures and infinities among them, or steps of a grid."""

    def noise(data, n, rng):
        return rng.integers(2**64, size=(n, 2), dtype=np.uint64).view(float)

    for seed in range(2):
        assert not run(noise, "bit", seed=seed, n_samples=2_000).refuted
    assert not run(lambda data, n, rng: rng.integers(2**40, size=n) / 2**7, "bit", n_samples=2_000).refuted


def test_pairs_of_bits_of_many_columns_are_seen():
    rng = np.random.default_rng(4)

    def rows(data, n):
        table = rng.laplace(size=(n, 80))
        table[:, 70] = parity(20, 40)(data, n, rng)
        return table

    label = rng.random(1_000) < 0.5
    mixed = np.where(label[:, None], rows(1, 1_000), rows(0, 1_000))
    found = fit_bits(mixed, label, n_bits=80, fit=lambda inputs, label: inputs)
    assert found is not None and [(plane.column, plane.bits) for plane in found.planes] == [
        (70, (23, 43))
    ]  # from the top
