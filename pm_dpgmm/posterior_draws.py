"""Reading posterior draws, whatever holds them: ``InferenceData`` of ArviZ before 1.0, a DataTree of xarray since.

Neither library is imported here: what an object offers says what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pm_dpgmm._arguments import shown

if TYPE_CHECKING:
    import xarray

# What ``observe`` of a histogram calls its far rows, after a name
WEIGHT, FLAT = "_background_weight", "_background_flat"


def is_dataset(draws: Any) -> bool:
    """Whether ``draws`` is a Dataset of xarray."""
    return hasattr(draws, "data_vars") and not hasattr(draws, "children")


def is_group(draws: Any) -> bool:
    """Whether ``draws`` is one group of a DataTree, such as ``idata["posterior"]`` with ArviZ 1, not a whole tree."""
    return hasattr(draws, "children") and not draws.children and bool(draws.data_vars)


def group_names(idata: Any) -> tuple[str, ...]:
    """Names of the groups of ``idata``, in their order.

    Raises
    ------
    TypeError
        If ``idata`` is neither an InferenceData nor a DataTree.
    """
    groups = getattr(idata, "groups", None)
    if callable(groups):  # InferenceData
        return tuple(groups())
    if hasattr(idata, "children"):  # DataTree
        return tuple(idata.children)
    kind = type(idata).__name__
    raise TypeError(f"idata must be inference data of ArviZ (InferenceData or DataTree), got {shown(idata)} ({kind})")


def group_of(idata: Any, name: str) -> xarray.Dataset:
    """Group ``name`` of ``idata`` as a Dataset.

    Raises
    ------
    TypeError
        If ``idata`` is no inference data.
    ValueError
        If it has no such group.
    """
    names = group_names(idata)
    if name not in names:
        raise ValueError(f"idata must have a group {name!r}, got {', '.join(names) or 'no groups'}")
    found = idata[name]
    return found if is_dataset(found) else found.to_dataset()


def posterior_of(idata: Any) -> xarray.Dataset:
    """Posterior draws; a Dataset or a single group is taken to be the posterior itself.

    Raises
    ------
    TypeError
        If ``idata`` is no inference data.
    ValueError
        If it has no group "posterior", or no draws by chain: stacked ones, or those of one chain.

    Examples
    --------
    >>> import xarray
    >>> draws = xarray.Dataset({"x": (("chain", "draw"), [[1.0, 2.0]])})
    >>> tree = xarray.DataTree.from_dict({"posterior": draws})
    >>> [posterior_of(given)["x"].shape for given in (tree, tree["posterior"], draws)]
    [(1, 2), (1, 2), (1, 2)]
    """
    if is_dataset(idata):
        found = idata
    else:
        found = idata.to_dataset() if is_group(idata) else group_of(idata, "posterior")
    if found.data_vars and not {"chain", "draw"} <= set(found.dims):
        rule = "idata must hold draws with the dimensions 'chain' and 'draw', not stacked and not of one chain alone"
        raise ValueError(f"{rule}, got {shown(tuple(found.dims))}")
    return found


def last_labels(variable: xarray.DataArray) -> list[Any] | None:
    """Labels of the last dimension of a variable, None where it has none."""
    last = variable.dims[-1]
    return variable.coords[last].to_numpy().tolist() if last in variable.coords else None
