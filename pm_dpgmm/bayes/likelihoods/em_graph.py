"""Log density of noisy EM sums as graphs of array operations: what :mod:`em_kernel` computes.

For backends that have no compiled loop (JAX) and for second derivatives. Shapes of the fixed arrays must be known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


def in_a_line(
    weights: Any,
    means: Any,
    chol: Any,
    nodes: Any,
    log_steps: Any,
    features: Any,
    box: Any,
    values: Any,
    root: Any,
    law: Any,
) -> TensorVariable:
    """Log density of the sums of one column, shape (); parameters as :func:`em_kernel.in_a_line`."""
    mu, sd = means[:, 0], chol[:, 0, 0]
    shares = pt.special.softmax(log_steps[:, None] - 0.5 * pt.square((nodes[:, None] - mu) / sd), axis=0)
    below, above = _normal_cdf((box[0] - mu) / sd), _normal_cdf((mu - box[1]) / sd)
    inside = pt.dot(shares, weights * (1 - below - above))
    ends = pt.stack([pt.dot(below, weights), pt.dot(above, weights)])
    return _of_nodes(pt.concatenate([inside, ends]), features, values, root, law)


def in_space(
    weights: Any,
    means: Any,
    chol: Any,
    nodes: Any,
    node_weights: Any,
    logs: Any,
    whiteners: Any,
    own: Any,
    centres: Any,
    reach: Any,
    box: Any,
    scales: Any,
    values: Any,
    root: Any,
    law: Any,
) -> TensorVariable:
    """Log density of the sums of several columns, shape (); parameters as :func:`em_kernel.in_space`."""
    (t, k, d), (p,) = own.type.shape, values.type.shape
    x = (means[:, None] + pt.sum(chol[:, None] * nodes[None, :, None], axis=-1)).reshape((-1, d))
    x = pt.clip(x, box[:, 0], box[:, 1])
    n_squares = p // (t * k) - 1 - d
    pairs = [(a, b) for a in range(d) for b in range(a, d if n_squares == d * (d + 1) // 2 else a + 1)]
    row, column = [list(part) for part in zip(*pairs, strict=True)]
    out = []
    for s in range(t):
        # (N, K, D) by one matrix product: all components' whiteners side by side
        offsets = (whiteners[s] * own[s][:, None, :]).sum(axis=2)
        z = (pt.dot(x, whiteners[s].reshape((k * d, d)).T) - offsets.flatten()).reshape((-1, k, d))
        shares = pt.special.softmax(logs[s] - 0.5 * pt.square(z).sum(axis=2), axis=1)[:, :, None]
        y = (x[:, None] - centres[s]) / reach[s]
        y = y / pt.sqrt(pt.maximum(pt.square(y).sum(axis=2, keepdims=True), 1.0))
        squares = y[..., row] * y[..., column]
        if n_squares == 1:
            squares = pt.sum(squares, axis=2, keepdims=True)
        for part, size in ((shares, k), (shares * y, k * d), (shares * squares, k * n_squares)):
            out.append(part.reshape((-1, size)))
    chances = (weights[:, None] * node_weights).flatten()
    return _of_nodes(chances, pt.concatenate(out, axis=1) / scales, values, root, law)


def _of_nodes(chances: Any, features: Any, values: Any, root: Any, law: Any) -> Any:
    """Log density from features (Q, P) at nodes and their probabilities (Q,)."""
    mean = pt.dot(chances, features)
    rest = values - law[0] * mean  # in units of the noise: no eigenvalue of the covariance is below 1
    if root.type.shape[0]:
        return law[2] - 0.5 * pt.square(pt.dot(root, rest)).sum()
    second = pt.dot((features * chances[:, None]).T, features)
    total = law[0] * second + law[1] * mean[:, None] * mean + pt.eye(rest.shape[0])
    factor = pt.linalg.cholesky(total, lower=True, on_error="nan")
    white = pt.linalg.solve_triangular(factor, rest, lower=True, b_ndim=1)
    return law[2] - 0.5 * pt.square(white).sum() - pt.log(pt.diagonal(factor)).sum()


def _normal_cdf(z: Any) -> Any:
    return 0.5 * pt.erfc(-z / math.sqrt(2.0))
