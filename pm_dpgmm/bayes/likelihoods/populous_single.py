"""Likelihood of method "populous-single": weights, means and covariances of one fit, masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pm_dpgmm.bayes.likelihoods.mask_graph import log_masked
from pm_dpgmm.methods.populous.mask_law import FORMS, MaskedMixture, masked_mixture

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released

LIKELIHOODS = FORMS


def statistics(release: Released) -> MaskedMixture:
    """The released numbers with the scales of their error; the fit that was masked saw one subset of the records."""
    n_subsets = release.noise.get("n_subsets")
    public = release.n_records is not None and n_subsets is not None
    size = release.n_records / n_subsets if public else None  # type: ignore[operator]
    return masked_mixture(release.raw, release.noise, release.mixture, subset_records=size)


def log_likelihood(
    release: Released, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """Log density of the released numbers at a mixture, up to a constant.

    Parameters
    ----------
    release : Release
        Of method "populous-single". Its test was passed: the law is that of the mask given a pass.
    weights, means, chol : tensors, shapes (K,), (K, D) and (K, D, D)
        Of the mixture; ``chol`` lower triangular with a positive diagonal. Component j is compared with component j of
        the release, so its order must be that of the release.
    likelihood : {"auto", "exact", "wishart", "gaussian"}
        "exact": a covariance is noncentral Wishart (Laplace form above dimension 2), a mean is Gaussian given the
        covariance, a weight is Gaussian; sampling error of the masked fit widens each. "wishart": central in its
        place, for noise up to 0.2. "gaussian": relative numbers jointly Gaussian, with the sampling error that
        overlapping components share. "auto": "exact" unless that shared error matters.

    Returns
    -------
    TensorVariable, scalar

    Raises
    ------
    ValueError
        If ``likelihood`` is none of these, or "wishart" where the noise is too large for it.

    Guarantee
    ---------
    Post-processing: costs no privacy budget.

    Notes
    -----
    The masked fit is taken for efficient: its error has the inverse information of the records of a subset as
    covariance, at the released mixture.
    """
    return log_masked(statistics(release), weights, means, chol, likelihood=likelihood)
