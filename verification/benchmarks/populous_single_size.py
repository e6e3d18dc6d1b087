"""How many records does the paper's populous estimator need before its test passes?

The easiest case: one Gaussian in one column, (epsilon, delta) = (1, 1e-6). Fits of t subsets of m records are drawn
from their sampling law (mean N(0, 1/m), variance 1 + N(0, 2/m)), so that no billion records are needed; the friend
table and the thresholds are the package's own. ``python -m verification.benchmarks.populous_single_size``
"""

from __future__ import annotations

import math

import numpy as np

from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous_single.agreement import friend_table
from pm_dpgmm.methods.populous_single.method import Constants, PopulousSingle
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Neighbouring

SUBSET_SIZES, N_REPEATS = (1e6, 2e6, 3e6, 1e7, 1e9, 1e11), 3


def pass_probability(constants: Constants, size: float, rng: np.random.Generator) -> float:
    """Probability over the test's noise that one draw of fits passes."""
    t = constants.n_subsets
    means = rng.normal(size=t) / math.sqrt(size)
    variances = 1 + rng.normal(size=t) * math.sqrt(2 / size)
    fits: list[Mixture | None] = [Mixture([1.0], [[m]], [[[v]]]) for m, v in zip(means, variances, strict=True)]
    missing = constants.threshold + constants.test.bound - int(friend_table(fits, constants.friend_radius).sum())
    return at_least(constants.test, missing)


def at_least(test: TruncatedLaplaceProfile, value: int) -> float:
    """P[noise >= value] for the test's noise, summed over its table."""
    z = np.arange(-test.bound, test.bound + 1)
    mass = np.exp(-np.abs(z) / test.scale)
    return float(mass[z >= value].sum() / mass.sum())


def main() -> None:
    """Print one row per accounting and subset size."""
    problem = Problem(10**9, 1, 1, 1.0, 1e-6, None, Neighbouring.REPLACE_ONE)
    print(f"{'accounting':>10} {'subsets':>8} {'friend radius':>14} {'records':>10} {'passes':>7}")
    for accounting in ("exact", "paper"):
        constants = PopulousSingle(accounting=accounting).constants(problem)
        for size in SUBSET_SIZES:
            rng = np.random.default_rng([len(accounting), int(math.log2(size))])
            passes = np.mean([pass_probability(constants, size, rng) for _ in range(N_REPEATS)])
            records, radius = size * constants.n_subsets, constants.friend_radius
            print(f"{accounting:>10} {constants.n_subsets:>8} {radius:>14.2e} {records:>10.1e} {passes:>7.3f}")


if __name__ == "__main__":
    main()
