"""Weights, means and factors at offsets from a released mixture, as one PyTensor operation with its own gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Constant

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.operation import CompiledOperation, graph_slopes
from pm_dpgmm.bayes.parameters.anchor import Anchor
from pm_dpgmm.bayes.parameters.anchor_kernel import free_slopes, parameters

INPUTS = 6  # free; root, log_weights, base, frames and reference are fixed


class MixtureAt(CompiledOperation):
    """Weights (K,), means (K, D), factors and covariances (K, D, D); see :func:`parameters`."""

    gufunc_signature = "(p),(q,p),(k),(k,d),(k,d,d),(o)->(k),(k,d),(k,d,d),(k,d,d)"
    kernel = parameters
    differentiable = (0,)
    connected = (0, 1, 2, 3)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [tuple(shapes[i]) for i in (2, 3, 4, 4)]

    def graph(self, *inputs: Any) -> Sequence[Any]:
        free, root, log_weights, base, frames, at = inputs
        reference = int(at.data[0]) if isinstance(at, Constant) else at[0]
        k, d = base.type.shape
        offsets = pt.dot(root, free)
        row, column = np.tril_indices(d)
        ratios = offsets[: k - 1]
        ratios = pt.concatenate([ratios[:reference], pt.zeros(1), ratios[reference:]])
        weights = pt.specify_shape(pt.special.softmax(log_weights + ratios), (k,))
        shifts = offsets[k - 1 : k - 1 + k * d].reshape((k, d))
        means = pt.specify_shape(base + (frames * shifts[:, None, :]).sum(axis=-1), (k, d))
        entries = offsets[k - 1 + k * d :].reshape((k, len(row)))
        entries = pt.where(row == column, pt.exp(entries), entries)
        inner = pt.set_subtensor(pt.zeros((k, d, d))[:, row, column], entries)
        chol = pt.specify_shape((frames[:, :, :, None] * inner[:, None, :, :]).sum(axis=2), (k, d, d))
        covariances = (chol[:, :, None, :] * chol[:, None, :, :]).sum(axis=-1)
        return weights, means, chol, covariances

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        # zeros that PyTensor folds are read-only at one component and writable at two: two kernels to compile
        given = [
            pt.constant(np.zeros(value.type.shape)) if isinstance(slope.type, DisconnectedType) else slope
            for value, slope in zip(outputs, cotangents, strict=True)
        ]
        return self.with_disconnected(inputs, [free_slopes_of(*inputs, *given)])


class FreeSlopes(CompiledOperation):
    """Derivatives by ``free``; see :func:`free_slopes`."""

    gufunc_signature = "(p),(q,p),(k),(k,d),(k,d,d),(o),(k),(k,d),(k,d,d),(k,d,d)->(p)"
    kernel = free_slopes
    differentiable = (0, 6, 7, 8, 9)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [tuple(shapes[0])]

    def graph(self, *inputs: Any) -> Sequence[Any]:
        return graph_slopes(mixture_at_of, inputs[:INPUTS], inputs[INPUTS:])


mixture_at_of, free_slopes_of = MixtureAt(), FreeSlopes()


def parameters_at(free: Any, root: FloatArray, anchor: Anchor) -> list[Any]:
    """Weights, means, factors and covariances at offsets ``root`` times ``free`` (P,): the symbolic twin of
    :func:`anchor.mixture_at`."""
    base = anchor.mixture
    frames = np.asarray(np.linalg.cholesky(base.covariances))
    found: list[Any] = mixture_at_of(
        pt.cast(free, "float64"), root, np.log(base.weights), base.means, frames, np.array([anchor.reference])
    )
    return found
