"""Fit a Gaussian mixture to noisy counts on a regular grid, knowing the noise. Post-processing: no record is seen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture import LOG_2PI, Mixture
from pm_dpgmm.noise import IntArray

N_STARTS = 12
MAX_STEPS = 300
START_SEED = 20231  # public: starting points are post-processing, and a fixed seed makes a release reproducible
CELL_VARIANCE = 1 / 12  # of a uniform point in a cell, in cells squared (Sheppard)
SMALLEST_SD = 0.01  # of a component, in cells: nothing that narrow can be seen
LOG_RATES = (-3.0, 40.0)  # range of the logarithm of a component's expected count


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
    """Fit a mixture to noisy counts by the likelihood that knows the noise.

    Count c of the cell at x is taken as N(m, m + 2 b^2), where m = sum over k of rate_k N(x; mean_k, covariance_k +
    I/12) in units of a cell, m is also the variance of a Poisson count and 2 b^2 that of the Laplace noise. Every cell
    counts, empty ones included, so nothing is cut and no bias comes from cutting. The rates are free: the number of
    records is not used. L-BFGS with the exact gradient, the best of several public starts.

    Parameters
    ----------
    counts : ndarray of int, shape (n_cells,) * D
        Noisy counts; any integers.
    bounds : ndarray, shape (D, 2)
        Public bounds, in the unit of the records.
    n_components : int
        Components to fit.
    noise_scale : float
        Scale b of the Laplace noise in the counts.
    progress : callable
        Called with (starts done, starts in all).

    Returns
    -------
    Mixture
        In the unit of the records; a function of the arguments alone.
    """
    d, n_cells = counts.ndim, counts.shape[0]
    width = (bounds[:, 1] - bounds[:, 0]) / n_cells
    # everything below is in units of a cell, so that no unit of the data reaches the limits
    grid = _Grid(
        centres=cell_centres(np.array([[0.0, n_cells]] * d), n_cells),
        heights=counts.ravel().astype(float),
        noise_variance=2 * noise_scale**2,
        n_components=n_components,
    )
    limits = _limits(n_components, d, n_cells)
    rng = np.random.default_rng(START_SEED)
    fits = []
    for done in range(N_STARTS):
        start = np.clip(_start(grid, noise_scale, rng), *limits)
        fit = optimize.minimize(
            grid.loss, start, jac=True, method="L-BFGS-B", bounds=list(zip(*limits, strict=True)),
            options={"maxiter": MAX_STEPS},
        )  # fmt: skip
        fits.append((float(fit.fun), fit.x))
        progress(done + 1, N_STARTS)
    rates, means, factors = grid.unpack(min(fits, key=lambda fit: fit[0])[1])
    weights = np.maximum(rates / rates.sum(), 1e-6)
    # a component narrower than a cell is not resolved; its variance is kept at that of a cell
    covariances = factors @ np.swapaxes(factors, 1, 2) + np.eye(d) * CELL_VARIANCE
    scaled = covariances * (width[:, None] * width)
    return Mixture(weights / weights.sum(), means * width + bounds[:, 0], (scaled + np.swapaxes(scaled, 1, 2)) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Noisy counts in units of a cell, and their likelihood."""

    centres: FloatArray  # (M, D)
    heights: FloatArray  # (M,)
    noise_variance: float
    n_components: int

    def unpack(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rates (K,), means (K, D) and lower factors (K, D, D) from the flat vector; diagonals are logarithms."""
        k, d = self.n_components, self.centres.shape[1]
        rows, columns = np.tril_indices(d)
        entries = x[k + k * d :].reshape(k, -1)
        factors = np.zeros((k, d, d))
        factors[:, rows, columns] = np.where(rows == columns, np.exp(np.where(rows == columns, entries, 0.0)), entries)
        return np.exp(x[:k]), x[k : k + k * d].reshape(k, d), factors

    def loss(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Negative log-likelihood, up to a constant, and its gradient."""
        rates, means, factors = self.unpack(x)
        d = means.shape[1]
        # the cell blurs a component by its own variance, and I/12 more keeps the narrowest ones on the grid
        covariances = factors @ np.swapaxes(factors, 1, 2) + np.eye(d) * 2 * CELL_VARIANCE
        precisions = np.linalg.inv(covariances)
        log_determinants = np.linalg.slogdet(covariances)[1]
        offsets = self.centres - means[:, None, :]  # (K, M, D)
        pulls = offsets @ precisions
        exponents = -0.5 * ((pulls * offsets).sum(axis=2) + log_determinants[:, None] + d * LOG_2PI)
        parts = np.exp(exponents) * rates[:, None]
        expected = parts.sum(axis=0)
        variance = expected + self.noise_variance
        residual = self.heights - expected
        value = 0.5 * float((residual**2 / variance + np.log(variance)).sum())
        # derivative by the expected count of each cell, then by each parameter
        slope = (-residual - 0.5 * residual**2 / variance + 0.5) / variance
        weighted = slope * parts
        by_rate = weighted.sum(axis=1)
        by_mean = np.einsum("km,kmd->kd", weighted, pulls)
        by_covariance = 0.5 * (
            np.einsum("km,kmd,kme->kde", weighted, pulls, pulls) - by_rate[:, None, None] * precisions
        )
        rows, columns = np.tril_indices(d)
        by_factor = 2 * (by_covariance @ factors)[:, rows, columns]
        by_factor = np.where(rows == columns, by_factor * factors[:, rows, columns], by_factor)
        return value, np.concatenate([by_rate, by_mean.ravel(), by_factor.ravel()])


def _limits(n_components: int, d: int, n_cells: int) -> tuple[FloatArray, FloatArray]:
    """Lower and upper limits of the flat vector: means on the grid, deviations up to its width."""
    rows, columns = np.tril_indices(d)
    low = np.where(rows == columns, math.log(SMALLEST_SD), -n_cells)
    high = np.where(rows == columns, math.log(n_cells), n_cells)
    parts = [(LOG_RATES[0], 0.0, low), (LOG_RATES[1], float(n_cells), high)]
    lower, upper = (
        np.concatenate([np.full(n_components, rate), np.full(n_components * d, mean), np.tile(entry, n_components)])
        for rate, mean, entry in parts
    )
    return lower, upper


def _start(grid: _Grid, noise_scale: float, rng: np.random.Generator) -> FloatArray:
    """A random start on cells that stand out of the noise: k-means++ seeds (Arthur and Vassilvitskii 2007).

    An empty cell exceeds b ln(m/8) with probability below 4/m, so about four of m empty cells stand out.
    """
    k, d = grid.n_components, grid.centres.shape[1]
    heights = grid.heights
    kept = heights > noise_scale * math.log(max(2.0, heights.size / 8))
    if kept.sum() < 2 * k:
        kept = np.argsort(np.argsort(-heights)) < 2 * k
    points, mass = grid.centres[kept], np.maximum(heights[kept], 1e-3)
    mass = mass / mass.sum()
    chosen = [int(rng.choice(len(points), p=mass))]
    while len(chosen) < k:
        gaps = ((points[:, None, :] - points[chosen]) ** 2).sum(axis=2).min(axis=1) * mass
        chosen.append(int(rng.choice(len(points), p=gaps / gaps.sum() if gaps.sum() > 0 else mass)))
    centred = points - mass @ points
    spread = ((centred.T * mass) @ centred + np.eye(d) / 4) / k ** (2 / d)
    rows, columns = np.tril_indices(d)
    factor = np.linalg.cholesky(spread)[rows, columns]
    entries = np.where(rows == columns, np.log(np.where(rows == columns, factor, 1.0)), factor)
    rate = math.log(max(float(heights[kept].sum()), 10.0 * k) / k)
    return np.concatenate([np.full(k, rate), points[chosen].ravel(), np.tile(entries, k)])
