"""Likelihood of a masked mixture: what the masks of both populous methods say about the true mixture.

The noise itself is drawn in ``mechanisms/lifted_mask.py`` and ``mechanisms/masks.py``. Written once for NumPy and
PyTensor: ``xp`` is either module. Laws and assumptions: mask_law.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from pm_dpgmm._arguments import FloatArray, check_choice
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise
from pm_dpgmm.mixture.coordinates import Coordinates, triangle
from pm_dpgmm.mixture.fisher_information import fit_covariance
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture
from pm_dpgmm.mixture.wishart import Spectrum, log_central, log_noncentral, relative_entries, solve_lower

FORMS = ("exact", "wishart", "gaussian")
LEAST_EIGENVALUE = 1e-12  # of a released correlation matrix, which rounding may have made singular
OVERLAP = 0.1  # share of the variance of some combination that "exact" may get wrong before "auto" leaves it
FEWEST = 2.0  # records of a component in a subset, for the bias of its fits


@dataclass(frozen=True, slots=True, eq=False)
class MaskedMixture:
    """A released mask and the scales of its error about the true mixture, sampling error included.

    Arrays may have the same leading dimensions, of several releases.
    """

    weights: FloatArray  # (..., K), raw
    means: FloatArray  # (..., K, D), unit of the records
    factors: FloatArray  # (..., K, D, D), Cholesky factors of the covariances, their known bias divided out
    corners: FloatArray | None  # (..., K), likewise; None without a lift
    eta: FloatArray  # (..., K), noise of a factor and sampling error in one number
    mean_scale: FloatArray  # (..., K), in standard deviations of a component; without meaning for a lift
    weight_whitener: FloatArray  # (..., K, K), W with W'W the inverse covariance of the weights
    offset: FloatArray  # (..., K, D), mean of log T[i, i], T the relative Cholesky factor
    whitener: FloatArray  # (..., P, P), of the residuals of the Gaussian form
    form: str  # what "auto" means

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.means.shape[-1])


def masked_mixture(
    raw: Mapping[str, FloatArray],
    noise: Mapping[str, Any],
    mixture: Mixture,
    *,
    subset_records: float | None,
    averaged: int = 1,
) -> MaskedMixture:
    """What the likelihood needs, from a release of method "populous" or "populous-single".

    Parameters
    ----------
    raw : mapping
        "weights" (K,), "means" (K, D), "covariances" (K, D, D), and "corners" (K,) of a lifted mask.
    noise : mapping
        The public noise law: "eta" and "kappa" of a lifted mask; "weight", "mean" and "covariance" otherwise.
    mixture : Mixture
        The released one, at which the sampling error is taken.
    subset_records : float or None
        Records of a fit; None leaves sampling error and bias out.
    averaged : int
        Fits in the average.

    Guarantee
    ---------
    Post-processing: costs no privacy budget.
    """
    k, d = raw["means"].shape
    lifted = "corners" in raw
    if lifted:
        eta = float(noise["eta"])
        weight_noise = LiftedMaskNoise(eta, float(noise["kappa"])).weight(d)
        mean_noise = np.sqrt(2) * eta
    else:
        eta, weight_noise, mean_noise = (float(noise[name]) for name in ("covariance", "weight", "mean"))
    n_records = np.inf if subset_records is None else subset_records * averaged
    sampling = fit_covariance(mixture, n_records)
    scales, drift = _shares(sampling, k, d)
    stretch, corner_stretch = _bias(mixture, subset_records, lifted)
    covariance = _noise_covariance(k, d, eta, weight_noise, mean_noise) + sampling
    eta_total = np.sqrt(eta**2 + scales)
    order = d + 1 if lifted else d
    # the family's own mean moves with its scale, which sampling error does not do
    widened = (1 + order * eta_total**2) / (1 + order * eta**2)
    offset = eta**2 * ((d - 1 if lifted else d) / 2 - np.arange(1, d + 1))
    return MaskedMixture(
        np.array(raw["weights"]),
        np.array(raw["means"]),
        _factors(raw["covariances"]) * np.sqrt(widened / stretch)[:, None, None],
        raw["corners"] * widened / corner_stretch if lifted else None,
        eta_total,
        np.sqrt(mean_noise**2 + drift),
        _whitener(covariance[:k, :k]),
        offset + 0.5 * np.log(widened)[:, None],
        _whitener(covariance),
        "exact" if _exact_is_enough(covariance, k, d, eta_total, np.sqrt(mean_noise**2 + drift)) else "gaussian",
    )


def stacked(masked: list[MaskedMixture]) -> MaskedMixture:
    """Several releases as one, shape (R, 1, ...): for (R, points, ...) arrays of parameters."""

    def stack(name: str) -> FloatArray:
        return np.stack([getattr(item, name) for item in masked])[:, None]

    names = ("weights", "means", "factors", "eta", "mean_scale", "weight_whitener", "offset", "whitener")
    corners = None if masked[0].corners is None else stack("corners")
    return MaskedMixture(**{name: stack(name) for name in names}, corners=corners, form=masked[0].form)


def log_density(
    masked: MaskedMixture,
    weights: Any,
    means: Any,
    chol: Any,
    *,
    form: str = "exact",
    xp: Any = np,
    spectrum: Spectrum = np.linalg.eigvalsh,
) -> Any:
    """Log density of the released numbers at a mixture; released component j is compared with component j.

    Parameters
    ----------
    masked : MaskedMixture
    weights, means, chol : arrays, shapes (..., K), (..., K, D) and (..., K, D, D)
        ``chol`` holds Cholesky factors of the covariances.
    form : {"exact", "wishart", "gaussian"}
        "exact": noncentral Wishart (Laplace form above dimension 2), sampling error as a larger scale for each
        component. "wishart": central law in its place. "gaussian": all numbers jointly Gaussian in relative
        coordinates, with the whole covariance of the sampling error; the numbers of "corners" are left out, since
        they hardly depend on the mixture.
    xp : module
        ``numpy`` or ``pytensor.tensor``.
    """
    check_choice(FORMS, form=form)
    d = masked.n_features
    entries = relative_entries(chol, masked.factors)
    shift = solve_lower(chol, masked.means - means, d)
    log_scale = sum(xp.log(chol[..., i, i]) for i in range(d))
    if form == "gaussian":
        return _gaussian(masked, weights, entries, shift, chol, xp)
    misfit = _whitened(masked.weight_whitener, masked.weights - weights)
    log_weights = _log_diagonal(masked.weight_whitener) - 0.5 * (misfit**2 + LOG_2PI).sum(axis=-1)

    def law(rows: list[list[Any]]) -> Any:
        if form == "wishart":
            return log_central(rows, masked.eta, xp=xp)
        return log_noncentral(rows, masked.eta, xp=xp, spectrum=spectrum)

    if masked.corners is not None:
        side = np.sqrt(masked.corners)
        # the corner first: then the factor is lower triangular. Not 0 * entry: PyTensor would rewrite that for ever
        rows: list[list[Any]] = [[side + xp.zeros_like(entries[0][0])]]
        rows += [[side * shift[i], *entries[i]] for i in range(d)]
        log_parts = law(rows) - (d + 2) * log_scale + d * np.log(masked.corners)
    else:
        squares = sum(value**2 for value in shift)
        log_means = -0.5 * squares / masked.mean_scale**2 - d * (np.log(masked.mean_scale) + 0.5 * LOG_2PI)
        log_parts = law(entries) + log_means - (d + 2) * log_scale
    return log_weights + log_parts.sum(axis=-1)


def _gaussian(masked: MaskedMixture, weights: Any, entries: Any, shift: Any, chol: Any, xp: Any) -> Any:
    """The Gaussian form; its density is that of the released weights, means and covariance factors."""
    d = masked.n_features
    parts = [masked.weights - weights]
    shape = []
    log_jacobian: Any = 0.0
    for i in range(d):
        for j in range(i):
            shape.append(entries[i][j] / entries[j][j])
        shape.append(xp.log(entries[i][i]) - masked.offset[..., i])
        # of the means, and of the factors with the group's left-invariant measure (Eaton 1983, chapter 6)
        log_jacobian = log_jacobian + (d - 2 - 2 * i) * xp.log(chol[..., i, i])
    for column in (xp.stack(shift, axis=-1), xp.stack(shape, axis=-1)):
        parts += [column[..., j, :] for j in range(masked.means.shape[-2])]
    residual = xp.concatenate(parts, axis=-1)
    misfit = _whitened(masked.whitener, residual)
    return log_jacobian.sum(axis=-1) + _log_diagonal(masked.whitener) - 0.5 * (misfit**2 + LOG_2PI).sum(axis=-1)


def _whitened(whitener: FloatArray, residual: Any) -> Any:
    return (whitener * residual[..., None, :]).sum(axis=-1)


def _log_diagonal(whitener: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.diagonal(whitener, axis1=-2, axis2=-1)).sum(axis=-1))


def _whitener(covariance: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)))


def _factors(covariances: FloatArray) -> FloatArray:
    scale = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    values, vectors = np.linalg.eigh(covariances / (scale[:, :, None] * scale[:, None, :]))
    if values.min() < LEAST_EIGENVALUE:
        covariances = (vectors * np.maximum(values, LEAST_EIGENVALUE)[:, None]) @ np.swapaxes(vectors, 1, 2)
        covariances = covariances * scale[:, :, None] * scale[:, None, :]
    return np.asarray(np.linalg.cholesky(covariances))


def _noise_covariance(k: int, d: int, eta: float, weight: float, mean: float) -> FloatArray:
    """Of the noise in the coordinates of ``fit_covariance``, to first order: all independent."""
    return np.diag(Coordinates(k, d).filled(weight, mean, eta, np.sqrt(2) * eta) ** 2)


def _shares(sampling: FloatArray, k: int, d: int) -> tuple[FloatArray, FloatArray]:
    """Sampling error of a component as an addition to eta^2 (K,) and to the variance of a relative mean (K,)."""
    _, means, shapes = Coordinates(k, d).split(np.diag(sampling))
    row, column, _ = triangle(d)
    shapes = shapes / np.where(row == column, 1, 2)
    return np.concatenate([means / 2, shapes], axis=1).mean(axis=1), means.mean(axis=1)


def _bias(mixture: Mixture, subset_records: float | None, lifted: bool) -> tuple[FloatArray, FloatArray]:
    """Expected covariance and corner over the truth, (K,) each, of fits to few records: mask_law.md."""
    d = mixture.n_features
    if subset_records is None:
        return np.ones(mixture.n_components), np.ones(mixture.n_components)
    least = FEWEST * (d + 2)
    share = 1 / np.maximum(subset_records * mixture.weights, least)
    return (1 - (d + 2) / 2 * share, 1 - d / 2 * share) if lifted else (1 - share, np.ones_like(share))


def _exact_is_enough(covariance: FloatArray, k: int, d: int, eta: FloatArray, mean_scale: FloatArray) -> bool:
    """Whether independent components with one scale each have nearly the covariance of the whole."""
    own = Coordinates(k, d).filled(1.0, mean_scale[:, None], eta[:, None], eta[:, None] * np.sqrt(2))
    inverse = linalg.block_diag(_whitener(covariance[:k, :k]), np.diag(1 / own[k:]))
    values = np.linalg.eigvalsh(inverse @ covariance @ inverse.T)
    return bool(np.abs(values - 1).max() <= OVERLAP)
