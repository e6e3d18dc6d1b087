"""Normal law of noisy sums of any features of one record, as a PyTensor expression.

For features that are smooth functions of a record; of EM steps alone :mod:`em_operation` has it compiled. The law, its
derivation and its integrals are in :mod:`pm_dpgmm.methods.em.law`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy import linalg

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.likelihoods.em import MOST_EXACT
from pm_dpgmm.mechanisms.em_sums import Squares
from pm_dpgmm.methods.em.law import grid, moments, noisy_covariance, normal_nodes
from pm_dpgmm.methods.em.statistics import EMStatistics, FeatureSums
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

Features = Callable[[Any], Any]  # of a tensor of points (N, D), (N, P)


def normal_log_density(
    statistics: FeatureSums, features_of: Features, at: Mixture, weights: Any, means: Any, chol: Any, *, likelihood: str
) -> TensorVariable:
    """Log density of noisy sums of features; ``at``: the mixture whose covariance "gaussian" holds."""
    values = statistics.values
    n, scales = float(statistics.n_records), statistics.noise_scales
    exact = likelihood == "exact" or (likelihood == "auto" and len(values) <= MOST_EXACT)
    parameters = (pt.as_tensor(one) for one in (weights, means, chol))
    probabilities, features = _nodes(statistics, features_of, *parameters)
    mean = probabilities @ features
    # in units of the noise: then no eigenvalue of the covariance is below 1, however large the others
    rest = (values - n * mean) / scales
    if exact:
        scaled, centre = features / scales, mean / scales
        second = (scaled * probabilities[:, None]).T @ scaled
        unknown = float(statistics.n_records_scale) ** 2 - n
        total = n * second + unknown * centre[:, None] * centre + np.eye(len(values))
        root = pt.linalg.cholesky(total)
        white = pt.linalg.solve_triangular(root, rest, lower=True)
        log_root = pt.log(pt.diagonal(root)).sum()
    else:
        roots = np.asarray(np.linalg.cholesky(at.covariances), dtype=float)
        held = noisy_covariance(statistics, *moments(statistics, at.weights, at.means, roots))
        fixed = np.linalg.cholesky(held / np.outer(scales, scales))
        white = pt.constant(linalg.solve_triangular(fixed, np.eye(len(values)), lower=True)) @ rest
        log_root = pt.constant(np.log(np.diagonal(fixed)).sum())
    constant = float(np.log(scales).sum() + 0.5 * len(values) * LOG_2PI)
    return -0.5 * pt.square(white).sum() - log_root - constant


def _nodes(statistics: FeatureSums, features_of: Features, weights: Any, means: Any, chol: Any) -> tuple[Any, Any]:
    """Probabilities (Q,) of nodes and one record's features at them (Q, P); the nodes of em_law."""
    d = statistics.shape[2]
    if d == 1:
        x, step = grid(statistics)
        mu, sd = means[:, 0], chol[:, 0, 0]
        logs = _data(np.log(step)[:, None]) - 0.5 * pt.square((_data(x[:, None]) - mu) / sd)
        shares = pt.special.softmax(logs, axis=0)
        low, high = statistics.bounds[0]
        below, above = _normal_cdf((low - mu) / sd), _normal_cdf((mu - high) / sd)
        inside = shares @ (weights * (1 - below - above))
        fixed = statistics.features(np.append(x, [low, high])[:, None])
        return pt.concatenate([inside, pt.stack([below @ weights, above @ weights])]), _data(fixed)
    u, share = (_data(one) for one in normal_nodes(d, float(statistics.n_records)))
    x = (means[:, None] + pt.sum(chol[:, None] * u[None, :, None], axis=-1)).reshape((-1, d))
    return (weights[:, None] * share).ravel(), features_of(x)


def step_features(statistics: EMStatistics, points: Any) -> Any:
    """:meth:`EMStatistics.features` of a tensor (N, D)."""
    t, k, d = statistics.shape
    x = pt.clip(points, statistics.bounds[:, 0], statistics.bounds[:, 1])
    whiteners = np.linalg.inv(np.linalg.cholesky(statistics.covariances))
    logs = np.log(statistics.weights) + np.log(np.diagonal(whiteners, axis1=2, axis2=3)).sum(axis=2)
    row, column = statistics.products
    out = []
    for s in range(t):
        # (N, K, D) by one matrix product: all components' whiteners side by side
        offsets = np.einsum("kij,kj->ki", whiteners[s], statistics.means[s])
        z = (x @ whiteners[s].reshape(k * d, d).T - offsets.ravel()).reshape((-1, k, d))
        shares = pt.special.softmax(logs[s] - 0.5 * pt.square(z).sum(axis=2), axis=1)[:, :, None]
        y = (x[:, None] - statistics.centres[s]) / (statistics.unit * statistics.radii[s][:, None])
        y = y / pt.sqrt(pt.maximum(pt.square(y).sum(axis=2, keepdims=True), 1.0))
        squares, n_squares = y[..., row] * y[..., column], statistics.squares.shape[2]
        if statistics.kind is Squares.ISOTROPIC:
            squares = pt.sum(squares, axis=2, keepdims=True)
        for part, size in ((shares, k), (shares * y, k * d), (shares * squares, k * n_squares)):
            out.append(part.reshape((-1, size)))
    return pt.concatenate(out, axis=1)


def _normal_cdf(z: Any) -> Any:
    return 0.5 * pt.erfc(-z / np.sqrt(2.0))


def _data(array: FloatArray) -> Any:
    """A shared variable: compiled code is cached without the numbers."""
    return pytensor.shared(np.array(array), shape=array.shape)
