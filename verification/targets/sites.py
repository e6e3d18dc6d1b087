"""Sketches of one site at the frequencies of another's release."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms import box, sketch as sketch_module
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, Frequencies, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.moments import NoisyMoments
from pm_dpgmm.mechanisms.partitions import VoronoiPartition
from pm_dpgmm.mechanisms.sketch import NoisySketch, noisy_sketch
from pm_dpgmm.mechanisms.sketch_features import sums_and_number
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch import like as sketch_like
from pm_dpgmm.methods.sketch.like import Reference
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of
from verification.targets.sketch_fits import published

METHOD, CELLS = "methods/sketch/like.py", "methods/sketch/location.py"
ORDER = 4
ROUNDS = 9  # sketches of the reference
WAVES = [FejerHarmonics(step=math.pi * (2 * i + 1), order=1, centre=0.0) for i in range(ROUNDS)]  # all turn 1 by pi
RELATION = {True: Neighbouring.ADD_REMOVE, False: Neighbouring.REPLACE_ONE}


@cache
def budget() -> GaussianFilter:
    """Of the claim."""
    return GaussianFilter.of(EPSILON, DELTA)


def reference_at(waves: list[FejerHarmonics], add_remove: bool) -> Reference:
    """A public release with nine sketches; what its values are does not matter."""
    scale = 5.0 if add_remove else 0.0
    sketches = [NoisySketch(wave, np.zeros((2, 1)), 5.0 + i, 100.0, scale) for i, wave in enumerate(waves)]
    return Reference.of(SketchStatistics(tuple(sketches), np.ones(1)))


def like(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    add_remove: bool = False,
    centred: bool = False,
    noise: Rng = None,
) -> Any:
    """The release path; ``centred``, a fault: phases are taken from a record."""
    relation = RELATION[add_remove]
    problem = Problem(len(records), 1, 1, EPSILON, DELTA, None, relation)
    given = reference_at(WAVES, add_remove)
    if centred:
        waves = [replace(wave, centre=float(records[0, 0])) for wave in WAVES]
        given = reference_at(waves, add_remove)

    def run() -> FloatArray:
        found = sketch_like.sketch_like(records, given, budget(), problem, rng=noise)
        counts = [sketch.n_records for sketch in found.sketches] if add_remove else []
        centre: list[float] = found.centre.tolist() if centred else []  # a release says what its frequencies are
        return np.concatenate([*(sketch.values.ravel() for sketch in found.sketches), counts, centre])

    return rows_of(run, n_samples)


def known() -> Reference:
    """A ladder for bounds from 0 to 1, as a first site may have released it."""
    ladder = FejerHarmonics(step=math.pi, order=ORDER, centre=0.5)
    sketch = NoisySketch(ladder, np.zeros((2, ORDER)), 5.0, 100.0)
    return Reference.of(SketchStatistics((sketch,), np.array([0.5])))


def fitted(records: FloatArray, n_samples: int, rng: np.random.Generator, *, noise: Rng = None) -> Any:
    """A whole fit at a reference, whose bounds are counted first."""
    return published(records, n_samples, rng, like=known(), noise=noise)


def cells_unpaid(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the counts of the cells have no noise."""
    with mock.patch.object(box, "discrete_gaussian", lambda shape, scale, rng: np.zeros(shape, dtype=np.int64)):
        return fitted(records, n_samples, rng, noise=rng)


def whole_each(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: every sketch takes the whole budget."""

    def forgetful(data: FloatArray, frequencies: Any, *, budget: Any, share: Any, neighbouring: Any, rng: Any) -> Any:
        found, _ = noisy_sketch(
            data,
            frequencies,
            budget=replace(budget, spent=Fraction(0)),
            share=Fraction(1),
            neighbouring=neighbouring,
            rng=rng,
        )
        return found, budget

    with mock.patch.object(sketch_like, "noisy_sketch", forgetful):
        return like(records, n_samples, rng, noise=rng)


def hostile(records: FloatArray, n_samples: int, rng: np.random.Generator, *, noise: Rng = None) -> Any:
    """The release path at the most extreme reference that is accepted.

    Waves of denormal and of huge frequency, one that turns 1 by pi, and noise scales far apart, so that shares of the
    budget would round to nothing.
    """
    problem = Problem(len(records), 1, 1, EPSILON, DELTA, None, Neighbouring.REPLACE_ONE)
    waves: list[tuple[Frequencies, float]] = [
        (RieszProduct(np.array([[[5e-324]], [[1e15]], [[math.pi]]]), np.zeros(1)), 1e12),
        (FejerHarmonics(step=math.pi, order=1, centre=0.0), 1.0),
        (FejerHarmonics(step=math.pi, order=3, centre=0.0), 1e6),
        (RieszProduct(np.full((1, 2, 1), math.pi), np.zeros(1)), 3.0),
    ]
    sketches = [NoisySketch(wave, np.full((2, wave.n_frequencies), 1e12), scale, 1.0) for wave, scale in waves]
    given = Reference.of(SketchStatistics(tuple(sketches), np.ones(1)))
    given.check(problem, budget())

    def run() -> FloatArray:
        found = sketch_like.sketch_like(records, given, budget(), problem, rng=noise)
        return np.concatenate([sketch.values.ravel() for sketch in found.sketches])

    return rows_of(run, n_samples)


def next_row(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: a reference of ten columns, and a kernel that reads the nine records after each for the other nine."""
    width = 10
    problem = Problem(len(records), width, 1, EPSILON, DELTA, None, Neighbouring.REPLACE_ONE)
    wave = RieszProduct(np.full((1, 1, width), math.pi), np.zeros(width))
    cell = VoronoiPartition(np.zeros(width), np.ones(width), np.zeros((1, width)), np.ones(1))
    start = NoisyMoments(cell, np.full(1, 9.0), np.zeros((1, width)), np.eye(width)[None], 1.0)
    sketch = NoisySketch(wave, np.zeros((2, 1)), 5.0, 100.0)
    given = Reference.of(SketchStatistics((sketch,), np.ones(width), (start,)))

    def beyond(rows: FloatArray, frequencies: Any, *, n_threads: int = 1) -> Any:
        memory = np.append(rows.ravel(), np.zeros(width))
        wide = np.lib.stride_tricks.sliding_window_view(memory, width)[: len(rows)]
        return sums_and_number(wide, frequencies, n_threads=n_threads)

    def run() -> FloatArray:
        return sketch_like.sketch_like(records, given, budget(), problem, rng=rng).sketches[0].values.ravel()

    with mock.patch.object(sketch_module, "sums_and_number", beyond):
        return rows_of(run, n_samples)


def targets() -> list[Specimen]:
    """Under both relations, at both levels, with ordinary and with extreme references, and a whole fit; four faults."""
    line = np.array([[0.0], [0.3]]), np.array([[1.0], [0.3]])
    less = line[1], line[1][1:]
    claim, inf = (EPSILON, DELTA), math.inf
    many = np.zeros((12, 1)), np.append(np.zeros(11), 1.0)[:, None]
    near = np.linspace(0.01, 0.05, 20)[:, None]
    inside = near, np.vstack([[[0.99]], near[1:]])
    fault = f"fault in {METHOD}"
    add_remove, centred = partial(like, add_remove=True), partial(like, centred=True)
    return [
        Specimen("sites_like", METHOD, like, *line, *claim, 1.0, False, 4_000),
        at_bits("sites_like_bits", METHOD, like, *line, *claim, 1.0, False, 2_000),
        Specimen("sites_like_add_remove", METHOD, add_remove, *less, *claim, 1.0, False, 4_000),
        Specimen("sites_like_hostile", METHOD, hostile, *line, *claim, 1.0, False, 2_000),
        at_bits("sites_like_hostile_bits", METHOD, hostile, *line, *claim, 1.0, False, 1_000),
        Specimen("fit_gmm_like", CELLS, fitted, *inside, *claim, 1.0, False, 2_000),
        at_bits("fit_gmm_like_bits", CELLS, fitted, *inside, *claim, 1.0, False, 1_000),
        Specimen("fit_gmm_like_cells_unpaid", f"fault in {CELLS}", cells_unpaid, *inside, *claim, inf, True, 1_000),
        Specimen("sites_like_whole_budget_each", fault, whole_each, *line, *claim, inf, True, 8_000),
        Specimen("sites_like_next_row", fault, next_row, *many, *claim, inf, True, 2_000),
        Specimen("sites_like_centred_on_the_records", fault, centred, *line, *claim, inf, True, 1_000),
    ]
