"""Noise-aware evidence of methods "histogram" and "gaps": counts of bins with discrete Laplace noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt

from pm_dpgmm._arguments import check_choice
from pm_dpgmm.bayes.likelihoods.counts_operation import count_density
from pm_dpgmm.bayes.likelihoods.free_background import FreeBackground
from pm_dpgmm.bayes.likelihoods.known_component import beside
from pm_dpgmm.methods.counts.histogram_law import NoisyGrid
from pm_dpgmm.methods.gaps.statistics import GapStatistics
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.background import background_of

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released

LIKELIHOODS: tuple[str, ...] = ("exact", "gaussian")


def statistics(release: Released) -> NoisyGrid:
    """The noisy counts and their public law."""
    if release.statistic is Statistic.BIN_COUNTS:
        found = GapStatistics.of(release.raw, release.noise)
        bins = found.bins
        ends = np.array([[bins.edges[0], bins.edges[-1]]])
        return NoisyGrid(bins.counts, ends, len(bins.counts), bins.noise_scale, found.n_records, bins.edges[None])
    counts = release.raw["counts"]
    return NoisyGrid(
        counts.ravel(), release.raw["bounds"], counts.shape[0], float(release.noise["scale"]), release.n_records
    )


def log_likelihood(
    release: Released,
    weights: Any,
    means: Any,
    chol: Any,
    *,
    likelihood: str = "auto",
    far: FreeBackground | None = None,
) -> TensorVariable:
    """Log density of the noisy counts at a mixture.

    Parameters
    ----------
    release : Release
        Of method "histogram" or "gaps".
    weights, means, chol : tensors, shapes (K,), (K, D) and (K, D, D)
        Of the mixture, components in any order; ``chol`` lower triangular with a positive diagonal.
    likelihood : {"auto", "exact", "gaussian"}
        "exact", which "auto" takes: a multinomial or Poisson count with discrete Laplace noise in every bin.
        "gaussian": the Gaussian law with the same mean and covariance; cheaper, and wider where bins are nearly empty.
        :func:`pm_dpgmm.methods.counts.histogram_law.log_density` has the laws.
    far : FreeBackground, optional
        How many records are in the background of the release and of which shape it is; by default it is taken as it was
        released.

    Returns
    -------
    TensorVariable, scalar

    Raises
    ------
    ValueError
        If ``likelihood`` is none of these.

    Guarantee
    ---------
    Post-processing: costs no privacy budget.

    Notes
    -----
    Records outside the bounds were counted in the nearest bin, and the bins at the edge are taken to reach to
    infinity, so nothing is cut off. The number of records is public under replace-one neighbours; under add-remove it
    is integrated out with a flat prior.
    """
    check_choice(("auto", *LIKELIHOODS), likelihood=likelihood)
    grid = statistics(release)
    d = release.n_features
    weights = pt.as_tensor_variable(weights)
    means = pt.specify_shape(pt.as_tensor_variable(means), (None, d))
    chol = pt.specify_shape(pt.as_tensor_variable(chol), (None, d, d))
    if far is not None:
        weights, means, chol = far.beside(weights, means, chol)
    elif (background := background_of(release)) is not None:
        weights, means, chol = beside(background, weights, means, chol)
    form = "exact" if likelihood == "auto" else likelihood
    found: TensorVariable = count_density(grid, form, weights, means, chol, flat=far is not None)
    return found
