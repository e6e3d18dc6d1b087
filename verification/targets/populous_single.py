"""Method "populous-single", the Private Populous Estimator: test and mask on prepared fits of one record each."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.subsets import fit_subsets
from pm_dpgmm.mechanisms.masks import MaskNoise
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous_single import method as populous_single
from pm_dpgmm.methods.populous_single.agreement import friend_table
from pm_dpgmm.methods.populous_single.method import Constants, PopulousSingle, test_and_mask
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray
from verification.references.references import gaussian_epsilon
from verification.specimens import Specimen
from verification.specimens.populous import learner
from verification.targets.masks import PARTS, unrounded_mask
from verification.targets.runs import DELTA, EPSILON, Prepared, at_bits, fits_here, rows_of

MODULE = "methods/populous_single/method.py"
FAULT = f"fault in {MODULE}"
NOISE = 1 / 32  # a power of two, as for the masks
LARGE = 10.0  # a record that a learner may remember
Fits = tuple[list[Mixture | None], IntArray]
REFUSED = np.full(len(PARTS), np.nan)


@functools.cache
def constants(accounting: str = "exact") -> Constants:
    """Constants of the package's own method, from public facts only."""
    problem = Problem(10**6, 1, 1, EPSILON, DELTA, None, Neighbouring.REPLACE_ONE)
    return PopulousSingle(noise=NOISE, accounting=accounting).constants(problem)


def silent(sound: Constants) -> Constants:
    """Fault: the agreement test without noise."""
    test = TruncatedLaplaceProfile(scale=1e-3, bound=sound.test.bound, shift=sound.test.shift)
    return dataclasses.replace(sound, test=test)


def fits(data: FloatArray, *, using: Constants) -> Fits:
    """One fit per record, and its number of friends."""
    found: list[Mixture | None] = [learner(block) for block in data.reshape(-1, 1, 1)]
    return found, friend_table(found, using.friend_radius).sum(axis=1)


class Panicking:
    """A learner with a memory: once it has seen a large record, its answers are all over the place."""

    def __init__(self) -> None:
        self.panic = 0

    def __call__(self, subset: FloatArray) -> Mixture:
        """The mean, or a place that no other answer is near."""
        if self.panic or np.abs(subset).max() > LARGE:
            self.panic += 1
        return Mixture([1.0], [subset.mean(axis=0) + 1e3 * self.panic], [[[1.0]]])


def remembered_fits(data: FloatArray, *, using: Constants, fitted: Any) -> Fits:
    """Fits of a learner with a memory, by ``fit_subsets`` or a stand-in for it."""
    subsets, n = list(data.reshape(-1, 1, 1)), len(data)
    found = fitted(Panicking(), subsets, 1, seeds=range(n), n_jobs=None, progress=lambda done, total: None)
    return found, friend_table(found, using.friend_radius).sum(axis=1)


def release(state: Fits, n_samples: int, rng: np.random.Generator, *, using: Constants) -> Any:
    """Test and mask as released; a refusal is a row of NaN."""

    def run() -> FloatArray:
        raw = test_and_mask(*state, using, noise=MaskNoise(NOISE, NOISE, NOISE), rng=None)
        return REFUSED if raw is None else np.concatenate([raw[name].ravel() for name in PARTS])

    return rows_of(run, n_samples)


def release_unrounded(state: Fits, n_samples: int, rng: np.random.Generator, *, using: Constants) -> Any:
    """Fault: the mask without its last step."""
    with mock.patch.object(populous_single, "mask_mixture", unrounded_mask):
        return release(state, n_samples, rng, using=using)


def mechanism(using: Constants, sample: Any = release) -> Prepared:
    """Fits once per data set, then ``sample``."""
    return Prepared(functools.partial(fits, using=using), functools.partial(sample, using=using))


def first_fit_moved(using: Constants) -> tuple[FloatArray, FloatArray]:
    """All fits agree but the first, one friend radius below or above the others: that is the one released."""
    step = 0.999 * using.friend_radius - 1e-8  # inside the friend radius, rounding margin included
    low = np.full(using.n_subsets, step)
    low[0] = 0.0  # the noise of a mean of 0 stays on the grid of the sampler
    high = low.copy()
    high[0] = 2 * step
    return low, high


def test_pair(using: Constants) -> tuple[FloatArray, FloatArray]:
    """Fits that agree just enough to pass without noise, and neighbours that just do not."""
    t, needed = using.n_subsets, using.threshold + using.test.bound
    # g fits agree, the rest are far apart from all: the sum of friend counts is g^2 + t - g
    g = next(g for g in range(t + 1) if g * g + t - g >= needed)
    if g * g + t - g - 2 * (g - 1) >= needed:
        raise AssertionError("one fit does not move the sum across the threshold")
    x = np.zeros(t)
    x[g:] = 100.0 + 10.0 * np.arange(t - g)
    x_neighbour = x.copy()
    x_neighbour[0] = -100.0
    return x, x_neighbour


def targets() -> list[Specimen]:
    """Mask and test under the exact accounting, the mask under the paper's, a learner with a memory, four faults."""
    exact, paper = constants(), constants("paper")
    claim, inf = (EPSILON, DELTA), math.inf
    sound, no_noise = mechanism(exact), mechanism(silent(exact))
    as_printed, unrounded = mechanism(paper), mechanism(exact, release_unrounded)
    pair, tests = first_fit_moved(exact), test_pair(exact)
    paper_tests = test_pair(paper)
    loose = dataclasses.replace(exact, friend_radius=1 / 3, mask_radius=1.0)  # the proof of Theorem 6.2, as printed
    far = first_fit_moved(loose)
    calm = np.zeros(exact.n_subsets)
    alarm = calm.copy()
    alarm[0] = 2 * LARGE
    apart, together = (
        Prepared(functools.partial(remembered_fits, using=exact, fitted=fitted), sound.sample)
        for fitted in (fit_subsets, fits_here)
    )
    true = float(gaussian_epsilon(DELTA, noise_multiplier=NOISE / far[1][0]))
    return [
        Specimen("populous_single_release", MODULE, sound, *pair, *claim, 1.0, False, 3_000),
        at_bits("populous_single_bits", MODULE, sound, *pair, *claim, 1.0, False, 3_000),
        Specimen("populous_single_test", MODULE, sound, *tests, *claim, 1.0, False, 3_000),
        Specimen("populous_paper_test", MODULE, as_printed, *paper_tests, *claim, 1.0, False, 2_000),
        at_bits("populous_paper_bits", MODULE, as_printed, *first_fit_moved(paper), *claim, 1.0, False, 2_000),
        Specimen("populous_learner_with_memory", "learners/subsets.py", apart, calm, alarm, *claim, 1.0, False, 1_000),
        Specimen(
            "populous_memory_in_one_process",
            "fault in learners/subsets.py",
            together,
            calm,
            alarm,
            *claim,
            inf,
            True,
            1_000,
        ),
        Specimen("populous_no_test_noise", FAULT, no_noise, *tests, *claim, inf, True, 2_000),
        Specimen("populous_radius_one", FAULT, mechanism(loose), *far, *claim, true, True, 1_000),
        at_bits("populous_unrounded_bits", FAULT, unrounded, *pair, *claim, inf, True, 2_000),
    ]
