"""From noisy moments to starting mixtures: which cells to split, how to trust a noisy covariance, what to merge.

Post-processing: only released and public numbers come in. Everything is in the unit of the partition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.quiet import without_warnings
from pm_dpgmm.mechanisms.moments import COUNT_WEIGHT, NoisyMoments, VoronoiPartition
from pm_dpgmm.methods.sketch.scaled_mixture import FLOOR, ScaledMixture
from pm_dpgmm.privacy.noise import IntArray

REACH = 2.2  # radius of a cell, in root mean square distances of its records
APART = 0.8  # halves of a cell are put at +- this many standard deviations along its longest axis
SPLIT, LOST = 6.0, 0.35  # a cell is split above SPLIT sd sqrt(D) records, dropped below LOST times as many
MIXED = 0.2  # a cell is split only if its spread, times its records, is at least this share of the largest
TYPICAL, WIDEST = 0.25, 0.5  # of a cell, in the unit: deviation, and largest variance for each column
TRUSTED = 2.0  # a cell with fewer than TRUSTED sd sqrt(D) records says nothing
LEAST_COUNT = 0.002  # share of the records that a cell is taken to have at least
SYNTHETIC, TRIES, EM_STEPS = 4000, 5, 60  # of the EM runs on synthetic records; TRIES gain 0.07 nats with point masses
START_SEED = 20241  # public: starting points are post-processing


def leaves_of(moments: NoisyMoments, n_records: float, *, least_count: float = LEAST_COUNT) -> ScaledMixture:
    """Means and covariances of the parts, with the noise of the covariances taken into account."""
    partition = moments.partition
    counts = np.maximum(moments.counts, least_count * n_records)
    averages = np.clip(moments.sums / counts[:, None], -1.0, 1.0)
    reach = math.sqrt(partition.centres.shape[1])  # of the first cell
    means = np.clip(partition.centres + partition.radii[:, None] * averages, -reach, reach)
    second = moments.squares / counts[:, None, None] - averages[:, :, None] * averages[:, None, :]
    scales, sizes = moments.noise_scale / counts, np.square(partition.radii)
    public = TYPICAL**2 / sizes, WIDEST * means.shape[1] / sizes
    shrunk = [_shrunk(*item) for item in zip(second, scales, *public, strict=True)]
    return ScaledMixture.of(counts / counts.sum(), means, np.array(shrunk) * sizes[:, None, None])


def variance_error(root: NoisyMoments, n_records: float) -> float:
    """Standard deviation of the noise on a variance of the first cell, in half-widths squared."""
    return root.noise_scale / n_records * root.partition.centres.shape[1]


def mostly_noise(root: NoisyMoments, n_records: float) -> bool:
    """Whether the first cell's mean variance, over all columns, has a larger error than what is typical."""
    return variance_error(root, n_records) / math.sqrt(root.partition.centres.shape[1]) > TYPICAL**2


def trusted_leaves(moments: NoisyMoments, n_records: float) -> ScaledMixture:
    """Those cells that hold more than noise, or the fullest, of sizes that noise does not explain.

    With many columns a little noise on the size of a cell is much on its likelihood, so cells whose sizes differ no
    more than noise lets them are given one: the logarithms of their mean variances are moved towards their average.
    """
    leaves, n_features = leaves_of(moments, n_records), moments.partition.centres.shape[1]
    least = TRUSTED * moments.noise_scale * math.sqrt(n_features)
    keep = moments.counts >= min(least, float(moments.counts.max()))
    weights = leaves.weights[keep] / leaves.weights[keep].sum()
    variances = np.trace(leaves.covariances[keep], axis1=1, axis2=2) / n_features
    records = np.maximum(moments.counts[keep], 1.0)
    noise = moments.noise_scale * np.square(moments.partition.radii[keep]) / records / math.sqrt(n_features) / variances
    middle = float(weights @ np.log(variances))
    offsets = np.log(variances) - middle
    spread = max(0.0, float(weights @ (np.square(offsets) - np.square(noise))))
    kept = offsets * spread / (spread + np.square(noise) + 1e-12)
    scales = np.exp(kept - offsets)
    return ScaledMixture.of(weights, leaves.means[keep], leaves.covariances[keep] * scales[:, None, None])


def _shrunk(matrix: FloatArray, noise_scale: float, typical: float, widest: float) -> FloatArray:
    """A noisy covariance moved towards a multiple of the identity by what its noise explains, then floored and cut.

    The multiple is the mean variance, moved towards a ``typical`` one by what its noise explains: with few records the
    next cell would be as wide as the noise is large, have more of it, and so on, up to 47 half-widths of the bounds in
    five levels. No variance is above ``widest``. The noise has ``noise_scale`` on the diagonal and 1/sqrt(2) of it off
    it, so its squared Frobenius norm is noise_scale^2 D (D + 1)/2 on average.
    """
    n_features = len(matrix)
    error = noise_scale / math.sqrt(n_features)
    told = 1 / (1 + (error / typical) ** 2)
    measured = typical + told * (np.trace(matrix) / n_features - typical)
    level = max(measured, error * math.sqrt(told), FLOOR)
    rest = matrix - level * np.eye(n_features)
    explained = noise_scale**2 * n_features * (n_features + 1) / 2 / max(float(np.square(rest).sum()), 1e-300)
    trust = max(0.0, 1 - explained) if n_features > 1 else 0.0
    values, vectors = np.linalg.eigh(level * np.eye(n_features) + trust * rest)
    least = max(FLOOR, 0.03 * level, min(0.3 * level, 0.5 * trust * noise_scale * math.sqrt(n_features)))
    most = min(4.0, widest)
    kept = (vectors * np.clip(values, min(least, most), most)) @ vectors.T
    return np.asarray((kept + kept.T) / 2)


def level_sizes(n_leaves: int) -> list[int]:
    """Numbers of cells, level by level: doubled up to ``n_leaves``, then two levels in which they only move."""
    sizes = [1]
    while sizes[-1] < n_leaves:
        sizes.append(min(2 * sizes[-1], n_leaves))
    return sizes + [n_leaves] * (2 if n_leaves > 1 else 0)


def next_cells(moments: NoisyMoments, leaves: ScaledMixture, size: int) -> VoronoiPartition:
    """Centres of the next level: cells with many records and a long axis are cut in two, lost ones dropped.

    While one cell holds several clusters, none that holds a single one is cut: its pieces would take cells that others
    need, and each piece has more noise.
    """
    partition, n_features = moments.partition, leaves.means.shape[1]
    least = SPLIT * moments.noise_scale / COUNT_WEIGHT / 2 * math.sqrt(n_features)
    values, vectors = np.linalg.eigh(leaves.covariances)
    worth = np.where(moments.counts > least, moments.counts * values[:, -1], -1.0)
    order = np.argsort(-worth)[: max(0, size - len(worth))]
    split = {int(j) for j in order if worth[j] > max(0.0, MIXED * float(worth.max()))}
    centres, squares = [], []
    for j, (mean, spectrum) in enumerate(zip(leaves.means, values, strict=True)):
        total, longest = spectrum.sum(), spectrum[-1]
        if j in split:
            offset = APART * math.sqrt(longest) * vectors[j, :, -1]
            centres += [mean + offset, mean - offset]
            squares += [total - longest / 2] * 2
        elif moments.counts[j] >= LOST * least or len(worth) == 1:
            centres.append(mean)
            squares.append(total)
    if not centres:  # nothing but noise: stay where the records are
        centres, squares = list(leaves.means), list(values.sum(axis=1))
    return VoronoiPartition(partition.origin, partition.unit, np.array(centres), REACH * np.sqrt(squares))


def merged(leaves: ScaledMixture, n_components: int) -> ScaledMixture:
    """Merge pairs, each time the one that costs least Kullback-Leibler divergence.

    Source: A. R. Runnalls, Kullback-Leibler approach to Gaussian mixture reduction, 2007.
    """
    while leaves.n_components > n_components:
        w, s = leaves.weights, leaves.covariances
        logs = np.linalg.slogdet(s)[1]
        i, j = np.triu_indices(len(w), 1)
        costs = (w[i] + w[j]) * np.linalg.slogdet(_pooled(leaves, i, j)[2])[1] - w[i] * logs[i] - w[j] * logs[j]
        best = int(np.argmin(costs))
        leaves = merged_pair(leaves, int(i[best]), int(j[best]))
    return leaves


def merged_pair(leaves: ScaledMixture, i: int, j: int) -> ScaledMixture:
    """Components i and j as one, the last, with their weight, mean and covariance."""
    keep = (np.arange(leaves.n_components) != i) & (np.arange(leaves.n_components) != j)
    weight, mean, covariance = _pooled(leaves, np.array([i]), np.array([j]))
    return ScaledMixture.of(
        np.append(leaves.weights[keep], weight),
        np.vstack([leaves.means[keep], mean]),
        np.concatenate([leaves.covariances[keep], covariance]),
    )


def _pooled(leaves: ScaledMixture, i: IntArray, j: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights (P,), means (P, D) and covariances (P, D, D) of pairs."""
    w, m, s = leaves.weights, leaves.means, leaves.covariances
    total = w[i] + w[j]
    share = (w[i] / total)[:, None]
    gap = m[i] - m[j]
    pooled = share[:, :, None] * s[i] + (1 - share)[:, :, None] * s[j]
    pooled = pooled + (share * (1 - share))[:, :, None] * gap[:, :, None] * gap[:, None, :]
    return total, share * m[i] + (1 - share) * m[j], pooled


def padded(leaves: ScaledMixture, n_components: int) -> ScaledMixture:
    """Cut the heaviest Gaussian in two along its longest axis until there are enough."""
    w, m, s = leaves.weights.copy(), leaves.means.copy(), leaves.covariances.copy()
    while len(w) < n_components:
        j = int(np.argmax(w))
        values, vectors = np.linalg.eigh(s[j])
        axis = vectors[:, -1] * math.sqrt(values[-1])
        narrow = s[j] - 0.4 * np.outer(axis, axis)
        w[j] /= 2
        w, m = np.append(w, w[j]), np.vstack([m, m[j] + 0.7 * axis])
        m[j] -= 0.7 * axis
        s[j] = narrow
        s = np.concatenate([s, narrow[None]])
    return ScaledMixture.of(w, m, s)


def starts(leaves: ScaledMixture, n_components: int) -> list[ScaledMixture]:
    """Mixtures of ``n_components`` to start from: the best EM runs on synthetic records from the cells, and merging."""
    base = merged(leaves, n_components)
    if len(leaves.weights) <= n_components or n_components == 1:
        return [padded(base, n_components)]
    rng = np.random.default_rng(START_SEED)
    labels = rng.choice(len(leaves.weights), SYNTHETIC, p=leaves.weights)
    noise = rng.standard_normal((SYNTHETIC, leaves.means.shape[1]))
    points = leaves.means[labels] + np.einsum("nij,nj->ni", leaves.factors[labels], noise)
    scale = points.std(axis=0) + 1e-12
    runs = []
    with without_warnings(ConvergenceWarning):
        for attempt in range(TRIES + 1):
            settings: dict[str, Any] = {"init_params": "k-means++"}
            if attempt == 0:
                precisions = np.linalg.inv(base.covariances / scale[:, None] / scale)
                settings = {
                    "weights_init": base.weights,
                    "means_init": base.means / scale,
                    "precisions_init": precisions,
                }
            model = GaussianMixture(
                n_components, random_state=START_SEED + attempt, reg_covar=1e-6, max_iter=EM_STEPS, **settings
            )
            try:
                model.fit(points / scale)
            except (ValueError, np.linalg.LinAlgError):  # a start less: the budget is spent, so go on
                continue
            runs.append((model.lower_bound_, attempt, model))
    runs.sort(key=lambda run: (-run[0], run[1]))
    found = [
        ScaledMixture.of(model.weights_, model.means_ * scale, model.covariances_ * scale[:, None] * scale)
        for _, _, model in runs[:3]
    ]
    return [*found, base]
