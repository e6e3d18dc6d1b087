"""After sampling: which component is which, and which rows belong to it. Rows are the analyst's own: what is
computed from them is not private."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray
from scipy.optimize import linear_sum_assignment

from pm_dpgmm._arguments import FloatArray, check_text, shown
from pm_dpgmm.bayes.arviz_compat import posterior_of, with_posterior
from pm_dpgmm.bayes.rows.missing import patterns, read_rows
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture, shares_of
from pm_dpgmm.posterior_draws import last_labels
from pm_dpgmm.privacy.noise import IntArray
from pm_dpgmm.records.feature_names import check_columns, check_order
from pm_dpgmm.records.transformed_columns import TransformedColumns

BLOCK = 2_000_000  # numbers at a time: draws x rows x components


def relabel(
    idata: Any,
    to: Any,
    *,
    means: str | None = None,
    covariances: str | None = None,
    dim: str = "component",
) -> Any:
    """Posterior draws with the components of every draw in the order of a release.

    Each draw gets the assignment (Hungarian method) with the smallest sum of distances between its components and
    those of ``to``: Kullback-Leibler divergences, or squared Mahalanobis distances of the means where the draws have
    no covariances. Distances have no unit and do not change with affine maps of the data.

    Parameters
    ----------
    idata : InferenceData, DataTree or Dataset
        Posterior draws; a Dataset is taken to be the posterior. Not modified.
    to : Release or Mixture
        K components.
    means, covariances : str, optional
        Variables with dimensions (chain, draw, ``dim``, feature[, feature]); by default the only ones named "means"
        or "..._means" (and covariances likewise) that have the dimension ``dim``.
    dim : str
        Dimension of the components.

    Returns
    -------
    of the type of ``idata``
        Every variable of the posterior with the dimension ``dim`` is permuted, draw by draw. Others are not: offsets
        of ``params`` stay those that were sampled, and a variable whose **values** are labels keeps them. The
        posterior's attribute ``relabelled_draws`` counts the draws that changed.

    Raises
    ------
    TypeError, ValueError
        If ``idata`` has no such variables or they do not fit ``to``.

    Examples
    --------
    >>> g = Mixture([0.4, 0.6], [[0.0], [5.0]], [[[1.0]], [[2.0]]])
    >>> draws = xarray.Dataset({"means": (("chain", "draw", "component", "feature"), [[[[5.1], [0.2]]]])})
    >>> relabel(draws, g)["means"].values.ravel().tolist()
    [0.2, 5.1]
    """
    posterior = posterior_of(idata)
    target = _as_mixture(to)
    centre = _variable(posterior, means, "means", dim, ndim=4)
    spread = _variable(posterior, covariances, "covariances", dim, ndim=5, optional=True)
    shape = (target.n_components, target.n_features)
    if centre.shape[2:] != shape:
        raise ValueError(f"{centre.name} must have shape (chain, draw, {shape[0]}, {shape[1]}), got {centre.shape}")
    check_order(last_labels(centre), getattr(to, "feature_names", None), name=str(centre.name))
    if spread is not None and spread.shape[2:] != (*shape, shape[1]):
        rule = f"must have shape (chain, draw, {shape[0]}, {shape[1]}, {shape[1]})"
        raise ValueError(f"{spread.name} {rule}, got {spread.shape}")
    order = _assignments(
        centre.to_numpy().reshape(-1, *shape),
        None if spread is None else spread.to_numpy().reshape(-1, *shape, shape[1]),
        target,
    )
    changed = (order != np.arange(len(order[0]))).any(axis=1)
    index = xarray.DataArray(order.reshape(*centre.shape[:2], -1), dims=("chain", "draw", dim))
    result = posterior.copy()
    for name, variable in posterior.data_vars.items():
        if dim in variable.dims and {"chain", "draw"} <= set(variable.dims):
            taken = variable.drop_vars(dim, errors="ignore").isel({dim: index})
            result[name] = (variable.dims, taken.transpose(*variable.dims).to_numpy(), variable.attrs)
    result.attrs = posterior.attrs | {"relabelled_draws": int(changed.sum())}
    return with_posterior(idata, result)


def label_probs(
    idata: Any,
    X: Any,
    *,
    weights: str | None = None,
    means: str | None = None,
    covariances: str | None = None,
    dim: str = "component",
    transformations: TransformedColumns | None = None,
) -> xarray.DataArray:
    """Posterior probability of every component for rows of data, averaged over the posterior draws.

    Parameters
    ----------
    idata : InferenceData, DataTree or Dataset
        Posterior draws with their labels in order: from an anchored prior, or after :func:`relabel`.
    X : array_like, DataFrame or Arrow table, shape (N, D)
        Rows; columns that have names must be the features of the draws, where these have names. NaN, masked and NA
        entries are missing and integrated out. A row without any value gets the weights.
    weights, means, covariances, dim : str, optional
        Variables, as for :func:`relabel`.
    transformations : TransformedColumns, optional
        ``release.transformations`` of the release that the draws are of, where it has some: their means are in the
        transformed unit then, rows in that of the records. Numbers that have no value there count as the nearest.

    Returns
    -------
    xarray.DataArray, dimensions ("obs", ``dim``)
        Probabilities; every row sums to 1. ``obs`` has the index of a pandas DataFrame.

    Raises
    ------
    TypeError, ValueError
        If ``X`` is not numeric, has other columns than the draws or another order of them, or a variable is not found.

    Examples
    --------
    >>> dims = ("chain", "draw", "component", "feature", "feature_bis")
    >>> draws = xarray.Dataset({
    ...     "weights": (dims[:3], [[[0.5, 0.5]]]),
    ...     "means": (dims[:4], [[[[0.0], [4.0]]]]),
    ...     "covariances": (dims, [[[[[1.0]], [[1.0]]]]]),
    ... })
    >>> label_probs(draws, [[0.0], [2.0], [np.nan]]).round(3).values.tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    """
    posterior = posterior_of(idata)
    found = [
        _variable(posterior, given, kind, dim, ndim=ndim)
        for given, kind, ndim in ((weights, "weights", 3), (means, "means", 4), (covariances, "covariances", 5))
    ]
    rows, columns_of_rows = read_rows(X, name="X")
    check_columns(columns_of_rows, last_labels(found[1]), name="X")
    w, m, s = (part.to_numpy().reshape(-1, *part.shape[2:]) for part in found)
    n_components, n_features = m.shape[1:]
    shapes = [part.shape[1:] for part in (w, m, s)]
    if shapes != [(n_components,), (n_components, n_features), (n_components, n_features, n_features)]:
        raise ValueError(f"weights, means and covariances must have shapes (K,), (K, D) and (K, D, D), got {shapes}")
    if not ((w >= 0).all() and (abs(w.sum(axis=1) - 1) <= 1e-5).all()):
        raise ValueError("weights must not be negative and must sum to 1 in every draw, got some that are or do not")
    try:
        np.linalg.cholesky(s)
    except np.linalg.LinAlgError:
        raise ValueError("covariances must be positive definite in every draw, got one that is not") from None
    if rows.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} columns, one for each feature, got {rows.shape[1]}")
    if transformations is not None:
        if not isinstance(transformations, TransformedColumns) or transformations.n_features != n_features:
            rule = f"transformations must be those of a release with {n_features} columns"
            raise ValueError(f"{rule}, got {shown(transformations)}")
        rows = np.where(np.isnan(rows), np.nan, transformations.of_records(rows))
    with np.errstate(divide="ignore"):
        logs = np.log(w)
    result = np.empty((len(rows), n_components))
    result[:] = w.mean(axis=0)  # rows without any value
    present, which = patterns(rows)
    for kind, seen in enumerate(present):
        columns = np.flatnonzero(seen).tolist()
        if not columns:
            continue
        members = np.flatnonzero(which == kind)
        whiteners = np.linalg.inv(np.linalg.cholesky(s[:, :, columns][..., columns]))
        heights = logs + np.log(np.diagonal(whiteners, axis1=2, axis2=3)).sum(axis=2) - 0.5 * len(columns) * LOG_2PI
        size = max(1, BLOCK // (len(w) * n_components * len(columns)))
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            with np.errstate(over="ignore", invalid="ignore"):
                offsets = rows[chosen][:, columns][:, None, None, :] - m[:, :, columns]
                whitened = np.einsum("skij,nskj->nski", whiteners, offsets)
                joint = heights - 0.5 * (whitened**2).sum(axis=3)
            joint = np.where(np.isnan(joint), -np.inf, joint)  # too far for a float, as all may be
            result[chosen] = shares_of(joint, logs).mean(axis=1)
    coords = {dim: posterior[dim].to_numpy()} if dim in posterior.coords else {}
    if hasattr(X, "iloc"):
        coords["obs"] = X.index.to_numpy()
    return xarray.DataArray(result, dims=("obs", dim), coords=coords, name="label_probs")


def nearest_order(mixture: Mixture, base: Mixture) -> IntArray:
    """Places in ``mixture`` of the components nearest to those of ``base``, shape (K,)."""
    return _assignments(mixture.means[None], mixture.covariances[None], base)[0]


def _assignments(means: FloatArray, covariances: FloatArray | None, target: Mixture) -> IntArray:
    """For every draw (S, K) the component that takes the place of each of the target's."""
    precisions = np.linalg.inv(target.covariances)
    gaps = means[:, :, None, :] - target.means  # (S, K of the draw, K of the target, D)
    costs = np.einsum("sklj,lji,skli->skl", gaps, precisions, gaps)
    if covariances is not None:  # log-determinants are left out: they add up to the same for every assignment
        costs = costs + np.einsum("lij,skji->skl", precisions, covariances)
    k = target.n_components
    # most draws are in order already: the best of every row and of every column is then on the diagonal
    diagonal = np.arange(k)
    order = np.tile(diagonal, (len(means), 1))
    for draw in np.flatnonzero((costs.argmin(axis=2) != diagonal).any(axis=1)):
        row, column = linear_sum_assignment(costs[draw])
        order[draw, column] = row
    return np.asarray(order, dtype=np.int64)


def _variable(
    posterior: xarray.Dataset, given: str | None, kind: str, dim: str, *, ndim: int, optional: bool = False
) -> Any:
    """The variable with chain and draw first, then components, its values numbers."""
    check_text(dim=dim)
    if given is None:
        names = [
            str(name)
            for name, variable in posterior.data_vars.items()
            if (name == kind or str(name).endswith(f"_{kind}")) and dim in variable.dims and variable.ndim == ndim
        ]
        if optional and not names:
            return None
        if len(names) != 1:
            known = ", ".join(map(str, posterior.data_vars)) or "none"
            what = "more than one, " + ", ".join(names) if names else f"none among {known}"
            raise ValueError(f"{kind} must name a variable with dimension {dim!r} of the posterior; found {what}")
        given = names[0]
    if not isinstance(given, str) or given not in posterior.data_vars:
        raise ValueError(f"{kind} must name a variable of the posterior, got {shown(given)}")
    variable = posterior[given]
    if dim not in variable.dims or variable.ndim != ndim or not {"chain", "draw"} <= set(variable.dims):
        raise ValueError(
            f"{given} must have {ndim} dimensions, chain, draw and {dim!r} among them, got {variable.dims}"
        )
    if variable.dtype.kind not in "iuf":
        raise TypeError(f"{given} must hold numbers, got values of type {variable.dtype}")
    if not np.isfinite(variable.values).all() or not variable.size:
        raise ValueError(f"{given} must hold at least one draw, and finite numbers, got {variable.size} numbers")
    rest = [name for name in variable.dims if name not in ("chain", "draw", dim)]
    return variable.transpose("chain", "draw", dim, *rest)


def _as_mixture(to: Any) -> Mixture:
    found = to if isinstance(to, Mixture) else getattr(to, "mixture", None)
    if not isinstance(found, Mixture):
        raise TypeError(f"to must be a Release or a Mixture, got {shown(to)} of type {type(to).__name__}")
    return found
