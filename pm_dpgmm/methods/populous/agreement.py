"""Which fits agree, in the affine-invariant metric: validity of a fit and the friend table of the aggregated estimator.

Nothing here is released or spends budget, but the sensitivity of what is released rests on it: agreement.md.
Source: Arbas, Ashtiani and Liaw (2023), Algorithm 1, with another metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_choice, check_count, check_positive
from pm_dpgmm.learners.fit_arrays import BoolArray, Fits
from pm_dpgmm.methods.populous.friends_kernel import fill_rows, is_valid
from pm_dpgmm.mixture.affine_invariant import factorise, pair_distances

UNIT = 1.2e-16  # a little more than the unit roundoff
SEPARATION = {"triple": 4.0, "pair": 6.0}  # between components, in component radii
ROWS = 8  # of the friend table for one task of a thread


@dataclass(frozen=True, slots=True)
class AgreementRule:
    """When a fit is valid, when two fits are friends, and how many friends make a fit part of the core. All public.

    Parameters
    ----------
    n_components, n_features : int
        k and d of a fit.
    component_radius : float
        s_inf: components of friends are at most this far apart, in d_AI.
    fit_radius : float
        s_2: friends are at most this far apart in d_2, the root of the sum of squares of the k distances d_AI and of
        the differences of weights over ``weight_scale``.
    core : {"triple", "pair"}
        Any three core fits, or any two, share a friend besides any one fit. Components of a valid fit are more than 4,
        or 6, ``component_radius`` apart.
    weight_scale : float, optional
        kappa. Default 1/(sqrt(2) k).
    largest_condition : float
        Of the correlation matrix of a component of a valid fit.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or a radius is not larger than twice its margin.
    """

    n_components: int
    n_features: int
    component_radius: float
    fit_radius: float
    core: str = "triple"
    weight_scale: float | None = None
    largest_condition: float = 1e6

    def __post_init__(self) -> None:
        check_count(n_components=self.n_components, n_features=self.n_features)
        check_positive(component_radius=self.component_radius, fit_radius=self.fit_radius)
        check_choice(tuple(SEPARATION), core=self.core)
        check_positive(largest_condition=self.largest_condition, weight_scale=self.kappa)
        if self.component_radius > 20:
            raise ValueError(f"component_radius must be at most 20, got {self.component_radius}")
        if self.component_radius <= 2 * self.margin or self.fit_radius <= 2 * self.fit_margin:
            raise ValueError(
                "component_radius and fit_radius must be larger than twice the rounding of distances,"
                f" {self.margin:.2g} and {self.fit_margin:.2g}, got {self.component_radius} and {self.fit_radius}"
            )

    @property
    def kappa(self) -> float:
        """Scale of a weight in d_2."""
        return 1 / (math.sqrt(2) * self.n_components) if self.weight_scale is None else self.weight_scale

    @property
    def separation(self) -> float:
        """Components of a valid fit are farther apart than this."""
        return SEPARATION[self.core] * self.component_radius

    @property
    def margin(self) -> float:
        """rho: bounds the error of a computed distance near a threshold."""
        error = 4e-16 * self.n_features**2 * self.largest_condition
        return max(1e-5, error * math.exp(1.5 * self.separation))

    @property
    def fit_margin(self) -> float:
        """Bounds the error of a computed d_2 near its threshold: that of k distances."""
        return math.sqrt(self.n_components) * self.margin

    @property
    def average_error(self) -> float:
        """tau: bounds the error of a computed average of core fits, in d_2."""
        error = 4e-16 * math.sqrt(self.n_components) * self.n_features**2 * self.largest_condition
        return max(1e-6, error * math.exp(4 * self.component_radius))

    @property
    def divergence_error(self) -> float:
        """Bounds by how much a passing ``jeffreys`` is too small, for valid components with axes: agreement.md."""
        error = 32 * UNIT * self.n_features**3 * self.largest_condition
        return error * math.exp(2 * self.component_radius)

    def core_floor(self, n_fits: int) -> int:
        """n0 of ``n_fits`` fits: a core fit has more friends, itself included."""
        check_count(n_fits=n_fits)
        return -(-(2 * n_fits + 2) // 3) - 1 if self.core == "triple" else -(-n_fits // 2)


def distance_lifted(
    first_mean: ArrayLike, first_covariance: ArrayLike, second_mean: ArrayLike, second_covariance: ArrayLike
) -> Any:
    """d_AI of the lifts of components, in the frame of the first; no unit.

    Parameters
    ----------
    first_mean, second_mean : array_like, shapes (..., d) that broadcast
        In the unit of the data.
    first_covariance, second_covariance : array_like, shapes (..., d, d) that broadcast
        In the unit of the data squared; their lower triangles count.

    Returns
    -------
    float or ndarray, shape (...)
        NaN where a number is not finite, the first covariance is not positive definite, or rounding hides the distance.
        The bits of a pair do not depend on the batch. Swapped arguments agree up to rounding.

    Examples
    --------
    >>> round(float(distance_lifted([0.0], [[1.0]], [4.0], [[1.0]])), 4)  # 2 sqrt(2) asinh(2)
    4.0832
    """
    parts = [np.asarray(part, dtype=float) for part in (first_mean, first_covariance, second_mean, second_covariance)]
    d = parts[0].shape[-1]
    shape = np.broadcast_shapes(*(part.shape[: -1 - i % 2] for i, part in enumerate(parts)))
    tails = ((d,), (d, d), (d,), (d, d))
    mean, covariance, mean2, covariance2 = (
        np.ascontiguousarray(np.broadcast_to(part, (*shape, *tail))).reshape(-1, *tail)
        for part, tail in zip(parts, tails, strict=True)
    )
    factors, found = np.empty_like(covariance), np.empty(len(mean))
    good = np.array([factorise(c, f) for c, f in zip(covariance, factors, strict=True)], dtype=bool)
    factors[~good] = np.nan
    pair_distances(factors, mean, mean2, covariance2, found)
    return found.reshape(shape)[()]


def valid_fits(fits: Fits, rule: AgreementRule, *, n_threads: int = 1) -> BoolArray:
    """Which fits are valid, shape (t,): each entry is a function of that fit alone, bit for bit.

    Valid: given, all numbers finite and of ordinary size, correlation matrices in bounds, components separated.
    """
    return _prepared(fits, rule, n_threads).valid


def friend_table(fits: Fits, rule: AgreementRule, *, n_threads: int = 1) -> BoolArray:
    """Which fits are friends: symmetric table, shape (t, t).

    Parameters
    ----------
    fits : Fits
    rule : AgreementRule
    n_threads : int
        The result is the same for any number.

    Returns
    -------
    ndarray of bool, shape (t, t)
        True on the diagonal of a valid fit; the row of an invalid one is False. Off the diagonal, True only where the
        exact distances keep the radii of ``rule`` along one permutation. Every pair is computed once and mirrored. An
        entry is a function of its two fits, bit for bit, whatever the others are and however many.

    Raises
    ------
    TypeError, ValueError
        If the shape of ``fits`` or ``n_threads`` is wrong: public facts. Values raise nothing.

    Notes
    -----
    Three tests, cheapest first: marginals on axes; the divergence J, which bounds d_AI from both sides
    (``lifted_distance.jeffreys``); eigenvalues where neither decides. At most one component of a valid fit is within
    ``component_radius`` of another component, so no matching is searched for.
    """
    ready = _prepared(fits, rule, n_threads)
    t = len(fits)
    table = np.diag(ready.valid)
    near, whole = rule.component_radius - rule.margin, rule.fit_radius - rule.fit_margin
    bounds = np.array([near, whole, 4 * math.sinh(near / 2) ** 2, rule.kappa, rule.divergence_error])

    def rows(first: int) -> None:
        fill_rows(
            (first, min(first + ROWS, t)),
            ready.valid,
            fits.weights,
            fits.means,
            fits.covariances,
            ready.variances,
            ready.factors,
            ready.precisions,
            bounds,
            table,
        )

    _each(rows, range(0, t, ROWS), n_threads)
    return np.asarray(table | table.T)


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    valid: BoolArray  # (t,)
    variances: FloatArray  # (t, k, d)
    factors: FloatArray  # (t, k, d, d), Cholesky
    precisions: FloatArray  # (t, k, d, d)


def _prepared(fits: Fits, rule: AgreementRule, n_threads: int) -> _Prepared:
    check_count(n_threads=n_threads)
    t, k, d = fits.means.shape
    if (k, d) != (rule.n_components, rule.n_features):
        raise ValueError(f"fits must have shape (t, {rule.n_components}, {rule.n_features}), got {fits.means.shape}")
    variances = np.ascontiguousarray(np.diagonal(fits.covariances, axis1=-2, axis2=-1))
    ready = _Prepared(fits.given.copy(), variances, np.zeros((t, k, d, d)), np.zeros((t, k, d, d)))
    limit = rule.separation + 3 * rule.margin
    bounds = np.array([rule.largest_condition, limit, 4 * math.sinh(limit / 2) ** 2])

    def check(i: int) -> None:
        if ready.valid[i]:
            ready.valid[i] = is_valid(
                fits.weights[i],
                fits.means[i],
                fits.covariances[i],
                variances[i],
                bounds,
                ready.factors[i],
                ready.precisions[i],
            )

    _each(check, range(t), n_threads)
    return ready


def _each(task: Callable[[int], None], places: Sequence[int], n_threads: int) -> None:
    """Run ``task`` for every place; tasks write to places of their own, so threads change nothing."""
    if n_threads == 1 or len(places) < 2:
        for place in places:
            task(place)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(task, places):
            pass
