"""Counts of records in public bins with geometric noise. Proof: histogram.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_positive
from pm_dpgmm.privacy.curves import GeometricProfile
from pm_dpgmm.privacy.guarantee import Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_laplace, laplace_scale

SMALLEST_EPSILON = 1e-9  # far below any use; keeps counts plus noise inside 64 bits
MOST_COUNTS = 2**20  # of a release: a file holds them in half of the size that is read
SMALLEST_SCALE = 1e-12  # far above any use; its inverse stays finite


def cell_counts(records: ArrayLike, *, bounds: FloatArray, n_cells: int) -> IntArray:
    """Number of records in each bin of a regular public grid.

    Parameters
    ----------
    records : array_like, shape (N, D)
        Finite numbers; a record outside the bounds counts in the nearest bin.
    bounds : ndarray, shape (D, 2)
        Public lower and upper bound of every column, in its unit.
    n_cells : int
        The method's ``n_bins``: bins along every column.

    Returns
    -------
    ndarray of int64, shape (n_cells,) * D
        Each record is in exactly one bin, which depends on that record alone.
    """
    rows = np.asarray(records, dtype=float)
    inside = np.clip(rows, bounds[:, 0], bounds[:, 1])  # before the subtraction, so that nothing overflows
    # halves keep high - low finite for bounds as wide as the floats
    share = (inside / 2 - bounds[:, 0] / 2) / (bounds[:, 1] / 2 - bounds[:, 0] / 2)
    index = np.clip((share * n_cells).astype(np.int64), 0, n_cells - 1)
    shape = (n_cells,) * rows.shape[1]
    flat = np.ravel_multi_index(tuple(index.T), shape)
    return np.bincount(flat, minlength=math.prod(shape)).astype(np.int64).reshape(shape)


def histogram_loss(*, epsilon: float, neighbouring: Neighbouring, n_histograms: int = 1) -> GeometricProfile:
    """Noise scale and exact privacy curve of :func:`noisy_counts`."""
    check_positive(epsilon=epsilon)
    if epsilon < SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least {SMALLEST_EPSILON:g} for integer noise, got {epsilon:g}")
    changed = n_histograms * (2 if replaces_one(neighbouring) else 1)
    scale = laplace_scale(changed, epsilon)
    if scale < SMALLEST_SCALE:
        raise ValueError(f"epsilon must be at most {changed / SMALLEST_SCALE:g} for integer noise, got {epsilon:g}")
    return GeometricProfile(scale=scale, n_counts=changed)


def noisy_counts(
    counts: IntArray, *, epsilon: float, neighbouring: Neighbouring, n_histograms: int = 1, rng: Rng = None
) -> tuple[IntArray, GeometricProfile]:
    """Add independent geometric (discrete Laplace) noise to every bin of one or more histograms.

    Parameters
    ----------
    counts : ndarray of int64, any shape
        Exact counts of public bins, empty bins included.
    epsilon : float
        Privacy cost.
    neighbouring : Neighbouring
        In each histogram, replacing a record moves two counts by one each, adding or removing one a single count.
    n_histograms : int
        Histograms of the same records in ``counts``: sets of disjoint bins that each hold every record once.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    noisy : ndarray of int64, shape of ``counts``
        May be negative. Noise: P[z] proportional to exp(-|z| / scale), scale 2/epsilon or 1/epsilon for
        each histogram.
    loss : GeometricProfile
        Exact privacy curve.

    Guarantee
    ---------
    epsilon-DP (pure). Proof: histogram.md; Dwork, McSherry, Nissim and Smith (2006), Ghosh, Roughgarden and
    Sundararajan (2012).

    Examples
    --------
    >>> noisy, loss = noisy_counts(np.array([5, 0, 7]), epsilon=1.0, neighbouring=Neighbouring.REPLACE_ONE)
    >>> noisy.shape, loss.scale
    ((3,), 2.0)
    """
    loss = histogram_loss(epsilon=epsilon, neighbouring=neighbouring, n_histograms=n_histograms)
    return counts + discrete_laplace(counts.shape, scale=loss.scale, rng=rng), loss
