"""Noise-aware evidence of the noisy sums that EM steps release: their normal law.

The law, its derivation and its integrals are in :mod:`pm_dpgmm.methods.em.law`; the layout of a release is in
:mod:`pm_dpgmm.methods.em.statistics`. No latent variable is added to the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pm_dpgmm._arguments import check_choice
from pm_dpgmm.bayes.likelihoods.em_operation import sums_density
from pm_dpgmm.methods.em.statistics import EMStatistics

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released

LIKELIHOODS = ("exact", "gaussian")
MOST_EXACT = 80  # numbers in the stack up to which "auto" lets the covariance follow the parameters


def log_likelihood(
    release: Released, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """Log density of a release's noisy EM sums, given the mixture its records come from.

    Normal with mean n m and covariance n V + noise: the central limit theorem for the sums, the public law for the
    noise. Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release
        Of method "em", with the arrays of :mod:`pm_dpgmm.methods.em.statistics`. Without a public ``n_records`` its
        noisy count is used, and the variance of that is part of the covariance.
    weights, means, chol : tensors, shapes (K,), (K, D), (K, D, D)
        Mixture of the records, in their unit; ``chol`` lower triangular with a positive diagonal.
    likelihood : str
        "exact": V at these parameters. "gaussian": V held at the released mixture, so that only m follows the
        parameters: for many steps or features, where V costs most. Intervals then hold to the accuracy of the
        released mixture. "auto": exact up to 80 numbers in the release.

    Returns
    -------
    scalar tensor
        Normalised: constants are included.

    Raises
    ------
    ValueError
        If the release holds no EM sums, or ``likelihood`` has another name.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 2, shape=(2, 1))
    ...     pm.Potential("evidence", log_likelihood(release, np.full(2, 0.5), mu, np.ones((2, 1, 1)))) # doctest: +SKIP
    """
    check_choice(("auto", *LIKELIHOODS), likelihood=likelihood)
    statistics = EMStatistics.of(release)
    exact = likelihood == "exact" or (likelihood == "auto" and len(statistics.values) <= MOST_EXACT)
    found: TensorVariable = sums_density(statistics, None if exact else release.mixture, weights, means, chol)
    return found
