"""Law of the counts in a grid of cells under a mixture. Post-processing: no record is seen."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture import LOG_2PI, Mixture
from pm_dpgmm.noise import IntArray

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)  # in every cell of the first column, when there are two
REACH = 9.0  # standard deviations of a component beyond which it has no mass that matters
FINEST = 0.5  # widest step of the quadrature, in standard deviations of a component


def cell_probabilities(mixture: Mixture, bounds: FloatArray, n_cells: int) -> FloatArray:
    """Probability that one record counts in each cell; what lies outside the bounds counts in the nearest cell.

    Exact in one column. In two, the second one is integrated exactly given the first, and the first by Gauss-Legendre
    quadrature with 8 nodes on steps of at most half a standard deviation: errors are below 1e-10.

    Parameters
    ----------
    mixture : Mixture
        D = 1 or 2, in the unit of the bounds.
    bounds : ndarray, shape (D, 2)
    n_cells : int
        Along every column.

    Returns
    -------
    ndarray, shape (n_cells ** D,)
        Sums to 1; in the order of ``counts.ravel()``.

    Examples
    --------
    >>> g = Mixture([1.0], [[0.0]], [[[1.0]]])
    >>> cell_probabilities(g, np.array([[-1.0, 1.0]]), 2)
    array([0.5, 0.5])
    """
    d = mixture.n_features
    if d not in (1, 2):
        raise ValueError(f"mixture must have 1 or 2 features, got {d}")
    edges = [np.linspace(low, high, n_cells + 1) for low, high in bounds]
    total = np.zeros((n_cells,) * d)
    for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        sd = math.sqrt(covariance[0, 0])
        if d == 1:
            total += weight * _masses(edges[0], mean[:1], sd)[0]
            continue
        nodes, masses, cells = _quadrature(edges[0], mean[0], sd)
        slope = covariance[0, 1] / covariance[0, 0]
        rest = math.sqrt(covariance[1, 1] - slope * covariance[0, 1])
        given = _masses(edges[1], mean[1] + slope * (nodes - mean[0]), rest)
        np.add.at(total, cells, weight * masses[:, None] * given)
    flat = total.ravel()
    return np.asarray(flat / flat.sum())


def _masses(edges: FloatArray, means: FloatArray, sd: float) -> FloatArray:
    """Normal probabilities between the edges, shape (N, M); the outermost cells reach to infinity."""
    inner = special.ndtr((edges[1:-1] - means[:, None]) / sd)
    return np.diff(np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0))), axis=1)


def _quadrature(edges: FloatArray, mean: float, sd: float) -> tuple[FloatArray, FloatArray, IntArray]:
    """Nodes with normal masses and the cell that each counts in."""
    low, high = mean - REACH * sd, mean + REACH * sd
    cuts = np.unique(np.clip(edges[1:-1], low, high))
    ends = np.unique(np.concatenate([[low], cuts, [high]]))
    steps = [np.linspace(a, b, math.ceil((b - a) / (FINEST * sd)) + 1)[:-1] for a, b in itertools.pairwise(ends)]
    fine = np.append(np.concatenate(steps), high)
    half = np.diff(fine)[:, None] / 2
    nodes = (fine[:-1, None] + half * (1 + NODES)).ravel()
    masses = (half * WEIGHTS).ravel() * np.exp(-0.5 * (((nodes - mean) / sd) ** 2 + LOG_2PI)) / sd
    return nodes, masses, np.searchsorted(edges[1:-1], nodes, side="right").astype(np.int64)
