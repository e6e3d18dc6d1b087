"""The rival's recipe: k-means of diffprivlib, then one Gaussian release of the moments of its hard clusters.

``accuracy`` runs this file with the interpreter of the rival's own environment, which has no ``pm_dpgmm``:
``python diffprivlib_recipe.py sent.npz fitted.npz``.

In ``sent.npz``: ``rows`` (n_records, n_features), ``seed``, ``box`` (n_features, 2) for k-means, the ball ``centre``
(n_features,) and ``radius`` for the moments, ``n_components``, ``kmeans_epsilon``, and ``noise_multiplier`` of the
Gaussian release. In ``fitted.npz``: ``weights`` (K,), ``means`` (K, D) and ``covariances`` (K, D, D), before the floors
that the caller gives every method, and ``seconds``.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np

COUNT_WEIGHT, SUM_WEIGHT, SQUARE_WEIGHT = 0.5, 1.0, 1.0  # units of the three statistics inside one Gaussian release
# Rows lie in the unit ball, so one row is a vector of at most this length; replaced, it can change its cluster.
SENSITIVITY = math.sqrt(2 * (COUNT_WEIGHT**2 + SUM_WEIGHT**2 + SQUARE_WEIGHT**2))
LEAST_SHARE = 0.01  # of the rows, for a noisy count to divide by


def labels_of(rows: Any, n_components: int, *, epsilon: float, box: Any, seed: int) -> Any:
    """Cluster of every row (n_records,) by diffprivlib's k-means, which spends ``epsilon``."""
    from diffprivlib.models import KMeans  # type: ignore[import-not-found]  # here: elsewhere this file must import

    limits = (box[:, 0], box[:, 1])
    return KMeans(n_components, epsilon=epsilon, bounds=limits, random_state=seed).fit(rows).labels_


def noisy_moments(
    rows: Any,
    labels: Any,
    n_components: int,
    *,
    centre: Any,
    radius: float,
    noise_multiplier: float,
    rng: np.random.Generator,
) -> tuple[Any, Any, Any]:
    """Weights, means and covariances of the clusters from noisy counts, sums and second moments."""
    scaled = (rows - centre) / radius
    scaled = scaled / np.maximum(1.0, np.linalg.norm(scaled, axis=1))[:, None]
    noise_scale, n_features = noise_multiplier * SENSITIVITY, rows.shape[1]
    shape = (n_features, n_features)
    counts, means, covariances = [], [], []
    for k in range(n_components):
        mine = scaled[labels == k]
        count = max(len(mine) + rng.normal(scale=noise_scale / COUNT_WEIGHT), LEAST_SHARE * len(rows))
        mean = (mine.sum(axis=0) + rng.normal(scale=noise_scale / SUM_WEIGHT, size=n_features)) / count
        # an entry beside the diagonal counts twice in the norm, so it gets half the variance
        above = np.triu(rng.normal(scale=noise_scale / SQUARE_WEIGHT, size=shape), 1) / math.sqrt(2)
        noise = above + above.T + np.diag(rng.normal(scale=noise_scale / SQUARE_WEIGHT, size=n_features))
        values, axes = np.linalg.eigh((mine.T @ mine + noise) / count - np.outer(mean, mean))
        values = np.maximum(values, noise_scale / SQUARE_WEIGHT * math.sqrt(n_features) / count)  # its own noise
        counts.append(count)
        means.append(centre + radius * mean)
        covariances.append(radius**2 * (axes * values) @ axes.T)
    return np.array(counts) / sum(counts), np.array(means), np.array(covariances)


def main(sent_path: str, fitted_path: str) -> None:
    """Fit the data set of ``sent_path`` and write the parameters to ``fitted_path``."""
    with np.load(sent_path) as sent:
        rows, box, seed, n_components = sent["rows"], sent["box"], int(sent["seed"]), int(sent["n_components"])
        start = time.perf_counter()
        labels = labels_of(rows, n_components, epsilon=float(sent["kmeans_epsilon"]), box=box, seed=seed)
        weights, means, covariances = noisy_moments(
            rows,
            labels,
            n_components,
            centre=sent["centre"],
            radius=float(sent["radius"]),
            noise_multiplier=float(sent["noise_multiplier"]),
            rng=np.random.default_rng([seed, 1]),
        )
    seconds = time.perf_counter() - start
    np.savez(fitted_path, weights=weights, means=means, covariances=covariances, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
