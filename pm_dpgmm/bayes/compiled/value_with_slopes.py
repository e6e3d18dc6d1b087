"""Log densities of what a release holds as PyTensor operations that give their derivatives by the mixture as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType

from pm_dpgmm.bayes.compiled.operation import CompiledOperation, graph_slopes

PARAMETERS = 3  # weights, means, chol


class ValueWithSlopes(CompiledOperation):
    """A log density, shape (1,), and its derivatives by the first three inputs: weights, means and chol.

    A sampler wants both at every step, and they share nearly all of the work.
    """

    differentiable = (0, 1, 2)
    connected = (0, 1, 2, 3)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(1,), *(tuple(shape) for shape in shapes[:PARAMETERS])]

    def value(self, *inputs: Any) -> Any:
        """The log density as a PyTensor expression, shape ()."""
        raise NotImplementedError

    def graph(self, *inputs: Any) -> Sequence[Any]:
        weights, means, chol, *fixed = inputs
        d = means.type.shape[1]
        # the kernel does not read what is above the diagonal
        lower = pt.tri(means.shape[1]) if d is None else np.tri(d)
        value = self.value(weights, means, chol * lower, *fixed)
        return value[None], *pytensor.grad(value, [weights, means, chol])

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        if all(isinstance(one.type, DisconnectedType) for one in cotangents[1:]):
            return self.with_disconnected(inputs, [cotangents[0][0] * slope for slope in outputs[1:]])
        return self.with_disconnected(inputs, graph_slopes(self, inputs, cotangents))


def value_of(operation: ValueWithSlopes, weights: Any, means: Any, chol: Any, *fixed: Any) -> Any:
    """The log density, shape (), from parameters of any float type and fixed tensors of the kernel's shapes."""
    given = (pt.cast(one, "float64") for one in (weights, means, chol))
    return operation(*given, *fixed)[0][0]
