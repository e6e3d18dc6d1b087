"""Points in the bins of a grid, and how many records of a mixture lie around each: in units of a bin.

The density at the middle of a bin, of Gaussians that are wider by the variance of a uniform point in it (Sheppard),
stands for the probability of the bin where components are wide. Where one is narrow, along any direction, every bin is
cut into smaller ones.
"""

from __future__ import annotations

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.moves import Parameters
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture

CELL_VARIANCE = 1 / 12  # of a uniform point in a bin, in bins squared (Sheppard)
SMALLEST_VARIANCE = 0.75**2  # along any direction, in squared distances of points that stand for their surroundings
NEAR = 1.02  # times that, which counts as no more: points lie closer then
FINEST = {1: 2, 2: 8}  # points along a side of a bin, at most, by columns
MOST_POINTS = 2**17  # of all bins together: a fit then takes some ten seconds
LEAST_IN_COLUMN = 0.5**2  # variance of a column, in bins squared: where in a bin values lie is not told


def cell_centres(bounds: FloatArray, n_cells: int) -> FloatArray:
    """Centres of the bins, shape (n_cells ** D, D), in the order of ``counts.ravel()``."""
    width = (bounds[:, 1] - bounds[:, 0]) / n_cells
    axes = [low + step * (np.arange(n_cells) + 0.5) for low, step in zip(bounds[:, 0], width, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def points_of(d: int, n_cells: int, fineness: int) -> FloatArray:
    """Points of all bins, in units of a bin, shape (n_cells^D fineness^D, D)."""
    within = cell_centres(np.array([[-0.5, 0.5]] * d), fineness)
    centres = cell_centres(np.array([[0.0, n_cells]] * d), n_cells)
    return np.asarray((centres[:, None] + within).reshape(-1, d))


def shares_of_bins(mixture: Mixture, bounds: FloatArray, n_cells: int) -> FloatArray:
    """Probabilities of the bins as the fit takes them, shape (n_cells ** D,), of a record within the bounds."""
    found = chances_of_bins(mixture, bounds, n_cells, fineness_for(mixture, bounds, n_cells))
    return np.asarray(found / found.sum())


def chances_of_bins(mixture: Mixture, bounds: FloatArray, n_cells: int, fineness: int) -> FloatArray:
    """The same of any record, so that they sum to less where some lie outside the bounds."""
    n_bins, parameters = n_cells ** len(bounds), in_bins(mixture, bounds, n_cells, 1.0, fineness)
    return of_bins(parts_at(points_of(len(bounds), n_cells, fineness), n_bins, parameters)[0], n_bins)


def finest(d: int, n_cells: int) -> int:
    """Points along a side of a bin, at most: a power of two."""
    fineness = FINEST[d]
    while fineness > 1 and (n_cells * fineness) ** d > MOST_POINTS:
        fineness //= 2
    return fineness


def fineness_for(mixture: Mixture, bounds: FloatArray, n_cells: int) -> int:
    """Points along a side of a bin that the narrowest component needs, a power of two; the most that a fit has."""
    width = (bounds[:, 1] - bounds[:, 0]) / n_cells
    least = float(np.linalg.eigvalsh(mixture.covariances / (width[:, None] * width))[:, 0].min())
    fineness, most = 1, finest(len(bounds), n_cells)
    while fineness < most and least < NEAR * SMALLEST_VARIANCE / fineness**2:
        fineness *= 2
    return fineness


def in_bins(mixture: Mixture, bounds: FloatArray, n_cells: int, n_records: float, fineness: int) -> Parameters:
    """A mixture of so many records, in units of a bin."""
    width = (bounds[:, 1] - bounds[:, 0]) / n_cells
    blurred = mixture.covariances / (width[:, None] * width) + np.eye(len(width)) * (CELL_VARIANCE / fineness**2)
    return mixture.weights * n_records, (mixture.means - bounds[:, 0]) / width, blurred


def in_records(fineness: int, found: Parameters, bounds: FloatArray, n_cells: int) -> Mixture:
    """In the unit of the records."""
    rates, means, blurred = found
    width = (bounds[:, 1] - bounds[:, 0]) / n_cells
    weights = np.maximum(rates / rates.sum(), 1e-6)
    covariances = (blurred - np.eye(len(width)) * (CELL_VARIANCE / fineness**2)) * (width[:, None] * width)
    return Mixture(
        weights / weights.sum(), means * width + bounds[:, 0], (covariances + np.swapaxes(covariances, 1, 2)) / 2
    )


def of_bins(parts: FloatArray, n_bins: int) -> FloatArray:
    """Sums (M,) over the components and the points of every bin."""
    return np.asarray(parts.sum(axis=0).reshape(n_bins, -1).sum(axis=1))


def parts_at(points: FloatArray, n_bins: int, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
    """Expected count of each component around each point of M bins (K, N), log-determinants (K,) of the covariances."""
    rates, means, covariances = parameters
    factors = np.linalg.cholesky(covariances)
    whitened = np.linalg.solve(factors, np.swapaxes(points - means[:, None, :], 1, 2))
    log_determinants = 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    exponents = -0.5 * ((whitened**2).sum(axis=1) + log_determinants[:, None] + means.shape[1] * LOG_2PI)
    return rates[:, None] * np.exp(exponents) / (len(points) // n_bins), log_determinants
