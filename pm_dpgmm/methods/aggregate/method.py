"""Any learner's fits to disjoint subsets, averaged around a released sketch. Proof: method.md.

Sample and aggregate is that of Nissim, Raskhodnikova and Smith (2007), which needs a known ball; the sketch finds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_flag, check_positive, check_probability, plain_numbers
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.learners.parts import fit_parts
from pm_dpgmm.learners.rehearsal import rehearse_learner
from pm_dpgmm.learners.subsets import FitsTogether, check_learner
from pm_dpgmm.mechanisms.ball_sum import NoisyBallSum, noisy_ball_sum
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS, GaussianFilter
from pm_dpgmm.methods.aggregate.chart import Chart
from pm_dpgmm.methods.aggregate.control import Waves
from pm_dpgmm.methods.aggregate.design import (
    FEWEST_SUBSETS,
    PUBLIC_SEED,
    RECORDS_PER_NUMBER,
    Design,
    simulated,
    subset_size,
    with_answer,
)
from pm_dpgmm.methods.aggregate.estimate import Estimate, estimate
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, kept_by_nobody
from pm_dpgmm.methods.populous.method import split
from pm_dpgmm.methods.sketch.law import SketchLaw
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture, joined
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.privacy.noise import IntArray, Rng, seeds

CENTRE_ROWS = (2_000, 40_000)  # least and most simulated records for the learner's answer to the released mixture
STEP = 1e-5  # of numerical derivatives
NO_FIT = (
    "the learner could not fit records that were simulated from the released sketch, so nothing was averaged: the"
    " mixture is that of the sketch, made with a part of the budget"
)


@dataclass(frozen=True, slots=True)
class Aggregate(Method):
    """Settings of ``method="aggregate"``.

    Parameters
    ----------
    centre_share : float
        Share of the budget for the sketch, in squared Gaussian differential privacy; the rest is for the average.
    records_per_number : float, optional
        Records of a subset for each number of a mixture, of which there are K - 1 + K D + K D (D + 1)/2. None: what promises the least error in simulation.
    sketch : SketchMethod
        Settings of the sketch.
    time_limit : float, optional
        Seconds for one fit of a learner that is not compiled; it then runs in processes of its own.
    rehearse : bool
        Try a learner of yours on simulated rows first, as with ``method="populous"``.

    Guarantee
    ---------
    (epsilon, delta)-DP of everything in the release, under replace-one or add-remove neighbours, with or without
    bounds. The learner is any function whose answer to a subset does not depend on the other subsets; see
    :func:`pm_dpgmm.fit_gmm`. Proof: method.md.

    Notes
    -----
    The learner also fits several hundred subsets of simulated records, which are public.
    """

    centre_share: float = 0.4
    records_per_number: float | None = None
    sketch: SketchMethod = field(default_factory=SketchMethod)
    time_limit: float | None = None
    rehearse: bool = True
    name: ClassVar[str] = "aggregate"

    def __post_init__(self) -> None:
        check_probability(centre_share=self.centre_share)
        check_flag(rehearse=self.rehearse)
        if self.records_per_number is not None:
            check_positive(records_per_number=self.records_per_number)
        if self.time_limit is not None:
            check_positive(time_limit=self.time_limit)
        if not isinstance(self.sketch, SketchMethod):
            raise TypeError(f"sketch must be a SketchMethod, got {self.sketch!r}")
        if self.sketch.like is not None:
            raise ValueError("like must be None in the sketch of an average, got a release")
        plain_numbers(self)

    def recorded(self) -> dict[str, Any]:
        """Settings as a release holds them."""
        return {
            "centre_share": self.centre_share,
            "records_per_number": self.records_per_number,
            "sketch": self.sketch.recorded(),
            "time_limit": self.time_limit,
            "rehearse": self.rehearse,
        }

    def first_kernel(self, n_features: int) -> Any:
        """That of the sketch."""
        return self.sketch.first_kernel(n_features)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, also for a refusal."""
        return problem.epsilon, problem.delta

    def budget(self, problem: Problem) -> GaussianFilter:
        """What may be spent: that of a sketch."""
        return self.sketch.budget(problem)

    def parts(self, problem: Problem) -> tuple[GaussianFilter, GaussianFilter]:
        """The part of the sketch, and the whole as it is left when the sketch has spent its part."""
        whole = self.budget(problem)
        part = Fraction(self.centre_share).limit_denominator(10**6) * whole.limit
        return GaussianFilter(part, whole.failure), replace(whole, spent=part)

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        return Guarantee(
            problem.epsilon,
            problem.delta,
            problem.neighbouring,
            "private sketch, then an average of fits around it (methods/aggregate/method.md)",
            self.budget(problem).loss(),
        )

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless sketch and average can be computed, also with the fewest subsets."""
        if problem.delta <= 0:
            raise ValueError("method 'aggregate' needs delta greater than 0, got 0")
        part = self.parts(problem)[0]
        self.sketch.check_with(problem, part)
        size = Coordinates(problem.n_components, problem.n_features, "ratios").size
        least = FEWEST_SUBSETS * (size + 1)
        if problem.public_records is not None and problem.n_records < least:
            raise ValueError(f"X must have at least {least} rows with method 'aggregate', got {problem.n_records}")
        if problem.n_features > 1 and self.sketch.most_numbers(problem, part) + size + 1 > MOST_NUMBERS:
            raise ValueError(f"n_components must leave room under {MOST_NUMBERS} numbers, got {problem.n_components}")
        self.guarantee(problem).check_storable()

    def try_learner(self, learner: Any, problem: Problem) -> None:
        """Raise if ``learner`` cannot fit simulated rows, or remembers them."""
        check_learner(learner, time_limit=self.time_limit)
        if self.rehearse and not isinstance(learner, FitsTogether):
            rows = 10 * problem.n_components * (problem.n_features + 1) ** 2
            rehearse_learner(
                learner, rows, problem.n_features, problem.n_components, time_limit=self.time_limit
            )

    def release(
        self,
        records: FloatArray,
        problem: Problem,
        *,
        learner: Any,
        n_jobs: int | None,
        progress: Progress,
        rng: Rng,
        released: Listener = kept_by_nobody,
    ) -> Outcome:
        """Sketch, simulate, split, fit, average; see the class for the guarantee."""
        guarantee, (part, left) = self.guarantee(problem), self.parts(problem)

        def with_centre(_: Guarantee, raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> None:
            released(guarantee, *of_centre(raw, noise))

        centre = self.sketch.release_from(
            None, records, problem, progress=progress, rng=rng, released=with_centre, part=(guarantee, part)
        )
        learner = BatchedEM() if learner is None else learner

        def fit(rows: FloatArray, edges: IntArray, starts: list[int] | None = None) -> Fits:
            public = list(range(len(edges) - 1))
            return fit_parts(
                learner, rows, edges, problem.n_components, seeds=public if starts is None else starts, n_jobs=n_jobs,
                progress=progress, time_limit=self.time_limit,
            )  # fmt: skip

        design = self.designed(centre, problem, fit, mu_squared=float(left.limit - left.spent))
        if design is None:
            raw, noise = of_centre(centre.raw, centre.noise)
            return Outcome(centre.mixture, guarantee, raw, noise | {"caveats": [NO_FIT]}, centre.background)
        if problem.bounds is not None:
            records = np.clip(records, problem.bounds[:, 0], problem.bounds[:, 1])
        order, edges = split(len(records), design.n_subsets, problem.neighbouring, rng=rng)
        rows = records[order]
        fits = fit(rows, edges, seeds(design.n_subsets, rng=rng))
        predictors = np.array([design.waves.means(rows[low:high]) for low, high in zip(edges[:-1], edges[1:], strict=True)])
        share = 1 - left.spent / left.limit
        total, _ = noisy_ball_sum(
            design.vectors(fits, predictors), radius=design.radius, budget=left, share=share, rng=rng
        )
        return outcome(centre, design, total, guarantee)

    def designed(self, centre: Outcome, problem: Problem, fit: Any, *, mu_squared: float) -> Design | None:
        """The design of a run around a released sketch, from public numbers; None if the learner cannot fit."""
        evidence = SketchStatistics.from_arrays(centre.raw, centre.noise)
        law = SketchLaw.of_statistics(evidence, centre.background)
        n_records = evidence.n_records
        density = joined(centre.mixture, centre.background)
        rng = np.random.default_rng(PUBLIC_SEED)
        least, most = CENTRE_ROWS
        rows = density.sample(int(min(max(n_records, least), most)), rng=rng)
        found = fit(rows, np.array([0, len(rows)]))
        if not found.given[0]:
            return None
        chart = Chart.about(Mixture(found.weights[0], found.means[0], found.covariances[0]))
        size = chart.coordinates.size
        wanted = RECORDS_PER_NUMBER if self.records_per_number is None else (self.records_per_number,)
        best: Design | None = None
        for records_per_number in wanted:
            n_each, n_subsets = subset_size(n_records, size, records_per_number)
            if best is not None and n_subsets == best.n_subsets:
                break
            # what the noise of the waves costs, beside that of the average, whose vectors are what is not explained
            price = n_records * n_subsets * mu_squared / (4 * size)
            waves = Waves.of(law, evidence.sketches, centre.mixture, price=price, rows=rows)
            design = simulated(
                fit, density, chart, waves, n_records=n_records, n_subsets=n_subsets, size=n_each, rng=rng
            )
            if design is not None:
                design = with_answer(design, fit, density, rng=rng)
                if best is not None and design.predicted(mu_squared) >= best.predicted(mu_squared):
                    break
                best = design
        return best


def of_centre(raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> tuple[dict[str, FloatArray], dict[str, Any]]:
    """Numbers and law of the sketch as parts of the larger release."""
    return {f"centre_{name}": values for name, values in raw.items()}, {"centre": dict(noise)}


def outcome(centre: Outcome, design: Design, total: NoisyBallSum, guarantee: Guarantee) -> Outcome:
    """What leaves the method; from here on only released and public numbers are used."""
    found = estimate(design, total)
    mixture = design.chart.mixture(found.vector)
    raw, noise = of_centre(centre.raw, centre.noise)
    raw |= {"total": total.total, "offset_covariance": about_the_answer(design.chart, mixture, found)}
    noise |= {
        "statistic": "average of fits",
        "law": "Gaussian",
        "n_subsets": total.n_subsets,
        "subset_records": design.subset_records,
        "radius": total.radius,
        "noise_scale": total.noise_scale,
        "n_inside": total.n_inside,
        "n_inside_scale": total.n_inside_scale,
        "expected_inside": design.inside(found.offset),
        "failed": design.failed,
        "caveats": list(centre.noise.get("caveats", [])),
    }
    return Outcome(mixture, guarantee, raw, noise)


def about_the_answer(chart: Chart, mixture: Mixture, found: Estimate) -> FloatArray:
    """Covariance of the truth's offsets from the answer, in the coordinates about the answer."""
    about = Coordinates.about(mixture)

    def offsets(vector: FloatArray) -> FloatArray:
        return about.of(*chart.coordinates.at(vector))

    steps = STEP * np.eye(len(found.vector))
    slopes = np.column_stack(
        [(offsets(found.vector + step) - offsets(found.vector - step)) / (2 * STEP) for step in steps]
    )
    covariance = slopes @ found.covariance @ slopes.T
    return np.asarray((covariance + covariance.T) / 2)
