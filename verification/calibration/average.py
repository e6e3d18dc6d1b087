"""Coverage of posteriors from averages of fits around a sketch (method "aggregate").

The naive posterior takes the released mixture for the fit of all records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import pm_dpgmm as dpg
from pm_dpgmm.mixture.coordinates import Coordinates
from verification.calibration import separated
from verification.calibration.ensemble import sample
from verification.calibration.intervals import Row, rows

FloatArray = NDArray[np.float64]

EPSILON, DELTA = 1.0, 1e-6
N_RECORDS = {1: 5_000, 2: 25_000}
N_WALKERS = {1: 24, 2: 48}
N_STEPS, N_WARMUP = 2_000, 1_000
N_DIRECT = 2_000  # draws of the posteriors that need no Markov chain


def one_column(n_replications: int, *, seed: int) -> list[Row]:
    """Two components of one column, 5,000 records."""
    return study("average-d1", n_replications, d=1, seed=seed)


def two_columns(n_replications: int, *, seed: int) -> list[Row]:
    """Two components of two columns, 25,000 records."""
    return study("average-d2", n_replications, d=2, seed=seed)


def study(name: str, n_replications: int, *, d: int, seed: int) -> list[Row]:
    """Real releases with the default learner, without bounds."""
    rng = np.random.default_rng(seed)
    thetas = separated.draw((n_replications,), d, rng=rng)
    truths = [separated.mixture(theta, d) for theta in thetas]
    n = N_RECORDS[d]
    releases = [
        dpg.fit_gmm(
            truth.sample(n, rng=rng), 2, epsilon=EPSILON, delta=DELTA, method="aggregate", progress=False,
            random_seed=int(rng.integers(2**31)),
        )
        for truth in truths
    ]  # fmt: skip
    ordered = [separated.ordered(release.mixture) for release in releases]
    places = [np.argsort(order) for _, order in ordered]  # of a release's components among those of the prior
    charts = [Coordinates.about(release.mixture) for release in releases]
    roots = [np.linalg.cholesky(release.raw["offset_covariance"]) for release in releases]
    whiteners = [np.linalg.solve(root, np.eye(len(root))) for root in roots]

    def log_posterior(theta: FloatArray) -> FloatArray:
        weights, means, factors = separated.unpack(theta, d)
        value = separated.log_prior(theta, d)
        for r, (chart, place, whitener) in enumerate(zip(charts, places, whiteners, strict=True)):
            offsets = chart.of(weights[r][:, place], means[r][:, place], factors[r][:, place])
            value[r] -= 0.5 * np.square(offsets @ whitener.T).sum(axis=-1)
        return np.where(np.isfinite(value), value, -np.inf)

    start = separated.draw((n_replications, N_WALKERS[d]), d, rng=rng)
    found = sample(log_posterior, start, n_steps=N_STEPS, n_warmup=N_WARMUP, rng=rng)
    draws = {
        "aware": separated.readable(*separated.unpack(found.values, d)),
        "naive": np.array([separated.around(centre, n, N_DIRECT, rng=rng) for centre, _ in ordered]),
        "records": np.array([separated.around(truth, n, N_DIRECT, rng=rng) for truth in truths]),
    }
    return rows(name, separated.NAMES[d], separated.readable(*separated.unpack(thetas, d)), draws)
