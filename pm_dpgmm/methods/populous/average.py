"""The average of the fits that agree: stability level, core weights, alignment and the affine-invariant barycentre.

Nothing here is released or spends budget: the method adds noise. Proof: average.md. Sources: Arbas, Ashtiani and
Liaw (2023), Algorithm 1; Tsfadia et al. (2022) for core weights; Sturm (2003) and Bhatia (2007), chapter 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray, check_count
from pm_dpgmm.learners.fit_arrays import BoolArray, Fits
from pm_dpgmm.methods.populous.agreement import AgreementRule
from pm_dpgmm.methods.populous.alignment_kernel import align_and_lift

FULL_STEPS = 40  # tried before the steps whose number is known to be enough
SAFETY = 1e-4  # the gradient at which a barycentre is done, over the error that is paid for


def stability_level(counts: NDArray[Any], *, top: int, full: int) -> int:
    """h: the largest m >= 0 for which at least ``full`` + m fits have at least ``top`` + m friends; 0 if there is none.

    ``counts`` (t,) are the row sums of a friend table. Replacing one fit moves h by at most 1 (average.md).
    """
    level = 0
    for m in range(1, len(counts) - min(top, full) + 1):  # if it holds at m, it holds at m - 1
        if int(np.sum(counts >= top + m)) < full + m:
            break
        level = m
    return level


def core_weights(counts: NDArray[Any], *, floor: int, top: int) -> FloatArray:
    """c_i = clip((n_i - floor)/(top - floor), 0, 1), shape (t,): 0 outside the core; not normalised.

    Raises
    ------
    ValueError
        Unless ``floor`` < ``top``.
    """
    check_core(floor=floor, top=top)
    return np.clip((np.asarray(counts) - floor) / (top - floor), 0.0, 1.0)


def moved_mass(n_fits: int, *, floor: int, top: int, full: int) -> float:
    """W: the largest share of the normalised core weights that one replaced fit moves when the level is at least 1."""
    check_core(floor=floor, top=top)
    check_count(n_fits=n_fits, full=full)
    if max(top, full) > n_fits:
        raise ValueError(f"top and full must be at most {n_fits}, got {top} and {full}")
    spread = max(0, n_fits - 1 - full) / (top - floor)
    return (1 + spread) / (full + 1 + spread)


def check_core(*, floor: int, top: int) -> None:
    """Raise unless ``floor`` < ``top``, integers."""
    check_count(least=0, floor=floor, top=top)
    if floor >= top:
        raise ValueError(f"top must be larger than the floor of the core, {floor}, got {top}")


@dataclass(frozen=True, slots=True, eq=False)
class CoreAverage:
    """Averages of aligned components in frames of their own, in the component order of one fit of the core.

    In frame a, N(centres[a], factors[a] factors[a]') is N(0, I). Not private before noise.
    """

    weights: FloatArray  # (k,)
    points: FloatArray  # (k, d + 1, d + 1), lifted, in the frames
    factors: FloatArray  # (k, d, d), lower triangular, unit of the records
    centres: FloatArray  # (k, d), unit of the records


def average_core(fits: Fits, friends: BoolArray, rule: AgreementRule, *, top: int) -> CoreAverage | None:
    """Weighted average of the core fits; None when there are none.

    Parameters
    ----------
    fits : Fits
    friends : ndarray of bool, shape (t, t)
        ``friend_table`` of ``fits`` under ``rule``.
    rule : AgreementRule
    top : int
        A fit with so many friends has full weight.

    Returns
    -------
    CoreAverage
        Within ``rule.average_error`` of the exact average in d_2, whichever core fit is the reference (the first is).
    """
    if np.shape(friends) != (len(fits), len(fits)):
        raise ValueError(f"friends must have shape {(len(fits), len(fits))}, got {np.shape(friends)}")
    weights = core_weights(friends.sum(axis=1), floor=rule.core_floor(len(fits)), top=top)
    core = np.flatnonzero(weights > 0)
    if len(core) == 0:
        return None
    share = weights[core] / math.fsum(weights[core])
    means, covariances = fits.means[core], fits.covariances[core]
    _, k, d = means.shape
    reach = 2 * rule.component_radius + rule.margin
    order, points = np.zeros((len(core), k), dtype=np.int64), np.empty((k, len(core), d + 1, d + 1))
    factors = np.empty((k, d, d))
    align_and_lift(means, covariances, reach, factors, order, points)
    aligned = np.take_along_axis(fits.weights[core], order, axis=1)
    averages = np.array([barycentre(cloud, share, rule) for cloud in points])
    return CoreAverage(np.array([math.fsum(share * column) for column in aligned.T]), averages, factors, means[0])


def barycentre(points: FloatArray, weights: FloatArray, rule: AgreementRule) -> FloatArray:
    """The minimiser of sum_i a_i d_AI(X, P_i)^2, (D, D), from X = I.

    Parameters
    ----------
    points : ndarray, shape (n, D, D)
        P_i, symmetric positive definite, within twice ``rule.component_radius`` of each other, I among them.
    weights : ndarray, shape (n,)
        a_i, positive; they sum to 1.

    Returns
    -------
    ndarray, shape (D, D)
        With ||g|| at most ``SAFETY rule.average_error/sqrt(k)``, or the last of a fixed number of safe steps.

    Notes
    -----
    X <- R exp(g/L) R' with X = R R' and g = sum_i a_i log(R^-1 P_i R^-T). The objective is 1-strongly convex along
    geodesics, so ||g|| bounds the distance from the minimiser at any X, however X was found. Full steps, L = 1, are
    fast for points close together but need not converge. Then L = z coth z, z = 2 sqrt(2) s_inf, is the smoothness of
    the objective where the iterates are, and ceil(100 L) steps leave at most 2 s_inf e^-50 (average.md).
    """
    done = SAFETY * rule.average_error / math.sqrt(rule.n_components)
    point, gradient = _descend(points, weights, 1.0, FULL_STEPS, done)
    if not gradient <= done:
        z = 2 * math.sqrt(2) * rule.component_radius
        smoothness = z / math.tanh(z)
        point, _ = _descend(points, weights, smoothness, math.ceil(100 * smoothness), done)
    return point


def _descend(
    points: FloatArray, weights: FloatArray, smoothness: float, n_steps: int, done: float
) -> tuple[FloatArray, float]:
    """The point after at most ``n_steps`` steps from I, and the norm of the gradient where it was last computed."""
    root = inverse = np.eye(points.shape[-1])
    size = math.inf
    for _ in range(n_steps):
        gradient = _gradient(inverse, points, weights)
        size = float(np.linalg.norm(gradient))
        if not done < size < math.inf:
            break
        values, vectors = np.linalg.eigh(gradient / (2 * smoothness))
        half = np.exp(np.clip(values, -50, 50))  # a full step may run away; its point is then not used
        root = root @ ((vectors * half) @ vectors.T)
        inverse = ((vectors / half) @ vectors.T) @ inverse
    whole = root @ root.T
    return (whole + whole.T) / 2, size


def _gradient(inverse: FloatArray, points: FloatArray, weights: FloatArray) -> FloatArray:
    """sum_i a_i log(R^-1 P_i R^-T), symmetric, for ``inverse`` R^-1."""
    seen = inverse @ points @ inverse.T
    values, vectors = np.linalg.eigh((seen + np.swapaxes(seen, -1, -2)) / 2)
    logarithms = np.log(np.maximum(values, 1e-300)) * weights[:, None]
    total = np.einsum("nij,nj,nkj->ik", vectors, logarithms, vectors, optimize=True)
    return np.asarray((total + total.T) / 2)
