"""Runs of DP-EM and of noisy k-means: without privacy, with the printed noise, and with one joint release a step.

Printed noise: Laplace or Gaussian on weights and means, one-sided Gamma or Wishart noise on second moments, all scales
by the counts. The sound twin releases all sums of a step at once, with Gaussian noise for the sensitivity sqrt(9/2) of
the vector with counts times 1/2 and products off the diagonal times sqrt(2) (``mechanisms/moments.md``); the sound
k-means is a setting of method "em". Simulated, nothing here is a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray

SENSITIVITY = math.sqrt(4.5)
LEAST_SHARE, LEAST_WEIGHT = 0.01, 1e-3  # of the records, for a component's count; of a printed weight


@dataclass(frozen=True, slots=True)
class Noise:
    """Of one step. ``each``: printed, the epsilon' of one release; ``scale``: sound, of the joint vector; none: 0."""

    each: float = 0.0
    scale: float = 0.0


def expectation(rows: FloatArray, law: Mixture) -> FloatArray:
    """Log of weight times density, (N, K)."""
    return np.log(law.weights) + law.component_log_densities(rows)


def em_run(
    rows: FloatArray,
    start: Mixture,
    noise: Noise,
    *,
    n_steps: int,
    isotropic: bool,
    floor: float,
    rng: np.random.Generator,
) -> Mixture:
    """The mixture after ``n_steps``; rows lie in the unit ball, eigenvalues of covariances are at least ``floor``."""
    law, squares = start, np.square(rows).sum(axis=1)
    for _ in range(n_steps):
        logs = _isotropic_logs(rows, squares, law) if isotropic else expectation(rows, law)
        parts = special.softmax(logs, axis=1)
        counts, sums = parts.sum(axis=0) + 1e-9, parts.T @ rows
        if isotropic:
            second = parts.T @ squares
            law = _round_step(counts, sums, second, len(rows), noise, floor, rng)
        else:
            moments = np.stack([(rows * part[:, None]).T @ rows for part in parts.T])
            law = _full_step(counts, sums, moments, len(rows), noise, floor, rng)
    return law


def _isotropic_logs(rows: FloatArray, squares: FloatArray, law: Mixture) -> FloatArray:
    """Round components: no whitening of every row."""
    d, variances = rows.shape[1], law.covariances[:, 0, 0]
    distances = squares[:, None] - 2 * rows @ law.means.T + np.square(law.means).sum(axis=1)
    return np.log(law.weights) - d / 2 * np.log(variances) - distances / (2 * variances)


def _round_step(
    counts: FloatArray,
    sums: FloatArray,
    second: FloatArray,
    n: int,
    noise: Noise,
    floor: float,
    rng: np.random.Generator,
) -> Mixture:
    k, d = sums.shape
    if noise.scale:
        counts = np.maximum(counts + rng.normal(scale=2 * noise.scale, size=k), LEAST_SHARE * n)
        means = _in_ball((sums + rng.normal(scale=noise.scale, size=(k, d))) / counts[:, None])
        second = second + rng.normal(scale=noise.scale, size=k)
        least = np.maximum(floor, noise.scale / counts / d)
    else:
        counts, means = _printed_counts_and_means(counts, sums, n, noise, rng)
        gamma = rng.exponential(1 / (noise.each * d * counts)) if noise.each else 0.0
        second, least = second + gamma * d * counts, np.full(k, floor)
    variances = (second / counts - np.square(means).sum(axis=1)) / d
    return Mixture(counts / counts.sum(), means, np.maximum(variances, least)[:, None, None] * np.eye(d))


def _full_step(
    counts: FloatArray,
    sums: FloatArray,
    moments: FloatArray,
    n: int,
    noise: Noise,
    floor: float,
    rng: np.random.Generator,
) -> Mixture:
    k, d = sums.shape
    least = np.full(k, floor)
    if noise.scale:
        counts = np.maximum(counts + rng.normal(scale=2 * noise.scale, size=k), LEAST_SHARE * n)
        means = _in_ball((sums + rng.normal(scale=noise.scale, size=(k, d))) / counts[:, None])
        errors = rng.normal(scale=noise.scale / math.sqrt(2), size=(k, d, d))
        errors = np.triu(errors, 1) + np.triu(errors, 1).swapaxes(1, 2)
        errors[:, np.arange(d), np.arange(d)] = rng.normal(scale=noise.scale, size=(k, d))
        least = np.maximum(floor, noise.scale * math.sqrt(d) / counts)  # size of the noise: below it nothing is known
    else:
        counts, means = _printed_counts_and_means(counts, sums, n, noise, rng)
        errors = np.zeros((k, d, d))
        if noise.each:
            factors = rng.standard_normal((k, d, d + 1)) / np.sqrt(2 * noise.each)
            errors = factors @ factors.swapaxes(1, 2)  # Wishart of scale 1/(2 epsilon' count), times the count
    second = (moments + errors) / counts[:, None, None] - means[:, :, None] * means[:, None]
    return Mixture(counts / counts.sum(), means, floored(second, least))


def _printed_counts_and_means(
    counts: FloatArray, sums: FloatArray, n: int, noise: Noise, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Noisy weights times N, clipped and normalised, and means divided by and scaled to these counts."""
    if not noise.each:
        return counts, sums / counts[:, None]
    k, d = sums.shape
    weights = np.clip(counts / n + rng.laplace(scale=2 / (n * noise.each), size=k), LEAST_WEIGHT, 1)
    released = n * weights / weights.sum()
    scale = 2 * math.sqrt(d) / (noise.each * released)
    return released, _in_ball(sums / released[:, None] + rng.laplace(size=(k, d)) * scale[:, None])


def _in_ball(means: FloatArray) -> FloatArray:
    return np.asarray(means / np.maximum(1, np.linalg.norm(means, axis=1))[:, None])


def floored(covariances: FloatArray, least: FloatArray) -> FloatArray:
    """Symmetric, with eigenvalues from ``least`` (K,) to 1."""
    values, axes = np.linalg.eigh((covariances + covariances.swapaxes(1, 2)) / 2)
    values = np.clip(values, np.minimum(least, 1.0)[:, None], 1.0)
    found = (axes * values[:, None]) @ axes.swapaxes(1, 2)
    return np.asarray((found + found.swapaxes(1, 2)) / 2)


# ---------------------------------------------------------------------- k-means
@dataclass(frozen=True, slots=True)
class LloydNoise:
    """Of one step of k-means; all 0: none.

    ``laplace``: scale on counts and sums (DPLloyd). ``each``: epsilon' of a mean, noise by its true count, as printed.
    """

    laplace: float = 0.0
    each: float = 0.0


def lloyd_run(
    rows: FloatArray, start: FloatArray, noise: LloydNoise, *, n_steps: int, rng: np.random.Generator
) -> float:
    """Mean squared distance to the nearest centre (NICV) after ``n_steps``; rows lie in the unit ball."""
    centres, (k, d) = start, start.shape
    for _ in range(n_steps):
        labels = nearest(rows, centres).argmin(axis=1)
        counts = np.bincount(labels, minlength=k).astype(float)
        sums = np.stack([np.bincount(labels, weights=column, minlength=k) for column in rows.T], axis=1)
        empty = counts == 0
        if noise.each:
            means = sums / np.maximum(counts, 1)[:, None]
            scale = 2 * math.sqrt(d) / (noise.each * np.maximum(counts, 1))
            moved = means + rng.laplace(size=(k, d)) * scale[:, None]
        else:
            if noise.laplace:
                counts = counts + rng.laplace(scale=noise.laplace, size=k)
                sums = sums + rng.laplace(scale=noise.laplace, size=(k, d))
            moved = sums / np.maximum(counts, 1.0)[:, None]
            if not noise.laplace:
                moved = np.where(empty[:, None], centres, moved)
        centres = np.clip(moved, -1, 1)
    return mean_squared_distance(rows, centres)


def mean_squared_distance(rows: FloatArray, centres: FloatArray) -> float:
    """To the nearest centre (NICV)."""
    return float((nearest(rows, centres).min(axis=1) + np.square(rows).sum(axis=1)).mean())


def nearest(rows: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distances less the squared norms of the rows, (N, K)."""
    return np.asarray(np.square(centres).sum(axis=1) - 2 * rows @ centres.T)
