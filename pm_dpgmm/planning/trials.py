"""Parts of a plan: public mixtures, one simulated fit, and what the released numbers promise without a search."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from pm_dpgmm._arguments import FloatArray, shown
from pm_dpgmm.fit import fit_gmm
from pm_dpgmm.methods.outcome import TooFewRecords
from pm_dpgmm.methods.sketch.estimate import SketchFit, prior_about, sketch_data
from pm_dpgmm.methods.sketch.fit import error_root, moved
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.planning.result import Trial
from pm_dpgmm.privacy.guarantee import Unstable
from pm_dpgmm.privacy.simulated_fits import without_warnings_of_fits
from pm_dpgmm.records.feature_names import names_of_features
from pm_dpgmm.records.resolution import on_grid, read_resolution
from pm_dpgmm.release.release import Release

N_HELD_OUT = 20_000
DEVIATIONS = (0.7, 1.4)  # of the components along their axes
SPREAD = 1.5  # a component's nearest neighbour is at most about this many separations away
REACH, WIDER = 4.0, 2.0  # bounds: so many deviations around all components, then so many times as wide
N_DRAWS, N_PREDICTED = 40, 4_000  # of a prediction: parameters, points

NOT_OF_A_PLAN = {
    "X": "which simulates its records",
    "transform": "whose mixtures are those of transformed records",
    "ledger": "which spends nothing",
    "checkpoint": "whose fits are of simulated records",
}


def check_settings(settings: dict[str, Any]) -> None:
    """Raise ValueError for what a fit of real records has, and simulated fits must not charge, write or show."""
    for name, reason in NOT_OF_A_PLAN.items():
        if settings.get(name) is not None:
            raise ValueError(f"{name} must be left out of a plan, {reason}, got {shown(settings[name])}")


def public_mixture(
    n_features: int, n_components: int, *, separation: float, weights: FloatArray, rng: np.random.Generator
) -> Mixture:
    """Components with random axes, each near another one; the nearest two ``separation`` deviations apart."""
    covariances = np.empty((n_components, n_features, n_features))
    for k in range(n_components):
        axes = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
        covariances[k] = axes * np.square(rng.uniform(*DEVIATIONS, size=n_features)) @ axes.T
    covariances = (covariances + covariances.swapaxes(1, 2)) / 2
    means = np.zeros((1, n_features))  # in separations, whatever their size
    nearest = math.inf
    while len(means) < n_components:
        k, beside = len(means), int(rng.integers(len(means)))
        step = rng.standard_normal(n_features)
        length = _distances(step[None], covariances[k], covariances[beside])[0]
        candidate = means[beside] + step * (rng.uniform(1.0, SPREAD) / length)
        closest = float(_distances(candidate - means, covariances[k], covariances[:k]).min())
        if closest >= 1:
            means, nearest = np.vstack([means, candidate]), min(nearest, closest)
    if n_components > 1:
        means = means * (separation / nearest)
    return Mixture(weights, means, covariances)


class RefusedSize(ValueError):
    """A method takes no data set of so few records."""


def trial_of(
    truth: Mixture, n_records: int, bounds: bool, problem: dict[str, Any], rng: np.random.Generator
) -> tuple[Trial, Release | None]:
    """Fit records from ``truth`` once; the release is None where the method refused. ``problem``: for fit_gmm."""
    began = time.perf_counter()
    try:
        release = _fit(truth, n_records, bounds, problem, rng)
    except Unstable:
        return Trial(True, math.inf, math.inf, math.inf, math.inf, math.inf, None, time.perf_counter() - began), None
    except TooFewRecords as error:  # of simulated records, so X is no name that the caller knows
        raise RefusedSize(f"n_records must be at least {error.least}, got {error.n_records:,}") from None
    seconds = time.perf_counter() - began
    points = truth.sample(N_HELD_OUT, rng=rng)
    losses = truth.log_density(points) - release.log_density(points)
    variation = float(np.maximum(1 - np.exp(-losses), 0.0).mean())
    errors = _component_errors(truth, release.mixture)
    return Trial(False, float(losses.mean()), variation, *errors, release.noise.get("misfit"), seconds), release


def predicted_gap(data: SketchData, truth: Mixture, n_records: float) -> float:
    """Log-density per record that a fit of the truth to such sketches of ``n_records`` records loses on average.

    ``data`` gives frequencies and noise; no search is run. Mean over draws of the parameters about the truth.
    """
    there = ScaledMixture.about(truth, data.centre, data.unit)
    sized = replace(data, n_records=float(n_records), background=None)
    root = error_root(sized, there, prior_about(there))
    rng = np.random.default_rng(0)  # the same draws at every size: the result is monotone in it
    points = truth.sample(N_PREDICTED, rng=rng)
    level = truth.log_density(points)
    steps = rng.standard_normal((N_DRAWS, len(root))) @ root.T
    fits = [SketchFit(sized, moved(there, step), 0.0).mixture for step in steps]
    return float(np.mean([np.mean(level - fit.log_density(points)) for fit in fits]))


def released_data(release: Release) -> SketchData:
    """Frequencies and noise of a sketch release."""
    return sketch_data(SketchStatistics.from_arrays(release.raw, release.noise))


def _fit(truth: Mixture, n_records: int, bounds: bool, problem: dict[str, Any], rng: np.random.Generator) -> Release:
    deviations = REACH * np.sqrt(np.diagonal(truth.covariances, axis1=1, axis2=2))
    low, high = (truth.means - deviations).min(axis=0), (truth.means + deviations).max(axis=0)
    margin = (WIDER - 1) / 2 * (high - low)
    box = np.column_stack([low - margin, high + margin]) if bounds else None
    records = truth.sample(n_records, rng=rng)
    steps = read_resolution(problem.get("resolution"), names_of_features(None, records.shape[1]), box)
    if steps is not None:
        records = on_grid(records, steps)
    with without_warnings_of_fits():  # the plan itself says what such fits are worth
        return fit_gmm(records, truth.n_components, bounds=box, random_seed=rng, progress=False, **problem)


def _component_errors(truth: Mixture, fit: Mixture) -> tuple[float, float, float]:
    """Largest errors of weights, means and log deviations, in the deviations of the true components."""
    whiteners = np.linalg.inv(np.linalg.cholesky(truth.covariances))
    shifts = np.einsum("kij,kmj->kmi", whiteners, fit.means[None] - truth.means[:, None])
    distances = np.linalg.norm(shifts, axis=2)
    index = linear_sum_assignment(np.minimum(distances, 1e6))[1]
    relative = whiteners @ fit.covariances[index] @ whiteners.swapaxes(1, 2)
    logs = np.log(np.maximum(np.linalg.eigvalsh(relative), 1e-300)) / 2
    pairs = range(truth.n_components), index
    return (
        float(np.abs(fit.weights[index] - truth.weights).max()),
        float(distances[pairs].max()),
        float(abs(logs).max()),
    )


def _distances(differences: FloatArray, first: FloatArray, others: FloatArray) -> FloatArray:
    """Of rows (N, D), in the mean covariance of one component and another, or each of N others."""
    solved = np.linalg.solve((first + others) / 2, differences[:, :, None])[:, :, 0]
    return np.asarray(np.sqrt((differences * solved).sum(axis=1)))
