"""Fits as vectors about a public mixture, components matched to its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

LEAST_WEIGHT = 1e-4  # of a component of a fit: its logarithm counts


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Offsets of fits from a public mixture, in the :class:`pm_dpgmm.mixture.coordinates.Coordinates` about it."""

    centre: Mixture
    coordinates: Coordinates

    @classmethod
    def about(cls, mixture: Mixture) -> Chart:
        return cls(mixture, Coordinates.about(mixture))

    def vectors(self, fits: Fits) -> FloatArray:
        """One row for each fit, shape (t, P); NaN where there is none. Row i is a function of fit i alone."""
        rows = np.full((len(fits), self.coordinates.size), np.nan)
        with np.errstate(all="ignore"):
            for i in np.flatnonzero(fits.given):
                try:
                    rows[i] = self._vector(fits.weights[i], fits.means[i], fits.covariances[i])
                except (np.linalg.LinAlgError, ValueError):  # no factor, or distances that are no numbers
                    continue
        return rows

    def mixture(self, vector: FloatArray) -> Mixture:
        """The mixture at a vector (P,)."""
        weights, means, factors = self.coordinates.at(vector)
        return Mixture(weights, means, factors @ factors.swapaxes(1, 2))

    def _vector(self, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
        origin = self.coordinates.origin
        assert origin is not None
        offsets = np.linalg.solve(origin[2][:, None], (means - self.centre.means[:, None])[..., None])[..., 0]
        order = linear_sum_assignment(np.square(offsets).sum(axis=-1))[1]
        factors = np.linalg.cholesky(covariances[order])
        return self.coordinates.of(weights[order], means[order], factors, least=LEAST_WEIGHT)
