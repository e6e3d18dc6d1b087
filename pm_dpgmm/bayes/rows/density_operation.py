"""The log density of rows under a mixture as one operation with its own gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant

from pm_dpgmm.bayes.compiled.operation import CompiledOperation, graph_slopes
from pm_dpgmm.bayes.rows.density_graph import log_joint, log_sum
from pm_dpgmm.bayes.rows.density_kernel import densities, row_slopes, slopes
from pm_dpgmm.bayes.rows.missing import BoolArray
from pm_dpgmm.privacy.noise import IntArray


class MixtureDensity(CompiledOperation):
    """Log densities (N,) of rows and shares (K, N) of the components in them; see :func:`densities`.

    The shares are for the two operations of the gradient alone: nothing is differentiated through them.
    """

    gufunc_signature = "(n,d),(k),(k,d),(k,d,d),(m,d),(w)->(n),(k,n)"
    kernel = densities
    differentiable = (0, 1, 2, 3)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(shapes[0][0],), (shapes[1][0], shapes[0][0])]

    def graph(self, *inputs: Any) -> Sequence[Any]:
        rows, weights, means, chol, present, which = inputs
        joint = log_joint(rows, weights, means, chol, *_patterns(present, which))
        logs = log_sum(joint)
        return logs, pt.exp(joint - logs[:, None]).T

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        given = (*inputs, outputs[1], pt.as_tensor(cotangents[0]))
        return self.with_disconnected(inputs, [row_slopes_of(*given), *parameter_slopes_of(*given)])


density_of = MixtureDensity()


class ParameterSlopes(CompiledOperation):
    """Derivatives of the sum of cotangent times log density by weights, means and chol; see :func:`slopes`."""

    gufunc_signature = "(n,d),(k),(k,d),(k,d,d),(m,d),(w),(k,n),(n)->(k),(k,d),(k,d,d)"
    kernel = slopes
    differentiable = (0, 1, 2, 3, 7)
    connected = (0, 1, 2)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [tuple(shape) for shape in shapes[1:4]]

    def graph(self, *inputs: Any) -> Sequence[Any]:
        return graph_slopes(density_of, inputs[:6], [inputs[7]])[1:]


class RowSlopes(CompiledOperation):
    """Derivatives of the same by the rows; see :func:`row_slopes`."""

    gufunc_signature = "(n,d),(k),(k,d),(k,d,d),(m,d),(w),(k,n),(n)->(n,d)"
    kernel = row_slopes
    differentiable = (0, 1, 2, 3, 7)

    def output_shapes(self, *shapes: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [tuple(shapes[0])]

    def graph(self, *inputs: Any) -> Sequence[Any]:
        return graph_slopes(density_of, inputs[:6], [inputs[7]])[:1]


parameter_slopes_of, row_slopes_of = ParameterSlopes(), RowSlopes()


def mixture_log_density(
    rows: Any, weights: Any, means: Any, chol: Any, holes: tuple[BoolArray, IntArray] | None = None
) -> Any:
    """Log density of a mixture at ``rows`` (..., D) symbolically, shape (...); finite in the far tails.

    ``holes``: the different patterns (M, D) of features that are there, and which of them each of the rows (N, D) has.
    """
    rows, weights, means, chol = (pt.cast(one, "float64") for one in (rows, weights, means, chol))
    known = [one.type.shape[-1] for one in (chol, means, rows) if one.type.shape[-1] is not None]
    if not known:
        raise ValueError("means and chol must have a known number of features; set the shape of their variables")
    means, chol = pt.specify_shape(means, (None, known[0])), pt.specify_shape(chol, (None, known[0], known[0]))
    if holes is None:
        holes = np.ones((1, known[0]), dtype=bool), np.zeros(0, dtype=int)
    flat = rows if rows.ndim == 2 else rows.reshape((-1, means.shape[1]))
    logs = density_of(flat, weights, means, chol, *holes)[0]
    return logs if rows.ndim == 2 else logs.reshape(rows.shape[:-1])


def _patterns(present: Any, which: Any) -> tuple[BoolArray | None, IntArray | None]:
    """The patterns as arrays, or None and None if all rows are complete."""
    if not isinstance(present, Constant) or not isinstance(which, Constant):
        raise NotImplementedError("second derivatives and other backends need patterns of missing values as constants")
    return (present.data, which.data) if len(which.data) else (None, None)
