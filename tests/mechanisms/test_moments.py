"""Moments of cells and parts: how far a record can move them, records of any kind, noise of the stated law."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from pm_dpgmm.mechanisms import moments
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter, steps_of
from pm_dpgmm.mechanisms.moments import COUNT_WEIGHT, moment_sums, noisy_moments
from pm_dpgmm.mechanisms.partitions import SoftPartition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.privacy.guarantee import Neighbouring

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
BUDGET = GaussianFilter.of(1.0, 1e-6)
RNG = np.random.default_rng(11)
D, G = 3, 4
CELLS = VoronoiPartition(
    RNG.normal(size=D), np.array([1.0, 2.0, 0.1]), RNG.normal(size=(G, D)), np.array([0.5, 1.0, 2.0, 0.01])
)
FACTORS = np.tril(0.3 * RNG.normal(size=(G, D, D))) + 0.5 * np.eye(D)
FACTORS[:, range(D), range(D)] = np.abs(FACTORS[:, range(D), range(D)]) + 0.1
PARTS = SoftPartition.of(CELLS.origin, CELLS.unit, np.full(G, 1 / G), CELLS.centres, FACTORS, reach=2.0)
BOTH = pytest.mark.parametrize("partition", [CELLS, PARTS], ids=["cells", "parts"])


def one_by_one(records, partition):
    """Integer features of every record, shape (N, numbers)."""
    return np.array([moment_sums(row[None], partition).ravel() for row in records])


def steps(partition, neighbouring=REPLACE):
    n_parts, d = partition.shape
    squared = moments.SQUARED_SENSITIVITY[neighbouring]
    n_numbers = n_parts * (1 + d + d * (d + 1) // 2)
    return steps_of(squared, grid=GRID, n_numbers=n_numbers, error=moments._error(n_parts))


def hostile(n_records, scale, seed=1):
    rng = np.random.default_rng(seed)
    records = scale * rng.normal(size=(n_records, D))
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1e154, -1e154]
    places = rng.integers(n_records, size=60), rng.integers(D, size=60)
    records[places] = rng.choice(special, size=60)
    return records


def features(y, share=1.0, weight=0.5):
    """In real arithmetic, of records in one part."""
    row, column = np.triu_indices(y.shape[1])
    products = y[:, row] * y[:, column] * np.where(row == column, 1.0, math.sqrt(2))
    return share * np.concatenate([np.full((len(y), 1), weight), y, products], axis=1)


def squared_distances(points):
    norms = np.square(points).sum(axis=1)
    return norms[:, None] + norms - 2 * points @ points.T


@BOTH
@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 10.0, 1e8, 1e160, 1e300])
def test_no_record_moves_the_integers_farther_than_is_paid_for(partition, scale):
    found = one_by_one(hostile(500, scale), partition).astype(float)
    assert np.isfinite(found).all() and np.abs(found).max() <= 2**30
    assert squared_distances(found).max() <= float(steps(partition)) ** 2 * (1 + 1e-9)
    assert np.square(found).sum(axis=1).max() <= float(steps(partition, ADD_REMOVE)) ** 2 * (1 + 1e-9)


@BOTH
def test_the_bounds_are_reached_by_maximisation_and_never_passed(partition):
    """Pairs found by local search from many starts, in real coordinates; the kernel's own features are measured."""

    def value(pair):
        one, other = one_by_one(CELLS.origin + CELLS.unit * pair.reshape(2, D), partition) * GRID
        return -float(np.square(one - other).sum())

    best = 0.0
    for seed in range(12):
        start = np.random.default_rng(seed).normal(scale=3.0, size=2 * D)
        best = max(best, -optimize.minimize(value, start, method="Nelder-Mead", options={"maxfev": 600}).fun)
    assert 4.4 < best <= (float(steps(partition)) * GRID) ** 2
    lone = one_by_one(hostile(300, 100.0), partition) * GRID
    assert np.square(lone).sum(axis=1).max() == pytest.approx(2.25, rel=1e-6 if partition is CELLS else 1e-2)


def test_worst_pairs_are_at_an_angle_in_one_cell_or_in_two_cells():
    one, two = (
        VoronoiPartition(*np.array([[0, 0], [1, 1.0]]), [[0, 0]], [1]),
        VoronoiPartition(*np.array([[0, 0], [1, 1.0]]), [[0, 0], [9, 0]], [1, 2]),
    )
    angle = one_by_one(np.array([[1.0, 0.0], [-0.5, math.sqrt(3) / 2]]), one) * GRID
    apart = one_by_one(np.array([[1.0, 0.0], [13.0, 0.0]]), two) * GRID
    for pair in (angle, apart):
        assert np.square(pair[0] - pair[1]).sum() == pytest.approx(4.5, abs=1e-8)
    opposite = one_by_one(np.array([[1.0, 0.0], [-1.0, 0.0]]), one) * GRID
    assert np.square(opposite[0] - opposite[1]).sum() == pytest.approx(4.0, abs=1e-8)
    # soft: both shares one half, a centre at distance .5 of the record
    half = SoftPartition.of(
        np.zeros(1), np.ones(1), np.full(2, 0.5), np.array([[-0.5], [0.5]]), np.ones((2, 1, 1)), reach=1.0
    )
    shared = one_by_one(np.array([[0.0]]), half).reshape(2, 3) * GRID
    assert np.allclose(shared, [[0.25, 0.25, 0.125], [0.25, -0.25, 0.125]])


@pytest.mark.parametrize("weight, reached", [(0.5, 4.5), (0.3, 4.5), (0.0, 4.5)])
def test_a_smaller_count_weight_would_gain_nothing(weight, reached):
    """The planted fault: 2 (a^2 + 2) is paid for a = 0.3, and 4.5 is reached."""
    angles = np.linspace(0, 2 * math.pi, 721)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    largest = squared_distances(features(circle, weight=weight)).max()
    assert largest == pytest.approx(reached, abs=1e-4)
    assert (largest > 2 * (weight**2 + 2) + 1e-3) == (weight < 0.5)


def test_off_the_diagonal_each_number_stands_for_two():
    """The planted fault: without the factor the inner product is no square of y.y', and two records come too close."""
    y, z = np.array([[1.0, 1.0]]) / math.sqrt(2), np.array([[1.0, -1.0]]) / math.sqrt(2)
    assert features(y)[0] @ features(z)[0] == pytest.approx(0.25)
    cell = VoronoiPartition(np.zeros(2), np.ones(2), np.zeros((1, 2)), np.ones(1))
    assert np.allclose(one_by_one(y, cell) * GRID, features(y), atol=GRID)


@pytest.mark.parametrize("grid", [2.0**-2, 2.0**-4, 2.0**-10])
def test_rounding_needs_its_term(grid):
    """On coarse grids the unrounded bound is passed, the one that is paid for never."""
    y = np.random.default_rng(1).normal(size=(1500, 2))
    y /= np.maximum(1, np.linalg.norm(y, axis=1, keepdims=True))
    y[:700] /= np.linalg.norm(y[:700], axis=1, keepdims=True)
    largest = squared_distances(np.rint(features(y) / grid)).max()
    assert largest <= steps_of(Fraction(9, 2), grid=grid, n_numbers=6, error=1e-14) ** 2
    if grid > 2.0**-5:
        assert largest > 4.5 / grid**2


@pytest.mark.parametrize("d", [1, 2, 3, 8, 30])
def test_computed_places_are_in_the_ball_to_the_last_bits(d):
    """In rational numbers: a computed place has norm at most 1 + (D/2 + 6) 2^-53, and some are longer than 1."""
    rng = np.random.default_rng(d)
    longest, y = Fraction(0), np.empty(d)
    for _ in range(1_000):
        z = rng.normal(size=d)
        kind = rng.integers(3)  # any length, length 1 but for rounding, or about 1
        z *= 10.0 ** rng.uniform(-300, 307) if kind == 0 else 1 / np.linalg.norm(z) if kind == 1 else 1.0
        moments._into_ball(z, np.zeros(d), 1.0, y)
        longest = max(longest, sum(Fraction(entry) ** 2 for entry in y.tolist()))
    assert (longest > 1) == (d > 1)
    assert longest <= (1 + (Fraction(d, 2) + 6) / 2**53) ** 2


@pytest.mark.parametrize("n_parts", [2, 16, 200])
def test_computed_features_are_as_exact_as_is_paid_for(n_parts):
    """Against an exact vector of the kind that is bounded: shares over their sum, places over their length."""
    rng = np.random.default_rng(n_parts)
    ball = 0.3 * rng.normal(size=(n_parts, D))
    factors = np.tile(np.eye(D), (n_parts, 1, 1))
    parts = SoftPartition.of(np.zeros(D), np.ones(D), np.full(n_parts, 1 / n_parts), ball, factors, reach=0.1)
    row, column = np.triu_indices(D)
    root = np.where(row == column, 1.0, moments.ROOT_TWO)
    worst, most, shares, y = 0.0, Fraction(0), np.empty(n_parts), np.empty(D)
    for z in rng.normal(size=(30, D)):
        largest = moments.log_joint(z, parts.log_weights, parts.centres, parts.whiteners, shares)
        weights = [moments.exponential(entry - largest) for entry in shares]
        total = 0.0
        for weight in weights:
            total += weight
        given = [weight / total for weight in weights]
        most = max(most, sum(map(Fraction, given)))
        with mpmath.workdps(30):
            whole = max(mpmath.mpf(1), mpmath.fsum(given))
            square = mpmath.mpf(0)
            for j, share in enumerate(given):
                moments._into_ball(z, parts.centres[j], parts.radii[j], y)
                places = [mpmath.mpf(entry) for entry in y.tolist()]
                length = max(mpmath.mpf(1), mpmath.norm(places))
                places, part = [entry / length for entry in places], share / whole
                off = [share * COUNT_WEIGHT - part / 2]
                off += [share * a - part * b for a, b in zip(y.tolist(), places, strict=True)]
                for a, b, factor in zip(row.tolist(), column.tolist(), root.tolist(), strict=True):
                    computed = share * y[a] * y[b] if a == b else share * factor * y[a] * y[b]
                    exact = part * places[a] * places[b] * (1 if a == b else mpmath.sqrt(2))
                    off.append(float(computed) - exact)
                square += mpmath.fsum(entry**2 for entry in off)
            worst = max(worst, float(mpmath.sqrt(square)))
    n_numbers = n_parts * (1 + D + len(row))
    assert most <= 1 + Fraction(n_parts + 1, 2**53)
    assert 0 < worst <= 1.5 * (D + n_parts + 17) * 2.0**-53 < math.sqrt(n_numbers) * moments._error(n_parts)


@BOTH
def test_sums_do_not_depend_on_order_blocks_or_threads(partition, monkeypatch):
    monkeypatch.setattr(moments, "BLOCK", 100)
    records = hostile(1_037, 1.0)
    sums = moment_sums(records, partition)
    shuffled = np.random.default_rng(2).permutation(records)
    assert np.array_equal(sums.ravel(), one_by_one(records, partition).sum(axis=0))
    assert np.array_equal(sums, moment_sums(shuffled, partition, n_threads=3))
    assert np.array_equal(sums, moment_sums(np.asfortranarray(records), partition))
    assert np.array_equal(sums, moment_sums(records[::-1], partition))


@BOTH
def test_sums_are_counts_sums_and_second_moments(partition):
    records = CELLS.origin + CELLS.unit * np.random.default_rng(3).normal(size=(400, D))
    z = (records - CELLS.origin) / CELLS.unit
    gaps = z[:, None] - CELLS.centres
    if partition is CELLS:
        shares = np.eye(G)[np.square(gaps).sum(axis=2).argmin(axis=1)]
    else:
        whitened = np.linalg.solve(FACTORS, gaps[..., None])[..., 0]
        logs = -0.5 * np.square(whitened).sum(axis=2) - np.log(np.diagonal(FACTORS, axis1=1, axis2=2)).sum(axis=1)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    y = gaps / partition.radii[:, None]
    y /= np.maximum(1, np.linalg.norm(y, axis=2, keepdims=True))
    exact = np.array([(features(y[:, j]) * shares[:, j, None]).sum(axis=0) for j in range(G)])
    assert np.allclose(moment_sums(records, partition) * GRID, exact, atol=400 * GRID + 1e-9)


@BOTH
def test_a_record_that_is_not_finite_counts_for_the_first_part_at_its_centre(partition):
    for value in (np.nan, np.inf, -np.inf):
        row = np.array([[0.0, value, 0.0]])
        expected = np.zeros((G, 10), dtype=np.int64)
        expected[0, 0] = round(COUNT_WEIGHT / GRID)
        assert np.array_equal(moment_sums(row, partition), expected)
    assert not moment_sums(np.zeros((0, D)), partition).any()


def test_a_radius_of_nothing_or_without_end_gives_no_numbers_but_zeros():
    for radius in (0.0, np.inf, np.nan):
        cell = VoronoiPartition(np.zeros(2), np.ones(2), np.zeros((1, 2)), np.array([radius]))
        for row in ([0.0, 3.0], [1e308, 0.0], [0.0, 0.0]):
            found = moment_sums(np.array([row]), cell)
            assert found[0, 0] == round(COUNT_WEIGHT / GRID) and not found[0, 1:].any()


@pytest.mark.parametrize("rng", [None, np.random.default_rng(4)], ids=["release", "simulation"])
@pytest.mark.parametrize("neighbouring, squared", [(REPLACE, 4.5), (ADD_REMOVE, 2.25)])
def test_noise_is_independent_normal_of_the_stated_scale(neighbouring, squared, rng):
    """Alarm 1e-6 for each test."""
    records = np.random.default_rng(1).normal(size=(50, D))
    exact = moment_sums(records, CELLS) * GRID
    found, noise, off = None, [], []
    for _ in range(80):
        found, left = noisy_moments(
            records, CELLS, budget=BUDGET, share=Fraction(1, 2), neighbouring=neighbouring, rng=rng
        )
        noise += [(found.counts * COUNT_WEIGHT - exact[:, 0]), (found.sums - exact[:, 1 : 1 + D]).ravel()]
        noise.append((found.squares[:, 0, 0] - exact[:, 4]).ravel())
        off.append((found.squares[:, 0, 1] - exact[:, 5] / math.sqrt(2)).ravel())
        assert np.array_equal(found.squares, found.squares.swapaxes(1, 2)) and not found.sums.flags.writeable
    assert found.noise_scale == pytest.approx(math.sqrt(2 * squared / BUDGET.limit), rel=1e-6)  # nothing wasted
    assert left.remaining_share == pytest.approx(0.5, abs=1e-6)
    pooled = np.concatenate(noise) / found.noise_scale
    assert stats.kstest(pooled, "norm").pvalue > 1e-6
    assert stats.kstest(np.concatenate(off) / found.noise_scale * math.sqrt(2), "norm").pvalue > 1e-6
    products = pooled[1:] * pooled[:-1]
    assert abs(products.mean()) < 4.9 * products.std() / math.sqrt(products.size)


def test_a_budget_that_is_too_small_is_refused_before_a_record_is_read(monkeypatch):
    monkeypatch.setattr(moments, "moment_sums", lambda *a, **k: pytest.fail("read"))
    with pytest.raises(ValueError, match="share"):
        noisy_moments(np.zeros((2, D)), CELLS, budget=BUDGET, share=Fraction(2), neighbouring=REPLACE)


def test_the_exponential_and_the_logarithm_are_those_of_the_library():
    for x in np.linspace(-699, 0, 997):
        assert moments.exponential(x) == pytest.approx(math.exp(x), rel=1e-12)
    assert moments.exponential(-np.inf) == 0.0 and moments.exponential(0.0) == 1.0
    for x in np.geomspace(1e-3, 1e4, 997):
        assert moments.logarithm(x) == pytest.approx(math.log(x), abs=1e-14, rel=1e-14)


def test_what_is_released_are_the_counts_sums_and_products_of_the_records():
    """Off the diagonal too, where the integers carry a factor sqrt(2)."""
    y = np.random.default_rng(8).uniform(-0.6, 0.6, (50_000, 2)) @ np.array([[0.8, 0.5], [0.0, 0.6]])
    whole = VoronoiPartition(np.zeros(2), np.ones(2), np.zeros((1, 2)), np.ones(1))
    budget = GaussianFilter.of(1.0, 1e-6)
    found, _ = noisy_moments(
        y, whole, budget=budget, share=Fraction(1), neighbouring=REPLACE, rng=np.random.default_rng(1)
    )
    room = 6 * found.noise_scale / COUNT_WEIGHT
    assert abs(found.counts[0] - len(y)) < room
    assert np.abs(found.sums[0] - y.sum(axis=0)).max() < room
    assert np.abs(found.squares[0] - y.T @ y).max() < room < 0.1 * (y.T @ y)[0, 1]
