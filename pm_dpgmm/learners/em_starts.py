"""Compiled starts of EM: seeds among the records, a few steps of Lloyd, moments of the clusters."""

from __future__ import annotations

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.em_blocks import copy_to
from pm_dpgmm.privacy.noise import IntArray

CANDIDATES = 4  # records tried for each new seed
SAMPLE = 12  # records per component among which farthest points are sought


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _square_distances(columns: FloatArray, centre: FloatArray, out: FloatArray) -> None:
    n = columns.shape[1]
    out[:] = 0.0
    for j in range(len(centre)):
        values, c = columns[j], centre[j]
        for i in range(n):
            out[i] += (values[i] - c) * (values[i] - c)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _total_of_smaller(first: FloatArray, second: FloatArray) -> float:
    total = 0.0
    for i in range(len(first)):
        total += min(first[i], second[i])
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _place(weights: FloatArray, share: float) -> int:
    """First index at which the running sum of ``weights`` reaches ``share`` of the whole."""
    whole = 0.0
    for w in weights:
        whole += w
    target, running = share * whole, 0.0
    for i in range(len(weights)):
        running += weights[i]
        if running > target:
            return i
    return len(weights) - 1


@numba.njit(nogil=True, cache=True, error_model="numpy")
def seed_plus_plus(columns: FloatArray, draws: FloatArray, centres: FloatArray) -> None:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007): the best of a few records drawn with probability ~ D^2."""
    n = columns.shape[1]
    k = len(centres)
    nearest, trial = np.empty(n), np.empty(n)
    copy_to(centres[0], columns[:, min(int(draws[0, 0] * n), n - 1)])
    _square_distances(columns, centres[0], nearest)
    for c in range(1, k):
        best, least = 0, np.inf
        for t in range(CANDIDATES):
            place = _place(nearest, draws[c, t])
            _square_distances(columns, columns[:, place], trial)
            total = _total_of_smaller(nearest, trial)
            if total < least:
                best, least = place, total
        copy_to(centres[c], columns[:, best])
        _square_distances(columns, centres[c], trial)
        for i in range(n):
            nearest[i] = min(nearest[i], trial[i])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def seed_farthest(columns: FloatArray, draws: FloatArray, centres: FloatArray) -> None:
    """Farthest points among a random sample: small clusters are found, rare outliers are seldom in the sample."""
    d, n = columns.shape
    k = len(centres)
    size = draws.size
    flat = draws.reshape(size)
    sample = np.empty((d, size))
    for s in range(size):
        copy_to(sample[:, s], columns[:, min(int(flat[s] * n), n - 1)])
    nearest, trial = np.empty(size), np.empty(size)
    copy_to(centres[0], sample[:, 0])
    _square_distances(sample, centres[0], nearest)
    for c in range(1, k):
        best = np.argmax(nearest)
        copy_to(centres[c], sample[:, best])
        _square_distances(sample, centres[c], trial)
        for i in range(size):
            nearest[i] = min(nearest[i], trial[i])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def lloyd(columns: FloatArray, centres: FloatArray, labels: IntArray, steps: int) -> float:
    """At most ``steps`` steps of Lloyd's algorithm, in place; returns the sum of squared distances."""
    d, n = columns.shape
    k = len(centres)
    nearest, trial, counts = np.empty(n), np.empty(n), np.empty(k)
    labels[:] = 0
    total = np.inf
    for _ in range(steps + 1):
        _square_distances(columns, centres[0], nearest)
        labels[:] = 0
        for c in range(1, k):
            _square_distances(columns, centres[c], trial)
            for i in range(n):
                closer = trial[i] < nearest[i]
                nearest[i] = trial[i] if closer else nearest[i]
                labels[i] = c if closer else labels[i]
        before, total = total, 0.0
        for x in nearest:
            total += x
        if not total < before * (1 - 1e-4):
            break
        counts[:] = 0.0
        centres[:] = 0.0
        for i in range(n):
            counts[labels[i]] += 1
        for j in range(d):
            for i in range(n):
                centres[labels[i], j] += columns[j, i]
        for c in range(k):
            if counts[c] > 0:
                for j in range(d):
                    centres[c, j] /= counts[c]
            else:
                copy_to(centres[c], columns[:, np.argmax(nearest)])
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def cluster_moments(columns: FloatArray, labels: IntArray, k: int, reg: float, theta: FloatArray) -> None:
    """Weights, means and covariances of the clusters; covariances of small ones are drawn to that within clusters."""
    d, n = columns.shape
    counts = np.zeros(k)
    means, covariances = theta[k : k + k * d].reshape(k, d), theta[k + k * d :].reshape(k, d, d)
    means[:] = 0.0
    covariances[:] = 0.0
    for i in range(n):
        counts[labels[i]] += 1
    for j in range(d):
        for i in range(n):
            means[labels[i], j] += columns[j, i]
    for c in range(k):
        for j in range(d):
            means[c, j] /= max(counts[c], 1.0)
    for i in range(d):
        for j in range(i + 1):
            for s in range(n):
                c = labels[s]
                covariances[c, i, j] += (columns[i, s] - means[c, i]) * (columns[j, s] - means[c, j])
    for i in range(d):
        for j in range(i + 1):
            within = 0.0
            for c in range(k):
                within += covariances[c, i, j]
            within /= n
            for c in range(k):
                entry = (covariances[c, i, j] + (d + 2) * within) / (counts[c] + d + 2)
                covariances[c, i, j] = covariances[c, j, i] = entry
    for c in range(k):
        theta[c] = (counts[c] + 1) / (n + k)
        for i in range(d):
            covariances[c, i, i] += reg
