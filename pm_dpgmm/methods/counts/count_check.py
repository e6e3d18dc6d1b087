"""Law of the noisy counts of a grid under a mixture, by simulation: do they contradict it? Post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.cell_probabilities import exact_cell_probabilities
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture, joined

N_SIMULATED = 999
STEP = 1e-4  # of the parameters, for derivatives of expected counts


@dataclass(frozen=True, slots=True, eq=False)
class CountLaw:
    """Law of noisy counts under a mixture."""

    bounds: FloatArray
    n_cells: int
    noise_scale: float  # of discrete Laplace noise
    n_records: int | None  # None: private, and then the sum of the counts stands for it
    total: float

    @classmethod
    def of(cls, raw: Mapping[str, FloatArray], noise: Mapping[str, Any], n_records: int | None) -> CountLaw:
        """Of the counts of a release of method "histogram"."""
        counts = np.asarray(raw["counts"])
        return cls(np.asarray(raw["bounds"]), counts.shape[0], float(noise["scale"]), n_records, float(counts.sum()))

    @property
    def size(self) -> float:
        """Number of records, or its estimate."""
        return float(self.n_records) if self.n_records is not None else max(self.total, 1.0)

    def probabilities(self, mixture: Mixture) -> FloatArray:
        """Of the cells, shape (M,)."""
        return exact_cell_probabilities(mixture, self.bounds, self.n_cells)

    def expected(self, mixture: Mixture) -> FloatArray:
        """Expected counts, shape (M,)."""
        return self.size * self.probabilities(mixture)

    def deviations(self, expected: FloatArray) -> FloatArray:
        """Standard deviations of noise and sampling together, shape (M,)."""
        ratio = np.exp(-1 / self.noise_scale)
        found = np.asarray(np.sqrt(expected + 2 * ratio / (1 - ratio) ** 2))
        if not (found > 0).all():  # a file may say so
            rule = "the release must have noise in every cell in which its mixture has no records"
            raise ValueError(f"{rule}, got the noise scale {self.noise_scale:g}")
        return found

    def simulate(self, probabilities: FloatArray, n_times: int, *, rng: np.random.Generator) -> FloatArray:
        """Noisy counts of records with these probabilities of the cells, shape (n_times, M)."""
        if self.n_records is None:
            counts = rng.poisson(self.size * probabilities, size=(n_times, probabilities.size))
        else:
            counts = rng.multinomial(self.n_records, probabilities, size=n_times)
        stop = -np.expm1(-1 / self.noise_scale)
        noise = rng.geometric(stop, size=counts.shape) - rng.geometric(stop, size=counts.shape)
        return np.asarray(counts + noise, dtype=float)

    def check(
        self,
        numbers: FloatArray,
        mixture: Mixture,
        background: tuple[float, Mixture] | None,
        *,
        rng: np.random.Generator,
        any_shape: bool = False,
    ) -> tuple[float, float, float]:
        """p-value of noisy counts under a mixture that was fitted to them, their squared distance, and its mean.

        What a small step of the parameters could explain is left out on both sides, so the p-value is right whatever
        the fit had as its objective. With ``any_shape`` what lies in the background may be uniform as well.
        """
        probabilities = self.probabilities(joined(mixture, background))
        expected = self.size * probabilities
        deviations = self.deviations(expected)
        slopes = self.slopes(mixture, background)
        if any_shape and background is not None:
            flat = 1 / probabilities.size - self.probabilities(background[1])
            slopes = np.column_stack([slopes, self.size * flat])
        # directions that nothing depends on have slopes of 0: no part of the span
        left, values, _ = np.linalg.svd(slopes / deviations[:, None], full_matrices=False)
        span = left[:, values > 1e-9 * values.max()]

        def distance(noisy: FloatArray) -> FloatArray:
            residuals = (noisy - expected) / deviations
            return np.asarray((residuals**2).sum(axis=-1) - ((residuals @ span) ** 2).sum(axis=-1))

        simulated = distance(self.simulate(probabilities, N_SIMULATED, rng=rng))
        statistic = float(distance(numbers))
        p_value = (1 + (simulated >= statistic).sum()) / (1 + N_SIMULATED)
        return float(p_value), statistic, float(simulated.mean())

    def slopes(self, mixture: Mixture, background: tuple[float, Mixture] | None = None) -> FloatArray:
        """Derivatives of the expected counts by their sum, where it is private, and by all coordinates, (M, P).

        Of a background, which is known, the weight alone is one.
        """
        density, (k, d) = joined(mixture, background), mixture.means.shape
        origin = density.weights, mixture.means, np.linalg.cholesky(mixture.covariances)
        chart = Coordinates(k, d, "shares", n_more=density.n_components - k, origin=origin)
        columns = [] if self.n_records is not None else [self.expected(density) / self.size]
        diagonal = chart.filled(0.0, 0.0, 1.0, 0.0) > 0

        def at(vector: FloatArray) -> FloatArray:
            # diagonal entries, not their logarithms, move by STEP
            weights, means, factors = chart.at(np.where(diagonal, np.log1p(vector), vector))
            covariances = np.concatenate([factors @ factors.swapaxes(1, 2), density.covariances[k:]])
            return self.expected(Mixture(weights, np.concatenate([means, density.means[k:]]), covariances))

        columns += [(at(step) - at(-step)) / (2 * STEP) for step in STEP * np.eye(chart.size)]
        return np.stack(columns, axis=1)
