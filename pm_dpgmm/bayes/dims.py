"""Mixtures for models with named dimensions (``import pymc.dims as pmd``): the same laws as variables of xtensor type.

``from pm_dpgmm.bayes import dims as dpd``; what they return goes into ``pmd`` distributions, and ``release.observe``
takes parameters of either kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import xarray

from pm_dpgmm._arguments import shown
from pm_dpgmm.bayes.coords import add_dim, model_of
from pm_dpgmm.bayes.parameters import params as mixture_parameters
from pm_dpgmm.bayes.parameters.named_parameters import has_dims
from pm_dpgmm.bayes.prior import priors
from pm_dpgmm.bayes.prior.measurement import density_of
from pm_dpgmm.bayes.pymc_compat import with_dims
from pm_dpgmm.bayes.rows import density
from pm_dpgmm.mixture.mixture import Mixture


def prior(
    name: str, release: Any, *, dims: str | Sequence[str], form: str = "auto", inflate: float = 1.0, model: Any = None
) -> Any:
    """Random vectors with the released density: ``release.prior`` with named dimensions.

    Parameters
    ----------
    release : Release or Mixture
    name, dims, form, inflate, model
        As for :func:`pm_dpgmm.bayes.mixture_prior`; ``dims`` are needed.

    Returns
    -------
    XTensorVariable with dimensions ``dims``
        In the unit of the records.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc.dims as pmd
    >>> g = Mixture([0.5, 0.5], [[0.0, 0.0], [2.0, 0.0]], [[[1.0, 0.0], [0.0, 1.0]]] * 2)
    >>> with pm.Model(coords={"patient": range(4)}) as model:
    ...     x = prior("x", g, dims=("patient", "feature"))
    ...     total = pmd.Deterministic("total", x.sum("feature"))
    >>> x.dims, total.dims
    (('patient', 'feature'), ('patient',))
    """
    if dims is None:
        raise ValueError("dims must be one or more names, got None")
    given: dict[str, Any] = {"dims": dims, "form": form, "inflate": inflate, "model": model}
    mixture = density_of(release)
    vector = priors.mixture_prior(name, mixture, **given) if mixture is release else release.prior(name, **given)
    return with_dims(vector, dims=priors.listed_dims(dims))


def params(
    name: str, release: Any, *, dims: Sequence[str] = ("component", "feature"), model: Any = None, **scales: Any
) -> mixture_parameters.GMMParams:
    """Parameters of a mixture near the released one: ``release.params`` with named dimensions.

    Parameters
    ----------
    release : Release or Mixture
    name, dims, model, **scales
        As for :func:`pm_dpgmm.bayes.release_params`, of a Mixture :func:`pm_dpgmm.bayes.mixture_params`.

    Returns
    -------
    GMMParams
        Of variables with dimensions (component), (component, feature) and (component, feature, feature_bis).

    Examples
    --------
    >>> import pymc as pm
    >>> g = Mixture([0.4, 0.6], [[0.0], [5.0]], [[[1.0]], [[2.0]]])
    >>> with pm.Model() as model:
    ...     near = params("g", g, weight_conc=100, mean_scale=0.2, cov_scale=0.15)
    >>> near.means.dims, near.chol.dims
    (('component', 'feature'), ('component', 'feature', 'feature_bis'))
    """
    if isinstance(release, Mixture):
        found = mixture_parameters.mixture_params(name, release, dims=dims, model=model, **scales)
    else:
        found = mixture_parameters.release_params(release, name, dims=dims, model=model, **scales)
    component, feature = dims
    square = (component, feature, f"{feature}_bis")
    return replace(
        found,
        weights=with_dims(found.weights, dims=(component,)),
        means=with_dims(found.means, dims=(component, feature)),
        chol=with_dims(found.chol, dims=square),
        covariances=with_dims(found.covariances, dims=square),
    )


def gmm(
    name: str, th: Any, *, observed: Any = None, dims: Sequence[str] = ("obs", "feature"), model: Any = None
) -> Any:
    """Independent rows from a mixture, the labels summed out: ``dpg.gmm`` with named dimensions.

    Parameters
    ----------
    name : str
    th : GMMParams, Mixture, Release, or any object with ``weights``, ``means`` and ``chol``
        Their variables may have named dimensions, in any order: the one of ``weights`` is that of components.
    observed : xarray.DataArray, ``pmd.Data`` or what ``dpg.gmm`` takes, optional
        Those with names are brought into the order of ``dims``, and coordinates become the model's where it has none.
    dims : two str
        Of rows and of features.
    model : pymc.Model, optional
        The model on the context stack by default.

    Returns
    -------
    XTensorVariable with dimensions ``dims``

    Raises
    ------
    TypeError, ValueError
        As :func:`pm_dpgmm.gmm`, or if ``observed`` has other dimensions.

    Examples
    --------
    >>> import pymc as pm
    >>> g = Mixture([0.4, 0.6], [[0.0], [5.0]], [[[1.0]], [[2.0]]])
    >>> with pm.Model() as model:
    ...     y = gmm("y", g, observed=xarray.DataArray([[0.3, 4.0]], dims=("feature", "obs")))
    >>> y.dims, model["y"].eval(mode="FAST_COMPILE").shape
    (('obs', 'feature'), (2, 1))
    """
    if isinstance(dims, str) or len(dims) != 2:
        raise ValueError(f"dims must be two names, of rows and of features, got {shown(dims)}")
    named = observed.type.dims if has_dims(observed) else getattr(observed, "dims", None)
    if named is not None and set(named) != set(dims):
        raise ValueError(f"observed must have the dimensions {tuple(dims)}, got {tuple(named)}")
    with model_of(model) as owner:
        if has_dims(observed):
            observed = observed.transpose(*dims).values
        elif isinstance(observed, xarray.DataArray):
            observed = _rows(observed.transpose(*dims), owner)
        return with_dims(density.gmm(name, th, observed=observed, dims=tuple(dims)), dims=tuple(dims))


def _rows(observed: xarray.DataArray, model: Any) -> Any:
    """Values, as a table where the columns have names; adds the coordinates of rows."""
    labels = {dim: observed.coords[dim].values.tolist() for dim in observed.dims if dim in observed.coords}
    rows, columns = observed.dims
    if rows in labels:
        add_dim(model, str(rows), observed.sizes[rows], labels[rows])
    if columns in labels and all(isinstance(label, str) for label in labels[columns]):
        return pd.DataFrame(observed.values, columns=labels[columns])
    return observed.values
