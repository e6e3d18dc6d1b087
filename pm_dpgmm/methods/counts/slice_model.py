"""Likelihood of noisy slice counts under a Gaussian mixture, with its gradient. Post-processing: no record is seen.

Everything is in units of a bin of :class:`pm_dpgmm.mechanisms.slices.Slices`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.slices import Slices
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import LOG_2PI
from pm_dpgmm.privacy.noise import IntArray

SMALLEST_VARIANCE = 0.5**2  # of a component along any direction, in bins squared; added to F F'
SMALLEST_EXPECTED = 1e-6  # count of a slice far from every component; keeps logarithms finite
REFUSED = 1e100  # objective of a mixture whose likelihood overflows
LOG_RATE, LOG_SCALE = 8.0, 8.0  # how far one search may move rates and scales, as logarithms


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Gaussians with covariance F F' + SMALLEST_VARIANCE and their expected numbers of records."""

    rates: FloatArray  # (K,)
    means: FloatArray  # (K, D)
    factors: FloatArray  # (K, D, D), lower triangular

    @property
    def covariances(self) -> FloatArray:
        """Shape (K, D, D)."""
        return self.factors @ self.factors.swapaxes(1, 2) + SMALLEST_VARIANCE * np.eye(self.means.shape[1])

    @classmethod
    def of(cls, rates: FloatArray, means: FloatArray, covariances: FloatArray) -> Components:
        """From covariances; what is below the smallest variance is raised just above it."""
        values, vectors = np.linalg.eigh(covariances - SMALLEST_VARIANCE * np.eye(means.shape[1]))
        raised = (vectors * np.maximum(values, 0.05)[:, None, :]) @ vectors.swapaxes(1, 2)
        return cls(rates, means, np.linalg.cholesky(raised))


@dataclass(frozen=True, slots=True, eq=False)
class SliceData:
    """Noisy counts of slices, and a cloud of points that stands in for the records far less sharply."""

    slices: Slices
    counts: FloatArray  # noisy, all directions in one vector
    noise_scale: float
    cloud: FloatArray  # (P, D)
    known: FloatArray | float = 0.0  # (M,), expected counts besides those of the components

    @property
    def direction(self) -> IntArray:
        """Direction of every slice."""
        return np.repeat(np.arange(len(self.slices.directions)), self.slices.sizes)


def expected_shares(data: SliceData, found: Components) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probability of every slice under every component (K, M), and its derivatives by projected mean and deviation.

    The marginal along direction u has mean u'm and variance u'Su; probabilities are differences of the normal
    distribution function, taken in the lower tail.
    """
    along = data.slices.directions
    means = found.means @ along.T
    deviations = np.sqrt(np.einsum("si,kij,sj->ks", along, found.covariances, along))
    which, left = data.direction, data.slices.left_edges
    m, sd = means[:, which], deviations[:, which]
    low, high = (left - m) / sd, (left + 1 - m) / sd
    mirrored = low > 0
    probabilities = special.ndtr(np.where(mirrored, -low, high)) - special.ndtr(np.where(mirrored, -high, low))
    at_low, at_high = (np.exp(-0.5 * (t**2 + LOG_2PI)) for t in (low, high))
    return probabilities, (at_low - at_high) / sd, (low * at_low - high * at_high) / sd


def objective(data: SliceData, found: Components, cloud_weight: float) -> tuple[float, Components]:
    """Log-likelihood of all counts plus ``cloud_weight`` times the mean log density of the cloud, and its gradient.

    The directions count as independent: exact for the noise, a composite likelihood for the sampling of the records.
    Mass outside the box is a Poisson count known to be 0, in every direction. The gradient comes as Components.
    """
    offsets = data.slices.offsets[:-1]
    shares, by_mean, by_deviation = expected_shares(data, found)
    inside = np.add.reduceat(shares, offsets, axis=1)
    expected = found.rates @ shares + data.known + SMALLEST_EXPECTED
    log_likelihood, slope = count_log_likelihood(data.counts, expected, noise_scale=data.noise_scale)
    value = float(log_likelihood.sum() - found.rates @ (1 - inside).sum(axis=1))
    # the derivative by a share is rate (1 + slope): its slice gains, the outside loses as much
    pull = found.rates[:, None] * (1 + slope)
    along = data.slices.directions
    projected = np.einsum("kij,si->ksj", found.factors, along)
    deviations = np.sqrt((projected**2).sum(axis=2) + SMALLEST_VARIANCE)
    for_means = np.add.reduceat(pull * by_mean, offsets, axis=1) @ along
    for_deviations = np.add.reduceat(pull * by_deviation, offsets, axis=1) / deviations
    for_factors = np.einsum("ks,ksj,si->kij", for_deviations, projected, along)
    for_rates = shares @ slope - (1 - inside).sum(axis=1)
    cloud_value, cloud = _cloud(data.cloud, found)
    return value + cloud_weight * cloud_value, Components(
        for_rates + cloud_weight * cloud.rates,
        for_means + cloud_weight * cloud.means,
        for_factors + cloud_weight * cloud.factors,
    )


def _cloud(points: FloatArray, found: Components) -> tuple[float, Components]:
    """Mean log density of the points under the mixture, and its gradient."""
    inverses = np.linalg.inv(np.linalg.cholesky(found.covariances))
    precisions = inverses.swapaxes(1, 2) @ inverses
    offsets = points - found.means[:, None, :]
    whitened = offsets @ inverses.swapaxes(1, 2)
    total = found.rates.sum()
    logs = np.log(found.rates / total) + np.log(np.diagonal(inverses, axis1=1, axis2=2)).sum(axis=1)
    joint = logs[:, None] - 0.5 * ((whitened**2).sum(axis=2) + points.shape[1] * LOG_2PI)
    log_density = special.logsumexp(joint, axis=0)
    shares = np.exp(joint - log_density) / len(points)
    sums, pulls = shares.sum(axis=1), offsets @ precisions
    scatter = pulls.swapaxes(1, 2) @ (shares[:, :, None] * pulls)
    return float(log_density.mean()), Components(
        sums / found.rates - 1 / total,
        np.einsum("kp,kpi->ki", shares, pulls),
        (scatter - sums[:, None, None] * precisions) @ found.factors,
    )


def dispersion(data: SliceData, found: Components) -> float:
    """Mean squared residual in units of noise and sampling: about 1 when the components alone fit the counts."""
    expected = found.rates @ expected_shares(data, found)[0] + SMALLEST_EXPECTED
    return float(np.mean((data.counts - expected) ** 2 / (2 * data.noise_scale**2 + expected)))


def improved(data: SliceData, start: Components, cloud_weight: float, *, steps: int) -> tuple[float, Components]:
    """Quasi-Newton search (L-BFGS) from a mixture, in coordinates whitened by it; returns the objective too."""
    k, d = start.means.shape
    chart = Coordinates(k, d, "rates", origin=(start.rates, start.means, start.factors))

    def negative(vector: FloatArray) -> tuple[float, FloatArray]:
        with np.errstate(all="ignore"):  # a step too far may overflow: it is refused
            value, gradient = objective(data, Components(*chart.at(vector)), cloud_weight)
        slopes = -chart.pullback(vector, gradient.rates, gradient.means, gradient.factors)
        if not (np.isfinite(value) and np.isfinite(slopes).all()):
            return REFUSED, np.zeros(len(slopes))
        return -value, slopes

    most = chart.filled(LOG_RATE, np.inf, LOG_SCALE, np.inf)
    with np.errstate(all="ignore"):
        result = optimize.minimize(
            negative,
            np.zeros(chart.size),
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(-most, most),
            options={"maxiter": steps},
        )
    if result.fun >= REFUSED or not np.isfinite(result.x).all():
        return -REFUSED, start
    return -float(result.fun), Components(*chart.at(result.x))
