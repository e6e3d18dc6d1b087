"""Gaussian mixtures measured from the public centre of a sketch in its public unit: what all its steps hand on.

Starts and merges think in covariances, fits in factors; the coordinates of a fit are those of
:mod:`pm_dpgmm.mixture.coordinates`. estimate.py converts to the unit of the records, once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

LOG_SCALES = (-12.0, 12.0)  # limits of the logarithms of a factor's diagonal, in a fit
LEAST_WEIGHT = 1e-6  # in a fit: a weight of 0 has no logarithm
FLOOR = 1e-9  # least variance, in squared radii
FLATTEST = 1e-12  # least eigenvalue of a covariance that is made to have a factor, as a share of its largest


@dataclass(frozen=True, slots=True, eq=False)
class ScaledMixture:
    """A mixture of K Gaussians in D columns, and perhaps a broad background, in the unit of the data.

    Attributes
    ----------
    weights, means, factors : ndarray, shapes (K,), (K, D), (K, D, D)
        Weights sum to 1 with the background's; factors are lower triangular.
    objective : float
        Penalised sum of squares of the fit that ended here; infinite before one.
    background : float or None
        Weight of the background, whose law is the data's; None: the model has none.
    given : ndarray, shape (K, D, D), or None
        Covariances that ``factors`` were computed from: set by :meth:`of`, so that nothing is rounded twice.
    """

    weights: FloatArray
    means: FloatArray
    factors: FloatArray
    objective: float = np.inf
    background: float | None = None
    given: FloatArray | None = None

    @classmethod
    def of(cls, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> ScaledMixture:
        """From covariances; factors are those of the nearest ones that have any, should rounding deny them."""
        try:
            factors = np.linalg.cholesky(covariances)
        except np.linalg.LinAlgError:  # the budget is spent, so go on
            values, vectors = np.linalg.eigh(covariances)
            values = np.maximum(values, FLATTEST * np.maximum(values[:, -1:], FLOOR))
            factors = np.linalg.cholesky((vectors * values[:, None, :]) @ vectors.swapaxes(1, 2))
        return cls(weights, means, np.asarray(factors, dtype=float), given=covariances)

    @classmethod
    def about(cls, mixture: Mixture, centre: FloatArray, unit: FloatArray) -> ScaledMixture:
        """A mixture in the unit of the records, measured from ``centre`` (D,) in ``unit`` (D,)."""
        return cls.of(mixture.weights, (mixture.means - centre) / unit, mixture.covariances / unit / unit[:, None])

    @property
    def covariances(self) -> FloatArray:
        """Shape (K, D, D)."""
        return self.factors @ self.factors.swapaxes(1, 2) if self.given is None else self.given

    @property
    def n_components(self) -> int:
        """K, the background not counted."""
        return len(self.weights)

    @property
    def n_parameters(self) -> int:
        """Numbers of K weights, means and covariances."""
        return Coordinates(*self.means.shape).size

    def parts(self, broad: tuple[FloatArray, FloatArray] | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, means and factors of all components, the background with mean and factor ``broad`` last."""
        if self.background is None or broad is None:
            return self.weights, self.means, self.factors
        return (
            np.append(self.weights, self.background),
            np.vstack([self.means, broad[0]]),
            np.concatenate([self.factors, broad[1][None]]),
        )

    def without(self, component: int) -> ScaledMixture:
        """One component less; its weight goes to all others in proportion."""
        keep = np.arange(self.n_components) != component
        rest = self.weights[keep] * (self.weights.sum() / self.weights[keep].sum())
        return ScaledMixture(rest, self.means[keep], self.factors[keep], np.inf, self.background)

    def with_component(self, weight: float, mean: FloatArray, factor: FloatArray) -> ScaledMixture:
        """One component more, last; the others keep their proportions."""
        weights = np.append(self.weights * (1 - weight), weight * self.weights.sum())
        means, factors = np.vstack([self.means, mean]), np.concatenate([self.factors, factor[None]])
        return ScaledMixture(weights, means, factors, np.inf, self.background)


def fit_coordinates(n_components: int, n_features: int, has_background: bool) -> Coordinates:
    """Of a fit: one logarithm for every weight, the background's last; means and factors themselves."""
    return Coordinates(n_components, n_features, n_more=int(has_background), limits=LOG_SCALES)


def packed(found: ScaledMixture) -> FloatArray:
    """The vector (P,) of a mixture in the coordinates of a fit."""
    k, d = found.means.shape
    weights = found.weights if found.background is None else np.append(found.weights, found.background)
    chart = fit_coordinates(k, d, found.background is not None)
    return chart.of(weights, found.means, found.factors, least=LEAST_WEIGHT)


def unpacked(vector: FloatArray, n_components: int, n_features: int, has_background: bool) -> ScaledMixture:
    """The mixture at a vector (P,): inverse of :func:`packed`."""
    weights, means, factors = fit_coordinates(n_components, n_features, has_background).at(vector)
    background = float(weights[-1]) if has_background else None
    return ScaledMixture(weights[:n_components], means, factors, np.inf, background)


def packed_spreads(found: ScaledMixture, logits: FloatArray, means: FloatArray, scales: FloatArray) -> FloatArray:
    """Standard deviations in the coordinates of a fit, shape (P,), from (K,), (K, D) and (K,).

    ``scales`` are those of the logarithms of a factor's diagonal; entries below it and a background have 0.
    """
    k, d = found.means.shape
    chart = fit_coordinates(k, d, found.background is not None)
    return chart.filled(np.append(logits, np.zeros(chart.n_more)), means, scales[:, None], 0.0)
