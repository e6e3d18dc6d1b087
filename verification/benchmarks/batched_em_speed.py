"""How much faster is ``BatchedEM`` than a loop over scikit-learn's EM, at the same starts, tolerance and error?

500 subsets of ``truths.separated()``: three components in five columns. In every round scikit-learn fits the next of
its subsets on one thread, and ``BatchedEM`` all of them on one thread and on two; ratios are of seconds a subset, the
median over rounds with the smallest and largest. With 1,000,000 records scikit-learn fits 40 of the 500 subsets in all
and its time is scaled.
Errors compare the same subsets: mean distance d_2 from the truth, mean log-likelihood of a record, and the share of
subsets where the log-likelihood of ``BatchedEM`` is lower by more than 0.01 in all. The exit status is 1 where a ratio
misses its goal or the error is larger by a hundredth.
``python -m verification.benchmarks.batched_em_speed``
"""

from __future__ import annotations

import itertools
import math
import time
import warnings

import numpy as np

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.learners.subsets import mixture_from_estimator
from pm_dpgmm.methods.populous.agreement import distance_lifted
from verification.benchmarks.truths import draw, separated

N_SUBSETS, N_ROUNDS = 500, 5
SIZES = {100_000: 500, 1_000_000: 40}  # records, and the subsets that scikit-learn fits
GOALS = {(100_000, 1): 11.0, (100_000, 2): 18.0, (1_000_000, 1): 4.0, (1_000_000, 2): 7.0}  # ratios, by threads
HEADER = (
    "records,records_a_subset,rival_subsets,threads,seconds,rival_seconds_scaled,ratio,ratio_low,ratio_high,goal,"
    "error,rival_error,likelihood,rival_likelihood,lower"
)


def rival_fit(subset: FloatArray, settings: BatchedEM, *, n_components: int, seed: int) -> Mixture:
    """scikit-learn's EM with the same number of starts, tolerance and addition to the variances."""
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        n_components,
        tol=settings.tol,
        n_init=settings.n_init,
        max_iter=settings.max_iter,
        reg_covar=settings.reg,
        random_state=seed,
    )
    return mixture_from_estimator(model.fit(subset))


def distance_to(truth: Mixture, fit: Mixture) -> float:
    """d_2 of the fit from the truth, at the best order of its components."""
    k = truth.n_components
    apart = distance_lifted(truth.means[:, None], truth.covariances[:, None], fit.means, fit.covariances)
    weights = 2 * k * k * (truth.weights[:, None] - fit.weights) ** 2
    whole = apart**2 + weights
    return min(math.sqrt(whole[range(k), order].sum()) for order in itertools.permutations(range(k)))


def compare(n: int, n_rival: int, *, rng: np.random.Generator) -> bool:
    """Print one row for each number of threads; whether all goals are met."""
    from threadpoolctl import threadpool_limits

    truth, settings = separated(), BatchedEM()
    k, size = truth.n_components, n // N_SUBSETS
    records = draw(truth, n, rng=rng)
    edges = np.arange(N_SUBSETS + 1) * size
    times: dict[int, list[float]] = {0: [], 1: [], 2: []}  # seconds a subset, by threads; 0 is scikit-learn
    rivals: list[Mixture] = []
    fits = settings.fit_all(records, edges[:3], k, seeds=[0, 1])  # compiles before the clock runs
    for places in np.array_split(np.arange(n_rival), N_ROUNDS):
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a run may end at the most steps
            start = time.perf_counter()
            rivals += [
                rival_fit(records[edges[i] : edges[i + 1]], settings, n_components=k, seed=int(i)) for i in places
            ]
            times[0].append((time.perf_counter() - start) / len(places))
        for n_threads in (1, 2):
            start = time.perf_counter()
            fits = settings.fit_all(records, edges, k, seeds=range(N_SUBSETS), n_threads=n_threads)
            times[n_threads].append((time.perf_counter() - start) / N_SUBSETS)
    ours = [Mixture(*parts) for parts in zip(fits.weights, fits.means, fits.covariances, strict=True)][:n_rival]
    errors = [np.mean([distance_to(truth, fit) for fit in found]) for found in (ours, rivals)]
    reached = np.array(
        [
            [fit.log_density(records[edges[i] : edges[i + 1]]).mean() for i, fit in enumerate(found)]
            for found in (ours, rivals)
        ]
    )
    lower = np.mean((reached[1] - reached[0]) * size > 0.01)
    met = errors[0] <= 1.01 * errors[1]
    for n_threads in (1, 2):
        ratios = np.array(times[0]) / np.array(times[n_threads])
        goal = GOALS[n, n_threads]
        met = met and np.median(ratios) >= goal
        seconds, rival = (N_SUBSETS * np.median(times[which]) for which in (n_threads, 0))
        print(
            f"{n},{size},{n_rival},{n_threads},{seconds:.3g},{rival:.3g},{np.median(ratios):.1f},{ratios.min():.1f},"
            f"{ratios.max():.1f},{goal:g},{errors[0]:.4f},{errors[1]:.4f},{reached[0].mean():.6f},{reached[1].mean():.6f},"
            f"{lower:.3f}",
            flush=True,
        )
    return bool(met)


def main() -> int:
    """Print a row for each size and number of threads; 1 if a goal is missed."""
    rng = np.random.default_rng(20261122)
    print(HEADER)
    met = [compare(n, n_rival, rng=rng) for n, n_rival in SIZES.items()]
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
