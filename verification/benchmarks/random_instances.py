"""How often does a private fit go wrong on problems that nobody chose?

``python -m verification.benchmarks.random_instances --first 0 --count 200`` draws Gaussian mixtures at random, fits
each one once at epsilon 1 and delta 1e-6, and prints one line of JSON for each and a summary at the end. 1 to 20
columns, 1 to 8 components with random axes and weights of at least 3 %, 1,000 to 1,000,000 records, public ball 1.2 to
100 times too wide or no bounds at all.

A failure is a gap (held-out log-density per record less the non-private fit's) below -0.3 where a private fit that
starts at the truth is above -0.05: the budget would have sufficed, the search did not find the clusters. A failure
carries the flag when the release itself says that the mixture does not fit. Without a fit from the truth, a gap below
-0.3 is a suspect.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np
from sklearn.mixture import GaussianMixture

from pm_dpgmm import Mixture, Neighbouring, Release, Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.methods.sketch.estimate import SketchFit, prior_about
from pm_dpgmm.methods.sketch.fit import refined
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.rounds import n_frames, whitened_frames
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from verification.benchmarks.peers import DELTA, MAX_STEPS, TOLERANCE, two_stage
from verification.benchmarks.seeds import seed_parser
from verification.benchmarks.sets import Domain
from verification.benchmarks.truths import draw, turned

EPSILON, N_HELD_OUT = 1.0, 10_000
N_FEATURES, MOST_TRUE_COMPONENTS = (1, 2, 3, 5, 8, 12, 20), 8
N_RECORDS, N_RECORDS_CHANCES = (1_000, 10_000, 100_000, 1_000_000), (0.2, 0.4, 0.37, 0.03)
MOST_FEATURES_AT, MOST_TRUE_COMPONENTS_AT = {1_000: 3, 10_000: 12}, {1_000: 4, 10_000: 6}
# beyond those, by number of records, even a good start fails
SEPARATIONS, BALLS = (1.5, 3.0, 6.0), (1.2, 3.0, 10.0, 100.0, None)  # None: no bounds
LEAST_WEIGHT, VARIANCES, FLOOR = 0.03, (0.3, 2.0), 1e-4
BAD_GAP, GOOD_GAP = -0.3, -0.05
GOOD_SHARES = Fraction(2, 5), Fraction(3, 5)  # of the budget, for the fit from the truth
TWO_STAGE_BALL = 1.2  # where there is none
PARAMETERS, ROWS, PEER = range(3)  # streams of one seed


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One random problem."""

    seed: int
    truth: Mixture
    separation: float  # standard deviation of the means, per column
    ball: float | None  # radius of the public ball over the tight one
    radius: float  # tight: farthest mean from 0 and 2.5 standard deviations
    n_records: int

    def rows(self) -> tuple[FloatArray, FloatArray]:
        """Training and held-out rows, the same at every call."""
        rng = np.random.default_rng([self.seed, ROWS])
        return draw(self.truth, self.n_records, rng=rng), draw(self.truth, N_HELD_OUT, rng=rng)

    def domain(self, ball: float) -> Domain:
        """The public ball at this factor."""
        return Domain.ball(ball * self.radius, self.truth.n_features, floor=FLOOR)

    def box(self) -> FloatArray | None:
        """Public bounds, or None."""
        return None if self.ball is None else self.domain(self.ball).box


@dataclass(frozen=True, slots=True)
class Result:
    """One line of output. ``gap`` is None where there was no fit; ``note`` says why."""

    seed: int
    n_records: int
    n_features: int
    n_components: int
    separation: float
    ball: float | None
    gap: float | None
    good_start: float | None
    seconds: float | None
    misfit: float | None
    flag: bool | None  # the release's own verdict; from the misfit where it has none
    note: str = ""

    @property
    def bad(self) -> bool:
        """Whether the gap is bad, whatever a good start would reach."""
        return self.gap is not None and not self.gap >= BAD_GAP

    @property
    def eligible(self) -> bool:
        """Whether the budget would have sufficed."""
        return self.good_start is not None and self.good_start > GOOD_GAP

    @property
    def failed(self) -> bool:
        """Whether the search did not find what the budget would have paid for."""
        return self.eligible and self.bad


def instance(seed: int) -> Instance:
    """The random problem with this number."""
    rng = np.random.default_rng([seed, PARAMETERS])
    d, k = int(rng.choice(N_FEATURES)), int(rng.integers(1, MOST_TRUE_COMPONENTS + 1))
    n = int(rng.choice(N_RECORDS, p=N_RECORDS_CHANCES))
    d, k = min(d, MOST_FEATURES_AT.get(n, d)), min(k, MOST_TRUE_COMPONENTS_AT.get(n, k))
    separation, ball = float(rng.choice(SEPARATIONS)), BALLS[int(rng.integers(len(BALLS)))]
    weights = rng.dirichlet(np.full(k, 2.0))
    while weights.min() < LEAST_WEIGHT:
        weights = rng.dirichlet(np.full(k, 2.0))
    means = rng.normal(scale=separation, size=(k, d))
    truth = Mixture(weights, means, [turned(rng.uniform(*VARIANCES, size=d), rng) for _ in range(k)])
    radius = float(np.linalg.norm(means, axis=1).max() + 2.5 * math.sqrt(d))
    return Instance(seed, truth, separation, ball, radius, n)


def reference(truth: Mixture, training: FloatArray) -> Mixture:
    """The non-private fit, which starts at the truth."""
    model = GaussianMixture(
        truth.n_components,
        weights_init=truth.weights,
        means_init=truth.means,
        tol=TOLERANCE,
        max_iter=MAX_STEPS,
        precisions_init=np.linalg.inv(truth.covariances),
    )
    model.fit(training)
    return Mixture(model.weights_, model.means_, model.covariances_)


def good_start_gap(problem: Instance, training: FloatArray, held_out: FloatArray, level: float) -> float:
    """Gap of a private fit of the whole budget that starts at the truth.

    ``level`` is the held-out log-density of the non-private fit.
    """
    truth = problem.truth
    n_features, centre = truth.n_features, truth.means.mean(axis=0)
    unit = np.full(n_features, problem.radius)
    start = ScaledMixture.about(truth, centre, unit)
    budget, rng, sketches = GaussianFilter.of(EPSILON, DELTA), np.random.default_rng([problem.seed, PEER]), []
    for turn, share in enumerate(GOOD_SHARES):
        frames = whitened_frames(start, unit, centre, n_frames(n_features, truth.n_components), turn=1 + turn)
        sketch, budget = noisy_sketch(
            training, frames, budget=budget, share=share, neighbouring=Neighbouring.REPLACE_ONE, rng=rng
        )
        sketches.append(sketch)
    data = SketchData.of(sketches, unit)
    found = SketchFit(data, refined(data, start, prior_about(start)), 0.0).mixture
    return float(found.log_density(held_out).mean()) - level


def fit(problem: Instance, training: FloatArray, method: str) -> tuple[Mixture, Release | None]:
    """The private fit; raises as ``fit_gmm``."""
    k = problem.truth.n_components
    if method == "two-stage":
        rng = np.random.default_rng([problem.seed, PEER])
        domain = problem.domain(problem.ball or TWO_STAGE_BALL)
        return two_stage(training, k, domain=domain, epsilon=EPSILON, rng=rng), None
    release = fit_gmm(
        training,
        k,
        epsilon=EPSILON,
        delta=DELTA,
        bounds=problem.box(),
        method=method,
        random_seed=problem.seed,
        progress=False,
    )
    return release.row_density, release


def result(seed: int, method: str) -> Result:
    """Draw, fit and score one problem."""
    problem = instance(seed)
    gap, seconds, misfit, flag, note = None, None, None, None, ""
    training, held_out = problem.rows()
    level = float(reference(problem.truth, training).log_density(held_out).mean())
    start = time.perf_counter()
    try:
        fitted, release = fit(problem, training, method)
        seconds = time.perf_counter() - start
    except ValueError as error:  # what the method does not support; every instance is valid input
        note = f"not run: {error}"
    except Unstable:
        note = "refused"
    else:
        gap = float(fitted.log_density(held_out).mean()) - level
        if release is not None:
            misfit, flag = release.noise.get("misfit"), release.flag is not None
    truth = problem.truth
    good = good_start_gap(problem, training, held_out, level)
    return Result(
        seed,
        problem.n_records,
        truth.n_features,
        truth.n_components,
        problem.separation,
        problem.ball,
        gap,
        good,
        None if seconds is None else round(seconds, 3),
        misfit,
        None if flag is None else bool(flag),
        note,
    )


def summary(results: Iterable[Result]) -> dict[str, object]:
    """Counts, medians and seeds of what went wrong."""
    every = list(results)
    ran = [one for one in every if one.gap is not None]
    failures = [one for one in every if one.failed]
    suspects = [one for one in every if one.bad and one.good_start is None]
    eligible = [one.gap for one in ran if one.eligible and one.gap is not None]
    gaps = [one.gap for one in ran if one.gap is not None]
    seconds = [one.seconds for one in ran if one.seconds is not None]
    return {
        "instances": len(every),
        "not_run": sum(one.note.startswith("not run") for one in every),
        "refused": [one.seed for one in every if one.note == "refused"],
        "eligible": len(eligible),
        "failures": len(failures),
        "failing_seeds": [one.seed for one in failures],
        "failures_flagged": sum(bool(one.flag) for one in failures) / len(failures) if failures else None,
        "suspects": len(suspects),
        "suspect_seeds": [one.seed for one in suspects],
        "flagged_but_not_bad": [one.seed for one in ran if one.flag and not one.bad],
        "median_gap": float(np.median(gaps)) if gaps else None,
        "median_gap_of_eligible": float(np.median(eligible)) if eligible else None,
        "worst_gap_of_eligible": min(eligible) if eligible else None,
        "median_seconds": float(np.median(seconds)) if seconds else None,
        "most_seconds": max(seconds, default=None),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print one line for each instance and the summary; exit status 1 when there are failures."""
    parser = seed_parser(
        "Private fits of random mixtures: how often do they go wrong?",
        count=200,
        counted="number of instances (default 200)",
    )
    parser.add_argument("--method", choices=("sketch", "two-stage"), default="sketch")
    options = parser.parse_args(arguments)
    results = []
    for seed in range(options.first, options.first + options.count):
        results.append(result(seed, options.method))
        print(json.dumps(asdict(results[-1])), flush=True)
    print(json.dumps({"summary": summary(results)}, indent=1))
    return int(any(one.failed for one in results))


if __name__ == "__main__":
    sys.exit(main())
