"""What stands before a sketch of unknown place: the private box of pairs and bins, cells of columns, the count."""

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
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of
from verification.targets.sketches import WHOLE, budget, little_noise

BOX = "mechanisms/box.py"
REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
FAILURE = DELTA / 2
SEEN = np.isin(box.EXPONENTS, (-2, 19))  # distances within a crowd and between two
PAIRS = np.isin(box.EXPONENTS, (0, 9))  # distances of the pairs by position
CROWD, OUTLIER = 200, 1e6
LEAST = 12  # records that are above the threshold of the whole box, which is 11.8
COLUMNS, FEW_CELLS = 9, 4


def whole_box(
    records: FloatArray, n_samples: int, rng: np.random.Generator, *, limit: Fraction = WHOLE, noise: Rng = None
) -> Any:
    """Counts of the first and the last kept bin, their number and width, and counts of some distances."""
    allowed = replace(budget(FAILURE), limit=budget(FAILURE).limit * limit)

    def run() -> FloatArray:
        found, _ = noisy_box(records, budget=allowed, share=WHOLE, neighbouring=REPLACE, rng=noise)
        column, scales = found.columns[0], found.scale_counts[0]
        counts = column.counts[[0, -1]] if column.counts.size else [np.nan, np.nan]
        return np.array([*counts, column.counts.size, math.log2(column.width), *scales[SEEN]])

    return rows_of(run, n_samples)


def no_threshold(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: non-empty bins are kept when the noisy count is positive."""
    with mock.patch.object(box, "location_threshold", return_value=0):
        return whole_box(records, n_samples, rng, noise=rng)


def kept_by_count(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a bin is kept if its number of records, without noise, is above the threshold."""
    compared = box._kept_bins

    def kept(found: FloatArray, counts: Any, width: float, *, scale: int, threshold: int, rng: Rng) -> Any:
        enough = counts * box.GRID > threshold
        return compared(found[enough], counts[enough], width, scale=scale, threshold=-(2**62), rng=rng)

    with mock.patch.object(box, "_kept_bins", kept):
        return whole_box(records, n_samples, rng, noise=rng)


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


def four_cells(records: FloatArray, n_samples: int, rng: np.random.Generator, *, silent: bool = False) -> Any:
    """Counts of four public cells; ``silent``: a cell without records stays 0."""

    def run() -> FloatArray:
        found, *_ = noisy_cells(records, np.array([[0.0, 4.0]]), 4, budget=budget(), share=WHOLE, neighbouring=REPLACE)
        seen = np.histogram(records, bins=4, range=(0.0, 4.0))[0] > 0
        return np.where(seen, found[0], 0.0) if silent else found[0]

    return rows_of(run, n_samples)


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


def targets() -> list[Specimen]:
    """Boxes of crowds, pairs and samples of them, cells of one column and of nine, the count; eight faults."""
    rest = np.array([[0.2, 0.1], [0.4, -0.3]])
    no_count = rest[:1]
    crowd = np.linspace(0.0, 1.0, CROWD)[:, None]
    lone, two_crowds = crowd.copy(), np.vstack([crowd - OUTLIER / 2, crowd + OUTLIER / 2])
    lone[0] = OUTLIER
    one_more = two_crowds.copy()
    one_more[0] += OUTLIER
    edge = np.append(np.linspace(0.0, 1.0, CROWD), np.full(LEAST, OUTLIER))[:, None]
    below = edge.copy()
    below[-1] = 0.5
    few = np.array([[0.5], [1.5], [1.5]]), np.array([[3.5], [1.5], [1.5]])
    nine = np.full((3, COLUMNS), 1.5), np.full((3, COLUMNS), 1.5)
    nine[0][0], nine[1][0] = 0.5, 3.5
    steps = np.cumsum(np.tile([1.0, 1000.0], 40))[:, None]
    in_turn = np.tile([0.0, 0.0, 1.0, 600.0], 100)[:, None]  # rows at even places lie close together, others far apart
    turns, sampled = (in_turn, in_turn[1:]), partial(pairs, paired=0.5)
    silent, cells_one_less = partial(four_cells, silent=True), partial(cells, neighbouring=ADD_REMOVE)
    column_each, box_little = partial(cells, apart=True), little_noise(whole_box, Fraction(100))
    claim, inf = (EPSILON, DELTA), math.inf
    fault = f"fault in {BOX}"
    return [
        Specimen("sketch_box", BOX, whole_box, crowd, lone, *claim, 1.0, False, 3_000),
        Specimen("sketch_box_of_two_crowds", BOX, whole_box, two_crowds, one_more, *claim, 1.0, False, 3_000),
        Specimen("sketch_cells", BOX, four_cells, *few, *claim, 1.0, False, 8_000),
        Specimen("sketch_cells_no_noise_if_empty", fault, silent, *few, *claim, inf, True, 2_000),
        at_bits("sketch_box_bits", BOX, whole_box, two_crowds, one_more, *claim, 1.0, False, 3_000),
        Specimen("sketch_box_no_threshold", fault, no_threshold, crowd, lone, *claim, inf, True, 4_000),
        Specimen("sketch_box_little_noise", fault, box_little, two_crowds, one_more, *claim, inf, True, 6_000),
        Specimen("sketch_cells_of_columns", BOX, cells, *nine, *claim, 1.0, False, 3_000),
        Specimen("sketch_cells_add_remove", BOX, cells_one_less, nine[1], nine[1][1:], *claim, 1.0, False, 3_000),
        Specimen("sketch_cells_each_paid_alone", fault, column_each, *nine, *claim, inf, True, 4_000),
        Specimen("sketch_count", BOX, count, rest, no_count, *claim, 1.0, False, 6_000),
        at_bits("sketch_count_bits", BOX, count, rest, no_count, *claim, 1.0, False, 4_000),
        Specimen("sketch_count_little_noise", fault, scant_count, rest, no_count, *claim, inf, True, 4_000),
        Specimen("sketch_box_add_remove", BOX, pairs, steps, steps[1:], *claim, 1.0, False, 1_000),
        Specimen("sketch_box_by_position", fault, by_position, steps, steps[1:], *claim, inf, True, 1_000),
        Specimen("sketch_box_sampled", BOX, sampled, *turns, *claim, 1.0, False, 1_000),
        Specimen("sketch_box_sampled_by_position", fault, sampled_by_position, *turns, *claim, inf, True, 1_000),
        Specimen("sketch_box_kept_by_count", fault, kept_by_count, edge, below, *claim, inf, True, 1_000),
    ]
