"""Parameters whose variables have named dimensions, as those that have none: in the order weights, means, factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pm_dpgmm._arguments import shown
from pm_dpgmm.bayes.coords import last_coordinates


@dataclass(frozen=True, slots=True, eq=False)
class PlainParameters:
    """Tensors (K,), (K, D), (K, D, D) of parameters that were named, with what else is read of them."""

    weights: Any
    means: Any
    chol: Any
    feature_names: Any = None
    anchor: Any = None


def has_dims(value: Any) -> bool:
    """Whether ``value`` is a PyTensor variable with named dimensions."""
    return hasattr(getattr(value, "type", None), "dims")


def without_names(th: Any) -> Any:
    """``th`` itself, or its tensors when its variables have named dimensions.

    The one dimension of ``weights`` is that of components and the other one of ``means`` that of features; ``chol`` has
    both and one more, of columns.

    Raises
    ------
    ValueError
        If the names do not fit.
    """
    parts: dict[str, Any] = {name: getattr(th, name, None) for name in ("weights", "means", "chol")}
    if not any(has_dims(part) for part in parts.values()):
        return th
    if not all(has_dims(part) for part in parts.values()):
        raise ValueError("weights, means and chol of th must all have named dimensions or none, got some of each")
    given = {name: tuple(part.type.dims) for name, part in parts.items()}
    component = given["weights"][:1]
    feature = tuple(dim for dim in given["means"] if dim not in component)
    column = tuple(dim for dim in given["chol"] if dim not in component + feature)
    wanted = {"weights": component, "means": component + feature, "chol": component + feature + column}
    lengths = {"weights": 1, "means": 2, "chol": 3}
    if any(set(given[name]) != set(dims) or len(dims) != lengths[name] for name, dims in wanted.items()):
        raise ValueError(
            "dimensions of th must be (component), (component, feature) and (component, feature, column), got"
            f" {shown(given)}"
        )
    tensors = {name: part.transpose(*wanted[name]).values for name, part in parts.items()}
    return PlainParameters(
        **tensors, feature_names=getattr(th, "feature_names", None), anchor=getattr(th, "anchor", None)
    )


def features_of(th: Any, model: Any) -> tuple[str, ...] | None:
    """Names of the features of parameters: their own, or what ``model`` calls the columns of their means; None if none.

    Coordinates that are no text, such as numbers, are no names.
    """
    names = getattr(th, "feature_names", None)
    if names is not None:
        return tuple(names)
    means: Any = getattr(th, "means", None)
    if has_dims(means):
        components = tuple(getattr(getattr(th.weights, "type", None), "dims", ()))
        dims = [dim for dim in means.type.dims if dim not in components]
        found = model.root.coords.get(dims[0]) if dims else None
    else:
        found = last_coordinates(model, means)
    return tuple(found) if found is not None and all(isinstance(name, str) for name in found) else None
