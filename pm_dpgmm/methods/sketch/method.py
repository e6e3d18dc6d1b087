"""Noisy characteristic functions of the records, then a mixture fit to them. Proof: method.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import (
    FloatArray,
    check_choice,
    check_count,
    check_probability,
    finite_numbers,
    plain_numbers,
    shown,
)
from pm_dpgmm._blocks import Records, mapped
from pm_dpgmm.mechanisms.box import noisy_count
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS, GaussianFilter
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.mechanisms.sketch_features import MAX_RECORDS, kernel_for
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, kept_by_nobody
from pm_dpgmm.methods.sketch.checks.finish import finish
from pm_dpgmm.methods.sketch.choice import Choice, choose
from pm_dpgmm.methods.sketch.covariance_types import COVARIANCE_TYPES, FULL
from pm_dpgmm.methods.sketch.estimate import SketchFit
from pm_dpgmm.methods.sketch.like import Reference, sketch_like
from pm_dpgmm.methods.sketch.location import (
    CELLS,
    MOST_ROUNDS,
    cells_within,
    centre_and_unit,
    intervals_within,
    unbounded_intervals,
)
from pm_dpgmm.methods.sketch.rounds import Duel, most_numbers, replayed, run_rounds
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.sketch.statistics_checks import check_fittable, check_numbers, check_start, check_widths
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.mixture.rounding import LEAST_DEVIATION
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.records.feature_names import check_unlabelled

FAILURE_SHARE = 0.1  # of delta, without bounds
COUNT_SHARE = Fraction(1, 100)  # of mu^2, under add-remove neighbours
FASTEST, LEAST_ORDER = 2.5, 4  # highest frequency for a rounded column, radians per step; least length of a ladder
PERIOD = 2.5  # longest wave of the ladder, in half-widths of the interval: what lies just outside stays apart
WIDEST_FLOOR = 100.0  # half-widths: more is flat, and could overflow after the budget is spent


@dataclass(frozen=True, slots=True)
class SketchMethod(Method):
    """Settings of ``method="sketch"``.

    Parameters
    ----------
    order : int, optional
        Frequencies of the ladder that is released for one column. None: 16, or 24 for many records. A component
        narrower than about 0.4 half-widths of the interval over ``order`` is not resolved. Not used for more columns.
    like : Release, optional
        A release of another site's records, never of these. The budget goes into sketches at its frequencies, in its
        shares, and the two releases can be added up by :func:`pm_dpgmm.combine`. Bounds then clip, and for a 25th of
        the squared budget counts of their cells tell what lies beyond the other release's interval: give its bounds.
    reg_covar : float or array_like, shape (n_features,)
        Variance that is added to the diagonal of every component's covariance, in the unit of the columns squared, as
        in scikit-learn; never from the records. Use it where columns have point masses or are rounded: components
        then do not shrink onto single values. Default 0. Part of the model, so the fit knows of it. At most the
        squared width of the bounds; without bounds no more than 100 half-widths of the interval found are added.
    covariance_type : {"full", "tied", "diag", "spherical", "auto"}
        What the covariances of the components are, by scikit-learn's names: any; one for all components; without
        correlations; one variance in all columns, in the unit of the columns as they are given. "auto" fits all four to
        the released numbers and takes the one that they make most likely: post-processing, so it costs no budget, and
        four times the time of the fit. ``release.covariance_type`` is what was taken, and
        ``release.refit(covariance_type=...)`` makes another of it.

    Guarantee
    ---------
    (epsilon, delta)-DP of everything in the release, under replace-one or add-remove neighbours, with or without
    bounds; mixture, background and misfit are functions of the noisy statistics. Proof: method.md, rounds.md,
    location.md, like.md.
    """

    order: int | None = None
    like: Any = None
    reg_covar: Any = 0.0
    covariance_type: str = FULL
    name: ClassVar[str] = "sketch"
    chooses: ClassVar[bool] = True  # the number of components
    streams: ClassVar[bool] = True  # records may come in blocks
    knows_rounding: ClassVar[bool] = True  # columns may be rounded

    def __post_init__(self) -> None:
        if self.order is not None:
            check_count(least=2, order=self.order)
            if self.like is not None:
                raise ValueError(f"order must be None with like, whose frequencies are used, got {self.order}")
        if self.like is not None:
            object.__setattr__(self, "like", Reference.of(self.like))
        check_choice(COVARIANCE_TYPES, covariance_type=self.covariance_type)
        check_unlabelled(self.reg_covar, name="reg_covar")
        given = np.asarray(self.reg_covar)
        if given.dtype.kind not in "fiu" or given.ndim > 1 or not (np.isfinite(given).all() and (given >= 0).all()):
            rule = "reg_covar must be a finite number of at least 0, or one for each column"
            raise ValueError(f"{rule}, got {shown(self.reg_covar)}")
        object.__setattr__(self, "reg_covar", float(given) if given.ndim == 0 else tuple(given.astype(float).tolist()))
        plain_numbers(self)

    def variance_floor(self, unit: FloatArray, resolution: FloatArray | None = None) -> FloatArray | None:
        """``reg_covar`` in the unit of the evidence, None for 0; LEAST_DEVIATION resolutions come on top of it."""
        added = np.square(np.minimum(np.sqrt(self.reg_covar) / unit, WIDEST_FLOOR))
        if resolution is not None:
            added = added + np.square(LEAST_DEVIATION * resolution / unit)
        return np.broadcast_to(added, unit.shape) if added.any() else None

    def recorded(self) -> dict[str, Any]:
        """Settings as a release holds them: the reference by the fingerprint of its frequencies."""
        settings: dict[str, Any] = {"order": self.order, "reg_covar": np.asarray(self.reg_covar).tolist()}
        if self.covariance_type != FULL:
            settings["covariance_type"] = self.covariance_type
        if self.like is not None:
            settings["like"] = self.like.evidence.fingerprint
        return settings

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names that the columns must have, or None."""
        return None if self.like is None else self.like.feature_names

    @property
    def private(self) -> bool:
        """Whether the release that frequencies are taken from was private, if there is one."""
        return self.like is None or self.like.private

    def first_kernel(self, n_features: int) -> Any:
        """The sums of features over the records: of a ladder in one column, of frames in more."""
        return kernel_for(FejerHarmonics if n_features == 1 else RieszProduct)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, also for a refusal."""
        return problem.epsilon, problem.delta

    def budget(self, problem: Problem) -> GaussianFilter:
        """What may be spent; without bounds a tenth of delta is set aside for the box."""
        failure = 0.0 if problem.bounds is not None or self.like is not None else FAILURE_SHARE * problem.delta
        return GaussianFilter.of(problem.epsilon, problem.delta, failure=failure)

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        words = f"private sketch (methods/sketch/{'method' if self.like is None else 'like'}.md)"
        return Guarantee(problem.epsilon, problem.delta, problem.neighbouring, words, self.budget(problem).loss())

    def ladder(
        self,
        problem: Problem,
        centre: float,
        half: float,
        budget: GaussianFilter,
        resolution: FloatArray | None = None,
    ) -> FejerHarmonics:
        """Frequencies for the interval of a single column, from public numbers and earlier releases."""
        strength = problem.n_records * math.sqrt(budget.limit)
        order = self.order or max(16 if strength < 5_000 else 24, 2 * problem.n_components)
        step = 2 * math.pi / (PERIOD * half)
        if resolution is not None:  # faster waves say of multiples what slower ones do
            fastest = math.floor(FASTEST / (step * float(resolution[0])))
            order = min(order, max(fastest, 2 * problem.n_components, LEAST_ORDER))
        return FejerHarmonics(step, order, centre)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless everything that :meth:`release` computes exists; nothing fails after it has spent."""
        if problem.delta <= 0:
            raise ValueError("method 'sketch' needs delta greater than 0, got 0")
        self.check_with(problem, self.budget(problem))
        self.guarantee(problem).check_storable()

    def check_with(self, problem: Problem, budget: GaussianFilter) -> None:
        """Raise ValueError unless everything that :meth:`release_from` computes with this budget exists."""
        if problem.n_records > MAX_RECORDS:
            raise ValueError(f"X must have at most 2^31 rows, got {problem.n_records}")
        if not isinstance(self.reg_covar, float) and len(self.reg_covar) != problem.n_features:
            raise ValueError(f"reg_covar must have {problem.n_features} numbers or be one, got {shown(self.reg_covar)}")
        if problem.bounds is not None:
            check_widths(problem.bounds, self.reg_covar)
        check_numbers(problem.component_choices, problem.n_features)
        if self.like is not None:
            check_numbers(problem.component_choices, problem.n_features, self.like.evidence.n_numbers)
            self.like.check(problem, budget)
        if problem.n_features == 1:
            ladder = self.ladder(problem, 0.0, 1.0, budget)  # refuses an order that is too high
            check_numbers(problem.component_choices, 1, 2 * ladder.order if self.like is None else None)
            return
        numbers = self.most_numbers(problem, budget)
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"method 'sketch' releases at most {MOST_NUMBERS} numbers, got up to {numbers} for"
                f" n_components = {problem.n_components} and {problem.n_features} features"
            )

    def most_numbers(self, problem: Problem, budget: GaussianFilter) -> int:
        """Most numbers that a fit of several columns may release."""
        return MOST_ROUNDS * CELLS * problem.n_features + most_numbers(problem, budget)

    def release(
        self,
        records: Records,
        problem: Problem,
        *,
        learner: Any,
        n_jobs: int | None,
        progress: Progress,
        rng: Rng,
        released: Listener = kept_by_nobody,
    ) -> Outcome:
        """:meth:`release_from` without an earlier mixture; see the class for the guarantee."""
        return self.release_from(None, records, problem, progress=progress, rng=rng, released=released)

    def release_from(
        self,
        known: Mixture | None,
        records: Records,
        problem: Problem,
        *,
        progress: Progress,
        rng: Rng,
        released: Listener = kept_by_nobody,
        part: tuple[Guarantee, GaussianFilter] | None = None,
    ) -> Outcome:
        """Find intervals, sketch, fit; with a mixture of ``n_components`` from an earlier release to start from.

        ``part`` is for a sketch that is a part of a larger release: the guarantee of the whole, and what of its budget
        may be spent here.
        """
        guarantee, budget = (self.guarantee(problem), self.budget(problem)) if part is None else part
        if self.like is not None:
            raw: dict[str, FloatArray] = {}
            if problem.bounds is not None:
                records = clipped(records, problem.bounds)
                raw, budget = cells_within(records, budget, problem, rng)
                released(guarantee, *unfinished(raw, None))
            starts = self.like.starts
            given = self.like.evidence
            own: dict[str, Any] = {
                "variance_floor": self.variance_floor(given.unit, given.resolution),
                "bounds": problem.bounds,
                "covariance_type": self.covariance_type,
            }

            def heard(part: SketchStatistics) -> None:
                released(guarantee, *unfinished(raw, replace(part, **own), starts=starts))

            evidence = sketch_like(records, self.like, budget, problem, rng=rng, released=heard)
            evidence = replace(evidence, **own)
            progress(1, 2)
            choice = choose(evidence, problem.component_choices, first=starts)
            progress(2, 2)
            return outcome(evidence, choice.best, guarantee, raw, choice)
        whole, count_scale = budget, 0.0
        if problem.neighbouring is Neighbouring.ADD_REMOVE:
            count, budget = noisy_count(records, budget=budget, share=COUNT_SHARE, rng=rng)
            problem = replace(problem, n_records=max(count, 4 * problem.n_components))
            count_scale = 1 / math.sqrt(COUNT_SHARE * budget.limit)
        if problem.bounds is None:
            intervals, raw, budget = unbounded_intervals(records, budget, problem, rng)
            if intervals is None:
                told = {name: values for name, values in raw.items() if np.isfinite(values).all()}  # no NaN in a file
                released(guarantee, *unfinished(told, None))  # paid for, and tells the scale
                raise Unstable(
                    "method 'sketch' refused: no interval holds enough records to be named in private. The budget is"
                    " spent. Use more records or a larger epsilon, or give bounds.",
                    guarantee,
                )
        else:
            records = clipped(records, problem.bounds)
            intervals, raw, budget = intervals_within(records, budget, problem, rng, count_scale)
        released(guarantee, *unfinished(raw, None))
        centre, unit, resolution = centre_and_unit(intervals, problem.resolution)
        variance_floor = self.variance_floor(unit, resolution)
        if problem.n_features == 1:
            ladder = self.ladder(problem, float(centre[0]), float(unit[0]), whole, resolution)
            share = 1 - budget.spent / budget.limit
            settings: dict[str, Any] = {"neighbouring": problem.neighbouring, "rng": rng}
            sketch, _ = noisy_sketch(records, ladder, budget=budget, share=share, **settings)
            own = {"bounds": problem.bounds, "resolution": resolution, "covariance_type": self.covariance_type}
            evidence = SketchStatistics((sketch,), unit, variance_floor=variance_floor, **own)
            released(guarantee, *unfinished(raw, evidence))
            progress(1, 2)
            choice = choose(evidence, problem.component_choices)
            fit = choice.best
            progress(2, 2)
        else:

            def after_rounds(
                part: SketchStatistics, starts: Mapping[int, ScaledMixture], duels: Sequence[Duel]
            ) -> None:
                released(guarantee, *unfinished(raw, part, starts=starts, duels=duels))

            evidence, fit, choice = run_rounds(
                records,
                centre,
                unit,
                budget,
                problem,
                progress=progress,
                rng=rng,
                variance_floor=variance_floor,
                resolution=resolution,
                covariance_type=self.covariance_type,
                known=None if known is None else ScaledMixture.about(known, centre, unit),
                released=after_rounds,
            )
        return outcome(evidence, fit, guarantee, raw, choice)


def clipped(records: Records, bounds: FloatArray) -> Records:
    """Every record moved into the bounds (D, 2), column by column."""
    return mapped(records, partial(np.clip, a_min=bounds[:, 0], a_max=bounds[:, 1]))


def outcome(
    evidence: SketchStatistics, fit: SketchFit, guarantee: Guarantee, raw: Mapping[str, FloatArray], choice: Choice
) -> Outcome:
    """What leaves the method; from here on only released and public numbers are used."""
    fit, evidence, told = finish(fit, evidence, raw, choice.most_components)
    arrays, law = evidence.to_arrays()
    noise = {"statistic": "sketch", "law": "discrete Gaussian", **law, **told, **choice.told()}
    return Outcome(fit.mixture, guarantee, dict(raw) | arrays, noise, fit.background)


def unfinished(
    raw: Mapping[str, FloatArray],
    evidence: SketchStatistics | None,
    *,
    starts: Mapping[int, ScaledMixture] | None = None,
    duels: Sequence[Duel] | None = None,
) -> tuple[dict[str, FloatArray], dict[str, Any]]:
    """What was released so far, and its public law, for :func:`fitted`; ``duels`` are those of the rounds.

    ``starts`` are mixtures of earlier releases from which the fits begin.
    """
    law: dict[str, Any] = {"statistic": "sketch", "law": "discrete Gaussian"}
    if evidence is None:
        return dict(raw), law
    arrays, evidence_law = evidence.to_arrays()
    law |= evidence_law | {"starts": [_start_to_dict(start) for start in (starts or {}).values()]}
    return dict(raw) | arrays, law if duels is None else law | {"duels": [list(duel) for duel in duels]}


def fitted(
    guarantee: Guarantee, raw: Mapping[str, FloatArray], law: Mapping[str, Any], numbers: Sequence[int]
) -> Outcome:
    """The outcome of :func:`unfinished` releases: post-processing, also later from a file.

    Raises
    ------
    ValueError
        If no sketch was released yet.
    """
    if not law.get("sketches"):
        raise ValueError("nothing can be fitted before the first sketch is released, which the fit had not reached")
    evidence = SketchStatistics.from_arrays(raw, law)
    check_fittable(evidence, "source")
    check_numbers(numbers, len(evidence.unit), evidence.n_numbers)
    first = {len(fields["weights"]): _start_from_dict(fields, evidence) for fields in law["starts"]}
    if "duels" in law:
        fit, choice = replayed(evidence, numbers, first, [(gain, scale) for gain, scale in law["duels"]])
    else:
        choice = choose(evidence, numbers, first=first)
        fit = choice.best
    return outcome(evidence, fit, guarantee, raw, choice)


def _start_to_dict(start: ScaledMixture) -> dict[str, Any]:
    return {
        "weights": start.weights.tolist(),
        "means": start.means.tolist(),
        "factors": start.factors.tolist(),
        "background": start.background,
    }


def _start_from_dict(fields: Mapping[str, Any], evidence: SketchStatistics) -> ScaledMixture:
    k, d = np.size(fields["weights"]), len(evidence.unit)
    shapes = {"weights": (k,), "means": (k, d), "factors": (k, d, d)}
    arrays = {name: finite_numbers(fields[name], name, shape) for name, shape in shapes.items()}
    background = fields["background"]
    if background is not None:
        check_probability(background=background)
    start = ScaledMixture(arrays["weights"], arrays["means"], arrays["factors"], background=background)
    check_start(start, "source")
    return start
