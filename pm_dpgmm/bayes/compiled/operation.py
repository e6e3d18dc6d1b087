"""PyTensor operations whose values come from one compiled function of arrays, with the graph form they stand for.

A graph of array operations costs compilation for each of its nodes, seconds with the Numba backend, and a pass over the
data for each. A compiled function is cached on disk whatever graph it is part of, and runs with the C backend, with
Numba and without a compiler. The graph form is used where there is none: by JAX, and for second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace

from pm_dpgmm.bayes.pymc_compat import use_graph_form, use_kernel


class CompiledOperation(Op):
    """An operation on double arrays by a function that Numba compiled.

    Attributes
    ----------
    kernel : callable
        From arrays to an array, or to a tuple of as many arrays as there are outputs.
    differentiable, connected : tuple of int
        The inputs and the outputs between which there is a derivative.
    """

    __props__ = ()
    kernel: ClassVar[Callable[..., Any]]
    differentiable: ClassVar[tuple[int, ...]]
    connected: ClassVar[tuple[int, ...]] = (0,)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "kernel"):  # a class that others are made from has none
            use_kernel(cls, cls.kernel)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Shapes of the outputs from those of the inputs, whose lengths are numbers, None or scalar tensors."""
        raise NotImplementedError

    def graph(self, *inputs: Any) -> Sequence[Any]:
        """The outputs as PyTensor expressions."""
        raise NotImplementedError

    def make_node(self, *inputs: Any) -> Apply:
        tensors = [pt.as_tensor(one) for one in inputs]
        shapes = self.output_shapes(*(one.type.shape for one in tensors))
        return Apply(self, tensors, [pt.tensor(dtype="float64", shape=shape) for shape in shapes])

    def perform(self, node: Any, inputs: Sequence[Any], outputs: Any) -> None:
        found = type(self).kernel(*inputs)
        for place, value in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
            place[0] = value

    def infer_shape(self, *arguments: Any) -> Any:
        """From the graph (until PyTensor 2), the node and shapes of the inputs."""
        return self.output_shapes(*arguments[-1])

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        return [
            [i in self.differentiable and o in self.connected for o in range(len(node.outputs))]
            for i in range(len(node.inputs))
        ]

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Derivatives of the graph form."""
        return self.with_disconnected(inputs, graph_slopes(self, inputs, cotangents))

    def with_disconnected(self, inputs: Sequence[Any], slopes: Sequence[Any]) -> list[Any]:
        """``slopes`` by the differentiable inputs, filled up for the others."""
        found = dict(zip(self.differentiable, slopes, strict=True))
        return [found[i] if i in found else DisconnectedType()() for i in range(len(inputs))]

    def L_op(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The name of ``pullback`` before PyTensor 3."""
        return self.pullback(inputs, outputs, cotangents)


def graph_slopes(operation: CompiledOperation, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
    """Derivatives by the differentiable inputs through the graph form, as expressions."""
    # at variables of their own: an input may depend on another one, which is not to be differentiated through
    places = {i: inputs[i].type() for i in operation.differentiable}
    values = operation.graph(*(places.get(i, one) for i, one in enumerate(inputs)))
    total, given = 0.0, {}
    for o, cotangent in zip(operation.connected, (cotangents[o] for o in operation.connected), strict=True):
        if not isinstance(cotangent.type, DisconnectedType):
            place = cotangent.type()
            given[place] = cotangent
            total = total + pt.sum(values[o] * place)
    found = pytensor.grad(total, list(places.values()), disconnected_inputs="ignore")
    replaced: Sequence[Any] = graph_replace(
        found, {place: inputs[i] for i, place in places.items()} | given, strict=False
    )
    return replaced


use_graph_form(CompiledOperation)
