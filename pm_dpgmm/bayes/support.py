"""Moving values into the open support of PyMC variables, by their transforms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.pymc_compat import (
    ChainedTransform,
    IntervalTransform,
    LogOddsTransform,
    LogTransform,
    Ordered,
    SimplexTransform,
    SumTo1,
    Transform,
    make_initial_point_fn,
)

MARGIN = 1e-3  # smallest weight, smallest gap relative to the range, distance to the ends of an interval
FLOOR = 1e-6  # smallest positive value; released variances are positive already, so only zeros are touched


def constrained_start(model: Any) -> dict[str, Any]:
    """Default starting point of every free variable of ``model``, by name, in constrained space."""
    return dict(make_initial_point_fn(model=model, return_transformed=False)(0))


def mended_start(model: Any, start: Mapping[str, Any], *, rng: np.random.Generator) -> dict[str, Any]:
    """Values for the continuous variables whose default start is no point of their open support, by name.

    PyMC starts an ordered variable at equal values, where the unconstrained value is infinite: such a model cannot be
    sampled from its own starting point. They get a draw from their prior, moved into
    the support; where the prior cannot be drawn, the default start is moved.
    """
    point = to_unconstrained(model)(start)
    broken = [value for value in model.continuous_value_vars if not np.isfinite(point[value.name]).all()]
    values: dict[str, Any] = {}
    for rv in (model.values_to_rvs[value] for value in broken):
        try:
            drawn = pm.draw(rv, random_seed=int(rng.integers(2**31)), mode="FAST_COMPILE")
        except NotImplementedError:  # Flat and its like
            drawn = start[rv.name]
        in_order = any(isinstance(t, Ordered) for t in _members(model, rv.name))
        values[rv.name] = np.sort(drawn, axis=-1) if in_order else drawn
    if not values:
        return {}
    falling = [
        name for name in values if any(isinstance(t, Ordered) and not t.ascending for t in _members(model, name))
    ]
    values |= {name: values[name][..., ::-1] for name in falling}
    return into_support(model, start, [values])[0]


def component_order(model: Any, values: Mapping[str, FloatArray], over_components: Collection[str]) -> list[int] | None:
    """The order of the components that the ordered variables ask for; None when there are none.

    Parameters
    ----------
    model : pymc.Model
        Root model.
    values : dict of ndarray
        Values of the mapped variables, by name.
    over_components : collection of str
        Names whose first axis runs over components.

    Raises
    ------
    ValueError
        If two variables ask for different orders, or a variable is ordered over features and its value is not.
    """
    order: list[int] | None = None
    for name, value in values.items():
        ordered = next((t for t in _members(model, name) if isinstance(t, Ordered)), None)
        if ordered is None or value.shape[-1:] in {(), (1,)}:
            continue
        ascending = value if ordered.ascending else -value
        if value.ndim > 1 or name not in over_components:
            # The last axis holds features: sorting it would give every component a mean that nobody released.
            if (np.diff(ascending, axis=-1) <= 0).any():
                raise ValueError(f"{name!r} is ordered over its last axis, but the values there are not in order")
            continue
        wanted = np.argsort(ascending, kind="stable").tolist()
        if order is not None and wanted != order:
            raise ValueError(f"ordered variables must agree on one order of the components, {name!r} does not")
        order = wanted
    return order


def into_support(
    model: Any, start: Mapping[str, Any], values: Sequence[Mapping[str, FloatArray]]
) -> list[dict[str, Any]]:
    """Each dictionary of ``values`` with its entries moved into the open support of their variables.

    Bounds that depend on other variables are taken at the values of these variables in the same dictionary, or at
    ``start`` where it has none.

    Raises
    ------
    ValueError
        If a moved value is not finite in unconstrained space.
    """
    free = [rv for rv in model.free_RVs if rv.name in values[0]]  # parents come before children
    projections = {rv.name: [_projection(model, rv, t) for t in _members(model, rv.name)] for rv in free}
    images = [
        rv if transform is None else transform.forward(rv, *rv.owner.inputs)
        for rv, transform in ((rv, model.rvs_to_transforms[rv]) for rv in free)
    ]
    forward = _evaluator(model, images)
    moved = []
    for chain in values:
        point = {name: np.asarray(value) for name, value in start.items()}
        for name, steps in projections.items():
            value = np.array(chain[name], dtype=float)
            for project in steps:
                value = project(value, point)
            point[name] = value
        for name, image in zip(projections, forward(point), strict=True):
            if not np.isfinite(image).all():
                raise ValueError(f"value of {name!r} cannot be moved into its support, got {point[name]}")
        moved.append({name: point[name] for name in projections})
    return moved


def _members(model: Any, name: str) -> list[Transform]:
    """Transforms of the variable ``name``, first applied first."""
    pending, members = [model.rvs_to_transforms[model[name]]], []
    while pending:
        transform = pending.pop(0)
        if isinstance(transform, ChainedTransform):  # PyMC nests them: default transform, then the user's chain
            pending = [*transform.transform_list, *pending]
        elif transform is not None:
            members.append(transform)
    return members


def _projection(model: Any, rv: Any, transform: Transform) -> Callable[[FloatArray, Mapping[str, Any]], FloatArray]:
    """Function of (value, point) that moves ``value`` into the open support of ``transform``."""
    if isinstance(transform, SimplexTransform | SumTo1):
        return lambda value, _: _inside_simplex(value)
    if isinstance(transform, LogTransform):
        return lambda value, _: np.maximum(value, FLOOR)
    if isinstance(transform, LogOddsTransform):
        return lambda value, _: np.clip(value, MARGIN, 1 - MARGIN)
    if isinstance(transform, Ordered):
        return lambda value, _: _increasing(value, transform)
    if isinstance(transform, IntervalTransform):
        lower, upper = transform.args_fn(*rv.owner.inputs)
        ends = [pt.as_tensor_variable(-np.inf if lower is None else lower)]
        ends += [pt.as_tensor_variable(np.inf if upper is None else upper)]
        bounds = _evaluator(model, ends)
        return lambda value, point: _inside_interval(value, *bounds(point))
    return lambda value, _: value  # factors are in the support by construction; anything else is checked at the end


def _evaluator(model: Any, outputs: list[Any]) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Function of a constrained point of the whole model that evaluates ``outputs``."""
    # A variable given as an input is cut from what it was made of, so nothing is drawn here.
    function = pytensor.function(model.free_RVs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
    return lambda point: list(function(*(point[rv.name] for rv in model.free_RVs)))


def _inside_simplex(value: FloatArray) -> FloatArray:
    lifted = np.maximum(value, MARGIN)
    return np.asarray(lifted / lifted.sum(axis=-1, keepdims=True))


def _increasing(value: FloatArray, transform: Ordered) -> FloatArray:
    """``value`` with a smallest gap between neighbours on the last axis, in the order of ``transform``."""
    value = value if transform.ascending else value[..., ::-1]
    if transform.positive:
        value = np.maximum(value, FLOOR)
    spread = np.ptp(value, axis=-1, keepdims=True)
    gap = MARGIN * np.where(spread > 0, spread, np.maximum(1.0, np.abs(value).max(axis=-1, keepdims=True)))
    steps = gap * np.arange(value.shape[-1])
    value = np.maximum.accumulate(value - steps, axis=-1) + steps
    return np.asarray(value if transform.ascending else value[..., ::-1])


def _inside_interval(value: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    one_sided = FLOOR * (1 + np.abs(np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0))))
    with np.errstate(invalid="ignore"):  # inf - inf for a variable without bounds
        width = upper - lower
    margin = np.where(np.isfinite(width), MARGIN * width, one_sided)
    return np.clip(value, lower + margin, upper - margin)


def to_unconstrained(model: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Function from constrained values of all free variables, by name, to a point of ``model.compile_logp``."""
    transforms = ((rv, model.rvs_to_transforms[rv]) for rv in model.free_RVs)
    images = [rv if transform is None else transform.forward(rv, *rv.owner.inputs) for rv, transform in transforms]
    forward = _evaluator(model, images)
    names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    dtypes = [model.rvs_to_values[rv].dtype for rv in model.free_RVs]

    def convert(values: Mapping[str, Any]) -> dict[str, Any]:
        moved = forward({rv.name: np.asarray(values[rv.name], dtype=rv.dtype) for rv in model.free_RVs})
        return {name: np.asarray(value, dtype=kind) for name, value, kind in zip(names, moved, dtypes, strict=True)}

    return convert
