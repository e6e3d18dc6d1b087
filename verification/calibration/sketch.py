"""Coverage of noise-aware posteriors from sketch releases: as ``fit_gmm`` makes them, in one column and in two.

The evidence is that of ``release.observe``: the covariance at the parameters for the 32 numbers of one column, held at
the release for the 2,560 of two. Posteriors by importance sampling; the study names end with the number of records.
"""

from __future__ import annotations

import sys

import numba
import numpy as np

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.law import EXACT_UP_TO, PlugInCovariance, SketchLaw, plug_in_covariance
from pm_dpgmm.mixture.characteristic import add_component, finish_covariance
from pm_dpgmm.release.release import Release
from verification.calibration import separated
from verification.calibration.importance import FloatArray, LogDensity, sample_weighted
from verification.calibration.intervals import Row, rows

EPSILON, DELTA = 1.0, 1e-6
BOUNDS = (-9.0, 9.0)  # four standard deviations and more beyond the means
N_DRAWS = 2000
BLOCK = 500  # points at a time: bounds the memory
NEAR = 128  # of thousands of numbers each: a few megabytes


def one_column(n_replications: int, *, seed: int) -> list[Row]:
    """1,000 records."""
    return study(n_replications, n_records=1_000, d=1, seed=seed)


def one_column_of_many(n_replications: int, *, seed: int) -> list[Row]:
    """10,000 records."""
    return study(n_replications, n_records=10_000, d=1, seed=seed)


def two_columns(n_replications: int, *, seed: int) -> list[Row]:
    """2,000 records."""
    return study(n_replications, n_records=2_000, d=2, seed=seed)


def study(n_replications: int, *, n_records: int, d: int, seed: int) -> list[Row]:
    """One row per parameter; how many independent draws the worst posterior is worth goes to standard error.

    "naive" takes the release for the fit of as many records without noise; "records" has the records.
    """
    truths, effective = [], []
    kept: dict[str, list[FloatArray]] = {"aware": [], "naive": [], "records": []}
    for number in range(n_replications):
        rng = np.random.default_rng([seed, n_records, d, number])
        theta = separated.draw((), d, rng=rng)
        truth = separated.mixture(theta, d)
        release = simulated(truth, n_records, rng=rng)
        found = sample_weighted(
            log_posterior(release), np.zeros(theta.size), separated.scales(d), n_draws=N_DRAWS, rng=rng
        )
        truths.append(separated.readable(*separated.unpack(theta, d)))
        kept["aware"].append(separated.readable(*separated.unpack(found.draws, d)))
        for name, centre in (("naive", separated.ordered(release.mixture)[0]), ("records", truth)):
            kept[name].append(separated.around(centre, n_records, N_DRAWS, rng=rng))
        effective.append(found.effective)
    words = f"# {n_replications} posteriors of {N_DRAWS} draws, worth at least {min(effective):.0f} independent ones"
    print(words, file=sys.stderr, flush=True)
    draws = {name: np.array(values) for name, values in kept.items()}
    return rows(f"sketch d={d} n={n_records}", separated.NAMES[d], np.array(truths), draws)


def simulated(truth: dpg.Mixture, n_records: int, *, rng: np.random.Generator) -> Release:
    """A release of records from ``truth``, by the path that users take but with the noise of a seed."""
    records = truth.sample(n_records, rng=rng)
    return dpg.fit_gmm(
        records,
        truth.n_components,
        epsilon=EPSILON,
        delta=DELTA,
        bounds=BOUNDS,
        random_seed=int(rng.integers(2**31)),
        progress=False,
    )


def log_posterior(release: Release) -> LogDensity:
    """Log density of parameters (W, P) of the separated prior given a release, up to a constant, shape (W,)."""
    law, d = SketchLaw.of(release), release.n_features
    plug_in = None if law.values.size <= EXACT_UP_TO else plug_in_covariance(law, release.mixture)

    def log_density(theta: FloatArray) -> FloatArray:
        parts = separated.unpack(theta, d)
        if plug_in is None:
            evidence = exact_log_densities(law, *parts)
        else:
            blocks = [slice(start, start + BLOCK) for start in range(0, len(theta), BLOCK)]
            found = [plug_in_log_densities(law, plug_in, *(part[block] for part in parts)) for block in blocks]
            evidence = np.concatenate(found)
        return np.asarray(separated.log_prior(theta, d) + evidence)

    return log_density


def exact_log_densities(law: SketchLaw, weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
    """:meth:`SketchLaw.log_density` of many mixtures (W, K), (W, K, 1), (W, K, 1, 1) of one column, shape (W,).

    Of a release with a public number of records.
    """
    assert not law.n_records_scale
    frequencies, deviations = law.frequencies[:, 0].copy(), factors[:, :, 0, 0].copy()
    share = 0.0
    if law.background is not None:  # one more component, of a weight that is known up to itself
        share, broad = law.background
        one = np.ones((len(weights), 1))
        weights = np.hstack([(1 - share) * weights, share * one])
        means = np.hstack([means, broad.means[0, 0] * one[:, :, None]])
        deviations = np.hstack([deviations, np.sqrt(broad.covariances[0, 0, 0]) * one])
    return _exact(
        frequencies,
        law.amplitudes,
        law.n_records,
        law.deviations,
        law.values,
        weights,
        means[:, :, 0] - law.centre[0],
        deviations,
        share / (1 - share),
        law.fixed,
    )


@numba.njit(cache=True)
def _exact(
    frequencies: FloatArray,
    amplitudes: FloatArray,
    n_records: float,
    noise: FloatArray,
    values: FloatArray,
    weights: FloatArray,
    means: FloatArray,
    deviations: FloatArray,
    odds: float,
    fixed: FloatArray,
) -> FloatArray:
    size = 2 * len(frequencies)
    found, both = np.empty(len(weights)), np.concatenate((amplitudes, amplitudes))
    for point in range(len(weights)):
        covariance, mean = np.zeros((size, size)), np.zeros(size)
        for w, m, s in zip(weights[point], means[point], deviations[point]):  # noqa: B905 - numba knows no strict
            projected = s * frequencies
            c, sine = np.cos(m * frequencies), np.sin(m * frequencies)
            add_component(covariance, 0.5 * w, np.outer(projected, projected), c, sine)
            mean += w * np.concatenate((c, sine)) * np.exp(-0.5 * np.concatenate((projected, projected)) ** 2)
        finish_covariance(covariance, mean, both)
        covariance *= n_records
        by_weight = odds * n_records * both * (fixed - mean)
        covariance += np.outer(by_weight, by_weight)
        for i in range(size):
            covariance[i, i] += noise[i] ** 2
        root = np.linalg.cholesky(covariance)
        z, total = values - n_records * both * mean, -0.5 * size * np.log(2 * np.pi)
        for i in range(size):
            for j in range(i):
                z[i] -= root[i, j] * z[j]
            z[i] /= root[i, i]
            total -= 0.5 * z[i] ** 2 + np.log(root[i, i])
        found[point] = total
    return found


def plug_in_log_densities(
    law: SketchLaw, plug_in: PlugInCovariance, weights: FloatArray, means: FloatArray, factors: FloatArray
) -> FloatArray:
    """Of many mixtures (W, K), (W, K, D), (W, K, D, D), shape (W,), in blocks that stay near the processor."""
    blocks = (slice(start, start + NEAR) for start in range(0, len(weights), NEAR))
    return np.concatenate([_plug_in(law, plug_in, weights[one], means[one], factors[one]) for one in blocks])


def _plug_in(
    law: SketchLaw, plug_in: PlugInCovariance, weights: FloatArray, means: FloatArray, factors: FloatArray
) -> FloatArray:
    if law.rounded is None:
        own = waves(law, law.frequencies, weights, means, factors)
    else:
        n_terms = law.rounded.n_terms(0.7 * factors.reshape(-1, *factors.shape[-2:]))
        terms = zip(law.rounded.frequencies[:n_terms], law.rounded.coefficients[:n_terms], strict=True)
        own = np.sum([np.tile(scale, 2) * waves(law, term, weights, means, factors) for term, scale in terms], axis=0)
    expected = law.gain * (law.share * own + (1 - law.share) * law.fixed)
    return plug_in.log_density(law.values - expected)


def waves(
    law: SketchLaw, frequencies: FloatArray, weights: FloatArray, means: FloatArray, factors: FloatArray
) -> FloatArray:
    """Characteristic functions of mixtures, cosines then sines, shape (W, 2 m)."""
    lead = weights.shape
    phases = (means - law.centre).reshape(-1, means.shape[-1]) @ frequencies.T
    projected = np.swapaxes(factors, -1, -2).reshape(-1, means.shape[-1]) @ frequencies.T
    squares = np.square(projected).reshape(*lead, means.shape[-1], -1).sum(axis=2)
    damping = weights[..., None] * np.exp(-0.5 * squares)
    phases = phases.reshape(*lead, -1)
    return np.concatenate([(damping * np.cos(phases)).sum(axis=1), (damping * np.sin(phases)).sum(axis=1)], axis=1)
