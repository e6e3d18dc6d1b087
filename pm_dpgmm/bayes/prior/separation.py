"""Can a gradient sampler move between the components of a mixture? Decides the form of a mixture prior.

Thresholds come from runs of ``pm.sample`` (PyMC 5.28, init="adapt_diag", 4 chains of 1000 draws, two round components
with standard deviations 1 and s at distance ``gap``, started in both). Entries are effective draws of the component
probability out of 4000, for equal weights:

=========  ========================================================  ===============================================
 D, s, gap  2, 1, 3   2, 1, 4   2, 1, 5   2, 0.3, 2.3   2, 0.3, 2.9    2, 0.3, 0   2, 0.1, 0   5, 0.3, 0   5, 0.2, 0
 dip, nats     0.44      1.31      2.43          0.72          1.63            0           0           0           0
 overlap       0.32      0.14      0.04          0.17          0.08         0.55        0.20        0.22        0.09
 draws         1570       638       173           287            52          819          72         259          31
=========  ========================================================  ===============================================

With s = 0.03 or D = 5, s = 0.1, all four chains stayed in one component with r_hat 1.00: nested components of
different scale defeat NUTS without any valley between them, hence two criteria.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.csgraph import connected_components

from pm_dpgmm._arguments import FloatArray, shown
from pm_dpgmm.mixture.mixture import Mixture

MAX_DIP = math.log(2)  # nats; in the table, 287 effective draws just beyond it
MIN_OVERLAP = 0.2  # Bhattacharyya coefficient; in the table, 72 effective draws just below it and 259 just over it


def recommended_form(mixture: Mixture) -> str:
    """``"labelled"`` when NUTS may fail to move between the components, otherwise ``"mixture"``.

    Labelled when the mixture ``is_multimodal`` or when some component is reached only over overlaps (Bhattacharyya
    coefficients, integral of sqrt(p q), of two components) below ``MIN_OVERLAP``: a narrow component inside a wide
    one. Both limits are on the cautious side, because a wrong "mixture" fails in silence while a wrong "labelled"
    only costs time. For components with equal covariances a Gaussian likelihood brings them closer
    together in units of their own spread, so the prior is the hardest case; in general it need not be.

    Parameters
    ----------
    mixture : Mixture
        Components of weight 0 are ignored; components of tiny weight are not, as data can raise their weight.

    Returns
    -------
    str
        ``"mixture"`` for one component.

    Examples
    --------
    >>> recommended_form(Mixture([0.5, 0.5], [[0.0], [2.5]], [[[1.0]], [[1.0]]]))
    'mixture'
    >>> recommended_form(Mixture([0.5, 0.5], [[0.0], [6.0]], [[[1.0]], [[1.0]]]))
    'labelled'
    >>> recommended_form(Mixture([0.5, 0.5], [[0.0], [0.0]], [[[1.0]], [[1e-4]]]))
    'labelled'
    """
    kept = without_empty(mixture)
    groups, _ = connected_components(_overlaps(kept) >= MIN_OVERLAP, directed=False)
    return "labelled" if groups > 1 or is_multimodal(kept) else "mixture"


def is_multimodal(mixture: Mixture) -> bool:
    """Whether some pair of components is separated by a valley deeper than a factor of 2 in density.

    All modes of a pair of normal components lie on its ridgeline (Ray and Lindsay 2005, The topography of
    multivariate normal mixtures, Theorem 1),
    x(a) = [(1-a) S1^-1 + a S2^-1]^-1 [(1-a) S1^-1 m1 + a S2^-1 m2], 0 <= a <= 1.
    The density of the **whole** mixture is followed along it; where the pair's own ridgeline is deep, a way over
    other components counts as well (the highest pass of any chain of ridgelines). The pair is separated when the
    best way still dips below its lower end by more than ``MAX_DIP``; shallower valleys are left to NUTS.

    Parameters
    ----------
    mixture : Mixture
        Components of weight 0 are ignored.

    Returns
    -------
    bool
        False for one component.
    """
    mixture = without_empty(mixture)
    heights = mixture.log_density(mixture.means)
    ends = np.minimum.outer(heights, heights)
    passes = ends.copy()
    for i in range(mixture.n_components):
        for j in range(i):
            passes[i, j] = passes[j, i] = mixture.log_density(_ridgeline(mixture, i, j)).min()
    for via in range(mixture.n_components):  # widest paths (Floyd and Warshall)
        passes = np.maximum(passes, np.minimum.outer(passes[:, via], passes[via]))
    return bool((passes < ends - MAX_DIP).any())


def without_empty(mixture: Mixture) -> Mixture:
    """``mixture`` without its components of weight 0; TypeError unless it is one."""
    if not isinstance(mixture, Mixture):
        raise TypeError(f"mixture must be a Mixture, got {shown(mixture)} of type {type(mixture).__name__}")
    kept = mixture.weights > 0
    return Mixture(mixture.weights[kept], mixture.means[kept], mixture.covariances[kept])


def _ridgeline(mixture: Mixture, i: int, j: int) -> FloatArray:
    """Points on the ridgeline from the mean of component i to that of j, shape (N, D)."""
    # Even steps in log odds: with unequal covariances most of the way is covered close to one end of [0, 1].
    a = np.concatenate([[0.0], 1 / (1 + np.exp(-np.linspace(-25, 25, 401))), [1.0]])[:, None, None]
    first, second = np.linalg.inv(mixture.covariances[[i, j]])
    precision = (1 - a) * first + a * second
    pull = (1 - a) * (first @ mixture.means[i])[:, None] + a * (second @ mixture.means[j])[:, None]
    return np.asarray(np.linalg.solve(precision, pull)[..., 0])


def _overlaps(mixture: Mixture) -> FloatArray:
    """Bhattacharyya coefficient of every pair of components, shape (K, K), 1 on the diagonal."""
    between = (mixture.covariances[:, None] + mixture.covariances) / 2
    gaps = (mixture.means[:, None] - mixture.means)[..., None]
    distances = (gaps * np.linalg.solve(between, gaps)).sum(axis=(2, 3)) / 8
    own = np.linalg.slogdet(mixture.covariances)[1]
    return np.asarray(np.exp((own[:, None] + own) / 4 - np.linalg.slogdet(between)[1] / 2 - distances))
