"""Noise-aware evidence of local responses: the mixture seen through a public channel, as a PyTensor expression.

With cell probabilities pi of the mixture and channel probabilities p (own cell) and q (another one):

- "one-bit": the number of ones of a wave is binomial with probability q + (p - q) P, where P, the probability of the
  wave's positive side, has a closed form (:mod:`pm_dpgmm.methods.local.waves`). How many were asked about a wave says
  nothing of the records. Exact, for any number of columns.
- "subset": reported subsets are multinomial with probabilities u + (v - u) pi(S), pi(S) that of the cells in S. Exact.
- "direct": counts are multinomial with probabilities q + (p - q) pi. Exact.
- "unary": a response's bits have means a = q + (p - q) pi and covariances -(p - q)^2 pi_i pi_j, and the counts of n of
  them are normal by the central limit theorem. Their covariance, diagonal plus rank one, is inverted in closed form.
- "added", one dimension: an exact density, since a clipped normal plus noise is a mixture of two normals at the ends
  of the box, weighted by the probabilities of being clipped, and of N(mu, sigma^2 + s^2) times the probability that the
  record was inside given the response. More dimensions: N(mu_k, Sigma_k + diag(s^2)), as if nothing had been clipped,
  because clipped correlated normals have no closed form. That is right when the mixture hardly leaves the box: the
  density errs by at most the probability outside times the largest density of the noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from pm_dpgmm._arguments import FloatArray, check_choice
from pm_dpgmm.bayes.likelihoods.local_operation import cell_density, side_density
from pm_dpgmm.methods.local.responses import (
    VectorResponses,
    WaveResponses,
    local_responses,
)
from pm_dpgmm.mixture.mixture import LOG_2PI

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released

LIKELIHOODS = ("exact", "gaussian")


def log_likelihood(
    release: Released, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """Log density of a release's local responses, given the mixture their records come from.

    Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release
        Of method "local", with the arrays of :mod:`pm_dpgmm.methods.local.responses`.
    weights, means, chol : tensors, shapes (K,), (K, D), (K, D, D)
        Mixture of the records, in their unit; ``chol`` lower triangular with a positive diagonal.
    likelihood : str
        "auto" is "gaussian" for counts of unary responses, whose joint law has no closed form, and "exact" for the
        others. The other name is refused.

    Returns
    -------
    scalar tensor
        Normalised: constants are included.

    Raises
    ------
    ValueError
        If the release holds no responses, ``likelihood`` is not the one for them, or cells have more than two columns;
        waves have any number.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 2, shape=(2, 1))
    ...     pm.Potential("evidence", log_likelihood(release, np.full(2, 0.5), mu, np.ones((2, 1, 1)))) # doctest: +SKIP
    """
    check_choice(("auto", *LIKELIHOODS), likelihood=likelihood)
    responses = local_responses(release)
    kind = release.noise["responses"]
    right = "gaussian" if kind == "unary" else "exact"
    if likelihood not in ("auto", right):
        raise ValueError(f"likelihood must be 'auto' or {right!r} for {kind!r} responses, got {likelihood!r}")
    w, mu, root = (pt.as_tensor(one) for one in (weights, means, chol))
    if isinstance(responses, VectorResponses):
        return _added_1d(responses, w, mu, root) if responses.n_features == 1 else _added(responses, w, mu, root)
    if isinstance(responses, WaveResponses):
        return side_density(responses, w, mu, root)
    return cell_density(responses, w, mu, root)


def _added_1d(responses: VectorResponses, weights: Any, means: Any, chol: Any) -> Any:
    low, high = responses.bounds[0]
    s = responses.scales[0]
    y = _data(responses.responses)
    mu, sd = means[:, 0], chol[:, 0, 0]
    wide = pt.sqrt(pt.square(sd) + s**2)
    centre = (pt.square(sd) * y + s**2 * mu) / pt.square(wide)
    width = sd * s / wide
    inside = _normal_cdf((high - centre) / width) - _normal_cdf((low - centre) / width)
    between = pt.log(weights) - 0.5 * pt.square((y - mu) / wide) - pt.log(wide) + _log(inside)  # (n, K)
    ends = [
        _log(share @ weights) - 0.5 * pt.square((y - end) / s) - math.log(s)
        for share, end in ((_normal_cdf((low - mu) / sd), low), (_normal_cdf((mu - high) / sd), high))
    ]
    return _log_row_sums(pt.concatenate([between, *ends], axis=1)).sum() - 0.5 * LOG_2PI * len(responses.responses)


def _added(responses: VectorResponses, weights: Any, means: Any, chol: Any) -> Any:
    d = responses.n_features
    root = pt.linalg.cholesky(chol @ chol.mT + np.diag(responses.scales**2))
    y = _data(responses.responses)
    solved: list[Any] = []
    for i in range(d):  # forward substitution for all rows and components
        rest = y[:, None, i] - means[None, :, i]
        for j in range(i):
            rest = rest - root[None, :, i, j] * solved[j]
        solved.append(rest / root[None, :, i, i])
    squares = sum(pt.square(one) for one in solved)
    logs = pt.log(weights) - pt.log(pt.diagonal(root, axis1=1, axis2=2)).sum(axis=-1) - 0.5 * d * LOG_2PI
    return _log_row_sums(logs - 0.5 * squares).sum()


def _log_row_sums(logs: Any) -> Any:
    """Log of the sums of exp over rows; PyTensor's own needs a rewrite that not every mode has."""
    largest = pytensor.gradient.disconnected_grad(logs.max(axis=1, keepdims=True))
    return largest[:, 0] + pt.log(pt.exp(logs - largest).sum(axis=1))


def _log(probability: Any) -> Any:
    """Finite where a probability is rounded to 0."""
    return pt.log(pt.maximum(probability, 1e-300))


def _data(array: FloatArray) -> Any:
    """A shared variable: compiled code is cached without the numbers."""
    return pytensor.shared(np.array(array), shape=array.shape)


def _normal_cdf(z: Any) -> Any:
    return 0.5 * pt.erfc(-z / math.sqrt(2))
