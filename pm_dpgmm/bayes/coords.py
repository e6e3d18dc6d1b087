"""Dimensions and names of a PyMC model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt

from pm_dpgmm._arguments import shown


def check_new(model: Any, *names: Any) -> None:
    """Raise unless ``names``, the first one a caller's, are free in ``model``: PyMC keeps half of what clashes."""
    if not isinstance(names[0], str) or not names[0]:
        raise TypeError(f"name must be a string, not empty, got {shown(names[0])}")
    for name in names:
        if model.name_for(name) in model.named_vars:
            raise ValueError(f"name must be new to the model, got {names[0]!r}: {name!r} already exists")


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
