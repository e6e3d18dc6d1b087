"""The rival's recipe: k-means of diffprivlib, then one Gaussian release of the moments of its hard clusters.

``one_column_accuracy`` runs this file with the interpreter of the rival's own environment, which has no ``pm_dpgmm``:
``python diffprivlib_recipe.py sent.npz fitted.npz``.

In ``sent.npz``: ``rows`` (n_fits, n_records), ``seeds`` (n_fits,), ``bounds`` (2,), ``n_components``,
``kmeans_epsilon``, and ``noise_multiplier`` of the Gaussian release. In ``fitted.npz``: ``weights``, ``means`` and
``variances``, each (n_fits, n_components), before the floors that the caller gives every method.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

COUNT_WEIGHT, SUM_WEIGHT, SQUARE_WEIGHT = 0.5, 1.0, 1.0  # units of the three statistics inside one Gaussian release
# Rows lie in [-1, 1], so one row is a vector of at most this length; replaced, it can leave one cluster for another.
SENSITIVITY = math.sqrt(2 * (COUNT_WEIGHT**2 + SUM_WEIGHT**2 + SQUARE_WEIGHT**2))
LEAST_SHARE = 0.01  # of the rows, for a noisy count to divide by


def labels_of(rows: Any, n_components: int, *, epsilon: float, bounds: Any, seed: int) -> Any:
    """Cluster of every row (n_records,) by diffprivlib's k-means, which spends ``epsilon``."""
    from diffprivlib.models import KMeans  # type: ignore[import-not-found]  # here: elsewhere this file must import

    limits = (float(bounds[0]), float(bounds[1]))
    return KMeans(n_components, epsilon=epsilon, bounds=limits, random_state=seed).fit(rows[:, None]).labels_


def noisy_moments(
    rows: Any, labels: Any, n_components: int, *, bounds: Any, noise_multiplier: float, rng: np.random.Generator
) -> tuple[Any, Any, Any]:
    """Weights, means and variances of the clusters from noisy counts, sums and sums of squares."""
    centre, radius = np.mean(bounds), (bounds[1] - bounds[0]) / 2
    scaled = np.clip((rows - centre) / radius, -1, 1)
    noise_scale = noise_multiplier * SENSITIVITY

    def release(values: Any, weight: float) -> Any:
        exact = np.bincount(labels, weights=values, minlength=n_components)
        return exact + rng.normal(scale=noise_scale / weight, size=n_components)

    counts = np.maximum(release(np.ones(len(rows)), COUNT_WEIGHT), LEAST_SHARE * len(rows))
    means = release(scaled, SUM_WEIGHT) / counts
    variances = release(scaled**2, SQUARE_WEIGHT) / counts - means**2
    variances = np.maximum(variances, noise_scale / SQUARE_WEIGHT / counts)  # below its own noise nothing is known
    return counts / counts.sum(), centre + radius * means, radius**2 * variances


def main(sent_path: str, fitted_path: str) -> None:
    """Fit every data set of ``sent_path`` and write the parameters to ``fitted_path``."""
    with np.load(sent_path) as sent:
        n_components, bounds = int(sent["n_components"]), sent["bounds"]
        epsilon, noise_multiplier = float(sent["kmeans_epsilon"]), float(sent["noise_multiplier"])
        fits = []
        for rows, seed in zip(sent["rows"], sent["seeds"], strict=True):
            labels = labels_of(rows, n_components, epsilon=epsilon, bounds=bounds, seed=int(seed))
            rng = np.random.default_rng([int(seed), 1])  # apart from the stream of k-means
            fits.append(
                noisy_moments(rows, labels, n_components, bounds=bounds, noise_multiplier=noise_multiplier, rng=rng)
            )
    weights, means, variances = (np.array(values) for values in zip(*fits, strict=True))
    np.savez(fitted_path, weights=weights, means=means, variances=variances)


if __name__ == "__main__":
    main(*sys.argv[1:])
