"""Dimensions of a PyMC model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt


def add_dim(model: Any, dim: str, length: int, names: Sequence[Any] | None = None) -> None:
    """Add dimension ``dim`` to ``model`` unless it is there.

    Parameters
    ----------
    names : sequence, length ``length``, optional
        Coordinate values.

    Raises
    ------
    ValueError
        If the model has it with another length, or with the same names in another order.
    """
    if dim not in model.dim_lengths:
        model.add_coord(dim, None if names is None else tuple(names), length=length)
        return
    there = int(pt.as_tensor_variable(model.dim_lengths[dim]).eval(mode="FAST_COMPILE"))
    if there != length:
        raise ValueError(f"dimension {dim!r} must have length {length}, got {there}")
    present = model.coords.get(dim)
    if names is None or present is None:
        return
    if set(names) == set(present) and tuple(names) != tuple(present):
        raise ValueError(f"coordinates of {dim!r} must be in the order {tuple(names)}, got {tuple(present)}")
