"""Method "populous" in a plan: simulated runs, and how well the fits of the actual learner agree in them.

Everything here is simulated from public mixtures, so fits, friends and levels may be looked at.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.fit_arrays import Fits, stack_fits
from pm_dpgmm.learners.subsets import FitsTogether, check_learner, fit_subsets
from pm_dpgmm.methods.about import at_least_about
from pm_dpgmm.methods.outcome import Problem, Progress
from pm_dpgmm.methods.populous.agreement import AgreementRule, distance_lifted, friend_table, valid_fits
from pm_dpgmm.methods.populous.average import stability_level
from pm_dpgmm.methods.populous.design import Assumed, best_design, fewest_records
from pm_dpgmm.methods.populous.method import Constants, Populous
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.planning.agreement import LEAST_PROBABILITY, Agreement
from pm_dpgmm.planning.result import Plan, Trial
from pm_dpgmm.planning.trials import trial_of
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray
from pm_dpgmm.release.release import Release

FARTHEST = 1e6  # stands for a distance that is not known
MOST = 10**8  # records that are simulated
LEAST_GROWTH, GROWTH, MOST_GROWTH = 1.2, 1.5, 10  # from a number of records that was not enough to the next; how often
CLOSE = 1.15  # factor at which the search ends
LEAST_EFFICIENCY = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Simulated runs of one group of settings; ``fewest`` is given, and there are none, where no design exists."""

    trials: list[Trial]
    releases: list[Release]
    agreement: Agreement | None
    fewest: int | None


def populous_settings(method: str | Populous, given: dict[str, Any], separation: float) -> Populous:
    """The settings object that ``method`` is, or one of the settings ``given``, with the plan's separation as guess."""
    if isinstance(method, Populous):
        if given:
            raise TypeError(f"settings must be inside the settings object, got {sorted(given)} beside it")
        return method
    known = [field.name for field in dataclasses.fields(Populous) if field.name != "separation"]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"settings of method 'populous' must be among {known}, got {unknown}")
    return Populous(separation=float(separation), **given)


def at_size(settings: Populous, n_records: int, relation: Neighbouring) -> Populous:
    """Settings for ``n_records``: under add-remove neighbours their number is a guess that must be written down."""
    if relation is Neighbouring.ADD_REMOVE and settings.assumed_records is None and settings.design is None:
        return replace(settings, assumed_records=n_records)
    return settings


def fewest_for(settings: Populous, problem: Problem) -> int:
    """About the fewest records for which fits of the assumed quality have a design."""
    return fewest_records(_assumed(settings, problem), settings.noise)


def simulated_runs(
    settings: Populous,
    truths: Sequence[Mixture],
    problem: Problem,
    *,
    learner: Any,
    n_jobs: int | None,
    rngs: Sequence[np.random.Generator],
) -> Runs:
    """One run for each mixture, with the learner, as :func:`pm_dpgmm.fit_gmm` would do it.

    Raises
    ------
    TypeError, ValueError
        If the learner or the settings are wrong; not if there are too few records for a design.
    """
    check_learner(learner, time_limit=settings.time_limit)
    if problem.delta <= 0:
        raise ValueError("method 'populous' needs delta greater than 0, got 0")
    if settings.design is None and best_design(_assumed(settings, problem), settings.noise) is None:
        return Runs([], [], None, fewest_for(settings, problem))
    constants = settings.constants(problem)
    given: dict[str, Any] = {
        "epsilon": problem.epsilon,
        "delta": problem.delta,
        "neighbouring": str(problem.neighbouring),
        "method": settings,
        "n_jobs": n_jobs,
    }
    runs = Runs([], [], None, None)
    found = []
    for truth, rng in zip(truths, rngs, strict=True):
        watched = _Watched(BatchedEM() if learner is None else learner, constants, settings.time_limit, n_jobs)
        trial, release = trial_of(truth, problem.n_records, False, given | {"learner": watched}, rng)
        runs.trials.append(trial)
        if release is not None:
            runs.releases.append(release)
        assert watched.fits is not None  # a run that raised nothing but a refusal has made its fits
        found.append(_looked_at(watched.fits, constants, problem.n_records))
    levels, probabilities, efficiencies, invalid, elsewhere = zip(*found, strict=True)
    design = constants.design
    agreement = Agreement(
        n_subsets=design.n_subsets,
        subset_records=problem.n_records / design.n_subsets,
        component_radius=design.rule.component_radius,
        fit_radius=design.rule.fit_radius,
        top=design.top,
        full=design.full,
        noise=design.noise,
        omega=design.omega,
        level_needed=constants.table.level_for(LEAST_PROBABILITY),
        assumed_efficiency=settings.efficiency,
        levels=levels,
        probabilities=probabilities,
        efficiencies=efficiencies,
        invalid=invalid,
        elsewhere=elsewhere,
    )
    return replace(runs, agreement=agreement)


def smallest_plan(
    planned: Callable[[Populous, int, int], Plan],
    settings: Populous,
    problem: Problem,
    n_simulations: int,
    *,
    free: bool,
) -> Plan:
    """The plan with about the fewest records that are enough; of the last number tried if none was.

    Parameters
    ----------
    planned : function of settings, a number of records and one of simulations
    settings : Populous
    problem : Problem
        ``n_records`` has no meaning.
    n_simulations : int
    free : bool
        Whether ``efficiency`` may be chosen: 1 with a given noise, where it decides only whether there are settings;
        else what was measured, and less where even that was too much.
    """
    if free:
        settings = replace(settings, efficiency=1.0)
    size = fewest_for(settings, problem)
    if size > MOST:
        return planned(settings, MOST, 1)  # there is no design, so nothing is simulated
    low = 0
    for _ in range(MOST_GROWTH):
        found = _tried(planned, settings, size, n_simulations)
        if found.enough:
            break
        low, wanted = size, found.fewest or 0
        if found.agreement is not None:
            measured = max(found.agreement.efficiency, LEAST_EFFICIENCY)
            wanted = fewest_for(replace(settings, efficiency=measured), problem)
            if free and settings.noise is None and not found.agreement.likely:
                settings = replace(settings, efficiency=min(measured, 0.9 * settings.efficiency))
        size = at_least_about(min(max(wanted, LEAST_GROWTH * size), GROWTH * size))
    while found.enough and low and found.n_records > CLOSE * low:
        size = at_least_about(math.sqrt(low * found.n_records))
        if size in (low, found.n_records):
            break
        middle = _tried(planned, settings, size, n_simulations)
        if middle.enough:
            found = middle
        else:
            low = size
    return found


def _tried(planned: Callable[[Populous, int, int], Plan], settings: Populous, size: int, n_simulations: int) -> Plan:
    """The plan of ``size`` records; of one simulation only, where that shows that it is not enough."""
    first = planned(settings, size, 1)
    if first.agreement is None or n_simulations == 1:
        return first
    best = (first.agreement.probability + n_simulations - 1) / n_simulations
    lost = math.isfinite(first.gap) and first.gap > first.error
    return first if lost or best < LEAST_PROBABILITY else planned(settings, size, n_simulations)


# ---------------------------------------------------------------------- one run
@dataclass(slots=True, eq=False)
class _Watched(FitsTogether):
    """The learner of a simulated run; keeps the fits."""

    learner: Any
    constants: Constants
    time_limit: float | None
    n_jobs: int | None
    fits: Fits | None = None

    def fit_all(
        self,
        records: FloatArray,
        edges: IntArray,
        n_components: int,
        *,
        seeds: Sequence[int],
        n_threads: int,
        progress: Progress,
    ) -> Fits:
        if isinstance(self.learner, FitsTogether):
            self.fits = self.learner.fit_all(
                records, edges, n_components, seeds=seeds, n_threads=n_threads, progress=progress
            )
        else:
            subsets = [records[low:high] for low, high in itertools.pairwise(edges)]
            limit: dict[str, Any] = {} if self.time_limit is None else {"time_limit": self.time_limit}
            found = fit_subsets(
                self.learner, subsets, n_components, seeds=seeds, n_jobs=self.n_jobs, progress=progress, **limit
            )
            self.fits = stack_fits(found, n_components, records.shape[1])
        return self.fits

    def __call__(self, subset: FloatArray) -> Mixture:
        raise NotImplementedError("subsets are fitted together")


def _looked_at(fits: Fits, constants: Constants, n_records: int) -> tuple[int, float, float, float, float]:
    """Level, its pass probability, efficiency of the learner, shares of fits that are invalid and in another mode."""
    design = constants.design
    with np.errstate(all="ignore"):
        friends = friend_table(fits, design.rule).sum(axis=1)
        level = stability_level(friends, top=design.top, full=design.full)
        valid = np.flatnonzero(valid_fits(fits, design.rule))
        centre = np.full(len(valid), int(np.argmax(friends)))
        near = valid[_distances(fits, valid, centre, design.rule)[0] <= 2 * design.rule.component_radius]
        # Fits of another mode do not tell how far the others spread, unless there is no mode of most fits.
        same = near if 2 * len(near) > len(valid) else valid
        efficiency = _efficiency(fits, same, design.rule, n_records / len(fits))
    shares = 1 - len(valid) / len(fits), (len(valid) - len(near)) / len(fits)
    return level, constants.table.probability(level), efficiency, *shares


def _efficiency(fits: Fits, chosen: IntArray, rule: AgreementRule, subset_records: float) -> float:
    """Variance of the best estimator over the learner's: medians of squares of d_2 between fits; 0 if there are none.

    In the model of ``populous_design`` the square is 4 k chi^2 / ``subset_records``, with so many degrees of freedom as
    a mixture has parameters.
    """
    if len(chosen) < 2:
        return 0.0
    k, d = rule.n_components, rule.n_features
    _, squares = _distances(fits, chosen, np.roll(chosen, 1), rule)
    ideal = 4 * k * stats.chi2.median(k * d * (d + 3) / 2 + k - 1) / subset_records
    return float(ideal / np.median(squares))


def _distances(fits: Fits, first: IntArray, second: IntArray, rule: AgreementRule) -> tuple[FloatArray, FloatArray]:
    """Distance of the farthest components, and d_2 squared, of fits ``first`` and ``second`` as they match best."""
    one = fits.means[first][:, :, None], fits.covariances[first][:, :, None]
    other = fits.means[second][:, None], fits.covariances[second][:, None]
    squares = np.square(distance_lifted(*one, *other))
    squares = np.where(np.isfinite(squares), squares, FARTHEST**2)
    order = np.zeros(squares.shape[:2], dtype=np.int64)
    for i, table in enumerate(squares):
        order[i] = linear_sum_assignment(table)[1]
    matched = np.take_along_axis(squares, order[:, :, None], axis=2)[:, :, 0]
    change = (fits.weights[first] - np.take_along_axis(fits.weights[second], order, axis=1)) / rule.kappa
    return np.sqrt(matched.max(axis=1)), np.sum(matched, axis=1) + np.sum(np.square(change), axis=1)


def _assumed(settings: Populous, problem: Problem) -> Assumed:
    n_records = settings.assumed_records or problem.n_records
    return Assumed(
        n_records,
        problem.n_features,
        problem.n_components,
        problem.epsilon,
        problem.delta,
        settings.separation,
        settings.efficiency,
        settings.core,
        settings.n_subsets,
    )
