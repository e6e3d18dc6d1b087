"""Coverage where records are rounded: of ``release.observe`` and of ``release.draws``, which standard errors are from.

Resolutions are drawn for every data set, as so many values to a standard deviation of 1. "naive" is the posterior given
the same numbers that takes the values for what they were before they were rounded; it is no worse where rounding adds
less than sampling and noise leave open.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import partial

import numpy as np

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.law import PlugInCovariance, SketchLaw, plug_in_covariance
from verification.calibration import separated
from verification.calibration.importance import FloatArray, sample_weighted
from verification.calibration.intervals import Row, rows
from verification.calibration.replicated import Replication, replicated
from verification.calibration.sketch import BOUNDS, DELTA, EPSILON, N_DRAWS, plug_in_log_densities

N_ERRORS = 400  # draws of the normal law about a release


def one_column(n_replications: int, *, seed: int) -> list[Row]:
    """2,000 records, 3 to 30 values to a deviation."""
    return study(n_replications, n_records=2_000, d=1, values=(3.0, 30.0), seed=seed)


def one_coarse_column(n_replications: int, *, seed: int) -> list[Row]:
    """20,000 records, a half to 3 values to a deviation."""
    return study(n_replications, n_records=20_000, d=1, values=(0.5, 3.0), seed=seed)


def two_columns(n_replications: int, *, seed: int) -> list[Row]:
    """2,000 records, 3 to 30 values to a deviation of either column."""
    return study(n_replications, n_records=2_000, d=2, values=(3.0, 30.0), seed=seed)


def study(n_replications: int, *, n_records: int, d: int, values: tuple[float, float], seed: int) -> list[Row]:
    """Rows of the evidence, then rows of the normal law; "records" are those before they are rounded."""
    one = partial(replication, seed=seed, n_records=n_records, d=d, values=values)
    found = replicated(one, n_replications)
    least = min(each.effective for each in found)
    words = f"# {n_replications} posteriors of {N_DRAWS} draws, worth at least {least:.0f} independent ones"
    print(words, file=sys.stderr, flush=True)
    truths = np.array([each.truth for each in found])
    draws = {name: np.array([each.draws[name] for each in found]) for name in found[0].draws}
    label = f"rounded d={d} n={n_records}"
    by_error = {"aware": draws["errors"], "naive": draws["naive"], "records": draws["records"]}
    return [
        *rows(f"{label} observe", separated.NAMES[d], truths, draws),
        *rows(f"{label} errors", separated.NAMES[d], truths, by_error),
    ]


def replication(number: int, *, seed: int, n_records: int, d: int, values: tuple[float, float]) -> Replication:
    """Draw parameters, records and resolutions, release, and draw from the posteriors."""
    rng = np.random.default_rng([seed, n_records, d, number])
    theta = separated.draw((), d, rng=rng)
    truth = separated.mixture(theta, d)
    resolution = 1 / np.exp(rng.uniform(*np.log(values), size=d))
    release = simulated(truth, n_records, resolution, rng=rng)
    law = SketchLaw.of(release)
    plug_in = plug_in_covariance(law, release.mixture)
    kept, effective = {}, math.inf
    for name, assumed in (("aware", law), ("naive", replace(law, rounded=None))):
        found = sample_weighted(
            partial(log_posterior, law=assumed, plug_in=plug_in),
            np.zeros(theta.size),
            separated.scales(d),
            n_draws=N_DRAWS,
            rng=rng,
        )
        kept[name] = separated.readable(*separated.unpack(found.draws, d))
        effective = min(effective, found.effective)
    order = separated.ordered(release.mixture)[1]
    drawn = release.draws(N_ERRORS, random_seed=rng)
    weights, means, covariances = (
        np.array([getattr(one, part)[order] for one in drawn]) for part in ("weights", "means", "covariances")
    )
    kept["errors"] = separated.readable(weights, means, np.linalg.cholesky(covariances))
    kept["records"] = separated.around(truth, n_records, N_DRAWS, rng=rng)
    return Replication(separated.readable(*separated.unpack(theta, d)), kept, effective)


def simulated(truth: dpg.Mixture, n_records: int, resolution: FloatArray, *, rng: np.random.Generator) -> dpg.Release:
    """A release of rounded records from ``truth``, with the noise of a seed."""
    records = np.rint(truth.sample(n_records, rng=rng) / resolution) * resolution
    return dpg.fit_gmm(
        records,
        truth.n_components,
        epsilon=EPSILON,
        delta=DELTA,
        bounds=BOUNDS,
        resolution=resolution,
        random_seed=int(rng.integers(2**31)),
        progress=False,
    )


def log_posterior(theta: FloatArray, law: SketchLaw, plug_in: PlugInCovariance) -> FloatArray:
    """Log density of parameters (W, P) given a release, up to a constant, shape (W,)."""
    d = len(law.centre)
    parts = separated.unpack(theta, d)
    evidence = plug_in_log_densities(law, plug_in, *parts)
    return np.asarray(separated.log_prior(theta, d) + evidence)
