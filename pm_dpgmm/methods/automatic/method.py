"""One column without bounds: its scales, then the method that can tell them apart. Proof: method.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.column_scales import noisy_column_scales
from pm_dpgmm.mechanisms.gap_histogram import gap_noise
from pm_dpgmm.mechanisms.gaussian_filter import SLACK, GaussianFilter
from pm_dpgmm.methods.automatic.verdict import verdict
from pm_dpgmm.methods.gaps.method import GapsMethod
from pm_dpgmm.methods.outcome import AUTOMATIC, Listener, Method, Outcome, Problem, Progress, kept_by_nobody
from pm_dpgmm.methods.sketch.method import FAILURE_SHARE, SketchMethod
from pm_dpgmm.privacy.curves import CompositionProfile, EitherProfile, GaussianProfile, PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable, smallest_epsilon
from pm_dpgmm.privacy.noise import Rng

SCALES = Fraction(3, 200)  # of the sketch's mu^2
# Shares of delta: of all that ends in gaps, and, of that, of the tail of the scales
GAPS_SHARE, TAIL_SHARE = 0.2, 0.25
ROUNDING = 1e-9  # of delta, kept back
RECORDS = 22  # times the end of the noise of a count of gaps: what a component needs to be found


@dataclass(frozen=True, slots=True)
class Parts:
    """How a budget is split: one filter for the scales and the sketch, what is left for "gaps", and both curves."""

    sketch: GaussianFilter
    gaps: Problem
    loss: EitherProfile

    @classmethod
    def of(cls, problem: Problem) -> Parts:
        """From public numbers; ValueError where a part would be too small."""
        of_gaps = GAPS_SHARE * problem.delta
        of_sketch = (problem.delta - of_gaps) * (1 - ROUNDING)
        sketch = GaussianFilter.of(problem.epsilon, of_sketch, failure=FAILURE_SHARE * of_sketch)
        scales = GaussianProfile(math.nextafter(math.sqrt(SCALES * sketch.limit), math.inf), SLACK)
        tail = TAIL_SHARE * of_gaps
        spent = smallest_epsilon(scales.delta, tail)
        if not spent < problem.epsilon:
            raise ValueError(f"epsilon must leave a part for method 'gaps', got {problem.epsilon:g}")
        left = math.nextafter(problem.epsilon - spent, 0.0)
        rest = (of_gaps - tail) * (1 - ROUNDING)
        both = CompositionProfile(scales, PointProfile(left, rest), split=spent)
        return cls(sketch, replace(problem, epsilon=left, delta=rest, choices=()), EitherProfile((sketch.loss(), both)))


@dataclass(frozen=True, slots=True)
class Automatic(Method):
    """What ``method="auto"`` is where one column has no bounds and records enough for "gaps".

    Guarantee
    ---------
    (epsilon, delta)-DP of everything in the release, the scales and which method answered included, under replace-one
    neighbours; no bounds on the data. Proof: method.md.

    Notes
    -----
    The scales take 1.5 % of the sketch's squared Gaussian parameter, and "gaps" keeps a fifth of delta and what the
    scales leave of epsilon: .88 of 1 at delta 1e-6.
    """

    name: ClassVar[str] = AUTOMATIC

    @classmethod
    def suits(cls, problem: Problem) -> bool:
        """Whether either method could answer, by public facts."""
        if problem.n_features != 1 or problem.bounds is not None or problem.delta <= 0:
            return False
        if problem.resolution is not None:  # values that many records share have no gaps between them
            return False
        if problem.neighbouring is not Neighbouring.REPLACE_ONE:
            return False
        if problem.n_components < 2 or len(problem.component_choices) > 1:
            return False
        try:
            cls().check(problem)
            gaps = Parts.of(problem).gaps
            noise = gap_noise(epsilon=gaps.epsilon, delta=gaps.delta, neighbouring=gaps.neighbouring)
        except (ValueError, ArithmeticError):
            return False
        return problem.n_records >= RECORDS * noise.bound * problem.n_components

    def recorded(self) -> dict[str, Any]:
        """Settings of both methods; a release has those of the one that answered."""
        return {method.name: method.recorded() for method in (SketchMethod(), GapsMethod())}

    def first_kernel(self, n_features: int) -> Any:
        """That of the sketch."""
        return SketchMethod().first_kernel(n_features)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, whichever method answers, and also for a refusal."""
        return problem.epsilon, problem.delta

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        words = "scales of the column, then private sketch or gaps (methods/automatic/method.md)"
        return Guarantee(problem.epsilon, problem.delta, problem.neighbouring, words, Parts.of(problem).loss)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless both methods can run."""
        parts = Parts.of(problem)
        SketchMethod().check_with(problem, parts.sketch)
        GapsMethod().check(parts.gaps)
        self.guarantee(problem).check_storable()

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
        """Release the scales, then what the method that they ask for releases; see the class for the guarantee."""
        parts, guarantee = Parts.of(problem), self.guarantee(problem)
        scales, left = noisy_column_scales(
            records[:, 0], budget=parts.sketch, share=SCALES, neighbouring=problem.neighbouring, rng=rng
        )
        found = verdict(scales, problem.n_records)
        answers = GapsMethod.name if found.many_scales else SketchMethod.name
        raw = {
            "gap_size_counts": scales.gap_counts,
            "distance_counts": scales.pair_counts,
            "size_noise": np.array([scales.gap_noise, scales.pair_noise]),
        }
        law = {AUTOMATIC: {"method": answers, "reason": found.reason}}

        def told(_: Guarantee, more: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> None:
            released(guarantee, dict(more) | raw, dict(noise) | law)

        told(guarantee, {}, {})
        given: dict[str, Any] = {"progress": progress, "rng": rng, "released": told}
        try:
            if found.many_scales:
                made = GapsMethod().release(records, parts.gaps, learner=None, n_jobs=None, **given)
            else:
                made = SketchMethod().release_from(None, records, problem, part=(guarantee, left), **given)
        except Unstable as refusal:
            raise Unstable(f"method 'auto' took {answers!r}: {refusal}", guarantee) from None
        return replace(made, guarantee=guarantee, raw=dict(made.raw) | raw, noise=dict(made.noise) | law)
