"""From how many records on is ``method="aggregate"`` as good as "populous", and does it keep what a learner means?

``python -m verification.benchmarks.aggregate_release [sizes learners vectors]``

Epsilon 1, delta 1e-6, no bounds, noise without a seed; every run has another mixture a million deviations from 0,
columns in units from 1e-3 to 1e3. Errors are the largest over components, medians [worst] over the runs.

- sizes: compiled EM where components are 4, 8 and 2 deviations apart; the goals are the errors of "populous" at its
  sizes. "covered" is the share of the parameters in the intervals of 90 % that the release states.
- learners: others, on clean and on contaminated records (one in twenty uniform over thirty deviations), beside the same
  learner on all records without privacy, and beside the sketch with the whole budget.
- vectors: medians and a regression line beside the same without privacy.

Exit status 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from pm_dpgmm import Mixture, Release, VectorLearner, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.fit_arrays import BoolArray
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.planning.trials import _component_errors, public_mixture
from verification.benchmarks.aggregate_learners import TMixture, TrimmedEM
from verification.benchmarks.populous_runs import DELTA, EPSILON, OFFSET, units
from verification.benchmarks.seeds import at_least

REACH = 1.645  # deviations of an interval of 90 %


@dataclass(frozen=True, slots=True)
class Size:
    """A setting and the errors to reach: largest error of a mean, and of a log deviation."""

    n_features: int
    n_components: int
    separation: float
    n_records: int
    means: float
    log_deviations: float


SIZES = (
    Size(1, 2, 4.0, 5_000, 0.08, 0.05),
    Size(2, 3, 4.0, 25_000, 0.13, 0.10),
    Size(5, 3, 4.0, 45_000, 0.18, 0.16),
    Size(1, 2, 8.0, 2_500, 0.08, 0.05),
    Size(2, 3, 8.0, 12_500, 0.13, 0.10),
    Size(5, 3, 8.0, 22_500, 0.18, 0.16),
    Size(1, 2, 2.0, 60_000, 0.08, 0.05),
    Size(2, 3, 2.0, 100_000, 0.13, 0.10),
    Size(5, 3, 2.0, 150_000, 0.18, 0.16),
)


def truth_of(size: Size, index: int) -> Mixture:
    """The ``index``-th public mixture of this size, equal weights."""
    k = size.n_components
    rng = np.random.default_rng([20261123, size.n_features, k, int(size.separation), index])
    return public_mixture(size.n_features, k, separation=size.separation, weights=np.full(k, 1 / k), rng=rng)


def scaled(release: Mixture, unit: FloatArray) -> Mixture:
    """A released mixture in the deviations of the truth."""
    return Mixture(release.weights, release.means / unit - OFFSET, release.covariances / np.outer(unit, unit))


def in_intervals(release: Release, truth: Mixture, unit: FloatArray) -> BoolArray:
    """Which parameters of the truth are in the stated intervals, (P,)."""
    found = scaled(release.mixture, unit)
    whiteners = np.linalg.inv(np.linalg.cholesky(truth.covariances))
    shifts = np.einsum("kij,kmj->kmi", whiteners, found.means[None] - truth.means[:, None])
    places = np.argsort(linear_sum_assignment(np.linalg.norm(shifts, axis=2))[1])  # of found components in the truth
    factors = np.linalg.cholesky(truth.covariances[places])
    offsets = Coordinates.about(found).of(truth.weights[places], truth.means[places], factors)
    return np.asarray(np.abs(offsets) <= REACH * np.sqrt(np.diagonal(release.raw["offset_covariance"])))


def size_row(size: Size, n_runs: int) -> tuple[str, bool]:
    """A line of the table, and whether the goal is missed."""
    errors, covered, began = [], [], time.perf_counter()
    for index in range(n_runs):
        truth, unit = truth_of(size, index), units(size.n_features, index)
        records = (truth.sample(size.n_records, rng=np.random.default_rng([index, size.n_records])) + OFFSET) * unit
        release = fit_gmm(records, size.n_components, epsilon=EPSILON, delta=DELTA, method="aggregate", progress=False)
        errors.append(_component_errors(truth, scaled(release.mixture, unit))[1:])
        if "offset_covariance" in release.raw:
            covered.append(in_intervals(release, truth, unit))
    seconds = (time.perf_counter() - began) / n_runs
    (mean, log), (worst_mean, worst_log) = np.median(errors, axis=0), np.max(errors, axis=0)
    missed = bool(mean > size.means or log > size.log_deviations)
    return (
        f"{size.n_features:>7} {size.n_components:>10} {size.separation:>5g} {size.n_records:>8,}"
        f" {mean:>6.3f} [{worst_mean:.3f}] ({size.means:g}) {log:>6.3f} [{worst_log:.3f}] ({size.log_deviations:g})"
        f" {np.mean(covered):>7.3f} {seconds:>7.1f}{'  MISSED' if missed else ''}",
        missed,
    )


def sizes(n_runs: int) -> bool:
    """The table of sizes; whether a goal is missed."""
    print(
        f"{'columns':>7} {'components':>10} {'apart':>5} {'records':>8} {'mean [worst] (goal)':>22}"
        f" {'log sd [worst] (goal)':>22} {'covered':>7} {'seconds':>7}"
    )
    missed = False
    for size in SIZES:
        text, failed = size_row(size, n_runs)
        missed |= failed
        print(text, flush=True)
    return missed


def contaminated(truth: Mixture, n_records: int, share: float, rng: np.random.Generator) -> FloatArray:
    """Records of which a share is uniform over thirty deviations on each side."""
    records = truth.sample(n_records, rng=rng)
    bad = rng.random(n_records) < share
    records[bad] = rng.uniform(-30, 30, (int(bad.sum()), truth.n_features))
    return records


def learners(n_runs: int) -> bool:
    """Other learners beside themselves without privacy, and beside the sketch; no goal but the trimmed one's."""
    from sklearn.mixture import GaussianMixture

    from pm_dpgmm.bayes.starts.map_mixture import MapMixture

    truth = Mixture([0.4, 0.6], [[-2.0], [2.0]], [[[1.0]], [[1.0]]])
    cases: list[tuple[str, Any, float, int, int]] = [
        ("scikit-learn's mixture", GaussianMixture(2, n_init=2), 0.0, 5_000, n_runs),
        ("t mixture", TMixture(2), 0.0, 10_000, n_runs),
        ("PyMC MAP", MapMixture(2), 0.0, 5_000, max(1, n_runs // 7)),
        ("trimmed EM", TrimmedEM(2), 0.05, 10_000, n_runs),
        ("trimmed EM", TrimmedEM(2), 0.05, 20_000, n_runs),
        ("trimmed EM", TrimmedEM(2), 0.05, 40_000, n_runs),
    ]
    print(
        f"{'learner':<24} {'outliers':>8} {'records':>8} {'from itself':>18} {'itself':>14} {'in private':>14}"
        f" {'sketch':>14} {'warned':>6} {'seconds':>7}"
    )
    beaten = False
    for name, learner, share, n_records, runs in cases:
        found, warned, began = [], 0, time.perf_counter()
        for index in range(runs):
            records = contaminated(truth, n_records, share, np.random.default_rng([index, n_records])) * 3 + OFFSET
            own = _answer(learner, records, 2)
            release = fit_gmm(
                records, 2, epsilon=EPSILON, delta=DELTA, method="aggregate", learner=learner, n_jobs=2, progress=False
            )
            sketch = fit_gmm(records, 2, epsilon=EPSILON, delta=DELTA, progress=False)
            warned += bool(release.warnings)
            own, private, other = (
                Mixture(one.weights, (one.means - OFFSET) / 3, one.covariances / 9)
                for one in (own, release.mixture, sketch.mixture)
            )
            found.append(
                [
                    _component_errors(a, b)[1:]
                    for a, b in ((own, private), (truth, own), (truth, private), (truth, other))
                ]
            )
        values = np.median(found, axis=0)
        worst = np.max(found, axis=0)
        first = f"{values[0][0]:.3f}/{values[0][1]:.3f} [{worst[0][0]:.2f}]"
        others = " ".join(f"{mean:>7.3f}/{log:<6.3f}" for mean, log in values[1:])
        beaten |= name == "trimmed EM" and values[2].max() < values[3].max()
        seconds = (time.perf_counter() - began) / runs
        print(
            f"{name:<24} {share:>8g} {n_records:>8,} {first:>18} {others} {warned:>3} of {runs:<2} {seconds:>5.1f}",
            flush=True,
        )
    return not beaten


def _answer(learner: Any, records: FloatArray, n_components: int) -> Mixture:
    from pm_dpgmm.learners.subsets import fit_here

    found = fit_here(learner, records, n_components, 0)
    assert isinstance(found, Mixture)
    return found


def medians(rows: FloatArray) -> FloatArray:
    """Of every column."""
    return np.asarray(np.median(rows, axis=0))


def line(rows: FloatArray) -> FloatArray:
    """Slope and intercept of the second column by the first, least squares."""
    return np.asarray(np.polyfit(rows[:, 0], rows[:, 1], 1))


def vectors(n_runs: int) -> bool:
    """Answers that are no mixtures: error over that of the same function on all records, and coverage."""
    cases: list[tuple[str, Callable[[FloatArray], FloatArray], tuple[str, ...]]] = [
        ("medians", medians, ("first", "second")),
        ("line", line, ("slope", "intercept")),
    ]
    print(
        f"{'function':<10} {'records':>8} {'from itself, in its own standard errors':>40} {'covered':>8} {'seconds':>7}"
    )
    missed = False
    for (name, function, names), n_records in itertools.product(cases, (5_000, 20_000)):
        distances, covered, began = [], [], time.perf_counter()
        for index in range(n_runs):
            truth = Mixture([0.4, 0.6], [[0.0, 0.0], [4.0, 3.0]], [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.6], [0.6, 2.0]]])
            records = truth.sample(n_records, rng=np.random.default_rng([index, n_records]))
            learner = VectorLearner(function, names)
            release = fit_gmm(
                records, 2, epsilon=EPSILON, delta=DELTA, method="aggregate", learner=learner, n_jobs=2, progress=False
            )
            rng = np.random.default_rng(index)
            again = [function(records[rng.integers(n_records, size=n_records)]) for _ in range(200)]
            own, errors = function(records), np.std(again, axis=0)
            whole = function(truth.sample(2_000_000, rng=np.random.default_rng(1)))
            distances.append(np.abs(release.answer.values - own) / errors)
            low, high = release.answer.intervals(0.9).T
            covered.append((low <= whole) & (whole <= high))
        seconds = (time.perf_counter() - began) / n_runs
        middle, worst = np.median(distances), np.max(distances)
        print(
            f"{name:<10} {n_records:>8,} {f'{middle:.2f} [{worst:.2f}]':>40} {np.mean(covered):>8.3f} {seconds:>7.1f}",
            flush=True,
        )
    return missed


PARTS: dict[str, Callable[[int], bool]] = {"sizes": sizes, "learners": learners, "vectors": vectors}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"all by default: {', '.join(PARTS)}")
    parser.add_argument("--runs", type=at_least(1), default=20)
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - set(PARTS))
    if unknown:
        parser.error(f"PART must be among {', '.join(PARTS)}, got {', '.join(unknown)}")
    missed = [PARTS[name](arguments.runs) for name in arguments.parts or PARTS]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
