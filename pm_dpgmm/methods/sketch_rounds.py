"""Rounds of the sketch method for two columns and more: start, whitened sketches, fit. Proof: sketch_rounds.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.frequencies import RieszFrames
from pm_dpgmm.mechanisms.gaussian_budget import GaussianBudget
from pm_dpgmm.mechanisms.moments import Cells, NoisyMoments, Parts, noisy_moments
from pm_dpgmm.mechanisms.sketch import NoisySketch, noisy_sketch
from pm_dpgmm.methods import Problem, Progress
from pm_dpgmm.noise import Rng
from pm_dpgmm.sketch_fit import Fitted, Prior, SketchData, misfit
from pm_dpgmm.sketch_search import fit_from
from pm_dpgmm.sketch_start import Leaves, leaves_of, level_sizes, next_cells, padded, starts

FIRST_ROUND = 0.3  # share of mu^2
FRAME_SEED = 20243  # public: frequencies are drawn from it, noise never is
RADIUS_SQUARED = 0.6  # of a frame's base frequencies, whitened
SOFT_REACH = 2.0  # radius of a part, in root mean square distances


@dataclass(frozen=True, slots=True)
class Schedule:
    """Shares and sizes, from public numbers."""

    cells: Fraction  # of all levels together
    soft: Fraction
    first: Fraction
    leaves: int
    frames: tuple[int, int]
    thorough: bool

    @classmethod
    def of(cls, problem: Problem, budget: GaussianBudget) -> Schedule:
        """By how much signal there is for each component."""
        k, d = problem.n_components, problem.n_features
        signal = problem.n_records * math.sqrt(budget.limit) / (k * (d + 2))
        left = 1 - budget.spent / budget.limit
        cells = min(max(0.12 * math.sqrt(100 / signal), 0.08), 0.2)
        soft = min(max(0.1 * (100 / signal) ** 0.3, 0.08), 0.15)
        frames = (8, 12) if d < 8 else (10, 16) if d < 15 else (16, 28)
        over = min(max(signal / 15, 1.5), 4.0)
        leaves = max(2, round(over * k)) if k > 1 else 1
        share = [Fraction(part).limit_denominator(10**6) * left for part in (cells, soft, FIRST_ROUND)]
        return cls(
            share[0], share[1], share[2], leaves, (max(frames[0], k), max(frames[1], k)),
            thorough=signal < 40 and d < 9,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """All that was released, and the fit to it."""

    cells: tuple[NoisyMoments, ...]
    soft: NoisyMoments
    sketches: tuple[NoisySketch, ...]
    data: SketchData
    found: Fitted
    misfit: float


def run_rounds(
    records: FloatArray, centre: FloatArray, unit: FloatArray, budget: GaussianBudget, problem: Problem, *,
    progress: Progress, rng: Rng,
) -> Rounds:  # fmt: skip
    """Spend the rest of the budget on a start and two sketches, and fit."""
    schedule, k, d = Schedule.of(problem, budget), problem.n_components, problem.n_features
    settings = {"neighbouring": problem.neighbouring, "rng": rng}
    radius = math.sqrt(d)

    sizes = level_sizes(schedule.leaves)
    partition = Cells(centre, unit, np.zeros((1, d)), np.array([radius]))
    cells: list[NoisyMoments] = []
    atoms: list[Leaves] = []
    for level, _ in enumerate(sizes):
        moments, budget = noisy_moments(
            records, partition, budget=budget, share=schedule.cells / len(sizes), **settings
        )
        leaves = leaves_of(moments, problem.n_records)
        cells.append(moments)
        atoms.append(leaves)
        if level + 1 < len(sizes):
            partition = next_cells(moments, leaves, sizes[level + 1])
    candidates = starts(leaves, k)
    first = candidates[0]
    parts = Parts.of(centre, unit, first.weights, first.means, first.factors, reach=SOFT_REACH)
    soft, budget = noisy_moments(records, parts, budget=budget, share=schedule.soft, **settings)
    best = leaves_of(soft, problem.n_records, least_count=0.005)
    candidates = [best, *candidates]

    places = np.concatenate([item.means for item in atoms]), np.concatenate([item.factors for item in atoms])
    sketches: list[NoisySketch] = []
    for turn in (0, 1):
        share = schedule.first if turn == 0 else 1 - budget.spent / budget.limit
        frames = whitened_frames(best, unit, centre, schedule.frames[turn], turn)
        sketch, budget = noisy_sketch(records, frames, budget=budget, share=share, **settings)
        sketches.append(sketch)
        data = SketchData.of(sketches, unit, spread=2 * radius)
        scale = np.sqrt(np.exp(best.weights @ np.log(np.diagonal(best.covariances, axis1=1, axis2=2))))
        prior = Prior(radius, scale, log_scales=0.7, slopes=0.3)
        begin = [Fitted(c.weights, c.means, c.factors) for c in (candidates if turn == 0 else [best, *candidates])]
        found = fit_from(data, begin, prior, places, radius=radius, thorough=schedule.thorough)
        best = Leaves(found.weights / found.weights.sum(), found.means, found.factors @ found.factors.swapaxes(1, 2))
        progress(turn + 1, 2)
    return Rounds(tuple(cells), soft, tuple(sketches), data, found, misfit(data, found))


def whitened_frames(
    mixture: Leaves, unit: FloatArray, centre: FloatArray, number: int, turn: int
) -> RieszFrames:
    """Frames in the metric of every component in turn; in the first round half way to a round one."""
    rng = np.random.default_rng([FRAME_SEED, turn])
    k, d = mixture.means.shape
    n_base = 3 if d == 3 else 4
    values, vectors = np.linalg.eigh(mixture.covariances)
    if turn == 0:
        middle = np.exp(np.log(values).mean(axis=1, keepdims=True))
        values = np.sqrt(values * middle)
    bases = np.empty((number, n_base, d))
    for f in range(number):
        if d >= n_base:
            directions = np.linalg.qr(rng.standard_normal((d, n_base)))[0].T
        else:
            directions = rng.standard_normal((n_base, d))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        j = f % k
        whitener = vectors[j] / np.sqrt(values[j])
        bases[f] = math.sqrt(RADIUS_SQUARED) * directions @ whitener.T / unit
    return RieszFrames(bases, centre)
