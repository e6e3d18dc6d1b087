"""Does ``method="populous"`` answer on data people have, and with the errors that its noise predicts?

``python -m verification.benchmarks.populous_release``

Compiled EM, epsilon 1, delta 1e-6, no bounds, noise without a seed. Every run has another mixture, its nearest two
components 4 standard deviations apart, a million deviations from 0, columns in units from 1e-3 to 1e3. Errors are the
largest over components, median and worst over the runs, beside what the noise alone gives when the average is the
truth. "level" is what the private test found, median and least, beside what passes with probability 0.99.
``--smallest`` searches for the fewest records that answer, for equal and unequal weights. For a given noise the design
allows the least efficient learner, so the guess of the efficiency only decides who is refused from public facts alone:
the search has efficiency 1. Exit status 1 when fewer than 19 of 20 runs answer.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from pm_dpgmm.methods.populous.method import Populous
from verification.benchmarks.populous_runs import (
    SURE,
    Run,
    Weights,
    constants_of,
    equal,
    law_of_errors,
    run_once,
    truth_of,
)

NOISE = 0.05
SETTINGS = ((1, equal(2), 90_000), (2, equal(3), 250_000), (5, equal(3), 600_000))  # columns, weights, records
UNEQUAL = ((1, (0.3, 0.7), 120_000), (2, (0.2, 0.3, 0.5), 400_000), (5, (0.2, 0.3, 0.5), 900_000))
GOAL = 0.95  # share of runs that answer
N_RUNS = 20  # of a row, and of a size in the search
STEP, MOST_STEPS = 1.15, 12  # of the search
ERRORS = ("weights", "means", "log_deviations")
HEADING = (
    f"{'columns':>7} {'weights':<13} {'records':>9} {'noise':>6} {'answers':>8}"
    f" {'weight: med worst (law)':>30} {'mean: med worst (law)':>30} {'log sd: med worst (law)':>30}"
    f" {'level (needed)':>16} {'seconds':>8}"
)


@dataclass(frozen=True, slots=True)
class Row:
    """Runs of one setting; medians and worsts are over the runs that answered, in the order of ``ERRORS``."""

    n_features: int
    weights: Weights
    n_records: int
    noise: float
    n_subsets: int
    runs: int
    answers: int
    median: tuple[float, ...]
    worst: tuple[float, ...]
    law_median: tuple[float, ...]
    law_worst: tuple[float, ...]
    level: float  # median
    least_level: int
    needed: int
    seconds: float

    @property
    def missed(self) -> bool:
        """Whether the goal is missed."""
        return self.answers < GOAL * self.runs

    def __str__(self) -> str:
        parts = zip(self.median, self.worst, self.law_median, self.law_worst, strict=True)
        errors = " ".join(f"{a:8.4f} {b:6.4f} ({c:6.4f} {d:6.4f})" for a, b, c, d in parts)
        levels = f"{self.level:g} {self.least_level} ({self.needed})"
        return (
            f"{self.n_features:>7} {_shown(self.weights):<13} {self.n_records:>9,} {self.noise:>6.4f}"
            f" {self.answers:>3} of {self.runs:<2} {errors} {levels:>16} {self.seconds:>8.1f}"
            f"{'  MISSED' if self.missed else ''}"
        )


def row(n_features: int, weights: Weights, n_records: int, settings: Populous, n_runs: int) -> Row:
    """``n_runs`` runs, and what the noise predicts for them."""
    truths = [truth_of(n_features, weights, index) for index in range(n_runs)]
    constants = constants_of(settings, n_records, n_features, len(weights))
    runs = [run_once(truth, n_records, index, settings) for index, truth in enumerate(truths)]
    errors = np.array([[getattr(run, name) for name in ERRORS] for run in runs if run.released]).reshape(-1, 3)
    law, law_worst = law_of_errors(truths, constants.noise.eta)
    levels, seconds = [run.level for run in runs], [run.seconds for run in runs]
    median, worst = (
        (tuple(np.median(errors, axis=0)), tuple(errors.max(axis=0))) if len(errors) else ((np.nan,) * 3,) * 2
    )
    return Row(
        n_features,
        weights,
        n_records,
        constants.noise.eta,
        constants.design.n_subsets,
        n_runs,
        len(errors),
        median,
        worst,
        tuple(law),
        tuple(law_worst),
        float(np.median(levels)),
        min(levels),
        constants.table.level_for(SURE),
        float(np.median(seconds)),
    )


def answers(n_features: int, weights: Weights, n_records: int, settings: Populous, n_runs: int) -> float:
    """Probability of an answer: mean over runs of the pass probability at the level found; 0 without a design.

    Runs end once the goal is out of reach; the result is then what the rest could still give.
    """
    try:
        constants_of(settings, n_records, n_features, len(weights))
    except ValueError:
        return 0.0
    runs: list[Run] = []
    most = n_runs * (1 - GOAL)  # of runs may refuse; a size that has lost more is left early
    for index in range(n_runs):
        runs.append(run_once(truth_of(n_features, weights, index), n_records, index, settings))
        if sum(1 - run.passes for run in runs) > most:
            return 1 - sum(1 - run.passes for run in runs) / n_runs
    return float(np.mean([run.passes for run in runs]))


def fewest(enough: Callable[[int], bool], start: int, *, step: float = STEP) -> int:
    """The fewest records, in steps of a factor from ``start``, that are enough; 0 if none of ``MOST_STEPS`` is."""
    size, good = start, enough(start)
    for _ in range(MOST_STEPS):
        following = _rounded(size / step if good else size * step)
        if enough(following) != good:
            return size if good else following
        size = following
    return size if good else 0


def _rounded(size: float) -> int:
    """To three digits."""
    return int(float(f"{size:.3g}"))


def _shown(weights: Weights) -> str:
    return "equal" if len(set(weights)) == 1 else "/".join(f"{weight:g}" for weight in weights)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description="Does method 'populous' answer, and how well?")
    parser.add_argument("--runs", type=int, default=N_RUNS, help=f"of a setting (default {N_RUNS})")
    parser.add_argument("--smallest", action="store_true", help="search for the fewest records that answer")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    if options.smallest:
        return _search(options.runs, as_json=options.json)
    rows = []
    if not options.json:
        print(HEADING)
    for d, weights, n in SETTINGS:
        for noise in (NOISE, None):
            rows.append(row(d, weights, n, Populous(noise=noise), options.runs))
            if not options.json:
                print(rows[-1], flush=True)
    if options.json:
        print(json.dumps([asdict(one) | {"missed": one.missed} for one in rows], indent=1))
    return int(any(one.missed for one in rows))


def _search(n_runs: int, *, as_json: bool) -> int:
    settings, found = Populous(noise=NOISE, efficiency=1.0), []
    for d, weights, start in (*SETTINGS, *UNEQUAL):
        tried: dict[int, float] = {}

        def enough(n: int, d: int = d, weights: Weights = weights, tried: dict[int, float] = tried) -> bool:
            tried[n] = answers(d, weights, n, settings, n_runs)
            return tried[n] >= GOAL

        n = fewest(enough, start)
        found.append({"n_features": d, "weights": weights, "n_records": n, "answers": tried})
        if not as_json:
            sizes = ", ".join(f"{size:,}: {share:.2f}" for size, share in sorted(tried.items()))
            print(f"columns {d}, weights {_shown(weights)}: {n:,} records; answers by size {sizes}", flush=True)
    if as_json:
        print(json.dumps(found, indent=1))
    return int(not all(one["n_records"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
