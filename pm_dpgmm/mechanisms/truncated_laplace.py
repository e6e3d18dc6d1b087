"""Truncated Laplace noise: bounded noise for tests that must never pass by luck. Proof: truncated_laplace.md."""

from __future__ import annotations

import math

from pm_dpgmm._arguments import check_count, check_delta, check_positive, check_real
from pm_dpgmm.privacy.bisection import bisected, whole
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.noise import Rng, laplace_scale, truncated_discrete_laplace

GRID_STEPS = 2**20  # grid points in one sensitivity for real-valued statistics


def truncation_bound(*, sensitivity: float, epsilon: float, delta: float) -> float:
    """Largest absolute noise A of TLap(sensitivity, epsilon, delta), in the unit of the value.

    A = (sensitivity / epsilon) ln(1 + (e^epsilon - 1) / (2 delta)); the density is proportional to
    exp(-|z| epsilon / sensitivity) on [-A, A]. Exactly delta at a shift by the sensitivity, for delta <= 1/2
    (Arbas, Ashtiani and Liaw 2023, Definition C.5 and Theorem C.6).
    """
    check_positive(sensitivity=sensitivity, epsilon=epsilon)
    check_delta(delta, zero=False)
    return sensitivity / epsilon * math.log1p(math.expm1(epsilon) / (2 * delta))


def truncated_laplace_loss(*, sensitivity: int, epsilon: float, delta: float) -> TruncatedLaplaceProfile:
    """Smallest truncation of integer noise that is (epsilon, delta)-DP, with its exact curve.

    The scale is sensitivity / epsilon; the bound is the least integer at which the ``sensitivity`` largest
    values of the noise carry mass at most delta.
    """
    check_count(sensitivity=sensitivity)
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    scale = laplace_scale(sensitivity, epsilon)

    def enough(bound: float) -> bool:
        return TruncatedLaplaceProfile(scale, int(bound), sensitivity).delta(epsilon) <= delta

    low, high = sensitivity - 1, sensitivity  # low fails or is not allowed, high is the candidate
    while not enough(high):
        low, high = high, 2 * high
    return TruncatedLaplaceProfile(scale, int(bisected(enough, high, low, middle=whole)), sensitivity)


def truncated_laplace_count(value: int, *, loss: TruncatedLaplaceProfile, rng: Rng = None) -> int:
    """Add bounded noise to an integer.

    Parameters
    ----------
    value : int
        Exact statistic; neighbouring data sets move it by at most ``loss.shift``.
    loss : TruncatedLaplaceProfile
        Scale and bound of the noise, from :func:`truncated_laplace_loss`.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    int
        ``value`` + z with |z| <= ``loss.bound``, P[z] proportional to exp(-|z| / scale).

    Guarantee
    ---------
    (epsilon, loss.delta(epsilon))-DP for every epsilon >= 0. Proof: truncated_laplace.md.

    Examples
    --------
    >>> loss = truncated_laplace_loss(sensitivity=2, epsilon=1.0, delta=1e-3)
    >>> abs(truncated_laplace_count(100, loss=loss) - 100) <= loss.bound
    True
    """
    check_count(least=-(2**62), value=value)
    return int(value) + int(truncated_discrete_laplace((), scale=loss.scale, bound=loss.bound, rng=rng))


def truncated_laplace(
    value: float, *, sensitivity: float, epsilon: float, delta: float, rng: Rng = None
) -> tuple[float, TruncatedLaplaceProfile]:
    """Add bounded noise to a real number, on a public grid of 2^-20 sensitivities.

    Parameters
    ----------
    value : float
        Exact statistic, finite; neighbouring data sets move it by at most ``sensitivity``.
    sensitivity, epsilon, delta : float
        Positive; delta below 1.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    value : float
        Noisy value, a multiple of the grid; the noise never exceeds :func:`truncation_bound` by more than
        the rounding (a few millionths of it).
    loss : TruncatedLaplaceProfile
        Exact privacy curve of the release, in grid steps.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Guarantee
    ---------
    (epsilon, delta)-DP: the value is rounded to the grid, which costs one grid step of sensitivity, and gets
    integer noise. Proof: truncated_laplace.md. Source: Arbas, Ashtiani and Liaw (2023), Theorem C.6.
    """
    check_positive(sensitivity=sensitivity)
    check_real(value=value)
    if not math.isfinite(value):
        raise ValueError(f"value must be finite, got {value!r}")
    grid = sensitivity / GRID_STEPS
    loss = truncated_laplace_loss(sensitivity=GRID_STEPS + 1, epsilon=epsilon, delta=delta)
    return truncated_laplace_count(round(value / grid), loss=loss, rng=rng) * grid, loss
