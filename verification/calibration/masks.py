"""Coverage of posteriors from masked mixtures: one masked fit (populous-single) and the masked average (populous).

The naive posterior takes the released mixture for the fit of all records. Both use large-sample laws where no noise is
involved: a posterior from 1e5 records by simulation would cost more than it tells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import pm_dpgmm as dpg
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.mechanisms.masks import MaskNoise, mask_mixture
from pm_dpgmm.methods.populous.mask_law import MaskedMixture, log_density, masked_mixture, stacked
from pm_dpgmm.methods.populous_single.method import valid_mixture
from pm_dpgmm.mixture.mixture import Mixture
from verification.calibration import separated
from verification.calibration.ensemble import sample
from verification.calibration.intervals import Row, rows

FloatArray = NDArray[np.float64]

SUBSET_RECORDS, MASK_NOISE = 1_000, 0.1  # of the simulated single fit; real ones have some 1e6 records and 0.05
POPULOUS_RECORDS = {1: 80_000, 2: 200_000}  # the method answers from about 7e4 in one column, 1.4e5 in two
EPSILON, DELTA = 1.0, 1e-6
N_WALKERS = {1: 24, 2: 48}
N_STEPS, N_WARMUP = 2_000, 1_000
N_DIRECT = 2_000  # draws of the posteriors that need no Markov chain


def single(n_replications: int, *, d: int, seed: int) -> list[Row]:
    """The mask of method "populous-single", on a real fit to ``SUBSET_RECORDS`` records."""
    rng = np.random.default_rng(seed)
    thetas = separated.draw((n_replications,), d, rng=rng)
    records = [separated.mixture(theta, d).sample(SUBSET_RECORDS, rng=rng) for theta in thetas]
    edges = np.arange(n_replications + 1) * SUBSET_RECORDS
    fits = BatchedEM().fit_all(
        np.concatenate(records), edges, 2, seeds=range(n_replications), n_threads=1, progress=lambda *_: None
    )
    noise = MaskNoise(MASK_NOISE, MASK_NOISE, MASK_NOISE)
    law = {"weight": noise.weight, "mean": noise.mean, "covariance": noise.covariance}
    releases = []
    for weights, means, covariances in zip(fits.weights, fits.means, fits.covariances, strict=True):
        raw = mask_mixture(Mixture(weights, means, covariances), noise=noise, rng=rng)
        found, order = separated.ordered(valid_mixture(raw, noise))
        raw = {name: values[order] for name, values in raw.items()}
        releases.append((found, masked_mixture(raw, law, found, subset_records=SUBSET_RECORDS)))
    return _study(f"masks-d{d}", thetas, releases, SUBSET_RECORDS, rng=rng)


def average(n_replications: int, *, d: int, seed: int) -> list[Row]:
    """Real releases of method "populous"; data sets that it refuses are replaced, as the law is given a pass."""
    rng = np.random.default_rng(seed)
    n = POPULOUS_RECORDS[d]
    thetas: list[FloatArray] = []
    releases: list[tuple[Mixture, MaskedMixture]] = []
    while len(thetas) < n_replications:
        theta = separated.draw((), d, rng=rng)
        records = separated.mixture(theta, d).sample(n, rng=rng)
        noise_seed = int(rng.integers(2**31))
        try:
            release = dpg.fit_gmm(records, 2, epsilon=EPSILON, delta=DELTA, method="populous", random_seed=noise_seed)
        except dpg.Unstable:
            continue
        found, order = separated.ordered(release.mixture)
        raw = {name: values[order] for name, values in release.raw.items()}
        law = release.noise
        masked = masked_mixture(raw, law, found, subset_records=law["subset_records"], averaged=law["n_subsets"])
        thetas.append(theta)
        releases.append((found, masked))
    return _study(f"lifted-d{d}", np.array(thetas), releases, n, rng=rng)


def _study(
    name: str,
    thetas: FloatArray,
    releases: list[tuple[Mixture, MaskedMixture]],
    n_records: int,
    *,
    rng: np.random.Generator,
    form: str = "exact",
) -> list[Row]:
    n_replications, d = len(thetas), releases[0][0].n_features
    masked = stacked([item for _, item in releases])

    def log_posterior(theta: FloatArray) -> FloatArray:
        value = separated.log_prior(theta, d) + log_density(masked, *separated.unpack(theta, d), form=form)
        return np.where(np.isfinite(value), value, -np.inf)

    start = separated.draw((n_replications, N_WALKERS[d]), d, rng=rng)
    found = sample(log_posterior, start, n_steps=N_STEPS, n_warmup=N_WARMUP, rng=rng)
    truths = [separated.mixture(theta, d) for theta in thetas]
    direct = {
        "naive": [separated.around(centre, n_records, N_DIRECT, rng=rng) for centre, _ in releases],
        "records": [separated.around(truth, n_records, N_DIRECT, rng=rng) for truth in truths],
    }
    draws = {"aware": separated.readable(*separated.unpack(found.values, d))}
    draws |= {key: np.array(values) for key, values in direct.items()}
    return rows(name, separated.NAMES[d], separated.readable(*separated.unpack(thetas, d)), draws)


def masks_d1(n_replications: int, *, seed: int) -> list[Row]:
    """One masked fit, one column."""
    return single(n_replications, d=1, seed=seed)


def masks_d2(n_replications: int, *, seed: int) -> list[Row]:
    """One masked fit, two columns."""
    return single(n_replications, d=2, seed=seed)


def lifted_d1(n_replications: int, *, seed: int) -> list[Row]:
    """Masked average, one column."""
    return average(n_replications, d=1, seed=seed)


def lifted_d2(n_replications: int, *, seed: int) -> list[Row]:
    """Masked average, two columns."""
    return average(n_replications, d=2, seed=seed)
