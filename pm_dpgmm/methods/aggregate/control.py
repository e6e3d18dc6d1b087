"""What the released waves explain of a fit: a control variate that every subset can compute for itself.

A fit to a subset follows the records in it: to first order it moves by the mean over the subset of an influence
function. That mean is nearly a linear combination of the subset's waves, and the waves of all records are released
already, with little noise. Taken off from the fit of every subset, and put back once as released, they leave the
subsets with vectors that are several times shorter, and so the noise of their average is several times smaller. The
identity is exact whatever the records are; a bad combination costs accuracy and nothing else.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.mechanisms.sketch_features import GRID, sketch_sums
from pm_dpgmm.methods.sketch.law import SketchLaw, factors_of
from pm_dpgmm.mixture.characteristic import characteristic_jacobian, feature_covariance
from pm_dpgmm.mixture.mixture import Mixture, joined
from pm_dpgmm.privacy.noise import IntArray

MOST_EXACT = 2600  # numbers whose covariance is computed in closed form; of more a sample of records stands for it
SAMPLED = 2000  # records of that sample


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """The best linear predictors, by the waves of a released sketch, of a record's score in the released mixture.

    Attributes
    ----------
    sketches : tuple of NoisySketch
    coefficients : ndarray, shape (P, 2 m)
        Of the waves, cosines of all sketches before sines.
    released : ndarray, shape (P,)
        The predictors at the released means of the waves.
    expected : ndarray, shape (P,)
        The predictors at the means that the waves have in the released density.
    noise : ndarray, shape (P, P)
        Covariance of ``released`` given the records.
    """

    sketches: tuple[NoisySketch, ...]
    coefficients: FloatArray
    released: FloatArray
    expected: FloatArray
    noise: FloatArray

    @classmethod
    def of(
        cls, law: SketchLaw, sketches: tuple[NoisySketch, ...], mixture: Mixture, *, price: float, rows: FloatArray
    ) -> Waves:
        """Predictors that lose least: unexplained variance of a record's score, and ``price`` times their noise.

        Parameters
        ----------
        law : SketchLaw
        sketches : tuple of NoisySketch
            Those of ``law``.
        mixture : Mixture
            Released, without the background.
        price : float
            Of the variance of ``released`` in units of the unexplained variance of one record.
        rows : ndarray, shape (n, D)
            Simulated records, which stand for the covariance of very many waves.

        Notes
        -----
        The covariance of a record's score s with its waves f is the derivative J of E f by the parameters, so that the
        coefficients are J' (cov f + price * cov of the noise of the means)^-1.
        """
        factors = factors_of(mixture)
        jacobian = characteristic_jacobian(law.frequencies, mixture.weights, mixture.means - law.centre, factors)[1]
        amplitudes = np.tile(law.amplitudes, 2)
        slopes = law.share * amplitudes[:, None] * np.concatenate([jacobian.real, jacobian.imag])
        variances = np.square(law.deviations / law.n_records)  # of the noise of the means
        solved = WaveCovariance.of(law, mixture, diagonal=price * variances, rows=rows).solve(slopes)
        coefficients = np.ascontiguousarray(solved.T)
        means = law.values / law.n_records
        noise = (coefficients * variances) @ solved
        if law.n_records_scale:
            by_count = coefficients @ means * (law.n_records_scale / law.n_records)
            noise = noise + np.outer(by_count, by_count)
        expected = law.expected(mixture.weights, mixture.means, factors) / law.n_records
        return cls(sketches, coefficients, coefficients @ means, coefficients @ expected, noise)

    def means(self, subset: FloatArray) -> FloatArray:
        """The predictors at the means of the waves over the rows of one subset, (P,); 0 for none. Secret."""
        parts = [sketch_sums(subset, sketch.frequencies) for sketch in self.sketches]
        sums = np.concatenate(parts, axis=1).ravel() * GRID
        return np.asarray(self.coefficients @ (sums / max(len(subset), 1)))

    def of_subsets(self, rows: FloatArray, edges: IntArray) -> FloatArray:
        """:meth:`means` of ``rows[edges[i] : edges[i + 1]]`` as row i, (t, P). Secret."""
        return np.array([self.means(rows[low:high]) for low, high in itertools.pairwise(edges)])


@dataclass(frozen=True, slots=True, eq=False)
class WaveCovariance:
    """Covariance of one record's waves in the released density, plus a diagonal: W' W/n + diag, or all of it."""

    diagonal: FloatArray  # (2 m,)
    waves: FloatArray | None  # (n, 2 m), centred, of a sample of records where there are too many waves
    root: FloatArray  # Cholesky factor of the whole (2 m, 2 m), or of W diag^-1 W' + n I (n, n)

    @classmethod
    def of(cls, law: SketchLaw, mixture: Mixture, *, diagonal: FloatArray, rows: FloatArray) -> WaveCovariance:
        """In ``mixture`` with the background; simulated ``rows`` (n, D) of both stand for it where waves are many."""
        if law.values.size <= MOST_EXACT:
            whole = joined(mixture, law.background)
            parts = whole.weights, whole.means - law.centre, factors_of(whole)
            covariance = feature_covariance(law.frequencies, law.amplitudes, *parts)
            covariance[np.diag_indices_from(covariance)] += diagonal
            return cls(diagonal, None, linalg.cholesky(covariance, lower=True))
        phases = (rows[:SAMPLED] - law.centre) @ law.frequencies.T
        waves = np.hstack([np.cos(phases), np.sin(phases)]) * np.tile(law.amplitudes, 2)
        waves -= waves.mean(axis=0)
        inner = (waves / diagonal) @ waves.T
        inner[np.diag_indices_from(inner)] += len(waves)
        return cls(diagonal, waves, linalg.cholesky(inner, lower=True))

    def solve(self, columns: FloatArray) -> FloatArray:
        """The inverse times ``columns`` (2 m, p); of low rank by Woodbury's identity."""
        if self.waves is None:
            return np.asarray(linalg.cho_solve((self.root, True), columns))
        first = columns / self.diagonal[:, None]
        inner = linalg.cho_solve((self.root, True), self.waves @ first)
        return np.asarray(first - (self.waves.T @ inner) / self.diagonal[:, None])

    def times(self, columns: FloatArray) -> FloatArray:
        """The whole times ``columns`` (2 m, p)."""
        if self.waves is None:
            return np.asarray(self.root @ (self.root.T @ columns))
        return np.asarray(self.waves.T @ (self.waves @ columns) / len(self.waves) + self.diagonal[:, None] * columns)
