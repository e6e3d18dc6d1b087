"""What a pass says that it looked for can be seen: a plain leak of each kind, by each sort of audit, at every size.

Each leak shows in every run or nearly, and an audit with enough runs finds it always. Of few runs it may be found
seldom, but not never: where no score looks, a note must take the kind back.
"""

import numpy as np
import pytest

from verification import GDP
from verification.auditing.audit import audit
from verification.auditing.features.column_pairs import SHARED_NOISE
from verification.auditing.result import BY_BIT, BY_VALUE, GRIDS, REPEATED, TAILS
from verification.auditing.scores import REGIONS

_, ARITHMETIC, _, _, FAILURES, _, EQUAL, _ = BY_VALUE
BIT, PARITY, GRID_BITS = BY_BIT
SEEDS = 8


def signs(n, rng):
    return rng.choice([-1.0, 1.0], size=n)


def shifted(data, n, rng):
    return 100 * data + rng.laplace(size=n)


def difference(data, n, rng):
    shared = 100 * rng.normal(size=n)
    return np.stack([shared, shared + 10 * data + rng.normal(size=n)], axis=1)


def total(data, n, rng):
    return difference(data, n, rng) * [1, -1]


def product(data, n, rng):
    sign = signs(n, rng)
    return np.stack([sign, sign * (2 * data - 1)], axis=1) * (0.5 + np.abs(rng.normal(size=(n, 2))))


def sum_of_three(data, n, rng):
    first, second = 100 * rng.normal(size=(2, n))
    return np.stack([first, second, 10 * data - first - second + rng.normal(size=n)], axis=1)


def stripes(data, n, rng):
    z = rng.normal(size=n)
    return z + 0.2 * (np.floor(z / 0.2) % 2 != data)


def middle(data, n, rng):
    return np.where(data == 1, 0.3 * rng.normal(size=n), signs(n, rng) * rng.uniform(2, 3, size=n))


def rings(data, n, rng):
    angle, radius = rng.uniform(0, 2 * np.pi, size=n), 3 - 2 * data + 0.1 * rng.normal(size=n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def sign_of_three(data, n, rng):
    first, second = signs((2, n), rng)
    return np.stack([first, second, first * second * (2 * data - 1)], axis=1) * rng.uniform(0.2, 2, size=(n, 3))


def failure(data, n, rng):
    return np.where(data == 1, np.nan, rng.normal(size=n))


def infinity(data, n, rng):
    return np.where(data == 1, np.inf, rng.normal(size=n))


def which_fails(data, n, rng):
    rows = rng.normal(size=(n, 2))
    rows[:, data] = np.nan
    return rows


def both_fail(data, n, rng):
    """Both columns or none on one data set, one of them on the other."""
    rows, first = rng.normal(size=(n, 2)), rng.random(n) < 0.5
    rows[first, 0] = np.nan
    rows[first == (data == 1), 1] = np.nan
    return rows


def atom(data, n, rng):
    return np.where(rng.random(n) < 0.6, [-0.045, 0.123][data], rng.normal(size=n))


def scattered_atoms(data, n, rng):
    return 10 * np.sin(7.3 * (2 * rng.integers(0, 8, size=n) + data))


def equal_values(data, n, rng):
    """Two of five values, other ones in every run, are equal on one data set."""
    rows = rng.normal(size=(n, 5))
    if data:
        chosen = rng.permuted(np.tile(np.arange(5), (n, 1)), axis=1)
        rows[np.arange(n), chosen[:, 0]] = rows[np.arange(n), chosen[:, 1]]
    return rows


def off_the_grid(data, n, rng):
    return 0.5 * data + rng.geometric(0.2, size=n) - rng.geometric(0.2, size=n)


def off_a_fine_grid(data, n, rng):
    return (rng.integers(-400, 400, size=n) + 0.5 * data) / 32


def bit(place):
    def secret(data, n, rng):
        bits = rng.laplace(size=n).view(np.uint64)
        return ((bits & ~np.uint64(1 << place)) | np.uint64(data << place)).view(float)

    return secret


def parity(data, n, rng):
    bits = rng.laplace(size=n).view(np.uint64)
    secret = ((bits >> np.uint64(9)) & np.uint64(1)) ^ np.uint64(data)
    return ((bits & ~np.uint64(1 << 20)) | (secret << np.uint64(20))).view(float)


def bit_of_the_grid(data, n, rng):
    return ((rng.integers(-(2**20), 2**20, size=n) & ~4) | (4 * data)) / 1024


AUDITS = {
    "pair": {"epsilon": 1.0},
    "pair, delta": {"epsilon": 1.0, "delta": 1e-5},
    "sequential": {"epsilon": 1.0, "sequential": True},
    "curve": {"profile": GDP(1.0)},
    "sequential curve": {"profile": GDP(1.0), "sequential": True},
}
LEAKS = {
    TAILS: {"shift": shifted},
    ARITHMETIC: {"difference": difference, "sum": total, "product": product},
    SHARED_NOISE: {"of three": sum_of_three},
    REGIONS: {"stripes": stripes, "middle": middle, "rings": rings, "sign of three": sign_of_three},
    FAILURES: {"failure": failure, "infinity": infinity, "which fails": which_fails, "both fail": both_fail},
    REPEATED: {"atom": atom, "scattered": scattered_atoms},
    EQUAL: {"equal": equal_values},
    GRIDS: {"off whole numbers": off_the_grid, "off a grid": off_a_fine_grid},
    BIT: {"bit 20": bit(20), "bit 45": bit(45)},
    PARITY: {"parity": parity},
    GRID_BITS: {"bit of the grid": bit_of_the_grid},
}
CASES = [pytest.param(kind, leak, id=name) for kind, leaks in LEAKS.items() for name, leak in leaks.items()]


def test_every_kind_has_a_leak():
    assert set(LEAKS) == {*BY_VALUE, *BY_BIT}


@pytest.mark.parametrize("sort", AUDITS)
@pytest.mark.parametrize("kind, leak", CASES)
def test_kinds_that_the_smallest_audits_list_are_caught_now_and_then(kind, leak, sort):
    assert is_honest(kind, leak, 100, **AUDITS[sort])


@pytest.mark.thorough
@pytest.mark.parametrize("n_samples", [200, 300, 600, 1_000])
@pytest.mark.parametrize("sort", AUDITS)
@pytest.mark.parametrize("kind, leak", CASES)
def test_kinds_that_small_audits_list_are_caught_now_and_then(kind, leak, sort, n_samples):
    assert is_honest(kind, leak, n_samples, **AUDITS[sort])


@pytest.mark.thorough
@pytest.mark.parametrize("kind, leak", CASES)
def test_larger_audits_list_every_kind_and_catch_it(kind, leak):
    """So no note takes back what is seen."""
    result = audit(leak, 1, 0, n_samples=8_000, level=level_of(kind), rng=np.random.default_rng(1), epsilon=1.0)
    assert result.refuted and kind in result.looked_for


@pytest.mark.thorough
def test_a_product_of_two_of_six_columns_is_caught_with_a_few_hundred_runs():
    """One of 15, of which regressions with all of them learned luck: 2 of 10 were caught."""

    def leak(data, n, rng):
        rows = rng.normal(size=(n, 6))
        rows[:, 3] = np.abs(rows[:, 3]) * np.sign(rows[:, 0]) * (2 * data - 1)
        return rows

    found = [audit(leak, 1, 0, epsilon=1.0, n_samples=300, rng=np.random.default_rng(seed)) for seed in range(10)]
    assert sum(result.refuted for result in found) >= 5


def is_honest(kind, leak, n_samples, **claim):
    """Whether one of SEEDS audits catches the leak, or says that it did not look for its kind."""
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        result = audit(leak, 1, 0, n_samples=n_samples, level=level_of(kind), rng=rng, **claim)
        if result.refuted or kind not in result.looked_for:
            return True
    return False


def level_of(kind):
    return "bit" if kind in BY_BIT else "value"
