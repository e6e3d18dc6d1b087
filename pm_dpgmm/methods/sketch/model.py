"""Noisy sketches stacked for a fit, and priors in their unit.

Records are measured from a public centre in a public unit (`SketchData.of`). fit.py fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.covariance_types import Flat
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.mixture.characteristic import (
    ComplexArray,
    characteristic_function,
    characteristic_jacobian,
    component_functions,
    feature_covariance,
)
from pm_dpgmm.mixture.rounding import RoundedWaves

MOST_WEIGHED = 2600  # numbers whose full covariance is used in a fit
NOTABLE = 0.1  # sampling over noise variance; 0 gains some 1e-4 nats at 8,000 records and doubles the time of a fit


@dataclass(frozen=True, slots=True, eq=False)
class SketchData:
    """Stacked releases on the same records, in a unit of their own."""

    frequencies: FloatArray  # (m, D), radians per unit
    amplitudes: FloatArray  # (m,)
    values: FloatArray  # (2 m,): cosines, then sines
    variances: FloatArray  # (2 m,) of the noise
    n_records: float
    centre: FloatArray  # (D,)
    unit: FloatArray  # (D,)
    background: tuple[FloatArray, FloatArray] | None = None  # mean and factor of a broad component that a fit may have
    variance_floor: FloatArray | None = None  # (D,): public variances that every component has on top of its factor's
    count_scale: float = 0.0  # standard deviation of the noise on the number of records
    bounds: FloatArray | None = None  # (D, 2), in the unit of the records: public limits of the means
    rounded: RoundedWaves | None = None  # where columns are rounded
    covariance_type: str = "full"

    @classmethod
    def of(
        cls,
        sketches: Sequence[NoisySketch],
        unit: FloatArray,
        background: tuple[FloatArray, FloatArray] | None = None,
        variance_floor: FloatArray | None = None,
    ) -> SketchData:
        """All sketches must have the same centre; ``variance_floor`` is in the unit of the data."""
        centre = np.atleast_1d(sketches[0].frequencies.centre)
        for sketch in sketches:
            if not np.array_equal(np.atleast_1d(sketch.frequencies.centre), centre):
                raise ValueError("sketches must have the same centre")
        variances = np.concatenate([np.full(s.values.shape[1], s.noise_scale**2) for s in sketches])
        return cls(
            frequencies=np.concatenate([s.frequencies.frequencies for s in sketches]) * unit,
            amplitudes=np.concatenate([s.frequencies.amplitudes for s in sketches]),
            values=np.concatenate([s.values for s in sketches], axis=1).ravel(),
            variances=np.tile(variances, 2),
            n_records=max(1.0, sketches[0].n_records),
            centre=centre,
            unit=np.asarray(unit, dtype=float),
            background=background,
            variance_floor=variance_floor,
        )

    def inside(self, means: FloatArray) -> FloatArray:
        """Means (K, D), in the unit of the data, moved to the nearest points within the bounds."""
        if self.bounds is None:
            return means
        low, high = ((self.bounds - self.centre[:, None]) / self.unit[:, None]).T
        return np.clip(means, low, high)

    def flat(self, n_components: int, has_background: bool) -> Flat:
        """Where mixtures with covariances of the data's kind lie."""
        return Flat.of(self.covariance_type, self.unit, n_components, has_background)

    @property
    def full_weights(self) -> bool:
        """Whether the last step of a fit weighs with the full covariance: where sampling matters, at bearable size."""
        return self.frequencies.shape[1] == 1 or (self.values.size <= MOST_WEIGHED and self.sampling_matters)

    @property
    def sampling_matters(self) -> bool:
        """Whether the records' own chance is notable beside the noise."""
        sampling = self.n_records * np.square(np.tile(self.amplitudes, 2)) / 2
        return bool(np.median(sampling / self.variances) > NOTABLE)

    def thinned(self, stride: int) -> SketchData:
        """Every ``stride``-th frequency."""
        if stride == 1:
            return self
        pair = np.s_[:, ::stride]
        return replace(
            self,
            frequencies=self.frequencies[::stride],
            amplitudes=self.amplitudes[::stride],
            values=self.values.reshape(2, -1)[pair].ravel(),
            variances=self.variances.reshape(2, -1)[pair].ravel(),
            rounded=None if self.rounded is None else self.rounded.thinned(stride),
        )

    @property
    def gain(self) -> FloatArray:
        """Sum of a component of all records at the centre with no factor, only the variance floor, shape (2 m,).

        Where columns are rounded, every term of a wave has its own share of the floor: :meth:`waves` has it then.
        """
        damped = self.amplitudes
        # a variance r of its own multiplies a characteristic function by exp(-w'rw/2)
        if self.variance_floor is not None and self.rounded is None:
            damped = damped * np.exp(-0.5 * np.square(self.frequencies) @ self.variance_floor)
        return self.n_records * np.tile(damped, 2)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations of noise and the most that sampling can vary, shape (2 m,)."""
        return np.sqrt(self.variances + self.n_records * np.square(np.tile(self.amplitudes, 2)) / 2)

    def components(self, found: ScaledMixture) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, means and factors of all components with their variance floor, the background last."""
        weights, means, factors = found.parts(self.background)
        return weights, means, widened(factors, self.variance_floor)

    def waves(self, means: FloatArray, factors: FloatArray) -> ComplexArray:
        """Characteristic functions of components (K, D), (K, D, D) as they are seen, over ``gain``, shape (m, K)."""
        if self.rounded is None:
            return component_functions(self.frequencies, means, factors)
        return self.rounded.functions(means, factors, self.variance_floor)

    def slopes(self, found: ScaledMixture) -> ComplexArray:
        """Derivatives of the mixture's, (m, P), the background being one of the components."""
        parts = found.parts(self.background)
        if self.rounded is None:
            return characteristic_jacobian(self.frequencies, *parts)[1]
        return self.rounded.jacobian(*parts, self.variance_floor)

    def sampling(self, found: ScaledMixture) -> FloatArray:
        """Covariance of one record's features, shape (2 m, 2 m)."""
        parts = self.components(found)
        if self.rounded is None:
            return feature_covariance(self.frequencies, self.amplitudes, *parts)
        return self.rounded.covariance(self.amplitudes, *parts)

    def expected(self, found: ScaledMixture) -> FloatArray:
        """Expectations of the released numbers, shape (2 m,)."""
        if self.rounded is None:
            values = characteristic_function(self.frequencies, *found.parts(self.background))
        else:
            weights, means, factors = found.parts(self.background)
            values = self.waves(means, factors) @ weights
        return np.asarray(self.gain * np.concatenate([values.real, values.imag]))

    def stretched(
        self, size: FloatArray, mean: FloatArray, axes: FloatArray, lengths: FloatArray, together: slice, scale: float
    ) -> ComplexArray:
        """Change (m,) of a component's characteristic function, times ``size``, when some of its deviations are scaled.

        ``axes`` (D, D) and ``lengths`` (D,) are those of its covariance, the variance floor in it; ``together``: the
        places of those that are scaled.
        """

        def change(frequencies: FloatArray) -> ComplexArray:
            waves = np.square(frequencies @ axes * lengths)  # (m, D): their sum is that of the component's exponent
            total = waves.sum(axis=1)
            other = total + (scale**2 - 1) * waves[:, together].sum(axis=1)
            there = size * np.exp(1j * frequencies @ mean)
            return np.asarray(there * (np.exp(-other / 2) - np.exp(-total / 2)))

        if self.rounded is None:
            return change(self.frequencies)
        return self.rounded.summed(lambda w: change(w)[:, None])[:, 0]

    def residuals(self, found: ScaledMixture) -> FloatArray:
        """Expected less released numbers, shape (2 m,)."""
        return self.expected(found) - self.values


def widened(factors: FloatArray, variance_floor: FloatArray | None) -> FloatArray:
    """Factors (K, D, D) of the covariances with ``variance_floor`` on their diagonals.

    L L' + R = U'U with U from the QR decomposition of [L'; R^1/2], which exists whatever L is, as a Cholesky factor of
    the rounded sum need not: this is called after the budget is spent.
    """
    if variance_floor is None:
        return factors
    roots = np.broadcast_to(np.diag(np.sqrt(variance_floor)), factors.shape)
    upper = np.linalg.qr(np.concatenate([factors.swapaxes(1, 2), roots], axis=1), mode="r")
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return np.asarray((signs[:, :, None] * upper).swapaxes(1, 2), dtype=float)
