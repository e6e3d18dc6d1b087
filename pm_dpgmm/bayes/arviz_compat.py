"""Inference data for whichever ArviZ is installed: ``InferenceData`` (before 1.0) or a DataTree of xarray (from 1.0).

With ``posterior_draws``, which reads them, the only module that knows the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import arviz
import xarray

from pm_dpgmm.posterior_draws import group_names, group_of, is_dataset, is_group, posterior_of

__all__ = ["group_names", "group_of", "inference_data", "posterior_of", "with_group", "with_posterior"]


def with_posterior(idata: Any, posterior: xarray.Dataset) -> Any:
    """``posterior`` in the place of the draws of ``idata``: a Dataset, a group or whole inference data, as it is."""
    if is_dataset(idata):
        return posterior
    if is_group(idata):
        return xarray.DataTree(posterior, name=idata.name)
    return with_group(idata, "posterior", posterior)


def with_group(idata: Any, name: str, dataset: xarray.Dataset) -> Any:
    """A copy of ``idata`` in which group ``name`` is ``dataset``; the other groups are shared, not copied."""
    if isinstance(idata, xarray.DataTree):  # its groups may hold groups of their own
        changed = idata.copy()
        if name in changed.children:
            changed[name].dataset = dataset
        else:
            changed[name] = xarray.DataTree(dataset)
        return changed
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

    Examples
    --------
    >>> idata = inference_data(posterior=xarray.Dataset({"x": (("chain", "draw"), [[1.0, 2.0]])}))
    >>> posterior_of(idata)["x"].shape, posterior_of(posterior_of(idata))["x"].shape
    ((1, 2), (1, 2))
    """
    # ArviZ 1 answers the attribute with DataTree and a warning, which is why it is not asked for
    kind = vars(arviz).get("InferenceData")
    if kind is not None:
        return kind(attrs=dict(attrs or {}), **groups)
    root = xarray.Dataset(attrs=dict(attrs or {}))
    return xarray.DataTree.from_dict({"/": root, **{f"/{name}": dataset for name, dataset in groups.items()}})
