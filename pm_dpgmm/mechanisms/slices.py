"""Counts of records in slices of a box: one histogram along each of several public directions. Proof: slices.md.

The marginal of a Gaussian mixture along a direction is a mixture in one dimension, and enough directions determine all
means and covariances. A record is in one slice of each direction, so the L1 sensitivity grows with the number of
directions and not with the number of bins.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.privacy.noise import IntArray

REPULSION_STEPS, REPULSION_SEED = 1000, 20262  # of the search for spread-out directions; public
FIRST_STEP = 0.3  # of the search, falls to 0


@functools.lru_cache(maxsize=32)
def slice_directions(n_features: int) -> FloatArray:
    """D (D + 3) / 2 unit vectors: the axes, and others as far from all lines as a search finds. A public constant.

    D (D + 1) / 2 of them would determine a covariance; D more tell which component is which where projections cross.
    They repel each other with the fourth power of the cosine, whose least sum gives every covariance entry the same
    noise (a spherical 4-design, where one exists).

    Returns
    -------
    ndarray, shape (D (D + 3) / 2, D)
        Read-only; the first D rows are the axes.
    """
    d = n_features
    rng = np.random.default_rng(REPULSION_SEED)
    u = np.vstack([np.eye(d), rng.standard_normal((d * (d + 1) // 2, d))])
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    for step in range(REPULSION_STEPS):
        cosines = u @ u.T
        np.fill_diagonal(cosines, 0.0)
        force = cosines**3 @ u
        force[:d] = 0.0
        u -= FIRST_STEP * (1 - step / REPULSION_STEPS) * force / max(np.abs(force).max(), 1e-12)
        u /= np.linalg.norm(u, axis=1, keepdims=True)
    u.setflags(write=False)
    return u


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Public slices of a box: in units of a bin, the box is a cube of side ``n_cells`` around the origin.

    Parameters
    ----------
    directions : ndarray, shape (S, D)
        Unit vectors.
    n_cells : int
        The method's ``n_bins``: slices across the box along an axis; all directions have slices of this width, so
        oblique ones have more.
    """

    directions: FloatArray
    n_cells: int

    @property
    def sizes(self) -> IntArray:
        """Slices of each direction, shape (S,): enough to cover the box."""
        return np.ceil(np.abs(self.directions).sum(axis=1) * self.n_cells * (1 - 1e-12)).astype(np.int64)

    @property
    def offsets(self) -> IntArray:
        """Where each direction starts in the vector of all counts, shape (S + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @property
    def left_edges(self) -> FloatArray:
        """Lower edge of every slice along its direction, in bins, in the order of the counts."""
        return np.concatenate([np.arange(size) - size / 2 for size in self.sizes])

    def index(self, points: FloatArray) -> IntArray:
        """Slice of every point (N, D), given in bins, in every direction: positions in the counts, shape (N, S).

        Elementwise products and sums in a fixed order: the slice of a point depends on no other point, bit for bit.
        A matrix product would not promise that.
        """
        result = np.empty((len(points), len(self.directions)), dtype=np.int64)
        for s, (direction, size, offset) in enumerate(zip(self.directions, self.sizes, self.offsets[:-1], strict=True)):
            along = np.full(len(points), size / 2)
            for j, factor in enumerate(direction):
                along += points[:, j] * factor
            result[:, s] = offset + np.clip(along.astype(np.int64), 0, size - 1)
        return result


def slice_counts(records: ArrayLike, slices: Slices, *, bounds: FloatArray) -> IntArray:
    """Number of records in each slice, all directions in one vector.

    Parameters
    ----------
    records : array_like, shape (N, D)
        Any numbers; values outside the bounds count as the nearest limit, NaN as the lower one.
    slices : Slices
        Public directions and bins.
    bounds : ndarray, shape (D, 2)
        Public lower and upper bound of every column, in its unit.

    Returns
    -------
    ndarray of int64, shape (slices.offsets[-1],)
        For each direction, each record is in exactly one slice, which depends on that record alone.
    """
    rows = np.asarray(records, dtype=float)
    rows = np.where(np.isnan(rows), bounds[:, 0], rows)
    inside = np.clip(rows, bounds[:, 0], bounds[:, 1])  # before the subtraction, so that nothing overflows
    share = (inside / 2 - bounds[:, 0] / 2) / (bounds[:, 1] / 2 - bounds[:, 0] / 2)
    counts = np.zeros(slices.offsets[-1], dtype=np.int64)
    block = 65536  # bounds the memory
    for first in range(0, len(rows), block):
        index = slices.index((share[first : first + block] - 0.5) * slices.n_cells)
        counts += np.bincount(index.ravel(), minlength=len(counts))
    return counts
