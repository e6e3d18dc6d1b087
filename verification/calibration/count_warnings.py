"""Do fits to noisy counts warn where they are bad, and only there?

``python -m verification.calibration.count_warnings --count 60`` draws tables, fits each once without delta, by
"histogram" (one or two columns) or "slices" (two to four), and prints a table for each method: how many fits are good,
between and bad, how many of them warn and of what, and how many have a dispersion above 1.5. Tables have 300 to 100,000
records of 1 to 5 components, normal, with heavy tails, skew, of very different widths or with a rare component, in
bounds that are tight or up to ten times as wide; epsilon is .1 to 5, and a third of the fits has another number of
components than the table.

A fit is bad where its held-out log-density is more than .3 nats per record below that of scikit-learn's non-private fit
with as many components, or the distribution function of a column is off by more than .2; good where both are at most
.05; between otherwise.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pm_dpgmm import FitWarning, Release, fit_gmm
from pm_dpgmm._arguments import FloatArray
from verification.benchmarks.seeds import seed_parser

KINDS = ("normal", "normal", "heavy tails", "skew", "widths", "rare")
EPSILONS, WIDER = (0.1, 0.3, 1.0, 2.0, 5.0), (1.0, 1.0, 1.5, 3.0, 10.0)
SPREADS = (2.0, 4.0, 8.0)  # of the means, in deviations of a component
SKEWED = 0.3  # deviation of the entries of a component's factor around the identity
N_HELD_OUT, N_FOR_EM, N_DRAWN = 10_000, 10_000, 20_000
GOOD, BAD, BAD_DISTANCE = 0.05, 0.3, 0.2
METHODS = {"histogram": (1, 2), "slices": (2, 3, 4)}
REASONS = {"misfit": "does not fit", "far": "next to none", "too few": "too few records", "widths": "some widths"}
CAUGHT, FALSE = 0.8, 0.1  # goals: least share of the bad fits that warn, most of the good ones


@dataclass(frozen=True, slots=True)
class Case:
    """One table and what is to be fitted."""

    kind: str
    method: str
    n_components: int
    epsilon: float
    bounds: FloatArray
    records: FloatArray
    held_out: FloatArray


@dataclass(frozen=True, slots=True)
class Row:
    """How good a fit is, and what it warns of."""

    case: Case
    gap: float  # nats per record, below 0 where the fit is worse than the non-private one
    distance: float  # largest of the marginal distribution functions
    release: Release

    @property
    def quality(self) -> str:
        """See the module."""
        if self.gap < -BAD or self.distance > BAD_DISTANCE:
            return "bad"
        return "good" if self.gap >= -GOOD and self.distance <= GOOD else "between"


def drawn(method: str, seed: int) -> Case:
    """A table, by its seed."""
    rng = np.random.default_rng([list(METHODS).index(method), seed])
    kind, d, k = str(rng.choice(KINDS)), int(rng.choice(METHODS[method])), int(rng.integers(1, 6))
    n_records = int(10 ** rng.uniform(np.log10(300), 5))
    size = n_records + N_HELD_OUT
    weights = rng.dirichlet(np.full(k, 5.0))
    if kind == "rare" and k > 1:
        weights[0] = rng.uniform(0.01, 0.05)
        weights[1:] *= (1 - weights[0]) / weights[1:].sum()
    means = rng.normal(size=(k, d)) * rng.choice(SPREADS)
    factors = SKEWED * rng.normal(size=(k, d, d)) + np.eye(d)
    if kind == "widths":
        factors *= 10 ** rng.uniform(-1.5, 0.5, size=(k, 1, 1))
    labels = rng.choice(k, size=size, p=weights)
    steps = rng.standard_t(rng.choice([3, 5]), (size, d)) if kind == "heavy tails" else rng.normal(size=(size, d))
    table = means[labels] + np.einsum("nij,nj->ni", factors[labels], steps)
    if kind == "skew":
        table = np.exp(4 * table / np.abs(table).max())
    low, high = table.min(axis=0), table.max(axis=0)
    margin = (rng.choice(WIDER) - 1) * (high - low) / 2
    fitted = k if rng.random() < 2 / 3 else int(rng.integers(1, 6))
    bounds = np.column_stack([low - margin, high + margin])
    return Case(kind, method, fitted, float(rng.choice(EPSILONS)), bounds, table[:n_records], table[n_records:])


def measured(case: Case) -> Row:
    """Fit a table and compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        release = fit_gmm(
            case.records,
            case.n_components,
            epsilon=case.epsilon,
            bounds=case.bounds,
            method=case.method,
            random_seed=1,
            progress=False,
        )
    gap = float(release.log_density(case.held_out).mean()) - non_private(case)
    points = release.sample(N_DRAWN, random_seed=2)
    pairs = zip(points.T, case.held_out.T, strict=True)
    return Row(case, gap, max(float(stats.ks_2samp(one, other).statistic) for one, other in pairs), release)


def non_private(case: Case) -> float:
    """Held-out log-density of the better of two fits by EM."""
    unit = case.records.std(axis=0)
    best = -np.inf, 0.0
    for seed in range(2):
        model = GaussianMixture(case.n_components, random_state=seed, reg_covar=1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(case.records[:N_FOR_EM] / unit)
        best = max(best, (model.lower_bound_, float(model.score(case.held_out / unit) - np.log(unit).sum())))
    return best[1]


def rows_of(method: str, count: int, first: int = 0) -> Iterator[Row]:
    """All tables of a method."""
    return (measured(drawn(method, seed)) for seed in range(first, first + count))


def lines(rows: list[Row]) -> list[str]:
    """How many fits of each quality there are, how many warn and of what, and how many have a dispersion above 1.5."""
    found = []
    for quality in ("good", "between", "bad"):
        texts = [row.release.warnings for row in rows if row.quality == quality]
        reasons = [
            f"{name} {sum(any(start in text for text in item) for item in texts)}" for name, start in REASONS.items()
        ]
        old = sum(row.release.noise.get("dispersion", 0.0) > 1.5 for row in rows if row.quality == quality)
        warned = sum(bool(item) for item in texts)
        found.append(f"{quality:<8}{len(texts):>4} fits, {warned:>3} warned: {', '.join(reasons)}; dispersed {old}")
    return found


def missed(rows: list[Row]) -> bool:
    """Whether too few of the bad fits warn, or too many of the good ones."""
    warned = {name: [bool(row.release.warnings) for row in rows if row.quality == name] for name in ("good", "bad")}
    good, bad = warned["good"], warned["bad"]
    return sum(bad) < CAUGHT * len(bad) or sum(good) > FALSE * len(good)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; exit status 1 if a goal is missed."""
    parser = seed_parser(
        "Warnings of fits to noisy counts, by how good the fits are.",
        count=60,
        counted="tables for each method (default 60, about four minutes)",
    )
    options = parser.parse_args(arguments)
    found: list[Row] = []
    for method in METHODS:
        rows = list(rows_of(method, options.count, options.first))
        found += rows
        print(method, *lines(rows), sep="\n", flush=True)
    return int(missed(found))  # together: few fits of "slices" are good


if __name__ == "__main__":
    sys.exit(main())
