"""Columns that are rounded by public knowledge: to which steps. Never from the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_masks, finite_numbers, shown
from pm_dpgmm.records.feature_names import as_mapping

LEAST, MOST = 1e-100, 1e100  # steps for which nothing that a fit computes overflows or vanishes
FARTHEST = 2.0**40  # steps from 0 up to which multiples are told apart as numbers, with room to spare


def read_resolution(resolution: Any, feature_names: tuple[str, ...], bounds: FloatArray | None) -> FloatArray | None:
    """Steps of the columns, shape (D,), 0 where one is not rounded; None where none is.

    From None, a number for all columns, one for each, or a mapping (or labelled Series) from names of columns, the
    others not rounded.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, names no column, or is negative, not finite, or more than the width of the bounds.
    """
    if resolution is None:
        return None
    d = len(feature_names)
    rule = f"resolution must be a number, {d} numbers (one for each column) or a dict of them by column"
    resolution = as_mapping(resolution, feature_names, name="resolution")
    if isinstance(resolution, Mapping):
        unknown = [name for name in resolution if name not in feature_names]
        if unknown:
            raise ValueError(
                f"resolution must have names of columns among {shown(feature_names)}, got {shown(unknown)}"
            )
        resolution = [resolution.get(name, 0.0) for name in feature_names]
    check_masks(resolution, name="resolution", alone=True)
    try:
        given = np.asarray(resolution)
    except ValueError:  # rows of several lengths
        raise TypeError(f"{rule}, got {shown(resolution)}") from None
    if given.dtype.kind not in "fiu":
        raise TypeError(f"{rule}, got {shown(resolution)}")
    if given.shape not in ((), (d,)):
        raise ValueError(f"{rule}, got shape {given.shape}")
    values = np.array(np.broadcast_to(given.astype(float), (d,)))
    for name, step in zip(feature_names, values.tolist(), strict=True):
        if not (step == 0 or LEAST <= step <= MOST):
            raise ValueError(
                f"resolution must be 0 or {LEAST:g} to {MOST:g}, got {shown(step)} for column {shown(name)}"
            )
    if not values.any():
        return None
    if bounds is not None and (values / 2 > bounds[:, 1] / 2 - bounds[:, 0] / 2).any():
        raise ValueError(
            f"resolution must be at most the width of the bounds, got {shown(values.tolist())} and bounds"
            f" {shown(bounds.tolist())}"
        )
    return values


def check_resolution(values: Any, n_features: int) -> None:
    """Raise ValueError unless it is a step for each column, or 0."""
    found = finite_numbers(values, "resolution", (n_features,))
    if not ((found == 0) | ((found >= LEAST) & (found <= MOST))).all():
        raise ValueError(f"resolution must be 0 or {LEAST:g} to {MOST:g} for each column, got {shown(found.tolist())}")


def on_grid(point: FloatArray, resolution: FloatArray) -> FloatArray:
    """The nearest multiple in every column that is rounded, shape (D,)."""
    steps = np.where(resolution > 0, resolution, 1.0)
    return np.where(resolution > 0, np.rint(point / steps) * steps, point)


def near_enough(resolution: FloatArray, point: FloatArray) -> FloatArray | None:
    """The resolution without columns in which ``point`` (D,) is too many steps from 0; None without any left."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        kept = np.where(np.abs(point) < FARTHEST * resolution, resolution, 0.0)
    return kept if kept.any() else None
