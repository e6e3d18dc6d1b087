"""The whole path in five columns: a sketch release of set C, its noise-aware posterior by NUTS, 90 % intervals.

Set C is three components in five columns, 10,000 records (62 parameters). For each data set a truth is drawn around it;
``release.params(prior="weak")`` and ``release.observe`` make the model, and ``pm.sample`` its posterior. One line is
printed for each data set as it is done. Data set i of a seed is the same whatever else is run.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

import pm_dpgmm as dpg
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.fisher_information import fit_covariance
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.posterior_draws import posterior_of
from pm_dpgmm.release.release import Release
from verification.benchmarks.truths import separated
from verification.calibration.intervals import LEVEL, Row

FloatArray = NDArray[np.float64]

EPSILON, DELTA = 1.0, 1e-6
BOUNDS = (-16.0, 16.0)
N_RECORDS = 10_000
N_CHAINS, N_TUNE, N_DRAWS = 2, 200, 2000
# prior: standard deviations of offsets from set C, in the coordinates of ``offsets``
LOG_RATIO, SHIFT, LOG_SCALE, SLOPE = 0.3, 0.5, 0.25, 0.25
KINDS = ("weights", "means", "sds", "correlations")


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Draws of one data set's posterior in the order of the truth's components, and how the sampler fared."""

    weights: FloatArray  # (S, K)
    means: FloatArray  # (S, K, D)
    covariances: FloatArray  # (S, K, D, D)
    r_hat: float  # largest of all variables, not rounded
    effective: float  # least effective draws of all variables
    divergences: int
    seconds: float  # of model, compilation and sampling


def study(n_replications: int, *, seed: int) -> list[Row]:
    """One row for weights, means, standard deviations and correlations, each over all components and columns.

    "naive" takes the release for the fit of as many records without noise, normal with the sampling error of an
    efficient fit; the width is relative to that of such a fit.
    """
    covered: dict[str, list[FloatArray]] = {kind: [] for kind in KINDS}
    naive: dict[str, list[FloatArray]] = {kind: [] for kind in KINDS}
    ratios: dict[str, list[FloatArray]] = {kind: [] for kind in KINDS}
    for number in range(n_replications):
        rng = np.random.default_rng([seed, number])
        truth = drawn_truth(rng)
        release = released(truth, rng=rng)
        found = posterior(release, truth, random_seed=int(rng.integers(2**31)))
        drawn = quantities(found.weights, found.means, found.covariances)
        fits = fit_draws(aligned(release.mixture, truth), N_CHAINS * N_DRAWS, rng=rng)
        records = fit_draws(truth, N_CHAINS * N_DRAWS, rng=rng)
        actual = quantities(truth.weights[None], truth.means[None], truth.covariances[None])
        for kind in KINDS:
            covered[kind].append(_inside(actual[kind][0], drawn[kind]))
            naive[kind].append(_inside(actual[kind][0], fits[kind]))
            ratios[kind].append(_width(drawn[kind]) / _width(records[kind]))
        hits = ", ".join(f"{kind} {covered[kind][-1].sum():.0f} of {covered[kind][-1].size}" for kind in KINDS)
        print(
            f"# set {number}: {found.seconds:.0f} s, r_hat {found.r_hat:.4f}, {found.effective:.0f} effective draws,"
            f" {found.divergences} divergences; covered {hits}",
            file=sys.stderr,
            flush=True,
        )
    return [
        Row(
            study="sketch d=5 k=3 n=10000, NUTS",
            parameter=f"{kind} ({covered[kind][0].size})",
            n_replications=n_replications,
            coverage=float(np.mean(covered[kind])),
            naive=float(np.mean(naive[kind])),
            width=float(np.median(ratios[kind])),
        )
        for kind in KINDS
    ]


def drawn_truth(rng: np.random.Generator) -> Mixture:
    """Set C, moved by normal offsets: see :func:`prior_term`."""
    base = separated()
    k, d = base.means.shape
    frames = np.linalg.cholesky(base.covariances)
    weights = base.weights * np.exp(LOG_RATIO * np.append(rng.normal(size=k - 1), 0.0))
    means = base.means + (frames @ (SHIFT * rng.normal(size=(k, d, 1))))[..., 0]
    inner = np.tril(SLOPE * rng.normal(size=(k, d, d)), -1)
    inner[:, range(d), range(d)] = np.exp(LOG_SCALE * rng.normal(size=(k, d)))
    factors = frames @ inner
    return Mixture(weights / weights.sum(), means, factors @ factors.swapaxes(1, 2))


def released(truth: Mixture, *, rng: np.random.Generator) -> Release:
    """A release of records from ``truth``."""
    records = truth.sample(N_RECORDS, rng=rng)
    return dpg.fit_gmm(
        records,
        truth.n_components,
        epsilon=EPSILON,
        delta=DELTA,
        bounds=BOUNDS,
        random_seed=int(rng.integers(2**31)),
        progress=False,
    )


def aligned(mixture: Mixture, truth: Mixture) -> Mixture:
    """The components in the order of those of ``truth`` that are nearest."""
    return mixture.permuted(order_of(mixture, truth))


def order_of(mixture: Mixture, truth: Mixture) -> list[int]:
    """Places in ``mixture`` of the components of ``truth``."""
    distances = np.linalg.norm(truth.means[:, None] - mixture.means, axis=-1)
    return [int(place) for place in optimize.linear_sum_assignment(distances)[1]]


def posterior(release: Release, truth: Mixture, *, random_seed: int) -> Posterior:
    """Sample the noise-aware posterior of a release, with the prior that truths are drawn from."""
    import arviz as az
    import pymc as pm

    start = time.perf_counter()
    order = order_of(release.mixture, truth)
    base = separated().permuted([order.index(place) for place in range(len(order))])
    with pm.Model(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS")
        th = release.params("g", prior="weak")
        release.observe(th)
        # the weak prior gives way to the one of the truths: coordinates about two mixtures differ by constant factors
        pm.Potential("prior", prior_term(th, base, deviations(*base.means.shape)))
        pm.Potential("weak", -prior_term(th, th.anchor.mixture, np.sqrt(np.diag(th.anchor.covariance))))
        found = pm.sample(
            N_DRAWS,
            tune=N_TUNE,
            chains=N_CHAINS,
            cores=1,
            init="adapt_diag",
            random_seed=random_seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    kept = posterior_of(found)
    draws = {name: np.concatenate(kept[f"g_{name}"].values) for name in KINDS[:2]}
    covariances = np.concatenate(kept["g_covariances"].values)
    return Posterior(
        draws["weights"][:, order],
        draws["means"][:, order],
        covariances[:, order],
        r_hat=float(max(value.max() for value in az.rhat(kept).data_vars.values())),
        effective=float(min(value.min() for value in az.ess(kept).data_vars.values())),
        divergences=int(found["sample_stats"]["diverging"].sum()),
        seconds=time.perf_counter() - start,
    )


def deviations(k: int, d: int) -> FloatArray:
    """Of the offsets of :func:`drawn_truth` (P,): log weight ratios, means, factors row by row."""
    return Coordinates(k, d, "ratios").filled(LOG_RATIO, SHIFT, LOG_SCALE, SLOPE)


def prior_term(th: Any, base: Mixture, spread: FloatArray) -> Any:
    """Log density, up to a constant, of independent normal offsets from ``base``: those of ``drawn_truth``.

    Logarithms of weight ratios to the heaviest component, means in the frame L of their component, the factor T of
    covariance = L T T' L', diagonal entries as logarithms: the symbolic twin of ``Coordinates.of``.
    """
    import pytensor.tensor as pt

    k, d = base.means.shape
    heaviest = int(np.argmax(base.weights))
    ratios = pt.log(th.weights) - np.log(base.weights)
    ratios = (ratios - ratios[heaviest])[np.delete(np.arange(k), heaviest)]
    inverse = np.linalg.inv(np.linalg.cholesky(base.covariances))
    shifts = (inverse * (th.means - base.means)[:, None, :]).sum(axis=-1)
    inner = (inverse[:, :, :, None] * th.chol[:, None, :, :]).sum(axis=2)
    row, column = np.tril_indices(d)
    entries = inner[:, row, column]
    entries = pt.where(row == column, pt.log(pt.where(row == column, entries, 1.0)), entries)
    offsets = pt.concatenate([ratios, shifts.ravel(), entries.ravel()])
    return -0.5 * pt.sum(pt.sqr(offsets / spread))


def quantities(weights: FloatArray, means: FloatArray, covariances: FloatArray) -> dict[str, FloatArray]:
    """What is counted, by kind, each (S, number)."""
    sds = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    row, column = np.tril_indices(means.shape[-1], -1)
    correlations = covariances[..., row, column] / (sds[..., row] * sds[..., column])
    found = (weights, means, sds, correlations)
    return {kind: values.reshape(len(weights), -1) for kind, values in zip(KINDS, found, strict=True)}


def fit_draws(centre: Mixture, n_draws: int, *, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Draws of the quantities from the law of an efficient fit to the records about ``centre``."""
    values, vectors = np.linalg.eigh(fit_covariance(centre, N_RECORDS))
    errors = rng.normal(size=(n_draws, len(values))) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    _, means, factors = Coordinates.about(centre, "shares").at(errors)
    return quantities(centre.weights + errors[:, : centre.n_components], means, factors @ np.swapaxes(factors, -1, -2))


def _ends(draws: FloatArray) -> FloatArray:
    return np.asarray(np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0))


def _inside(actual: FloatArray, draws: FloatArray) -> FloatArray:
    low, high = _ends(draws)
    return ((low <= actual) & (actual <= high)).astype(float)


def _width(draws: FloatArray) -> FloatArray:
    low, high = _ends(draws)
    return np.asarray(high - low)
