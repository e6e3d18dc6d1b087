"""The Private Populous Estimator with aggregation: many fits, a private test that they agree, one noisy average.

Proof: method.md. Sources: Arbas, Ashtiani and Liaw (2023), Algorithm 1, which releases one noisy fit; Tsfadia et al.
(2022) for weights of a core. The average moves 1/t as much as a fit, with t fits, so ordinary samples are enough.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import (
    FloatArray,
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_probability,
    plain_numbers,
    shown,
)
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.fit_arrays import BoolArray, Fits
from pm_dpgmm.learners.parts import fit_parts
from pm_dpgmm.learners.rehearsal import rehearse_learner
from pm_dpgmm.learners.subsets import FitsTogether, check_learner
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask, mixture_of_lifted, parts_of_lifted
from pm_dpgmm.mechanisms.propose_test_release import PassProbabilities, pass_probabilities
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, TooFewRecords, kept_by_nobody
from pm_dpgmm.methods.populous.agreement import SEPARATION, friend_table
from pm_dpgmm.methods.populous.average import average_core, check_core, stability_level
from pm_dpgmm.methods.populous.caveats import mask_caveats
from pm_dpgmm.methods.populous.design import NEVER, Assumed, Design, best_design, fewest_records
from pm_dpgmm.methods.populous.friends_kernel import fill_rows
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from pm_dpgmm.privacy.noise import IntArray, Rng, permutation, random_assignment, seeds

LEAST_NOISE = 1e-9  # relative; the records that less would need exceed 2^53
MOST_GUESSED = 2**53  # records or subsets: whole as a double, and beyond anything that is


@dataclass(frozen=True, slots=True)
class Constants:
    """Everything of a run that is fixed before the records are seen."""

    design: Design
    noise: LiftedMaskNoise
    table: PassProbabilities


@dataclass(frozen=True, slots=True)
class Populous(Method):
    """Settings of ``method="populous"``.

    Parameters
    ----------
    noise : float, optional
        eta, relative noise of the released components: 1.4 eta of a standard deviation on a mean, 2 eta on a variance,
        and more from 0.2 on (.52 of a deviation at .28). None takes the least that fits of the assumed quality allow.
    separation : float
        Guess of the least distance between the means of two components, in standard deviations. A guess that is too
        large makes a refusal likely, one that is too small costs records. Without meaning for one component.
    efficiency : float
        Guess of the learner's quality, in (0, 1]: variance of the best estimator over that of the learner's fits.
    n_subsets : int, optional
        t; None chooses it.
    core : {"triple", "pair"}
        Any three, or two, fits of the average share a friend; the pair rule asks for 1.5 times the separation.
    assumed_records : int, optional
        Public guess of the number of records, for the design. Under add-remove neighbours it must be given.
    design : Design, optional
        All public numbers of the run, in place of what follows from the guesses.
    time_limit : float, optional
        Seconds for one fit of a learner that is not compiled; it then runs in processes of its own.
    rehearse : bool
        Try a learner of yours on simulated rows first: one that always fails would cost the budget, and one whose
        answer to the same rows is another the second time has a memory, or chance of its own. Set False for a learner
        that needs data of a special kind.

    Guarantee
    ---------
    (epsilon, delta)-DP under replace-one or add-remove neighbours, whether it answers or refuses; no bounds on the
    data. The learner is any function whose answer to a subset does not depend on the other subsets. Every fit of a
    learner of yours has a process of its own, so what it keeps in memory is gone. Left to you: it holds no records
    beforehand (a closure over all of X), and its fits do not meet in files or at a server. Proof: method.md.

    Notes
    -----
    With the default learner, epsilon 1, delta 1e-6 and noise 0.05 it answers from about 7e4 records for two components
    of one column 4 standard deviations apart, 1.9e5 for three of two columns, 3e5 for three of five
    (``verification/benchmarks/populous_release.py``); the last two only with ``efficiency=1``, which lets it try.
    """

    noise: float | None = None
    separation: float = 4.0
    efficiency: float = 0.6
    n_subsets: int | None = None
    core: str = "triple"
    assumed_records: int | None = None
    design: Design | None = None
    time_limit: float | None = None
    rehearse: bool = True
    name: ClassVar[str] = "populous"
    takes_bounds: ClassVar[bool] = False
    takes_learner: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_flag(rehearse=self.rehearse)
        check_positive(separation=self.separation)
        if self.noise is not None:
            check_probability(noise=self.noise)
            if self.noise < LEAST_NOISE:
                raise ValueError(f"noise must be at least {LEAST_NOISE:g}, got {self.noise!r}")
        check_positive(efficiency=self.efficiency)
        if self.efficiency > 1:
            raise ValueError(f"efficiency must be at most 1, got {self.efficiency}")
        check_choice(tuple(SEPARATION), core=self.core)
        if self.n_subsets is not None:
            check_count(least=4, most=MOST_GUESSED, n_subsets=self.n_subsets)
        if self.assumed_records is not None:
            check_count(most=MOST_GUESSED, assumed_records=self.assumed_records)
        if self.time_limit is not None:
            check_positive(time_limit=self.time_limit)
        if self.design is not None:
            design = self.design
            if not isinstance(design, Design):
                raise TypeError(f"design must be a Design, got {shown(design)}")
            for settings in (design, design.rule):
                plain_numbers(settings)
            check_core(floor=design.floor, top=design.top)
            check_count(full=design.full)
            if max(design.top, design.full) > design.n_subsets:
                raise ValueError(
                    f"top and full of the design must be at most n_subsets = {design.n_subsets},"
                    f" got {design.top} and {design.full}"
                )
        plain_numbers(self)

    def constants(self, problem: Problem) -> Constants:
        """All constants of a run, from public facts alone.

        Raises
        ------
        ValueError
            If fits of the assumed quality would not pass; the message has the number of records that would do.
        """
        return _constants(self, _public(problem))

    def first_kernel(self, n_features: int) -> Any:
        """The table of friends, for any number of columns."""
        return fill_rows

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, also for a refusal."""
        return problem.epsilon, problem.delta

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        return Guarantee(
            problem.epsilon,
            problem.delta,
            problem.neighbouring,
            "Private Populous Estimator with aggregation (methods/populous/method.md)",
            self.constants(problem).table.curve,
        )

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless delta > 0, a design exists and every subset has enough records."""
        if problem.delta <= 0:
            raise ValueError("method 'populous' needs delta greater than 0, got 0")
        if problem.neighbouring is Neighbouring.ADD_REMOVE and self.assumed_records is None and self.design is None:
            raise ValueError(
                "assumed_records must be given under add-remove neighbours: the number of records is private there,"
                " got None"
            )
        self.guarantee(problem).check_storable()

    def try_learner(self, learner: Any, problem: Problem) -> None:
        """Raise if ``learner`` cannot fit simulated rows, as many as a subset has, or remembers them."""
        check_learner(learner, time_limit=self.time_limit)
        if self.rehearse and not isinstance(learner, FitsTogether):
            size = self.subset_records(problem, self.constants(problem).design)
            least = 10 * problem.n_components * (problem.n_features + 1) ** 2
            rehearse_learner(
                learner,
                least if size is None else int(size),
                problem.n_features,
                problem.n_components,
                time_limit=self.time_limit,
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
        """Split, fit, test, average, mask; see the class for the guarantee."""
        from joblib import effective_n_jobs

        constants = self.constants(problem)
        design, threads = constants.design, effective_n_jobs(n_jobs or 1)
        order, edges = split(len(records), design.n_subsets, problem.neighbouring, rng=rng)
        streams = seeds(design.n_subsets, rng=rng)
        learner = BatchedEM() if learner is None else learner
        fits = fit_parts(
            learner,
            records[order],
            edges,
            problem.n_components,
            seeds=streams,
            n_jobs=n_jobs,
            progress=progress,
            time_limit=self.time_limit,
        )
        guarantee = self.guarantee(problem)
        raw = agree_average_mask(fits, constants, n_threads=threads, rng=rng)
        if raw is None:
            raise Unstable(
                f"method 'populous' refused: its private test did not find that most of {design.n_subsets} fits agree."
                " The budget is spent. Use more records, a smaller separation, or a method with bounds.",
                guarantee,
            )
        size = self.subset_records(problem, design)
        law = {
            "statistic": "weights, corners, means, covariances",
            "law": "lifted-mask",
            "eta": constants.noise.eta,
            "kappa": constants.noise.kappa,
            "n_subsets": design.n_subsets,
            "subset_records": size,
            "component_radius": design.rule.component_radius,
            "fit_radius": design.rule.fit_radius,
            "top": design.top,
            "full": design.full,
        }
        mixture = released_mixture(raw, law)
        return Outcome(mixture, guarantee, raw, law | {"caveats": mask_caveats(mixture, constants.noise.eta)})

    def subset_records(self, problem: Problem, design: Design) -> float | None:
        """Records of a subset, as far as they are public."""
        if problem.neighbouring is Neighbouring.REPLACE_ONE:
            return problem.n_records / design.n_subsets
        return None if self.assumed_records is None else self.assumed_records / design.n_subsets


def split(n_records: int, n_subsets: int, relation: Neighbouring, *, rng: Rng) -> tuple[IntArray, IntArray]:
    """An order of the records and the edges (t + 1,) of subsets in it; neighbours differ in one subset.

    Replace-one: equal parts of a random order. Add-remove: every record draws its subset, independently.
    """
    if relation is Neighbouring.REPLACE_ONE:
        return permutation(n_records, rng=rng), np.arange(n_subsets + 1) * n_records // n_subsets
    drawn = random_assignment(n_records, n_subsets, rng=rng)
    edges = np.append(0, np.cumsum(np.bincount(drawn, minlength=n_subsets)))
    return np.argsort(drawn, kind="stable"), edges


def agree_average_mask(fits: Fits, constants: Constants, *, n_threads: int, rng: Rng) -> dict[str, FloatArray] | None:
    """Everything after the fits: friends, level, one coin, average, mask. None is a refusal.

    Friends, level, core, reference and steps of the average stay inside.
    """
    with np.errstate(all="ignore"):  # a floating-point warning would tell about the fits
        friends = friend_table(fits, constants.design.rule, n_threads=n_threads)
        return test_and_release(fits, friends, constants, rng=rng)


def test_and_release(fits: Fits, friends: BoolArray, constants: Constants, *, rng: Rng) -> dict[str, FloatArray] | None:
    """The randomised part: one coin at the stability level, then the mask of the average."""
    design = constants.design
    level = stability_level(friends.sum(axis=1), top=design.top, full=design.full)
    if not constants.table.passes(level, rng=rng):
        return None
    average = average_core(fits, friends, design.rule, top=design.top)
    assert average is not None  # level 0 never passes, and a higher one has a core
    means, covariances, corners = parts_of_lifted(average.points)  # in the frame of one fit's components
    factors = average.factors @ np.linalg.cholesky(covariances)
    offsets = np.einsum("kij,kj->ki", average.factors, means)
    noise = constants.noise
    return lifted_mask(average.weights, offsets, factors, corners, origins=average.centres, noise=noise, rng=rng)


def released_mixture(raw: Mapping[str, FloatArray], law: Mapping[str, Any]) -> Mixture:
    """The mixture of masked parameters and their public law: post-processing, also later from a file."""
    mixture = mixture_of_lifted(dict(raw), noise=LiftedMaskNoise(law["eta"], law["kappa"]))
    size = law["subset_records"]
    return mixture if size is None else unbiased(mixture, size)


def unbiased(mixture: Mixture, subset_records: float) -> Mixture:
    """Post-processing: covariances of fits to few records are too small, and an affine-invariant average smaller still.

    With nu records for a component, a maximum-likelihood covariance is 1 - 1/nu of the truth, and that in the
    barycentre of many lifted fits is 1 - d/(2 nu) of their mean, both to first order.
    """
    d = mixture.means.shape[1]
    share = (d + 2) / (2 * np.maximum(subset_records * mixture.weights, d + 2))
    return Mixture(mixture.weights, mixture.means, mixture.covariances / (1 - share)[:, None, None])


def _public(problem: Problem) -> tuple[int, int, int, float, float, bool]:
    """What the constants depend on; the number of records only where it is public."""
    fixed = problem.neighbouring is Neighbouring.REPLACE_ONE
    n = problem.n_records if fixed else 0
    return n, problem.n_features, problem.n_components, problem.epsilon, problem.delta, fixed


@functools.lru_cache(maxsize=32)
def _constants(settings: Populous, public: tuple[int, int, int, float, float, bool]) -> Constants:
    n_records, d, k, epsilon, delta, fixed = public
    design = settings.design
    if design is None:
        n = settings.assumed_records or n_records
        assumed = Assumed(
            n, d, k, epsilon, delta, settings.separation, settings.efficiency, settings.core, settings.n_subsets
        )
        design = best_design(assumed, settings.noise)
        if design is None:
            enough = fewest_records(assumed, settings.noise)
            if enough >= NEVER:
                raise ValueError(
                    f"settings must let method 'populous' answer from some number of records on, got n_subsets ="
                    f" {settings.n_subsets}, noise = {settings.noise}, separation = {settings.separation:g} and"
                    f" efficiency = {settings.efficiency:g} at epsilon = {epsilon:g}, delta = {delta:g}"
                )
            to_answer = (
                f"for method 'populous' to answer with {k} components of {d} columns, separation"
                f" {settings.separation:g} and efficiency {settings.efficiency:g}"
            )
            if settings.assumed_records is None:
                raise TooFewRecords(f"about {enough:,} rows {to_answer}", n)
            raise ValueError(f"assumed_records must be at least about {enough:,} {to_answer}, got {n:,}")
    elif (design.rule.n_components, design.rule.n_features) != (k, d):
        raise ValueError(
            f"design must be made for {k} components and {d} columns, got {design.rule.n_components} and"
            f" {design.rule.n_features}"
        )
    if fixed and n_records < design.n_subsets:
        raise TooFewRecords(f"n_subsets = {design.n_subsets} rows", n_records)
    loss = LiftedMaskProfile(omega=design.omega, eta=design.noise, dimension=d + 1)
    table = pass_probabilities(loss, epsilon=epsilon, delta=delta)
    return Constants(design, LiftedMaskNoise(design.noise, design.rule.kappa), table)
