"""What precedes and judges a private sketch: moments of parts, duels of mixtures, cells of columns, a count, pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms import box
from pm_dpgmm.mechanisms.box import noisy_box, noisy_cells, noisy_count
from pm_dpgmm.mechanisms.log_likelihood_ratio import CLIP, noisy_log_likelihood_ratio
from pm_dpgmm.mechanisms.moments import COUNT_WEIGHT, NoisyMoments, moment_sums, noisy_moments
from pm_dpgmm.mechanisms.partitions import Partition, SoftPartition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of
from verification.targets.sketches import (
    CROWD,
    FAILURE,
    LADDER,
    OUTLIER,
    SIXTEENFOLD,
    WHOLE,
    budget,
    little_noise,
    whole_box,
)

MOMENTS, DUEL, BOX, SKETCH = (
    "mechanisms/moments.py",
    "mechanisms/log_likelihood_ratio.py",
    "mechanisms/box.py",
    "mechanisms/sketch.py",
)
REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
ORIGIN = np.zeros(2), np.ones(2)
ONE_CELL = VoronoiPartition(*ORIGIN, centres=np.zeros((1, 2)), radii=np.ones(1))
TWO_CELLS = VoronoiPartition(*ORIGIN, centres=np.array([[0.0, 0.0], [10.0, 0.0]]), radii=np.ones(2))
FACTORS = np.tile(np.eye(2) / math.sqrt(2), (3, 1, 1))  # radii of 1 at reach 1
SOFT = SoftPartition.of(*ORIGIN, np.array([0.5, 0.5]), TWO_CELLS.centres / 5, FACTORS[:2], reach=1.0)
LEFT, RIGHT = (
    SoftPartition.of(*ORIGIN, np.ones(1), np.array([[x, 0.0]]), 2 * FACTORS[:1], reach=1.0) for x in (-3.0, 3.0)
)
COLUMNS, FEW_CELLS, TRIES, EQUAL_PARTS = 9, 4, 16, 16
LEAST = 12  # records that are above the threshold of the whole box, which is 11.8
PAIRS = np.isin(box.EXPONENTS, (0, 9))  # distances of the pairs by position


def flat(found: NoisyMoments) -> FloatArray:
    """Everything released, as one row."""
    squares = found.squares[:, *np.triu_indices(found.squares.shape[1])]
    return np.concatenate([found.counts, found.sums.ravel(), squares.ravel()])


def moments(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    partition: Partition = ONE_CELL,
    neighbouring: Neighbouring = REPLACE,
    limit: Fraction = WHOLE,
    noise: Rng = None,
) -> Any:
    """Moments with the whole budget; ``limit`` other than 1 is a fault."""
    settings: dict[str, Any] = {"share": WHOLE, "neighbouring": neighbouring, "rng": noise}
    allowed = replace(budget(), limit=budget().limit * limit)
    return rows_of(lambda: flat(noisy_moments(records, partition, budget=allowed, **settings)[0]), n_samples)


def with_noise(exact: Any, squared: float, n_samples: int, rng: np.random.Generator) -> FloatArray:
    """Numbers of a squared sensitivity with the noise that it asks for."""
    scale = 1.001 * math.sqrt(squared / budget().limit)
    return exact.ravel() + np.rint(rng.normal(scale=scale / GRID, size=(n_samples, exact.size))) * GRID


def out_of_the_ball(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: distances from the centre are not limited, and NaN is not replaced."""
    products = records[:, :, None] * records[:, None, :]
    exact = np.concatenate([[COUNT_WEIGHT * len(records)], records.sum(axis=0), products.sum(axis=0).ravel()])
    return with_noise(exact, 4.5, n_samples, rng)


def shares_of_one(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: densities over the largest, not over their sum, so a record counts whole in each of 16 equal parts."""
    exact = np.tile(moment_sums(records, ONE_CELL), (EQUAL_PARTS, 1)) * GRID
    return with_noise(exact, 4.5, n_samples, rng)


def floating_noise(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: moments in floating-point numbers with NumPy's normal noise."""
    products = records[:, :, None] * records[:, None, :]
    exact = np.concatenate([records.sum(axis=0), products.sum(axis=0).ravel()])
    return exact + rng.normal(scale=1.001 * math.sqrt(4.5 / budget().limit), size=(n_samples, exact.size))


def tried_again(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a start that is rejected is tried again with the whole budget, 16 times at most."""

    def run() -> FloatArray:
        tries: list[FloatArray] = []
        while len(tries) < TRIES and not (tries and tries[-1][0] > 1e3):
            tries.append(moments(records, 1, rng, noise=rng)[0])
        return np.asarray(np.mean(tries, axis=0))

    return rows_of(run, n_samples)


def floored(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: counts are floored at a tenth of the number of records, which is private."""
    found = moments(records, n_samples, rng, partition=TWO_CELLS, neighbouring=ADD_REMOVE)
    found[:, :2] = np.maximum(found[:, :2], 0.1 * len(records))
    return found


def duel(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: Neighbouring = REPLACE,
    limit: Fraction = WHOLE,
    noise: Rng = None,
) -> Any:
    """Two mixtures on the records, with the whole budget; ``limit`` other than 1 is a fault."""
    settings: dict[str, Any] = {"share": WHOLE, "neighbouring": neighbouring, "rng": noise}
    allowed = replace(budget(), limit=budget().limit * limit)
    return rows_of(lambda: [noisy_log_likelihood_ratio(records, LEFT, RIGHT, budget=allowed, **settings)[0]], n_samples)


def duel_unclipped(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a record far from both mixtures weighs as much as it likes."""
    exact = np.array([(np.square(records - RIGHT.centres) - np.square(records - LEFT.centres)).sum() / 4])
    return with_noise(exact, (2 * CLIP) ** 2, n_samples, rng)


def duel_in_floats(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a ratio in floating-point numbers with NumPy's normal noise."""
    scale = 1.001 * 2 * CLIP / math.sqrt(budget().limit)
    return np.clip(-3 * records[:, 0], -CLIP, CLIP).sum() + rng.normal(scale=scale, size=(n_samples, 1))


def cells(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: Neighbouring = REPLACE,
    apart: bool = False,
) -> Any:
    """Counts of the cells of nine columns; ``apart``: each column takes the whole budget."""
    settings: dict[str, Any] = {"budget": budget(), "share": WHOLE, "neighbouring": neighbouring}
    settings["rng"] = rng if apart else None
    every = np.tile([0.0, 4.0], (COLUMNS, 1))

    def run() -> FloatArray:
        if not apart:
            return noisy_cells(records, every, FEW_CELLS, **settings)[0].ravel()
        columns = (records[:, [j]] for j in range(COLUMNS))
        return np.concatenate([noisy_cells(c, every[:1], FEW_CELLS, **settings)[0].ravel() for c in columns])

    return rows_of(run, n_samples)


def count(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The number of records with the whole budget."""
    return rows_of(lambda: [noisy_count(records, budget=budget(), share=WHOLE)[0]], n_samples)


def scant_count(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a quarter of the noise that one record asks for."""
    scale = 0.25 / math.sqrt(budget().limit)
    return np.rint(len(records) + rng.normal(scale=scale, size=(n_samples, 1)))


def pairs(records: FloatArray, n_samples: int, rng: np.random.Generator, *, paired: float = 1.0) -> Any:
    """Distances within pairs, and the first kept bin, under add-remove."""
    settings: dict[str, Any] = {"budget": budget(FAILURE), "share": WHOLE, "neighbouring": ADD_REMOVE}
    settings["paired"] = paired

    def run() -> FloatArray:
        found, _ = noisy_box(records, **settings)
        first = found.columns[0].counts[0] if found.found else math.nan
        return np.array([*found.scale_counts[0][PAIRS], first, len(found.columns[0].counts)])

    return rows_of(run, n_samples)


def by_position(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: neighbours in the file are pairs, so that one record less pairs everyone anew."""

    def order(n: int, *, rng: Rng) -> Any:
        return np.concatenate([np.arange(0, n - 1, 2), np.arange(1, n, 2)])

    with mock.patch.object(box, "permutation", order):
        return pairs(records, n_samples, rng)


def sampled_by_position(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: every second record is in the sample, so that one record less makes it another sample."""

    def every_second(n: int, *, probability: float, rng: Rng) -> Any:
        return np.arange(n) % 2 == 0

    with mock.patch.object(box, "bernoullis", every_second):
        return pairs(records, n_samples, rng, paired=0.5)


def kept_by_count(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a bin is kept if its number of records, without noise, is above the threshold."""
    compared = box._kept_bins

    def kept(found: FloatArray, counts: Any, width: float, *, scale: int, threshold: int, rng: Rng) -> Any:
        enough = counts * box.GRID > threshold
        return compared(found[enough], counts[enough], width, scale=scale, threshold=-(2**62), rng=rng)

    with mock.patch.object(box, "_kept_bins", kept):
        return whole_box(records, n_samples, rng, noise=rng)


def frequencies_of_records(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the ladder is as wide as the records are, and is published with the sketch."""
    ladder = replace(LADDER, step=LADDER.step / records.std())
    settings: dict[str, Any] = {"budget": budget(), "share": WHOLE, "neighbouring": REPLACE, "rng": rng}
    return rows_of(lambda: np.append(noisy_sketch(records, ladder, **settings)[0].values, ladder.step), n_samples)


def targets() -> list[Specimen]:
    """Every release at its worst pairs, at both levels; thirteen faults."""
    rest = np.array([[0.2, 0.1], [0.4, -0.3]])

    def pair(one: list[float], other: list[float]) -> tuple[FloatArray, FloatArray]:
        return np.vstack([one, rest]), np.vstack([other, rest])

    side = math.sqrt(3) / 2
    one_part, two_parts = pair([1.0, 0.0], [-0.5, side]), pair([1.0, 0.0], [11.0, 0.0])
    soft, wild = pair([-9.0, 0.0], [12.0, 0.0]), pair([np.nan, 1e308], [-1e300, 5e-324])
    far, ends = pair([1.0, 0.0], [30.0, 0.0]), pair([-10.0, 0.0], [10.0, 0.0])
    less = one_part[0], rest
    nine = np.full((3, COLUMNS), 1.5), np.full((3, COLUMNS), 1.5)
    nine[0][0], nine[1][0] = 0.5, 3.5
    line = np.array([[0.0], [0.3]]), np.array([[1.0], [0.3]])
    steps = np.cumsum(np.tile([1.0, 1000.0], 40))[:, None]
    in_turn = np.tile([0.0, 0.0, 1.0, 600.0], 100)[:, None]  # rows at even places lie close together, others far apart
    turns, sampled = (in_turn, in_turn[1:]), partial(pairs, paired=0.5)
    edge = np.append(np.linspace(0.0, 1.0, CROWD), np.full(LEAST, OUTLIER))[:, None]
    below = edge.copy()
    below[-1] = 0.5
    claim, inf = (EPSILON, DELTA), math.inf
    by_two, by_soft = partial(moments, partition=TWO_CELLS), partial(moments, partition=SOFT)
    one_less, no_count = partial(moments, neighbouring=ADD_REMOVE), rest[:1]
    duel_one_less, cells_one_less = partial(duel, neighbouring=ADD_REMOVE), partial(cells, neighbouring=ADD_REMOVE)
    weak, half = little_noise(moments, SIXTEENFOLD), little_noise(duel, Fraction(4))
    column_each = partial(cells, apart=True)
    fault_m, fault_d, fault_b, fault_s = (f"fault in {module}" for module in (MOMENTS, DUEL, BOX, SKETCH))
    return [
        Specimen("moments", MOMENTS, moments, *one_part, *claim, 1.0, False, 4_000),
        at_bits("moments_bits", MOMENTS, moments, *one_part, *claim, 1.0, False, 4_000),
        Specimen("moments_of_two_cells", MOMENTS, by_two, *two_parts, *claim, 1.0, False, 3_000),
        Specimen("moments_soft", MOMENTS, by_soft, *soft, *claim, 1.0, False, 4_000),
        at_bits("moments_soft_bits", MOMENTS, by_soft, *soft, *claim, 1.0, False, 4_000),
        Specimen("moments_of_wild_records", MOMENTS, by_soft, *wild, *claim, 1.0, False, 3_000),
        Specimen("moments_add_remove", MOMENTS, one_less, *less, *claim, 1.0, False, 3_000),
        Specimen("moments_little_noise", fault_m, weak, *one_part, *claim, inf, True, 4_000),
        Specimen("moments_out_of_the_ball", fault_m, out_of_the_ball, *far, *claim, inf, True, 2_000),
        Specimen("moments_shares_of_one", fault_m, shares_of_one, *one_part, *claim, inf, True, 4_000),
        Specimen("moments_tried_again", fault_m, tried_again, *one_part, *claim, inf, True, 2_000),
        Specimen("moments_floored", fault_m, floored, rest, no_count, *claim, inf, True, 2_000),
        at_bits("moments_floating_bits", fault_m, floating_noise, *one_part, *claim, inf, True, 8_000),
        Specimen("duel", DUEL, duel, *ends, *claim, 1.0, False, 8_000),
        at_bits("duel_bits", DUEL, duel, *ends, *claim, 1.0, False, 4_000),
        Specimen("duel_of_wild_records", DUEL, duel, *wild, *claim, 1.0, False, 3_000),
        Specimen("duel_add_remove", DUEL, duel_one_less, ends[0], rest, *claim, 1.0, False, 4_000),
        Specimen("duel_half_noise", fault_d, half, *ends, *claim, inf, True, 12_000),
        Specimen("duel_unclipped", fault_d, duel_unclipped, *far, *claim, inf, True, 2_000),
        at_bits("duel_floating_bits", fault_d, duel_in_floats, *one_part, *claim, inf, True, 8_000),
        Specimen("sketch_cells_of_columns", BOX, cells, *nine, *claim, 1.0, False, 3_000),
        Specimen("sketch_cells_add_remove", BOX, cells_one_less, nine[1], nine[1][1:], *claim, 1.0, False, 3_000),
        Specimen("sketch_cells_each_paid_alone", fault_b, column_each, *nine, *claim, inf, True, 4_000),
        Specimen("sketch_count", BOX, count, rest, no_count, *claim, 1.0, False, 6_000),
        at_bits("sketch_count_bits", BOX, count, rest, no_count, *claim, 1.0, False, 4_000),
        Specimen("sketch_count_little_noise", fault_b, scant_count, rest, no_count, *claim, inf, True, 4_000),
        Specimen("sketch_box_add_remove", BOX, pairs, steps, steps[1:], *claim, 1.0, False, 1_000),
        Specimen("sketch_box_by_position", fault_b, by_position, steps, steps[1:], *claim, inf, True, 1_000),
        Specimen("sketch_box_sampled", BOX, sampled, *turns, *claim, 1.0, False, 1_000),
        Specimen("sketch_box_sampled_by_position", fault_b, sampled_by_position, *turns, *claim, inf, True, 1_000),
        Specimen("sketch_box_kept_by_count", fault_b, kept_by_count, edge, below, *claim, inf, True, 1_000),
        Specimen("sketch_frequencies_of_records", fault_s, frequencies_of_records, *line, *claim, inf, True, 1_000),
    ]
