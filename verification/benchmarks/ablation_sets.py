"""Data sets of the ablation, quick to fit: of the accuracy benchmark, cut short, random mixtures and real tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.demo import BOUNDS, load_records
from verification.benchmarks import sets, truths

N_HELD_OUT = 20_000
LOOSE = 30.0  # how many times too wide
SEPARATION, VARIANCES, RADII = 3.0, (0.3, 2.0), 2.5  # of random mixtures; standard deviations around them
FLOOR, TABLE_FLOOR = 1e-3, 0.05  # of variances; of standard deviations in those of a table's column


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Records and what is public about them."""

    training: FloatArray
    held_out: FloatArray
    n_components: int
    bounds: FloatArray | None
    floor: float  # of variances, after the fit
    reg_covar: float | tuple[float, ...] = 0.0


@dataclass(frozen=True, slots=True)
class Set:
    """Data sets of one sort, by number."""

    kind: str
    name: str
    problem: Callable[[int], Problem]


def benchmark_set(name: str, n_records: int, seed: int) -> Problem:
    """The first records of a set of the accuracy benchmark."""
    data = sets.data_set(name, seed)
    domain = data.recipe.domain
    return Problem(data.training[:n_records], data.held_out, data.recipe.n_components, domain.box, domain.floor)


def random_mixture(n_features: int, n_components: int, n_records: int, seed: int) -> Problem:
    """A mixture with random means, axes and weights, other ones for each seed."""
    rng = np.random.default_rng([n_features, n_components, seed])
    means = rng.normal(scale=SEPARATION, size=(n_components, n_features))
    covariances = [truths.turned(rng.uniform(*VARIANCES, n_features), rng) for _ in range(n_components)]
    truth = Mixture(rng.dirichlet(np.full(n_components, 5.0)), means, covariances)
    radius = np.abs(means).max() + RADII * np.sqrt(VARIANCES[1])
    bounds = np.tile([-radius, radius], (n_features, 1))
    rows = (truths.draw(truth, n, rng=rng) for n in (n_records, N_HELD_OUT))
    return Problem(next(rows), next(rows), n_components, bounds, FLOOR)


def health(seed: int) -> Problem:
    """Log visits and disease score of the demo's health records."""
    rows = load_records(np.random.default_rng(0))[0]
    return _table(rows, 3, BOUNDS, 5_000, seed)


def voters(columns: tuple[str, ...], seed: int) -> Problem:
    """American National Election Studies 1996, public, ships with statsmodels: whole numbers of few values."""
    from statsmodels.datasets import anes96

    limits = {"age": (18.0, 95.0), "educ": (0.0, 8.0), "income": (0.0, 25.0)}
    rows = anes96.load_pandas().data[list(columns)].to_numpy(float)
    return _table(rows, 2, np.array([limits[column] for column in columns]), 750, seed)


def _table(rows: FloatArray, n_components: int, bounds: FloatArray, n_records: int, seed: int) -> Problem:
    rows = np.random.default_rng(seed).permutation(rows)
    floor = tuple(np.square(TABLE_FLOOR * rows.std(axis=0)).tolist())
    return Problem(rows[:n_records], rows[n_records:], n_components, bounds, min(floor), floor)


def without_bounds(problem: Problem) -> Problem:
    """The same records, far from 0."""
    return replace(problem, bounds=None)


def with_loose_bounds(problem: Problem) -> Problem:
    """Bounds ``LOOSE`` times too wide."""
    assert problem.bounds is not None
    centre = problem.bounds.mean(axis=1, keepdims=True)
    return replace(problem, bounds=centre + LOOSE * (problem.bounds - centre))


SETS = [
    Set("one column", "A", lambda seed: benchmark_set("A-1e3", 1_000, seed)),
    Set("one column", "random 1", lambda seed: random_mixture(1, 3, 3_000, seed)),
    Set("two columns", "disc", lambda seed: benchmark_set("B-8e3", 8_000, seed)),
    Set("two columns", "overlap", lambda seed: benchmark_set("overlap", 5_000, seed)),
    Set("two columns", "random 2", lambda seed: random_mixture(2, 4, 6_000, seed)),
    Set("three columns", "random 3", lambda seed: random_mixture(3, 3, 8_000, seed)),
    Set("three columns", "small", lambda seed: benchmark_set("small", 1_000, seed)),
    Set("real tables", "voters' age", lambda seed: voters(("age",), seed)),
    Set("real tables", "health", health),
    Set("real tables", "voters", lambda seed: voters(("age", "educ", "income"), seed)),
    Set("no bounds", "A unbounded", lambda seed: without_bounds(benchmark_set("A-1e3", 1_000, seed))),
    Set("no bounds", "overlap unbounded", lambda seed: without_bounds(benchmark_set("overlap", 5_000, seed))),
    Set("loose bounds", "A loose", lambda seed: with_loose_bounds(benchmark_set("A-1e3", 1_000, seed))),
    Set("loose bounds", "overlap loose", lambda seed: with_loose_bounds(benchmark_set("overlap", 5_000, seed))),
]
