"""Coverage of posteriors from noisy histogram counts.

The naive posterior takes the released mixture for the fit of all records; the one from the records is that of large
samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import pm_dpgmm as dpg
from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.counts.histogram_law import NoisyGrid, log_density, log_noise_height
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture
from verification.calibration import separated
from verification.calibration.ensemble import sample
from verification.calibration.intervals import Row, rows

FloatArray = NDArray[np.float64]

N_RECORDS, EPSILON = 500, 1.0
BOUNDS = {1: [(-8.0, 8.0)], 2: [(-8.0, 8.0), (-5.0, 5.0)]}
N_CELLS = {1: 40, 2: 10}
N_NODES = 4  # of the quadrature in two columns: cells are about a standard deviation wide
N_WALKERS = 24
N_STEPS, N_WARMUP = {1: 1_000, 2: 450}, {1: 300, 2: 200}
NEAR = 0.3  # spread of the walkers' starts around the released mixture, in standard deviations of the prior
N_DIRECT = 2_000
LEAST, STEP = 1e-6, 0.02  # of the table of the likelihood: expected counts, and steps of their logarithm


def study(n_replications: int, *, d: int, seed: int) -> list[Row]:
    """Real releases of method "histogram" at epsilon 1, replace-one neighbours."""
    rng = np.random.default_rng(seed)
    thetas = separated.draw((n_replications,), d, rng=rng)
    grids, centres = [], []
    for theta in thetas:
        records = separated.mixture(theta, d).sample(N_RECORDS, rng=rng)
        method: Any = HistogramMethod(N_CELLS[d])
        release = dpg.fit_gmm(
            records, 2, epsilon=EPSILON, method=method, bounds=BOUNDS[d], random_seed=int(rng.integers(2**31))
        )
        grids.append(release)
        centres.append(separated.ordered(release.mixture)[0])
    grid = NoisyGrid(
        np.array([release.raw["counts"].ravel() for release in grids])[:, None],
        np.array(BOUNDS[d]),
        N_CELLS[d],
        float(grids[0].noise["scale"]),
        N_RECORDS,
    )
    log_count = TabulatedCounts(grid.counts, grid.noise_scale)

    def log_posterior(theta: FloatArray) -> FloatArray:
        probabilities = cell_probabilities(grid.edges, *separated.unpack(theta, d), n_nodes=N_NODES)
        value = separated.log_prior(theta, d) + log_density(grid, probabilities, log_count=log_count)
        return np.where(np.isfinite(value), value, -np.inf)

    scales = separated.scales(d)
    middle = np.clip([separated.pack(centre) for centre in centres], -2 * scales, 2 * scales)
    start = middle[:, None] + NEAR * separated.draw((n_replications, N_WALKERS), d, rng=rng)
    found = sample(log_posterior, start, n_steps=N_STEPS[d], n_warmup=N_WARMUP[d], rng=rng, thin=5)

    def direct(mixtures: list[Mixture]) -> FloatArray:
        return np.array([separated.around(item, N_RECORDS, N_DIRECT, rng=rng) for item in mixtures])

    draws = {
        "aware": separated.readable(*separated.unpack(found.values, d)),
        "naive": direct(centres),
        "records": direct([separated.mixture(theta, d) for theta in thetas]),
    }
    truths = separated.readable(*separated.unpack(thetas, d))
    return rows(f"histogram-d{d}", separated.NAMES[d], truths, draws)


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
