"""Groups of inference data, whichever ArviZ made it: ``InferenceData`` (before 1.0) or a DataTree of xarray (from 1.0).

The only module that knows the difference: the others read and build ``xarray.Dataset`` objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz
import xarray

from pm_dpgmm._arguments import shown


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
    return found if isinstance(found, xarray.Dataset) else found.to_dataset()


def posterior_of(idata: Any) -> xarray.Dataset:
    """Posterior draws, dimensions ``chain`` and ``draw`` first; a Dataset is taken to be the posterior itself.

    Raises
    ------
    TypeError
        If ``idata`` is no inference data.
    ValueError
        If it has no group "posterior".

    Examples
    --------
    >>> idata = inference_data(posterior=xarray.Dataset({"x": (("chain", "draw"), [[1.0, 2.0]])}))
    >>> posterior_of(idata)["x"].shape, posterior_of(posterior_of(idata))["x"].shape
    ((1, 2), (1, 2))
    """
    return idata if isinstance(idata, xarray.Dataset) else group_of(idata, "posterior")


def with_group(idata: Any, name: str, dataset: xarray.Dataset) -> Any:
    """A copy of ``idata`` in which group ``name`` is ``dataset``; the other groups are shared, not copied."""
    groups = {known: group_of(idata, known) for known in group_names(idata)}
    return inference_data(attrs=getattr(idata, "attrs", None), **(groups | {name: dataset}))


def inference_data(attrs: Mapping[str, Any] | None = None, **groups: xarray.Dataset) -> Any:
    """Inference data of the installed ArviZ from Datasets by group.

    Parameters
    ----------
    attrs : mapping, optional
        Of the whole object: plain numbers and text, so that it can be written to a file.
    **groups : xarray.Dataset
        ``posterior=``, ``constant_data=`` and so on.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        What ``pm.sample`` returns with the installed version.
    """
    if hasattr(arviz, "InferenceData"):
        return arviz.InferenceData(attrs=dict(attrs or {}), **groups)
    root = xarray.Dataset(attrs=dict(attrs or {}))
    return xarray.DataTree.from_dict({"/": root, **{f"/{name}": dataset for name, dataset in groups.items()}})
