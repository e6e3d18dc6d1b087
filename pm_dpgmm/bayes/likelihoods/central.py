"""Noise-aware evidence of noisy sums of cells: the normal law of :mod:`pm_dpgmm.methods.em.law`.

Compiled in one column, by the operation of EM sums; a PyTensor graph in several.

The layout of a release is in :mod:`pm_dpgmm.methods.central.statistics`. No latent variable is added to the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from pm_dpgmm._arguments import check_choice
from pm_dpgmm.bayes.likelihoods.em import LIKELIHOODS, MOST_EXACT
from pm_dpgmm.bayes.likelihoods.em_operation import sums_density
from pm_dpgmm.bayes.likelihoods.feature_sums import normal_log_density, step_features
from pm_dpgmm.methods.central.statistics import CentralStatistics, cell_polynomials

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released


def log_likelihood(
    release: Released, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """Log density of a release's noisy sums of cells, given the mixture its records come from.

    Normal with mean n m and covariance n V + noise. For sums of records that is the central limit theorem; Laplace
    noise is taken as normal noise of its variance, which keeps the width of intervals and gives away what its peak
    would tell where it is wider than the sampling error. Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release
        Of method "central", with the arrays of :mod:`pm_dpgmm.methods.central.statistics`.
    weights, means, chol : tensors, shapes (K,), (K, D), (K, D, D)
        Mixture of the records, in their unit; ``chol`` lower triangular with a positive diagonal.
    likelihood : str
        "exact": V at these parameters. "gaussian": V held at the released mixture. "auto": exact up to 80 numbers in
        the release.

    Returns
    -------
    scalar tensor
        Normalised: constants are included.

    Raises
    ------
    ValueError
        If the release holds no sums of cells, or ``likelihood`` has another name.
    """
    check_choice(("auto", *LIKELIHOODS), likelihood=likelihood)
    statistics = CentralStatistics.of(release)
    if statistics.shape[2] == 1:  # features at the nodes of one column are numbers, whatever they are of
        exact = likelihood == "exact" or (likelihood == "auto" and len(statistics.values) <= MOST_EXACT)
        found: TensorVariable = sums_density(statistics, None if exact else release.mixture, weights, means, chol)
        return found

    def features(points: Any) -> Any:
        """:meth:`CentralStatistics.features` of a tensor (N, D)."""
        found = [step_features(one.cells, points) @ cell_polynomials(one.cells) for one in statistics.levels]
        return pt.concatenate(found, axis=1)

    return normal_log_density(statistics, features, release.mixture, weights, means, chol, likelihood=likelihood)
