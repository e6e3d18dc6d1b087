"""How far the truth may be from a release: the law of the offsets, from public noise and the sampling of the records.

Nothing but the release is used. Imports no PyMC.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, frozen
from pm_dpgmm.bayes.parameters.anchor import Anchor, is_auto, lifted_weights, offsets_of, plain_anchor, weak_deviations
from pm_dpgmm.bayes.parameters.count_information import bins_covariance, histogram_covariance
from pm_dpgmm.bayes.parameters.fit_information import cells_covariance, responses_covariance, sums_covariance
from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

UNMEASURED = 1e-6  # added to variances of offsets: a learner may never differ in some, such as correlations
STEP = 1e-5  # of numerical derivatives, in coordinates of about unit scale


def anchor_of(release: Released) -> Anchor:
    """Normal law of the truth's offsets from ``release``, never wider than the weak prior.

    * Sketch: the Laplace approximation of :mod:`pm_dpgmm.methods.sketch.laplace`, with all its correlations: noise,
      sampling, overlap of components and the weak prior of the fit.
    * Histogram: inverse of the Fisher information of the noisy counts, which counts noise, sampling, overlap and the
      width of cells.
    * Gaps: the same for its bins of unequal widths, of the block of records that they count.
    * Local, EM and central: the same for people's responses and for the noisy sums of all steps or cells.
    * Populous and populous-single: the law of the mask to first order (for relative noise eta: log factors eta, below
      the diagonal sqrt(2) eta; means their own noise, or sqrt(2) eta in the lifted mask), plus the sampling error of
      as many records as a component has, each with a known label: components of such a release are well separated.
      Conditional on the test that was passed.
    * Aggregate: noise of the average and of the waves that it leans on, and the learner's own error on simulated
      records.

    Raises
    ------
    ValueError
        If the method has no such law, or the number of records is not public: give the scales as numbers.
    """
    mixture = lifted_weights(release.mixture)
    law = ERROR_LAWS[release.statistic]
    if law is None:
        raise ValueError(
            f"weight_conc, mean_scale and cov_scale must be numbers for a release of"
            f" {release.statistic.of_method(release.method)}, got"
            " 'auto': the law of its errors is not known"
        )
    source = f"{law.source}; WARNING: {release.flag}" if release.flag else law.source
    covariance = law.covariance(release, mixture)
    return Anchor(mixture, frozen(_limited(covariance, weak_deviations(mixture))), source)


def anchor_separation(release: Released, *, mean_scale: Any = "auto") -> float:
    """Smallest distance between two released means, in standard deviations of the anchored prior.

    Labels stay where they are while this is large; below about 4 a posterior may exchange them.

    Parameters
    ----------
    release : Release
    mean_scale : "auto", float or (K,)
        As for ``release.params``.

    Returns
    -------
    float
        Mahalanobis distance; infinite for one component. Of means alone: components with equal means and different
        covariances count as close.
    """
    k = release.n_components
    if is_auto(mean_scale, "mean_scale"):
        return anchor_of(release).closest_pair()[0]
    return plain_anchor(release.mixture, weight_conc=float(k), mean_scale=mean_scale, cov_scale=1.0).closest_pair()[0]


def _limited(covariance: FloatArray, deviations: FloatArray) -> FloatArray:
    """``covariance`` with the same correlations and no standard deviation above ``deviations``."""
    shrink = np.minimum(1.0, deviations / np.sqrt(np.diag(covariance)))
    limited = covariance * np.outer(shrink, shrink)
    # rounding must not leave a covariance without a Cholesky factor
    limited[np.diag_indices_from(limited)] *= 1 + 1e-9
    return (limited + limited.T) / 2


def _sketch(release: Released, mixture: Mixture) -> FloatArray:
    from pm_dpgmm.methods.sketch.estimate import SketchFit
    from pm_dpgmm.methods.sketch.fit import moved
    from pm_dpgmm.methods.sketch.laplace import laplace

    law = laplace(release, as_full=True)  # of the model's covariances, which are any

    def offsets(step: FloatArray) -> FloatArray:
        return offsets_of(SketchFit(law.data, moved(law.found, step), 0.0).mixture, mixture)

    # along the columns of the root: steps are shares of a standard deviation
    lengths = np.maximum(np.abs(law.root).max(axis=0), 1e-12)
    directions = (law.root / lengths).T * STEP
    slopes = np.stack([(offsets(step) - offsets(-step)) / (2 * STEP) for step in directions], axis=1) * lengths
    return np.asarray(slopes @ slopes.T)


def _masked(release: Released, mixture: Mixture) -> FloatArray:
    d = mixture.n_features
    law = release.noise
    if release.statistic is Statistic.MASK:
        weight, mean, factor = (float(law[part]) for part in ("weight", "mean", "covariance"))
    else:
        noise = LiftedMaskNoise(float(law["eta"]), float(law["kappa"]))
        # a mean is an entry of the lifted matrix beside its diagonal
        weight, mean, factor = noise.weight(d), math.sqrt(2) * noise.eta, noise.eta
    n_records = _fitted_records(release)
    own = np.maximum(n_records * mixture.weights, 1.0)
    chart, each = Coordinates.about(mixture), 1 / own[:, None]
    # log ratios of noisy weights: the noise is divided by the weight it was added to
    variances = weight**2 / mixture.weights**2 + 1 / own
    ratios = np.diag(np.delete(variances, chart.reference)) + variances[chart.reference]
    covariance = np.diag(chart.filled(0.0, mean**2 + each, factor**2 + 0.5 * each, 2 * factor**2 + each))
    covariance[chart.blocks[0], chart.blocks[0]] = ratios
    return covariance


def _average(release: Released, mixture: Mixture) -> FloatArray:
    if "offset_covariance" not in release.raw:
        raise ValueError(
            "weight_conc, mean_scale and cov_scale must be numbers for a release of method 'aggregate' without an"
            " average, got 'auto': the law of its errors is not known"
        )
    covariance = release.raw["offset_covariance"]
    return np.asarray(covariance + UNMEASURED * np.eye(len(covariance)))


def _fitted_records(release: Released) -> float:
    """Public number of records behind the masked parameters."""
    law, lifted = release.noise, release.statistic is Statistic.LIFTED_MASK
    if lifted and law["subset_records"] is not None:
        return float(law["subset_records"]) * law["n_subsets"]
    if release.n_records is None:
        raise ValueError(
            "weight_conc, mean_scale and cov_scale must be numbers where the number of records is private, got 'auto'"
        )
    if lifted:
        return float(release.n_records)
    from pm_dpgmm.methods.populous_single.method import PopulousSingle

    guarantee = release.guarantee
    problem = Problem(
        release.n_records,
        release.n_features,
        release.n_components,
        guarantee.epsilon,
        guarantee.delta,
        None,
        guarantee.neighbouring,
    )
    return release.n_records / PopulousSingle(**release.settings).constants(problem).n_subsets


@dataclass(frozen=True, slots=True)
class ErrorLaw:
    """Law of the errors of a mixture that was fitted to one kind of statistic."""

    covariance: Callable[[Released, Mixture], FloatArray]  # of the truth's offsets from the mixture, (P, P)
    source: str  # in words


# None: not known
ERROR_LAWS: dict[Statistic, ErrorLaw | None] = {
    Statistic.SKETCH: ErrorLaw(_sketch, "Laplace approximation of the sketch's likelihood"),
    Statistic.GRID_COUNTS: ErrorLaw(histogram_covariance, "Fisher information of the noisy counts"),
    Statistic.SLICE_COUNTS: None,
    Statistic.LIFTED_MASK: ErrorLaw(_masked, "mask noise and sampling"),
    Statistic.MASK: ErrorLaw(_masked, "mask noise and sampling"),
    Statistic.AVERAGE: ErrorLaw(_average, "noise of the average, of the waves that it leans on, and sampling"),
    Statistic.EM_SUMS: ErrorLaw(sums_covariance, "Fisher information of the noisy sums"),
    Statistic.CLUSTER_SUMS: None,
    Statistic.CELL_SUMS: ErrorLaw(cells_covariance, "Fisher information of the noisy sums"),
    Statistic.BIN_COUNTS: ErrorLaw(bins_covariance, "Fisher information of the noisy counts of bins"),
    Statistic.LOCAL_RESPONSES: ErrorLaw(responses_covariance, "Fisher information of the responses"),
    Statistic.UNKNOWN: None,
}
