"""Do intervals from standard errors cover where there are too few records for the mixture?

``python -m verification.calibration.faint --count 30`` draws mixtures of three components in four columns, the nearest
two 4 deviations apart, fits each once at epsilon 1 and delta 1e-6 within bounds to 300 to 2,000 records, and prints
one line for each number of records: the share of true weights, means and standard deviations within 1.645 standard
errors of the released ones, components matched by the best permutation, and the median width of an interval of a mean
over that of the bounds. Most of these fits have components that are no cluster of the records: their intervals must be
so wide that they cover.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from pm_dpgmm import FitWarning, Mixture, Release, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.planning.trials import public_mixture
from verification.benchmarks.seeds import seed_parser

EPSILON, DELTA = 1.0, 1e-6
N_FEATURES, N_COMPONENTS, SEPARATION = 4, 3, 4.0
N_RECORDS = (300, 600, 1_000, 2_000)
REACH, WIDER = 4.0, 1.5  # bounds: so many deviations around all components, then so many times as wide
QUANTILE, LEVEL = 1.645, 0.9
LEAST = 0.9 - 0.03  # nominal less what 100 data sets let it differ: three standard errors of a rate per data set


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of true parameters that lie within their intervals."""

    n_records: int
    n_data_sets: int
    weights: float
    means: float
    standard_deviations: float
    width: float  # median, of the intervals of means over the bounds
    warned: float  # share of the fits

    def __str__(self) -> str:
        return (
            f"{self.n_records:>6} records, {self.n_data_sets} data sets: weights {self.weights:.3f}, means"
            f" {self.means:.3f}, deviations {self.standard_deviations:.3f}; width {self.width:.3f},"
            f" warned {self.warned:.2f}"
        )


def drawn(n_records: int, seed: int) -> tuple[Mixture, FloatArray, Release]:
    """Truth, bounds and release of one data set."""
    rng = np.random.default_rng([n_records, seed])
    weights = rng.dirichlet(np.full(N_COMPONENTS, 5.0))
    truth = public_mixture(N_FEATURES, N_COMPONENTS, separation=SEPARATION, weights=weights, rng=rng)
    deviations = REACH * np.sqrt(np.diagonal(truth.covariances, axis1=1, axis2=2))
    low, high = (truth.means - deviations).min(axis=0), (truth.means + deviations).max(axis=0)
    margin = (WIDER - 1) / 2 * (high - low)
    bounds = np.column_stack([low - margin, high + margin])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        release = fit_gmm(
            truth.sample(n_records, rng=rng),
            N_COMPONENTS,
            epsilon=EPSILON,
            delta=DELTA,
            bounds=bounds,
            random_seed=rng,
            progress=False,
        )
    return truth, bounds, release


def covered(truth: Mixture, release: Release) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Whether the intervals of weights, means and deviations hold the truth; the standard errors of the means."""
    errors = release.standard_errors()
    scale = np.sqrt(truth.covariance().diagonal())
    gaps = np.square((release.means[:, None] - truth.means) / scale).sum(axis=2)
    order = linear_sum_assignment(gaps.T)[1]  # component of the release for each of the truth
    true_deviations, deviations = (
        np.sqrt(np.diagonal(c, axis1=1, axis2=2)) for c in (truth.covariances, release.covariances)
    )
    pairs = (
        (truth.weights, release.weights, errors.weights),
        (truth.means, release.means, errors.means),
        (true_deviations, deviations, errors.standard_deviations),
    )
    held = [np.abs(true - found[order]) <= QUANTILE * error[order] for true, found, error in pairs]
    weights, means, spreads = (np.asarray(item, dtype=float) for item in held)
    return weights, means, spreads, errors.means


def coverage(n_records: int, count: int, first: int = 0) -> Coverage:
    """Over ``count`` data sets."""
    held: list[list[float]] = []
    for seed in range(first, first + count):
        truth, bounds, release = drawn(n_records, seed)
        *shares, errors = covered(truth, release)
        width = float(np.median(2 * QUANTILE * errors / (bounds[:, 1] - bounds[:, 0])))
        held.append([*(float(share.mean()) for share in shares), width, float(bool(release.warnings))])
    table = np.array(held, dtype=float)
    weights, means, deviations, _, warned = table.mean(axis=0).tolist()
    return Coverage(n_records, count, weights, means, deviations, float(np.median(table[:, 3])), warned)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; exit status 1 if an interval covers too seldom."""
    parser = seed_parser(
        "Coverage of standard errors with few records.",
        count=30,
        counted="data sets for each number of records (default 30)",
    )
    options = parser.parse_args(arguments)
    found = []
    for n_records in N_RECORDS:
        found.append(coverage(n_records, options.count, options.first))
        print(found[-1], flush=True)
    return int(any(min(one.weights, one.means, one.standard_deviations) < LEAST for one in found))


if __name__ == "__main__":
    sys.exit(main())
