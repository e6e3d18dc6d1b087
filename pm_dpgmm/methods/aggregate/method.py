"""Any learner's answers to disjoint subsets, averaged around a released sketch. Proof: method.md.

Sample and aggregate is that of Nissim, Raskhodnikova and Smith (2007), which needs a known ball; the sketch finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_flag, check_positive, check_probability, plain_numbers
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.handlers import stop_if_told
from pm_dpgmm.learners.parts import fit_parts, simulated_fits
from pm_dpgmm.learners.rehearsal import rehearse_learner
from pm_dpgmm.learners.subsets import FitsTogether, check_learner
from pm_dpgmm.learners.vector_learner import LONGEST_ANSWER, VectorLearner
from pm_dpgmm.mechanisms.ball_sum import counted_within, noisy_ball_sum
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS, GaussianFilter
from pm_dpgmm.methods.aggregate.caveats import AT_ODDS, CONTRADICTED, NOT_COMPARED, NOT_FUSED, NOT_TRIED
from pm_dpgmm.methods.aggregate.chart import Answers
from pm_dpgmm.methods.aggregate.design import FEWEST_SUBSETS, Ball, Design
from pm_dpgmm.methods.aggregate.estimate import Round, estimate
from pm_dpgmm.methods.aggregate.fused import with_the_sketch
from pm_dpgmm.methods.aggregate.outcomes import NO_ESTIMATE, outcome, with_sums, with_sums_in_vain, without_average
from pm_dpgmm.methods.aggregate.search import best_design
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, TooFewRecords, kept_by_nobody
from pm_dpgmm.methods.populous.method import split
from pm_dpgmm.methods.sketch.checks.misfit import Misfit
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.privacy.noise import Rng, seeds

Told: TypeAlias = tuple[Mapping[str, FloatArray], Mapping[str, Any]]  # numbers released so far, and their law

FIRST_SHARE = Fraction(3, 10)  # of the budget of two rounds, for the first
SEEN = 0.1  # share of the subsets: where their number inside is known so well, there are two rounds
MOST_AVERAGED = 2**14  # numbers of all sums, each with its count
MOST_MISFIT = 5.0  # of a sketch that is put together with the average: right mixtures stay below about that
LEAST_SHARE = 0.001  # of the budget, for the sketch and for the average
NO_ANSWERS = (
    "the learner had no answers to records simulated from the released sketch, always the same, or counts and the like,"
    " which hang on how many there are, so nothing was averaged: the mixture is the sketch's, of part of the budget"
)


@dataclass(frozen=True, slots=True)
class Aggregate(Method):
    """Settings of ``method="aggregate"``.

    Parameters
    ----------
    centre_share : float
        Share of the budget for the sketch, in squared Gaussian differential privacy; the rest is for the average.
    records_per_number : float, optional
        Records of a subset for each number of a mixture, of which there are K - 1 + K D + K D (D + 1)/2, or of a
        vector if that has more. None: what promises the least error in simulation.
    sketch : SketchMethod
        Settings of the sketch.
    time_limit : float, optional
        Seconds for one fit of a learner that is not compiled; it then runs in processes of its own.
    rehearse : bool
        Try a learner of yours on simulated rows first, as with ``method="populous"``.
    fuse : bool
        Put the average together with the sketch, which has the smaller error: with the default learner alone, as both
        mean the same mixture. The sketch's background, if it has one, is then part of the density.
        ``release.noise["average"]["fused"]`` says so. Where the two are at odds, or the released waves contradict the
        mixture of the sketch, it is the sketch's, and a warning tells. False: the average as it is.

    Guarantee
    ---------
    (epsilon, delta)-DP of everything in the release, under replace-one or add-remove neighbours, with or without
    bounds. The learner is any function whose answer to a subset does not depend on the other subsets; see
    :func:`pm_dpgmm.fit_gmm`. Proof: method.md.

    Notes
    -----
    The learner also fits several hundred subsets of simulated records. These are public, so such fits share processes,
    up to 32 one; with ``rehearse=False``, where nobody has seen whether it keeps something between calls, each has its
    own. Those of your records always have.
    """

    centre_share: float = 0.4
    records_per_number: float | None = None
    sketch: SketchMethod = field(default_factory=SketchMethod)
    time_limit: float | None = None
    rehearse: bool = True
    fuse: bool = True
    name: ClassVar[str] = "aggregate"
    takes_learner: ClassVar[bool] = True
    takes_vectors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_probability(centre_share=self.centre_share)
        if not LEAST_SHARE <= self.centre_share <= 1 - LEAST_SHARE:
            raise ValueError(f"centre_share must be from {LEAST_SHARE} to {1 - LEAST_SHARE}, got {self.centre_share!r}")
        check_flag(rehearse=self.rehearse, fuse=self.fuse)
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
            "fuse": self.fuse,
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
        own = replace(whole, limit=part, n_numbers=MOST_AVERAGED)  # as if the sums had been released before
        return own, replace(whole, spent=part, n_numbers=MOST_NUMBERS - MOST_AVERAGED)

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
            raise TooFewRecords(f"{least} rows with method 'aggregate'", problem.n_records)
        room = MOST_NUMBERS - MOST_AVERAGED
        if problem.n_features > 1 and self.sketch.most_numbers(problem, part) > room:
            raise ValueError(
                f"n_components must be so small that {room} numbers are enough for the sketch, got"
                f" {problem.n_components} in {problem.n_features} columns"
            )
        if size > LONGEST_ANSWER:
            rule = f"n_components must be so small that a mixture has at most {LONGEST_ANSWER} numbers"
            raise ValueError(f"{rule}, got {problem.n_components} in {problem.n_features} columns")
        self.guarantee(problem).check_storable()

    def try_learner(self, learner: Any, problem: Problem) -> None:
        """Raise if ``learner`` cannot fit simulated rows, or remembers them."""
        check_learner(learner, time_limit=self.time_limit)
        if self.rehearse and not isinstance(learner, FitsTogether):
            rows = 10 * problem.n_components * (problem.n_features + 1) ** 2
            rehearse_learner(learner, rows, problem.n_features, problem.n_components, time_limit=self.time_limit)

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
        told: list[Told] = [({}, {})]

        def with_sketch(_: Guarantee, *numbers: Any) -> None:
            told[0] = numbers
            released(guarantee, *numbers)

        centre = self.sketch.release_from(
            None, records, problem, progress=progress, rng=rng, released=with_sketch, part=(guarantee, part)
        )
        learner = BatchedEM() if learner is None else learner
        way: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress, "time_limit": self.time_limit}
        size: dict[str, Any] = {"mu_squared": float(left.limit - left.spent), "seed": seeds(1, rng=rng)[0]}
        size |= {"records_per_number": self.records_per_number, "bounds": problem.bounds}
        size |= {"own_bias": isinstance(learner, BatchedEM)}
        why = NO_ANSWERS
        try:
            with simulated_fits(learner, problem.n_components, forgets=self.rehearse, **way) as fit:
                design = best_design(centre, fit, **size)
        except Exception as error:  # of simulated records, so public; the sketch is paid for
            stop_if_told(error)
            design, why = None, NOT_TRIED.format(type(error).__name__[:100])
        if design is None:
            released(guarantee, told[0][0], dict(told[0][1]) | {"average": {"why": why}})
            return without_average(centre, why)
        if problem.bounds is not None:
            records = np.clip(records, problem.bounds[:, 0], problem.bounds[:, 1])
        order, edges = split(len(records), design.n_subsets, problem.neighbouring, rng=rng)
        rows, streams = records[order], seeds(design.n_subsets, rng=rng)
        fits: Answers = fit_parts(learner, rows, edges, problem.n_components, seeds=streams, **way)
        vectors = design.vectors(fits, design.waves.of_subsets(rows, edges))
        rounds: list[Round] = []
        for share in shares_of_rounds(left, design.n_subsets):
            ball = next_ball(design, rounds)
            total, left = noisy_ball_sum(vectors - ball.centre, radius=ball.radius, budget=left, share=share, rng=rng)
            rounds.append((ball, total))
            released(guarantee, *with_sums(*told[0], rounds))
        given = centre, design, rounds, learner.names if isinstance(learner, VectorLearner) else None, problem.bounds

        def tell(found: Outcome) -> Outcome:
            own = "average_weights" in found.raw
            law = found.noise if own else dict(told[0][1]) | {"average": found.noise["average"]}
            released(guarantee, found.raw, law)
            return found

        found = outcome(*given)
        if not (self.fuse and isinstance(learner, BatchedEM)) or "average_weights" not in found.raw:
            return tell(found)
        if contradicted(centre):
            return tell(with_sums_in_vain(centre, rounds, CONTRADICTED))
        tell(found.with_caveat(NOT_FUSED))  # before it is put together with the sketch, which takes as long as a fit
        try:
            with simulated_fits(learner, problem.n_components, **way) as fit:
                both = with_the_sketch(estimate(design, rounds), design, rounds, centre, fit)
        except Exception as error:  # of simulated records, so public
            stop_if_told(error)
            return tell(found.with_caveat(NOT_COMPARED.format(type(error).__name__[:100])))
        if both is not None and "average_weights" in (found := outcome(*given, fused=both)).raw:
            return tell(found)
        return tell(with_sums_in_vain(centre, rounds, AT_ODDS))


def contradicted(centre: Outcome) -> bool:
    """Whether the waves of a sketch contradict its mixture: their errors are then no normal ones about any mixture."""
    told = Misfit.of(centre.noise)
    assert told is not None
    return told.statistic > MOST_MISFIT


def shares_of_rounds(left: GaussianFilter, n_subsets: int) -> tuple[Fraction, ...]:
    """Shares of the limit of a budget for one round or two, from public numbers.

    Two where the first tells how many vectors are inside: the second ball is then about the first answer, and wider
    if the vectors are. Two sums that are put together tell as much as one with both shares.
    """
    whole = 1 - left.spent / left.limit
    first = FIRST_SHARE * whole
    if counted_within(float(first * left.limit)) > SEEN * n_subsets:
        return (whole,)
    return first, whole - first


def next_ball(design: Design, rounds: Sequence[Round]) -> Ball:
    """Where the next sum is made, from what was released before."""
    if not rounds:
        return Ball(np.zeros(len(design.onto)), design.radius)
    try:
        found = estimate(design, rounds)
        ball = Ball(found.likely, found.spread * design.radius)
    except NO_ESTIMATE:
        return rounds[-1][0]
    return ball if np.isfinite(ball.centre).all() and 0 < ball.radius < np.inf else rounds[-1][0]
