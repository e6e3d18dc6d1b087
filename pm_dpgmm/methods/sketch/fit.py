"""Fit a Gaussian mixture to noisy sketches: penalised least squares with the noise and the sampling error as weights.

Post-processing: only released and public numbers come in, so everything is free, and the more is tried the better.
search.py finds where to start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.covariance_types import SPHERICAL, TIED, restricted
from pm_dpgmm.methods.sketch.model import MOST_WEIGHED, SketchData
from pm_dpgmm.methods.sketch.prior import Prior, PriorRows, prior_rows
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture, fit_coordinates, packed, unpacked
from pm_dpgmm.mixture.rounding import nearest_semidefinite

TOLERANCE = 1e-4  # fall of the objective at which a fit ends
DAMPING, FACTOR, TRIES = 1e-2, 5.0, 8  # Levenberg-Marquardt: at first, of changes, how many
MOST_TESTED, THINNEST = 1800, 3  # numbers in a test of fit, or one of THINNEST where that is more
MOST_WHITENED = 200  # numbers whose full covariance is worth its time where only large rises matter: one column
RIDGE = 1e-6  # of the step in a test of fit


def misfit(data: SketchData, found: ScaledMixture) -> float:
    """Chi-square of the residuals under n V + noise, as (chi^2 - df)/sqrt(2 df): right fits lie within -3..5.

    Small errors of the parameters do not count: chi-square is that after the best small step from the fit, which may
    have had other weights. Of a sketch with more than MOST_TESTED numbers every second or third frequency is tested:
    fewer would leave few degrees of freedom, as the number of frames grows with that of the parameters.
    """
    return tested(data, found)[0]


def tested(data: SketchData, found: ScaledMixture) -> tuple[float, float]:
    """:func:`misfit`, and minus twice the log-likelihood of the numbers it tests, up to a constant."""
    try:
        before, after, freedom, log_determinant = distances(data, found)[:4]
    except linalg.LinAlgError:
        return np.inf, np.inf
    return float((after - freedom) / np.sqrt(2 * freedom)), before + log_determinant


def distances(data: SketchData, found: ScaledMixture) -> tuple[float, float, int, float, int]:
    """Of the numbers that are tested: chi-square before and after the best small step, degrees of freedom after it.

    Then the log-determinant of their covariance, and how many they are.
    """
    value, residuals, slopes, log_determinant = _weighed(thinned(data, MOST_TESTED), found)
    normal, gradient = slopes.T @ slopes, slopes.T @ residuals
    normal[np.diag_indices_from(normal)] *= 1 + RIDGE
    gain = float(gradient @ linalg.lstsq(normal, gradient, check_finite=False)[0])
    return value, value - gain, max(1, residuals.size - slopes.shape[1] + 1), log_determinant, residuals.size


def _weighed(data: SketchData, found: ScaledMixture) -> tuple[float, FloatArray, FloatArray, float]:
    """Chi-square, residuals and their derivatives in units of noise and sampling, and the covariance's log-determinant.

    The noise on the number of records is one more direction of noise.
    """
    whitener, log_determinant = whitener_of(data, found)
    expected = data.expected(found)
    residuals = linalg.solve_triangular(whitener, expected - data.values, lower=True, check_finite=False)
    value = float(residuals @ residuals)
    slopes = _slopes(data, _packed(data, found), found.n_components, whitener, found.background is not None)
    if data.count_scale:  # all numbers grow with the number of records
        by_count = expected * (data.count_scale / data.n_records)
        count = linalg.solve_triangular(whitener, by_count, lower=True, check_finite=False)
        stretch = np.sqrt(1 + float(count @ count))
        inward = count / (stretch * (stretch + 1))  # (I + u u')^(-1/2) = I - inward u'
        residuals -= inward * (count @ residuals)
        slopes -= np.outer(inward, count @ slopes)
        value, log_determinant = float(residuals @ residuals), log_determinant + 2 * np.log(stretch)
    return value, residuals, slopes, log_determinant


def thinned(data: SketchData, most: int) -> SketchData:
    """Every second or third frequency of a sketch with more numbers than ``most``."""
    return data.thinned(min(-(-data.values.size // most), THINNEST))


def penalty(data: SketchData, found: ScaledMixture, prior: Prior) -> float:
    """Minus twice the log prior density, up to a constant."""
    return float(np.square(_rows(data, found, prior).residuals).sum())


def surprise(data: SketchData, found: ScaledMixture, prior: Prior, *, quick: bool = False) -> float:
    """Minus twice the logarithm of Laplace's approximation of the evidence, up to a constant of the numbers.

    A parameter of which the numbers tell nothing costs nothing, whatever their number, as the prior is all that is
    known of it; so it compares kinds of covariances, whose parameters the prior shrinks. Numbers are weighed as in a
    fit: all up to MOST_WEIGHED, of more every second or third frequency. ``quick``: where sampling hardly matters, by
    the noise and the most that sampling can vary; up to another constant.
    """
    k, has_background = found.n_components, found.background is not None
    if quick and not data.sampling_matters:
        theta = _packed(data, found)
        slopes = _rows(data, found, prior).standardised(_slopes(data, theta, k, None, has_background))
        misses = _residuals(data, theta, k, prior, None, has_background)
        return float(misses @ misses + np.linalg.slogdet(np.eye(slopes.shape[1]) + slopes.T @ slopes)[1])
    data = thinned(data, MOST_WEIGHED)
    try:
        _, residuals, slopes, log_determinant = _weighed(data, found)
    except linalg.LinAlgError:
        return np.inf
    scaled = _rows(data, found, prior).standardised(slopes)
    by_prior = np.linalg.slogdet(np.eye(scaled.shape[1]) + scaled.T @ scaled)[1]
    return float(residuals @ residuals + log_determinant + by_prior) + penalty(data, found, prior)


def reweighted(
    data: SketchData,
    found: ScaledMixture,
    prior: Prior,
    *,
    rounds: int = 2,
    steps: int = 40,
    tolerance: float = TOLERANCE,
) -> ScaledMixture:
    """Refit with n V + noise as the covariance of the sketch, V that of a record from the mixture so far."""
    for _ in range(rounds):
        found = refined(data, found, prior, whitener=whitener_of(data, found)[0], steps=steps, tolerance=tolerance)
    return found


def refined(
    data: SketchData,
    found: ScaledMixture,
    prior: Prior,
    *,
    whitener: FloatArray | None = None,
    steps: int = 40,
    tolerance: float = TOLERANCE,
) -> ScaledMixture:
    """Levenberg-Marquardt from a mixture; None weighs every number by its noise and the most its sampling can vary.

    Written out, because it is faster than :func:`scipy.optimize.least_squares` at equal results. In the fits of ten
    releases of 8,000 records (1, 2 and 5 columns, 2 to 5 components, 752 calls) densities agreed to 1e-4 nats a record
    with methods "lm" and "trf"; the calls took 33 s here, 48 s and 43 s there, and in several columns 3.8 s against
    13.6 s and 8.0 s. It solves normal equations of few parameters, where those decompose all residuals, and ends where
    the objective, whose unit is known, falls by less than ``tolerance``.
    """
    k, has_background = found.n_components, found.background is not None
    theta = _inside(data, _packed(data, restricted(found, data.covariance_type, data.unit)), k, has_background)
    residuals = _residuals(data, theta, k, prior, whitener, has_background)
    objective, damping = float(residuals @ residuals), DAMPING
    for _ in range(steps):
        slopes = _slopes(data, theta, k, whitener, has_background)
        m = len(slopes)
        rows = prior_rows(data, theta, k, prior, has_background)
        normal, gradient = slopes.T @ slopes + rows.precision, slopes.T @ residuals[:m] + rows.gradient
        diagonal = np.diagonal(normal).copy()
        for _ in range(TRIES):
            normal[np.diag_indices_from(normal)] = diagonal * (1 + damping)
            try:
                step = -linalg.cho_solve(linalg.cho_factor(normal, check_finite=False), gradient, check_finite=False)
            except linalg.LinAlgError:
                damping *= FACTOR
                continue
            other = _inside(data, theta + step, k, has_background)
            new = _residuals(data, other, k, prior, whitener, has_background)
            value = float(new @ new)
            if value < objective:
                break
            damping *= FACTOR
        else:
            break
        fall, theta, objective, residuals = objective - value, other, value, new
        damping = max(damping / FACTOR, 1e-9)
        if fall < tolerance:
            break
    return replace(_unpacked(data, theta, k, has_background), objective=objective)


def error_root(data: SketchData, found: ScaledMixture, prior: Prior) -> FloatArray:
    """Root R of the covariance R R' of truth less fit, in the coordinates of :func:`moved`, shape (P, Q).

    To first order a fit with weights W is A^-1 (J'W y + prior) with A = J'W J + P, P the precision of the prior; over
    noise, sampling and prior its error has covariance A^-1 (J'W S W J + P) A^-1, with S = n V + noise. At W = S^-1, as
    in fits to one column, this is A^-1: the Laplace approximation of the posterior.
    """
    k, has_background = found.n_components, found.background is not None
    efficient = data.full_weights
    whitener = whitener_of(data, found)[0] if efficient else None
    slopes = _slopes(data, _packed(data, found), k, whitener, has_background)
    normal = slopes.T @ slopes
    expected = data.expected(found)
    if whitener is not None:
        middle = normal.copy()
        expected = linalg.solve_triangular(whitener, expected, lower=True, check_finite=False)
    else:
        weighted = slopes / data.deviations[:, None]
        sampled = weighted.T @ (data.n_records * data.sampling(found)) @ weighted
        if data.rounded is not None:
            sampled = nearest_semidefinite((sampled + sampled.T) / 2)
        middle = sampled + weighted.T @ (data.variances[:, None] * weighted)
        expected = expected / data.deviations
    shift = slopes.T @ expected * (data.count_scale / data.n_records)
    middle += np.outer(shift, shift)
    precision = _rows(data, found, prior).precision
    normal += precision
    middle += precision
    root = linalg.cholesky(middle, lower=True, check_finite=False)
    errors = linalg.cho_solve(linalg.cho_factor(normal, check_finite=False), root, check_finite=False)
    return data.flat(k, has_background).steps(np.asarray(errors))


def objective_rises(data: SketchData, found: ScaledMixture, factor: float) -> FloatArray:
    """Rise of chi-square when one component's deviation along one axis is multiplied by ``factor``, shape (K, D).

    All else stays, but what has the same deviation by the data's kind: all components, or all axes. Axes are those of
    the covariance in the unit of the data; a deviation does not shrink below the variance floor, and the rise is
    infinite where the floor leaves no room.
    """
    whitener = whitener_of(data, found)[0] if data.values.size < MOST_WHITENED else None

    def weighed(values: FloatArray) -> FloatArray:
        if whitener is None:
            return values / data.deviations
        return np.asarray(linalg.solve_triangular(whitener, values, lower=True, check_finite=False))

    residuals = weighed(data.residuals(found))
    weights, means, factors = data.components(found)
    k, d = found.means.shape
    variance_floor = np.zeros(d) if data.variance_floor is None else data.variance_floor
    rises, shared = np.empty((k, d)), np.zeros((d, data.values.size))
    for i in range(k):
        axes, lengths = np.linalg.svd(factors[i])[:2]
        size = weights[i] * data.n_records * data.amplitudes
        for j in range(d):
            scale = max(factor, np.sqrt(variance_floor @ np.square(axes[:, j])) / lengths[j]) if factor < 1 else factor
            if factor < 1 and scale > np.sqrt(factor):
                rises[i, j] = np.inf
                continue
            together = slice(None) if data.covariance_type == SPHERICAL else slice(j, j + 1)
            change = data.stretched(size, means[i], axes, lengths, together, scale)
            step = weighed(np.concatenate([change.real, change.imag]))
            if data.covariance_type == TIED:
                step = shared[j] = shared[j] + step  # of all components so far; the last one has all
            rises[i, j] = 2 * residuals @ step + step @ step
    return np.broadcast_to(rises[-1], (k, d)) if data.covariance_type == TIED else rises


def moved(found: ScaledMixture, step: FloatArray) -> ScaledMixture:
    """The mixture moved by ``step`` (P,): logits, means, entries of the factors, the diagonal ones as logarithms."""
    k, d = found.means.shape
    return unpacked(packed(found) + step, k, d, found.background is not None)


def _rows(data: SketchData, found: ScaledMixture, prior: Prior) -> PriorRows:
    return prior_rows(data, _packed(data, found), found.n_components, prior, found.background is not None)


def _packed(data: SketchData, found: ScaledMixture) -> FloatArray:
    """The coordinates (Q,) of a mixture with covariances of the data's kind."""
    return data.flat(found.n_components, found.background is not None).reduced(packed(found))


def _unpacked(data: SketchData, theta: FloatArray, n_components: int, has_background: bool) -> ScaledMixture:
    whole = data.flat(n_components, has_background).at(theta)
    return unpacked(whole, n_components, len(data.unit), has_background)


def _residuals(
    data: SketchData,
    theta: FloatArray,
    n_components: int,
    prior: Prior,
    whitener: FloatArray | None,
    has_background: bool,
) -> FloatArray:
    """Whitened residuals, then those of the prior."""
    residuals = data.residuals(_unpacked(data, theta, n_components, has_background))
    if whitener is None:
        residuals = residuals / data.deviations
    else:
        residuals = linalg.solve_triangular(whitener, residuals, lower=True, check_finite=False)
    return np.concatenate([residuals, prior_rows(data, theta, n_components, prior, has_background).residuals])


def _slopes(
    data: SketchData, theta: FloatArray, n_components: int, whitener: FloatArray | None, has_background: bool
) -> FloatArray:
    """Derivatives of the whitened residuals, without those of the prior."""
    n_features = data.frequencies.shape[1]
    found = _unpacked(data, theta, n_components, has_background)
    jacobian = data.slopes(found)
    if has_background:  # last of K + 1 components; its mean and factor are fixed
        own = (np.arange(n_components + 1) < n_components)[:, None]
        jacobian = jacobian[:, fit_coordinates(n_components + 1, n_features, False).filled(1.0, own, own, own) > 0]
    slopes = data.flat(n_components, has_background).slopes(np.concatenate([jacobian.real, jacobian.imag]))
    if whitener is None:
        slopes *= (data.gain / data.deviations)[:, None]
        return slopes
    slopes *= data.gain[:, None]
    return np.asarray(linalg.solve_triangular(whitener, slopes, lower=True, check_finite=False))


def whitener_of(data: SketchData, found: ScaledMixture) -> tuple[FloatArray, float]:
    """Lower Cholesky factor of n V + noise and the logarithm of its determinant, squared."""
    try:
        factor = linalg.cholesky(_covariance(data, found), lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        if data.rounded is None:
            raise
        nearest = _covariance(data, found, semidefinite=True)
        factor = linalg.cholesky(nearest, lower=True, overwrite_a=True, check_finite=False)
    return factor, 2 * float(np.log(np.diagonal(factor)).sum())


def _covariance(data: SketchData, found: ScaledMixture, *, semidefinite: bool = False) -> FloatArray:
    """n V + noise; ``semidefinite``: with the nearest V that some law can have.

    In several rounded columns V leaves out terms that matter where components are narrow: on binary columns with step 1
    a third of it may be below 0, and the budget is spent by then.
    """
    covariance = data.sampling(found)
    if semidefinite:
        covariance = nearest_semidefinite(covariance)
    covariance *= data.n_records
    covariance[np.diag_indices_from(covariance)] += data.variances
    return covariance


def _inside(data: SketchData, theta: FloatArray, n_components: int, has_background: bool) -> FloatArray:
    """The parameters with the means moved into the bounds."""
    if data.bounds is None:
        return theta
    moved_in = theta.copy()
    place = fit_coordinates(n_components, data.frequencies.shape[1], has_background).blocks[1]
    moved_in[place] = data.inside(theta[place].reshape(n_components, -1)).ravel()
    return moved_in
