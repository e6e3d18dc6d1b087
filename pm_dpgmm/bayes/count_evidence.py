"""Noise-aware evidence of method "histogram": counts of cells with discrete Laplace noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from pm_dpgmm._arguments import check_choice
from pm_dpgmm.bayes.pymc_compat import with_gradient
from pm_dpgmm.cell_law import cell_probabilities
from pm_dpgmm.count_law import NoisyGrid, log_density, log_noise_height
from pm_dpgmm.count_likelihood import ELEMENTARY, HOMOGENEOUS, SMALLEST_SCALE, TINY, falling_sum

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.released import Released

LIKELIHOODS: tuple[str, ...] = ("exact", "gaussian")


def statistics(release: Released) -> NoisyGrid:
    """The noisy counts and their public law."""
    counts = release.raw["counts"]
    return NoisyGrid(
        counts.ravel(), release.raw["bounds"], counts.shape[0], float(release.noise["scale"]), release.n_records
    )


def log_likelihood(
    release: Released, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """Log density of the noisy counts at a mixture.

    Parameters
    ----------
    release : Release
        Of method "histogram".
    weights, means, chol : tensors, shapes (K,), (K, D) and (K, D, D)
        Of the mixture, components in any order; ``chol`` lower triangular with a positive diagonal.
    likelihood : {"auto", "exact", "gaussian"}
        "exact", which "auto" takes: a multinomial or Poisson count with discrete Laplace noise in every cell.
        "gaussian": the Gaussian law with the same mean and covariance; cheaper, and wider where cells are nearly empty.
        :func:`pm_dpgmm.count_law.log_density` has the laws.

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
    Records outside the bounds were counted in the nearest cell, and the cells at the edge are taken to reach to
    infinity, so nothing is cut off. The number of records is public under replace-one neighbours; under add-remove it
    is integrated out with a flat prior.
    """
    check_choice(("auto", *LIKELIHOODS), likelihood=likelihood)
    grid = statistics(release)
    d = release.n_features
    weights = pt.as_tensor_variable(weights)
    means = pt.specify_shape(pt.as_tensor_variable(means), (None, d))
    chol = pt.specify_shape(pt.as_tensor_variable(chol), (None, d, d))
    probabilities = cell_probabilities(grid.edges, weights, means, chol, xp=pt)
    form = "exact" if likelihood == "auto" else likelihood
    found: TensorVariable = log_density(grid, probabilities, form=form, xp=pt, log_count=log_count)
    return found


def log_count(counts: Any, expected: Any, noise_scale: float) -> TensorVariable:
    """log P[y + z = c], y Poisson with mean ``expected`` and z discrete Laplace: closed form, elementwise.

    The sum over y splits at c into two Poisson probabilities (:mod:`pm_dpgmm.count_likelihood`). The derivative by the
    mean is P[c - 1]/P[c] - 1, the same function again: one operation with that gradient, because derivatives of all
    its branches would take a compiler minutes. ``noise_scale`` counts as at least 0.2.

    Parameters
    ----------
    counts : ndarray, shape (M,)
        Integers.
    expected : tensor, shape (..., M)
        Positive.
    noise_scale : float
    """
    expected = pt.as_tensor_variable(expected)
    counts = counts + pt.zeros_like(expected)
    scale = max(noise_scale, SMALLEST_SCALE)

    def gradient(inputs: list[Any], outputs: list[Any], gradients: list[Any]) -> list[Any]:
        c, mean = inputs
        return [pt.zeros_like(c), gradients[0] * pt.expm1(of_count(c - 1, mean) - outputs[0])]

    c, mean = counts.type(), expected.type()
    of_count = with_gradient([c, mean], [_log_count(c, mean, 1 / scale)], gradient)
    found: TensorVariable = of_count(counts, expected)
    return found + log_noise_height(scale)


def _log_count(counts: Any, expected: Any, rate: float) -> Any:
    c = pt.maximum(counts, 0.0)
    up, down = expected * math.exp(rate), expected * math.exp(-rate)
    high = counts * rate + expected * math.expm1(-rate) + pt.where(counts < 0, 0.0, _log_above(c, down))
    low = -c * rate + expected * math.expm1(rate) + _log_at_most(c, up)
    low = pt.where(counts < 0, high - 1e3, low)  # below 0 there is no y <= c
    return pt.maximum(low, high) + pt.log1p(pt.exp(-pt.abs(low - high)))


def _log_at_most(c: Any, mean: Any) -> Any:
    """log P[Pois(mean) <= c]; far below the mean by a series of falling terms."""
    probability = pt.gammaincc(c + 1, mean)
    known = probability > TINY
    ratio = pt.where(known, 0.0, c / mean)
    small = 1 / pt.maximum(c, 1.0)
    # terms fall by c/mean (1 - i/c): elementary symmetric functions of 0..j-1
    series = falling_sum(ratio, small, ELEMENTARY)
    tail = c * pt.log(mean) - mean - pt.gammaln(c + 1) + pt.log(series)
    return pt.where(known, pt.log(pt.where(known, probability, 1.0)), tail)


def _log_above(c: Any, mean: Any) -> Any:
    """log P[Pois(mean) > c]; far above the mean likewise."""
    probability = pt.gammainc(c + 1, mean)
    known = probability > TINY
    ratio = pt.where(known, 0.0, mean / (c + 2))
    # terms fall by mean/(c + 2)/(1 + i/(c + 2)): complete homogeneous symmetric functions
    series = falling_sum(ratio, 1 / (c + 2), HOMOGENEOUS)
    tail = (c + 1) * pt.log(mean) - mean - pt.gammaln(c + 2) + pt.log(series)
    return pt.where(known, pt.log(pt.where(known, probability, 1.0)), tail)
