"""Mask of averaged mixtures: every lifted component gets noise shaped by itself. Proof: lifted_mask.md.

A component N(mu, Sigma) is lifted to [[Sigma + mu mu', mu], [mu', 1]]; an average of lifted components is positive
definite, with a corner that need not be 1. The mask is not private alone: it hides which of two averages at distance
``omega`` it was given, and a test (mechanisms/propose_test_release.py) answers for the distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from pm_dpgmm._arguments import FloatArray, check_count, check_delta, check_positive
from pm_dpgmm.mechanisms.masks import PUBLISHED_STEP
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.lifted_mask_curve import LiftedMaskProfile
from pm_dpgmm.privacy.noise import Rng, permutation, standard_normal

LARGEST_OMEGA = 0.9
LEAST_OMEGA = 1e-9
LEAST_SCALE = 1e-150  # of a standard deviation; its square must not underflow
LEAST_EIGENVALUE = 1e-12  # of a correlation matrix that becomes a covariance; rounding may reach below 0


@dataclass(frozen=True, slots=True)
class LiftedMaskNoise:
    """Public noise levels of the lifted mask.

    ``eta`` is the relative noise of a factor of a lifted average; ``kappa`` the difference of weights that counts as
    distance 1, by default 1/(sqrt(2) n_components) in :meth:`for_components`.
    """

    eta: float
    kappa: float

    def __post_init__(self) -> None:
        check_positive(eta=self.eta, kappa=self.kappa)

    @classmethod
    def for_components(cls, n_components: int, *, eta: float = 0.05) -> LiftedMaskNoise:
        """The default scale of weights for this number of components."""
        check_count(n_components=n_components)
        return cls(eta, 1 / (math.sqrt(2) * n_components))

    def weight(self, n_features: int) -> float:
        """Standard deviation added to a weight; with it a weight costs what an eigenvalue costs at most."""
        return self.kappa / math.sqrt(1 / (4 * self.eta**2) + (n_features + 1) / 2)


def parts_of_lifted(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means (K, d), covariances (K, d, d) and corners (K,) of positive definite ``points`` (K, d + 1, d + 1).

    A one-to-one map: the point is [[S + c m m', c m], [c m', c]]. A map x -> A x + b of the data takes (m, S, c) to
    (A m + b, A S A', c), so parts found in the frame of a component are moved back without squaring its offset.
    """
    corners = points[:, -1, -1]
    means = points[:, :-1, -1] / corners[:, None]
    outer = points[:, :-1, -1, None] * points[:, None, -1, :-1]
    return means, np.asarray(points[:, :-1, :-1] - outer / corners[:, None, None]), corners


def lifted_mask(
    weights: FloatArray,
    means: FloatArray,
    factors: FloatArray,
    corners: FloatArray,
    *,
    noise: LiftedMaskNoise,
    origins: FloatArray | None = None,
    rng: Rng = None,
) -> dict[str, FloatArray]:
    """Mask every lifted average and every weight, then shuffle the components.

    Parameters
    ----------
    weights : ndarray, shape (K,)
        Averaged weights, no unit.
    means, factors : ndarrays, shapes (K, d) and (K, d, d)
        Of the lifted averages, by :func:`parts_of_lifted`: means, and any F with F F' the covariance, in the unit of
        the data. Factors and not covariances: nothing has to be decomposed after the budget is spent.
    corners : ndarray, shape (K,)
        Last diagonal entries of the lifted averages, positive; 1 for a lifted component.
    noise : LiftedMaskNoise
        Public noise levels.
    origins : ndarray, shape (K, d), optional
        Points that ``means`` are counted from, 0 by default: added last, so that a mean far from 0 is rounded once.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    dict
        Raw noisy "weights" (K,), "corners" (K,), "means" (K, d) and "covariances" (K, d, d) in a uniformly random order
        of the components: the parts of L (I + eta G) (I + eta G)' L' for a lifted average L L'. Weights may be
        negative. Numbers are rounded to 2^-30 of a released standard deviation, or of a corner, or of 1 for weights.

    Guarantee
    ---------
    For two averages at distance at most ``omega`` (lifted_mask.md), after some relabelling of the components, the
    outputs are (epsilon, delta)-indistinguishable with the curve of
    :class:`pm_dpgmm.privacy.lifted_mask_curve.LiftedMaskProfile`.
    """
    k, d = means.shape
    noisy = weights + noise.weight(d) * standard_normal(k, rng=rng)
    whitened = noise.eta * standard_normal((k, d + 1, d + 1), rng=rng)
    whitened += np.eye(d + 1)
    parts = [_masked(*given) for given in zip(means, factors, corners, whitened, strict=True)]
    order = permutation(k, rng=rng)
    new_means, new_covariances, new_corners = (np.array(part)[order] for part in zip(*parts, strict=True))
    if origins is not None:
        new_means = origins[order] + new_means
    unit = _power_of_two(np.sqrt(np.diagonal(new_covariances, axis1=1, axis2=2)))
    pairs = unit[:, :, None] * unit[:, None, :]
    return {
        "weights": _rounded(noisy[order], np.ones(k)),
        "corners": _rounded(new_corners, _power_of_two(new_corners)),
        "means": _rounded(new_means, unit),
        "covariances": _rounded(new_covariances, pairs),
    }


def _masked(
    mean: FloatArray, factor: FloatArray, corner: float, whitened: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Mean, covariance and corner of (L W)(L W)' for the factor L = [[F, m sqrt(c)], [0, sqrt(c)]], W = ``whitened``.

    Nothing is subtracted that is larger than the result, so a mean far from 0 costs no digits of the covariance.
    """
    last, rest = whitened[-1], whitened[:-1]
    length = last @ last  # 0 with probability 0 only
    along = rest @ last / length
    across = rest - np.outer(along, last)  # rows without their part along the last row: the Schur complement
    root = factor @ across
    return mean + factor @ along / math.sqrt(corner), root @ root.T, corner * length


def _power_of_two(scale: FloatArray) -> FloatArray:
    """The largest power of two up to ``scale``."""
    return np.asarray(np.exp2(np.floor(np.log2(np.maximum(scale, LEAST_SCALE)))))


def _rounded(values: FloatArray, unit: FloatArray) -> FloatArray:
    # Powers of two: every step but the rounding is exact.
    return np.asarray(np.rint(values / unit / PUBLISHED_STEP) * PUBLISHED_STEP * unit)


def mixture_of_lifted(raw: dict[str, FloatArray], *, noise: LiftedMaskNoise) -> Mixture:
    """Post-processing of a mask: bias of the covariances removed, weights clipped at 0 and normalised.

    The bias at order eta^2 is the public factor 1 + eta^2 (d - 1): d columns of noise, less one for the projection.
    Weights are equal if all are clipped.
    """
    k, d = raw["means"].shape
    weights = np.maximum(raw["weights"], 0.0)
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(k, 1 / k)
    covariances = raw["covariances"] / (1 + noise.eta**2 * (d - 1))
    scale = np.maximum(np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)), LEAST_SCALE)
    unit = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(covariances / unit)
    values = np.maximum(values, LEAST_EIGENVALUE)
    covariances = (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2) * unit
    return Mixture(weights, raw["means"], (covariances + np.swapaxes(covariances, 1, 2)) / 2)


def largest_omega(*, epsilon: float, delta: float, eta: float, dimension: int) -> float:
    """Largest omega, to a relative 1e-6, at which the curve of the lifted mask is at most ``delta`` at ``epsilon``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or no omega above 1e-9 is enough.

    Examples
    --------
    >>> round(largest_omega(epsilon=1.0, delta=1e-6, eta=0.05, dimension=3), 4)
    0.0194
    """
    check_positive(epsilon=epsilon, eta=eta)
    check_delta(delta, zero=False)

    def excess(log_omega: float) -> float:
        loss = LiftedMaskProfile(omega=math.exp(log_omega), eta=eta, dimension=dimension)
        return math.log(loss.delta(epsilon) / delta)

    low, high = math.log(LEAST_OMEGA), math.log(LARGEST_OMEGA)
    if excess(high) <= 0:
        return LARGEST_OMEGA
    if excess(low) > 0:
        raise ValueError(f"epsilon and delta must leave room for the mask, got {epsilon:g} and {delta:g}")
    found = optimize.brentq(excess, low, high, xtol=1e-7)
    while excess(found) > 0:  # only a value that was checked is returned
        found -= 1e-7
    return math.exp(found)
