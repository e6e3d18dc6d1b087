"""Log density of randomised sides of waves as a graph of array operations: what :mod:`local_kernel` computes.

For backends that have no compiled loop (JAX) and for second derivatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from pm_dpgmm.methods.local.waves import NARROWEST, positive_sides

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
