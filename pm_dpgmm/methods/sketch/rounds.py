"""Rounds of the sketch method for two columns and more: cells, parts, whitened sketches. Proof: rounds.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm._blocks import Records
from pm_dpgmm.mechanisms.frequencies import RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.log_likelihood_ratio import noisy_log_likelihood_ratio
from pm_dpgmm.mechanisms.moments import NoisyMoments, noisy_moments
from pm_dpgmm.mechanisms.partitions import SoftPartition, VoronoiPartition
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.methods.outcome import Problem, Progress
from pm_dpgmm.methods.sketch.choice import Choice, choose
from pm_dpgmm.methods.sketch.covariance_types import AUTO, FULL
from pm_dpgmm.methods.sketch.estimate import SketchFit, fit_evidence, less_floor, sketch_data, with_floor
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.start import leaves_of, level_sizes, next_cells, starts, trusted_leaves
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.privacy.noise import Rng

FIRST_ROUND = 0.25  # share of mu^2
DUEL, N_DUELS = Fraction(1, 40), 3  # of what is left after the first round, if its fit was rejected
SURE = 2.0  # standard deviations by which a fit must beat another one then
FRAME_SEED = 20243  # public: frequencies are drawn from it, noise never is
N_BASE = 4  # base frequencies of a frame
RADIUS_SQUARED = 0.65  # of base frequencies, whitened
LEAST_FRAMES, MOST_FRAMES = 20, 75  # of the second round
COVERED = 8 / 6  # frames for each six pairs of columns and each component: a frame tells of six products of axes
FLATTEST = 1e-12  # least eigenvalue of a covariance, as a share of its largest
MANY = 8  # columns at which the start gets more of the budget
WIDER = 0.5  # squared steps of a rounded column that frames add to variances
SOFT_REACH = 2.0  # radius of a part, in root mean square distances

Duel = tuple[float, float]  # what was released of it: gain with noise, and the noise's standard deviation
Heard = Callable[[SketchStatistics, Mapping[int, ScaledMixture], Sequence[Duel]], None]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Shares and sizes, from public numbers."""

    cells: Fraction  # of all levels together
    soft: Fraction
    first: Fraction
    leaves: int
    frames: tuple[int, int]

    @classmethod
    def of(cls, problem: Problem, budget: GaussianFilter) -> Schedule:
        """By how much signal there is for each component."""
        k, d = problem.n_components, problem.n_features
        signal = problem.n_records * math.sqrt(budget.limit) / (k * (d + 2))
        left = 1 - budget.spent / budget.limit
        if d < MANY:  # a search in the sketch finds clusters with a rougher start
            over = min(max(signal / 30, 1.5), 4.0)
            cells = min(max(0.06 * math.sqrt(100 / signal), 0.05), 0.12)
            soft = min(max(0.08 * (100 / signal) ** 0.3, 0.06), 0.12)
        else:  # small cells are mostly noise
            over = min(max(signal / 60, 1.5), 2.0)
            cells = min(max(0.12 * math.sqrt(100 / signal), 0.08), 0.2)
            soft = min(max(0.1 * (100 / signal) ** 0.3, 0.08), 0.15)
        frames = n_frames(d, k)
        share = [Fraction(part).limit_denominator(10**6) * left for part in (cells, soft, FIRST_ROUND)]
        leaves = max(2, round(over * k)) if k > 1 else 1
        return cls(share[0], share[1], share[2], leaves, (max(math.ceil(0.6 * frames), k), frames))


def run_rounds(
    records: Records,
    centre: FloatArray,
    unit: FloatArray,
    budget: GaussianFilter,
    problem: Problem,
    *,
    progress: Progress,
    rng: Rng,
    variance_floor: FloatArray | None = None,
    resolution: FloatArray | None = None,
    covariance_type: str = FULL,
    known: ScaledMixture | None = None,
    released: Heard = lambda evidence, starts, duels: None,
) -> tuple[SketchStatistics, SketchFit, Choice]:
    """Spend the rest of the budget on a start and two sketches, and fit; the numbers of components are compared twice.

    ``variance_floor``: public variances that every component has at least, in the unit of the rounds. ``resolution``:
    public steps of rounded columns, in the unit of the records. ``covariance_type``: of the fits; "auto" is decided
    when all is released, which is the same as for "full". ``known``: a mixture of ``problem.n_components`` from an
    earlier release, in that unit; it replaces the moments that frames are turned to. ``released`` is told after every
    step what is released by then; :func:`replayed` makes the same fits from that.

    Guarantee
    ---------
    What is left of ``budget``, in squared Gaussian differential privacy. Proof: rounds.md.
    """
    schedule, k = Schedule.of(problem, budget), problem.n_components
    settings: dict[str, Any] = {"neighbouring": problem.neighbouring, "rng": rng}
    first = {} if known is None else {k: less_floor(known, variance_floor)}
    cells, budget = _cells(records, centre, unit, budget, schedule, problem, settings)
    released(SketchStatistics((), unit, tuple(cells), (), variance_floor), first, ())
    measured, moments = known, tuple[NoisyMoments, ...]()
    if measured is None:
        start = starts(trusted_leaves(cells[-1], problem.n_records), k)[0]
        parts = SoftPartition.of(centre, unit, start.weights, start.means, start.factors, reach=SOFT_REACH)
        soft, budget = noisy_moments(records, parts, budget=budget, share=schedule.soft, **settings)
        measured, moments = leaves_of(soft, problem.n_records, least_count=0.005), (soft,)
        released(SketchStatistics((), unit, tuple(cells), moments, variance_floor), first, ())
    frames = whitened_frames(measured, unit, centre, schedule.frames[0], turn=0, resolution=resolution)
    sketch, budget = noisy_sketch(records, frames, budget=budget, share=schedule.first, **settings)
    own = problem.bounds, resolution, covariance_type
    evidence = SketchStatistics((sketch,), unit, tuple(cells), moments, variance_floor, *own)
    released(evidence, first, ())
    progress(1, 3)

    choice = choose(_opening(evidence), problem.component_choices, first=first, last=False)
    fit = choice.best
    progress(2, 3)
    if not fit.rejected:
        frames = whitened_frames(with_floor(fit), unit, centre, schedule.frames[1], turn=1, resolution=resolution)
        share = 1 - budget.spent / budget.limit
        sketch, budget = noisy_sketch(records, frames, budget=budget, share=share, **settings)
        evidence = replace(evidence, sketches=(*evidence.sketches, sketch))
        released(evidence, first, ())
        choice = choose(evidence, problem.component_choices, first=choice.starts)
        fit = choice.best
    else:
        tell = partial(_tell, released, first)
        evidence, fit = _rejected(records, _opening(evidence), fit, budget, schedule, settings, tell)
    progress(3, 3)
    return evidence, fit, choice


def most_numbers(problem: Problem, budget: GaussianFilter) -> int:
    """Integers that :func:`run_rounds` can release, on any branch and whatever the noisy number of records is."""
    k, d = problem.n_components, problem.n_features
    schedules = [Schedule.of(replace(problem, n_records=10**power), budget) for power in range(11)]
    n_parts = max(sum(level_sizes(schedule.leaves)) for schedule in schedules) + k
    frames = max(schedule.frames[0] + max(schedule.frames[1], 2 * k) for schedule in schedules)
    return n_parts * (1 + d + d * (d + 1) // 2) + frames * (3**N_BASE - 1) + N_DUELS + 3  # three counts


def _cells(
    records: Records,
    centre: FloatArray,
    unit: FloatArray,
    budget: GaussianFilter,
    schedule: Schedule,
    problem: Problem,
    settings: dict[str, Any],
) -> tuple[list[NoisyMoments], GaussianFilter]:
    """Moments of cells, level by level."""
    sizes, d = level_sizes(schedule.leaves), problem.n_features
    partition = VoronoiPartition(centre, unit, np.zeros((1, d)), np.array([math.sqrt(d)]))
    cells: list[NoisyMoments] = []
    for level in range(len(sizes)):
        share = schedule.cells / len(sizes)
        moments, budget = noisy_moments(records, partition, budget=budget, share=share, **settings)
        cells.append(moments)
        if level + 1 < len(sizes):
            partition = next_cells(moments, leaves_of(moments, problem.n_records), sizes[level + 1])
    return cells, budget


def _tell(
    released: Heard, first: Mapping[int, ScaledMixture], evidence: SketchStatistics, duels: Sequence[Duel]
) -> None:
    released(evidence, first, duels)


def _rejected(
    records: Records,
    evidence: SketchStatistics,
    fit: SketchFit,
    budget: GaussianFilter,
    schedule: Schedule,
    settings: dict[str, Any],
    tell: Callable[[SketchStatistics, Sequence[Duel]], None],
) -> tuple[SketchStatistics, SketchFit]:
    """The records are not like any mixture that was found: two more sketches instead of one, and three duels."""
    left, number = 1 - budget.spent / budget.limit, max(schedule.frames[1] // 2, fit.found.n_components)
    duels: list[Duel] = []

    def sketched(so_far: SketchStatistics, metric: SketchFit, turn: int) -> SketchStatistics:
        nonlocal budget
        waves = with_floor(metric), evidence.unit, evidence.centre, number
        frames = whitened_frames(*waves, turn=turn, resolution=evidence.resolution)
        share = left * (1 - N_DUELS * DUEL) / 2
        sketch, budget = noisy_sketch(records, frames, budget=budget, share=share, **settings)
        found = replace(so_far, sketches=(*so_far.sketches, sketch))
        tell(found, duels)
        return found

    def duelled(so_far: SketchStatistics, one: SoftPartition, other: SoftPartition) -> Duel:
        nonlocal budget
        gain, scale, budget = noisy_log_likelihood_ratio(
            records, one, other, budget=budget, share=left * DUEL, **settings
        )
        duels.append((gain, scale))
        tell(so_far, duels)
        return gain, scale

    return contested(evidence, fit, sketched, duelled)


def contested(
    evidence: SketchStatistics,
    fit: SketchFit,
    sketched: Callable[[SketchStatistics, SketchFit, int], SketchStatistics],
    duelled: Callable[[SketchStatistics, SoftPartition, SoftPartition], Duel],
) -> tuple[SketchStatistics, SketchFit]:
    """A sketch, a duel, a sketch and two duels after a rejected fit, wherever their numbers come from.

    Frames in the metric of a poor fit tell little, so the second half of them is turned to what the first half found.
    Chi-square says little of which fit is the better density; the records' likelihood decides.
    """
    k, unit, centre = fit.found.n_components, evidence.unit, evidence.centre

    def better(champion: SketchFit, other: SketchFit) -> SketchFit:
        """The other one only if the records surely say so."""
        ours, theirs = (
            SoftPartition.of(centre, unit, *item.data.components(item.found), reach=1.0) for item in (champion, other)
        )
        gain, scale = duelled(evidence, theirs, ours)
        return other if gain > SURE * scale else champion

    plain = fit_evidence(evidence, k, search=False, last=False).found
    evidence = sketched(evidence, fit, 1)
    fits = [fit_evidence(evidence, k, first=[start], search=False, last=False) for start in (fit.found, plain)]
    champion = better(*sorted(fits, key=lambda item: item.found.objective))
    evidence = sketched(evidence, champion, 2)
    before = SketchFit.of(sketch_data(evidence), champion.found)
    champion = better(fit_evidence(evidence, k, first=[champion.found], search=False), before)
    return evidence, better(champion, fit_evidence(evidence, k, first=[fit.found]))


def replayed(
    evidence: SketchStatistics, numbers: Sequence[int], first: Mapping[int, ScaledMixture], duels: Sequence[Duel]
) -> tuple[SketchFit, Choice]:
    """The fits of :func:`run_rounds` to what it released; to the same bits where it had released everything.

    From a part of the releases, the fit to that part.
    """
    opening = _opening(replace(evidence, sketches=evidence.sketches[:1]))
    choice = choose(opening, numbers, first=first, last=False)
    if choice.best.rejected and (len(evidence.sketches), len(duels)) == (3, N_DUELS):
        later, told = iter(evidence.sketches[1:]), iter(duels)

        def sketched(so_far: SketchStatistics, metric: SketchFit, turn: int) -> SketchStatistics:
            return replace(so_far, sketches=(*so_far.sketches, next(later)))

        return contested(opening, choice.best, sketched, lambda so_far, one, other: next(told))[1], choice
    choice = choose(evidence, numbers, first=choice.starts)
    return choice.best, choice


def _opening(evidence: SketchStatistics) -> SketchStatistics:
    """What frames are turned by: where the kind of covariances is open, it is decided when all is released."""
    return replace(evidence, covariance_type=FULL) if evidence.covariance_type == AUTO else evidence


def n_frames(n_features: int, n_components: int) -> int:
    """Frames of the second round: enough to tell all entries of all covariances."""
    enough = math.ceil(COVERED * n_features * (n_features - 1) / 12) * n_components
    return max(min(max(LEAST_FRAMES, enough), MOST_FRAMES), n_components)


def whitened_frames(
    mixture: ScaledMixture,
    unit: FloatArray,
    centre: FloatArray,
    number: int,
    *,
    turn: int,
    resolution: FloatArray | None = None,
) -> RieszProduct:
    """Frames in the metric of every component in turn; in the first round half way to a round one.

    Where columns are rounded no frame is made for components much narrower than the steps.
    """
    rng = np.random.default_rng([FRAME_SEED, turn])
    k, d = mixture.means.shape
    radius = math.sqrt(RADIUS_SQUARED)
    covariances = mixture.covariances
    if resolution is not None:
        covariances = covariances + np.diag(WIDER * np.square(resolution / unit))
    values, vectors = np.linalg.eigh(covariances)
    values = np.maximum(values, FLATTEST * values[:, -1:])  # rounding may have made them negative
    if turn == 0:
        middle = np.exp(np.log(values).mean(axis=1, keepdims=True))
        values = np.sqrt(values * middle)
    bases = np.empty((number, N_BASE, d))
    for f in range(number):
        if d >= N_BASE:
            directions = np.linalg.qr(rng.standard_normal((d, N_BASE)))[0].T
        else:
            directions = rng.standard_normal((N_BASE, d))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        whitener = vectors[f % k] / np.sqrt(values[f % k])
        bases[f] = radius * directions @ whitener.T / unit
    return RieszProduct(bases, centre)
