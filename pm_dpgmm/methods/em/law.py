"""Law of the noisy sums of EM steps when the records come from a given mixture: mean, covariance, log density.

Given its public parameters, a step's features h(x) are a known function of one record. A sum over n records is normal
by the central limit theorem, and noise adds its variance:

    sums ~ N(n m, n V + S),   m = E h(x),  V = Cov h(x),  S the noise's variances, x from the mixture, clipped.

No latent variable is left. Several steps are stacked: h holds the features of all of them, and V their
cross-covariances, because all steps see the same records. That a step's parameters depend on the noisy sums of
earlier steps changes nothing: the density of all sums is the product of those of each step's sums given the earlier
ones, in each factor the step's parameters are fixed numbers, and the factors of a normal law with these features
multiply to the stacked normal density at the parameters that occurred.

Responsibilities sum to 1, so V has rank below its size; S makes n V + S regular, and nothing else is added.
Under add-remove neighbours n is only known as a noisy count, n + N(0, s^2): with a flat prior, n is normal around it,
which adds s^2 m m'.

Integrals. D = 1: Gauss-Legendre panels over the public box, split where a ball ends (features have a kink there), and
the two probabilities of being clipped to an end of the box; the nodes are fixed, so features at them are too. The step
is a quarter of the smallest standard deviation of the steps' parameters or finer: errors of m and V are below 2e-8 for
mixtures with standard deviations down to half of that. A component's probabilities at the nodes are made to sum to
that of the box: a component much narrower than the step then sits at its nearest node. D > 1: mu_k + L_k u over fixed
normal nodes u with weights, differentiable in mu and L, clipping included. Mean and covariance of the nodes are 0 and
I exactly. In two and three dimensions they are a lattice, rotated so that no line of it is parallel to an axis or a
diagonal, with weights proportional to the normal density (the trapezoid rule, which converges very fast for smooth
functions); from four on they are scrambled Sobol points. Largest error of m over entries and directions of the means'
difference, in standard deviations of the sums themselves at n = 2000, noise not counted, K = 2, means 4.2 standard
deviations apart:

=====================================  ============  =============  ============  ============
 D, nodes for each component            2, 261        3, 1459        4, 8192      5, 8192
 step near the truth, one ball          0.004         0.02           0.02         0.05
 step near the truth, balls clip 3 %    0.03          0.05           0.09         0.13
 parameters' variances 1/5 of truth     0.06          0.2            0.15         0.17
=====================================  ============  =============  ============  ============

The lattice gets finer with n, so that this stays about the same up to the largest number of nodes, 8192.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import linalg, special, stats
from scipy.stats import qmc

from pm_dpgmm._arguments import FloatArray, frozen
from pm_dpgmm.methods.em.statistics import FeatureSums

NODES_PER_SD = 4.0  # of the grid in one dimension
LEAST_NODES, MOST_NODES = 160, 4096  # of that grid, before it is split
PANEL = 16  # nodes of a Gauss-Legendre panel
SPACING = {2: 0.7, 3: 0.8}  # of the centred lattice for AT records
AT = 2000
RADIUS = 4.5  # of the lattice
MOST_NORMAL_NODES = 8192  # of each component


def grid(statistics: FeatureSums) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of integrals over the box in one dimension, both of shape (Q,)."""
    low, high = statistics.bounds[0]
    reach = (statistics.radii * statistics.unit)[..., None]
    kinks = np.concatenate([statistics.centres - reach, statistics.centres + reach]).ravel()
    ends = np.unique(np.concatenate([[low, high], kinks[(kinks > low) & (kinks < high)]]))
    smallest = math.sqrt(statistics.covariances.min())
    wanted = np.clip((high - low) * NODES_PER_SD / smallest, LEAST_NODES, MOST_NODES) * np.diff(ends) / (high - low)
    x, w = np.polynomial.legendre.leggauss(PANEL)
    nodes, weights = [], []
    for a, b, n in zip(ends[:-1], ends[1:], np.ceil(wanted / PANEL).astype(int), strict=True):
        cuts = np.linspace(a, b, n + 1)
        half = np.diff(cuts)[:, None] / 2
        nodes.append((cuts[:-1, None] + half * (1 + x)).ravel())
        weights.append((half * w).ravel())
    return np.concatenate(nodes), np.concatenate(weights)


def normal_nodes(n_features: int, n_records: float) -> tuple[FloatArray, FloatArray]:
    """Nodes (Q, D) and weights (Q,) of normal expectations for sums over ``n_records``; read-only."""
    if n_features not in SPACING:
        return _sobol(n_features)
    volume = math.pi ** (n_features / 2) / math.gamma(n_features / 2 + 1)
    finest = 1.01 * RADIUS * (2 * volume / MOST_NORMAL_NODES) ** (1 / n_features)
    finer = min(1.0, (AT / max(n_records, 1.0)) ** 0.2)  # the error at a kink goes with the spacing to the power 2.5
    return _lattice(n_features, max(SPACING[n_features] * finer, finest))


@lru_cache(maxsize=8)
def _lattice(n_features: int, spacing: float) -> tuple[FloatArray, FloatArray]:
    """A centred cubic lattice within ``RADIUS``, rotated, with normal weights."""
    reach = np.arange(-math.ceil(RADIUS / spacing), math.ceil(RADIUS / spacing) + 1) * spacing
    corners = np.stack(np.meshgrid(*[reach] * n_features, indexing="ij"), axis=-1).reshape(-1, n_features)
    both = np.concatenate([corners, corners + spacing / 2])
    both = both[np.square(both).sum(axis=1) <= RADIUS**2]
    if n_features == 2:
        angle = math.atan((math.sqrt(5) - 1) / 2)  # the golden ratio: hard to approximate by rationals
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    else:
        turn = stats.special_ortho_group.rvs(n_features, random_state=4)
    return _standard(both @ turn.T, np.exp(-0.5 * np.square(both).sum(axis=1)))


@lru_cache(maxsize=8)
def _sobol(n_features: int) -> tuple[FloatArray, FloatArray]:
    points = special.ndtri(qmc.Sobol(n_features, scramble=True, seed=20).random(MOST_NORMAL_NODES // 2))
    return _standard(np.concatenate([points, -points]), np.ones(MOST_NORMAL_NODES))


def _standard(nodes: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same with weights that sum to 1, mean 0 and covariance I."""
    weights = weights / weights.sum()
    nodes = nodes - weights @ nodes
    factor = np.linalg.cholesky((nodes * weights[:, None]).T @ nodes)
    return frozen(linalg.solve_triangular(factor, nodes.T, lower=True).T), frozen(weights)


def moments(
    statistics: FeatureSums, weights: FloatArray, means: FloatArray, chol: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean (P,) and covariance (P, P) of one record's features.

    Parameters
    ----------
    statistics : EMStatistics or CentralStatistics
        Public law; its sums are not used.
    weights, means, chol : ndarray, shapes (K,), (K, D), (K, D, D)
        Mixture of the records, of any number of components; lower triangular roots of the covariances.

    Examples
    --------
    >>> from pm_dpgmm.methods.em.statistics import EMStatistics
    >>> one = EMStatistics.of_step([0.5, 0.5], [[-1.0], [1.0]], [[[1.0]], [[1.0]]], bounds=[[-4.0, 4.0]], scale=9.0)
    >>> m, v = moments(one, np.array([0.5, 0.5]), np.array([[-1.0], [1.0]]), np.ones((2, 1, 1)))
    >>> m[:2].round(4).tolist(), bool(v[0, 1] < 0)
    ([0.5, 0.5], True)
    """
    if statistics.shape[2] == 1:
        x, step = grid(statistics)
        mu, sd = means[:, 0], chol[:, 0, 0]
        shares = special.softmax(np.log(step)[:, None] - 0.5 * ((x[:, None] - mu) / sd) ** 2, axis=0)
        low, high = statistics.bounds[0]
        below, above = special.ndtr((low - mu) / sd), special.ndtr((mu - high) / sd)
        inside = shares @ (weights * (1 - below - above))
        probabilities = np.concatenate([inside, [below @ weights, above @ weights]])
        h = statistics.features(np.append(x, [low, high])[:, None])
    else:
        u, share = normal_nodes(statistics.shape[2], float(statistics.n_records))
        probabilities = np.outer(weights, share).ravel()
        x = means[:, None] + np.einsum("kij,qj->kqi", chol, u)
        h = statistics.features(x.reshape(-1, statistics.shape[2]))
    mean = probabilities @ h
    return mean, (h * probabilities[:, None]).T @ h - np.outer(mean, mean)


def log_density(statistics: FeatureSums, weights: FloatArray, means: FloatArray, chol: FloatArray) -> float:
    """Log density of the noisy sums in ``statistics`` when its records come from this mixture."""
    mean, covariance = moments(statistics, weights, means, chol)
    total = noisy_covariance(statistics, mean, covariance)
    return float(stats.multivariate_normal(statistics.n_records * mean, total).logpdf(statistics.values))


def noisy_covariance(statistics: FeatureSums, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """n V + S, and s^2 m m' for a noisy count of records, shape (P, P)."""
    unknown = statistics.n_records_scale**2 * np.outer(mean, mean)
    return np.asarray(statistics.n_records * covariance + unknown + np.diag(statistics.noise_scales**2))
