"""The aggregated populous estimator in its plainest form: fits, friends, level, core, barycentre, average.

For small sizes and for checking only: no margins for rounding, no random numbers, nothing is private.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Fit(NamedTuple):
    """A mixture: weights (k,), means (k, d), covariances (k, d, d)."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray


@dataclass(frozen=True, slots=True)
class Settings:
    """Public parameters. ``full`` is the number F of fits that must have at least ``top`` friends."""

    t: int
    k: int
    s_inf: float
    s_2: float
    triple: bool
    top: int
    full: int
    cond_max: float = 1e6
    separation: float | None = None  # in place of 4 (triple rule) or 6 (pair rule)

    @property
    def floor(self) -> int:
        """n0: a core fit has more friends than this."""
        return core_floor(self.t, triple=self.triple)

    @property
    def kappa(self) -> float:
        """Scale of a weight in the distance of two fits."""
        return 1 / (math.sqrt(2) * self.k)

    @property
    def least_separation(self) -> float:
        """Components of a valid fit are farther apart than this."""
        factor = self.separation if self.separation is not None else (4.0 if self.triple else 6.0)
        return factor * self.s_inf


def core_floor(t: int, *, triple: bool) -> int:
    """n0 of the triple rule, ceil((2 t + 2)/3) - 1, or of the pair rule, ceil(t/2)."""
    return -(-(2 * t + 2) // 3) - 1 if triple else -(-t // 2)


def mass_bound(t: int, floor: int, top: int, full: int) -> float:
    """W, the bound on the mass that one replaced fit moves."""
    u = (t - 1 - full) / (top - floor)
    return (1 + u) / (full + 1 + u)


def level(counts: IntArray, top: int, full: int, slope: int = 1) -> IntArray:
    """h of the friend counts in the last axis: largest m >= 0 with at least F + m counts of at least top + m, or 0.

    ``slope`` 0 asks for F counts whatever m, which is wrong.
    """
    reached = np.zeros(counts.shape[:-1], dtype=np.int64)
    for m in range(1, counts.shape[-1] - top + 1):
        reached += np.sum(counts >= top + m, axis=-1) >= full + slope * m  # if it holds at m, it holds at m - 1
    return reached


def ramp(counts: IntArray, floor: int, top: int) -> FloatArray:
    """c_i: 0 up to the floor, 1 from the top on."""
    return np.clip((counts - floor) / (top - floor), 0.0, 1.0)


def distances(first: Fit, second: Fit) -> FloatArray:
    """d_AI of all components, (k, k); row a in the frame of component a of the first fit."""
    return np.asarray(np.linalg.norm(np.log(np.linalg.eigvalsh(framed(second, first))), axis=-1))


def framed(fit: Fit, frame: Fit) -> FloatArray:
    """Lifted components, (k, k, D, D): [a, b] is component b where component a of ``frame`` is N(0, I)."""
    factor = np.linalg.cholesky(frame.covariances)[:, None]
    v = np.linalg.solve(factor, (fit.means - frame.means[:, None])[..., None])[..., 0]
    half = np.linalg.solve(factor, fit.covariances[None])
    return lifted(v, np.linalg.solve(factor, np.swapaxes(half, -1, -2)))


def lifted(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """[[Sigma + mu mu', mu], [mu', 1]], symmetric to the last bit."""
    d = mean.shape[-1]
    whole = np.ones((*mean.shape[:-1], d + 1, d + 1))
    whole[..., :d, :d] = covariance + mean[..., :, None] * mean[..., None, :]
    whole[..., :d, d] = whole[..., d, :d] = mean
    return np.asarray((whole + np.swapaxes(whole, -1, -2)) / 2)


def distance(point: FloatArray, other: FloatArray | None = None) -> float:
    """d_AI of positive definite matrices, from the identity unless ``other`` is given."""
    if other is not None:
        factor = np.linalg.cholesky(other)
        point = np.linalg.solve(factor, np.linalg.solve(factor, point).T)
        point = (point + point.T) / 2
    return float(np.linalg.norm(np.log(np.linalg.eigvalsh(point))))


def valid(fit: Fit | None, s: Settings) -> bool:
    """k finite components, positive definite, correlation matrices in bounds, components far enough apart."""
    if fit is None or len(fit.weights) != s.k or not all(np.all(np.isfinite(part)) for part in fit):
        return False
    for covariance in fit.covariances:
        sd = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if not sd.all():
            return False
        values = np.linalg.eigvalsh(covariance / np.outer(sd, sd))
        if values[0] <= 0 or values[-1] > s.cond_max * values[0]:
            return False
    apart = distances(fit, fit)
    return bool(np.all(apart[~np.eye(s.k, dtype=bool)] > s.least_separation))


def friend(first: Fit, second: Fit, s: Settings, table: FloatArray, kappa: float | None = None) -> bool:
    """Two valid fits: the table of distances at most s_inf is a permutation, and d_2 along it is at most s_2."""
    near = table <= s.s_inf
    if np.any(near.sum(0) != 1) or np.any(near.sum(1) != 1):
        return False
    return whole_distance(first, second, np.argmax(near, axis=1), table, kappa or s.kappa) <= s.s_2


def whole_distance(first: Fit, second: Fit, order: IntArray, table: FloatArray, kappa: float) -> float:
    """d_2: component a of the first fit against component ``order[a]`` of the second, and the weights over kappa."""
    moved = np.append(table[_each(first), order], (first.weights - second.weights[order]) / kappa)
    return float(np.linalg.norm(moved))


def friend_table(fits: list[Fit | None], s: Settings, kappa: float | None = None) -> NDArray[np.bool_]:
    """f(i, j): every pair is computed once and mirrored; a valid fit is its own friend, an invalid one nobody's."""
    found = np.diag([valid(fit, s) for fit in fits])
    for i, j in itertools.combinations(np.flatnonzero(np.diag(found)), 2):
        first, second = fits[i], fits[j]
        assert first is not None and second is not None
        found[i, j] = found[j, i] = friend(first, second, s, distances(first, second), kappa)
    return found


def alignment(table: FloatArray, reach: float) -> IntArray | None:
    """The permutation along which all distances are at most ``reach``; None when there is none or more than one.

    A bipartite graph with exactly one perfect matching has a vertex with one edge on either side, and so on without it.
    """
    near = table <= reach * (1 + 1e-12)
    order = np.full(len(near), -1)
    for _ in order:
        forced = np.flatnonzero(near.sum(axis=1) == 1)
        if not len(forced):
            return None
        a = forced[0]
        order[a] = np.argmax(near[a])
        near[a], near[:, order[a]] = False, False
    return order


def barycentre(points: FloatArray, weights: FloatArray, s_inf: float) -> FloatArray:
    """Minimiser of sum_i a_i d_AI(X, P_i)^2 for points (n, D, D) within 2 s_inf of each other; starts at the first."""
    z = 2 * math.sqrt(2) * s_inf
    smoothness = z / math.tanh(z) if z > 0 else 1.0
    x = points[0]
    for _ in range(math.ceil(100 * smoothness)):
        root, inverse = power(x, 0.5), power(x, -0.5)
        values, vectors = np.linalg.eigh(inverse @ points @ inverse)
        logarithms = (vectors * np.log(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        gradient = np.einsum("i,ijk->jk", weights, logarithms)
        if np.linalg.norm(gradient) < 1e-13:
            break
        values, vectors = np.linalg.eigh(gradient / smoothness)
        x = root @ ((vectors * np.exp(values)) @ vectors.T) @ root
        x = (x + x.T) / 2
    return x


def power(matrix: FloatArray, exponent: float) -> FloatArray:
    """Power of a positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * values**exponent) @ vectors.T)


class Average(NamedTuple):
    """Barycentres (k, D, D) in the frame of the data, weights (k,), and the level of the data set."""

    points: FloatArray
    weights: FloatArray
    level: int


def average(fits: list[Fit | None], s: Settings, kappa: float | None = None) -> Average | None:
    """Weighted average of the core, in the component order of its first fit; None without a core."""
    counts = friend_table(fits, s, kappa).sum(axis=1)
    c = ramp(counts, s.floor, s.top)
    core = np.flatnonzero(c > 0)
    if not len(core):
        return None
    a = c[core] / c[core].sum()
    chosen = [fit for i in core if (fit := fits[i]) is not None]
    reference = chosen[0]
    orders = [alignment(distances(reference, fit), 2 * s.s_inf) for fit in chosen]
    points, weights = [], np.zeros(s.k)
    for b in range(s.k):
        matched = [(fit, int(order[b])) for fit, order in zip(chosen, orders, strict=True) if order is not None]
        inner = barycentre(np.array([framed(fit, reference)[b, place] for fit, place in matched]), a, s.s_inf)
        back = np.eye(len(inner))
        back[:-1, :-1], back[:-1, -1] = np.linalg.cholesky(reference.covariances[b]), reference.means[b]
        points.append(back @ inner @ back.T)
        weights[b] = sum(a[i] * fit.weights[place] for i, (fit, place) in enumerate(matched))
    return Average(np.array(points), weights, int(level(counts, s.top, s.full)))


def gap(first: Average, second: Average, order: tuple[int, ...], kappa: float) -> float:
    """d_2 of two averages along ``order``."""
    moved = [distance(first.points[a], second.points[b]) for a, b in enumerate(order)]
    return float(np.linalg.norm([*moved, *((first.weights - second.weights[list(order)]) / kappa)]))


def _each(fit: Fit) -> range:
    return range(len(fit.means))
