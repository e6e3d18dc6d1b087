"""Coverage of posteriors from noisy histogram counts, as ``observe`` has them: beside a background of the release.

The naive posterior takes the released mixture for the fit of all records; the one from the records is that of large
samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

import pm_dpgmm as dpg
from pm_dpgmm.methods.counts.background import LEAST_SHARE, REACH, TYPICAL
from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.counts.histogram_law import NoisyGrid, log_density, log_noise_height
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.far_rows import as_wide_as
from pm_dpgmm.mixture.mixture import Mixture
from verification.calibration import separated
from verification.calibration.ensemble import sample
from verification.calibration.intervals import Row, rows

FloatArray = NDArray[np.float64]

N_RECORDS, EPSILON = 500, 1.0
BOUNDS = {1: [(-8.0, 8.0)], 2: [(-8.0, 8.0), (-5.0, 5.0)]}
N_CELLS = {1: 40, 2: 10}
N_NODES = 4  # of the quadrature in two columns: cells are about a standard deviation wide
N_WALKERS = {1: 24, 2: 28}
N_STEPS, N_WARMUP = {1: 1_000, 2: 450}, {1: 300, 2: 200}
NEAR = 0.3  # spread of the walkers' starts around the released mixture, in standard deviations of the prior
N_DIRECT = 2_000
N_FAR, FAR = 10_000, 0.06  # records, and share of them that is uniform within the bounds
LEAST, STEP = 1e-6, 0.02  # of the table of the likelihood: expected counts, and steps of their logarithm


def study(
    n_replications: int, *, d: int, seed: int, n_records: int = N_RECORDS, far: float = 0.0, name: str = "histogram"
) -> list[Row]:
    """Real releases of method "histogram" at epsilon 1, replace-one neighbours; a share ``far`` of rows is uniform."""
    rng = np.random.default_rng(seed)
    bounds = np.array(BOUNDS[d])
    thetas = separated.draw((n_replications,), d, rng=rng)
    grids, centres = [], []
    for theta in thetas:
        records = separated.mixture(theta, d).sample(n_records, rng=rng)
        out = rng.random(n_records) < far
        records[out] = rng.uniform(*bounds.T, size=(out.sum(), d))
        method: Any = HistogramMethod(N_CELLS[d])
        release = dpg.fit_gmm(
            records, 2, epsilon=EPSILON, method=method, bounds=BOUNDS[d], random_seed=int(rng.integers(2**31))
        )
        grids.append(release)
        centres.append(separated.ordered(release.mixture)[0])
    grid = NoisyGrid(
        np.array([release.raw["counts"].ravel() for release in grids])[:, None],
        bounds,
        N_CELLS[d],
        float(grids[0].noise["scale"]),
        n_records,
    )
    log_count = TabulatedCounts(grid.counts, grid.noise_scale)

    broad = as_wide_as(bounds, REACH)
    wide = cell_probabilities(grid.edges, broad.weights, broad.means, np.linalg.cholesky(broad.covariances))
    has_one = np.array([[release.background is not None] for release in grids])
    p = separated.n_parameters(d)

    def log_posterior(theta: FloatArray) -> FloatArray:
        own, (log_odds, of_shape) = theta[..., :p], np.moveaxis(theta[..., p:], -1, 0)
        odds, flat = np.exp(log_odds), special.expit(of_shape)
        probabilities = cell_probabilities(grid.edges, *separated.unpack(own, d), n_nodes=N_NODES)
        share = np.where(has_one, odds / (1 + odds), 0.0)[..., None]
        shapes = (1 - flat)[..., None] * wide + flat[..., None] / wide.size
        counted = log_density(grid, (1 - share) * probabilities + share * shapes, log_count=log_count)
        # exponential odds by their logarithm, and the uniform law of the shape by its log odds
        open_ones = log_odds - odds / TYPICAL + np.log(np.maximum(flat * (1 - flat), 1e-300))
        value = separated.log_prior(own, d) + counted + open_ones
        return np.where(np.isfinite(value), value, -np.inf)

    scales = separated.scales(d)
    middle = np.clip([separated.pack(centre) for centre in centres], -2 * scales, 2 * scales)
    start = middle[:, None] + NEAR * separated.draw((n_replications, N_WALKERS[d]), d, rng=rng)
    shares = np.array([max(release.background_weight, LEAST_SHARE) for release in grids])
    open_starts = rng.normal(size=(n_replications, N_WALKERS[d], 2))
    open_starts[..., 0] += special.logit(shares)[:, None]
    start = np.concatenate([start, open_starts], axis=-1)
    found = sample(log_posterior, start, n_steps=N_STEPS[d], n_warmup=N_WARMUP[d], rng=rng, thin=5)

    def direct(mixtures: list[Mixture]) -> FloatArray:
        return np.array([separated.around(item, n_records, N_DIRECT, rng=rng) for item in mixtures])

    draws = {
        "aware": separated.readable(*separated.unpack(found.values[..., :p], d)),
        "naive": direct(centres),
        "records": direct([separated.mixture(theta, d) for theta in thetas]),
    }
    truths = separated.readable(*separated.unpack(thetas, d))
    return rows(f"{name}-d{d}", separated.NAMES[d], truths, draws)


class TabulatedCounts:
    """``numpy_log_count`` by cubic interpolation in the logarithm of the expected count, error below 1e-4.

    A study evaluates the same counts some 1e9 times.
    """

    def __init__(self, counts: FloatArray, noise_scale: float) -> None:
        self.least = counts.min() - 2  # the law of the total asks for counts one and two lower
        values = np.arange(self.least, counts.max() + 1)
        most = 4 * max(float(counts.sum(axis=-1).max()), 10.0)
        self.low = np.log(LEAST)
        self.size = int((np.log(most) - self.low) / STEP) + 2
        expected = np.exp(self.low + STEP * np.arange(self.size))
        grid = np.broadcast_arrays(values[:, None], expected)
        heights, slopes = count_log_likelihood(*grid, noise_scale=noise_scale)
        self.heights = (heights + log_noise_height(noise_scale)).ravel()
        self.slopes = (slopes * expected * STEP).ravel()

    def __call__(self, counts: Any, expected: Any, noise_scale: float) -> FloatArray:
        place = (np.log(np.maximum(expected, LEAST)) - self.low) / STEP
        cell = np.minimum(place.astype(np.int64), self.size - 2)
        t = np.clip(place - cell, 0.0, 1.0)
        first = (counts - self.least).astype(np.int64) * self.size + cell
        left, right = self.heights[first], self.heights[first + 1]
        rise = right - left
        a, b = self.slopes[first] - rise, rise - self.slopes[first + 1]
        return np.asarray(left + t * rise + t * (1 - t) * ((1 - t) * a + t * b))


def histogram_d1(n_replications: int, *, seed: int) -> list[Row]:
    """One column."""
    return study(n_replications, d=1, seed=seed)


def histogram_d2(n_replications: int, *, seed: int) -> list[Row]:
    """Two columns."""
    return study(n_replications, d=2, seed=seed)


def histogram_far(n_replications: int, *, seed: int) -> list[Row]:
    """One column of 10,000 records, 6 % of which lie anywhere within the bounds."""
    return study(n_replications, d=1, seed=seed, n_records=N_FAR, far=FAR, name="histogram-far")
