"""How many health-insurance records does the histogram method need in two columns?

Held-out log-density per record of the private fit less that of a non-private fit to the same rows, on the two columns
of ``pm-dpgmm demo`` (RAND Health Insurance Experiment, public). One row per number of records and epsilon: median,
quartiles and worst over data sets drawn without replacement. ``python -m verification.benchmarks.histogram_size``
"""

from __future__ import annotations

import argparse

import numpy as np

from pm_dpgmm.demo import BOUNDS, N_COMPONENTS, load_records, non_private_fit
from pm_dpgmm.fit import fit_gmm
from verification.benchmarks.seeds import at_least

N_RECORDS, EPSILONS, N_HELD_OUT = (500, 1_000, 2_000, 5_000, 16_000), (1.0, 0.3), 4_000


def gap(records: np.ndarray, n_records: int, epsilon: float, rng: np.random.Generator) -> float:
    """One data set: private less non-private held-out log-density per record, in nats."""
    order = rng.permutation(len(records))
    train, held_out = records[order[N_HELD_OUT : N_HELD_OUT + n_records]], records[order[:N_HELD_OUT]]
    private = fit_gmm(train, N_COMPONENTS, epsilon=epsilon, bounds=BOUNDS, progress=False)
    exact = non_private_fit(train)
    return float(private.log_density(held_out).mean() - exact.log_density(held_out).mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=at_least(1), default=10)
    repeats = parser.parse_args().repeats
    records, _ = load_records(np.random.default_rng(0))
    print(f"{'n_records':>9} {'epsilon':>8} {'median':>8} {'25%':>8} {'75%':>8} {'worst':>8}")
    for epsilon in EPSILONS:
        for n_records in N_RECORDS:
            gaps = [gap(records, n_records, epsilon, np.random.default_rng([n_records, i])) for i in range(repeats)]
            low, median, high = np.quantile(gaps, [0.25, 0.5, 0.75])
            print(f"{n_records:>9,} {epsilon:>8} {median:>8.3f} {low:>8.3f} {high:>8.3f} {min(gaps):>8.3f}", flush=True)


if __name__ == "__main__":
    main()
