"""EM for a Gaussian mixture on the counts of a regular grid. Post-processing: it sees noisy counts only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture import Mixture
from pm_dpgmm.noise import IntArray

N_STARTS = 12
MAX_STEPS = 300
TOLERANCE = 1e-8  # of the mean log-likelihood, per step
START_SEED = 20231  # public: starting points are post-processing, and a fixed seed makes a release reproducible


def cell_centres(bounds: FloatArray, n_cells: int) -> FloatArray:
    """Centres of the cells, shape (n_cells ** D, D), in the order of ``counts.ravel()``."""
    width = (bounds[:, 1] - bounds[:, 0]) / n_cells
    axes = [low + step * (np.arange(n_cells) + 0.5) for low, step in zip(bounds[:, 0], width, strict=True)]
    return np.array(list(itertools.product(*axes)))


def fit_counts(
    counts: IntArray,
    bounds: FloatArray,
    n_components: int,
    *,
    noise_scale: float,
    progress: Callable[[int, int], None],
) -> Mixture:
    """Fit a mixture to noisy counts.

    Cells below a threshold are noise and are dropped: with discrete Laplace noise of scale b an empty cell
    exceeds b ln(m / 8) with probability below 4/m, so about four of m empty cells survive. EM runs on the
    remaining counts from several starts; the cell's own variance (width^2 / 12, Sheppard) is taken off at the end.

    Parameters
    ----------
    counts : ndarray of int, shape (n_cells,) * D
        Noisy counts.
    bounds : ndarray, shape (D, 2)
        Public bounds.
    n_components : int
        Components to fit.
    noise_scale : float
        Scale of the Laplace noise in the counts.
    progress : callable
        Called with (starts done, starts in all).
    """
    d, n_cells = counts.ndim, counts.shape[0]
    width = (bounds[:, 1] - bounds[:, 0]) / n_cells
    # EM in units of a cell, so that no unit of the data reaches the floors
    centres = (cell_centres(bounds, n_cells) - bounds[:, 0]) / width
    heights = counts.ravel().astype(float)
    threshold = noise_scale * math.log(max(2.0, counts.size / 8))
    kept = heights > threshold
    if kept.sum() < 2 * n_components:
        kept = np.argsort(np.argsort(-heights)) < 2 * n_components
    points, mass = centres[kept], np.maximum(heights[kept], 1e-3)
    mass = mass / mass.sum()
    rng = np.random.default_rng(START_SEED)
    fits = []
    for start in range(N_STARTS):
        fits.append(_em(points, mass, n_components, rng))
        progress(start + 1, N_STARTS)
    _, (weights, means, covariances) = max(fits, key=lambda fit: fit[0])
    values, vectors = np.linalg.eigh(covariances - np.eye(d) / 12)
    covariances = (vectors * np.maximum(values, 1 / 12)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    weights = np.maximum(weights, 1e-6)
    scaled = covariances * (width[:, None] * width)
    return Mixture(weights / weights.sum(), means * width + bounds[:, 0], (scaled + np.swapaxes(scaled, 1, 2)) / 2)


def _em(
    points: FloatArray, mass: FloatArray, n_components: int, rng: np.random.Generator
) -> tuple[float, tuple[FloatArray, FloatArray, FloatArray]]:
    """EM on weighted points; returns the mean log-likelihood and the parameters."""
    d = points.shape[1]
    weights = np.full(n_components, 1 / n_components)
    means = _spread_start(points, mass, n_components, rng)
    centred = points - mass @ points
    overall = (centred.T * mass) @ centred
    covariances = np.repeat((overall / n_components ** (2 / d) + np.eye(d) / 4)[None], n_components, axis=0)
    previous = -math.inf
    for _ in range(MAX_STEPS):
        log_joint = _log_joint(points, weights, means, covariances)
        log_density = logsumexp(log_joint, axis=1)
        likelihood = float(mass @ log_density)
        if likelihood - previous < TOLERANCE:
            break
        previous = likelihood
        shares = np.exp(log_joint - log_density[:, None]) * mass[:, None]
        weights = shares.sum(axis=0) + 1e-10
        means = shares.T @ points / weights[:, None]
        offsets = points[:, None, :] - means
        covariances = np.einsum("nk,nki,nkj->kij", shares, offsets, offsets) / weights[:, None, None]
        covariances += np.eye(d) / 6  # a cell's own variance twice: nothing narrower can be seen
        weights = weights / weights.sum()
    return previous, (weights, means, covariances)


def _spread_start(points: FloatArray, mass: FloatArray, n_components: int, rng: np.random.Generator) -> FloatArray:
    """k-means++ seeding (Arthur and Vassilvitskii 2007) on weighted points."""
    chosen = [int(rng.choice(len(points), p=mass))]
    while len(chosen) < n_components:
        gaps = ((points[:, None, :] - points[chosen]) ** 2).sum(axis=2).min(axis=1) * mass
        total = gaps.sum()
        chosen.append(int(rng.choice(len(points), p=gaps / total if total > 0 else mass)))
    return points[chosen].copy()


def _log_joint(points: FloatArray, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
    factors = np.linalg.cholesky(covariances)
    offsets = np.swapaxes(points[None] - means[:, None], 1, 2)
    whitened = np.linalg.solve(factors, offsets)
    log_scale = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    constant = np.log(weights) - log_scale - 0.5 * points.shape[1] * math.log(2 * math.pi)
    return np.asarray((constant[:, None] - 0.5 * (whitened**2).sum(axis=1)).T)
