"""A normal vector with mean 0 and fixed covariance: the law of PyMC's MvNormal, which compiles triangular solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Constant

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.compiled.operation import CompiledOperation, graph_slopes
from pm_dpgmm.bayes.parameters.anchor_kernel import centred_density
from pm_dpgmm.mixture.mixture import LOG_2PI


class CentredNormal(CompiledOperation):
    """Log density (1,) of a normal law with mean 0, and its derivative (P,); see :func:`centred_density`."""

    gufunc_signature = "(p),(q,p),(o)->(o),(p)"
    kernel = centred_density
    differentiable = (0,)
    connected = (0, 1)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(1,), tuple(shapes[0])]

    def graph(self, *inputs: Any) -> Sequence[Any]:
        value, whitener, constant = inputs
        white = pt.dot(whitener, value)
        return constant - 0.5 * pt.sum(white**2), -pt.dot(whitener.T, white)

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        if isinstance(cotangents[1].type, DisconnectedType):
            return self.with_disconnected(inputs, [cotangents[0][0] * outputs[1]])
        return self.with_disconnected(inputs, graph_slopes(self, inputs, cotangents))


centred_normal_of = CentredNormal()


def centred_normal(name: str, factor: FloatArray) -> Any:
    """Add to the current model a normal vector (P,) whose covariance is ``factor`` times its transpose.

    ``factor`` (P, P) is lower triangular with a positive diagonal.
    """
    p = len(factor)
    constant = -np.log(np.diagonal(factor)).sum() - 0.5 * p * LOG_2PI
    # not constants: compiled code must not depend on the numbers, so that it is found for the next release
    fixed = [
        pytensor.shared(one, shape=one.shape) for one in (np.linalg.solve(factor, np.eye(p)), np.array([constant]))
    ]

    def draw(factor: Any, size: Any) -> Any:
        alone = isinstance(size, Constant) and size.data is None
        white = pm.Normal.dist(pt.zeros(p), 1.0, size=None if alone else (*size, p))
        return (factor * white[..., None, :]).sum(axis=-1)

    def log_density(value: Any, _: Any) -> Any:
        return centred_normal_of(pt.cast(value, "float64"), *fixed)[0][0]

    def start(rv: Any, size: Any, _: Any) -> Any:
        return pt.zeros(p)

    return pm.CustomDist(
        name,
        factor,
        dist=draw,
        logp=log_density,
        support_point=start,
        signature="(p,p)->(p)",
        class_name="CentredNormal",
        shape=p,
    )
