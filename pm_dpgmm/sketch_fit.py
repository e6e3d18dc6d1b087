"""Fit a Gaussian mixture to noisy sketches: penalised least squares with the noise and the sampling error as weights.

Post-processing: only released and public numbers come in, so everything here is free, and the more is tried the better.
Records are measured from a public centre in a public unit (`SketchData.of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, optimize, special, stats

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.characteristic import (
    characteristic_function,
    characteristic_jacobian,
    component_functions,
    feature_covariance,
)
from pm_dpgmm.mechanisms.sketch import NoisySketch

SMALLEST_SCALE, LARGEST_SCALE = -12.0, 12.0  # logarithms of the diagonal of a factor
ATOMS = 192  # candidates for a new component, of each scale
SCALES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)  # of candidates, as shares of the radius
SEARCHES = (SCALES, SCALES[:4], SCALES[2:])  # each is a search of its own
SPARE = 2  # components fitted beyond those wanted, then dropped one by one
WORTH = 1e-2  # least fall of the objective that counts
TOLERANCE = 1e-6  # of the least-squares solver


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

    @classmethod
    def of(cls, sketches: Sequence[NoisySketch], unit: FloatArray) -> SketchData:
        """All sketches must have the same centre."""
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
            n_records=sketches[0].n_records,
            centre=centre,
            unit=np.asarray(unit, dtype=float),
        )

    @property
    def size(self) -> FloatArray:
        """Largest sum that every number could have, shape (2 m,)."""
        return self.n_records * np.tile(self.amplitudes, 2)

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations of noise and the most that sampling can vary, shape (2 m,)."""
        return np.sqrt(self.variances + self.size * np.tile(self.amplitudes, 2) / 2)

    def residuals(self, found: Fitted) -> FloatArray:
        """Expected less released numbers, shape (2 m,)."""
        values = characteristic_function(self.frequencies, found.weights, found.means, found.factors)
        return self.size * np.concatenate([values.real, values.imag]) - self.values


@dataclass(frozen=True, slots=True)
class Prior:
    """Weak independent normal priors, in the unit of the data: they decide only what the sketch leaves open."""

    radius: float  # standard deviation of means about the centre
    scale: float  # typical standard deviation of a component
    logits: float = 1.5
    log_scales: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Parameters in the unit of the data; ``objective`` is the penalised sum of squares."""

    weights: FloatArray
    means: FloatArray
    factors: FloatArray
    objective: float

    @property
    def n_components(self) -> int:
        """K."""
        return len(self.weights)


def fit_sketch(data: SketchData, n_components: int, prior: Prior, *, radius: float) -> Fitted:
    """Several searches from an empty mixture: add the best candidate, refine, replace; with spare components, too.

    The three best are refined with the full covariance of the sketch as weights, and the best of these is returned.
    """
    candidates = []
    for scales in SEARCHES:
        library = _library(data, radius, scales)
        found: Fitted | None = None
        for k in range(1, n_components + 1 + SPARE):
            found = _replaced(data, _added(data, found, prior, library), prior, library)
            if k == n_components:
                candidates.append(found)
        while found is not None and found.n_components > n_components:
            found = min(_all_dropped(data, found, prior), key=lambda other: other.objective)
        assert found is not None
        candidates.append(_replaced(data, found, prior, library))
    best: list[Fitted] = []
    for found in sorted(candidates, key=lambda other: other.objective):
        if not best or found.objective > best[-1].objective + WORTH:  # not the same one again
            best.append(found)
    return min((reweighted(data, found, prior) for found in best[:3]), key=lambda other: other.objective)


def misfit(data: SketchData, found: Fitted) -> float:
    """Chi-square of the residuals under n V + noise, as (chi^2 - df)/sqrt(2 df): right fits lie within -3..5."""
    whitener, _ = _whitener(data, found)
    residuals = linalg.solve_triangular(whitener, data.residuals(found), lower=True, check_finite=False)
    freedom = max(1, residuals.size - len(_packed(found)) + 1)
    return float((residuals @ residuals - freedom) / np.sqrt(2 * freedom))


def reweighted(data: SketchData, found: Fitted, prior: Prior, *, rounds: int = 2) -> Fitted:
    """Refit with n V + noise as the covariance of the sketch, V that of a record from the mixture so far.

    The objective is then minus twice the log posterior density, up to a constant: it compares numbers of components.
    """
    for _ in range(rounds):
        found = refined(data, found, prior, whitener=_whitener(data, found)[0])
    whitener, log_determinant = _whitener(data, found)
    residuals = _residuals(data, _packed(found), found.n_components, prior, whitener)[0]
    return replace(found, objective=float(residuals @ residuals) + log_determinant)


def refined(
    data: SketchData, found: Fitted, prior: Prior, *, whitener: FloatArray | None = None, steps: int = 40
) -> Fitted:
    """Levenberg-Marquardt from a mixture; None weighs every number by its noise and the most its sampling can vary."""
    k, cache = found.n_components, dict[bytes, tuple[FloatArray, FloatArray]]()

    def both(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        key = theta.tobytes()
        if key not in cache:
            cache.clear()
            cache[key] = _residuals(data, theta, k, prior, whitener)
        return cache[key]

    result = optimize.least_squares(
        lambda theta: both(theta)[0], _packed(found), jac=lambda theta: both(theta)[1], method="lm",
        ftol=TOLERANCE, xtol=TOLERANCE, gtol=TOLERANCE, max_nfev=steps,
    )  # fmt: skip
    return _unpacked(result.x, k, data.frequencies.shape[1], 2 * float(result.cost))


def _residuals(
    data: SketchData, theta: FloatArray, n_components: int, prior: Prior, whitener: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Whitened residuals and their derivatives, then those of the prior."""
    n_features = data.frequencies.shape[1]
    found = _unpacked(theta, n_components, n_features, 0.0)
    values, jacobian = characteristic_jacobian(data.frequencies, found.weights, found.means, found.factors)
    size = data.size
    residuals = size * np.concatenate([values.real, values.imag]) - data.values
    slopes = size[:, None] * np.concatenate([jacobian.real, jacobian.imag])
    if whitener is None:
        deviations = data.deviations
        residuals, slopes = residuals / deviations, slopes / deviations[:, None]
    else:
        both = linalg.solve_triangular(whitener, np.column_stack([residuals, slopes]), lower=True, check_finite=False)
        residuals, slopes = both[:, 0], both[:, 1:]
    middle, spread = _prior_rows(n_components, n_features, prior)
    return np.concatenate([residuals, (theta - middle) / spread]), np.vstack([slopes, np.diag(1 / spread)])


def _prior_rows(n_components: int, n_features: int, prior: Prior) -> tuple[FloatArray, FloatArray]:
    row, column = np.tril_indices(n_features)
    diagonal = row == column
    factor_middle = np.where(diagonal, np.log(prior.scale), 0.0)
    factor_spread = np.where(diagonal, prior.log_scales, prior.scale)
    middle = [np.zeros(n_components * (1 + n_features)), np.tile(factor_middle, n_components)]
    spread = [
        np.full(n_components, prior.logits), np.full(n_components * n_features, prior.radius),
        np.tile(factor_spread, n_components),
    ]  # fmt: skip
    return np.concatenate(middle), np.concatenate(spread)


def _whitener(data: SketchData, found: Fitted) -> tuple[FloatArray, float]:
    """Lower Cholesky factor of n V + noise and the logarithm of its determinant, squared."""
    covariance = data.n_records * feature_covariance(
        data.frequencies, data.amplitudes, found.weights, found.means, found.factors
    )
    covariance[np.diag_indices_from(covariance)] += data.variances
    factor = linalg.cholesky(covariance, lower=True)
    return factor, 2 * float(np.log(np.diagonal(factor)).sum())


# ---------------------------------------------------------------------- search
@dataclass(frozen=True, slots=True, eq=False)
class _Library:
    """Candidates for a component: round Gaussians spread over the ball at several scales."""

    means: FloatArray  # (A, D)
    scales: FloatArray  # (A,)
    shapes: FloatArray  # (2 m, A): weighted characteristic functions
    powers: FloatArray  # (A,)


def _library(data: SketchData, radius: float, shares: Sequence[float]) -> _Library:
    n_features = data.frequencies.shape[1]
    points = stats.qmc.Halton(n_features + 1, scramble=False).random(ATOMS * len(shares) + 1)[1:]
    directions = special.ndtri(np.clip(points[:, :-1], 1e-9, 1 - 1e-9))
    if n_features == 1:
        means = radius * (2 * points[:, :1] - 1)
    else:
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        means = radius * directions / lengths * points[:, -1:] ** (1 / n_features)
    scales = radius * np.tile(shares, ATOMS)
    factors = scales[:, None, None] * np.eye(n_features)
    shapes = component_functions(data.frequencies, means, factors)
    weighted = (data.size / data.deviations)[:, None] * np.concatenate([shapes.real, shapes.imag])
    return _Library(means, scales, weighted, np.square(weighted).sum(axis=0))


def _added(data: SketchData, found: Fitted | None, prior: Prior, library: _Library) -> Fitted:
    """One component more: the candidate that explains most of the residual, then a refit of all."""
    n_features = data.frequencies.shape[1]
    residuals = -data.values if found is None else data.residuals(found)
    overlap = -library.shapes.T @ (residuals / data.deviations)
    share = np.clip(overlap / library.powers, 0.02, 1.0)
    best = int(np.argmax(2 * share * overlap - share**2 * library.powers))
    factor = library.scales[best] * np.eye(n_features)[None]
    if found is None:
        new = Fitted(np.ones(1), library.means[[best]], factor, np.inf)
    else:
        weights = np.append(found.weights, share[best])
        means, factors = np.vstack([found.means, library.means[[best]]]), np.concatenate([found.factors, factor])
        new = Fitted(weights / weights.sum(), means, factors, np.inf)
    return refined(data, new, prior)


def _replaced(data: SketchData, found: Fitted, prior: Prior, library: _Library, *, passes: int = 3) -> Fitted:
    """Drop a component and add the best candidate in its place, as long as the objective falls."""
    for _ in range(passes if found.n_components > 1 else 0):
        before = found.objective
        for i in range(found.n_components):
            keep = np.arange(found.n_components) != i
            rest = found.weights[keep] / found.weights[keep].sum()
            fewer = Fitted(rest, found.means[keep], found.factors[keep], np.inf)
            other = _added(data, refined(data, fewer, prior, steps=6), prior, library)
            if other.objective < found.objective - WORTH:
                found = other
        if found.objective > before - WORTH:
            break
    return found


def _all_dropped(data: SketchData, found: Fitted, prior: Prior) -> list[Fitted]:
    """One component less, in every way."""
    fewer = []
    for i in range(found.n_components):
        keep = np.arange(found.n_components) != i
        rest = found.weights[keep] / found.weights[keep].sum()
        fewer.append(refined(data, Fitted(rest, found.means[keep], found.factors[keep], np.inf), prior, steps=15))
    return fewer


# ---------------------------------------------------------------------- parameters as one vector
def _packed(found: Fitted) -> FloatArray:
    row, column = np.tril_indices(found.means.shape[1])
    entries = found.factors[:, row, column].copy()
    diagonal = row == column
    entries[:, diagonal] = np.log(entries[:, diagonal])
    return np.concatenate([np.log(np.maximum(found.weights, 1e-6)), found.means.ravel(), entries.ravel()])


def _unpacked(theta: FloatArray, n_components: int, n_features: int, objective: float) -> Fitted:
    logits, means, entries = np.split(theta, [n_components, n_components * (1 + n_features)])
    row, column = np.tril_indices(n_features)
    factors = np.zeros((n_components, n_features, n_features))
    entries = entries.reshape(n_components, -1)
    clipped = np.exp(np.clip(entries, SMALLEST_SCALE, LARGEST_SCALE))
    factors[:, row, column] = np.where(row == column, clipped, entries)
    return Fitted(special.softmax(logits), means.reshape(n_components, -1), factors, objective)
