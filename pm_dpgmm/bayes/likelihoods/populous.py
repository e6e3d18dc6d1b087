"""Likelihood of method "populous": weights and lifted components of an average of many fits, masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pm_dpgmm.bayes.likelihoods.mask_graph import log_masked
from pm_dpgmm.methods.populous.mask_law import FORMS, MaskedMixture, masked_mixture

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released

LIKELIHOODS = FORMS


def statistics(release: Released) -> MaskedMixture:
    """The released numbers with the scales of their error; the average saw all subsets."""
    return masked_mixture(
        release.raw,
        release.noise,
        release.mixture,
        subset_records=release.noise["subset_records"],
        averaged=release.noise["n_subsets"],
    )


def log_likelihood(
    release: Released, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """Log density of the released numbers at a mixture, up to a constant.

    Parameters
    ----------
    release : Release
        Of method "populous". Its test was passed: the law is that of the mask given a pass.
    weights, means, chol : tensors, shapes (K,), (K, D) and (K, D, D)
        Of the mixture; ``chol`` lower triangular with a positive diagonal. Component j is compared with component j of
        the release, so its order must be that of the release.
    likelihood : {"auto", "exact", "wishart", "gaussian"}
        "exact": a lifted component [[S + m m', m], [m', 1]] is noncentral Wishart in dimension D + 1 about the average
        (exact for D = 1, Laplace form above), a weight is Gaussian; sampling error of the average widens each.
        "wishart": central in its place, for noise up to 0.2. "gaussian": relative numbers jointly Gaussian, with the
        sampling error that overlapping components share; right when the noise is small. "auto": "exact" unless that
        shared error matters.

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
    The noise law is exact. The average's own error about the truth is no privacy noise: it is taken to be that of an
    efficient fit to all the records of all subsets, at the released mixture, with the known first-order bias of an
    average of fits to few records (methods/populous/mask_law.md). Where the number of records is private and no guess
    of it was made public, it is left out.
    """
    return log_masked(statistics(release), weights, means, chol, likelihood=likelihood)
