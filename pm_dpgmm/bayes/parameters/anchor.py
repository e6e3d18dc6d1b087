"""Offsets from a released mixture, and the weak and the given scales; "auto" scales: anchor_laws. Imports no PyMC.

Offsets are the coordinates of :mod:`pm_dpgmm.mixture.coordinates` about the release, without unit and all 0 there:
logarithms of weight ratios to the heaviest component, relative to those released; means in the frame of their
component, L0^-1 (mean - released mean) with L0 L0' the released covariance; and the factor T of covariance
L0 T T' L0', row by row, diagonal entries as logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, as_floats, check_positive, frozen, shown
from pm_dpgmm.mixture.coordinates import Coordinates, share_slopes, triangle
from pm_dpgmm.mixture.mixture import Mixture

LEAST_WEIGHT = 1e-3  # of the heaviest component's: lighter ones are lifted, as a weight of 0 has no logarithm
LEAST_SEPARATION = 4.0  # prior standard deviations between means, below which labels may be exchanged
WEAK_LOG_RATIO = 1.5  # standard deviation of a log weight ratio
WEAK_SPREAD = 2.0  # of a mean, in standard deviations of all of the released mixture
WEAK_LOG_SCALE = 1.0  # of the logarithm of a diagonal entry of a relative factor
WEAK_SLOPE = 1.0  # of an entry below it
EXTREME = 1e50  # scales beyond it, or below its inverse, have squares whose products no float holds


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """A mixture and the normal law of offsets from it.

    Attributes
    ----------
    mixture : Mixture
        Where all offsets are 0; no weight of it is 0.
    covariance : ndarray, shape (P, P)
        Of the offsets, P = K - 1 + K D + K D (D + 1) / 2: weights, means, factors.
    source : str
        Where the scales come from.
    """

    mixture: Mixture
    covariance: FloatArray
    source: str

    @property
    def n_parameters(self) -> int:
        """Number of offsets, P."""
        return len(self.covariance)

    @property
    def coordinates(self) -> Coordinates:
        """Of the offsets."""
        return Coordinates.about(self.mixture)

    @property
    def reference(self) -> int:
        """The heaviest component, to which weight ratios are taken."""
        return self.coordinates.reference

    @property
    def root(self) -> FloatArray:
        """Lower Cholesky factor of ``covariance``."""
        return np.asarray(np.linalg.cholesky(self.covariance))

    @property
    def blocks(self) -> tuple[slice, slice, slice]:
        """Where the offsets of weights, means and factors are."""
        return self.coordinates.blocks

    def mean_covariance(self, i: int, j: int) -> FloatArray:
        """Prior covariance (D, D) of the difference between the means of two components, in the data's unit."""
        d = self.mixture.n_features
        start = self.blocks[1].start
        slopes = np.zeros((d, self.n_parameters))
        factors = np.linalg.cholesky(self.mixture.covariances)
        for k, sign in ((i, 1.0), (j, -1.0)):
            slopes[:, start + k * d : start + (k + 1) * d] = sign * factors[k]
        return np.asarray(slopes @ self.covariance @ slopes.T)

    def closest_pair(self) -> tuple[float, int, int]:
        """Smallest Mahalanobis distance between two released means, in prior standard deviations, and which two."""
        found = (np.inf, 0, 0)
        for i in range(self.mixture.n_components):
            for j in range(i):
                gap = self.mixture.means[i] - self.mixture.means[j]
                distance = float(np.sqrt(gap @ np.linalg.solve(self.mean_covariance(i, j), gap)))
                found = min(found, (distance, j, i))
        return found

    def typical(self) -> dict[str, FloatArray]:
        """Root mean square scales by component (K,): of weights, of means in component standard deviations, of
        log standard deviations."""
        variances = np.diag(self.covariance)
        _, means, entries = self.coordinates.split(variances)
        return {
            "weights": np.sqrt(np.diag(self.weight_covariance())),
            "means": np.sqrt(means.mean(axis=1)),
            "log_scales": np.sqrt(entries[:, triangle(self.mixture.n_features)[2]].mean(axis=1)),
        }

    def weight_covariance(self) -> FloatArray:
        """Of the weights themselves, to first order, shape (K, K)."""
        slopes = np.delete(share_slopes(self.mixture.weights), self.reference, axis=1)
        return np.asarray(slopes @ self.covariance[self.blocks[0], self.blocks[0]] @ slopes.T)


def offsets_of(mixture: Mixture, base: Mixture) -> FloatArray:
    """Offsets (P,) of ``mixture`` from ``base``, which has no weight of 0."""
    factors = np.asarray(np.linalg.cholesky(mixture.covariances), dtype=float)
    return Coordinates.about(base).of(mixture.weights, mixture.means, factors)


def mixture_at(offsets: FloatArray, base: Mixture) -> Mixture:
    """Inverse of :func:`offsets_of`."""
    weights, means, factors = Coordinates.about(base).at(offsets)
    return Mixture(weights, means, factors @ np.swapaxes(factors, 1, 2))


def lifted_weights(mixture: Mixture) -> Mixture:
    """``mixture`` with no weight below ``LEAST_WEIGHT`` of the largest."""
    weights = np.maximum(mixture.weights, LEAST_WEIGHT * mixture.weights.max())
    return Mixture(weights / weights.sum(), mixture.means, mixture.covariances)


def weak_deviations(mixture: Mixture) -> FloatArray:
    """Standard deviations (P,) of the offsets in a weak prior about ``mixture``.

    1.5 for log weight ratios, 2 standard deviations of the whole mixture (in every direction of a component's frame)
    for means, 1 for logarithms of the diagonal of a relative factor and for what is below it.
    """
    chart = Coordinates.about(mixture)
    frames = np.linalg.cholesky(mixture.covariances)
    inside = np.linalg.solve(frames, np.broadcast_to(np.linalg.cholesky(mixture.covariance()), frames.shape))
    spread = np.linalg.norm(inside, axis=2)
    return chart.filled(WEAK_LOG_RATIO, WEAK_SPREAD * spread, WEAK_LOG_SCALE, WEAK_SLOPE)


def with_scales(
    anchor: Anchor, *, weight_conc: Any = "auto", mean_scale: Any = "auto", cov_scale: Any = "auto"
) -> Anchor:
    """``anchor`` with the scales that are given in place of its own; these are independent of all others.

    Parameters
    ----------
    weight_conc : "auto" or float
        Concentration of the Dirichlet law whose weights have the variance w (1 - w) / (weight_conc + 1).
    mean_scale : "auto", float or (K,)
        Standard deviation of a mean, in standard deviations of its component.
    cov_scale : "auto", float or (K,)
        Of the logarithms of the diagonal of the relative factor; entries below have sqrt(2) times that.
    """
    k, d = anchor.mixture.n_components, anchor.mixture.n_features
    covariance, chart = np.array(anchor.covariance), anchor.coordinates
    sources = [anchor.source]

    def put(block: slice, values: FloatArray, words: str) -> None:
        covariance[block] = 0.0
        covariance[:, block] = 0.0
        covariance[block, block] = values
        sources.append(words)

    if not is_auto(weight_conc, "weight_conc"):
        check_positive(weight_conc=weight_conc)
        put(chart.blocks[0], _dirichlet(anchor.mixture, float(weight_conc)), f"weight_conc={weight_conc:g}")
    if not is_auto(mean_scale, "mean_scale"):
        scales = _per_component(mean_scale, k, "mean_scale")
        put(chart.blocks[1], np.diag(np.repeat(scales**2, d)), f"mean_scale={_text(scales)}")
    if not is_auto(cov_scale, "cov_scale"):
        scales = _per_component(cov_scale, k, "cov_scale")
        variances = chart.filled(0.0, 0.0, scales[:, None] ** 2, 2 * scales[:, None] ** 2)
        put(chart.blocks[2], np.diag(variances[chart.blocks[2]]), f"cov_scale={_text(scales)}")
    return replace(anchor, covariance=frozen(covariance), source="; ".join(filter(None, sources)))


def plain_anchor(mixture: Mixture, *, weight_conc: float, mean_scale: Any, cov_scale: Any) -> Anchor:
    """An anchor of a mixture whose law is not known, from three scales: :func:`with_scales`."""
    lifted = lifted_weights(mixture)
    empty = Anchor(lifted, np.eye(len(weak_deviations(lifted))), "")
    for name, value in {"weight_conc": weight_conc, "mean_scale": mean_scale, "cov_scale": cov_scale}.items():
        if is_auto(value, name):
            raise ValueError(f"{name} must be a number here, got 'auto': the law of this mixture's errors is not known")
    return with_scales(empty, weight_conc=weight_conc, mean_scale=mean_scale, cov_scale=cov_scale)


def _dirichlet(mixture: Mixture, concentration: float) -> FloatArray:
    """Covariance of the log ratios at which weights have, to first order, the covariance of a Dirichlet law."""
    variances = 1 / ((concentration + 1) * mixture.weights)
    reference = int(np.argmax(mixture.weights))
    return np.asarray(np.diag(np.delete(variances, reference)) + variances[reference])


def is_auto(value: Any, name: str) -> bool:
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"{name} must be 'auto' or a number, got {value!r}")
    return isinstance(value, str)


def _per_component(value: ArrayLike, n_components: int, name: str) -> FloatArray:
    try:
        scales = as_floats(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be 'auto', a number or one for each component, got {shown(value)}") from None
    if scales.shape not in ((), (n_components,)):
        raise ValueError(f"{name} must be a number or have shape ({n_components},), got {scales.shape}")
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(f"{name} must be finite and greater than 0, got {shown(value)}")
    if not ((scales >= 1 / EXTREME) & (scales <= EXTREME)).all():
        raise ValueError(f"{name} must lie between {1 / EXTREME:g} and {EXTREME:g}, got {shown(value)}")
    return np.broadcast_to(scales, (n_components,))


def _text(scales: Sequence[float] | FloatArray) -> str:
    return ", ".join(f"{value:.3g}" for value in np.unique(scales))
