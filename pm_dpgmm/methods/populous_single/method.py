"""The Private Populous Estimator, Algorithm 1: many fits, a private test that they agree, one masked fit.

Proof: method.md. Source: Arbas, Ashtiani and Liaw (2023), Algorithm 1, with r equal to the radius of the
mask. Run with r = 1, as in the proof of its Theorem 6.2, the algorithm is not private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_flag, check_probability, plain_numbers
from pm_dpgmm.learners.rehearsal import rehearse_learner
from pm_dpgmm.learners.subsets import fit_subsets
from pm_dpgmm.mechanisms.masks import MaskNoise, largest_radius, mask_loss, mask_mixture, paper_loss, paper_radius
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_count, truncated_laplace_loss
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, TooFewRecords, kept_by_nobody
from pm_dpgmm.methods.populous.caveats import mask_caveats
from pm_dpgmm.methods.populous_single.agreement import friend_table
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import CompositionProfile, PrivacyProfile, TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Unstable, split_budget
from pm_dpgmm.privacy.noise import IntArray, Rng, permutation, seeds

PAPER_TRIANGLE = 1.5  # z at radius 1, used by the paper at every radius


@dataclass(frozen=True, slots=True)
class Constants:
    """Every number of a run that is fixed before the records are seen."""

    n_subsets: int
    mask_radius: float  # gamma: the mask hides which of two fits this close it was given
    friend_radius: float  # two friends of one fit are within gamma of each other
    min_friends: int  # a fit with this many friends, itself included, may be released
    threshold: int  # least sum of friend counts at which such a fit exists
    test: TruncatedLaplaceProfile
    mask: PrivacyProfile


@dataclass(frozen=True, slots=True)
class PopulousSingle(Method):
    """Settings of ``method="populous-single"``.

    Parameters
    ----------
    n_subsets : int, optional
        Number t of disjoint subsets. Default: the smallest at which full agreement always passes the test.
    test_share : float
        Share of epsilon and delta for the test; the rest is for the mask.
    noise : float
        Relative noise of weights, means and covariances.
    accounting : {"exact", "paper"}
        "exact" uses the exact Renyi divergence of the mask's worst pair and the exact triangle constants; "paper"
        the explicit constants of the published lemmas (epsilon of the mask at most 1), thresholds 0.6 and 0.8.
    rehearse : bool
        Try a learner of yours on simulated rows first, as :class:`Populous` does.

    Guarantee
    ---------
    (epsilon, delta)-DP under replace-one neighbours, whether it answers or refuses; no bounds on the data. The
    learner is any function whose answer to a subset does not depend on the other subsets: see :class:`Populous`.
    Proof: method.md.

    Notes
    -----
    One fit is released out of t, so subsets must be large enough that fits agree within about 0.002 standard
    deviations at epsilon 1: some 7e8 records for a single Gaussian in one column, 1e13 with ``accounting="paper"``
    (``verification/benchmarks/populous_single_size.py``). Use it to study the paper's algorithm.
    """

    n_subsets: int | None = None
    test_share: float = 0.5
    noise: float = 0.05
    accounting: str = "exact"
    rehearse: bool = True
    name: ClassVar[str] = "populous-single"
    takes_bounds: ClassVar[bool] = False
    takes_learner: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_flag(rehearse=self.rehearse)
        if self.n_subsets is not None:
            check_count(least=4, n_subsets=self.n_subsets)
        check_probability(test_share=self.test_share, noise=self.noise)
        check_choice(("exact", "paper"), accounting=self.accounting)
        plain_numbers(self)

    def constants(self, problem: Problem) -> Constants:
        """All constants of a run, from public facts alone."""
        (test_epsilon, test_delta), mask_budget = split_budget(problem.epsilon, problem.delta, self.test_share)
        exact = self.accounting == "exact"
        t = self.n_subsets
        if t is None:
            t = 4
            while not _unanimous_passes(t, test_epsilon, test_delta, exact):
                t = math.ceil(t * 1.05) + 1
        test = truncated_laplace_loss(sensitivity=2 * (t - 1), epsilon=test_epsilon, delta=test_delta)
        min_friends, threshold = _thresholds(t, exact)
        noise = MaskNoise(self.noise, self.noise, self.noise)
        size = {"n_features": problem.n_features, "n_components": problem.n_components}
        epsilon, delta = mask_budget
        if exact:
            radius = largest_radius(epsilon=epsilon, delta=delta, noise=noise, **size)
            mask: PrivacyProfile = mask_loss(radius=radius, noise=noise, **size)
            friend_radius = math.sqrt(1 + radius) - 1  # s + (1 + s) s = radius
        else:
            radius = paper_radius(epsilon=epsilon, delta=delta, noise=noise, **size)
            mask = paper_loss(epsilon, delta)
            friend_radius = radius / (2 * PAPER_TRIANGLE)
        return Constants(t, radius, friend_radius, min_friends, threshold, test, mask)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """The whole budget, also for a refusal."""
        return problem.epsilon, problem.delta

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        constants = self.constants(problem)
        return Guarantee(
            problem.epsilon,
            problem.delta,
            problem.neighbouring,
            f"Private Populous Estimator, Algorithm 1, {self.accounting} accounting (methods/populous_single)",
            CompositionProfile(constants.test, constants.mask, split=problem.epsilon * self.test_share),
        )

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless delta > 0, the relation is replace-one and every subset has enough records."""
        if problem.delta <= 0:
            raise ValueError("method 'populous-single' needs delta greater than 0, got 0")
        if problem.neighbouring != "replace-one":
            raise ValueError(f"method 'populous-single' supports replace-one neighbours, got {problem.neighbouring}")
        constants = self.constants(problem)
        if self.accounting == "paper" and constants.n_subsets < 10:
            raise ValueError(f"n_subsets must be at least 10 with the paper's thresholds, got {constants.n_subsets}")
        self.guarantee(problem).check_storable()
        exact = self.accounting == "exact"
        (test_epsilon, test_delta), _ = split_budget(problem.epsilon, problem.delta, self.test_share)
        if not _unanimous_passes(constants.n_subsets, test_epsilon, test_delta, exact):
            raise ValueError(
                "n_subsets must be large enough that full agreement passes the test (None finds the smallest),"
                f" got {constants.n_subsets}"
            )
        least = constants.n_subsets * (problem.n_components * (problem.n_features + 1))
        if problem.n_records < least:
            enough = (
                f"{least} rows for {constants.n_subsets} subsets of {problem.n_components} components in"
                f" {problem.n_features} dimensions"
            )
            raise TooFewRecords(enough, problem.n_records)

    def try_learner(self, learner: Any, problem: Problem) -> None:
        """Raise if ``learner`` cannot fit simulated rows, as many as a subset has, or remembers them."""
        if self.rehearse:
            size = problem.n_records // self.constants(problem).n_subsets
            rehearse_learner(learner, size, problem.n_features, problem.n_components)

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
        """Split, fit, test, mask; see the class for the guarantee."""
        constants = self.constants(problem)
        # the split does not look at values, so neighbours differ in one subset
        places = np.array_split(permutation(len(records), rng=rng), constants.n_subsets)
        fits = fit_subsets(
            learner,
            [records[place] for place in places],
            problem.n_components,
            seeds=seeds(constants.n_subsets, rng=rng),
            n_jobs=n_jobs,
            progress=progress,
        )
        guarantee = self.guarantee(problem)
        noise = MaskNoise(self.noise, self.noise, self.noise)
        raw = propose_test_release(fits, constants, noise=noise, rng=rng)
        if raw is None:
            raise Unstable(
                f"method 'populous-single' refused: its private test did not find that most of {constants.n_subsets}"
                " fits agree. The budget is spent. Use many more records, or a method with bounds.",
                guarantee,
            )
        law = {
            "statistic": "weights, means, covariances",
            "law": "mask",
            "weight": noise.weight,
            "mean": noise.mean,
            "covariance": noise.covariance,
            "n_subsets": constants.n_subsets,
        }
        mixture = valid_mixture(raw, noise)
        return Outcome(mixture, guarantee, raw, law | {"caveats": mask_caveats(mixture, noise.covariance)})


def propose_test_release(
    fits: list[Mixture | None], constants: Constants, *, noise: MaskNoise, rng: Rng
) -> dict[str, FloatArray] | None:
    """Lines 2 to 8 of Algorithm 1: test privately that fits agree, then mask one of them; None is a refusal.

    The friend counts n_i, their sum and the chosen index stay inside.
    """
    with np.errstate(all="ignore"):  # a floating-point warning would tell about the fits
        friends = friend_table(fits, constants.friend_radius).sum(axis=1)
    return test_and_mask(fits, friends, constants, noise=noise, rng=rng)


def test_and_mask(
    fits: list[Mixture | None], friends: IntArray, constants: Constants, *, noise: MaskNoise, rng: Rng
) -> dict[str, FloatArray] | None:
    """The randomised part: one noisy sum, one masked fit."""
    agreement = truncated_laplace_count(int(friends.sum()), loss=constants.test, rng=rng)
    if agreement < constants.threshold + constants.test.bound:
        return None
    # the noise is at most its bound, so the sum itself reaches the threshold and some count reaches min_friends
    chosen = fits[int(np.argmax(friends >= constants.min_friends))]
    assert chosen is not None
    return mask_mixture(chosen, noise=noise, rng=rng)


def valid_mixture(raw: dict[str, FloatArray], noise: MaskNoise) -> Mixture:
    """Post-processing of a mask: bias removed, weights clipped at 0 and normalised (equal if all are clipped)."""
    k, d = raw["means"].shape
    weights = np.maximum(raw["weights"], 0.0)
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(k, 1 / k)
    covariances = raw["covariances"] / (1 + d * noise.covariance**2)
    scale = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    unit = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(covariances / unit)
    values = np.maximum(
        values, 1e-12
    )  # of a correlation matrix, so that units do not matter; rounding may reach below 0
    covariances = (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2) * unit
    return Mixture(weights, raw["means"], (covariances + np.swapaxes(covariances, 1, 2)) / 2)


def _thresholds(t: int, exact: bool) -> tuple[int, int]:
    """Friends that a released fit needs, and the sum of friend counts that proves one exists."""
    if exact:
        # two sets of m fits out of t share an index besides the changed one when 2 m >= t + 2
        min_friends = (t + 3) // 2
        return min_friends, min_friends * t
    return math.floor(0.6 * t) + 1, math.ceil(0.8 * t * t)


def _unanimous_passes(t: int, epsilon: float, delta: float, exact: bool) -> bool:
    test = truncated_laplace_loss(sensitivity=2 * (t - 1), epsilon=epsilon, delta=delta)
    return t * t - test.bound >= _thresholds(t, exact)[1] + test.bound
