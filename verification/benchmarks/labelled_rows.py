"""Are posterior means of many vectors with a separated mixture prior as near to the truth as exact draws would be?

``python -m verification.benchmarks.labelled_rows [--seeds N] [--chains N] [--draws N] [--tune N] [--skip-readme]``

1. 200 rows, each N(x, 0.5^2) of its own x, whose prior has two components 6 standard deviations apart: the posterior of
   each row is a mixture known in closed form. For each seed the share of rows whose mean of draws is off by more than
   0.2 posterior standard deviations; beside it the share that independent draws of the known posteriors give, as many
   as there were, and as many as the draws were worth (effective size of each row's mean). Target: no more rows in all
   than independent draws of the same effective number give in 999 of 1000 repetitions, so a right sampler misses it
   once in 1000 runs.
2. README's first model of its section on PyMC, ``pm.sample()`` as it is there, 60 rows: the worst row is off by at most
   0.15 posterior standard deviations.

Run it with each supported PyMC; exit status 1 when a target was missed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.posterior_draws import posterior_of
from verification.benchmarks.seeds import at_least

FloatArray = NDArray[np.float64]

PAIR = Mixture([0.5, 0.5], [[0.0], [6.0]], [[[1.0]], [[1.0]]])
NOISE, N_ROWS = 0.5, 200
LARGEST_ERROR, WORST_README = 0.2, 0.15  # in posterior standard deviations
REPETITIONS, QUANTILE = 1000, 0.999  # of independent draws; the order statistic is exact at 1000


class Rows(NamedTuple):
    """Known posteriors of rows of one column: every field (N, K), and what they make, (N,)."""

    weights: FloatArray
    means: FloatArray
    deviations: FloatArray
    mean: FloatArray
    deviation: FloatArray


def exact_rows(mixture: Mixture, seen: FloatArray, noise: float) -> Rows:
    """Posteriors of x given y ~ N(x, noise^2), for each of ``seen``, (N,)."""
    prior_means, variances = mixture.means[:, 0], mixture.covariances[:, 0, 0]
    spread = Mixture(mixture.weights, mixture.means, mixture.covariances + noise**2)
    weights = spread.responsibilities(seen[:, None])
    gains = variances / (variances + noise**2)
    means = prior_means + gains * (seen[:, None] - prior_means)
    deviations = np.broadcast_to(np.sqrt(gains) * noise, means.shape)
    mean = (weights * means).sum(axis=1)
    variance = (weights * (deviations**2 + (means - mean[:, None]) ** 2)).sum(axis=1)
    return Rows(weights, means, deviations, mean, np.sqrt(variance))


def errors_of(rows: Rows, draws: FloatArray) -> FloatArray:
    """Errors of the means of ``draws`` (chain, draw, N), in posterior standard deviations, (N,)."""
    return np.asarray(np.abs(draws.mean(axis=(0, 1)) - rows.mean) / rows.deviation)


def independent_errors(rows: Rows, numbers: FloatArray, *, rng: np.random.Generator) -> FloatArray:
    """The same for ``numbers`` (N,) of independent draws of every row, repeated, (REPETITIONS, N).

    How many draws each component gives is drawn, and then their sum: as exact as drawing them all.
    """
    whole = np.maximum(1, np.round(numbers)).astype(int)
    shape = (REPETITIONS, len(whole))
    counts = rng.multinomial(np.broadcast_to(whole, shape), rows.weights)  # (R, N, K)
    spread = np.sqrt((counts * rows.deviations**2).sum(axis=-1)) * rng.standard_normal(shape)
    means = ((counts * rows.means).sum(axis=-1) + spread) / whole
    return np.asarray(np.abs(means - rows.mean) / rows.deviation)


def sampled(prior: Callable[..., Any], seen: FloatArray, noise: float, *, seed: int, **settings: Any) -> FloatArray:
    """Draws (chain, draw, N) of ``pm.sample``; ``prior`` adds the variable "x" of given ``dims`` to a model."""
    import pymc as pm

    with pm.Model(coords={"row": range(len(seen))}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS")
        pm.Normal("y", prior(dims=("row", "feature")), noise, observed=seen[:, None])
        idata = pm.sample(cores=1, random_seed=seed, progressbar=False, compute_convergence_checks=False, **settings)
    return np.asarray(posterior_of(idata)["x"].values[..., 0])


def effective_numbers(draws: FloatArray) -> FloatArray:
    """Independent draws whose mean is as exact as that of each row, (N,)."""
    import arviz as az

    return np.array([float(az.ess(draws[..., i], method="mean")) for i in range(draws.shape[-1])])


def separated_rows(seeds: int, **settings: Any) -> bool:
    """One line per seed, and all together; whether the target was reached."""
    from pm_dpgmm.bayes.prior.priors import mixture_prior

    prior = partial(mixture_prior, "x", PAIR)
    print("seed,off,exact_same_number,exact_same_effective,worst,least_effective,seconds")
    found, same_number, same_effective = 0, np.zeros(REPETITIONS), np.zeros(REPETITIONS)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        seen = PAIR.sample(N_ROWS, rng=rng)[:, 0] + NOISE * rng.standard_normal(N_ROWS)
        rows = exact_rows(PAIR, seen, NOISE)
        start = time.perf_counter()
        draws = sampled(prior, seen, NOISE, seed=seed, **settings)
        seconds = time.perf_counter() - start
        errors, effective = errors_of(rows, draws), effective_numbers(draws)
        off = int((errors > LARGEST_ERROR).sum())
        counts = [
            (independent_errors(rows, numbers, rng=rng) > LARGEST_ERROR).sum(axis=1)
            for numbers in (np.full(N_ROWS, float(draws[..., 0].size)), effective)
        ]
        found, same_number, same_effective = found + off, same_number + counts[0], same_effective + counts[1]
        shares = [off / N_ROWS, *(count.mean() / N_ROWS for count in counts)]
        print(
            f"{seed},{','.join(f'{share:.4f}' for share in shares)},{errors.max():.3f},{effective.min():.0f},"
            f"{seconds:.0f}",
            flush=True,
        )
    allowed = float(np.quantile(same_effective, QUANTILE, method="higher"))
    n = seeds * N_ROWS
    print(
        f"# {found} of {n} rows off ({found / n:.2%}); independent draws: {same_number.mean() / n:.2%}, of the same"
        f" effective number {same_effective.mean() / n:.2%}; allowed {allowed:.0f} rows"
    )
    return found <= allowed


def readme_rows(seed: int) -> bool:
    """The worst of 60 rows; whether the target was reached."""
    import pm_dpgmm as dpg

    ages = np.random.default_rng(1).normal([[30.0]] * 700 + [[65.0]] * 300, 6.0)
    release = dpg.fit_gmm(ages, n_components=2, epsilon=1.0, bounds=(0, 100), random_seed=seed, progress=False)
    rng, noise = np.random.default_rng(seed), 2.0
    seen = release.density.sample(60, rng=rng)[:, 0] + noise * rng.standard_normal(60)
    draws = sampled(partial(release.prior, "x"), seen, noise, seed=seed)
    worst = float(errors_of(exact_rows(release.density, seen, noise), draws).max())
    print(f"# README's model: the worst of 60 rows is off by {worst:.3f} posterior standard deviations")
    return worst <= WORST_README


def main() -> int:
    """Command line."""
    import pymc as pm

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=at_least(1), default=20)
    parser.add_argument("--chains", type=at_least(1), default=2)
    parser.add_argument("--draws", type=at_least(1), default=500)
    parser.add_argument("--tune", type=at_least(0), default=500)
    parser.add_argument("--skip-readme", action="store_true")
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(f"# PyMC {pm.__version__}, {arguments.chains} chains of {arguments.tune} + {arguments.draws}")
    right = arguments.skip_readme or readme_rows(1)
    right &= separated_rows(arguments.seeds, chains=arguments.chains, draws=arguments.draws, tune=arguments.tune)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
