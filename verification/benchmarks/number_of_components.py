"""How often is the released number of components right?

``python -m verification.benchmarks.number_of_components``

Method "sketch" chooses among 1 to 5 from the released numbers; beside it the number with the least BIC of fits of
scikit-learn to the records themselves, the ceiling. Exit status 1 when a target is missed: nine in ten on A-1e3,
every run on B-8e3 and C-1e4.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

import numpy as np
from sklearn.mixture import GaussianMixture

from pm_dpgmm import fit_gmm
from verification.benchmarks.peers import DELTA
from verification.benchmarks.sets import DataSet, data_set

CHOICES = range(1, 6)
LEAST = {"A-1e3": 0.9, "B-8e3": 1.0, "C-1e4": 1.0, "unequal": None, "overlap": None, "small": None}  # share of runs
STARTS = 2  # of a non-private fit


def by_sketch(data: DataSet) -> int:
    """Chosen privately."""
    recipe = data.recipe
    release = fit_gmm(
        data.training,
        CHOICES,
        epsilon=recipe.epsilon,
        delta=DELTA,
        bounds=recipe.domain.box,
        method="sketch",
        random_seed=data.seed("number"),
        progress=False,
    )
    return release.n_components


def by_bic(data: DataSet) -> int:
    """Least Bayesian information criterion of fits that are not private."""
    rows = data.training
    scores = [GaussianMixture(k, n_init=STARTS, random_state=0).fit(rows).bic(rows) for k in CHOICES]
    return CHOICES[int(np.argmin(scores))]


METHODS: dict[str, Callable[[DataSet], int]] = {"sketch": by_sketch, "BIC, not private": by_bic}


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description="How often is the number of components right?")
    parser.add_argument("--repeats", type=int, default=10, help="data sets of each set (default 10)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    rows = []
    for name, least in LEAST.items():
        data = [data_set(name, repeat) for repeat in range(options.repeats)]
        chosen = {method: [choose(one) for one in data] for method, choose in METHODS.items()}
        right = {method: sum(k == data[0].recipe.n_components for k in found) for method, found in chosen.items()}
        missed = least is not None and right["sketch"] < least * options.repeats
        rows.append(
            {"set": name, "true": data[0].recipe.n_components, "chosen": chosen, "right": right, "missed": missed}
        )
        if not options.json:
            told = "; ".join(f"{method} {n} of {options.repeats} right" for method, n in right.items())
            print(f"{name:<10}{told}{'  MISSED' if missed else ''}  {chosen['sketch']}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    return int(any(row["missed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
