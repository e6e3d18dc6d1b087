"""Starts of fits: the mixture of the cells of k-means."""

from __future__ import annotations

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.mixture import Mixture


def mixture_of_cells(
    rows: FloatArray, coordinates: FloatArray, n_components: int, *, floor: float, rng: np.random.Generator
) -> tuple[Mixture, float] | None:
    """Weights, means and covariances of the cells of one k-means run, started by k-means++.

    Parameters
    ----------
    rows : ndarray, shape (M, D)
    coordinates : ndarray, shape (M, E)
        What k-means sees of the rows.
    n_components : int
    floor : float
        Least eigenvalue of a covariance, in the unit of the rows squared.
    rng : numpy.random.Generator

    Returns
    -------
    mixture : Mixture
    cost : float
        Sum of squared distances from the centres, in the unit of the coordinates squared.

    None when a cell is empty.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> mixture, cost = mixture_of_cells(rows, rows, 2, floor=0.01, rng=np.random.default_rng(0))
    >>> sorted(mixture.means[:, 0].tolist()), float(cost)
    ([0.5, 8.5], 1.0)
    """
    try:
        centres, labels = kmeans2(coordinates, n_components, minit="++", missing="raise", rng=rng)
    except ClusterError:
        return None
    sizes = np.bincount(labels, minlength=n_components)
    if sizes.min() == 0:
        return None
    cells = [rows[labels == a] for a in range(n_components)]
    means = np.array([cell.mean(axis=0) for cell in cells])
    scatter = [(cell - mean).T @ (cell - mean) / len(cell) for cell, mean in zip(cells, means, strict=True)]
    values, vectors = np.linalg.eigh(scatter)
    covariances = (vectors * np.maximum(values, floor)[:, None]) @ np.swapaxes(vectors, 1, 2)
    return Mixture(sizes / len(rows), means, covariances), float(((coordinates - centres[labels]) ** 2).sum())
