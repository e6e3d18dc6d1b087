"""What one run says of fits and of noisy sums, sound and broken, beside JAX Privacy on the same scores.

``python -m verification.benchmarks.one_run_fits [SEEDS]``: 300 records and 40 canaries in the plane, 20 guesses,
claimed (1, 1e-5); noisy sums have 1,000 canaries in as many dimensions. Each row is audited by SEEDS (default 5) single
runs. Broken fits have 400 times the epsilon that they claim; the planted fault publishes the records as means. JAX
Privacy gets all scores and chooses its thresholds by its default, which corrects for their number.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import pm_dpgmm as dpg
from verification.auditing.one_run import one_run
from verification.auditing.one_run_result import OneRunResult
from verification.benchmarks.jax_privacy import compare
from verification.benchmarks.one_run import DELTA, ERROR, mu_of
from verification.benchmarks.seeds import at_least

EPSILON, LOUD = 1.0, 400.0
METHODS = ("sketch", "histogram", "em", "central")
N_RECORDS, N_SUMS = 300, 1_000
WIDTH = 0.02  # of the kernels of the planted fault

Run = tuple[OneRunResult, Any, Any]  # what was found, scores, who was in


def canaries() -> Any:
    """Forty points of the square, far from each other and from its middle."""
    ends = np.linspace(-0.95, 0.95, 8)
    grid = np.array([(a, b) for a in ends for b in ends])
    return grid[np.argsort(-np.abs(grid).max(axis=1), kind="stable")[:40]]


def audited(mechanism: Callable[..., Any], records: Any, rows: Any, score: Callable[..., Any], seed: int) -> Run:
    """One run, with the scores and coins that a peer needs."""
    kept: dict[str, Any] = {}

    def watched(data: Any, rng: np.random.Generator) -> Any:
        kept["in"] = (rows[:, None] == data[len(records) :][None]).reshape(len(rows), -1, rows[:1].size).all(-1).any(-1)
        return mechanism(data, rng)

    def scored(release: Any, asked: Any) -> Any:
        kept["scores"] = np.asarray(score(release, asked), dtype=float)
        return kept["scores"]

    rng = np.random.default_rng([11, seed])
    found = one_run(watched, records, rows, score=scored, epsilon=EPSILON, delta=DELTA, false_alarm=ERROR, rng=rng)
    return found, kept["scores"], kept["in"]


def fit(data: Any, rng: np.random.Generator, *, method: str, epsilon: float) -> Any:
    """A release of this package."""
    ways: dict[str, Any] = {"neighbouring": "add-remove"} | ({} if method == "central" else {"delta": DELTA})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dpg.fit_gmm(data, 3, epsilon=epsilon, bounds=(-1.0, 1.0), method=method, progress=False, **ways)


def records_as_means(data: Any, rng: np.random.Generator) -> Any:
    """Planted fault: a mixture with a narrow component at every record."""

    def log_density(rows: Any) -> Any:
        away = np.square(np.asarray(rows)[:, None] - data[None]).sum(axis=2)
        return np.logaddexp.reduce(-away / (2 * WIDTH**2), axis=1)

    return SimpleNamespace(log_density=log_density)


def noisy_sum(data: Any, rng: np.random.Generator, *, share: float) -> Any:
    """One count for each canary, with ``share`` of the noise that is due."""
    return np.bincount(data, minlength=N_SUMS) + rng.normal(scale=share / mu_of(EPSILON), size=N_SUMS)


def rows_of_table() -> dict[str, Callable[[int], Run]]:
    """What is audited, by name."""
    people, points = np.arange(N_SUMS), canaries()
    records = np.clip(np.random.default_rng(0).normal(scale=0.2, size=(N_RECORDS, 2)), -1, 1)

    def of_sum(share: float) -> Callable[[int], Run]:
        run = partial(noisy_sum, share=share)
        return lambda seed: audited(run, people[:0], people, lambda release, rows: release[rows], seed)

    def of_fit(run: Callable[..., Any]) -> Callable[[int], Run]:
        return lambda seed: audited(run, records, points, lambda release, rows: release.log_density(rows), seed)

    found = {"noisy sum, sound": of_sum(1.0), "noisy sum, a tenth of the noise": of_sum(0.1)}
    for method in METHODS:
        found[f"{method}, sound"] = of_fit(partial(fit, method=method, epsilon=EPSILON))
        found[f"{method}, epsilon {LOUD:g}"] = of_fit(partial(fit, method=method, epsilon=LOUD))
    return found | {"records published as means": of_fit(records_as_means)}


def main(n_seeds: int) -> None:
    """Print the table."""
    print(f"claim ({EPSILON:g}, {DELTA:g}), error {ERROR:g}; medians of {n_seeds} single runs")
    print("mechanism | right of guesses | refuted | here | ceiling | JAX Privacy | its f-DP bound")
    for name, run in rows_of_table().items():
        found = [run(seed) for seed in range(n_seeds)]
        sent = {f"run{i}": (scores[inside], scores[~inside], DELTA) for i, (_, scores, inside) in enumerate(found)}
        peers = compare(sent, ERROR, one_run=True)
        theirs = (
            [peers]
            if isinstance(peers, str)
            else [f"{np.median([one[kind] for one in peers.values()]):.2f}" for kind in ("one_run", "one_run_fdp")]
        )
        results = [result for result, *_ in found]
        print(
            f"{name} | {np.median([r.correct for r in results]):g} of {results[0].guesses}"
            f" | {sum(r.refuted for r in results)}/{n_seeds}"
            f" | {np.median([float(r.epsilon_lower or 0.0) for r in results]):.2f} | {results[0].ceiling:.2f}"
            f" | {' | '.join(theirs)}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n_seeds", type=at_least(1), nargs="?", default=5)
    main(parser.parse_args().n_seeds)
