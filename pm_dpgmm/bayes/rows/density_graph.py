"""The log density of rows under a mixture as a graph of array operations.

For backends that have no compiled loop (JAX) and for second derivatives; elsewhere :mod:`density_operation` takes its
place, which compiles and runs faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from pm_dpgmm.bayes.rows.missing import BoolArray
from pm_dpgmm.mixture.mixture import LOG_2PI
from pm_dpgmm.privacy.noise import IntArray

LOWEST = pt.constant(-1e300, dtype="float64")  # in place of -inf where it would be subtracted from itself


def component_log_densities(rows: Any, means: Any, chol: Any) -> Any:
    """log N(row; mean_k, chol_k chol_k') symbolically, shape (..., K) for rows (..., D).

    Forward substitution written out over the D features: no solver, and a gradient of plain array operations.
    """
    d = chol.type.shape[-1]
    if d is None:
        raise ValueError("means and chol must have a known number of features; set the shape of their variables")
    whitened: list[Any] = []
    for i in range(d):
        rest = rows[..., i, None] - means[:, i]
        for j in range(i):
            rest = rest - chol[:, i, j] * whitened[j]
        whitened.append(rest / chol[:, i, i])
    squares = sum((z**2 for z in whitened[1:]), whitened[0] ** 2)
    log_determinants = sum((pt.log(chol[:, i, i]) for i in range(1, d)), pt.log(chol[:, 0, 0]))
    return -0.5 * squares - (log_determinants + 0.5 * d * LOG_2PI)


def marginal_factors(chol: Any, present: BoolArray) -> list[list[Any]]:
    """Cholesky factors of the covariances of some features, for several choices of them at once.

    Orthogonalised rows of ``chol``: Gram-Schmidt loses fewer digits than the factor of a product would. Absent
    features get 1 on the diagonal and 0 elsewhere, so a graph has the same size for any number of choices.

    Parameters
    ----------
    chol : TensorVariable, shape (K, D, D)
    present : ndarray of bool, shape (M, D)

    Returns
    -------
    list of lists of TensorVariable, shapes (M, K)
        Entries [i][j], j <= i.
    """
    width = present.shape[1]
    axes: list[Any] = []
    factors: list[list[Any]] = []
    for i in range(width):
        mask = present[:, i, None].astype(float)
        rest = chol[:, i, :] * (np.arange(width) <= i) * mask[:, :, None]
        line: list[Any] = []
        for axis in axes:
            share = (rest * axis).sum(axis=-1)
            rest = rest - share[:, :, None] * axis
            line.append(share)
        length = pt.sqrt((rest**2).sum(axis=-1) + (1 - mask))
        axes.append(rest / length[:, :, None])
        factors.append([*line, length])
    return factors


def partial_log_densities(rows: Any, means: Any, chol: Any, present: BoolArray, which: IntArray) -> Any:
    """:func:`component_log_densities` of the features that are there: row n (N, D) has ``present[which[n]]``."""
    d = present.shape[1]
    seen = present[which]
    rows = pt.where(seen, rows, 0.0)
    factors = marginal_factors(chol, present)
    whitened: list[Any] = []
    for i in range(d):
        rest = rows[:, i, None] - means[:, i]
        for j in range(i):
            rest = rest - factors[i][j][which] * whitened[j]
        whitened.append(seen[:, i, None] * rest / factors[i][i][which])
    squares = sum((z**2 for z in whitened[1:]), whitened[0] ** 2)
    log_determinants = sum((pt.log(factors[i][i]) for i in range(1, d)), pt.log(factors[0][0]))
    return -0.5 * squares - (log_determinants + 0.5 * present.sum(axis=1)[:, None] * LOG_2PI)[which]


def log_joint(
    rows: Any, weights: Any, means: Any, chol: Any, present: BoolArray | None = None, which: IntArray | None = None
) -> Any:
    """log (weight times density) of rows (N, D) and components, (N, K); with patterns of what is there."""
    if present is None or which is None:
        return pt.log(weights) + component_log_densities(rows, means, chol)
    return pt.log(weights) + partial_log_densities(rows, means, chol, present, which)


def log_sum(joint: Any) -> Any:
    """Logarithm of the sum of exponentials over the last axis."""
    # Written out, because mode="FAST_COMPILE" leaves out the rewrite that makes pt.logsumexp safe in the tails. The
    # derivative by the largest term is 0, so leaving it out of the gradient is exact, at every order.
    highest = disconnected_grad(pt.maximum(joint.max(axis=-1, keepdims=True), LOWEST))
    return highest[..., 0] + pt.log(pt.exp(joint - highest).sum(axis=-1))
