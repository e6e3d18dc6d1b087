"""Compiled search for the highest mode of the likelihood of one subset: starts, short runs, splits and merges."""

from __future__ import annotations

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.em_blocks import copy_to
from pm_dpgmm.learners.em_kernel import BLOCK, climb, log_joint, whiteners
from pm_dpgmm.learners.em_starts import cluster_moments, lloyd, seed_farthest, seed_plus_plus
from pm_dpgmm.mixture.affine_invariant import factorise
from pm_dpgmm.privacy.noise import IntArray

SHORT_RUN = 12  # steps of EM of a start or a move before it is judged
SHORT_TOL = 1e-5  # gain a record that ends a short run
LLOYD_STEPS = 8
SAME = 0.99  # share of records in common at which two starts count as one
PAIRS = 2  # of components that a round tries to merge
LEAST_GAIN = 1e-3  # of the log-likelihood by a move, in nats; a move back to the same mode gains nothing
AXIS_STEPS = 6  # towards the direction of a split
RESOLUTION = 1e-12  # standard deviation over size at which a column counts as constant


@numba.njit(nogil=True, cache=True, error_model="numpy")
def standardise(rows: FloatArray, columns: FloatArray, mean: FloatArray, sd: FloatArray) -> bool:
    """columns[j, i] = (rows[i, j] - mean[j]) / sd[j]; False if a column is constant or not finite."""
    n, d = rows.shape
    for j in range(d):
        first = 0.0
        for i in range(n):
            first += rows[i, j]
        first /= n
        rest = 0.0
        for i in range(n):
            rest += rows[i, j] - first
        mean[j] = first + rest / n  # the second pass takes out what the first rounds
        square = 0.0
        for i in range(n):
            square += (rows[i, j] - mean[j]) * (rows[i, j] - mean[j])
        sd[j] = np.sqrt(square / n)
        if not (np.isfinite(sd[j]) and sd[j] > RESOLUTION * abs(mean[j])):
            return False
        for i in range(n):
            columns[j, i] = (rows[i, j] - mean[j]) / sd[j]
    return bool(np.isfinite(columns).all())


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fit_rows(
    rows: FloatArray,
    draws: FloatArray,
    farthest: bool,
    reg: float,
    max_iter: int,
    tol: float,
    weights: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
) -> bool:
    """Fit ``rows`` (n, d) into the last three arguments; False if there is no fit.

    ``draws`` (starts, k, .) are uniform numbers. The whole is a function of the other arguments, bit for bit.
    """
    n, d = rows.shape
    k = len(weights)
    columns, mean, sd = np.empty((d, n)), np.empty(d), np.empty(d)
    if n < k * (d + 1) or not standardise(rows, columns, mean, sd):
        return False
    theta = np.empty(k * (1 + d + d * d))
    if not best_start(columns, k, draws, farthest, reg, min(SHORT_RUN, max_iter), theta):
        return False
    likelihood, _ = climb(columns, theta, k, reg, max_iter, tol, -np.inf)
    if np.isfinite(likelihood) and split_and_merge(columns, theta, k, reg, likelihood, min(SHORT_RUN, max_iter)):
        likelihood, _ = climb(columns, theta, k, reg, max_iter, tol, -np.inf)
    if not (np.isfinite(likelihood) and whiteners(theta, k, d, np.empty((k, d, d)), np.empty(k))):
        return False
    whole = theta[:k].sum()
    for c in range(k):
        weights[c] = theta[c] / whole
        for i in range(d):
            means[c, i] = mean[i] + sd[i] * theta[k + c * d + i]
            for j in range(i + 1):
                entry = sd[i] * sd[j] * theta[k + k * d + (c * d + i) * d + j]
                covariances[c, i, j] = covariances[c, j, i] = entry
            if not covariances[c, i, i] > 0:
                return False
    return bool(np.isfinite(means).all() and np.isfinite(covariances).all())


@numba.njit(nogil=True, cache=True, error_model="numpy")
def best_start(
    columns: FloatArray, k: int, draws: FloatArray, farthest: bool, reg: float, steps: int, theta: FloatArray
) -> bool:
    """The start whose short run reaches the highest likelihood, into ``theta``; False if all collapse."""
    d, n = columns.shape
    centres, labels, trial = np.empty((k, d)), np.empty((len(draws), n), np.int64), np.empty_like(theta)
    highest = -np.inf
    for start in range(len(draws)):
        if farthest:
            seed_farthest(columns, draws[start], centres)
        else:
            seed_plus_plus(columns, draws[start], centres)
        lloyd(columns, centres, labels[start], LLOYD_STEPS)
        if not fresh(labels, start, k):
            continue
        cluster_moments(columns, labels[start], k, reg, trial)
        likelihood, _ = climb(columns, trial, k, reg, steps, SHORT_TOL, highest)
        if likelihood > highest:
            highest = likelihood
            copy_to(theta, trial)
    return highest > -np.inf


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fresh(labels: IntArray, start: int, k: int) -> bool:
    """Whether the clusters of this start differ from those of every earlier one in more than a few records."""
    n = labels.shape[1]
    table = np.empty((k, k), np.int64)
    for earlier in range(start):
        table[:] = 0
        for i in range(n):
            table[labels[earlier, i], labels[start, i]] += 1
        common = 0
        for c in range(k):
            common += table[c].max()
        if common >= SAME * n:
            return False
    return True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def split_and_merge(columns: FloatArray, theta: FloatArray, k: int, reg: float, likelihood: float, steps: int) -> bool:
    """Merge two components and split a third, or the two in another way, while that gains; whether anything did.

    ``theta`` changes in place. Ueda, Nakano, Ghahramani and Hinton (2000), with the merging cost of Runnalls (2007). A
    mode in which one component covers two clusters and two components share a third is left in one move, and so is one
    in which two components share two clusters crosswise.
    """
    d, n = columns.shape
    labels, changed = np.empty(n, np.int64), np.empty(n, np.int64)
    costs, trial, best = np.empty((k, k)), np.empty_like(theta), np.empty_like(theta)
    moved = False
    for _ in range(k if k > 1 else 0):
        if not label(columns, theta, k, labels):
            return moved
        merging_costs(theta, k, d, costs)
        highest = likelihood + LEAST_GAIN
        gained = False
        for _ in range(PAIRS):
            place = np.argmin(costs)
            into, free = place // k, place % k
            if not np.isfinite(costs[into, free]):
                break
            costs[into, free] = np.inf
            for c in range(k):
                if c == free:
                    continue
                for i in range(n):
                    changed[i] = into if labels[i] == free else labels[i]
                if not split(columns, c, free, changed):
                    continue
                cluster_moments(columns, changed, k, reg, trial)
                reached, _ = climb(columns, trial, k, reg, steps, SHORT_TOL, highest)
                if reached > highest:
                    highest, gained = reached, True
                    copy_to(best, trial)
        if not gained:
            return moved
        likelihood, moved = highest, True
        copy_to(theta, best)
    return moved


@numba.njit(nogil=True, cache=True, error_model="numpy")
def label(columns: FloatArray, theta: FloatArray, k: int, labels: IntArray) -> bool:
    """The most probable component of every record; False if ``theta`` is no mixture."""
    d, n = columns.shape
    halves, offsets = np.empty((k, d, d)), np.empty(k)
    if not whiteners(theta, k, d, halves, offsets):
        return False
    means = theta[k : k + k * d].reshape(k, d)
    gaps, joint, scratch = np.empty((d, BLOCK)), np.empty((k, BLOCK)), np.empty(BLOCK)
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        log_joint(columns, first, means, halves, offsets, gaps, scratch[:size], joint)
        for i in range(size):
            labels[first + i] = np.argmax(joint[:, i])
    return True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def merging_costs(theta: FloatArray, k: int, d: int, costs: FloatArray) -> None:
    """costs[a, b], b < a: twice Runnalls' bound on the divergence when a and b become one Gaussian; infinite else."""
    means, covariances = theta[k : k + k * d].reshape(k, d), theta[k + k * d :].reshape(k, d, d)
    merged, factor, logs = np.empty((d, d)), np.empty((d, d)), np.empty(k)
    for c in range(k):
        logs[c] = log_determinant(covariances[c], factor)
    costs[:] = np.inf
    for a in range(k):
        for b in range(a):
            weight = theta[a] + theta[b]
            share = theta[a] / weight
            for i in range(d):
                for j in range(d):
                    spread = (means[a, i] - means[b, i]) * (means[a, j] - means[b, j])
                    within = share * covariances[a, i, j] + (1 - share) * covariances[b, i, j]
                    merged[i, j] = within + share * (1 - share) * spread
            cost = weight * log_determinant(merged, factor) - theta[a] * logs[a] - theta[b] * logs[b]
            costs[a, b] = cost if np.isfinite(cost) else np.inf


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_determinant(covariance: FloatArray, factor: FloatArray) -> float:
    """Natural logarithm of the determinant; NaN if there is no Cholesky factor, which goes to ``factor``."""
    if not factorise(covariance, factor):
        return np.nan
    total = 0.0
    for i in range(len(factor)):
        total += 2 * np.log(factor[i, i])
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def split(columns: FloatArray, c: int, free: int, labels: IntArray) -> bool:
    """Label ``free`` one side of the records labelled ``c``, along the direction in which they look most like two.

    That is the least kurtosis of the whitened records, by the fixed-point steps of Hyvarinen and Oja (1997) from every
    axis: it does not depend on units, as the longest axis does. False if the records have no covariance.
    """
    d, n = columns.shape
    white, factor = np.empty((d, n)), np.empty((d, d))
    m = 0
    for s in range(n):
        if labels[s] == c:
            for j in range(d):
                white[j, m] = columns[j, s]
            m += 1
    if m <= d + 1 or not whiten(white[:, :m], factor):
        return False
    axis, step, sides, best = np.empty(d), np.empty(d), np.empty(m), np.empty(m)
    least = np.inf
    for first in range(d):
        axis[:] = 0.0
        axis[first] = 1.0
        kurtosis = np.inf
        for _ in range(AXIS_STEPS):
            project(white, axis, sides)
            fourth = 0.0
            step[:] = 0.0
            for s in range(m):
                cube = sides[s] * sides[s] * sides[s]
                fourth += cube * sides[s]
                for j in range(d):
                    step[j] += cube * white[j, s]
            kurtosis = fourth / m - 3.0
            length = 0.0
            for j in range(d):
                step[j] = step[j] / m - 3.0 * axis[j]
                length += step[j] * step[j]
            if not length > 0.0:
                break
            for j in range(d):
                axis[j] = step[j] / np.sqrt(length)
        project(white, axis, sides)
        if kurtosis < least:
            least = kurtosis
            best[:] = sides
    if not least < np.inf:
        return False
    m = 0
    for s in range(n):
        if labels[s] == c:
            if best[m] <= 0:
                labels[s] = free
            m += 1
    return True


@numba.njit(nogil=True, cache=True, error_model="numpy")
def project(white: FloatArray, axis: FloatArray, sides: FloatArray) -> None:
    """``sides`` (m,) become the coordinates of the records along ``axis``."""
    d = len(axis)
    sides[:] = 0.0
    for j in range(d):
        for s in range(len(sides)):
            sides[s] += axis[j] * white[j, s]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def whiten(white: FloatArray, factor: FloatArray) -> bool:
    """Records (d, m) to mean 0 and covariance I, in place; False if their covariance has no Cholesky factor."""
    d, m = white.shape
    covariance = np.empty((d, d))
    for i in range(d):
        mean = 0.0
        for s in range(m):
            mean += white[i, s]
        for s in range(m):
            white[i, s] -= mean / m
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for s in range(m):
                total += white[i, s] * white[j, s]
            covariance[i, j] = covariance[j, i] = total / m
    if not factorise(covariance, factor):
        return False
    for i in range(d):
        for j in range(i):
            for s in range(m):
                white[i, s] -= factor[i, j] * white[j, s]
        for s in range(m):
            white[i, s] /= factor[i, i]
    return True
