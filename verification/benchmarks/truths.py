"""Gaussian mixtures behind the simulated sets of the accuracy benchmark, and draws from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize
from scipy.special import ndtr

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray


def draw(truth: Mixture, n: int, *, rng: np.random.Generator, degrees: int | None = None) -> FloatArray:
    """``n`` rows of the mixture; with ``degrees`` the clusters are multivariate t with these scale matrices."""
    labels = rng.choice(truth.n_components, size=n, p=truth.weights / truth.weights.sum())
    rows = rng.standard_normal((n, truth.n_features))
    if degrees is not None:
        rows /= np.sqrt(rng.chisquare(degrees, size=n) / degrees)[:, None]
    for k, factor in enumerate(np.linalg.cholesky(truth.covariances)):  # by component: one factor a row is large
        mine = labels == k
        rows[mine] = rows[mine] @ factor.T + truth.means[k]
    return rows


def quantiles(truth: Mixture, levels: Sequence[float]) -> FloatArray:
    """Quantiles of every column of the mixture, shape (D, number of levels)."""
    deviations = np.sqrt(np.diagonal(truth.covariances, axis1=1, axis2=2))
    result = np.empty((truth.n_features, len(levels)))
    for column in range(truth.n_features):
        means, sd = truth.means[:, column], deviations[:, column]
        ends = (means - 10 * sd).min(), (means + 10 * sd).max()
        for i, level in enumerate(levels):

            def excess(x: float, means: FloatArray = means, sd: FloatArray = sd, level: float = level) -> float:
                return float(truth.weights @ ndtr((x - means) / sd) - level)

            result[column, i] = optimize.brentq(excess, *ends, xtol=1e-9)
    return result


def turned(eigenvalues: ArrayLike, rng: np.random.Generator) -> FloatArray:
    """A covariance with these eigenvalues and random axes."""
    values = np.asarray(eigenvalues, dtype=float)
    axes, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    covariance = (axes * values) @ axes.T
    return np.asarray((covariance + covariance.T) / 2)


def overlapping_column() -> Mixture:
    """The mixture of Harrington and Mayolo, one column."""
    return Mixture([0.15, 0.35, 0.5], [[17.0], [30.0], [50.0]], [[[9.0]], [[16.0]], [[25.0]]])


def disc() -> Mixture:
    """Three round clusters in the unit disc, the setting of Park and others' DP-EM."""
    means = [[0.5, 0.0], [-0.25, 0.43], [-0.25, -0.43]]
    return Mixture([0.3, 0.3, 0.4], means, [np.eye(2) * sd**2 for sd in (0.1, 0.12, 0.08)])


def separated() -> Mixture:
    """Three separated clusters with full covariances in five columns."""
    rng = np.random.default_rng(7)
    means: list[list[float]] = [[8.0, 0, 0, 2, -2], [-4, 7, 0, -2, 0], [-4, -7, 1, 0, 2]]
    eigenvalues = [0.5, 0.8, 1.0, 1.5, 2.5]
    return Mixture([0.3, 0.3, 0.4], means, [turned(eigenvalues, rng) for _ in range(3)])


def on_a_sphere(n_features: int) -> Mixture:
    """Three clusters with means on a sphere of radius 6 and variances 0.5 to 2 along random axes."""
    rng = np.random.default_rng(n_features)
    means = rng.standard_normal((3, n_features))
    means *= 6 / np.linalg.norm(means, axis=1, keepdims=True)
    return Mixture([0.3, 0.3, 0.4], means, [turned(np.geomspace(0.5, 2, n_features), rng) for _ in range(3)])


def unequal() -> Mixture:
    """Four clusters in four columns, with 3, 12, 25 and 60 % of the records."""
    rng = np.random.default_rng(1)
    means: list[list[float]] = [[6.0, 0, 0, 3], [-5, 4, 0, 0], [0, -6, 3, 0], [0, 2, -5, -3]]
    return Mixture([0.03, 0.12, 0.25, 0.6], means, [turned([0.4, 0.8, 1.2, 2.0], rng) for _ in range(4)])


def far(n_features: int) -> Mixture:
    """Two round clusters and, a hundred deviations away in every column, one of 2 % of the records."""
    means = np.outer([0.0, 4.0, -100.0], np.ones(n_features))
    return Mixture([0.58, 0.40, 0.02], means, [np.eye(n_features)] * 3)


def eight() -> Mixture:
    """Eight clusters in two columns, two of them touching."""
    rng = np.random.default_rng(2)
    angles = 2 * np.pi * np.arange(7) / 7
    means = np.vstack([7 * np.column_stack([np.cos(angles), np.sin(angles)]), [[3.0, 1.0]]])
    weights = [0.10, 0.15, 0.08, 0.12, 0.20, 0.10, 0.15, 0.10]
    return Mixture(weights, means, [turned(rng.uniform(0.3, 1.6, 2), rng) for _ in range(8)])


def overlapping() -> Mixture:
    """Three clusters in two columns, about one and a half standard deviations apart."""
    covariances = [[[1.0, 0.5], [0.5, 1.0]], [[1.5, -0.6], [-0.6, 0.8]], [[0.5, 0.0], [0.0, 2.0]]]
    return Mixture([0.3, 0.3, 0.4], [[0.0, 0.0], [1.8, 0.6], [0.6, -2.0]], covariances)


def stretched() -> Mixture:
    """Three clusters in four columns whose covariances have condition number 1,000."""
    rng = np.random.default_rng(3)
    means: list[list[float]] = [[4.0, 0, 2, 0], [-4, 3, 0, 0], [0, -5, 0, 3]]
    return Mixture([0.3, 0.3, 0.4], means, [turned(np.geomspace(0.004, 4, 4), rng) for _ in range(3)])


def wide() -> Mixture:
    """Four clusters in eight columns."""
    rng = np.random.default_rng(9)
    weights, means = rng.dirichlet(np.full(4, 50.0)), rng.normal(0, 4, (4, 8))
    return Mixture(weights, means, [turned(rng.uniform(0.3, 2, 8), rng) for _ in range(4)])


def pair() -> Mixture:
    """Two clusters in three columns."""
    rng = np.random.default_rng(4)
    return Mixture([0.4, 0.6], [[-2.5, 0, 1], [2.0, 1, -1]], [turned([0.6, 1.0, 1.8], rng) for _ in range(2)])


def trio() -> Mixture:
    """Three clusters in three columns."""
    rng = np.random.default_rng(5)
    means: list[list[float]] = [[-4.0, 0, 1], [3, 3, -1], [1, -4, 0]]
    return Mixture([0.2, 0.3, 0.5], means, [turned([0.5, 1.0, 2.0], rng) for _ in range(3)])
