"""A crude populous release as the domain, the scales and the start of a private sketch. Proof: two_phase.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_probability, plain_numbers
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, TooFewRecords, kept_by_nobody
from pm_dpgmm.methods.populous.method import Populous, released_mixture
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import CompositionProfile, MaximumProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Unstable, split_budget
from pm_dpgmm.privacy.noise import Rng

CRUDE_ALONE = "no sketch was released: the mixture is that of the crude release, made with a part of the budget"
REACH = 6.0  # of the domain, in standard deviations of the crude components
ANY_BOUNDS = (-1.0, 1.0)
OF_CRUDE = "(of crude=Populous(...), with method 'two-phase')"


@dataclass(frozen=True, slots=True)
class TwoPhase(Method):
    """Settings of ``method="two-phase"``.

    Parameters
    ----------
    crude_share : float
        Share of epsilon and delta for the crude release; the rest is for the sketch.
    crude : Populous
        Settings of the crude release.
    sketch : SketchMethod
        Settings of the sketch.

    Guarantee
    ---------
    (epsilon, delta)-DP of everything in the release, under the relations of both methods, by basic composition; no
    bounds on the data. Where the crude method refuses, the sketch finds its own intervals with what is left.
    Proof: two_phase.md.

    Notes
    -----
    Measured on mixtures of one to five columns the sketch alone, with its own intervals and the whole budget, is as
    good or better wherever the crude release has enough records (``verification/benchmarks/populous_table.py``); use
    this method where a learner of your own knows the data better than a sketch.
    """

    crude_share: float = 0.3
    crude: Populous = field(default_factory=Populous)
    sketch: SketchMethod = field(default_factory=SketchMethod)
    name: ClassVar[str] = "two-phase"
    takes_bounds: ClassVar[bool] = False
    takes_learner: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_probability(crude_share=self.crude_share)
        for name, kind in {"crude": Populous, "sketch": SketchMethod}.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} must be a {kind.__name__}, got {getattr(self, name)!r}")
        if self.sketch.like is not None:
            raise ValueError("like must be None in a sketch that starts from a crude release: its frequencies are new")
        plain_numbers(self)

    def recorded(self) -> dict[str, Any]:
        """Settings as a release holds them."""
        return {"crude_share": self.crude_share, "crude": self.crude.recorded(), "sketch": self.sketch.recorded()}

    @property
    def assumed_records(self) -> int | None:
        """Public guess of the number of records, that of the crude release."""
        return self.crude.assumed_records

    def first_kernel(self, n_features: int) -> Any:
        """That of the crude release."""
        return self.crude.first_kernel(n_features)

    def phases(self, problem: Problem) -> tuple[Problem, Problem]:
        """The two problems: each without bounds, with its part of the budget."""
        first, second = split_budget(problem.epsilon, problem.delta, self.crude_share)
        alone = replace(problem, bounds=None, choices=())
        return (
            replace(alone, epsilon=first[0], delta=first[1]),
            replace(problem, bounds=None, epsilon=second[0], delta=second[1]),
        )

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, also for a refusal."""
        return problem.epsilon, problem.delta

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        crude, rest = self.phases(problem)
        test = self.crude.constants(crude).table.curve
        # the sketch has a domain or has to find one, which the first phase decides
        either = MaximumProfile((self.sketch.budget(rest).loss(), self.sketch.budget(_bounded(rest, None)).loss()))
        return Guarantee(
            problem.epsilon,
            problem.delta,
            problem.neighbouring,
            "populous release, then private sketch (methods/two_phase.md)",
            CompositionProfile(test, either, split=crude.epsilon),
        )

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless both methods can run without bounds."""
        crude, rest = self.phases(problem)
        try:
            self.crude.check(crude)
        except TooFewRecords as error:
            raise TooFewRecords(f"{error.least} {OF_CRUDE}", error.n_records) from None
        except ValueError as error:
            raise ValueError(f"{error} {OF_CRUDE}") from None
        self.sketch.check(rest)
        self.guarantee(problem).check_storable()

    def try_learner(self, learner: Any, problem: Problem) -> None:
        """Raise ValueError if ``learner`` cannot fit simulated rows."""
        self.crude.try_learner(learner, self.phases(problem)[0])

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
        """Crude release, then sketch; see the class for the guarantee."""
        first, rest = self.phases(problem)
        guarantee = self.guarantee(problem)
        crude: Outcome | None
        try:
            crude = self.crude.release(records, first, learner=learner, n_jobs=n_jobs, progress=progress, rng=rng)
        except Unstable:
            crude = None
        raw: dict[str, FloatArray] = {}
        law: dict[str, Any] = {"crude": None}
        if crude is not None:
            raw = {f"crude_{name}": value for name, value in crude.raw.items()}
            law = {"crude": dict(crude.noise)}
            released(guarantee, raw, law)

        def with_crude(_: Guarantee, found: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> None:
            released(guarantee, dict(found) | raw, dict(noise) | law)

        given: dict[str, Any] = {"progress": progress, "rng": rng, "released": with_crude}
        try:
            if crude is None or not _usable(domain(crude.mixture)):
                found = self.sketch.release_from(None, records, rest, **given)
            else:
                bounded = _bounded(rest, domain(crude.mixture))
                found = self.sketch.release_from(crude.mixture, records, bounded, **given)
        except Unstable as refusal:
            raise Unstable(str(refusal).replace("'sketch'", "'two-phase'"), guarantee) from None
        return replace(found, guarantee=guarantee, raw=dict(found.raw) | raw, noise=dict(found.noise) | law)


def crude_alone(guarantee: Guarantee, raw: Mapping[str, FloatArray], law: Mapping[str, Any]) -> Outcome:
    """The outcome of a crude release after which no sketch was released: post-processing, from a file."""
    return Outcome(
        released_mixture(crude_numbers(raw), law["crude"]), guarantee, raw, {**law, "caveats": [CRUDE_ALONE]}
    )


def crude_numbers(raw: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Those of the crude release among the released numbers, under their own names."""
    return {name.removeprefix("crude_"): value for name, value in raw.items() if name.startswith("crude_")}


def domain(mixture: Mixture) -> FloatArray:
    """An interval for every column, shape (D, 2), that holds all components with ``REACH`` standard deviations."""
    spread = REACH * np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))
    return np.column_stack([(mixture.means - spread).min(axis=0), (mixture.means + spread).max(axis=0)])


def _usable(bounds: FloatArray) -> bool:
    """What ``SketchMethod.check`` asks of bounds; here a function of the release."""
    width = bounds[:, 1] / 2 - bounds[:, 0] / 2
    farthest = np.abs(bounds).max(axis=1)
    return bool(
        np.isfinite(bounds).all()
        and (width > 1e-90).all()
        and (farthest < 1e90).all()
        and (width > 1e-9 * farthest).all()
    )


def _bounded(problem: Problem, bounds: FloatArray | None) -> Problem:
    """The problem with a domain; None stands for any, where only the budget matters."""
    any_domain = np.tile(ANY_BOUNDS, (problem.n_features, 1))
    return replace(problem, bounds=any_domain if bounds is None else bounds)
