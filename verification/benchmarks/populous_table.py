"""How many records does each populous method need, with which error, beside a sketch?

``python -m verification.benchmarks.populous_table``

No bounds, (epsilon, delta) = (1, 1e-6), equal weights, the nearest two components 4 standard deviations apart, relative
noise 0.05; medians over ten mixtures. "paper" and "exact" are the Private Populous Estimator with the published and the
exact constants: their records are computed, from the asymptotic law of maximum likelihood and the package's own friend
table and thresholds, and so are their errors. The others run. Every row has the fewest records, in steps of a factor,
with which 19 of 20 runs answer; a method whose error is not fixed by its noise must also have a median gap of at most
that of the noise 0.05 alone.

- gap: log-density per record lost against the truth, nats; TV: total variation from the truth.
- mean: largest error of a mean, in standard deviations of its component.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.masks import MaskNoise, mask_mixture
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous_single.agreement import friend_table
from pm_dpgmm.methods.populous_single.method import PopulousSingle, valid_mixture
from pm_dpgmm.planning.trials import _component_errors, trial_of
from pm_dpgmm.privacy.guarantee import Neighbouring
from verification.auditing.bisection import bracket
from verification.benchmarks.fit_laws import FitLaw
from verification.benchmarks.populous_release import GOAL, fewest
from verification.benchmarks.populous_runs import DELTA, EPSILON, equal, noise_draws, truth_of
from verification.benchmarks.populous_single_size import at_least

SIZES = ((1, 2), (2, 3), (5, 3))  # columns, components
NOISE = 0.05
N_RUNS, N_LAWS = 10, 2  # runs of a method; mixtures for which the records of a computed row are found
N_DRAWS, N_HELD_OUT = 10, 20_000  # of the noise, for every mixture; points
PRECISION = 1.05  # of computed records
HEADING = (
    f"{'columns':>7} {'components':>10} {'method':<22} {'records':>10} {'how':<9} {'answers':>8}"
    f" {'gap':>8} {'TV':>7} {'mean':>7} {'seconds':>8}"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table; medians."""

    n_features: int
    n_components: int
    method: str
    n_records: float
    how: str
    answers: float  # share of runs; of computed rows, the pass probability
    errors: tuple[float, ...]  # gap, total variation, means
    seconds: float  # of a fit; NaN where it was computed

    def __str__(self) -> str:
        records = f"{self.n_records:,.0f}" if self.n_records < 1e9 else f"{self.n_records:.1e}"
        seconds = "" if math.isnan(self.seconds) else f"{self.seconds:.1f}"
        gap, variation, means = self.errors
        return (
            f"{self.n_features:>7} {self.n_components:>10} {self.method:<22} {records:>10} {self.how:<9}"
            f" {self.answers:>8.2f} {gap:>8.4f} {variation:>7.4f} {means:>7.4f} {seconds:>8}"
        )


class Method(Protocol):
    """A row of the table."""

    def line(self, n_features: int, n_components: int, n_runs: int) -> Line:
        """Records and errors for one size."""
        ...


def smallest(probability: Callable[[float], float], start: float) -> float:
    """The least size that passes often enough; friends of one fit are some root of p over the root of the size away."""
    low = high = start
    while probability(low) >= GOAL:
        low /= 4
    while probability(high) < GOAL:
        low, high = high, 4 * high
    return bracket(lambda size: probability(size) < GOAL, low, high, relative=1 - 1 / PRECISION, geometric=True)[1]


@dataclass(frozen=True, slots=True)
class Computed:
    """``method="populous-single"``, whose records fit in no memory."""

    method: str
    accounting: str

    def line(self, n_features: int, n_components: int, n_runs: int) -> Line:
        """Records by bisection on the pass probability, errors by masks of drawn fits."""
        d, k = n_features, n_components
        relation = Neighbouring.REPLACE_ONE
        settings = PopulousSingle(noise=NOISE, accounting=self.accounting)
        constants = settings.constants(Problem(10**9, d, k, EPSILON, DELTA, None, relation))
        t, found, passes = constants.n_subsets, [], []
        for index in range(N_LAWS):
            rng = np.random.default_rng([index, d, k])
            law = FitLaw.of(truth_of(d, equal(k), index), rng=rng)
            steps = law.steps(t, rng=rng)

            def probability(size: float, law: FitLaw = law, steps: FloatArray = steps) -> float:
                friends = friend_table(list(law.fits(steps, size)), constants.friend_radius)
                return at_least(constants.test, constants.threshold + constants.test.bound - int(friends.sum()))

            size = smallest(probability, len(law.root) / constants.friend_radius**2)
            found.append(size)
            passes.append(probability(size))
        size, errors, noise = float(np.median(found)), [], MaskNoise(NOISE, NOISE, NOISE)
        for index in range(n_runs):
            rng = np.random.default_rng([index, d, k, 1])
            law = FitLaw.of(truth_of(d, equal(k), index), rng=rng)
            (fit,) = law.fits(law.steps(1, rng=rng), size)
            errors.append(errors_of(law.truth, valid_mixture(mask_mixture(fit, noise=noise, rng=rng), noise), rng))
        median = tuple(np.median(errors, axis=0).tolist())
        return Line(d, k, self.method, size * t, "computed", float(np.mean(passes)), median, math.nan)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A method that runs; ``start`` is where its search begins, one number for each of ``SIZES``."""

    method: str
    start: tuple[int, ...]
    step: float
    problem: dict[str, Any]  # for fit_gmm
    limited: bool = False  # the gap must be at most that of the noise

    def line(self, n_features: int, n_components: int, n_runs: int) -> Line:
        """The fewest records, by a short search; every size on the same mixtures."""
        size = n_features, n_components
        most = gap_of_noise(*size, n_runs) if self.limited else math.inf
        tried: dict[int, Line] = {}

        def enough(n_records: int) -> bool:
            tried[n_records] = self._at(*size, n_records, n_runs)
            return tried[n_records].answers >= GOAL and tried[n_records].errors[0] <= most

        found = fewest(enough, self.start[SIZES.index(size)], step=self.step)
        if not found:
            raise RuntimeError(f"{self.method} must answer with {max(tried):,} records at most, got refusals or gaps")
        return tried[found]

    def _at(self, n_features: int, n_components: int, n_records: int, n_runs: int) -> Line:
        d, k, problem = n_features, n_components, {"epsilon": EPSILON, "delta": DELTA} | self.problem
        try:
            rngs = [np.random.default_rng([index, d, k, n_records]) for index in range(n_runs)]
            runs = [trial_of(truth_of(d, equal(k), i), n_records, False, problem, rng)[0] for i, rng in enumerate(rngs)]
        except ValueError:  # too few records for any design: a refusal from public facts
            return Line(d, k, self.method, n_records, "run", 0.0, (math.inf,) * 3, math.nan)
        errors = tuple(np.median([[run.gap, run.total_variation, run.means] for run in runs], axis=0).tolist())
        seconds = float(np.median([run.seconds for run in runs]))
        answers = float(np.mean([not run.refused for run in runs]))
        return Line(d, k, self.method, n_records, "run", answers, errors, seconds)


METHODS: tuple[Method, ...] = (
    Computed("one fit, paper", "paper"),
    Computed("one fit, exact", "exact"),
    Fitted("aggregated", (68_100, 189_000, 298_000), 1.15, {"method": "populous", "noise": NOISE, "efficiency": 1.0}),
    Fitted("two-phase", (138_000, 357_000, 775_000), 1.15, {"method": "two-phase"}, limited=True),
    Fitted("sketch, no bounds", (1_000, 2_000, 4_000), 1.25, {"method": "sketch"}, limited=True),
)


def errors_of(truth: Mixture, found: Mixture, rng: np.random.Generator) -> tuple[float, float, float]:
    """Gap, total variation and largest error of a mean."""
    points = truth.sample(N_HELD_OUT, rng=rng)
    losses = truth.log_density(points) - found.log_density(points)
    variation = np.maximum(1 - np.exp(-losses), 0.0).mean()
    return float(losses.mean()), float(variation), _component_errors(truth, found)[1]


def gap_of_noise(n_features: int, n_components: int, n_runs: int) -> float:
    """Median gap of a lifted mask of the truth at ``NOISE``: what more records cannot lower."""
    rng = np.random.default_rng([n_features, n_components])
    truths = [truth_of(n_features, equal(n_components), index) for index in range(n_runs)]
    gaps = [errors_of(truth, draw, rng)[0] for truth in truths for draw in noise_draws(truth, NOISE, N_DRAWS, rng)]
    return float(np.median(gaps))


def lines(n_runs: int) -> Iterator[Line]:
    """All lines, one size after another."""
    for size in SIZES:
        for method in METHODS:
            yield method.line(*size, n_runs)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description="Records and errors of the populous methods beside a sketch.")
    parser.add_argument("--runs", type=int, default=N_RUNS, help=f"mixtures of a line (default {N_RUNS})")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    if options.json:
        print(json.dumps([asdict(line) for line in lines(options.runs)], indent=1))
        return 0
    began = time.perf_counter()
    print(HEADING)
    for line in lines(options.runs):
        print(line, flush=True)
    print(f"{time.perf_counter() - began:.0f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
