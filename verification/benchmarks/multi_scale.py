"""Do fits to columns of many scales go wrong without a word?

``python -m verification.benchmarks.multi_scale --first 0 --count 200`` draws mixtures of 2 to 4 components in one to
three columns, weights of at least 5 %, whose deviations and means lie on up to twelve orders of magnitude, fits each
once at epsilon 1 and delta 1e-6 to 10,000 or 100,000 records, and prints one line of JSON for each and a summary at
the end. Three of four have no bounds, the fourth has bounds that hold everything.

A silent failure is a total variation between the released density and the truth above 0.2 without a warning: neither
did the method refuse nor is there a text in ``release.warnings``. A false alarm is a warning at a total variation
below 0.1.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from pm_dpgmm import FitWarning, Mixture, Release, Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from verification.benchmarks.seeds import seed_parser

EPSILON, DELTA = 1.0, 1e-6
N_FEATURES, N_COMPONENTS, N_RECORDS = (1, 2, 3), (2, 3, 4), (10_000, 100_000)
LEAST_WEIGHT, ORDERS = 0.05, 12.0  # of magnitude
BOUNDED, REACH, WIDER = 4, 5.0, 1.5  # one of so many has bounds: so many deviations, so many times as wide
LARGE, SMALL = 0.2, 0.1  # total variation that must not go without a warning, and that should not carry one
N_POINTS = 4_000
PARAMETERS, ROWS, POINTS = range(3)  # streams of one seed


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One random problem."""

    seed: int
    truth: Mixture
    orders: float
    n_records: int
    bounds: FloatArray | None

    def rows(self) -> FloatArray:
        """The records, the same at every call."""
        return self.truth.sample(self.n_records, rng=np.random.default_rng([self.seed, ROWS]))

    def variation(self, release: Release) -> float:
        """Total variation between the released density and the truth, of standard error below 0.008."""
        points = self.truth.sample(N_POINTS, rng=np.random.default_rng([self.seed, POINTS]))
        gaps = release.density.log_density(points) - self.truth.log_density(points)
        return float(-np.expm1(np.minimum(gaps, 0.0)).mean())


@dataclass(frozen=True, slots=True)
class Result:
    """One line of output."""

    seed: int
    n_records: int
    n_features: int
    n_components: int
    orders: float
    bounded: bool
    refused: bool
    variation: float | None
    warnings: tuple[str, ...]

    @property
    def silent(self) -> bool:
        """Whether it is wrong without a word."""
        return self.variation is not None and self.variation > LARGE and not self.warnings

    @property
    def false_alarm(self) -> bool:
        """Whether it is right and warns."""
        return self.variation is not None and self.variation < SMALL and bool(self.warnings)


def instance(seed: int) -> Instance:
    """The random problem with this number; every column has scales of its own."""
    rng = np.random.default_rng([seed, PARAMETERS])
    d, k, n = int(rng.choice(N_FEATURES)), int(rng.choice(N_COMPONENTS)), int(rng.choice(N_RECORDS))
    orders = float(rng.uniform(0, ORDERS))
    weights = rng.dirichlet(np.full(k, 2.0))
    while weights.min() < LEAST_WEIGHT:
        weights = rng.dirichlet(np.full(k, 2.0))
    deviations = 10 ** rng.uniform(-orders / 2, orders / 2, size=(k, d))
    if rng.random() < 1 / 3:  # one scale for all deviations of a column: only the means are far apart
        deviations[:] = deviations[:1]
    lengths = 10 ** rng.uniform(-orders / 2, orders / 2, size=(k, d))
    means = rng.normal(size=(k, d)) * np.where(rng.random((k, d)) < 0.5, lengths, 3 * deviations)
    angle = rng.normal(size=(k, d, d))
    correlations = angle @ angle.swapaxes(1, 2) / d + np.eye(d)
    diagonal = np.sqrt(np.diagonal(correlations, axis1=1, axis2=2))
    scale = deviations / diagonal
    truth = Mixture(weights, means, scale[:, :, None] * correlations * scale[:, None, :])
    bounds = None
    if seed % BOUNDED == 0:
        low, high = (means - REACH * deviations).min(axis=0), (means + REACH * deviations).max(axis=0)
        margin = (WIDER - 1) / 2 * (high - low)
        bounds = np.column_stack([low - margin, high + margin])
    return Instance(seed, truth, orders, n, bounds)


def fit(problem: Instance, method: str = "auto") -> Release | None:
    """The private fit, None if the method refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        try:
            return fit_gmm(
                problem.rows(),
                problem.truth.n_components,
                epsilon=EPSILON,
                delta=DELTA,
                bounds=problem.bounds,
                method=method,
                random_seed=problem.seed,
                progress=False,
            )
        except Unstable:
            return None


def result(seed: int, method: str = "auto") -> Result:
    """Draw, fit and score one problem."""
    problem = instance(seed)
    release, truth = fit(problem, method), problem.truth
    return Result(
        seed,
        problem.n_records,
        truth.n_features,
        truth.n_components,
        round(problem.orders, 2),
        problem.bounds is not None,
        release is None,
        None if release is None else round(problem.variation(release), 4),
        () if release is None else release.warnings,
    )


def summary(results: Iterable[Result]) -> dict[str, object]:
    """Counts, and the seeds of what went wrong."""
    every = list(results)
    found = [one for one in every if one.variation is not None]
    right = [one for one in found if one.variation < SMALL]  # type: ignore[operator]
    wrong = [one for one in found if one.variation > LARGE]  # type: ignore[operator]
    return {
        "instances": len(every),
        "refused": sum(one.refused for one in every),
        "wrong": len(wrong),
        "wrong_with_a_warning": sum(bool(one.warnings) for one in wrong),
        "silent_failures": [one.seed for one in every if one.silent],
        "right": len(right),
        "false_alarms": [one.seed for one in every if one.false_alarm],
    }


def main(arguments: list[str] | None = None) -> int:
    """Print one line for each instance and the summary; exit status 1 when there are silent failures."""
    parser = seed_parser(
        "Private fits to columns of many scales: are wrong ones silent?",
        count=200,
        counted="number of instances (default 200)",
    )
    options = parser.parse_args(arguments)
    results = []
    for seed in range(options.first, options.first + options.count):
        results.append(result(seed))
        print(json.dumps(asdict(results[-1])), flush=True)
    print(json.dumps({"summary": summary(results)}, indent=1))
    return int(any(one.silent for one in results))


if __name__ == "__main__":
    sys.exit(main())
