"""The mixtures of Harrington and Mayolo in one column: without privacy, central and local as printed, and sound ones.

Each function gives components sorted by their means, shape (K, 3): weights, means, variances; NaN where the printed
mechanism has no answer. The printed ones follow the authors' code where the paper leaves things open: central clusters
the records by a noisy k-means with a tenth of the budget, local has one bin for each value that occurs, half of epsilon
on every bit, drops bins with half of the mass or more, and fits copies of the bins. They are not private, see
``specimens.local_central`` and ``specimens.whole_runs``; nothing here is a release.
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from pm_dpgmm import FitWarning, Mixture, fit_gmm
from pm_dpgmm._arguments import FloatArray

START, WEIGHTS, MEANS, VARIANCES = 0.1, 0.04, 0.16, 0.7  # shares of epsilon, the last two of all components
TOLERANCE, MAX_STEPS, RIDGE = 1e-3, 100, 1e-6  # of scikit-learn's GaussianMixture, as the authors use it
LEAST_LLOYD, MOST_LLOYD = 2, 7  # steps of the noisy k-means of diffprivlib, after Su et al. (2016)
RHO = 0.225  # of theirs
TRIES = 100  # points for a distance
LEAST_COUNT = 1.0


def sorted_by_mean(weights: FloatArray, means: FloatArray, variances: FloatArray) -> FloatArray:
    """(K, 3)."""
    found = np.column_stack([weights, means, variances])
    return np.asarray(found[np.argsort(means)])


def of_mixture(found: Mixture) -> FloatArray:
    """(K, 3) of a mixture in one column."""
    return sorted_by_mean(found.weights, found.means[:, 0], found.covariances[:, 0, 0])


# ---------------------------------------------------------------------- without privacy
def fit_counts(values: FloatArray, counts: FloatArray, k: int, *, n_starts: int, seed: int) -> FloatArray:
    """EM on values with counts, from the clusters of k-means: what scikit-learn does with copies of the values.

    The best of ``n_starts`` by log likelihood.
    """
    from sklearn.cluster import KMeans

    best, best_bound = np.full((k, 3), np.nan), -np.inf
    used = counts > 0
    values, counts = values[used], counts[used] / max(counts[used].sum(), 1e-300)
    if len(values) < k:
        return best
    for start in range(n_starts):
        clusters = KMeans(k, n_init=1, random_state=(seed + start) % 2**32)
        labels = clusters.fit(values[:, None], sample_weight=counts * 1e4).labels_
        found, bound = _em(values, counts, np.eye(k)[labels])
        if bound > best_bound:
            best, best_bound = found, bound
    return best


def _em(values: FloatArray, shares: FloatArray, parts: FloatArray) -> tuple[FloatArray, float]:
    """Maximisation first, then steps until the mean log likelihood changes by less than the tolerance."""
    bound = -np.inf
    law = _maximised(values, shares, parts)
    for _ in range(MAX_STEPS):
        weights, means, variances = law
        logs = np.log(weights) - 0.5 * np.log(2 * np.pi * variances) - (values[:, None] - means) ** 2 / (2 * variances)
        top = logs.max(axis=1, keepdims=True)
        parts = np.exp(logs - top)
        total = parts.sum(axis=1, keepdims=True)
        law = _maximised(values, shares, parts / total)
        before, bound = bound, float(shares @ (np.log(total) + top)[:, 0])
        if abs(bound - before) < TOLERANCE:
            break
    return sorted_by_mean(*law), bound


def _maximised(values: FloatArray, shares: FloatArray, parts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    parts = parts * shares[:, None]
    counts = parts.sum(axis=0) + 1e-15
    means = values @ parts / counts
    variances = ((values[:, None] - means) ** 2 * parts).sum(axis=0) / counts + RIDGE
    return counts / counts.sum(), means, variances


def plain(records: FloatArray, k: int, *, n_starts: int, seed: int) -> FloatArray:
    """Without privacy."""
    values, counts = np.unique(records, return_counts=True)
    return fit_counts(values, counts.astype(float), k, n_starts=n_starts, seed=seed)


# ---------------------------------------------------------------------- printed
def noisy_k_means(records: FloatArray, k: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Centres (K,) of DPLloyd with the steps and the split of Su et al. (2016), from random centres apart."""
    low, high = records.min(), records.max()
    steps_for = math.sqrt(500 * k**3 / len(records) ** 2 * (1 + np.cbrt(4 * RHO**2)) ** 3)
    n_steps = int(min(max(epsilon / steps_for, LEAST_LLOYD), MOST_LLOYD))
    each = epsilon / n_steps / (1 + np.cbrt(4 * RHO**2))
    of_counts = each * np.cbrt(4 * RHO**2)
    centres = low + (high - low) * apart(k, rng)
    for _ in range(n_steps):
        labels = np.abs(records[:, None] - centres).argmin(axis=1)
        counts = np.bincount(labels, minlength=k) + rng.laplace(scale=1 / of_counts, size=k)
        sums = np.bincount(labels, weights=records - low, minlength=k) + rng.laplace(scale=(high - low) / each, size=k)
        centres = low + np.clip(sums / np.maximum(counts, LEAST_COUNT), 0, high - low)
    return np.asarray(centres)


def apart(k: int, rng: np.random.Generator) -> FloatArray:
    """Uniform points (K,) of [0, 1], at least 2 r apart and r from the ends: the first r of 1/2, 1/4, ... with luck."""
    r = 0.5
    while True:
        found: list[float] = []
        for _ in range(TRIES):
            point = r + (1 - 2 * r) * float(rng.random())
            if all(abs(point - other) >= 2 * r for other in found):
                found.append(point)
            if len(found) == k:
                return np.array(found)
        r /= 2


def printed_central(records: FloatArray, k: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Clusters of a noisy k-means; their weights, means and variances with the printed noise; bounds of the records.

    No variance is repaired and no weight clipped; an empty cluster has mean and variance NaN.
    """
    n, width = len(records), float(np.ptp(records))
    centres = noisy_k_means(records, k, START * epsilon, rng)
    labels = np.abs(records[:, None] - centres).argmin(axis=1)
    parts = [records[labels == j] for j in range(k)]
    weights = np.array([len(part) / n for part in parts]) + rng.laplace(scale=2 / n / (WEIGHTS * epsilon), size=k)
    means = np.array([part.mean() if part.size else math.nan for part in parts])
    variances = np.array([part.var() if part.size else math.nan for part in parts])
    means = means + rng.laplace(scale=width / n * k / (MEANS * epsilon), size=k)
    variances = variances + rng.laplace(scale=(n - 1) * width**2 / n**2 * k / (VARIANCES * epsilon), size=k)
    return sorted_by_mean(weights / weights.sum(), means, variances)


def printed_local(records: FloatArray, k: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """One bit for each value that occurs, flipped at half of epsilon; debiased, clipped, rounded, copied and fitted."""
    values, counts = np.unique(records, return_counts=True)
    n, lie = len(records), 1 / (1 + math.exp(epsilon / 2))
    marks = rng.binomial(counts, 1 - lie) + rng.binomial(n - counts, lie)
    corrected = (2 * marks / n - 1) / (1 - 2 * lie)  # of the mean sign of each bin
    copies = np.where(corrected < 0, np.rint(np.maximum((corrected + 1) * n / 2, 0)), 0.0)
    return fit_counts(values, copies, k, n_starts=1, seed=int(rng.integers(2**31)))


# ---------------------------------------------------------------------- sound
def sound_sums(
    records: FloatArray, k: int, epsilon: float, bounds: tuple[float, float], rng: np.random.Generator
) -> FloatArray:
    """The printed statistics made sound: counts, sums and sums of squares of K equal public cells.

    Coordinates from 0 to 1, a third of epsilon for each kind, which moves by at most 2 in L1.
    """
    low, high = bounds
    scaled = np.clip((records - low) / (high - low), 0, 1)
    cells = np.minimum((scaled * k).astype(int), k - 1)
    counts, sums, squares = (
        np.bincount(cells, weights=scaled**power, minlength=k) + rng.laplace(scale=2 * 3 / epsilon, size=k)
        for power in range(3)
    )
    counts = np.maximum(counts, LEAST_COUNT)
    means = np.clip(sums / counts, 0, 1)
    variances = np.clip(squares / counts - means**2, 1e-4, 0.25)
    return sorted_by_mean(counts / counts.sum(), low + (high - low) * means, (high - low) ** 2 * variances)


def sound_fit(
    records: FloatArray, k: int, epsilon: float, bounds: tuple[float, float], *, method: str, seed: int
) -> FloatArray:
    """This package's "histogram" or "central" (both central), or "local", with public bounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        release = fit_gmm(
            records[:, None], k, epsilon=epsilon, bounds=bounds, method=method, random_seed=seed, progress=False
        )
    return of_mixture(release.mixture)
