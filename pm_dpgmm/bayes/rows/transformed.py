"""Public transformations of columns as PyTensor graphs: named ones alone, whose slopes are known in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pm_dpgmm._arguments import FloatArray, shown
from pm_dpgmm.records.transformation import Asinh, Log, Logit, Transformation
from pm_dpgmm.records.transformed_columns import TransformedColumns


def check_graph(columns: TransformedColumns | None, what: str) -> None:
    """Raise ValueError where a transformation is made of functions of the user's own, which are no graphs."""
    own = [one.name for one in (columns.columns if columns is not None else ()) if one is not None and one.law is None]
    if own:
        rule = f"{what} must have named transformations (log, logit, asinh) in a model, which needs their slopes"
        raise ValueError(f"{rule}, got functions named {shown(own)}")


def check_observed(rows: FloatArray, columns: TransformedColumns, names: Any) -> None:
    """Raise ValueError where an observed number, missing ones apart, has no value in the transformed unit."""
    moved, _ = columns.of_points(rows)
    lost = np.argwhere(np.isnan(moved) & ~np.isnan(rows))
    if len(lost):
        i, j = lost[0].tolist()
        told = columns.columns[j]
        name = f"column {j}" if names is None else f"column {names[j]!r}"
        assert told is not None
        rule = f"observed must have a value in {name} by its transformation ({told.told})"
        raise ValueError(f"{rule}, got {rows[i, j]:g} in row {i}")


def in_units(rows: Any, columns: TransformedColumns) -> Any:
    """Rows (..., D) of the transformed unit in that of the records."""
    for j, one in enumerate(columns.columns):
        if one is not None:
            rows = pt.set_subtensor(rows[..., j], _inverse(one, rows[..., j]))
    return rows


def in_transformed_unit(rows: Any, columns: TransformedColumns, *, missing: bool) -> tuple[Any, Any]:
    """Rows (..., D) in the transformed unit, and sums (...,) of the logarithms of slopes: -inf outside the support.

    With ``missing``, NaN stands for what is missing: it becomes 0, which nothing may read, and adds nothing.
    """
    slopes: Any = 0.0
    for j, one in enumerate(columns.columns):
        if one is None:
            continue
        x = rows[..., j]
        hole = pt.isnan(x)
        x = pt.switch(hole, one.domain[0] / 2 + one.domain[1] / 2 if one.name == "logit" else 1.0, x) if missing else x
        y, slope = _forward(one, x)
        if missing:
            y, slope = pt.switch(hole, 0.0, y), pt.switch(hole, 0.0, slope)
        rows = pt.set_subtensor(rows[..., j], y)
        slopes = slopes + slope
    return rows, slopes


def _forward(one: Transformation, x: Any) -> tuple[Any, Any]:
    law = one.law
    if isinstance(law, Log):
        inside = pt.gt(x, 0)
        y = pt.log(pt.switch(inside, x, 1.0))
        return y, pt.switch(pt.or_(inside, pt.isnan(x)), -y, -np.inf) + 0 * x
    if isinstance(law, Logit):
        inside = pt.and_(pt.gt(x, law.low), pt.lt(x, law.high))
        safe = pt.switch(inside, x, law.low / 2 + law.high / 2)
        left, right = pt.log(safe - law.low), pt.log(law.high - safe)
        slope = math.log(law.high - law.low) - left - right
        return left - right, pt.switch(pt.or_(inside, pt.isnan(x)), slope, -np.inf) + 0 * x
    assert isinstance(law, Asinh)
    return pt.arcsinh(x / law.scale), -math.log(law.scale) - 0.5 * pt.log1p((x / law.scale) ** 2)


def _inverse(one: Transformation, y: Any) -> Any:
    law = one.law
    if isinstance(law, Log):
        return pt.exp(y)
    if isinstance(law, Logit):
        found = law.low + (law.high - law.low) * pt.sigmoid(y)
        return pt.clip(found, np.nextafter(law.low, math.inf), np.nextafter(law.high, -math.inf))
    assert isinstance(law, Asinh)
    return law.scale * pt.sinh(y)
