"""Weights, means and factors that a model brings itself: of as many components, and what a constant can be checked for.

Kernels of likelihoods read arrays by the number of weights: others would be read beyond their ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.tensor.variable import TensorVariable

from pm_dpgmm._arguments import shown

PARTS = ("weights", "means", "chol")
NEAR_ONE = 1e-6  # of a sum of weights; what rounding of single precision leaves


def of_one_mixture(
    weights: TensorVariable, means: TensorVariable, chol: TensorVariable
) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """The tensors (K,), (K, D), (K, D, D), with one K.

    Raises
    ------
    ValueError
        If known numbers of components differ, or constants are no weights or no lower triangular factors. Numbers that
        are not known yet are compared when the model is evaluated.
    """
    tensors = (weights, means, chol)
    known = {part: one.type.shape[0] for part, one in zip(PARTS, tensors, strict=True)}
    numbers = {number for number in known.values() if number is not None}
    if len(numbers) > 1:
        raise ValueError(f"th must have weights, means and chol of as many components, got {shown(known)}")
    _check_constants(weights, chol)
    if None not in known.values():
        return tensors
    number: Any = numbers.pop() if numbers else weights.shape[0]
    fixed = [pt.specify_shape(one, (number, *([None] * (one.ndim - 1)))) for one in tensors]
    return fixed[0], fixed[1], fixed[2]


def _check_constants(weights: Any, chol: Any) -> None:
    if isinstance(weights, Constant):
        values = np.asarray(weights.data, dtype=float)
        if not (values >= 0).all() or not abs(values.sum() - 1) <= NEAR_ONE:
            raise ValueError(f"th.weights must be at least 0 and add up to 1, got {shown(values.tolist())}")
    if isinstance(chol, Constant) and np.triu(chol.data, 1).any():
        raise ValueError("th.chol must be lower triangular, chol @ chol.T the covariance; got entries above it")
