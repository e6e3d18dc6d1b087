"""Log densities of a released sketch with their derivatives, as compiled loops. Imports no PyMC.

A component has the characteristic function exp(-|L'w|^2/2 + i w.(mean - centre)) at frequency w; the compiled twins of
:func:`sketch_graph.plug_in` and :func:`sketch_graph.exact`.
Derivatives are found backwards: from the log density to means of the released numbers, to phases w.(mean - centre) and
projections L'w of each component, to its parameters.
"""

from __future__ import annotations

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.kernel_algebra import OPTIONS, dot, inverse_from, lower_factor
from pm_dpgmm.mixture.mixture import LOG_2PI


@numba.njit(**OPTIONS)
def component_parts(
    frequencies: FloatArray, centre: FloatArray, means: FloatArray, chol: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """L'w (K, m, D), and real and imaginary parts (K, m) of components' characteristic functions about ``centre``."""
    (m, d), k = frequencies.shape, means.shape[0]
    projected, real, imaginary = np.zeros((k, m, d)), np.empty((k, m)), np.empty((k, m))
    for c in range(k):
        for i in range(m):
            phase, square = 0.0, 0.0
            for a in range(d):
                phase += frequencies[i, a] * (means[c, a] - centre[a])
                for b in range(a, d):
                    projected[c, i, a] += frequencies[i, b] * chol[c, b, a]
                square += projected[c, i, a] * projected[c, i, a]
            size = np.exp(-0.5 * square)
            real[c, i], imaginary[c, i] = size * np.cos(phase), size * np.sin(phase)
    return projected, real, imaginary


@numba.njit(**OPTIONS)
def add_slopes(
    of_phases: FloatArray, of_projected: FloatArray, frequencies: FloatArray, of_mean: FloatArray, of_chol: FloatArray
) -> None:
    """Add to the derivatives by mean (D,) and factor (D, D) what follows from those by phases (m,) and L'w (m, D)."""
    m, d = frequencies.shape
    for i in range(m):
        for a in range(d):
            of_mean[a] += of_phases[i] * frequencies[i, a]
            for b in range(a + 1):
                of_chol[a, b] += frequencies[i, a] * of_projected[i, b]


@numba.njit(**OPTIONS)
def plug_in(
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    frequencies: FloatArray,
    centre: FloatArray,
    size: FloatArray,
    target: FloatArray,
    root: FloatArray,
    constant: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log density with a plug-in covariance, shape (1,), and its derivatives by weights, means and chol.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
    frequencies, centre, size, target, root, constant : ndarray
        As :func:`sketch.held_arrays` has them; ``constant`` of shape (1,). Frequency i counts for number i modulo m.
    """
    (n, d), k, m = frequencies.shape, weights.shape[0], target.shape[0] // 2
    projected, real, imaginary = component_parts(frequencies, centre, means, chol)
    y, v = np.empty(2 * m), np.empty(2 * m)
    for i in range(m):
        y[i], y[m + i] = target[i], target[m + i]
    for c in range(k):
        for i in range(n):
            y[i % m] -= size[0, i] * weights[c] * real[c, i]
            y[m + i % m] -= size[1, i] * weights[c] * imaginary[c, i]
    for i in range(2 * m):
        v[i] = y[i]
    square = dot(y, y, 0, 2 * m)
    for q in range(root.shape[0]):
        line = root[q]
        along = dot(line, y, 0, 2 * m)
        square -= along * along
        for i in range(2 * m):
            v[i] -= along * line[i]
    value = np.empty(1)
    value[0] = constant[0] - 0.5 * square
    of_weights, of_means, of_chol = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    of_phases, of_projected = np.empty(n), np.empty((n, d))
    for c in range(k):
        for i in range(n):
            by_real, by_imaginary = size[0, i] * v[i % m], size[1, i] * v[m + i % m]
            length = by_real * real[c, i] + by_imaginary * imaginary[c, i]
            of_weights[c] += length
            of_phases[i] = weights[c] * (by_imaginary * real[c, i] - by_real * imaginary[c, i])
            for a in range(d):
                of_projected[i, a] = -weights[c] * length * projected[c, i, a]
        add_slopes(of_phases, of_projected, frequencies, of_means[c], of_chol[c])
    return value, of_weights, of_means, of_chol


@numba.njit(**OPTIONS)
def second_moments(
    weight: float, projected: FloatArray, real: FloatArray, imaginary: FloatArray, total: FloatArray
) -> None:
    """Add to ``total`` (2 m, 2 m), on and below the diagonal of each block, E f f' of one component's features.

    ``real`` and ``imaginary`` hold cosines and sines of phases, without damping; f = (cos w.x, sin w.x).
    """
    m, d = projected.shape
    for i in range(m):
        for j in range(i + 1):
            difference, both = pair_sizes(projected[i], projected[j], d)
            cc, ss = real[i] * real[j], imaginary[i] * imaginary[j]
            cs, sc = real[i] * imaginary[j], imaginary[i] * real[j]
            left, right = 0.5 * weight * difference, 0.5 * weight * both
            total[i, j] += left * (cc + ss) + right * (cc - ss)
            total[m + i, m + j] += left * (cc + ss) - right * (cc - ss)
            total[m + i, j] += right * (cs + sc) + left * (sc - cs)
            if i != j:
                total[m + j, i] += right * (cs + sc) - left * (sc - cs)


@numba.njit(**OPTIONS)
def pair_sizes(left: FloatArray, right: FloatArray, d: int) -> tuple[float, float]:
    """Damping exp(-|l - r|^2/2) at the difference of two frequencies and exp(-|l + r|^2/2) at their sum."""
    apart, together = 0.0, 0.0
    for a in range(d):
        apart += (left[a] - right[a]) ** 2
        together += (left[a] + right[a]) ** 2
    return np.exp(-0.5 * apart), np.exp(-0.5 * together)


@numba.njit(**OPTIONS)
def exact(
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    frequencies: FloatArray,
    centre: FloatArray,
    values: FloatArray,
    variances: FloatArray,
    scales: FloatArray,
    fixed: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log density with the covariance at the mixture itself, shape (1,), and its derivatives by weights, means, chol.

    Parameters
    ----------
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
        Of all components, a background's too.
    frequencies, centre : ndarray, shapes (m, D), (D,)
    values, variances : ndarray, shape (2 m,)
        Released numbers, variances of their noise.
    scales : ndarray, shape (4, 2 m)
        With E f = mu: the numbers have mean s0 mu; their covariance is s1 s1' (E f f' - mu mu') plus the squares of
        s2 mu (an uncertain number of records) and s3 (fixed - mu) (an uncertain weight of the background).
    fixed : ndarray, shape (2 m,)
    """
    (m, d), k = frequencies.shape, weights.shape[0]
    n = 2 * m
    projected, real, imaginary = component_parts(frequencies, centre, means, chol)
    mean, total = np.zeros(n), np.zeros((n, n))
    cosines, sines = np.empty((k, m)), np.empty((k, m))
    for c in range(k):
        for i in range(m):
            mean[i] += weights[c] * real[c, i]
            mean[m + i] += weights[c] * imaginary[c, i]
            phase = 0.0
            for b in range(d):
                phase += frequencies[i, b] * (means[c, b] - centre[b])
            cosines[c, i], sines[c, i] = np.cos(phase), np.sin(phase)
        second_moments(weights[c], projected[c], cosines[c], sines[c], total)
    spread, by_count, by_weight = np.empty(n), np.empty(n), np.empty(n)
    a, product = np.empty(n), np.empty(n)
    for i in range(n):
        spread[i], by_count[i] = scales[1, i] * mean[i], scales[2, i] * mean[i]
        by_weight[i] = scales[3, i] * (fixed[i] - mean[i])
        product[i] = values[i] - scales[0, i] * mean[i]
    for i in range(n):
        for j in range(i + 1):
            rank_one = by_count[i] * by_count[j] + by_weight[i] * by_weight[j] - spread[i] * spread[j]
            total[i, j] = scales[1, i] * scales[1, j] * total[i, j] + rank_one
        total[i, i] += variances[i]
    lower_factor(total)
    value, inverse = np.empty(1), inverse_from(total)
    value[0] = -0.5 * n * LOG_2PI
    for i in range(n):
        a[i] = dot(inverse[i], product, 0, n)
        value[0] -= 0.5 * a[i] * product[i] + np.log(total[i, i])
    for i in range(n):  # from here on the derivative by the covariance
        for j in range(n):
            inverse[i, j] = 0.5 * (a[i] * a[j] - inverse[i, j])
    by_mean = np.empty(n)
    for i in range(n):
        line = inverse[i]
        by_mean[i] = scales[0, i] * a[i] - 2 * scales[1, i] * dot(line, spread, 0, n)
        by_mean[i] += 2 * (scales[2, i] * dot(line, by_count, 0, n) - scales[3, i] * dot(line, by_weight, 0, n))
    for i in range(n):
        for j in range(n):
            inverse[i, j] *= scales[1, i] * scales[1, j]
    of_weights, of_means, of_chol = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    for c in range(k):
        of_phases, of_projected = np.zeros(m), np.zeros((m, d))
        of_weights[c] = moment_slopes(weights[c], projected[c], cosines[c], sines[c], inverse, of_phases, of_projected)
        for i in range(m):
            length = by_mean[i] * real[c, i] + by_mean[m + i] * imaginary[c, i]
            of_weights[c] += length
            of_phases[i] += weights[c] * (by_mean[m + i] * real[c, i] - by_mean[i] * imaginary[c, i])
            for b in range(d):
                of_projected[i, b] -= weights[c] * length * projected[c, i, b]
        add_slopes(of_phases, of_projected, frequencies, of_means[c], of_chol[c])
    return value, of_weights, of_means, of_chol


@numba.njit(**OPTIONS)
def moment_slopes(
    weight: float,
    projected: FloatArray,
    cosines: FloatArray,
    sines: FloatArray,
    by_second: FloatArray,
    of_phases: FloatArray,
    of_projected: FloatArray,
) -> float:
    """Derivative by a component's weight of what has the derivative ``by_second`` (2 m, 2 m) by E f f'.

    Those by its phases (m,) and projections (m, D) are added to ``of_phases`` and ``of_projected``.
    """
    m, d = projected.shape
    of_weight = 0.0
    for i in range(m):
        for j in range(i + 1):
            twice = 1.0 if i == j else 2.0
            apart, together = pair_sizes(projected[i], projected[j], d)
            cc, ss = cosines[i] * cosines[j], sines[i] * sines[j]
            cs, sc = cosines[i] * sines[j], sines[i] * cosines[j]
            # coefficients of cosine and sine at the difference and at the sum of the phases
            at_apart = 0.5 * twice * (by_second[i, j] + by_second[m + i, m + j])
            at_together = 0.5 * twice * (by_second[i, j] - by_second[m + i, m + j])
            odd = 0.5 * twice * (by_second[m + i, j] - by_second[m + j, i])
            even = 0.5 * twice * (by_second[m + i, j] + by_second[m + j, i])
            left = apart * (at_apart * (cc + ss) + odd * (sc - cs))
            right = together * (at_together * (cc - ss) + even * (sc + cs))
            of_weight += left + right
            turn_left = weight * apart * (odd * (cc + ss) - at_apart * (sc - cs))
            turn_right = weight * together * (even * (cc - ss) - at_together * (sc + cs))
            of_phases[i] += turn_right + turn_left
            of_phases[j] += turn_right - turn_left
            for b in range(d):
                gap, sum_ = projected[i, b] - projected[j, b], projected[i, b] + projected[j, b]
                of_projected[i, b] -= weight * (left * gap + right * sum_)
                of_projected[j, b] -= weight * (right * sum_ - left * gap)
    return of_weight
