"""Features on the grid: a function of the record alone, total, and never farther apart than the bound says."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pm_dpgmm.mechanisms import sketch_features
from pm_dpgmm.mechanisms.frequencies import FACTOR_ERROR, FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.gaussian import SMALLEST_EPSILON
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter, steps_of
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.mechanisms.sketch_features import GRID, MAX_RECORDS, sketch_sums, sums_and_number
from pm_dpgmm.privacy.guarantee import Neighbouring

RNG = np.random.default_rng(5)
FRAMES = RieszProduct(RNG.normal(size=(2, 4, 3)), np.array([0.3, -1.0, 2.0]))
LADDER = FejerHarmonics(0.7, 16, 0.3)
BOTH = pytest.mark.parametrize("frequencies", [FRAMES, LADDER], ids=["riesz", "fejer"])


def columns(frequencies):
    return frequencies.frequencies.shape[1]


def one_by_one(records, frequencies):
    """Integer features of every record, shape (N, 2 m)."""
    return np.array([sketch_sums(row[None], frequencies).ravel() for row in records])


def bound(frequencies):
    n_numbers = 2 * frequencies.n_frequencies
    squared = frequencies.squared_sensitivity(Neighbouring.REPLACE_ONE)
    return steps_of(squared, grid=GRID, n_numbers=n_numbers, error=frequencies.feature_error)


def hostile(n_records, n_columns, scale):
    rng = np.random.default_rng(round(math.log10(scale)) if scale else 0)
    records = scale * rng.normal(size=(n_records, n_columns))
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.7e308, -1.7e308]
    places = rng.integers(n_records, size=(40, 1)), rng.integers(n_columns, size=(40, 1))
    records[places] = rng.choice(special, size=(40, 1))
    return records


@BOTH
def test_features_are_cosines_and_sines_of_the_phases(frequencies):
    records = np.random.default_rng(1).normal(size=(500, columns(frequencies)))
    phases = (records - frequencies.centre) @ frequencies.frequencies.T
    exact = frequencies.amplitudes * np.stack([np.cos(phases), np.sin(phases)], axis=1)
    features = one_by_one(records, frequencies).reshape(exact.shape)
    # rounding to the grid, the error of the phases computed here, and that of the features
    assert np.abs(features * GRID - exact).max() <= GRID / 2 + 1e-13 + frequencies.feature_error
    assert np.array_equal(sketch_sums(records, frequencies), features.sum(axis=0))


def depends_on_order_or_blocks(sums, records):
    """Whether ``sums`` of the same records in other orders and blocks are other integers."""
    whole = sums(records)
    shuffled = np.random.default_rng(2).permutation(records)
    others = [shuffled, np.asfortranarray(records)]
    cuts = [sum(sums(part) for part in np.array_split(rows, n)) for rows in (records, shuffled) for n in (2, 101)]
    return any(not np.array_equal(whole, other) for other in [*map(sums, others), *cuts])


@BOTH
def test_sums_do_not_depend_on_order_blocks_or_threads(frequencies, monkeypatch):
    monkeypatch.setattr(sketch_features, "BLOCK", 100)
    records = hostile(1_037, columns(frequencies), 1e3)
    sums = sketch_sums(records, frequencies)
    assert not depends_on_order_or_blocks(lambda rows: sketch_sums(rows, frequencies, n_threads=3), records)
    shuffled = np.random.default_rng(2).permutation(records)
    assert np.array_equal(sums, one_by_one(records, frequencies).sum(axis=0).reshape(sums.shape))
    assert np.array_equal(sums, sketch_sums(shuffled, frequencies, n_threads=3))
    assert np.array_equal(sums, sketch_sums((part for part in np.array_split(shuffled, 7)), frequencies))


def test_phases_by_matrix_products_depend_on_the_block():
    """The planted fault of blocks: the order of a matrix product is that of the library, which looks at the shape."""
    frames = RieszProduct(np.random.default_rng(6).normal(size=(2, 4, 64)), np.zeros(64))
    records = 1e9 * np.random.default_rng(7).normal(size=(1_000, 64))

    def by_matrix(rows):
        phases = rows @ frames.frequencies.T
        return np.rint(frames.amplitudes * np.stack([np.cos(phases), np.sin(phases)]) / GRID).sum(axis=1).astype(int)

    assert depends_on_order_or_blocks(by_matrix, records)
    assert not depends_on_order_or_blocks(lambda rows: sketch_sums(rows, frames), records)


@BOTH
def test_rounding_after_summation_depends_on_the_order(frequencies):
    """The planted fault of rounding: sums in floating-point numbers, rounded once."""
    # near the centre every cosine is almost 1, so that sums are large
    records = frequencies.centre + 1e-2 * np.random.default_rng(8).normal(size=(20_000, columns(frequencies)))

    def rounded_late(rows):
        phases = (rows - frequencies.centre) @ frequencies.frequencies.T
        return np.rint(np.stack([np.cos(phases), np.sin(phases)]).sum(axis=1) / GRID).astype(int)

    assert depends_on_order_or_blocks(rounded_late, records)
    assert not depends_on_order_or_blocks(lambda rows: sketch_sums(rows, frequencies), records)


def mixed(n_records, n_columns):
    """Half of the records of any size down to denormals, coordinate by coordinate; half where phases have a fraction."""
    rng = np.random.default_rng(3)
    shape = (n_records, n_columns)
    sizes = np.where(rng.random((n_records, 1)) < 0.5, rng.uniform(-323, 308, shape), rng.uniform(-2, 15, shape))
    return rng.choice([-1.0, 1.0], shape) * 10.0**sizes


def largest_square(features):
    """Largest squared distance of two rows of integers, exact: the pairs that are farthest apart in floats."""
    points = features.astype(float)
    norms = np.square(points).sum(axis=1)
    squared = norms[:, None] + norms - 2 * points @ points.T
    farthest = np.argsort(squared, axis=None)[-50:]
    pairs = zip(*np.unravel_index(farthest, squared.shape), strict=True)
    return max(sum(int(d) ** 2 for d in features[i] - features[j]) for i, j in pairs)


def reached(frequencies, features):
    """Share of the squared sensitivity that some pair reaches, after a check that none passes what is paid for."""
    assert np.abs(features).max() <= 2**30
    largest = largest_square(features)
    assert largest <= bound(frequencies) ** 2
    return largest * GRID**2 / float(frequencies.squared_sensitivity(Neighbouring.REPLACE_ONE))


@BOTH
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e8, 1e12, 1e16, None])
def test_no_two_records_are_farther_apart_than_the_bound(frequencies, scale):
    """Records of one size, or of all; pairs among 800 come within a hundredth of the bound."""
    n = columns(frequencies)
    records = mixed(800, n) if scale is None else hostile(800, n, scale)
    assert reached(frequencies, one_by_one(records, frequencies)) > 0.99


@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize(
    "frequencies",
    [
        FejerHarmonics(0.7, 24, 0.3),
        FejerHarmonics(0.7, 1024, 0.3),
        RieszProduct(np.random.default_rng(8).normal(size=(20, 4, 20)), np.zeros(20)),
    ],
    ids=["fejer 24", "fejer 1024", "20 frames"],
)
def test_the_worst_pairs_of_the_package_reach_the_bound_and_climbing_does_not_pass_it(frequencies, size):
    """A shift to a zero of every kernel, from many records; then the best of random steps, in the kernel's integers."""
    rng = np.random.default_rng(1)
    if isinstance(frequencies, FejerHarmonics):
        shift = np.array([2 * math.pi / (frequencies.order + 1) / frequencies.step])
    else:
        shift = np.linalg.solve(frequencies.bases[:, 0], np.full(20, math.pi))
    starts = size * rng.normal(size=(30, shift.size))
    far = np.full((1, shift.size), 1e300)  # a phase of 0, as at the centre
    features = one_by_one(np.vstack([starts, starts + shift, far, frequencies.centre + shift]), frequencies)
    assert reached(frequencies, features) > 0.999999
    assert reached(frequencies, features[-2:]) > 0.999999

    def square(pair):
        one, other = one_by_one(pair, frequencies)
        return np.square((one - other).astype(float)).sum()

    pair = np.vstack([starts[0], starts[0] + shift])
    best = square(pair)
    for _ in range(200):
        there = pair + 10.0 ** rng.uniform(-12, -1) * rng.normal(size=pair.shape)
        found = square(there)
        pair, best = (there, found) if found > best else (pair, best)
    assert reached(frequencies, one_by_one(pair, frequencies)) > 0.999999


@pytest.mark.parametrize(
    "frequencies, beyond",
    [
        (FejerHarmonics(1.0, 1, 0.0), 1.3),
        (FejerHarmonics(1.0, 16, 0.0), 1.3),
        (RieszProduct(np.eye(2)[None], np.zeros(2)), 1.3),
    ],
    ids=["fejer 1", "fejer 16", "riesz 2"],
)
def test_records_that_seek_half_integers_need_the_rounding_term(frequencies, beyond):
    """At the grid of releases, pairs at the largest exact distance pass it by more than a step, and never what is paid."""
    n = columns(frequencies)
    if n == 1:
        shift = np.array([2 * math.pi * (frequencies.order // 2 + 1) / (frequencies.order + 1)])
    else:
        shift = np.array([math.pi, 0.0])
    records = np.random.default_rng(2).uniform(0, 2 * math.pi, size=(5_000, n))
    changes = one_by_one(records, frequencies) - one_by_one(records + shift, frequencies)
    squares = [sum(d * d for d in change) for change in changes.tolist()]
    exact = frequencies.squared_sensitivity(Neighbouring.REPLACE_ONE) / Fraction(GRID) ** 2
    assert math.isqrt(max(squares) * 10**6) / 1e3 - math.sqrt(exact) > 1.2
    assert max(squares) <= bound(frequencies) ** 2


@BOTH
def test_one_record_has_the_norm_that_add_remove_pays_for(frequencies, monkeypatch):
    """Every record has the norm sqrt(W), to half a step a number; with the count feature, what `spend` is told."""
    told = []
    spend = GaussianFilter.spend
    monkeypatch.setattr(
        GaussianFilter, "spend", lambda self, steps, **rest: told.append(steps) or spend(self, steps, **rest)
    )
    settings = {"budget": GaussianFilter.of(1.0, 1e-6), "share": Fraction(1), "neighbouring": Neighbouring.ADD_REMOVE}
    noisy_sketch(np.zeros((1, columns(frequencies))), frequencies, **settings, rng=np.random.default_rng(1))
    n_numbers = 2 * frequencies.n_frequencies
    norm = math.sqrt(frequencies.squared_sensitivity(Neighbouring.ADD_REMOVE)) / GRID
    count = round(math.sqrt(frequencies.squared_count_weight) / GRID)
    for records in (mixed(400, columns(frequencies)), hostile(400, columns(frequencies), 1.0)):
        squares = [sum(f * f for f in row) for row in one_by_one(records, frequencies).tolist()]
        assert all(abs(math.sqrt(square) - norm) <= math.sqrt(n_numbers) * 0.501 for square in squares)
        assert max(squares) + count**2 <= told[0] ** 2
        # and little is paid for nothing
        assert max(squares) + count**2 >= (told[0] - math.sqrt(n_numbers) - 3) ** 2


@pytest.mark.parametrize("scale", [1e8, 1e16])
@pytest.mark.parametrize(
    "frequencies",
    [RieszProduct(np.random.default_rng(0).normal(size=(1, 4, 5)), np.zeros(5)), FejerHarmonics(0.3, 16, 0.0)],
    ids=["riesz", "fejer"],
)
def test_composite_phases_computed_directly_break_the_bound(frequencies, scale):
    """The planted fault of arithmetic: cosines of w.x instead of products, in single or double precision."""
    records = scale * np.random.default_rng(1).uniform(-1, 1, size=(1_500, columns(frequencies)))
    phases = records @ frequencies.frequencies.T
    phases = phases.astype(np.float32) if scale == 1e8 else phases
    amplitudes = frequencies.amplitudes
    features = np.concatenate([amplitudes * np.cos(phases), amplitudes * np.sin(phases)], axis=1)
    paid = float(frequencies.squared_sensitivity(Neighbouring.REPLACE_ONE))
    assert largest_square(np.rint(features / GRID).astype(np.int64)) * GRID**2 > 1.2 * paid
    assert reached(frequencies, one_by_one(records[:400], frequencies)) > 0.99


@BOTH
def test_what_is_not_a_number_counts_as_a_phase_of_zero(frequencies):
    n = columns(frequencies)
    centre = np.atleast_1d(frequencies.centre)[None]
    at_centre = sketch_sums(centre, frequencies)
    assert (at_centre[1] == 0).all() and (at_centre[0] > 0).all()
    for value in (np.nan, np.inf, -np.inf):
        assert np.array_equal(sketch_sums(np.full((1, n), value), frequencies), at_centre)
    assert np.array_equal(sketch_sums(np.zeros((0, n)), frequencies), np.zeros_like(at_centre))


def test_rounding_needs_its_term():
    """On a coarse grid integer features pass the unrounded bound, and never the one that is paid for."""
    ladder = FejerHarmonics(1.0, 8, 0.0)
    angles = np.linspace(0, 2 * math.pi, 2_000)[:, None]
    phases = angles * np.arange(1, 9)
    exact = np.concatenate([ladder.amplitudes * np.cos(phases), ladder.amplitudes * np.sin(phases)], axis=1)
    squared = ladder.squared_sensitivity(Neighbouring.REPLACE_ONE)
    for grid, exceeds in ((2.0**-3, True), (2.0**-10, True)):
        steps = np.rint(exact / grid)
        norms = np.square(steps).sum(axis=1)
        largest = (norms[:, None] + norms - 2 * steps @ steps.T).max()
        assert (largest > float(squared) / grid**2) == exceeds
        assert largest <= steps_of(squared, grid=grid, n_numbers=16, error=ladder.feature_error) ** 2


def test_sums_of_the_most_records_fit():
    """At the least epsilon the noise of a thousandth of the budget has 45 scales of room beside the largest sum."""
    for frequencies in (FRAMES, LADDER):
        extreme = np.abs(sketch_sums(np.atleast_1d(frequencies.centre)[None], frequencies)).max()
        scale, _ = GaussianFilter.of(SMALLEST_EPSILON, 1e-6).spend(
            bound(frequencies), share=Fraction(1, 1000), n_numbers=99
        )
        assert MAX_RECORDS * int(extreme) + 45 * scale < 2**62


@BOTH
@pytest.mark.parametrize("cut", [False, True], ids=["array", "blocks"])
def test_more_records_than_fit_are_refused_before_they_are_summed(frequencies, cut, monkeypatch):
    """Rows that take no memory: one row, many times."""
    monkeypatch.setattr(sketch_features, "_sums_of", lambda rows, *rest: np.zeros((2, frequencies.n_frequencies), int))
    n = columns(frequencies)
    most, one = np.broadcast_to(np.zeros((1, n)), (MAX_RECORDS, n)), np.zeros((1, n))
    monkeypatch.setattr(np, "ascontiguousarray", lambda rows, dtype: rows)
    assert sums_and_number([most] if cut else most, frequencies)[1] == MAX_RECORDS
    with pytest.raises(ValueError, match="at most 2\\^31 rows"):
        sums_and_number([most, one] if cut else np.broadcast_to(one, (MAX_RECORDS + 1, n)), frequencies)


# ------------------------------------------------------------------ errors of computed features
LONGEST = 0.4996660331253489  # of a turn: of 6 million, the one whose base pair is farthest from length 1, by 13.6 u
FINE = 2.0**52  # steps instead of amplitude / GRID, so that the kernel's integers show its floating-point numbers
SOME_TURNS = np.concatenate([[LONGEST, -LONGEST, 0.5, 0.25], np.random.default_rng(9).uniform(-0.5, 0.5, 4)])


def base_pairs(turns):
    cosines, sines = np.empty(len(turns)), np.empty(len(turns))
    sketch_features._base(turns[None].copy(), np.ones(1), len(turns), cosines, sines)
    return cosines, sines


def directions(turns):
    """Computed base pairs as exact numbers of length 1, in 30 digits: their arguments are the base phases."""
    pairs = [mpmath.mpc(c, s) for c, s in zip(*base_pairs(turns), strict=True)]
    return [pair / abs(pair) for pair in pairs]


def test_base_pairs_have_the_length_that_the_bound_takes():
    turns = np.concatenate([SOME_TURNS, 0.5 - np.random.default_rng(1).uniform(0, 1e-3, 4_000)])
    squares = [
        Fraction(c) ** 2 + Fraction(s) ** 2 for c, s in zip(*map(np.ndarray.tolist, base_pairs(turns)), strict=True)
    ]
    off = max(abs(float(square - 1)) / 2 for square in squares)
    assert 13 * 2.0**-53 < off < 22 * 2.0**-53
    exact = np.array([np.cos(2 * math.pi * turns), np.sin(2 * math.pi * turns)])
    assert np.abs(base_pairs(turns) - exact).max() < 4e-15


@pytest.mark.parametrize("order", [1, 16, 24, 64, 256, 1024])
def test_features_of_a_ladder_are_as_exact_as_is_paid_for(order):
    ladder = FejerHarmonics(2 * math.pi, order, 0.0)
    worst = 0.0
    with mpmath.workdps(30):
        for turn, direction in zip(SOME_TURNS, directions(SOME_TURNS), strict=True):
            out = np.zeros((2, 1, order), dtype=np.int64)
            sketch_features._ladder_sums(
                np.full((1, 1), turn), np.zeros(1), np.ones((1, 1, 1)), np.full(order, FINE), out
            )
            power = mpmath.mpc(1)
            for c, s in out[:, 0].T.tolist():
                power *= direction
                worst = max(worst, abs(float(c / FINE - power.real)), abs(float(s / FINE - power.imag)))
    assert worst < ladder.feature_error
    assert worst > ladder.feature_error / 4  # so no constant would do


@pytest.mark.parametrize("n_base", [1, 2, 3, 4, 5, 6])
def test_features_of_a_frame_are_as_exact_as_is_paid_for(n_base):
    frames = RieszProduct(np.eye(n_base)[None], np.zeros(n_base))
    signs, steps = frames.signs, np.full(len(frames.signs), FINE)
    rows = np.random.default_rng(n_base).choice(SOME_TURNS, size=(8, n_base))
    rows[0] = LONGEST
    worst = 0.0
    with mpmath.workdps(30):
        for row in rows:
            out = np.zeros((2, 1, len(signs)), dtype=np.int64)
            sketch_features._frame_sums(row[None], frames.centre, np.eye(n_base)[None], steps, out)
            bases = directions(row)
            for sign, (c, s) in zip(signs.tolist(), out[:, 0].T.tolist(), strict=True):
                exact = mpmath.fprod(z**power for z, power in zip(bases, sign, strict=True))
                worst = max(worst, abs(float(c / FINE - exact.real)), abs(float(s / FINE - exact.imag)))
    assert frames.feature_error / 4 < worst < frames.feature_error


def test_amplitudes_are_within_the_rest_of_the_error():
    """What the lengths of base pairs and the complex products leave of 36 u for a factor."""
    left = FACTOR_ERROR - (22 + math.sqrt(5)) * 2.0**-53
    for order in (1, 2, 16, 24, 64, 256, 1024):
        exact = [mpmath.sqrt(mpmath.mpf(order + 1 - j) / (order + 1)) for j in range(1, order + 1)]
        found = FejerHarmonics(1.0, order, 0.0).amplitudes.tolist()
        assert max(abs(float(a - b)) for a, b in zip(exact, found, strict=True)) + 2.0**-53 < order * left
