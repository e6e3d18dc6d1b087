"""Gaussian mixtures as frozen values: density, responsibilities, sampling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from pm_dpgmm._arguments import (
    FloatArray,
    check_count,
    check_real,
    finite_numbers,
    frozen,
    generator_of,
    read_numbers,
    shown,
)
from pm_dpgmm.files.pickling import by_constructor

LOG_2PI = math.log(2 * math.pi)
SAMPLED_TOGETHER = 4096  # rows
MOST_POINTS = 2**40  # to sample: far more than memory holds
AT_ONCE = 2**20  # densities of components at rows: 8 MB, and several times as much on the way
NEARER, MOST_STEPS_NEARER = 1e-50, 4  # of the distance of a row whose squared distances overflow, again and again


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Mixture:
    """A Gaussian mixture with K components in D dimensions. Arrays are read-only copies.

    Parameters
    ----------
    weights : array_like, shape (K,)
        Not negative, sums to 1 (within 1e-8).
    means : array_like, shape (K, D)
        In the unit of the data.
    covariances : array_like, shape (K, D, D)
        Symmetric positive definite, in the unit of the data squared.

    Raises
    ------
    TypeError, ValueError
        If something is no number, shapes disagree, a number is not finite, the weights are no probabilities or a
        covariance is not symmetric positive definite.

    Examples
    --------
    >>> g = Mixture([0.3, 0.7], [[0.0], [4.0]], [[[1.0]], [[2.0]]])
    >>> g.n_components, g.n_features
    (2, 1)
    >>> g.log_density([[0.0]]).round(3)
    array([-2.093])
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    __reduce__ = by_constructor

    def __init__(self, weights: ArrayLike, means: ArrayLike, covariances: ArrayLike) -> None:
        means = read_numbers(means, "means")
        if means.ndim != 2 or 0 in means.shape:
            raise ValueError(f"means must have shape (n_components, n_features), got {means.shape}")
        k, d = means.shape
        given = {"weights": (weights, (k,)), "means": (means, (k, d)), "covariances": (covariances, (k, d, d))}
        for name, (values, shape) in given.items():
            array = frozen(read_numbers(values, name))
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
            object.__setattr__(self, name, array)
        if (self.weights < 0).any() or abs(self.weights.sum() - 1) > 1e-8:
            raise ValueError(f"weights must not be negative and must sum to 1, got {self.weights}")
        largest = np.abs(self.covariances).max(axis=(1, 2), keepdims=True)
        if (np.abs(self.covariances - np.swapaxes(self.covariances, 1, 2)) > 1e-8 * largest).any():
            raise ValueError("covariances must be symmetric")
        try:
            np.linalg.cholesky(self.covariances)
        except np.linalg.LinAlgError:
            raise ValueError("covariances must be positive definite") from None

    @property
    def n_components(self) -> int:
        """Number of components, K."""
        return int(self.means.shape[0])

    @property
    def n_features(self) -> int:
        """Dimension of the data, D."""
        return int(self.means.shape[1])

    def component_log_densities(self, points: ArrayLike) -> FloatArray:
        """log N(x; mean_k, covariance_k) for every row x and component k, shape (N, K)."""
        points = _as_points(points, self.n_features)
        result = np.empty((len(points), self.n_components))
        for k, factor in enumerate(np.linalg.cholesky(self.covariances)):
            whitened = np.linalg.solve(factor, (points - self.means[k]).T)
            log_determinant = np.log(np.diag(factor)).sum()
            result[:, k] = -0.5 * (whitened**2).sum(axis=0) - log_determinant - 0.5 * self.n_features * LOG_2PI
        result[np.isnan(result) & np.isfinite(points).all(axis=1)[:, None]] = -np.inf  # too far for a float
        return result

    def log_density(self, points: ArrayLike) -> FloatArray:
        """Natural logarithm of the mixture density at every row of ``points`` (N, D); shape (N,).

        Columns count by place: a mixture knows no names, ``Release.log_density`` does.
        """
        points = _as_points(points, self.n_features)
        result, step = np.empty(len(points)), max(1, AT_ONCE // self.n_components)
        for start in range(0, len(points), step):
            some = slice(start, start + step)
            result[some] = logsumexp(self.component_log_densities(points[some]), b=self.weights, axis=1)
        return result

    def responsibilities(self, points: ArrayLike) -> FloatArray:
        """Posterior probability of each component for every row of ``points``, shape (N, K).

        A row so far away that no component has a density there is judged by a nearer one in its direction; where none
        is near enough, it has the weights.
        """
        points = _as_points(points, self.n_features)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            log_weights = np.log(self.weights)
            log_joint = self.component_log_densities(points) + log_weights
            for _ in range(MOST_STEPS_NEARER):
                far = ~np.isfinite(log_joint.max(axis=1)) & np.isfinite(points).all(axis=1)
                if not far.any():
                    break
                points = np.where(far[:, None], points * NEARER, points)
                log_joint[far] = self.component_log_densities(points[far]) + log_weights
        return shares_of(log_joint, log_weights)

    def sample(self, n_points: int, *, rng: int | np.random.Generator | None = None) -> FloatArray:
        """Draw ``n_points`` independent rows, shape (n_points, D), from a generator, a seed or fresh entropy."""
        check_count(n_points=n_points, most=MOST_POINTS)
        rng = generator_of(rng, "rng")
        labels = rng.choice(self.n_components, size=n_points, p=self.weights / self.weights.sum())
        factors = np.linalg.cholesky(self.covariances)
        standard = rng.standard_normal((n_points, self.n_features))
        for begun in range(0, n_points, SAMPLED_TOGETHER):  # a factor for every row takes memory
            part = slice(begun, begun + SAMPLED_TOGETHER)
            moved = np.einsum("nij,nj->ni", factors[labels[part]], standard[part])
            standard[part] = self.means[labels[part]] + moved
        return standard

    def mean(self) -> FloatArray:
        """Mean of the mixture, shape (D,)."""
        return np.asarray(self.weights @ self.means)

    def covariance(self) -> FloatArray:
        """Covariance of the mixture, shape (D, D)."""
        centred = self.means - self.mean()
        return np.asarray(np.einsum("k,kij->ij", self.weights, self.covariances) + (centred.T * self.weights) @ centred)

    def permuted(self, order: Sequence[int] | FloatArray) -> Mixture:
        """The same mixture with component ``order[i]`` in place i."""
        given = finite_numbers(order, "order", (self.n_components,))
        if sorted(given.tolist()) != list(range(self.n_components)):
            raise ValueError(f"order must be a permutation of range({self.n_components}), got {shown(order)}")
        index = given.astype(int)
        return Mixture(self.weights[index], self.means[index], self.covariances[index])

    def transformed(self, matrix: ArrayLike, offset: ArrayLike = 0.0) -> Mixture:
        """Law of ``matrix @ x + offset`` when x follows this mixture; ``matrix`` (D, D) is invertible."""
        a = finite_numbers(matrix, "matrix", (self.n_features, self.n_features))
        moved = finite_numbers(offset, "offset")
        if moved.shape not in ((), (self.n_features,)):
            raise ValueError(f"offset must be a number or have shape ({self.n_features},), got {moved.shape}")
        covariances = a @ self.covariances @ a.T
        return Mixture(self.weights, self.means @ a.T + moved, (covariances + np.swapaxes(covariances, 1, 2)) / 2)

    def marginal(self, features: Sequence[int]) -> Mixture:
        """Law of some of the features, in the order given.

        Parameters
        ----------
        features : sequence of int, length M
            Distinct columns, each from 0 to D - 1.

        Returns
        -------
        Mixture
            K components in M dimensions, with the same weights.

        Raises
        ------
        TypeError, ValueError
            If ``features`` is empty, repeats a column or names one that does not exist.

        Examples
        --------
        >>> g = Mixture([0.3, 0.7], [[0.0, 1.0], [4.0, 5.0]], [np.eye(2), 2 * np.eye(2)])
        >>> g.marginal([1]).means.tolist()
        [[1.0], [5.0]]
        """
        index = _columns(features, self.n_features, "features")
        return Mixture(self.weights, self.means[:, index], self.covariances[:, index][:, :, index])

    def conditional(self, given: Mapping[int, float]) -> Mixture:
        """Law of the other features when some are known.

        Parameters
        ----------
        given : mapping of int to float, length M
            Column, from 0 to D - 1, to its value, in the unit of the column; at least one column stays free. Values
            may lie far from all components.

        Returns
        -------
        Mixture
            K components in D - M dimensions, the free columns in ascending order; the weight of a component is its
            posterior probability, which may be 0.

        Raises
        ------
        TypeError, ValueError
            If ``given`` is empty or leaves no column, names a column that does not exist, or holds a value that is not
            a finite number; if a conditional mean overflows, or a conditional covariance has no inverse in double
            precision.

        Examples
        --------
        >>> g = Mixture([0.5, 0.5], [[0.0, 0.0], [4.0, 9.0]], [[[1.0, 0.5], [0.5, 1.0]]] * 2)
        >>> known = g.conditional({0: 2.0})
        >>> known.weights.tolist(), known.means.tolist(), known.covariances.round(9).tolist()
        ([0.5, 0.5], [[1.0], [8.0]], [[[0.75]], [[0.75]]])
        """
        if not isinstance(given, Mapping):
            raise TypeError(f"given must map columns to values, got {shown(given)} of type {type(given).__name__}")
        known = _columns(given, self.n_features, "given")
        free = [j for j in range(self.n_features) if j not in known]
        if not free:
            raise ValueError(f"given must leave at least one of {self.n_features} columns free, got {sorted(known)}")
        check_real(**{f"given[{column}]": value for column, value in given.items()})
        values = np.array([float(value) for value in given.values()])
        if not np.isfinite(values).all():
            raise ValueError(f"given must have finite values, got {values[~np.isfinite(values)][0]}")

        # Cholesky factors with the known columns first, by QR: unlike a new Cholesky decomposition it cannot fail
        factors = np.linalg.cholesky(self.covariances)[:, [*known, *free]]
        lower = np.swapaxes(np.linalg.qr(np.swapaxes(factors, 1, 2), mode="r"), 1, 2)
        m = len(known)
        # distances in units near the largest difference, so that no square overflows; powers of 2 do not round
        differences = values / 2 - self.means[:, known] / 2
        unit = math.ldexp(1.0, math.frexp(np.abs(differences).max())[1] - 1)
        whitened = np.linalg.solve(lower[:, :m, :m], (differences / unit)[:, :, None])
        with np.errstate(over="ignore"):
            means = self.means[:, free] + 2 * (unit * (lower[:, m:, :m] @ whitened)[:, :, 0])
        covariances = lower[:, m:, m:] @ np.swapaxes(lower[:, m:, m:], 1, 2)
        if not np.isfinite(means).all():
            raise ValueError(f"given must leave the conditional means finite, got {shown(dict(given))}")
        log_scales = np.log(np.abs(np.diagonal(lower[:, :m, :m], axis1=1, axis2=2))).sum(axis=1)
        weights = _posterior(self.weights, 2 * np.linalg.norm(whitened[:, :, 0], axis=1), unit, log_scales)
        return Mixture(weights, means, covariances)


def joined(inner: Mixture, background: tuple[float, Mixture] | None) -> Mixture:
    """Components and a background (its weight and law) as one mixture, this last; None leaves it as it is."""
    if background is None:
        return inner
    weight, broad = background
    return Mixture(
        np.append(inner.weights * (1 - weight), weight * broad.weights),
        np.vstack([inner.means, broad.means]),
        np.concatenate([inner.covariances, broad.covariances]),
    )


def shares_of(log_joint: FloatArray, log_weights: FloatArray) -> FloatArray:
    """Probabilities (..., K) in proportion to exp(log_joint); where that is 0 for all K, to exp(log_weights)."""
    log_joint = np.where(np.isneginf(log_joint).all(axis=-1, keepdims=True), log_weights, log_joint)
    return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=-1, keepdims=True)))


def _as_points(points: ArrayLike, n_features: int) -> FloatArray:
    array = read_numbers(points, "points")
    if array.ndim != 2 or array.shape[1] != n_features:
        raise ValueError(f"points must have shape (n_points, {n_features}), got {array.shape}")
    return array


def _posterior(weights: FloatArray, distances: FloatArray, unit: float, log_scales: FloatArray) -> FloatArray:
    """Weights times exp(-(unit distances)^2 / 2 - log_scales), normalised, where squares may overflow."""
    possible = weights > 0
    nearest = distances[possible].min()
    farther = np.where(possible, distances - nearest, 0.0)
    # half of the square less half of the smallest is difference times mean; a difference of 0 stays 0
    with np.errstate(over="ignore", divide="ignore"):
        half_sum = np.where(farther > 0, unit * (distances / 2 + nearest / 2), 0.0)
        logs = np.log(weights) - unit * farther * half_sum - log_scales
    return np.asarray(softmax(logs))


def _columns(features: Iterable[int], n_features: int, name: str) -> list[int]:
    """Distinct columns as plain integers."""
    if not isinstance(features, Iterable):
        raise TypeError(f"{name} must be a sequence of columns, got {shown(features)}")
    columns = list(features)
    if not columns:
        raise ValueError(f"{name} must name at least one column, got none")
    for column in columns:
        check_count(least=0, **{f"a column in {name}": column})
        if column >= n_features:
            raise ValueError(f"{name} must name columns from 0 to {n_features - 1}, got {column}")
    if len(set(columns)) < len(columns):
        raise ValueError(f"{name} must name distinct columns, got {shown(columns)}")
    return [int(column) for column in columns]
