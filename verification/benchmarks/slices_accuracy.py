"""How far is a pure-DP fit above two columns from the non-private ceiling, in held-out log-density per record?

``fit_gmm(method="slices")`` at epsilon 1, replacing one record, on

- three columns: three overlapping components, bounds 8 to 16 standard deviations wide;
- five columns: three separated components with full covariances, bounds 13 to 45 standard deviations wide;
- four columns of the RAND Health Insurance Experiment (public, with point masses), four components.

The gap is the mean log-density of held-out records under the private fit minus that under scikit-learn's at tolerance
1e-6 on the same rows; 0 is as good as no privacy. The last column is the share of runs whose dispersion says that the
mixture does not fit. ``python -m verification.benchmarks.slices_accuracy``
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.mixture import GaussianMixture

from pm_dpgmm import Mixture, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.slice_fit import BAD_FIT
from verification.benchmarks.seeds import at_least
from verification.benchmarks.sets import health_insurance

N_HELD_OUT, EPSILON, POINT_MASS_FLOOR = 4_000, 1.0, 1e-3
THREE = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0, 0.0], [3.0, 2.0, -1.0], [-2.0, 3.0, 2.0]],
    [
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.6]],
        [[0.6, -0.3, 0.1], [-0.3, 0.8, 0.0], [0.1, 0.0, 1.0]],
        [[0.4, 0.1, 0.0], [0.1, 0.5, -0.2], [0.0, -0.2, 0.7]],
    ],
)


def five_columns() -> Mixture:
    """Eigenvalues 0.5 to 2.5 along random axes."""
    rng = np.random.default_rng(7)
    axes = [np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(3)]
    covariances = np.array([(q * [0.5, 0.8, 1.0, 1.5, 2.5]) @ q.T for q in axes])
    means = [[8.0, 0, 0, 2, -2], [-4.0, 7, 0, -2, 0], [-4.0, -7, 1, 0, 2]]
    return Mixture([0.3, 0.3, 0.4], means, (covariances + covariances.swapaxes(1, 2)) / 2)


def fitted(train: FloatArray, held_out: FloatArray, k: int, bound: float, floor: float) -> tuple[float, float]:
    """Gap and dispersion."""
    ceiling = GaussianMixture(k, tol=1e-6, max_iter=1_000, n_init=2, random_state=0, reg_covar=floor).fit(train)
    release = fit_gmm(train, k, epsilon=EPSILON, bounds=(-bound, bound), method="slices", progress=False)
    return float(release.log_density(held_out).mean() - ceiling.score(held_out)), release.noise["dispersion"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=at_least(1), default=10)
    repeats = parser.parse_args().repeats
    records = health_insurance()
    cases = [("three columns", THREE, 8.0, n) for n in (1_000, 3_000, 10_000, 30_000)]
    cases += [("five columns", five_columns(), 16.0, n) for n in (3_000, 10_000, 30_000, 100_000)]
    print(f"{'':15} {'n_records':>9} {'median':>8} {'worst':>8} {'misfit':>6}")
    for name, truth, bound, n_records in [*cases, ("health records", None, 1.0, len(records) - N_HELD_OUT)]:
        runs = []
        for repeat in range(repeats):
            rng = np.random.default_rng([n_records, repeat])
            if truth is None:
                order = rng.permutation(len(records))
                train, held_out = records[order[N_HELD_OUT:]], records[order[:N_HELD_OUT]]
                runs.append(fitted(train, held_out, 4, bound, POINT_MASS_FLOOR))
            else:
                runs.append(fitted(truth.sample(n_records, rng=rng), truth.sample(20_000, rng=rng), 3, bound, 1e-6))
        gaps, dispersions = np.array(runs).T
        misfits = float(np.mean(dispersions > BAD_FIT))
        print(f"{name:15} {n_records:>9,} {np.median(gaps):>8.4f} {gaps.min():>8.4f} {misfits:>6.1f}", flush=True)


if __name__ == "__main__":
    main()
