"""Kinds of covariances, by scikit-learn's names, as linear restrictions on the coordinates of a fit.

In the coordinates of :mod:`pm_dpgmm.methods.sketch.scaled_mixture` (logarithms of weights, means, entries of factors,
the diagonal ones by their logarithms) the mixtures of every kind are a flat: theta = origin + T phi with a matrix T of
zeros and ones. A fit, its errors and its evidence are those of full covariances with T behind the derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture, fit_coordinates
from pm_dpgmm.mixture.coordinates import triangle

FULL, TIED, DIAG, SPHERICAL, AUTO = "full", "tied", "diag", "spherical", "auto"
KINDS = (FULL, TIED, DIAG, SPHERICAL)  # of a fit
COVARIANCE_TYPES = (*KINDS, AUTO)  # of a setting: the last one is for the released numbers to decide


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """Where the mixtures of one kind lie among those with full covariances; ``matrix`` is None for these themselves."""

    matrix: FloatArray | None  # T, (P, Q): at most one 1 in a row
    origin: FloatArray  # (P,)

    @classmethod
    def of(cls, kind: str, unit: FloatArray, n_components: int, has_background: bool) -> Flat:
        """``unit`` (D,) is that of the data: one scale for all columns is one in the unit of the records."""
        chart = fit_coordinates(n_components, len(unit), has_background)
        if kind == FULL:
            return cls(None, np.zeros(chart.size))
        lengths = _lengths(unit)[triangle(len(unit))[0]] if kind == SPHERICAL else 0.0
        return cls(_matrix(kind, n_components, len(unit), has_background), chart.filled(0.0, 0.0, lengths, 0.0))

    @property
    def size(self) -> int:
        """Q."""
        return len(self.origin) if self.matrix is None else self.matrix.shape[1]

    def slopes(self, by_theta: FloatArray) -> FloatArray:
        """Derivatives by phi (..., Q) from those by theta (..., P)."""
        return by_theta if self.matrix is None else by_theta @ self.matrix

    def means(self, values: FloatArray) -> FloatArray:
        """A number (Q,) for each of phi from one for each of theta (P,): the mean of those that it stands for."""
        return values if self.matrix is None else values @ self.matrix / self.matrix.sum(axis=0)

    def reduced(self, theta: FloatArray) -> FloatArray:
        """Phi (Q,) of a mixture on the flat."""
        return theta if self.matrix is None else self.means(theta - self.origin)

    def at(self, phi: FloatArray) -> FloatArray:
        """Theta (P,)."""
        return phi if self.matrix is None else self.origin + self.matrix @ phi

    def steps(self, rows: FloatArray) -> FloatArray:
        """Steps of theta (P, ...) from steps of phi (Q, ...)."""
        return rows if self.matrix is None else self.matrix @ rows


def restricted(found: ScaledMixture, kind: str, unit: FloatArray) -> ScaledMixture:
    """The mixture with covariances of one kind that are like its own: averages, and what is on the diagonals."""
    if kind == FULL:
        return found
    if kind == TIED:
        pooled = np.einsum("k,kij->ij", found.weights / found.weights.sum(), found.covariances)
        factors = ScaledMixture.of(np.ones(1), found.means[:1], pooled[None]).factors
        return replace(found, factors=np.repeat(factors, found.n_components, axis=0), given=None)
    deviations = np.sqrt(np.square(found.factors).sum(axis=2))
    if kind == SPHERICAL:
        lengths = np.exp(_lengths(unit))
        deviations = np.sqrt(np.square(deviations / lengths).mean(axis=1, keepdims=True)) * lengths
    return replace(found, factors=deviations[:, :, None] * np.eye(len(unit)), given=None)


def kinds_in(n_features: int) -> tuple[str, ...]:
    """The kinds that differ: of one column only whether components share a variance."""
    return KINDS if n_features > 1 else (FULL, TIED)


def _lengths(unit: FloatArray) -> FloatArray:
    """Logarithms of what one length in the unit of the records is in that of each column, (D,), up to a constant."""
    logs = np.log(unit)
    return np.asarray(logs.mean() - logs)


@cache
def _matrix(kind: str, n_components: int, n_features: int, has_background: bool) -> FloatArray:
    """T."""
    row, column, _ = triangle(n_features)
    if kind == TIED:
        entries = np.tile(np.eye(len(row)), (n_components, 1))
    else:
        own = np.eye(n_features)[row] * (row == column)[:, None]  # (D (D + 1)/2, D)
        entries = np.kron(np.eye(n_components), own if kind == DIAG else own.sum(axis=1, keepdims=True))
    first = fit_coordinates(n_components, n_features, has_background).blocks[2].start
    found = np.zeros((first + len(entries), first + entries.shape[1]))
    found[:first, :first] = np.eye(first)
    found[first:, first:] = entries
    found.setflags(write=False)
    return found
