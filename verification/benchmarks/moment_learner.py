"""How much error does the moment learner have, beside EM on the same records?

``python -m verification.benchmarks.moment_learner``

Error is the largest affine-invariant distance (mean or covariance) of matched components from the truth, infinite for
a failed fit. Centres lie on a line in one column, at the corners of a triangle in more.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np
from sklearn.mixture import GaussianMixture

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.projection_moments import ProjectionMoments
from pm_dpgmm.learners.subsets import mixture_from_estimator
from pm_dpgmm.mixture.distances import bottleneck_assignment, component_distances
from pm_dpgmm.mixture.mixture import Mixture
from verification.benchmarks.seeds import at_least
from verification.benchmarks.truths import turned

COMPONENTS, FEATURES, SEPARATIONS, SIZES = (1, 2, 3), (1, 2, 5), (2, 4, 6), (2_000, 100_000)
WEIGHTS = {1: [1.0], 2: [0.4, 0.6], 3: [0.3, 0.3, 0.4]}
TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])


def truth(n_components: int, n_features: int, separation: float, rng: np.random.Generator) -> Mixture:
    """Unequal weights and covariances; neighbouring centres are ``separation`` apart, variances from 0.6 to 1.6."""
    means = np.zeros((n_components, n_features))
    if n_features == 1:
        means[:, 0] = separation * np.arange(n_components)
    else:
        means[:, :2] = separation * TRIANGLE[:n_components]
    eigenvalues = np.geomspace(0.6, 1.6, n_features) if n_features > 1 else [1.0]
    covariances = [np.asarray(eigenvalues)[:, None] * [[s]] for s in (1.0, 0.7, 1.3)]
    if n_features > 1:
        covariances = [turned(eigenvalues, rng) for _ in range(n_components)]
    return Mixture(WEIGHTS[n_components], means, covariances[:n_components])


def by_em(rows: FloatArray, n_components: int) -> Mixture:
    """scikit-learn's maximum of the likelihood."""
    return mixture_from_estimator(GaussianMixture(n_components, tol=1e-6, max_iter=500, random_state=0).fit(rows))


def by_moments(rows: FloatArray, n_components: int) -> Mixture:
    """Without a likelihood."""
    return ProjectionMoments(n_components)(rows)


def measured(learn: Callable[[FloatArray, int], Mixture], rows: FloatArray, true: Mixture) -> tuple[float, float]:
    """Error and seconds of one fit."""
    start = time.perf_counter()
    try:
        fit = learn(rows, true.n_components)
    except ValueError:
        return float("inf"), time.perf_counter() - start
    seconds = time.perf_counter() - start
    return bottleneck_assignment(component_distances(fit, true))[0], seconds


def main(arguments: list[str] | None = None) -> None:
    """Print one row for each setting: medians over the repeats."""
    parser = argparse.ArgumentParser(description="Error of the moment learner beside EM.")
    parser.add_argument("--repeats", type=at_least(1), default=3, help="data sets of 2,000 records (default 3)")
    parser.add_argument("--large", type=at_least(0), default=1, help="data sets of 100,000 records (default 1)")
    options = parser.parse_args(arguments)
    print("k,d,separation,M,moments,EM,ratio,failed,seconds,EM seconds")
    for k, d, separation, size in itertools.product(COMPONENTS, FEATURES, SEPARATIONS, SIZES):
        if k == 1 and separation != SEPARATIONS[0]:
            continue  # one component has no separation
        errors, seconds = [], []
        for repeat in range(options.repeats if size == SIZES[0] else options.large):
            rng = np.random.default_rng([k, d, separation, size, repeat])
            true = truth(k, d, separation, rng)
            rows = true.sample(size, rng=rng)
            pair = [measured(learn, rows, true) for learn in (by_moments, by_em)]
            errors.append([error for error, _ in pair])
            seconds.append([one for _, one in pair])
        ours, em = np.median(errors, axis=0)
        ratio = np.median(np.array(errors)[:, 0] / np.array(errors)[:, 1])
        failed = int(np.isinf(np.array(errors)[:, 0]).sum())
        taken = np.median(seconds, axis=0)
        print(
            f"{k},{d},{separation},{size},{ours:.3f},{em:.3f},{ratio:.1f},{failed},{taken[0]:.2f},{taken[1]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
