"""Dimensions and names of a PyMC model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pm_dpgmm._arguments import check_count, shown
from pm_dpgmm.bayes.pymc_compat import AnyModel
from pm_dpgmm.records.feature_names import misplaced

LONGEST = 2**62  # of a dimension


def model_of(model: Any, *, frozen: bool = False) -> pm.Model:
    """``model``, or the one on the context stack where it is None; TypeError if there is none, or it is no model.

    ``frozen``: one to which nothing can be added will do.
    """
    if model is None:
        found = pm.Model.get_context(error_if_none=False)
        if found is None:
            raise TypeError("model must be given outside a model context (with pm.Model():), got None")
        return found
    if not isinstance(model, AnyModel if frozen else pm.Model):
        raise TypeError(f"model must be a pymc.Model, got {shown(model)} of type {type(model).__name__}")
    return model


def read_shape(shape: Any) -> tuple[Any, ...]:
    """Lengths from one or a sequence of them, which may be symbolic; TypeError or ValueError if they are none."""
    lengths = (shape,) if isinstance(shape, (int, np.integer, pt.Variable)) else shape
    if not isinstance(lengths, (tuple, list)) and not (isinstance(lengths, np.ndarray) and lengths.ndim == 1):
        raise TypeError(f"shape must be a length or a sequence of lengths, got {shown(shape)}")
    for length in lengths:
        if isinstance(length, pt.Variable) and length.ndim == 0 and length.dtype.startswith(("int", "uint")):
            continue
        check_count(least=0, shape=length)
        if length > LONGEST:
            raise ValueError(f"shape must hold lengths of at most {LONGEST}, got {shown(shape)}")
    return tuple(lengths)


def check_new(model: Any, *names: Any, advice: str = "") -> None:
    """Raise unless ``names``, the first one a caller's, are free in ``model``: PyMC keeps half of what clashes."""
    if not isinstance(names[0], str) or not names[0]:
        raise TypeError(f"name must be a string, not empty, got {shown(names[0])}")
    if "/" in names[0]:  # groups and variables of a DataTree are a path
        raise ValueError(f"name must not contain '/', got {shown(names[0])}")
    for name in names:
        if model.name_for(name) in model.named_vars:
            raise ValueError(f"name must be new to the model, got {names[0]!r}: {name!r} already exists{advice}")


def check_apart(name: str, dims: Iterable[str]) -> None:
    """ValueError if a variable would have the name of one of its dimensions, which PyMC does not allow."""
    if name in dims:
        raise ValueError(f"name must be another than those of the dimensions, got {name!r} for both")


def read_labels(names: Any, length: int) -> tuple[Any, ...] | None:
    """``feature_names`` as a tuple of ``length`` different names; None stays. TypeError or ValueError for others."""
    if names is None:
        return None
    if isinstance(names, (str, bytes)) or not isinstance(names, (Sequence, np.ndarray)):
        raise TypeError(f"feature_names must be a sequence of names, got {shown(names)}")
    found = tuple(names)
    if len(found) != length or not all(isinstance(one, (str, int, np.integer)) for one in found):
        raise ValueError(f"feature_names must have length {length} and hold names, got {shown(found)}")
    if len(set(found)) < length:
        raise ValueError(f"feature_names must be different from each other, got {shown(found)}")
    return found


def last_coordinates(model: Any, variable: Any) -> tuple[Any, ...] | None:
    """Coordinates of the last dimension of a variable of ``model``; None for other variables, and where it has none."""
    root = model.root
    name = getattr(variable, "name", None)
    if name is None or root.named_vars.get(name) is not variable:
        return None
    dims = root.named_vars_to_dims.get(name)
    found = root.coords.get(dims[-1]) if dims else None
    return None if found is None else tuple(found)


def add_dim(model: Any, dim: str, length: int, names: Sequence[Any] | None = None, *, advice: str = "") -> None:
    """Add dimension ``dim`` to ``model`` unless it is there.

    Parameters
    ----------
    names : sequence, length ``length``, optional
        Coordinate values.
    advice : str
        Ends the message about another length.

    Raises
    ------
    ValueError
        If the model has it with another length, or with one of the names at another place.
    """
    if dim not in model.dim_lengths:
        model.add_coord(dim, None if names is None else tuple(names), length=length)
        return
    there = int(pt.as_tensor_variable(model.dim_lengths[dim]).eval(mode="FAST_COMPILE"))
    if there != length:
        raise ValueError(f"dimension {dim!r} must have length {length}, got {there}{advice}")
    present = model.coords.get(dim)
    if names is not None and present is not None:
        check_coordinates(dim, present, names)


def check_coordinates(dim: str, present: Sequence[Any], names: Sequence[Any]) -> None:
    """ValueError if one of the features ``names`` is among the coordinates ``present`` of ``dim`` at another place."""
    if misplaced(present, names):
        raise ValueError(
            f"coordinates of {dim!r} must be in the order {tuple(names)}, got {tuple(present)}; other features need a"
            " dimension of their own (dims=)"
        )
