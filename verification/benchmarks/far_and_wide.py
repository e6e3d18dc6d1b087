"""One column whose components are far apart or of many scales: which method finds them without bounds?

``python -m verification.benchmarks.far_and_wide`` draws data sets, fits every method and prints total variation between
the released density and the truth: its median, its worst, how many of the runs are at most .1, and refusals.
``--figure far_and_wide.png`` draws them. "histogram" needs bounds and has true ones, a gift.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pm_dpgmm import FitWarning, Mixture, Unstable, fit_gmm
from pm_dpgmm.mixture.scheffe_sets import Lines, scheffe_sets
from verification.benchmarks.seeds import at_least

EPSILON, DELTA = 1.0, 1e-6
LEAST_RECORDS, RECORDS_OF_LEAST = 20_000, 3_000  # n = max(these, over the least weight)
GOOD = 0.1
METHODS = ("auto", "gaps", "sketch", "histogram", "populous")
REACH = 6.0  # deviations of the true bounds beyond the components

CASES: dict[str, tuple[list[float], list[float], list[float]]] = {
    "8 apart": ([0.4, 0.6], [0.0, 8.0], [1.0, 1.0]),
    "overlapping": ([0.15, 0.35, 0.5], [17.0, 30.0, 50.0], [3.0, 4.0, 5.0]),
    "at +-1e9": ([0.5, 0.5], [-1e9, 1e9], [1.0, 1.0]),
    "5 apart at 1e9": ([0.5, 0.5], [1e9, 1e9 + 5], [0.001, 1.0]),
    "deviations .001, 1000": ([0.5, 0.5], [0.0, 0.5], [0.001, 1000.0]),
    "-1e6, 3, 1e9": ([0.3, 0.3, 0.4], [-1e6, 3.0, 1e9], [0.1, 1.0, 100.0]),
    "weight .05": ([0.05, 0.35, 0.6], [0.0, 1e4, 2e8], [1e-3, 10.0, 1e3]),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One fit: total variation, or None for a refusal; whether it warned."""

    case: str
    method: str
    variation: float | None
    warned: bool


def mixture_of(weights: list[float], means: list[float], deviations: list[float]) -> Mixture:
    """Of one column."""
    return Mixture(weights, np.array(means)[:, None], np.square(deviations)[:, None, None])


def random_case(seed: int) -> Mixture:
    """Two or three components, weights of at least .1, locations to 1e9 and deviations from 1e-3 to 1e3."""
    rng = np.random.default_rng([seed, 9])
    k = int(rng.integers(2, 4))
    weights = rng.dirichlet(np.full(k, 2.0))
    while weights.min() < 0.1:
        weights = rng.dirichlet(np.full(k, 2.0))
    means = rng.choice([-1.0, 1.0], k) * 10 ** rng.uniform(-3, 9, k)
    return mixture_of(weights.tolist(), means.tolist(), (10 ** rng.uniform(-3, 3, k)).tolist())


def size_of(truth: Mixture) -> int:
    """Records that the method is to need."""
    return max(LEAST_RECORDS, int(RECORDS_OF_LEAST / truth.weights.min()))


def variation(truth: Mixture, found: Mixture) -> float:
    """Exact total variation of two mixtures of one column."""
    sets = scheffe_sets(Lines.of([truth]), Lines.of([found]))
    return float(sets.own[0] - sets.other[0])


def run(case: str, truth: Mixture, method: str, seed: int, n_records: int | None = None) -> Run:
    """Draw, fit and score once."""
    n = n_records or size_of(truth)
    rows = truth.sample(n, rng=np.random.default_rng([seed, 1]))
    deviations = np.sqrt(truth.covariances[:, 0])
    given: dict[str, object] = {"epsilon": EPSILON, "method": method, "random_seed": seed, "progress": False}
    if method == "histogram":
        low, high = truth.means - REACH * deviations, truth.means + REACH * deviations
        given["bounds"] = (float(low.min()), float(high.max()))
    else:
        given["delta"] = DELTA
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        try:
            release = fit_gmm(rows, truth.n_components, **given)  # type: ignore[arg-type]
        except (Unstable, ValueError):  # a ValueError before spending: too few records for the method
            return Run(case, method, None, False)
    return Run(case, method, variation(truth, release.density), bool(release.warnings))


def table(runs: Iterable[Run]) -> list[str]:
    """One line for each case and method."""
    found: dict[tuple[str, str], list[Run]] = {}
    for one in runs:
        found.setdefault((one.case, one.method), []).append(one)
    lines = [f"{'case':24} {'method':10} {'median':>8} {'worst':>8} {'<= .1':>8} {'refused':>8} {'warned':>7}"]
    for (case, method), ran in found.items():
        values = np.array([np.inf if one.variation is None else one.variation for one in ran])
        refused, good = int(np.isinf(values).sum()), int((values <= GOOD).sum())
        told = [f"{value:.3f}" if np.isfinite(value) else "-" for value in (np.median(values), values.max())]
        warned = sum(one.warned for one in ran)
        share = f"{good}/{len(ran)}"
        lines.append(f"{case:24} {method:10} {told[0]:>8} {told[1]:>8} {share:>8} {refused:>8} {warned:>7}")
    return lines


def draw(runs: list[Run], path: str) -> None:
    """Every run as a point, refusals at 1.1; one panel of methods for each case."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    cases = list(dict.fromkeys(one.case for one in runs))
    methods = list(dict.fromkeys(one.method for one in runs))
    figure, axes = plt.subplots(figsize=(1.5 * len(cases) + 2, 3.6), layout="constrained")
    for i, method in enumerate(methods):
        ran = [one for one in runs if one.method == method]
        x = [cases.index(one.case) + 0.18 * (i - (len(methods) - 1) / 2) for one in ran]
        y = [1.1 if one.variation is None else one.variation for one in ran]
        axes.plot(x, y, "o", ms=4, alpha=0.6, label=method)
    axes.axhline(GOOD, color="grey", lw=0.8, ls=":")
    axes.set_xticks(range(len(cases)), cases, rotation=20, ha="right", fontsize=8)
    axes.set_yticks([0, 0.1, 0.5, 1, 1.1], ["0", ".1", ".5", "1", "refused"])
    axes.set_ylabel("total variation from the truth")
    axes.set_title(f"epsilon {EPSILON:g}, delta {DELTA:g}, no bounds (histogram: true ones)", fontsize=9)
    figure.legend(fontsize=8, ncol=len(methods), frameon=False, loc="outside lower center")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and draw it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=at_least(1), default=10)
    parser.add_argument("--random", type=at_least(0), default=20, help="random mixtures, one run each")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cases", default=",".join(f'"{name}"' for name in CASES), help="in quotes, or none")
    parser.add_argument("--figure", help="file to draw to")
    given = parser.parse_args(arguments)
    problems = [
        (name, mixture_of(*CASES[name]), seed)
        for name in CASES
        if f'"{name}"' in given.cases
        for seed in range(given.repeats)
    ]
    problems += [("random", random_case(seed), seed) for seed in range(given.random)]
    runs = [run(*problem[:2], method, problem[2]) for method in given.methods.split(",") for problem in problems]
    print("\n".join(table(runs)), flush=True)
    if given.figure:
        draw(runs, given.figure)


if __name__ == "__main__":
    main()
