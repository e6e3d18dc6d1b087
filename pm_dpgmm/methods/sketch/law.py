"""Law of a released sketch given any Gaussian mixture of the records: normal, with mean and covariance in closed form.

The sums of n records' features have mean n a phi and covariance n V, both from the mixture's characteristic function
(:mod:`pm_dpgmm.mixture.characteristic`); the central limit theorem makes them normal, and the noise is normal. All
sketches of one release are sums over the same records, so they are stacked: the frequencies of a later round depend on
earlier released numbers only, hence the product of the conditional laws is the joint density at the frequencies there
are; to first order, because they also depend on the cells and moments released before, which are left out.

Two numbers that are not parameters are integrated out, each by a rank-one term of the covariance: the number of
records, where only a noisy one is known, and the weight of the background, which is normal about the released weight
with a standard deviation as large as that weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.characteristic import characteristic_function, characteristic_jacobian, feature_covariance
from pm_dpgmm.mixture.rounding import RoundedWaves, nearest_semidefinite

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released
    from pm_dpgmm.mixture.mixture import Mixture

EXACT_UP_TO = 128  # released numbers whose covariance is recomputed at every value of the parameters
NEGLECTED = 2e-2  # sampling variance, over the noise variance, that the plug-in covariance may leave out
FLAT = 1e-9  # share of the largest eigenvalue below which a direction is dropped


@dataclass(frozen=True, slots=True, eq=False)
class SketchLaw:
    """Released numbers of one release, stacked, and the public part of their law; in the unit of the records."""

    frequencies: FloatArray  # (m, D)
    amplitudes: FloatArray  # (m,)
    centre: FloatArray  # (D,)
    values: FloatArray  # (2 m,): cosines, then sines
    deviations: FloatArray  # (2 m,) of the noise
    n_records: float
    n_records_scale: float  # standard deviation of the noise on n_records
    background: tuple[float, Mixture] | None
    rounded: RoundedWaves | None = None  # where columns are rounded

    @classmethod
    def of(cls, release: Released) -> SketchLaw:
        """ValueError unless the release holds sketches."""
        background = None if release.background is None else (release.background_weight, release.background)
        return cls.of_statistics(SketchStatistics.from_arrays(release.raw, release.noise), background)

    @classmethod
    def of_statistics(cls, evidence: SketchStatistics, background: tuple[float, Mixture] | None) -> SketchLaw:
        """The law of released statistics beside a background."""
        sketches = evidence.sketches
        noise = np.concatenate([np.full(sketch.values.shape[1], sketch.noise_scale) for sketch in sketches])
        frequencies = np.concatenate([sketch.frequencies.frequencies for sketch in sketches])
        return cls(
            frequencies=frequencies,
            amplitudes=np.concatenate([sketch.frequencies.amplitudes for sketch in sketches]),
            centre=evidence.centre,
            values=np.concatenate([sketch.values for sketch in sketches], axis=1).ravel(),
            deviations=np.tile(noise, 2),
            n_records=max(1.0, evidence.n_records),
            n_records_scale=evidence.n_records_scale,
            background=background,
            rounded=None if evidence.resolution is None else RoundedWaves.of(frequencies, evidence.resolution),
        )

    @property
    def gain(self) -> FloatArray:
        """Largest possible expected sum, shape (2 m,)."""
        return self.n_records * np.tile(self.amplitudes, 2)

    @property
    def share(self) -> float:
        """Of the records that the mixture of the parameters describes."""
        return 1.0 if self.background is None else 1.0 - self.background[0]

    @property
    def fixed(self) -> FloatArray:
        """Characteristic function of the background, cosines then sines, shape (2 m,); 0 without one."""
        if self.background is None:
            return np.zeros_like(self.values)
        broad = self.background[1]
        return self._stacked(broad.weights, broad.means, factors_of(broad))

    def expected(self, weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
        """Mean of the released numbers given a mixture (K,), (K, D), (K, D, D), shape (2 m,)."""
        mixed = self.share * self._stacked(weights, means, factors) + (1 - self.share) * self.fixed
        return np.asarray(self.gain * mixed, dtype=float)

    def covariance(self, weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
        """Covariance of the released numbers given a mixture, shape (2 m, 2 m)."""
        total = self._sampling(weights, means, factors)
        total[np.diag_indices_from(total)] += np.square(self.deviations)
        return total

    def log_density(self, weights: FloatArray, means: FloatArray, factors: FloatArray) -> float:
        """Log density of the released numbers given a mixture, its own covariance: likelihood "exact"."""
        root = linalg.cholesky(self.covariance(weights, means, factors), lower=True)
        z = linalg.solve_triangular(root, self.values - self.expected(weights, means, factors), lower=True)
        return float(-0.5 * (z @ z + z.size * np.log(2 * np.pi)) - np.log(np.diagonal(root)).sum())

    def _stacked(self, weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
        if self.rounded is None:
            value = characteristic_function(self.frequencies, weights, means - self.centre, factors)
        else:
            value = self.rounded.functions(means - self.centre, factors) @ weights
        return np.concatenate([value.real, value.imag])

    def _sampling(self, weights: FloatArray, means: FloatArray, factors: FloatArray) -> FloatArray:
        """Without the noise."""
        mixed = self._stacked(weights, means, factors)
        if self.background is None:
            parts = weights, means, factors
        else:
            share, broad = self.background
            parts = (
                np.append((1 - share) * weights, share),
                np.vstack([means, broad.means]),
                np.concatenate([factors, factors_of(broad)]),
            )
        about = parts[0], parts[1] - self.centre, parts[2]
        if self.rounded is None:
            total = feature_covariance(self.frequencies, self.amplitudes, *about)
        else:
            total = self.rounded.covariance(self.amplitudes, *about)
        total *= self.n_records
        amplitudes = np.tile(self.amplitudes, 2)
        if self.n_records_scale:
            by_count = self.n_records_scale * amplitudes * (self.share * mixed + (1 - self.share) * self.fixed)
            total += np.outer(by_count, by_count)
        if self.background is not None:
            by_weight = self.background[0] * self.gain * (self.fixed - mixed)
            total += np.outer(by_weight, by_weight)
        return total


def factors_of(mixture: Mixture) -> FloatArray:
    """Lower Cholesky factors of the covariances, (K, D, D)."""
    return np.asarray(np.linalg.cholesky(mixture.covariances), dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class PlugInCovariance:
    """A covariance that does not depend on the parameters: D (I - H' H)^-1 D with D = diag(deviations).

    Attributes
    ----------
    deviations : ndarray, shape (2 m,)
        Standard deviations of the noise.
    root : ndarray, shape (Q, 2 m)
        H.
    log_determinant : float
        Of the covariance.
    """

    deviations: FloatArray
    root: FloatArray
    log_determinant: float

    @property
    def covariance(self) -> FloatArray:
        """As one matrix, (2 m, 2 m)."""
        inner = np.linalg.inv(np.eye(len(self.deviations)) - self.root.T @ self.root)
        return np.asarray(self.deviations[:, None] * inner * self.deviations, dtype=float)

    def log_density(self, residuals: FloatArray) -> FloatArray:
        """Normal log density of residuals (..., 2 m), shape (...)."""
        y = residuals / self.deviations
        square = np.square(y).sum(axis=-1) - np.square(y @ self.root.T).sum(axis=-1)
        return np.asarray(-0.5 * (square + y.shape[-1] * np.log(2 * np.pi) + self.log_determinant))


def plug_in_covariance(law: SketchLaw, mixture: Mixture) -> PlugInCovariance:
    """The covariance at ``mixture``, with as few numbers as the posterior needs.

    The full precision S^-1 of thousands of numbers would cost tens of megabytes at every evaluation. Instead
    D^-2 - S^-1, which is positive definite, is replaced by its Nystroem approximation on a subspace: all directions in
    which the mixture's parameters can move, and enough others that no single number has more than ``NEGLECTED`` of its
    noise variance in sampling variance that is left out. So score and Fisher information at ``mixture`` are exactly
    those of the full covariance, and the rest of the numbers are weighted by their noise alone.
    """
    factors = factors_of(mixture)
    sampling = law._sampling(mixture.weights, mixture.means, factors) / law.deviations / law.deviations[:, None]
    if law.rounded is not None and law.frequencies.shape[1] > 1:
        sampling = nearest_semidefinite(sampling)
    pivoted, pivots, rank, _ = lapack.dpstrf(sampling, lower=1, tol=NEGLECTED)
    leading = np.zeros((len(sampling), rank))
    leading[pivots - 1] = np.tril(pivoted)[:, :rank]
    about = mixture.weights, mixture.means - law.centre, factors
    if law.rounded is None:
        jacobian = characteristic_jacobian(law.frequencies, *about)[1]
    else:
        jacobian = law.rounded.jacobian(*about)
    tangent = np.concatenate([jacobian.real, jacobian.imag]) * (law.gain / law.deviations)[:, None]
    tangent = tangent / np.maximum(np.linalg.norm(tangent, axis=0), np.finfo(float).tiny)
    basis, triangle, _ = linalg.qr(np.hstack([tangent, leading]), mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diagonal(triangle))
    basis = basis[:, size > FLAT * size.max()]
    # S^-1 = I - A, and what is kept of A is A Q (Q' A Q)^-1 Q' A, all in units of the noise
    sampling[np.diag_indices_from(sampling)] += 1.0
    taken = basis - linalg.cho_solve(linalg.cho_factor(sampling, check_finite=False), basis, check_finite=False)
    values, vectors = np.linalg.eigh(basis.T @ taken)
    keep = values > FLAT * values.max()
    root = (taken @ (vectors[:, keep] / np.sqrt(values[keep]))).T
    _, log_kept = np.linalg.slogdet(np.eye(len(root)) - root @ root.T)
    return PlugInCovariance(
        law.deviations, np.ascontiguousarray(root), float(2 * np.log(law.deviations).sum() - log_kept)
    )
