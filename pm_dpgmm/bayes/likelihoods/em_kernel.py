"""Log density of noisy EM sums with its derivatives, as compiled loops. Imports no PyMC.

The compiled twins of :func:`em_graph.in_a_line` and :func:`em_graph.in_space`; :mod:`pm_dpgmm.methods.em.law` has the
law and its nodes. Everything is in standard deviations of the noise. Derivatives are found backwards: from the log
density to mean and second moments of one record's features, to probabilities of nodes and features at them, to places
of nodes, to the mixture.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.kernel_algebra import OPTIONS, dot, has_nan, inverse_from, lower_factor
from pm_dpgmm.mixture.mixture import LOG_2PI

HALF_ROOT = math.sqrt(0.5)
Four = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@numba.njit(**OPTIONS)
def of_moments(
    mean: FloatArray,
    second: FloatArray,
    values: FloatArray,
    root: FloatArray,
    law: FloatArray,
    by_mean: FloatArray,
    by_second: FloatArray,
) -> float:
    """Log density of the sums from one record's moments; fills its derivatives by these.

    Where ``root`` has rows the covariance is held, and neither ``second`` nor ``by_second`` is touched.
    """
    p, n, unknown, value = mean.shape[0], law[0], law[1], law[2]
    rest = values - n * mean
    if root.shape[0] > 0:
        by_mean[:] = 0.0
        for r in range(root.shape[0]):
            white = dot(root[r], rest, 0, p)
            value -= 0.5 * white * white
            for i in range(p):
                by_mean[i] += n * white * root[r, i]
        return value
    total, a = np.empty((p, p)), np.empty(p)
    for i in range(p):
        for j in range(i + 1):
            total[i, j] = n * second[i, j] + unknown * mean[i] * mean[j]
        total[i, i] += 1.0
    lower_factor(total)
    inverse = inverse_from(total)
    for i in range(p):
        a[i] = dot(inverse[i], rest, 0, p)
        value -= 0.5 * a[i] * rest[i] + math.log(total[i, i])
    for i in range(p):
        for j in range(p):
            by_second[i, j] = 0.5 * n * (a[i] * a[j] - inverse[i, j])
    for i in range(p):
        by_mean[i] = n * a[i] + 2 * unknown / n * dot(by_second[i], mean, 0, p)
    return value


@numba.njit(**OPTIONS)
def in_a_line(
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    nodes: FloatArray,
    log_steps: FloatArray,
    features: FloatArray,
    box: FloatArray,
    values: FloatArray,
    root: FloatArray,
    law: FloatArray,
) -> Four:
    """Log density of the sums of one column, shape (1,), and its derivatives by weights, means and chol.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (K,), (K, 1), (K, 1, 1)
    nodes, log_steps : ndarray, shape (Q,)
        Of integrals over the box, and the logarithms of their weights.
    features : ndarray, shape (Q + 2, P)
        One record's at the nodes and at both ends of the box.
    box, values : ndarray, shapes (2,), (P,)
    root : ndarray, shape (0, P) or (P, P)
        R with R'R the inverse covariance, where that is held.
    law : ndarray, shape (3,)
        The number of records, what is added to it in the squares of means (the variance of its noise less itself), and
        what is added to the log density.
    """
    k, q, p = means.shape[0], nodes.shape[0], values.shape[0]
    shares, inside = np.empty((k, q)), np.empty(k)
    outside, heights, ends = np.empty((k, 2)), np.empty((k, 2)), np.empty((k, 2))
    chances = np.zeros(q + 2)
    for c in range(k):
        mu, sd = means[c, 0], chol[c, 0, 0]
        highest, total = -np.inf, 0.0
        for i in range(q):
            z = (nodes[i] - mu) / sd
            shares[c, i] = log_steps[i] - 0.5 * z * z
            highest = max(highest, shares[c, i])
        for i in range(q):
            shares[c, i] = math.exp(shares[c, i] - highest)
            total += shares[c, i]
        ends[c, 0], ends[c, 1] = (box[0] - mu) / sd, (mu - box[1]) / sd
        for e in range(2):
            outside[c, e] = 0.5 * math.erfc(-HALF_ROOT * ends[c, e])
            heights[c, e] = math.exp(-0.5 * (ends[c, e] * ends[c, e] + LOG_2PI)) / sd
            chances[q + e] += weights[c] * outside[c, e]
        inside[c] = 1.0 - outside[c, 0] - outside[c, 1]
        for i in range(q):
            shares[c, i] /= total
            chances[i] += weights[c] * inside[c] * shares[c, i]
    value, of_weights, of_means, of_chol = np.empty(1), np.zeros(k), np.zeros((k, 1)), np.zeros((k, 1, 1))
    by_mean, by_second = np.empty(p), np.zeros((p, p))
    second = np.dot((features * chances.reshape(-1, 1)).T, features) if root.shape[0] == 0 else by_second
    value[0] = of_moments(np.dot(chances, features), second, values, root, law, by_mean, by_second)
    by_chances = np.dot(features, by_mean)
    if root.shape[0] == 0:
        by_chances += (np.dot(features, by_second) * features).sum(axis=1)
    for c in range(k):
        mu, sd = means[c, 0], chol[c, 0, 0]
        level, first, last, by_mu, by_sd = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(q):
            z = (nodes[i] - mu) / sd
            level += shares[c, i] * by_chances[i]
            first += shares[c, i] * z
            last += shares[c, i] * z * z
            by_mu += shares[c, i] * by_chances[i] * z
            by_sd += shares[c, i] * by_chances[i] * z * z
        low, high = by_chances[q] - level, by_chances[q + 1] - level
        of_weights[c] = level + outside[c, 0] * low + outside[c, 1] * high
        of_mu = inside[c] * (by_mu - level * first) / sd - heights[c, 0] * low + heights[c, 1] * high
        of_sd = inside[c] * (by_sd - level * last) / sd
        of_means[c, 0] = weights[c] * of_mu
        of_chol[c, 0, 0] = weights[c] * (of_sd - heights[c, 0] * ends[c, 0] * low - heights[c, 1] * ends[c, 1] * high)
    if has_nan(weights, means, chol):  # which comparisons would lose
        value[0] = np.nan
        of_weights[:], of_means[:], of_chol[:] = np.nan, np.nan, np.nan
    return value, of_weights, of_means, of_chol


@numba.njit(**OPTIONS)
def step_at(
    x: FloatArray,
    logs: FloatArray,
    whiteners: FloatArray,
    own: FloatArray,
    centres: FloatArray,
    reach: FloatArray,
    shares: FloatArray,
    pulls: FloatArray,
    places: FloatArray,
    lengths: FloatArray,
) -> None:
    """Of one step at ``x``: responsibilities (J,), W'W (x - mean) and places in balls (J, D), by what these shrank."""
    n, d = own.shape
    highest, total = -np.inf, 0.0
    for j in range(n):
        square, size = 0.0, 0.0
        for a in range(d):
            pulls[j, a] = 0.0
        for a in range(d):
            z = 0.0
            for b in range(a + 1):
                z += whiteners[j, a, b] * (x[b] - own[j, b])
            for b in range(a + 1):
                pulls[j, b] += whiteners[j, a, b] * z
            square += z * z
            places[j, a] = (x[a] - centres[j, a]) / reach[j, a]
            size += places[j, a] * places[j, a]
        lengths[j] = 1.0
        if size > 1.0:
            lengths[j] = math.sqrt(size)
            for a in range(d):
                places[j, a] /= lengths[j]
        shares[j] = logs[j] - 0.5 * square
        highest = max(highest, shares[j])
    for j in range(n):
        shares[j] = math.exp(shares[j] - highest)
        total += shares[j]
    for j in range(n):
        shares[j] /= total


@numba.njit(**OPTIONS)
def fill_features(
    x: FloatArray,
    logs: FloatArray,
    whiteners: FloatArray,
    own: FloatArray,
    centres: FloatArray,
    reach: FloatArray,
    first: int,
    n_squares: int,
    table: FloatArray,
) -> None:
    """One step's features at all places, in ``table`` (N, P) from column ``first`` on.

    Responsibilities, these times places in balls, these times squares: rows of the upper triangle, or its diagonal, or
    the sum of that.
    """
    n, d = own.shape
    full = n_squares == d * (d + 1) // 2
    shares, lengths, pulls, places = np.empty(n), np.empty(n), np.empty((n, d)), np.empty((n, d))
    for i in range(x.shape[0]):
        step_at(x[i], logs, whiteners, own, centres, reach, shares, pulls, places, lengths)
        for j in range(n):
            table[i, first + j] = shares[j]
            at = first + n + n * d + j * n_squares
            if n_squares == 1:
                table[i, at] = 0.0
            for a in range(d):
                moved = shares[j] * places[j, a]
                table[i, first + n + j * d + a] = moved
                if n_squares == 1:
                    table[i, at] += moved * places[j, a]
                else:
                    for b in range(a, d if full else a + 1):
                        table[i, at] = moved * places[j, b]
                        at += 1


@numba.njit(**OPTIONS)
def add_slopes(
    x: FloatArray,
    logs: FloatArray,
    whiteners: FloatArray,
    own: FloatArray,
    centres: FloatArray,
    reach: FloatArray,
    first: int,
    n_squares: int,
    slopes: FloatArray,
    of_x: FloatArray,
) -> None:
    """Add to the derivatives ``of_x`` (N, D) what follows from those by one step's features, in ``slopes`` (N, P)."""
    n, d = own.shape
    full = n_squares == d * (d + 1) // 2
    shares, lengths, pulls, places = np.empty(n), np.empty(n), np.empty((n, d)), np.empty((n, d))
    by_shares, by_place = np.empty(n), np.empty(d)
    for i in range(x.shape[0]):
        step_at(x[i], logs, whiteners, own, centres, reach, shares, pulls, places, lengths)
        middle = 0.0
        for j in range(n):
            by_shares[j] = slopes[i, first + j]
            at = first + n + n * d + j * n_squares
            for a in range(d):
                by_place[a] = slopes[i, first + n + j * d + a]
                by_shares[j] += by_place[a] * places[j, a]
            for a in range(d):
                for b in range(a, d if full else a + 1):
                    along = slopes[i, at]
                    by_shares[j] += along * places[j, a] * places[j, b]
                    by_place[a] += along * places[j, b]
                    by_place[b] += along * places[j, a]
                    if n_squares > 1:
                        at += 1
            middle += shares[j] * by_shares[j]
            outward = 0.0
            if lengths[j] > 1.0:
                for a in range(d):
                    outward += by_place[a] * places[j, a]
            for a in range(d):
                of_x[i, a] += shares[j] * (by_place[a] - outward * places[j, a]) / (lengths[j] * reach[j, a])
        for j in range(n):
            force = shares[j] * (by_shares[j] - middle)
            for a in range(d):
                of_x[i, a] -= force * pulls[j, a]


@numba.njit(**OPTIONS)
def in_space(
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    nodes: FloatArray,
    node_weights: FloatArray,
    logs: FloatArray,
    whiteners: FloatArray,
    own: FloatArray,
    centres: FloatArray,
    reach: FloatArray,
    box: FloatArray,
    scales: FloatArray,
    values: FloatArray,
    root: FloatArray,
    law: FloatArray,
) -> Four:
    """Log density of the sums of several columns, shape (1,), and its derivatives by weights, means and chol.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
    nodes, node_weights : ndarray, shapes (Q, D), (Q,)
        Of normal expectations.
    logs, whiteners, own : ndarray, shapes (T, J), (T, J, D, D), (T, J, D)
        Of the steps' own J components: logarithms of weight times the whitener's determinant, these lower triangular,
        and means.
    centres, reach : ndarray, shape (T, J, D)
        Of their balls; radii in the unit of every column.
    box, scales, values : ndarray, shapes (D, 2), (P,), (P,)
        The scales are those of the noise.
    root, law : ndarray
        As for :func:`in_a_line`.
    """
    (k, d), q, p, (n_steps, n) = means.shape, nodes.shape[0], values.shape[0], logs.shape
    size, exact = p // n_steps, root.shape[0] == 0
    n_squares = size // n - 1 - d
    x, chances, table = np.empty((k * q, d)), np.empty(k * q), np.empty((k * q, p))
    for c in range(k):
        for i in range(q):
            chances[c * q + i] = weights[c] * node_weights[i]
            for a in range(d):
                place = means[c, a]
                for b in range(a + 1):
                    place += chol[c, a, b] * nodes[i, b]
                x[c * q + i, a] = min(max(place, box[a, 0]), box[a, 1])
    for t in range(n_steps):
        fill_features(x, logs[t], whiteners[t], own[t], centres[t], reach[t], t * size, n_squares, table)
    table /= scales
    value, of_weights, of_means, of_chol = np.empty(1), np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    by_mean, by_second = np.empty(p), np.zeros((p, p))
    second = np.dot((table * chances.reshape(-1, 1)).T, table) if exact else by_second
    value[0] = of_moments(np.dot(chances, table), second, values, root, law, by_mean, by_second)
    slopes = np.dot(table, by_second) if exact else np.zeros((k * q, p))
    of_x = np.zeros((k * q, d))
    for row in range(k * q):
        c, level = row // q, 0.0
        for j in range(p):
            level += table[row, j] * (by_mean[j] + slopes[row, j])
            slopes[row, j] = chances[row] * (by_mean[j] + 2 * slopes[row, j]) / scales[j]
        of_weights[c] += node_weights[row % q] * level
    for t in range(n_steps):
        add_slopes(x, logs[t], whiteners[t], own[t], centres[t], reach[t], t * size, n_squares, slopes, of_x)
    for row in range(k * q):
        c, i = row // q, row % q
        for a in range(d):
            if box[a, 0] < x[row, a] < box[a, 1]:
                of_means[c, a] += of_x[row, a]
                for b in range(a + 1):
                    of_chol[c, a, b] += of_x[row, a] * nodes[i, b]
    if has_nan(weights, means, chol):  # which comparisons would lose
        value[0] = np.nan
        of_weights[:], of_means[:], of_chol[:] = np.nan, np.nan, np.nan
    return value, of_weights, of_means, of_chol
