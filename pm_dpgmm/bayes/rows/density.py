"""Rows from a Gaussian mixture with random parameters: log density without labels, missing values, predictive draws.

One compiled operation instead of ``pm.Mixture(MvNormal)``, whose gradient takes far longer when the covariances are
random (``python -m verification.benchmarks.gmm_density``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pm_dpgmm._arguments import shown
from pm_dpgmm.bayes.coords import add_dim, check_apart, check_new, last_coordinates, model_of, read_shape
from pm_dpgmm.bayes.parameters.named_parameters import features_of, without_names
from pm_dpgmm.bayes.parameters.own_parameters import of_one_mixture
from pm_dpgmm.bayes.pymc_compat import is_valid_observed
from pm_dpgmm.bayes.rows.density_operation import mixture_log_density
from pm_dpgmm.bayes.rows.missing import BoolArray, patterns, read_rows
from pm_dpgmm.bayes.rows.transformed import check_graph, check_observed, in_transformed_unit, in_units
from pm_dpgmm.privacy.noise import IntArray
from pm_dpgmm.records.feature_names import check_columns, check_order
from pm_dpgmm.records.transformed_columns import TransformedColumns


def gmm(
    name: str,
    th: Any,
    *,
    observed: Any = None,
    dims: Sequence[str] | None = None,
    shape: Sequence[int] | None = None,
    model: Any = None,
    **kwargs: Any,
) -> Any:
    """Add to a PyMC model independent rows from a Gaussian mixture, the labels summed out.

    The log density is elementwise: one number for each row, as ``pm.compute_log_likelihood`` and LOO need it.

    Parameters
    ----------
    name : str
        Name of the variable.
    th : GMMParams, Mixture, Release, or any object with ``weights``, ``means`` and ``chol`` (or ``covariances``)
        Parameters: (K,), (K, D), (K, D, D) lower triangular with positive diagonal; arrays or PyTensor variables. Of a
        release its ``density``, background and all. If ``th`` is anchored to a release or observed, the rows must be
        of other people than that release. Where that release has transformations of columns, ``th`` is in the
        transformed unit, and rows, densities and draws are in the unit of the records.
    observed : array_like, DataFrame or Arrow table, shape (N, D), optional
        Data; columns that have names must be the features of ``th``, or else the model's coordinates. NaN, masked and
        NA entries are missing: they are integrated out exactly, assumed missing at random. A row without any value has
        density 1. A ``pm.Data`` variable cannot have missing values; its columns must not be features in another order,
        by the model's coordinates. Posterior predictive draws are of complete rows.
    dims : sequence of two str, optional
        Such as ``("obs", "feature")``; what the model does not have yet is added; the columns of a DataFrame, or else
        the features of ``th``, are the coordinates of features.
    shape : sequence of int, optional
        (N, D) without data and dims.
    model : pymc.Model, optional
        The model on the context stack by default.
    **kwargs
        For ``pm.CustomDist``, such as ``initval``.

    Returns
    -------
    TensorVariable, shape (N, D)

    Raises
    ------
    TypeError, ValueError
        If ``observed`` is not numeric of shape (N, D), holds an infinite number, or has other columns than the features
        of ``th`` or the model's coordinates, or another order of them; if ``dims`` are not two names or have other
        lengths.

    See Also
    --------
    gmm_dist : the same without a name, also as ``gmm.dist``.

    Examples
    --------
    >>> import pymc as pm
    >>> from pm_dpgmm.mixture.mixture import Mixture
    >>> g = Mixture([0.3, 0.7], [[0.0, 0.0], [4.0, 1.0]], [[[1.0, 0.0], [0.0, 1.0]]] * 2)
    >>> with pm.Model() as model:
    ...     y = gmm("y", g, observed=[[0.1, np.nan], [4.2, 0.7]], dims=("obs", "feature"))
    >>> round(float(model.compile_logp(mode="FAST_COMPILE")({})), 3)
    -4.386
    """
    parameters = _parameters(th)
    moved = getattr(th, "transformations", None)  # of a release, and of parameters around one
    check_graph(moved, "th")
    with model_of(model) as owner:
        check_new(owner, name)
        if dims is not None:
            _check_dims(dims)
            check_apart(name, dims)
        holes = None
        known = features_of(th, owner)
        if observed is not None and not isinstance(observed, pt.Variable):
            rows, columns = read_rows(observed)
            features = getattr(th, "feature_names", None)
            check_columns(columns, features, name="observed")
            width = parameters[1].type.shape[-1]
            if width is not None and rows.shape[1] != width:
                raise ValueError(f"observed must have {width} columns, one for each feature, got {rows.shape[1]}")
            if dims is not None:
                _add_dims(owner, dims, rows.shape, known if columns is None else columns)
                if features is None:
                    check_columns(columns, owner.coords.get(dims[1]), name="observed")
            check_order(columns, known, name="observed")
            if moved is not None:
                check_observed(rows, moved, features)
            holes = patterns(rows) if np.isnan(rows).any() else None
            # A constant, because PyMC would replace NaN in an array by random variables to sample.
            observed = rows if holes is None else pt.constant(rows, name=f"{name}_data")
        else:
            if observed is not None and not is_valid_observed(observed):
                raise TypeError(f"observed must be rows of numbers or pm.Data, got the variable {shown(observed)}")
            if observed is not None and observed.ndim != 2:
                raise ValueError(f"observed must have shape (N, D), got a variable of {observed.ndim} dimensions")
            check_order(last_coordinates(owner, observed), known, name="observed")
            if dims is not None:
                _add_dims(owner, dims, (None, parameters[1].type.shape[-1]), known)
                check_order(owner.coords.get(dims[1]), known, name=f"coordinates of {dims[1]!r}")
        given = {"dims": dims, "shape": None if shape is None else read_shape(shape), "observed": observed}
        given = {key: value for key, value in given.items() if value is not None}
        return pm.CustomDist(name, *parameters, **_law(holes, moved), **given, **kwargs)


def gmm_dist(th: Any, *, shape: Sequence[int] | None = None, **kwargs: Any) -> Any:
    """Unnamed rows from a Gaussian mixture, for use inside other distributions; also ``gmm.dist``.

    Parameters
    ----------
    th, shape, **kwargs
        As for :func:`gmm`; without ``shape`` one row (D,).

    Returns
    -------
    TensorVariable, shape (..., D)

    Examples
    --------
    >>> from pm_dpgmm.mixture.mixture import Mixture
    >>> density = pm.logp(gmm_dist(Mixture([1.0], [[0.0]], [[[1.0]]])), [0.0])
    >>> round(float(density.eval(mode="FAST_COMPILE")), 3)
    -0.919
    """
    size = {} if shape is None else {"shape": read_shape(shape)}
    moved = getattr(th, "transformations", None)
    check_graph(moved, "th")
    return pm.CustomDist.dist(*_parameters(th), **_law(None, moved), **size, **kwargs)


gmm.dist = gmm_dist  # type: ignore[attr-defined]  # as every distribution of PyMC has it


def _law(holes: tuple[BoolArray, IntArray] | None, moved: TransformedColumns | None) -> dict[str, Any]:
    """Arguments of CustomDist; ``holes`` are the patterns of missing values and which of them every row has.

    With ``moved`` rows are in the unit of the records, and parameters in the transformed one.
    """

    def log_density(value: Any, weights: Any, means: Any, chol: Any) -> Any:
        if moved is None:
            return mixture_log_density(value, weights, means, chol, holes)
        value, slopes = in_transformed_unit(value, moved, missing=holes is not None)
        return mixture_log_density(value, weights, means, chol, holes) + slopes

    def draw(weights: Any, means: Any, chol: Any, size: Any) -> Any:
        label = pm.Categorical.dist(p=weights, size=size)
        offset = pm.Normal.dist(pt.zeros((*label.shape, means.shape[-1])), 1)
        rows = means[label] + (chol[label] * offset[..., None, :]).sum(axis=-1)
        return rows if moved is None else in_units(rows, moved)

    def start(rv: Any, size: Any, weights: Any, means: Any, chol: Any) -> Any:
        middle = pt.zeros_like(rv) + means[pt.argmax(weights)]
        return middle if moved is None else in_units(middle, moved)

    return {
        "dist": draw,
        "logp": log_density,
        "support_point": start,
        "signature": "(k),(k,d),(k,d,d)->(d)",
        "class_name": "GaussianMixture",
    }


def _parameters(th: Any) -> tuple[Any, Any, Any]:
    """Weights, means and factors of ``th`` as tensors with known shapes where they are known."""
    th = without_names(getattr(th, "density", th))  # a release's background is part of its density
    missing = [name for name in ("weights", "means") if not hasattr(th, name)]
    if missing or not (hasattr(th, "chol") or hasattr(th, "covariances")):
        raise TypeError(
            f"th must have weights, means and chol, as release.params() and Mixture do, got {shown(th)} of type"
            f" {type(th).__name__}"
        )
    if hasattr(th, "chol"):
        chol = th.chol
    elif isinstance(th.covariances, pt.Variable):
        chol = pt.linalg.cholesky(th.covariances)
    else:
        chol = np.linalg.cholesky(np.asarray(th.covariances, dtype=float))
    weights, means, chol = (pt.as_tensor_variable(part) for part in (th.weights, th.means, chol))
    for part, name, ndim in ((weights, "weights", 1), (means, "means", 2), (chol, "chol", 3)):
        if part.ndim != ndim:
            raise ValueError(f"{name} of th must have {ndim} dimensions, got {part.ndim}")
    return of_one_mixture(weights, means, chol)


def _check_dims(dims: Any) -> None:
    if not isinstance(dims, (tuple, list)) or len(dims) != 2 or not all(isinstance(dim, str) for dim in dims):
        raise ValueError(f"dims must be two names, of rows and of features, got {shown(dims)}")


def _add_dims(model: Any, dims: Sequence[str], shape: Sequence[int | None], columns: tuple[str, ...] | None) -> None:
    """Add the dimensions that ``model`` does not have; ValueError when those it has do not fit."""
    for dim, length, names in zip(dims, shape, (None, columns), strict=True):
        if length is not None:
            add_dim(model, dim, length, names)
        elif dim not in model.dim_lengths:
            known = ", ".join(map(repr, model.dim_lengths)) or "none"
            raise ValueError(f"dims without data must be in the model ({known}), got {dim!r}")
