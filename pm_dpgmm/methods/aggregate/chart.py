"""A learner's answers as vectors about a public one: mixtures with their components matched, and vectors of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

LEAST_WEIGHT = 1e-4  # of a component of a fit: its logarithm counts
FARTHEST = 1e100  # offsets: what is farther away is no answer, so that squares are numbers

Answers = Fits | FloatArray  # of many subsets: fits, or vectors (t, p)


class Chart(Protocol):
    """How answers become vectors of ``size`` numbers, 0 at a public answer."""

    @property
    def size(self) -> int:
        """P."""
        ...

    def vectors(self, answers: Answers) -> FloatArray:
        """One row for each answer, shape (t, P); NaN where there is none. Row i is a function of answer i alone."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MixtureChart:
    """Offsets of mixtures in the :class:`pm_dpgmm.mixture.coordinates.Coordinates` about a public one."""

    centre: Mixture
    coordinates: Coordinates

    @classmethod
    def about(cls, mixture: Mixture) -> MixtureChart:
        """With offset 0 at ``mixture``."""
        return cls(mixture, Coordinates.about(mixture))

    @property
    def size(self) -> int:
        """P."""
        return self.coordinates.size

    def vectors(self, answers: Answers) -> FloatArray:
        """See :class:`Chart`; components are matched to those of the public mixture."""
        assert isinstance(answers, Fits)
        rows = np.full((len(answers), self.size), np.nan)
        with np.errstate(all="ignore"):
            for i in np.flatnonzero(answers.given):
                try:
                    rows[i] = self._vector(answers.weights[i], answers.means[i], answers.covariances[i])
                except (np.linalg.LinAlgError, ValueError):  # no factor, or distances that are no numbers
                    continue
        return near(rows)

    def mixture(self, vector: FloatArray) -> Mixture:
        """The mixture at a vector (P,)."""
        weights, means, factors = self.coordinates.at(vector)
        return Mixture(weights, means, factors @ factors.swapaxes(1, 2))

    def vector(self, mixture: Mixture) -> FloatArray:
        """The vector (P,) of a mixture, its components matched."""
        return self._vector(mixture.weights, mixture.means, mixture.covariances)

    def _vector(self, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
        origin = self.coordinates.origin
        assert origin is not None
        offsets = np.linalg.solve(origin[2][:, None], (means - self.centre.means[:, None])[..., None])[..., 0]
        order = linear_sum_assignment(np.square(offsets).sum(axis=-1))[1]
        factors = np.linalg.cholesky(covariances[order])
        return self.coordinates.of(weights[order], means[order], factors, least=LEAST_WEIGHT)


@dataclass(frozen=True, slots=True, eq=False)
class VectorChart:
    """Offsets of vectors from a public one, in public units."""

    centre: FloatArray  # (P,)
    units: FloatArray  # (P,)

    @property
    def size(self) -> int:
        """P."""
        return len(self.centre)

    def vectors(self, answers: Answers) -> FloatArray:
        """See :class:`Chart`."""
        assert isinstance(answers, np.ndarray)
        with np.errstate(all="ignore"):
            return near(np.asarray((answers - self.centre) / self.units))

    def vector(self, offset: FloatArray) -> FloatArray:
        """The vector (P,) at an offset (P,)."""
        return np.asarray(self.centre + self.units * offset)


def near(rows: FloatArray) -> FloatArray:
    """Rows (t, P), NaN where a number is farther than FARTHEST or none; row by row."""
    lost = ~(np.abs(rows) <= FARTHEST).all(axis=1)
    return np.where(lost[:, None], np.nan, rows)
