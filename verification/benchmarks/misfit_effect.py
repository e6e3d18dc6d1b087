"""Does a release warn when its fit is poor, and only then?

``python -m verification.benchmarks.misfit_effect`` fits real tables that come with statsmodels and scikit-learn, those
in ``--data`` (a folder with diamonds_numeric.csv and penguins.csv, public tables as in ggplot2 and palmerpenguins), and
simulated ones at epsilon 1 and delta 1e-6 (small tables also at 10), a fifth of the records held out. One row per fit:

- gap: held-out log-density per record less that of the best of three fits of scikit-learn with as many components and
  the same ``reg_covar``, a twentieth of every column's standard deviation, squared. Positive where a background helps.
- misfit, gain, shortfall, flag: as in ``release.misfit``.
- more: what a private fit with three components more gains on the held-out records, where ``--more`` is given.
- seconds of the fit, and the share that measuring the misfit took.

At the end: how often a fit warns when its gap is above -0.02, between, and below -0.1; and how often it would have
warned by the chi-square alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture

from pm_dpgmm import Release, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.checks.misfit import SHORTFALL, measured
from pm_dpgmm.methods.sketch.estimate import REJECTED, SketchFit, as_start, sketch_data
from pm_dpgmm.methods.sketch.statistics import SketchStatistics

DELTA, SMALL, N_SIMULATED, N_CLIPPED, MARGIN, FLOOR = 1e-6, 5_000, 50_000, 200_000, 0.05, 0.05
GOOD, BAD = -0.02, -0.1  # nats per record


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Records and the number of components that is fitted to them."""

    name: str
    records: FloatArray
    n_components: int


@dataclass(frozen=True, slots=True)
class Row:
    """One fit."""

    name: str
    epsilon: float
    n_records: int
    gap: float
    release: Release
    more: float
    seconds: float
    share: float


def real_tables(folder: Path | None, rng: np.random.Generator) -> Iterator[Table]:
    """Public tables, their columns as they are."""
    import pandas as pd
    from sklearn import datasets
    from statsmodels.datasets import anes96, fair, randhie

    health = randhie.load_pandas().data
    numeric = health[["mdvis", "lncoins", "lpi", "fmde", "disea"]].to_numpy(float)
    yield Table("health, 5 columns", numeric, 3)
    yield Table("health, 5 columns", numeric, 6)
    visits = np.log1p(health["mdvis"].to_numpy(float) + rng.uniform(-0.5, 0.5, len(health)))
    yield Table("health, 2 columns", np.column_stack([visits, health["disea"]]), 3)
    yield Table("marriages", fair.load_pandas().data[["age", "yrs_married", "educ"]].to_numpy(float), 3)
    voters = anes96.load_pandas().data
    yield Table("voters", voters[["age", "educ", "income"]].to_numpy(float), 2)
    yield Table("voters' age", voters[["age"]].to_numpy(float), 2)
    yield Table("tumours", datasets.load_breast_cancer().data[:, [0, 1, 4]], 2)
    digits = datasets.load_digits().data
    axes = np.linalg.svd(digits - digits.mean(axis=0), full_matrices=False)[0][:, :2]
    yield Table("digits", 100 * axes, 5)
    if folder is not None:
        diamonds = pd.read_csv(folder / "diamonds_numeric.csv")
        yield Table("diamonds", diamonds.to_numpy(float), 4)
        logs = np.log(diamonds[["carat", "price"]])
        yield Table("diamonds, 3 columns", np.column_stack([logs, diamonds["depth"]]), 4)
        yield Table("diamonds' price", logs[["price"]].to_numpy(float), 3)
        yield Table("penguins", pd.read_csv(folder / "penguins.csv").iloc[:, 1:].to_numpy(float), 3)


def simulated_tables(rng: np.random.Generator) -> Iterator[Table]:
    """Mixtures that are right, and records that no mixture of so many components describes."""
    n = N_SIMULATED
    for d in (1, 2, 5):
        yield Table(
            f"right, {d} columns",
            _mixture([0.5, 0.3, 0.2], 4 * rng.normal(size=(3, d)), rng.uniform(0.6, 1.5, 3), rng),
            3,
        )
    yield Table("three of five", _mixture([0.2] * 5, 4 * rng.normal(size=(5, 3)), np.ones(5), rng), 3)
    yield Table("two of three", _mixture([0.3, 0.3, 0.4], np.array([[-4.0], [0.0], [5.0]]), np.ones(3), rng), 2)
    for d in (1, 2, 5):
        centres = np.where(rng.random((n, 1)) < 0.5, -3.0, 3.0)
        yield Table(f"t with 3 df, {d} columns", centres + rng.standard_t(3, (n, d)), 2)
    masses = _mixture([0.6, 0.4], np.array([[-2.0] * 3, [3.0] * 3]), np.ones(2), rng)
    masses[rng.random(masses.shape) < 0.2] = 0.0
    yield Table("point masses", masses, 2)
    clipped = _mixture([0.6, 0.4], np.array([[-2.0] * 8, [3.0] * 8]), np.ones(2), rng, n=N_CLIPPED)
    hit = rng.random(clipped.shape) < 0.05
    clipped[hit] = np.where(rng.random(hit.sum()) < 0.5, -6.0, 7.0)
    yield Table("clipped entries", clipped, 2)
    yield Table("uniform", rng.uniform(size=(n, 2)), 3)
    angles = rng.uniform(0, 2 * np.pi, n)
    yield Table("ring", 5 * np.column_stack([np.cos(angles), np.sin(angles)]) + 0.1 * rng.standard_normal((n, 2)), 3)
    yield Table("log-normal", np.exp(0.8 * rng.normal(size=(n, 2))), 3)


def _mixture(
    weights: list[float], means: FloatArray, scales: FloatArray, rng: np.random.Generator, n: int = N_SIMULATED
) -> FloatArray:
    labels = rng.choice(len(weights), n, p=weights)
    return np.asarray(means[labels] + scales[labels, None] * rng.standard_normal((n, means.shape[1])))


def run(table: Table, epsilon: float, *, more: bool) -> Row:
    """Fit, score and measure one table."""
    rng = np.random.default_rng(1)
    order = rng.permutation(len(table.records))
    n_held_out = max(len(order) // 5, 50)
    held_out, training = table.records[order[:n_held_out]], table.records[order[n_held_out:]]
    low, high = table.records.min(axis=0), table.records.max(axis=0)
    bounds = np.column_stack([low - MARGIN * (high - low), high + MARGIN * (high - low)])
    floor = np.square(FLOOR * table.records.std(axis=0))
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": DELTA,
        "bounds": bounds,
        "method": "sketch",
        "reg_covar": floor,
        "random_seed": 5,
        "progress": False,
    }
    start = time.perf_counter()
    release = fit_gmm(training, table.n_components, **settings)
    seconds = time.perf_counter() - start
    ours = float(release.log_density(held_out).mean())
    start = time.perf_counter()
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    found = as_start(evidence, release.mixture, release.background_weight)
    measured(evidence, SketchFit(sketch_data(evidence), found, float(release.noise["misfit"])))
    share = (time.perf_counter() - start) / seconds
    gained = np.nan
    if more:
        larger = fit_gmm(training, table.n_components + 3, **settings)
        gained = float(larger.log_density(held_out).mean()) - ours
    gap = ours - non_private(training, held_out, table.n_components, np.sqrt(floor))
    return Row(f"{table.name}, K = {table.n_components}", epsilon, len(training), gap, release, gained, seconds, share)


def non_private(training: FloatArray, held_out: FloatArray, n_components: int, unit: FloatArray) -> float:
    """Held-out log-density per record of scikit-learn's best fit in columns of which ``reg_covar`` is 1."""
    best = -np.inf, 0.0
    for kind in ("kmeans", "k-means++", "random_from_data"):
        model = GaussianMixture(
            n_components, reg_covar=1.0, n_init=2, random_state=0, tol=1e-5, max_iter=1000, init_params=kind
        ).fit(training / unit)
        best = max(best, (model.lower_bound_, float(model.score(held_out / unit) - np.log(unit).sum())))
    return best[1]


def line(row: Row) -> str:
    """One row of the table."""
    found = row.release.misfit
    assert found is not None
    sizes = [f"{'-' if size is None else format(size, '.3f'):>9}" for size in (found.gain, found.shortfall)]
    return (
        f"{row.name:<32}{row.epsilon:>4g}{row.n_records:>8,}{row.gap:>8.3f}{found.statistic:>8.0f}{' '.join(sizes)}"
        f"{'FLAG' if found.flagged else '':>6}{row.more:>8.3f}{row.seconds:>7.1f}{row.share:>6.0%}"
    )


def counted(rows: list[Row]) -> list[str]:
    """How often there are warnings, by how good the fit is."""
    kinds = (
        (f"gap above {GOOD}", [row for row in rows if row.gap > GOOD]),
        ("between", [row for row in rows if BAD <= row.gap <= GOOD]),
        (f"gap below {BAD}", [row for row in rows if row.gap < BAD]),
    )
    return [
        f"{words:<18}{len(chosen):>3} fits: {sum(row.release.noise['flagged'] for row in chosen)} flagged, by shortfall"
        f" {sum((row.release.noise['shortfall'] or 0) >= SHORTFALL for row in chosen)}; by the chi-square alone"
        f" {sum(row.release.noise['misfit'] > REJECTED for row in chosen)}"
        for words, chosen in kinds
    ]


def main() -> None:
    """Print the table and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with diamonds_numeric.csv and penguins.csv")
    parser.add_argument("--more", action="store_true", help="also fit three components more")
    parser.add_argument("--only", help="part of a table's name")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(
        f"{'table':<32}{'eps':>4}{'records':>8}{'gap':>8}{'misfit':>8}{'gain':>9}{'shortfall':>10}{'more':>14}{'s':>7}"
    )
    rows: list[Row] = []
    for tables in (real_tables(options.data, rng), simulated_tables(rng)):
        first = len(rows)
        for table in tables:
            if options.only is None or options.only in table.name:
                for epsilon in (1.0, 10.0) if len(table.records) < SMALL else (1.0,):
                    rows.append(run(table, epsilon, more=options.more))
                    print(line(rows[-1]), flush=True)
        print(*counted(rows[first:]), sep="\n", flush=True)


if __name__ == "__main__":
    main()
