"""Log densities of counts of randomised responses as graphs of array operations: what :mod:`local_kernel` computes.

For backends that have no compiled loop (JAX) and for second derivatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from pm_dpgmm.methods.local.waves import NARROWEST, positive_sides
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


def sides(
    weights: Any, means: Any, chol: Any, frequencies: Any, phases: Any, asked: Any, ones: Any, law: Any
) -> TensorVariable:
    """Binomial log probabilities, shape (); parameters as :func:`local_kernel.sides`."""
    turns = pt.dot(frequencies, means.T) + phases[:, None]
    along = (frequencies[:, None, :, None] * chol[None]).sum(axis=2)  # (M, K, D)
    deviations = pt.sqrt(pt.maximum(pt.square(along).sum(axis=2), NARROWEST**2))
    chances = law[1] + (law[0] - law[1]) * pt.dot(positive_sides(turns, deviations, xp=pt), weights)
    found: TensorVariable = (ones * pt.log(chances) + (asked - ones) * pt.log1p(-chances)).sum() + law[2]
    return found


def cells(
    weights: Any, means: Any, chol: Any, edges: Any, rule: Any, counts: Any, members: Any, law: Any, *, bits: bool
) -> TensorVariable:
    """Multinomial or, of ``bits``, normal log density, shape (); parameters as :func:`local_kernel.cells`."""
    shares = cell_probabilities(edges, weights, means, chol, n_nodes=rule.type.shape[1], xp=pt)
    if not bits:
        inside = pt.dot(members, shares) if members.type.shape[0] else shares
        named: TensorVariable = (counts * pt.log(law[1] + law[2] * inside)).sum() + law[3]
        return named
    n, g = law[4], law[2] * shares
    mean = law[1] + g
    v = mean * (1 - mean) + pt.square(g)
    rest = counts - n * mean
    left = 1 - (pt.square(g) / v).sum()
    square = (pt.square(rest) / v).sum() + pt.square((g * rest / v).sum()) / left
    found: TensorVariable = law[3] - 0.5 * (square / n + pt.log(v).sum() + pt.log(left))
    return found
