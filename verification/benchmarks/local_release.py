"""What does local privacy cost, in held-out log-density per record, and which randomiser is best for what?

``python -m verification.benchmarks.local_release [A B rounds randomisers]``

``fit_gmm(method="local")`` at epsilon 1 on the mixtures of sets A (three overlapping components in one column) and B
(three round clusters in two) of the accuracy benchmark, on three in three columns and on set C (three in five), with
the bounds of these sets. The gap is that to the best of three non-private fits by scikit-learn to the same rows; TV the
largest weight error or total variation of matched components. Medians [worst] over the data sets, and the loss that the
release itself expects. The goals are for ten data sets; exit status 1 when one is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture

from pm_dpgmm import FitWarning, Mixture, Release, fit_gmm
from pm_dpgmm._arguments import FloatArray
from verification.benchmarks import truths
from verification.benchmarks.accuracy_methods import distance
from verification.benchmarks.seeds import at_least

EPSILON, N_HELD_OUT, N_STARTS = 1.0, 20_000, 3


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a mixture, its bounds, a number of records, settings, and goals for median gap and TV."""

    name: str
    truth: Mixture
    bounds: tuple[float, float]
    n_records: int
    goal: float | None = None
    goal_tv: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def rows(names: Sequence[str]) -> list[Row]:
    """The tables asked for."""
    a, b, c = truths.overlapping_column(), truths.disc(), truths.separated()
    three = truths.trio()
    line, disc, box = (0.0, 80.0), (-1.0, 1.0), (-16.0, 16.0)
    two = {"rounds": 2}
    tables = {
        "A": [
            Row("A", a, line, 10_000, -0.05),
            Row("A", a, line, 30_000),
            Row("A", a, line, 100_000, -0.008, 0.10),
        ],
        "B": [Row("B", b, disc, 100_000, -0.06)],
        "rounds": [
            Row("A, 2 rounds", a, line, 100_000, settings=two),
            Row("B, 2 rounds", b, disc, 100_000, settings=two),
            Row("3 columns", three, (-10.0, 10.0), 100_000),
            Row("3 columns, 2 rounds", three, (-10.0, 10.0), 100_000, settings=two),
            Row("C", c, box, 100_000),
            Row("C, 2 rounds", c, box, 100_000, settings=two),
        ],
        "randomisers": [
            *(
                Row(f"A, {kind}", a, line, 100_000, settings={"randomiser": kind})
                for kind in ("optimised", "symmetric", "k-ary", "subset")
            ),
            Row("B, optimised", b, disc, 100_000, settings={"randomiser": "optimised"}),
        ],
    }
    return [row for name in names for row in tables[name]]


def ceiling(training: FloatArray, n_components: int) -> GaussianMixture:
    """The best non-private fit."""
    fits = [
        GaussianMixture(n_components, tol=1e-6, max_iter=1_000, random_state=seed, init_params="k-means++").fit(
            training
        )
        for seed in range(N_STARTS)
    ]
    return max(fits, key=lambda fit: float(fit.lower_bound_))


def scored(row: Row, repeat: int) -> tuple[float, float, float, float]:
    """Gap, TV, seconds and expected loss of one data set."""
    rng = np.random.default_rng([20261123, row.n_records, repeat])
    training, held_out = row.truth.sample(row.n_records, rng=rng), row.truth.sample(N_HELD_OUT, rng=rng)
    began = time.perf_counter()
    release: Release = fit_gmm(
        training,
        row.truth.n_components,
        epsilon=EPSILON,
        bounds=row.bounds,
        method="local",
        random_seed=repeat,
        progress=False,
        **row.settings,
    )
    seconds = time.perf_counter() - began
    gap = float(release.log_density(held_out).mean() - ceiling(training, row.truth.n_components).score(held_out))
    return gap, distance(row.truth, release.mixture), seconds, release.noise["expected_loss"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help="A, B, rounds, randomisers; A and B by default")
    parser.add_argument("--repeats", type=at_least(1), default=10)
    given = parser.parse_args()
    known = ("A", "B", "rounds", "randomisers")
    wanted = given.tables or ["A", "B"]
    if set(wanted) - set(known):
        parser.error(f"tables must be among {', '.join(known)}, got {', '.join(wanted)}")
    missed = False
    print(f"{'':20} {'records':>8} {'gap [worst] (goal)':>26} {'TV [worst]':>15} {'expected':>8} {'seconds':>7}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        for row in rows(wanted):
            gaps, tvs, seconds, losses = np.array([scored(row, repeat) for repeat in range(given.repeats)]).T
            failed = row.goal is not None and not np.median(gaps) >= row.goal
            failed |= row.goal_tv is not None and not np.median(tvs) <= row.goal_tv
            missed |= failed
            goal = "" if row.goal is None else f" ({row.goal:g})"
            print(
                f"{row.name:20} {row.n_records:>8,} {f'{np.median(gaps):.4f} [{gaps.min():.4f}]{goal}':>26}"
                f" {f'{np.median(tvs):.3f} [{tvs.max():.3f}]':>15} {np.median(losses):>8.4f}"
                f" {np.median(seconds):>7.1f}{'  MISSED' if failed else ''}",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
