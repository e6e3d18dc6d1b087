"""Simulated data, runs and the law of the noise for benchmarks of the populous methods."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import Mixture, Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask, mixture_of_lifted
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous import method as populous
from pm_dpgmm.methods.populous.method import Constants, Populous
from pm_dpgmm.planning.trials import _component_errors, public_mixture
from pm_dpgmm.privacy.guarantee import Neighbouring

EPSILON, DELTA = 1.0, 1e-6
SEPARATION = 4.0  # of the nearest two components, in standard deviations
OFFSET, SMALLEST_UNIT, LARGEST_UNIT = 1e6, 1e-3, 1e3  # standard deviations; units of the columns
SURE = 0.99  # a level "needed" passes with this probability
N_DRAWS = 200  # of the noise, for every mixture

Weights = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One fit of simulated records; errors are NaN where the method refused."""

    released: bool
    level: int  # of the private test; known here because the records are simulated
    passes: float  # probability of a pass at this level
    weights: float  # largest error of a weight
    means: float  # largest error of a mean, in standard deviations of its component
    log_deviations: float  # largest error of a log standard deviation, over all directions
    seconds: float


def equal(n_components: int) -> Weights:
    """Equal weights."""
    return (1 / n_components,) * n_components


@functools.cache
def truth_of(n_features: int, weights: Weights, index: int) -> Mixture:
    """The ``index``-th public mixture of this size; ``weights`` go to components at random places."""
    rng = np.random.default_rng([20261121, n_features, len(weights), index])
    return public_mixture(n_features, len(weights), separation=SEPARATION, weights=np.array(weights), rng=rng)


def units(n_features: int, index: int) -> FloatArray:
    """Units of the columns, from ``SMALLEST_UNIT`` to ``LARGEST_UNIT``, in another order for every ``index``."""
    ladder = np.geomspace(SMALLEST_UNIT, LARGEST_UNIT, max(n_features, 2))
    return np.resize(np.roll(ladder, -index), n_features)


def constants_of(settings: Populous, n_records: int, n_features: int, n_components: int) -> Constants:
    """Public numbers of a run; ValueError where there is no design."""
    relation = Neighbouring.REPLACE_ONE
    return settings.constants(Problem(n_records, n_features, n_components, EPSILON, DELTA, None, relation))


def run_once(truth: Mixture, n_records: int, index: int, settings: Populous) -> Run:
    """Fit ``n_records`` records far from 0 in odd units; the noise is that of a release, without a seed."""
    k, d = truth.means.shape
    unit = units(d, index)
    records = (truth.sample(n_records, rng=np.random.default_rng([index, n_records])) + OFFSET) * unit
    table = constants_of(settings, n_records, d, k).table
    levels: list[int] = []

    def noted(*given: Any, **named: Any) -> int:
        levels.append(stability_level(*given, **named))
        return levels[-1]

    stability_level = populous.stability_level
    began = time.perf_counter()
    with mock.patch.object(populous, "stability_level", noted):
        try:
            release = fit_gmm(records, k, epsilon=EPSILON, delta=DELTA, method=settings, progress=False)
        except Unstable:
            errors = math.nan, math.nan, math.nan
        else:
            covariances = release.covariances / np.outer(unit, unit)
            found = Mixture(release.weights, release.means / unit - OFFSET, covariances)
            errors = _component_errors(truth, found)
    seconds = time.perf_counter() - began
    (level,) = levels
    return Run(not math.isnan(errors[0]), level, table.probability(level), *errors, seconds)


def noise_draws(truth: Mixture, eta: float, n_draws: int, rng: np.random.Generator) -> Iterator[Mixture]:
    """Releases whose average is the truth."""
    k = truth.n_components
    noise = LiftedMaskNoise.for_components(k, eta=eta)
    factors = np.asarray(np.linalg.cholesky(truth.covariances), dtype=float)
    for _ in range(n_draws):
        raw = lifted_mask(truth.weights, truth.means, factors, np.ones(k), noise=noise, rng=rng)
        yield mixture_of_lifted(raw, noise=noise)


def law_of_errors(truths: list[Mixture], eta: float) -> tuple[FloatArray, FloatArray]:
    """What the noise alone gives: median over the mixtures, and median of the worst of all; in the order of ``Run``."""
    rng = np.random.default_rng(20261122)
    errors = np.array(
        [[_component_errors(truth, draw) for draw in noise_draws(truth, eta, N_DRAWS, rng)] for truth in truths]
    )
    return np.median(errors, axis=(0, 1)), np.median(errors.max(axis=0), axis=0)
