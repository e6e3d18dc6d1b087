"""How long do the friend table and the average of the core take, and how many fits agree at these radii?

Fits are drawn from the law of maximum likelihood on ``RECORDS`` records per component without overlap: normal means,
Wishart covariances, components in random order; a twentieth of them is shifted by half a standard deviation. The fit
radius is 1.1 times the root mean square of d_2 between two fits.
``python -m verification.benchmarks.friend_table_speed``
"""

from __future__ import annotations

import math
import statistics
import time

import numpy as np

from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.methods.populous.agreement import AgreementRule, friend_table, valid_fits
from pm_dpgmm.methods.populous.average import average_core

SIZES = ((500, 3, 5), (2000, 8, 20))  # fits, components, columns
RECORDS = 2000
N_RUNS = 3
THREADS = (1, 2)


def drawn_fits(t: int, k: int, d: int, *, rng: np.random.Generator) -> Fits:
    """``t`` fits of one mixture of ``k`` components, ten standard deviations apart."""
    factors = rng.standard_normal((k, d, 3 * d)) / math.sqrt(3 * d)
    truth = np.linalg.cholesky(factors @ np.swapaxes(factors, 1, 2))
    centres = 10 * rng.standard_normal((k, d))
    fits = Fits(np.empty((t, k)), np.empty((t, k, d)), np.empty((t, k, d, d)), np.ones(t, dtype=bool))
    degrees = RECORDS - 1 - np.arange(d)
    for i in range(t):
        order = rng.permutation(k)
        bartlett = np.tril(rng.standard_normal((k, d, d)), -1)
        bartlett[:, np.arange(d), np.arange(d)] = np.sqrt(rng.chisquare(degrees, (k, d)))
        half = truth[order] @ bartlett / math.sqrt(RECORDS)
        fits.covariances[i] = half @ np.swapaxes(half, 1, 2)
        noise = rng.standard_normal((k, d, 1)) / math.sqrt(RECORDS)
        fits.means[i] = centres[order] + (truth[order] @ noise)[..., 0]
        fits.weights[i] = rng.multinomial(k * RECORDS, np.full(k, 1 / k)) / (k * RECORDS)
    fits.means[rng.choice(t, t // 20, replace=False)] += 0.5
    return fits


def main() -> None:
    """Print one row for each size and number of threads; the kernels are compiled before the clock runs."""
    print("fits,components,columns,threads,valid,friends,validity_seconds,table_seconds,average_seconds")
    for t, k, d in SIZES:
        fits = drawn_fits(t, k, d, rng=np.random.default_rng(20261121))
        whole = 1.1 * math.sqrt(4 * (k * d * (d + 3) / 2 + (k - 1)) / RECORDS)
        rule = AgreementRule(k, d, 2 * whole / math.sqrt(k), whole)
        few = Fits(fits.weights[:9], fits.means[:9], fits.covariances[:9], fits.given[:9])
        average_core(few, friend_table(few, rule), rule, top=9)
        for n_threads in THREADS:
            times = []
            for _ in range(N_RUNS):
                start = time.perf_counter()
                valid = valid_fits(fits, rule, n_threads=n_threads)
                checked = time.perf_counter()
                friends = friend_table(fits, rule, n_threads=n_threads)
                found = time.perf_counter()
                average_core(fits, friends, rule, top=rule.core_floor(t) + t // 10)
                times.append((checked - start, found - checked, time.perf_counter() - found))
            seconds = ",".join(f"{statistics.median(column):.3g}" for column in zip(*times, strict=True))
            print(f"{t},{k},{d},{n_threads},{valid.mean():.3f},{friends.mean():.3f},{seconds}", flush=True)


if __name__ == "__main__":
    main()
