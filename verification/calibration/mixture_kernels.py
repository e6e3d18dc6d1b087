"""Log likelihoods of many parameter points at once, compiled: noisy EM sums, and the records themselves."""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LOG_2PI = math.log(2 * math.pi)
FARTHEST = 8.0  # standard deviations, and radians of one, beyond which what is left is below 1e-13


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def grid_log_likelihoods(
    points: FloatArray,
    nodes: FloatArray,
    steps: FloatArray,
    features: FloatArray,
    values: FloatArray,
    n_records: float,
    noise: float,
) -> FloatArray:
    """Of noisy sums in one dimension, up to a constant, for parameter points (W, 3 K - 1), shape (W,).

    ``points`` as in :func:`parameters`; ``nodes`` (Q,), ``steps`` (Q - 2,): the last two nodes are the ends of the box;
    ``features`` (P, Q) and ``values`` (P,) in units of the noise; ``noise``: its variance in these units, 0 or 1.
    """
    n_nodes = len(nodes)
    out = np.empty(len(points))
    shares = np.empty(n_nodes)
    for i in range(len(points)):
        w, mu, chol = parameters(points[i], 1)
        shares[:] = 0.0
        for k in range(len(w)):
            s = chol[k, 0, 0]
            for q in range(n_nodes - 2):
                z = (nodes[q] - mu[k, 0]) / s
                shares[q] += w[k] * math.exp(-0.5 * z * z - 0.5 * LOG_2PI) / s * steps[q]
            shares[n_nodes - 2] += w[k] * 0.5 * math.erfc((mu[k, 0] - nodes[n_nodes - 2]) / (s * math.sqrt(2.0)))
            shares[n_nodes - 1] += w[k] * 0.5 * math.erfc((nodes[n_nodes - 1] - mu[k, 0]) / (s * math.sqrt(2.0)))
        out[i] = normal_log_density(features, shares, values, n_records, noise)
    return out


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def node_log_likelihoods(
    points: FloatArray,
    u: FloatArray,
    u_weights: FloatArray,
    bounds: FloatArray,
    log_weights: FloatArray,
    means: FloatArray,
    whiteners: FloatArray,
    centres: FloatArray,
    reaches: FloatArray,
    scales: FloatArray,
    kept: NDArray[np.int64],
    values: FloatArray,
    n_records: float,
    noise: float,
) -> FloatArray:
    """The same in D dimensions, with normal nodes ``u`` (Q, D).

    Steps: ``log_weights`` (T, K) less log determinants, ``means``, ``centres``, ``reaches`` (T, K, D), ``whiteners``
    (T, K, D, D). ``scales``: of all features; ``kept``: the features in ``values``.
    """
    n_steps, n_parts, d = means.shape
    n_nodes, pairs = len(u), d * (d + 1) // 2
    n_components = (points.shape[1] + 1) // (1 + d + pairs)
    total = n_components * n_nodes
    width = n_parts * (1 + d + pairs)
    out = np.empty(len(points))
    shares, square, norm = np.empty(total), np.empty(total), np.empty(total)
    x, y, r = np.empty((d, total)), np.empty((d, total)), np.empty((n_parts, total))
    step = np.empty((width, total))
    features = np.empty((len(kept), total))
    for i in range(len(points)):
        w, mu, chol = parameters(points[i], d)
        for k in range(n_components):
            for q in range(n_nodes):
                shares[k * n_nodes + q] = w[k] * u_weights[q]
            for a in range(d):
                for q in range(n_nodes):
                    value = mu[k, a]
                    for b in range(a + 1):
                        value += chol[k, a, b] * u[q, b]
                    x[a, k * n_nodes + q] = min(max(value, bounds[a, 0]), bounds[a, 1])
        place = 0
        for t in range(n_steps):
            for j in range(n_parts):
                square[:] = 0.0
                for a in range(d):
                    for q in range(total):
                        entry = 0.0
                        for b in range(a + 1):
                            entry += whiteners[t, j, a, b] * (x[b, q] - means[t, j, b])
                        square[q] += entry * entry
                for q in range(total):
                    r[j, q] = log_weights[t, j] - 0.5 * square[q]
            for q in range(total):
                largest = r[0, q]
                for j in range(1, n_parts):
                    largest = max(largest, r[j, q])
                norm[q] = 0.0
                for j in range(n_parts):
                    r[j, q] = math.exp(r[j, q] - largest) if r[j, q] < largest else 1.0
                    norm[q] += r[j, q]
            for j in range(n_parts):
                square[:] = 0.0
                for a in range(d):
                    for q in range(total):
                        y[a, q] = (x[a, q] - centres[t, j, a]) / reaches[t, j, a]
                        square[q] += y[a, q] * y[a, q]
                for q in range(total):
                    square[q] = 1.0 / math.sqrt(max(square[q], 1.0))
                    step[j, q] = r[j, q] / norm[q]
                first = n_parts + n_parts * d + j * pairs
                for a in range(d):
                    for q in range(total):
                        step[n_parts + j * d + a, q] = step[j, q] * y[a, q] * square[q]
                    for b in range(a, d):
                        for q in range(total):
                            step[first, q] = step[n_parts + j * d + a, q] * y[b, q] * square[q]
                        first += 1
            for row in range(width):
                if place < len(kept) and kept[place] == t * width + row:
                    for q in range(total):
                        features[place, q] = step[row, q] / scales[kept[place]]
                    place += 1
        out[i] = normal_log_density(features, shares, values, n_records, noise)
    return out


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def record_log_likelihoods(points: FloatArray, records: FloatArray) -> FloatArray:
    """Of the records (N, D) themselves, for parameter points (W, ...), shape (W,)."""
    out = np.empty(len(points))
    d = records.shape[1]
    z = np.empty(d)
    for i in range(len(points)):
        w, mu, chol = parameters(points[i], d)
        total = 0.0
        for record in records:
            density = 1e-300
            for k in range(len(w)):
                square, scale = 0.0, 1.0
                for a in range(d):
                    z[a] = record[a] - mu[k, a]
                    for b in range(a):
                        z[a] -= chol[k, a, b] * z[b]
                    z[a] /= chol[k, a, a]
                    square += z[a] * z[a]
                    scale *= chol[k, a, a]
                density += w[k] / scale * math.exp(-0.5 * square)
            total += math.log(density)
        out[i] = total
    return out


@numba.njit(cache=True, error_model="numpy")
def parameters(point: FloatArray, d: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights (K,), means (K, D) and roots (K, D, D) of log odds, means and then each root's rows, diagonal in logs.

    Odds, K - 1 of them, are to the last component.
    """
    n = (len(point) + 1) // (1 + d + d * (d + 1) // 2)
    w = np.ones(n)
    w[: n - 1] = np.exp(point[: n - 1])
    w /= w.sum()
    mu = point[n - 1 : n - 1 + n * d].copy().reshape(n, d)
    chol = np.zeros((n, d, d))
    place = n - 1 + n * d
    for k in range(n):
        for a in range(d):
            for b in range(a + 1):
                chol[k, a, b] = math.exp(point[place]) if a == b else point[place]
                place += 1
    return w, mu, chol


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def normal_log_density(
    features: FloatArray, shares: FloatArray, values: FloatArray, n_records: float, noise: float
) -> float:
    """Log density, up to 2 pi, of ``values`` (P,) under N(n m, n V + noise I), from features (P, Q) of nodes."""
    size, total = features.shape
    mean = np.zeros(size)
    weighted = np.empty(total)
    root = np.empty((size, size))
    for i in range(size):
        for q in range(total):
            weighted[q] = features[i, q] * shares[q]
            mean[i] += weighted[q]
        for j in range(i + 1):
            product = 0.0
            for q in range(total):
                product += weighted[q] * features[j, q]
            root[i, j] = n_records * (product - mean[i] * mean[j])
        root[i, i] += noise
    log_density = 0.0
    white = np.empty(size)
    for i in range(size):
        for j in range(i + 1):
            entry = root[i, j]
            for k in range(j):
                entry -= root[i, k] * root[j, k]
            if i == j:
                if not entry > 0.0:
                    return -1e300
                root[i, i] = math.sqrt(entry)
            else:
                root[i, j] = entry / root[j, j]
        entry = values[i] - n_records * mean[i]
        for k in range(i):
            entry -= root[i, k] * white[k]
        white[i] = entry / root[i, i]
        log_density -= 0.5 * white[i] * white[i] + math.log(root[i, i])
    return log_density


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def wave_log_likelihoods(
    weights: FloatArray,
    means: FloatArray,
    factors: FloatArray,
    frequencies: FloatArray,
    phases: FloatArray,
    asked: FloatArray,
    ones: FloatArray,
    true: float,
    other: float,
) -> FloatArray:
    """Of randomised sides of square waves, up to a constant, for mixtures (W, K), (W, K, D), (W, K, D, D), shape (W,).

    ``frequencies`` (M, D), ``phases``, ``asked`` and ``ones`` (M,); ``true`` and ``other``: probabilities of a bit on
    and off the positive side. The formulas are those of :mod:`pm_dpgmm.methods.local.waves`.
    """
    n_points, n_components, d = means.shape
    out = np.zeros(n_points)
    for i in range(n_points):
        for m in range(len(phases)):
            share = 0.0
            for k in range(n_components):
                turn, square = phases[m], 0.0
                for b in range(d):
                    turn += frequencies[m, b] * means[i, k, b]
                    along = 0.0
                    for a in range(b, d):
                        along += frequencies[m, a] * factors[i, k, a, b]
                    square += along * along
                share += weights[i, k] * positive_side(turn, math.sqrt(square))
            chance = other + (true - other) * share
            out[i] += ones[m] * math.log(chance) + (asked[m] - ones[m]) * math.log1p(-chance)
    return out


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def positive_side(turn: float, deviation: float) -> float:
    """P[cos(t) > 0] for t normal."""
    m = turn - 2 * math.pi * np.round(turn / (2 * math.pi))
    if deviation > FARTHEST:
        return 0.5
    if deviation >= 1:
        found, sign = 0.5, 2 / math.pi
        for n in range(1, 10, 2):
            if n * deviation > FARTHEST:
                break
            found += sign / n * math.exp(-0.5 * (n * deviation) ** 2) * math.cos(n * m)
            sign = -sign
        return found
    found = 0.0
    for j in range(-1, 2):
        low, high = (2 * math.pi * j - math.pi / 2 - m) / deviation, (2 * math.pi * j + math.pi / 2 - m) / deviation
        if low < FARTHEST and high > -FARTHEST:
            found += 0.5 * (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)))
    return found
