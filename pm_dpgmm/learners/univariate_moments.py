"""Univariate Gaussian mixtures by moments: quadrature starts, then the generalised method of Fourier moments.

The moments of a function f under N(mu, v) change by E f' with mu and by E f''/2 with v, so one table of E f, E f' and
E f'' (``component_moments``) gives both the moments of a mixture and their derivatives.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import least_squares
from scipy.special import softmax

from pm_dpgmm._arguments import FloatArray

N_FREQUENCIES = 12
LOWEST, HIGHEST = 0.4, 6.0  # frequencies of the first pass, for a sample of variance 1
RESOLUTION = 3.0  # the second pass ends at this over the least standard deviation, where exp(-t^2 v/2) is 0.01
RIDGE = 1e-5  # added to the correlations of the moments
SHARES = (1.0, 0.7, 0.4)  # variances of the starts, as shares of the largest that quadrature allows
LEAST_VARIANCE = 1e-6
WEIGHT_ROWS = 20_000

Parameters = tuple[FloatArray, FloatArray, FloatArray]  # weights, means, variances


def features(values: FloatArray, frequencies: FloatArray) -> FloatArray:
    """Columns 1, y, y^2, cos(t y) and sin(t y) of a sample (M,), shape (M, 3 + 2 F)."""
    phases = values[:, None] * frequencies
    low = np.stack([np.ones_like(values), values, values**2], axis=1)
    return np.concatenate([low, np.cos(phases), np.sin(phases)], axis=1)


def component_moments(
    frequencies: FloatArray, means: FloatArray, variances: FloatArray, *, derivatives: int = 2
) -> FloatArray:
    """E f, E f', ... of the ``features`` under N(mean, variance), shape (derivatives + 1, 3 + 2 F, K)."""
    t = frequencies[:, None]
    size = np.exp(-0.5 * t**2 * variances)
    c, s = size * np.cos(t * means), size * np.sin(t * means)
    one, none = np.ones_like(means), np.zeros_like(means)
    powers = [[one, means, means**2 + variances], [none, one, 2 * means], [none, none, 2 * one]]
    tables = []
    for order in range(derivatives + 1):
        low = powers[order] if order < len(powers) else [none] * 3
        tables.append(np.concatenate([low, c, s]))
        c, s = -t * s, t * c
    return np.stack(tables)


def whitening(products: FloatArray) -> FloatArray:
    """Lower factor of the covariance of the columns of ``products`` (M, F), with a ridge on the correlations."""
    covariance = np.cov(products, rowvar=False)
    diagonal = np.diag(covariance)
    spread = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    correlation = covariance / spread[:, None] / spread
    return np.asarray(spread[:, None] * np.linalg.cholesky(correlation + RIDGE * np.eye(len(spread))))


def quadrature_starts(values: FloatArray, n_components: int) -> list[Parameters]:
    """Weights, means and variances from the first 2k moments of a centred sample of variance 1.

    For a common variance v the moments of the means follow from those of the sample by Hermite polynomials; Gauss
    quadrature gives the k means with these moments. The largest v for which they are moments of a distribution is
    the estimate of Lindsay (1989) that Wu and Yang (2020) build on; smaller ones and unequal ones are tried too.
    """
    k = n_components
    raw = [float((values**r).mean()) for r in range(2 * k + 1)]

    def hankel(v: float) -> FloatArray:
        moments = [
            sum(
                math.factorial(r) / (math.factorial(j) * math.factorial(r - 2 * j)) * (-v / 2) ** j * raw[r - 2 * j]
                for j in range(r // 2 + 1)
            )
            for r in range(2 * k + 1)
        ]
        return np.array([[moments[i + j] for j in range(k + 1)] for i in range(k + 1)])

    grid = np.linspace(0.0, 1.0, 129)[:-1]
    least = np.array([np.linalg.eigvalsh(hankel(v))[0] for v in grid])
    largest = grid[max(int(np.argmax(least < 0)) - 1, 0)] if (least < 0).any() else grid[-1]
    starts = []
    for share in SHARES:
        v = max(share * largest, 0.02)
        table = hankel(min(v, largest))
        try:
            nodes = eigh(table[1:, :-1], table[:-1, :-1], eigvals_only=True)
        except np.linalg.LinAlgError:
            continue
        powers = np.vander(nodes, k, increasing=True).T
        weights = np.clip(np.linalg.lstsq(powers, table[0, :-1], rcond=None)[0], 0.02, None)
        for ratios in 1 - 0.7 * np.eye(k + 1, k, k=-1):  # all alike, then one smaller each
            starts.append((weights / weights.sum(), nodes, v * ratios))
    return starts


def fit_univariate(values: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Mixture of ``n_components`` whose Fourier moments are nearest to those of a centred sample of variance 1.

    Parameters
    ----------
    values : ndarray, shape (M,)
    n_components : int

    Returns
    -------
    weights, means, variances : ndarray, shape (K,)
        By increasing means.
    frequencies : ndarray, shape (F,)
        What the moments of the last pass were taken at.

    Raises
    ------
    ValueError
        If no start leads to a finite fit.

    Examples
    --------
    >>> sample = np.random.default_rng(0).normal(size=4000)
    >>> sample[:1000] += 5.0
    >>> weights, means, variances, _ = fit_univariate((sample - sample.mean()) / sample.std(), 2)
    >>> (sample.std() * np.diff(means)).round(1), weights.round(2)
    (array([5.]), array([0.75, 0.25]))
    """
    starts = quadrature_starts(values, n_components)
    frequencies = np.geomspace(LOWEST, HIGHEST, N_FREQUENCIES)
    for _ in range(2):
        best = _minimised(values, frequencies, starts)
        starts, frequencies = [best], resolving(best[2])
    order = np.argsort(best[1])
    weights, means, variances = (part[order] for part in best)
    return weights, means, variances, frequencies


def resolving(variances: FloatArray) -> FloatArray:
    """Frequencies that resolve components with these variances in a sample of variance 1, shape (F,)."""
    highest = RESOLUTION / math.sqrt(max(float(variances.min()), LEAST_VARIANCE))
    return np.geomspace(LOWEST, np.clip(highest, 3.0, 40.0), N_FREQUENCIES)


def thinned(rows: FloatArray, most: int = WEIGHT_ROWS) -> FloatArray:
    """Every m-th row, at most ``most`` of them: enough for the weights of moments, not for the moments."""
    return rows[:: -(-len(rows) // most)]


def _minimised(values: FloatArray, frequencies: FloatArray, starts: list[Parameters]) -> Parameters:
    """The best of the fits from ``starts``."""
    seen = features(values, frequencies)[:, 1:]  # the first column is constant
    factor, average = whitening(thinned(seen)), seen.mean(axis=0)

    def unpack(x: FloatArray) -> Parameters:
        logits, means, logs = np.split(x, 3)
        return softmax(logits), means, np.exp(np.clip(logs, math.log(LEAST_VARIANCE), 3.0))

    def residual(x: FloatArray) -> FloatArray:
        weights, means, variances = unpack(x)
        expected = component_moments(frequencies, means, variances, derivatives=0)[0, 1:] @ weights
        return np.asarray(solve_triangular(factor, expected - average, lower=True))

    def jacobian(x: FloatArray) -> FloatArray:
        weights, means, variances = unpack(x)
        zeroth, first, second = component_moments(frequencies, means, variances)[:, 1:]
        by_logit = weights * (zeroth - (zeroth @ weights)[:, None])
        columns = np.concatenate([by_logit, weights * first, weights * second * variances / 2], axis=1)
        return np.asarray(solve_triangular(factor, columns, lower=True))

    best = None
    for weights, means, variances in starts:
        x = np.concatenate([np.log(weights), means, np.log(np.maximum(variances, LEAST_VARIANCE))])
        found = least_squares(residual, x, jac=jacobian, method="trf", x_scale="jac", max_nfev=100)
        if np.isfinite(found.x).all() and (best is None or found.cost < best.cost):
            best = found
    if best is None:
        raise ValueError("no start of the univariate fit led to finite moments")
    return unpack(best.x)
