"""Probabilities of bins under a mixture with their derivatives, as compiled loops. Imports no PyMC.

The compiled twin of :func:`pm_dpgmm.mixture.cell_probabilities.cell_probabilities`, which has the formulas. Numba keeps
a kernel on disk until the kernel's own file changes: whoever changes this one removes what is kept.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.cell_probabilities import BEYOND, CUT
from pm_dpgmm.mixture.mixture import LOG_2PI

OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract"}}
HALF_ROOT = math.sqrt(0.5)


@numba.njit(**OPTIONS)
def line_cells(edges: FloatArray, mean: float, sd: float, out: FloatArray) -> None:
    """Fill ``out`` (M,) with the probabilities of the bins of one column."""
    low = -BEYOND
    for j in range(out.shape[0]):
        high = (edges[j] - mean) / sd if j < edges.shape[0] else BEYOND
        side = HALF_ROOT if low + high > 0 else -HALF_ROOT
        out[j] = abs(math.erfc(side * low) - math.erfc(side * high)) / 2
        low = high


@numba.njit(**OPTIONS)
def line_slopes(
    edges: FloatArray,
    weight: float,
    mean: float,
    sd: float,
    of_cells: FloatArray,
    of_mean: FloatArray,
    of_chol: FloatArray,
) -> None:
    """Add to the derivatives by mean (1,) and factor (1, 1) what follows from those by bins (M,)."""
    for j in range(edges.shape[0]):
        z = (edges[j] - mean) / sd
        slope = weight * math.exp(-0.5 * z * z - 0.5 * LOG_2PI) * (of_cells[j] - of_cells[j + 1]) / sd
        of_mean[0] -= slope
        of_chol[0, 0] -= z * slope


@numba.njit(**OPTIONS)
def plane_cells(
    edges: FloatArray, rule: FloatArray, mean: FloatArray, chol: FloatArray, below: FloatArray, tails: FloatArray
) -> None:
    """Probabilities of a column's bins up to each edge of the second one.

    Fills ``below`` (J, J): up to the J - 1 edges and in all; and ``tails`` (J, Q, J - 1): of the second column given
    the nodes of the first. ``rule`` (2, Q): nodes and weights in a bin.
    """
    n, q = below.shape[0], rule.shape[1]
    low = -CUT
    for j in range(n):
        high = min(max((edges[0, j] - mean[0]) / chol[0, 0], -CUT), CUT) if j < n - 1 else CUT
        half = (high - low) / 2
        for i in range(n):
            below[j, i] = 0.0
        for a in range(q):
            place = low + half * (1 + rule[0, a])
            mass = half * rule[1, a] * math.exp(-0.5 * place * place - 0.5 * LOG_2PI)
            centre = mean[1] + chol[1, 0] * place
            for i in range(n - 1):
                tails[j, a, i] = math.erfc(-HALF_ROOT * ((edges[1, i] - centre) / chol[1, 1])) / 2
                below[j, i] += mass * tails[j, a, i]
            below[j, n - 1] += mass
        low = high


@numba.njit(**OPTIONS)
def plane_slopes(
    edges: FloatArray,
    rule: FloatArray,
    weight: float,
    mean: FloatArray,
    chol: FloatArray,
    of_below: FloatArray,
    tails: FloatArray,
    of_mean: FloatArray,
    of_chol: FloatArray,
) -> None:
    """Add to the derivatives by mean (2,) and factor (2, 2) what follows from those by ``below`` (J, J)."""
    n, q = of_below.shape[0], rule.shape[1]
    low, of_low = -CUT, 0.0
    for j in range(n):
        first = (edges[0, j] - mean[0]) / chol[0, 0] if j < n - 1 else CUT
        high = min(max(first, -CUT), CUT)
        half, of_half, of_start = (high - low) / 2, 0.0, 0.0
        for a in range(q):
            place = low + half * (1 + rule[0, a])
            height = rule[1, a] * math.exp(-0.5 * place * place - 0.5 * LOG_2PI)
            mass, centre = half * height, mean[1] + chol[1, 0] * place
            of_mass, of_centre = weight * of_below[j, n - 1], 0.0
            for i in range(n - 1):
                second = (edges[1, i] - centre) / chol[1, 1]
                of_mass += weight * of_below[j, i] * tails[j, a, i]
                slope = weight * of_below[j, i] * mass * math.exp(-0.5 * second * second - 0.5 * LOG_2PI) / chol[1, 1]
                of_centre -= slope
                of_chol[1, 1] -= slope * second
            of_mean[1] += of_centre
            of_chol[1, 0] += of_centre * place
            of_place = of_centre * chol[1, 0] - of_mass * mass * place
            of_half += of_mass * height + of_place * (1 + rule[0, a])
            of_start += of_place
        # of the end before this bin, which now has both of its bins
        of_low += of_start - of_half / 2
        if j > 0:
            before = (edges[0, j - 1] - mean[0]) / chol[0, 0]
            if -CUT <= before <= CUT:
                of_mean[0] -= of_low / chol[0, 0]
                of_chol[0, 0] -= of_low * before / chol[0, 0]
        low, of_low = high, of_half / 2


@numba.njit(**OPTIONS)
def bins(
    edges: FloatArray, rule: FloatArray, weights: FloatArray, means: FloatArray, chol: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probabilities (M,) of the bins between inner ``edges`` (D, J - 1), and what :func:`bin_slopes` wants of them.

    ``rule`` (2, Q): nodes and weights between -1 and 1, for two columns. Second, by component: the bins of one column,
    (K, 1, J), or of two up to each edge of the second, (K, J, J).
    """
    (k, d), n = means.shape, edges.shape[1] + 1
    lines = n if d == 2 else 1
    probabilities, below = np.zeros(n**d), np.empty((k, lines, n))
    tails = np.empty((k, n if d == 2 else 0, rule.shape[1], n - 1))
    for c in range(k):
        if d == 1:
            line_cells(edges[0], means[c, 0], chol[c, 0, 0], below[c, 0])
        else:
            plane_cells(edges, rule, means[c], chol[c], below[c], tails[c])
        for j in range(lines):
            for i in range(n):
                lower = below[c, j, i - 1] if d == 2 and i > 0 else 0.0
                probabilities[j * n + i] += weights[c] * (below[c, j, i] - lower)
    return probabilities, below, tails


@numba.njit(**OPTIONS)
def bin_slopes(
    edges: FloatArray,
    rule: FloatArray,
    weights: FloatArray,
    means: FloatArray,
    chol: FloatArray,
    below: FloatArray,
    tails: FloatArray,
    of_cells: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Derivatives by weights, means and chol from those by the bins (M,); ``below`` and ``tails`` are :func:`bins`'."""
    (k, d), (_, lines, n) = means.shape, below.shape
    of_weights, of_means, of_chol = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    of_below = np.empty((lines, n))
    for j in range(lines):
        for i in range(n):
            of_below[j, i] = of_cells[j * n + i] - (of_cells[j * n + i + 1] if d == 2 and i < n - 1 else 0.0)
    for c in range(k):
        for j in range(lines):
            for i in range(n):
                of_weights[c] += of_below[j, i] * below[c, j, i]
        if d == 1:
            line_slopes(edges[0], weights[c], means[c, 0], chol[c, 0, 0], of_cells, of_means[c], of_chol[c])
        else:
            plane_slopes(edges, rule, weights[c], means[c], chol[c], of_below, tails[c], of_means[c], of_chol[c])
    return of_weights, of_means, of_chol
