"""The posterior of a vector with a mixture prior that was measured with normal noise: a mixture, in closed form.

Imports no PyMC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from pm_dpgmm._arguments import FloatArray, read_numbers, shown
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.records.feature_names import axes_in_order, axis_labels
from pm_dpgmm.records.transformed_columns import refuse_transformations

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

SYMMETRIC = 1e-9  # relative; products of matrices are symmetric up to rounding


def gaussian_posterior(
    release: Released | Mixture,
    observed: ArrayLike,
    noise_cov: ArrayLike,
    *,
    design: ArrayLike | None = None,
    offset: ArrayLike | None = None,
) -> Mixture:
    """Exact posterior of x, which has the released density, given one measurement observed = A x + b + N(0, noise_cov).

    No sampler is needed where the noise is known; where it is not, ``release.measured`` has the same law in a model.
    Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release or Mixture
        K components in D dimensions; a background of a release is one more, the last.
    observed : array_like, shape (M,)
        NaN where nothing was measured. Labels of a Series, as of ``noise_cov`` and ``offset``, are matched with the
        features, or with the labels of the rows of ``design``.
    noise_cov : array_like, shape (M, M)
        Covariance of the noise, in the unit of ``observed`` squared.
    design : array_like, shape (M, D), optional
        A; the identity by default.
    offset : array_like, shape (M,), optional
        b; zero by default.

    Returns
    -------
    Mixture
        Components in the order of the prior's; its weights are the responsibilities.

    Raises
    ------
    TypeError
        If ``release`` is neither a Release nor a Mixture.
    ValueError
        If a release has transformations of columns, a shape does not fit, a number is infinite, or ``noise_cov`` is
        not symmetric and positive definite.

    Examples
    --------
    >>> g = Mixture([0.5, 0.5], [[0.0], [6.0]], [[[1.0]], [[1.0]]])
    >>> found = gaussian_posterior(g, [4.0], [[1.0]])
    >>> found.weights.round(3), found.means.ravel()
    (array([0.047, 0.953]), array([2., 5.]))
    """
    mixture = prior_of(release, function="gaussian_posterior")
    names = getattr(release, "feature_names", None)
    observed, noise_cov, design, offset = labelled(names, observed, noise_cov, design, offset)
    numbers: Any = observed
    if isinstance(numbers, np.ma.MaskedArray):
        numbers = np.ma.filled(numbers.astype(float), np.nan)
    y = read_numbers(numbers, "observed")
    if y.ndim != 1 or y.size == 0 or np.isinf(y).any():
        raise ValueError(
            f"observed must hold finite numbers, or NaN where one is missing, in shape (M,), got {shown(y)}"
        )
    m, d = y.size, mixture.n_features
    a = read_numbers(default_design(m, d) if design is None else design, "design")
    b = np.zeros(m) if offset is None else read_numbers(offset, "offset")
    noise = read_numbers(noise_cov, "noise_cov")
    for name, array, shape in (("design", a, (m, d)), ("offset", b, (m,)), ("noise_cov", noise, (m, m))):
        if array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite numbers of shape {shape}, got {shown(array)}")
    check_covariance(noise)
    there = ~np.isnan(y)
    y, a, b, noise = y[there], a[there], b[there], noise[np.ix_(there, there)]
    factors = np.linalg.cholesky(mixture.covariances)
    seen = a @ factors  # (K, M, D)
    roots = np.linalg.cholesky(seen @ seen.swapaxes(1, 2) + noise)
    residuals = np.linalg.solve(roots, (y - b - mixture.means @ a.T)[..., None])[..., 0]
    gains = np.linalg.solve(roots, seen)
    means = mixture.means + (factors @ (gains.swapaxes(1, 2) @ residuals[..., None]))[..., 0]
    # as (1 + B'B)^-1 with B in units of the noise: a difference would lose its digits where the noise is small
    scaled = np.linalg.solve(np.linalg.cholesky(noise), seen)
    inner = np.linalg.cholesky(np.eye(d) + scaled.swapaxes(1, 2) @ scaled)
    spread = np.linalg.solve(inner, factors.swapaxes(1, 2))
    evidence = -0.5 * (residuals**2).sum(axis=1) - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    with np.errstate(divide="ignore"):
        evidence = evidence + np.log(mixture.weights)
    return Mixture(softmax(evidence), means, spread.swapaxes(1, 2) @ spread)


def density_of(release: Any) -> Mixture:
    """The whole density of a release, or the mixture itself; TypeError if it is neither."""
    mixture = release if isinstance(release, Mixture) else getattr(release, "density", None)
    if not isinstance(mixture, Mixture):
        raise TypeError(
            f"release must be a Release or a Mixture, got {shown(release)} of type {type(release).__name__}"
        )
    return mixture


def prior_of(release: Any, *, function: str) -> Mixture:
    """:func:`density_of`, in the unit of the records: ValueError, about ``function``, where columns are transformed."""
    mixture = density_of(release)
    if mixture is not release:
        instead = "release.prior(name) and a likelihood: measurements are linear in the records"
        refuse_transformations(release.transformations, release.feature_names, function, instead)
    return mixture


def labelled(features: Sequence[str] | None, observed: Any, noise: Any, design: Any, offset: Any) -> tuple[Any, ...]:
    """Measurement, noise, design and offset, those with texts for labels in the order of ``features``.

    Without a design measurements are features; with one its columns are, and measurements have the labels of its rows,
    where those are texts. ValueError where labels are others.
    """
    of_rows = axis_labels(design, 0, ()) if getattr(design, "ndim", 0) == 2 else None
    own = features if design is None else of_rows
    return (
        axes_in_order(observed, (own,), name="observed"),
        axes_in_order(noise, (own, own), name="noise_cov"),
        axes_in_order(design, (None, features), name="columns of design"),
        axes_in_order(offset, (own,), name="offset"),
    )


def default_design(n_measured: int, n_features: int) -> FloatArray:
    """The identity; ValueError where there are more or fewer measurements than features."""
    if n_measured != n_features:
        raise ValueError(
            f"design must be given where observed has not the {n_features} features of the prior, got {n_measured}"
            " values"
        )
    return np.eye(n_features)


def check_covariance(noise: FloatArray) -> None:
    """ValueError unless ``noise`` (..., M, M) is symmetric and positive definite."""
    largest = np.abs(noise).max(initial=0.0)
    try:
        if np.abs(noise - noise.swapaxes(-1, -2)).max() <= SYMMETRIC * largest:
            np.linalg.cholesky(noise)
            return
    except np.linalg.LinAlgError:
        pass
    raise ValueError(f"noise_cov must be symmetric and positive definite, got {shown(noise)}")
