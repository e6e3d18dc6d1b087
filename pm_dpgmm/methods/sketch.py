"""One noisy characteristic function of a column, then a mixture fit to it. Proof: sketch.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count
from pm_dpgmm.mechanisms.box import SEEN, noisy_box, noisy_cells
from pm_dpgmm.mechanisms.frequencies import FejerLadder
from pm_dpgmm.mechanisms.gaussian_budget import GaussianBudget
from pm_dpgmm.mechanisms.sketch import NoisySketch, noisy_sketch
from pm_dpgmm.methods import Outcome, Problem, Progress
from pm_dpgmm.mixture import Mixture
from pm_dpgmm.noise import Rng
from pm_dpgmm.privacy import Guarantee, Neighbouring, Unstable
from pm_dpgmm.sketch_fit import Prior, SketchData, misfit
from pm_dpgmm.sketch_search import fit_sketch

BOX_SHARE, FAILURE_SHARE = Fraction(1, 10), 0.1  # of mu^2 and of delta, without bounds
CELLS, CELLS_SHARE, MOST_ROUNDS = 16, Fraction(1, 50), 6  # of the search for a narrower interval within bounds
FEW, DOUBT = 2, 2.5  # cells in use at which the search goes on; standard deviations of records that may be outside
PERIOD = 2.5  # longest wave of the ladder, in half-widths of the interval: what lies just outside stays apart
RADIUS_PRIOR, SCALE_PRIOR = 0.5, 1 / 6  # of means and component deviations, in half-widths


@dataclass(frozen=True, slots=True)
class SketchMethod:
    """Settings of ``method="sketch"``; one column so far.

    Parameters
    ----------
    order : int, optional
        Frequencies of the ladder. None: 16, or 24 for many records. A component narrower than about
        0.4 half-widths of the interval over ``order`` is not resolved.

    Guarantee
    ---------
    (epsilon, delta)-DP of the interval's counts and of the sketch, under replace-one neighbours, with or without
    bounds; mixture, misfit and all else are functions of them. Proof: sketch.md.
    """

    order: int | None = None
    name: ClassVar[str] = "sketch"

    def __post_init__(self) -> None:
        if self.order is not None:
            check_count(least=2, order=self.order)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, also for a refusal."""
        return problem.epsilon, problem.delta

    def budget(self, problem: Problem) -> GaussianBudget:
        """What may be spent; without bounds a tenth of delta is set aside for the box."""
        failure = 0.0 if problem.bounds is not None else FAILURE_SHARE * problem.delta
        return GaussianBudget.of(problem.epsilon, problem.delta, failure=failure)

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        words = "private sketch (methods/sketch.md)"
        return Guarantee(problem.epsilon, problem.delta, problem.neighbouring, words, self.budget(problem).loss())

    def ladder(self, problem: Problem, interval: tuple[float, float]) -> FejerLadder:
        """Frequencies for an interval, from public numbers."""
        strength = problem.n_records * math.sqrt(self.budget(problem).limit)
        order = self.order or (16 if strength < 5_000 else 24)
        order = max(order, 2 * problem.n_components) if self.order is None else order
        low, high = interval
        half = high / 2 - low / 2
        return FejerLadder(2 * math.pi / (PERIOD * half), order, low + half)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless there is one column, delta > 0 and replace-one neighbours."""
        if problem.n_features != 1:
            raise ValueError(f"method 'sketch' supports 1 feature so far, got {problem.n_features}")
        if problem.delta <= 0:
            raise ValueError("method 'sketch' needs delta greater than 0, got 0")
        if problem.neighbouring is not Neighbouring.REPLACE_ONE:
            raise ValueError(f"method 'sketch' supports replace-one neighbours, got {problem.neighbouring}")
        if problem.bounds is not None:
            low, high = problem.bounds[0]
            if high / 2 - low / 2 < 1e-100 or max(abs(low), abs(high)) > 1e100:
                raise ValueError(
                    f"bounds must lie within 1e100 and 1e-100 apart, got {problem.bounds.tolist()}; rescale"
                )
        self.guarantee(problem)

    def release(
        self, records: FloatArray, problem: Problem, *, learner: Any, n_jobs: int | None, progress: Progress, rng: Rng
    ) -> Outcome:
        """Find an interval, sketch, fit; see the class for the guarantee."""
        guarantee, budget = self.guarantee(problem), self.budget(problem)
        if problem.bounds is None:
            interval, raw, budget = _unbounded(records, budget, problem, rng)
            if interval is None:
                raise Unstable(
                    "method 'sketch' refused: no interval holds enough records to be named in private. The budget is"
                    " spent. Use more records or a larger epsilon, or give bounds.",
                    guarantee,
                )
        else:
            records = np.clip(records, problem.bounds[:, 0], problem.bounds[:, 1])
            interval, raw, budget = _within(records, budget, problem, rng)
        progress(1, 2)
        ladder = self.ladder(problem, interval)
        share = 1 - budget.spent / budget.limit
        sketch, _ = noisy_sketch(
            records, ladder, budget=budget, share=share, neighbouring=problem.neighbouring, rng=rng
        )
        # from here on only released and public numbers are used
        half = PERIOD**-1 * 2 * math.pi / ladder.step
        mixture, score = fitted(sketch, problem.n_components, half)
        progress(2, 2)
        noise = {
            "statistic": "sketch",
            "law": "discrete Gaussian",
            "scale": sketch.noise_scale,
            "frequencies": ladder.to_dict(),
            "misfit": score,
        }
        return Outcome(mixture, guarantee, raw | {"sketch": sketch.values}, noise)


def fitted(sketch: NoisySketch, n_components: int, half: float) -> tuple[Mixture, float]:
    """Mixture in the unit of the records, and the misfit of the sketch in standard deviations."""
    data = SketchData.of([sketch], np.array([half]))
    found = fit_sketch(data, n_components, Prior(RADIUS_PRIOR, SCALE_PRIOR), radius=1.0)
    covariances = found.factors @ found.factors.swapaxes(1, 2) * half**2
    return Mixture(found.weights, found.means * half + data.centre, covariances), misfit(data, found)


def _unbounded(
    records: FloatArray, budget: GaussianBudget, problem: Problem, rng: Rng
) -> tuple[tuple[float, float] | None, dict[str, FloatArray], GaussianBudget]:
    box, left = noisy_box(records, budget=budget, share=BOX_SHARE, neighbouring=problem.neighbouring, rng=rng)
    column = box.columns[0]
    raw = {
        "pair_distance_counts": box.scale_counts[0],
        "bin_width": np.array([column.width]),
        "bin_index": column.index.astype(float),
        "bin_counts": column.counts,
    }
    return (column.interval if box.found else None), raw, left


def _within(
    records: FloatArray, budget: GaussianBudget, problem: Problem, rng: Rng
) -> tuple[tuple[float, float], dict[str, FloatArray], GaussianBudget]:
    """Bounds, or an interval inside them when almost all records lie there: a few cheap histograms in turn."""
    assert problem.bounds is not None
    low, high = map(float, problem.bounds[0])
    steps = []
    for _ in range(MOST_ROUNDS):
        counts, scale, budget = noisy_cells(
            records[:, 0], (low, math.nextafter(high, math.inf)), CELLS,
            budget=budget, share=CELLS_SHARE, neighbouring=problem.neighbouring, rng=rng,
        )  # fmt: skip
        steps.append([low, high, *counts])
        seen = np.flatnonzero(counts > SEEN * scale)
        if not seen.size:
            break
        extent = seen[-1] + 1 - seen[0]
        few = extent <= FEW
        margin = 1 if few else max(2, math.ceil(extent / 2))
        first, last = max(seen[0] - margin, 0), min(seen[-1] + 1 + margin, CELLS)
        outside = problem.n_records - counts[first:last].sum()
        if outside > max(0.01 * problem.n_records, DOUBT * scale * math.sqrt(last - first)):
            break
        width = (high - low) / CELLS
        low, high = low + first * width, low + last * width
        if not few:
            break
    return (low, high), {"cells": np.array(steps)}, budget
