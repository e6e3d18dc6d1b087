"""How often does the robust normal law pass its test, and how far is it from the truth?

Figures of docs/robustness-to-privacy.md, at epsilon 1 and delta 1e-6. One row per number of records and kind of sample:
mean and least probability of passing, and errors in standard deviations of those that passed.
"""

from __future__ import annotations

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.normal_scores import CountRanges, arrangement
from pm_dpgmm.mechanisms.robust_normal import certified_draw, robust_design

EPSILON, DELTA, N_REPEATS = 1.0, 1e-6, 20
SIZES, FAR = (1200, 1500, 2000), (0.0, 0.05, 0.1)  # records, share of them far out


def sample(n: int, far: float, rng: np.random.Generator) -> FloatArray:
    """Standard normal records, some of them far out on one side."""
    records = rng.normal(size=n)
    n_far = round(far * n)
    records[:n_far] = 1e6 * (1 + rng.random(n_far))
    return records


def row(n: int, far: float, rng: np.random.Generator) -> str:
    """One line of the table."""
    design = robust_design(n, EPSILON, DELTA)
    passing, laws = [], []
    for _ in range(N_REPEATS):
        found = arrangement(sample(n, far, rng), CountRanges.of(n), limit=design.limit)
        passing.append(design.table.probability(design.level(found.volumes)))
        law = certified_draw(found, design, rng=rng)
        laws += [law] if law else []
    means, deviations = np.array(laws).reshape(-1, 2).T
    errors = [float(np.sqrt(np.mean(x**2))) if x.size else np.nan for x in (means, np.log(deviations))]
    return f"{n},{far},{np.mean(passing):.3f},{min(passing):.3f},{errors[0]:.3f},{errors[1]:.3f}"


def main() -> None:
    """Print the table."""
    print("records,far out,mean probability,least,error of the mean,of the log deviation")
    for n in SIZES:
        for far in FAR:
            print(row(n, far, np.random.default_rng(n)), flush=True)


if __name__ == "__main__":
    main()
