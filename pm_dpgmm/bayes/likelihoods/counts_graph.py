"""Log probabilities of counts with discrete Laplace noise as PyTensor expressions; compiled in :mod:`counts_kernel`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from pm_dpgmm.bayes.pymc_compat import with_gradient
from pm_dpgmm.methods.counts.histogram_law import log_noise_height
from pm_dpgmm.methods.counts.noisy_poisson import ELEMENTARY, HOMOGENEOUS, SMALLEST_SCALE, TINY, falling_sum

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

FARTHEST = 100.0  # logarithms that differ by more add up to the larger one


def log_count(counts: Any, expected: Any, noise_scale: float) -> TensorVariable:
    """log P[y + z = c], y Poisson with mean ``expected`` and z discrete Laplace: closed form, elementwise.

    The sum over y splits at c into two Poisson probabilities (:mod:`pm_dpgmm.methods.counts.noisy_poisson`). The
    derivative by the mean is P[c - 1]/P[c] - 1, the same function again: one operation with that gradient, because
    derivatives of all its branches would take a compiler minutes. ``noise_scale`` counts as at least 0.2.

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
    # JAX differentiates its softplus through exp of the distance, too: no number where that is infinite
    distance = pt.minimum(pt.abs(low - high), FARTHEST)
    return pt.maximum(low, high) + pt.log1p(pt.exp(-distance))


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
