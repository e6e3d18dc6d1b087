"""Parameters of a Gaussian mixture as random variables around a release: the anchored prior and its weak twin."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm

from pm_dpgmm._arguments import FloatArray, check_choice, check_flag, shown
from pm_dpgmm.bayes.coords import add_dim, check_apart, check_new, model_of, read_labels
from pm_dpgmm.bayes.marks import CENTRED, mark
from pm_dpgmm.bayes.parameters.anchor import (
    LEAST_SEPARATION,
    Anchor,
    lifted_weights,
    plain_anchor,
    weak_deviations,
    with_scales,
)
from pm_dpgmm.bayes.parameters.anchor_laws import anchor_of
from pm_dpgmm.bayes.parameters.anchor_operation import parameters_at
from pm_dpgmm.bayes.parameters.centred_normal import centred_normal
from pm_dpgmm.bayes.registry import ANCHORED, check_unused, remember_use
from pm_dpgmm.mixture.background import warn_without_background
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import seeded_mark
from pm_dpgmm.records.transformed_columns import TransformedColumns

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

PRIORS = ("anchored", "weak")
NOMINAL = {"weight_conc": 200.0, "mean_scale": 0.1, "cov_scale": 0.1}  # a unit for offsets where no law is known


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GMMParams:
    """Parameters of a mixture in a PyMC model, as :func:`pm_dpgmm.gmm` and ``release.observe`` take them.

    Attributes
    ----------
    weights, means, covariances : TensorVariable, shapes (K,), (K, D), (K, D, D)
        Deterministics of the model; in the unit of the records (squared for covariances).
    chol : TensorVariable, shape (K, D, D)
        Lower Cholesky factors of the covariances.
    name : str
        Prefix of the variables in the model.
    prior : {"anchored", "weak"}
    anchor : Anchor
        The centre, and for the anchored prior the law of offsets from it.
    feature_names : tuple of str or None
        With which the columns of data frames are compared.
    private : bool
        As of the release, if it was made from one.
    transformations : TransformedColumns or None
        Of the release: all parameters are in the transformed unit.
    of_release : bool
        Whether they are around a release; around a mixture the unit is that of the mixture.
    """

    weights: Any
    means: Any
    chol: Any
    covariances: Any
    name: str
    prior: str
    anchor: Anchor
    feature_names: tuple[str, ...] | None = None
    private: bool = True
    transformations: TransformedColumns | None = None
    of_release: bool = False

    def __post_init__(self) -> None:
        check_flag(private=self.private, of_release=self.of_release)

    def __repr__(self) -> str:
        mixture = self.anchor.mixture
        lines = [
            f"<GMMParams {self.name!r}: {mixture.n_components} components, {mixture.n_features} features,"
            f" {self.prior} prior; {self.anchor.source}{seeded_mark(self.private)}"
        ]
        scales = self.anchor.typical()
        lines += [
            f"  component {k}: weight {mixture.weights[k]:.3f} +- {scales['weights'][k]:.2g}, mean +-"
            f" {scales['means'][k]:.2g} standard deviations, log standard deviation +- {scales['log_scales'][k]:.2g}"
            for k in range(mixture.n_components)
        ]
        return "\n".join(lines) + ">"


def release_params(
    release: Released,
    name: str,
    *,
    dims: Sequence[str] = ("component", "feature"),
    weight_conc: Any = "auto",
    mean_scale: Any = "auto",
    cov_scale: Any = "auto",
    prior: str = "anchored",
    model: Any = None,
) -> GMMParams:
    """Add to a PyMC model the parameters of a mixture near ``release``; the body of ``release.params``.

    Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release
    name : str
        Prefix: the free variable is ``{name}_offset`` (P,), the Deterministics ``{name}_weights``, ``{name}_means``
        and ``{name}_covariances``.
    dims : two str
        Of components and features; what the model does not have yet is added.
    weight_conc : "auto" or float
        Weights vary as those of a Dirichlet law with this concentration: variance w (1 - w) / (weight_conc + 1).
    mean_scale : "auto", float or (K,)
        Standard deviation of every mean, in standard deviations of its component.
    cov_scale : "auto", float or (K,)
        Standard deviation of the logarithms of the diagonal of the relative Cholesky factor; entries below it have
        sqrt(2) times that.
    prior : {"anchored", "weak"}
        ``"anchored"``: the released numbers are the centre, with the law of their errors
        (:func:`pm_dpgmm.bayes.parameters.anchor_laws.anchor_of`) around it. Everything the release tells is in the
        prior: do not ``observe`` it too. ``"weak"``: the same offsets with wide scales, for use **with**
        ``release.observe``: log weight ratios 1.5, means about 2 standard deviations of the whole released mixture
        (more where a component is correlated otherwise than the whole), log factors 1.
    model : pymc.Model, optional
        The model on the context stack by default.

    Returns
    -------
    GMMParams
        Its repr tells the scales.

    Raises
    ------
    TypeError, ValueError
        If a scale is out of range or cannot be found, the dimensions do not fit, or the model already has the release
        as evidence.

    Warns
    -----
    UserWarning
        With an anchored prior in which two means are less than 4 prior standard deviations apart: their labels may be
        exchanged; :func:`pm_dpgmm.relabel` puts them back.
    BackgroundWarning
        If more than 1 % of the records are in the release's background, which is left out.

    Notes
    -----
    offsets = root @ z. Anchored: z are independent standard normals, root the Cholesky factor of the offsets'
    covariance, so a sampler sees a unit normal before data come in. Weights are logistic-normal (Aitchison and Shen
    1980), which unlike a Dirichlet law has the release at offset 0, errors of any covariance, and no singularity near
    weight 0. Weak: the same root, so that one unit of z is about one posterior standard deviation under ``observe``,
    and a wide normal law of z. All offsets 0 **is** the release (weights below a thousandth of the largest are
    lifted to it), which is also where samplers start. A background of the release is no part of the parameters, nor of
    rows that ``gmm`` has from them; ``gmm(name, release)`` and ``release.prior`` have it.
    """
    check_choice(PRIORS, prior=prior)
    warn_without_background(release, "params() are of the components alone", stacklevel=3)
    given = {"weight_conc": weight_conc, "mean_scale": mean_scale, "cov_scale": cov_scale}
    if prior == "weak":
        found = _weak(name, release.mixture, _unit_of(release), given, release.feature_names, dims, model)
        return replace(found, private=release.private, transformations=release.transformations, of_release=True)
    known = {key: value for key, value in given.items() if not isinstance(value, str)}
    if len(known) == len(given):
        anchor = plain_anchor(release.mixture, **known)
    else:
        anchor = with_scales(anchor_of(release), **given)
    with model_of(model) as owner:
        found = _anchored(name, anchor, release, release.feature_names, dims, owner, depth=4)
        return replace(found, private=release.private, transformations=release.transformations, of_release=True)


def mixture_params(
    name: str,
    mixture: Mixture,
    *,
    feature_names: Sequence[str] | None = None,
    dims: Sequence[str] = ("component", "feature"),
    weight_conc: Any = "auto",
    mean_scale: Any = "auto",
    cov_scale: Any = "auto",
    prior: str = "anchored",
    model: Any = None,
) -> GMMParams:
    """Add to a PyMC model the parameters of a mixture near a given one, such as a published fit without a release.

    Parameters
    ----------
    name, dims, weight_conc, mean_scale, cov_scale, prior, model
        As for :func:`release_params`; with the anchored prior all scales must be numbers.
    mixture : Mixture
        K components in D dimensions.
    feature_names : sequence of str, length D, optional
        Coordinate values of the feature dimension when the model does not have it yet.

    Returns
    -------
    GMMParams

    Examples
    --------
    >>> import pymc as pm
    >>> from pm_dpgmm.bayes.rows.density import gmm
    >>> g = Mixture([0.4, 0.6], [[0.0], [5.0]], [[[1.0]], [[2.0]]])
    >>> with pm.Model() as model:
    ...     th = mixture_params("g", g, weight_conc=100, mean_scale=0.2, cov_scale=0.15)
    ...     y = gmm("y", th, observed=[[0.3], [4.0]], dims=("obs", "feature"))
    >>> [rv.name for rv in model.free_RVs], th.means.eval({model["g_offset"]: [0.0] * 5}, mode="FAST_COMPILE").ravel()
    (['g_offset'], array([0., 5.]))
    """
    check_choice(PRIORS, prior=prior)
    if not isinstance(mixture, Mixture):
        raise TypeError(f"mixture must be a Mixture, got {shown(mixture)} of type {type(mixture).__name__}")
    given = {"weight_conc": weight_conc, "mean_scale": mean_scale, "cov_scale": cov_scale}
    if prior == "weak":
        return _weak(name, mixture, plain_anchor(mixture, **NOMINAL), given, feature_names, dims, model)
    anchor = plain_anchor(mixture, **given)
    with model_of(model) as owner:
        return _anchored(name, anchor, mixture, feature_names, dims, owner, depth=3)


def _unit_of(release: Released) -> Anchor:
    """The law of the offsets as a unit for them: a bad one costs time, nothing else."""
    try:
        return anchor_of(release)
    except ValueError:
        return plain_anchor(release.mixture, **NOMINAL)


def _anchored(
    name: str,
    anchor: Anchor,
    source: Released | Mixture,
    feature_names: Sequence[str] | None,
    dims: Sequence[str],
    model: Any,
    *,
    depth: int,
) -> GMMParams:
    """``depth``: frames from here up to the caller to whom a warning belongs."""
    check_unused(model, source, ANCHORED)
    distance, i, j = anchor.closest_pair()
    if distance < LEAST_SEPARATION:
        warnings.warn(
            f"components {i} and {j} of the anchored prior {name!r} are {distance:.1f} prior standard deviations apart,"
            f" less than {LEAST_SEPARATION:g}: their labels may be exchanged; see relabel",
            UserWarning,
            stacklevel=depth,
        )
    with model:
        _check_new(model, name)
        _check_dims(model, anchor.mixture, name, feature_names, dims)
        standard = pm.Normal(f"{name}_offset", 0.0, 1.0, shape=anchor.n_parameters)
        mark(standard, CENTRED)
        remember_use(standard, source, ANCHORED)
        return _deterministics(name, anchor, standard, anchor.root, "anchored", dims, feature_names)


def _weak(
    name: str,
    mixture: Mixture,
    unit: Anchor,
    given: dict[str, Any],
    feature_names: Sequence[str] | None,
    dims: Sequence[str],
    model: Any,
) -> GMMParams:
    wide = Anchor(unit.mixture, np.diag(weak_deviations(lifted_weights(mixture)) ** 2), "wide")
    wide = with_scales(wide, **given)
    with model_of(model) as owner:
        _check_new(owner, name)
        _check_dims(owner, mixture, name, feature_names, dims)
        factor = np.tril(np.linalg.solve(unit.root, wide.root))
        offset = centred_normal(f"{name}_offset", factor)
        mark(offset, CENTRED)
        return _deterministics(name, wide, offset, unit.root, "weak", dims, feature_names)


def _check_new(model: Any, name: Any) -> None:
    check_new(model, name, *(f"{name}_{part}" for part in ("offset", "weights", "means", "covariances")))


def _check_dims(
    model: Any, mixture: Mixture, name: str, feature_names: Sequence[str] | None, dims: Sequence[str]
) -> None:
    """Add what is missing of ``dims`` and the second dimension of covariances."""
    if (
        not isinstance(dims, (tuple, list))
        or len(dims) != 2
        or not all(isinstance(dim, str) for dim in dims)
        or dims[0] == dims[1]
    ):
        raise ValueError(f"dims must be two different names, of components and of features, got {shown(dims)}")
    feature_names = read_labels(feature_names, mixture.n_features)
    for part in ("offset", "weights", "means", "covariances"):
        check_apart(f"{name}_{part}", (*dims, f"{dims[1]}_bis"))
    add_dim(model, dims[0], mixture.n_components, range(mixture.n_components))
    add_dim(model, dims[1], mixture.n_features, feature_names)
    add_dim(model, f"{dims[1]}_bis", mixture.n_features, feature_names)


def _deterministics(
    name: str,
    anchor: Anchor,
    free: Any,
    root: FloatArray,
    prior: str,
    dims: Sequence[str],
    feature_names: Sequence[str] | None,
) -> GMMParams:
    """Weights, means and covariances at offsets ``root`` times ``free`` (P,), as variables of the model."""
    weights, means, chol, covariances = parameters_at(free, root, anchor)
    component, feature = dims
    return GMMParams(
        weights=pm.Deterministic(f"{name}_weights", weights, dims=component),
        means=pm.Deterministic(f"{name}_means", means, dims=(component, feature)),
        chol=chol,
        covariances=pm.Deterministic(f"{name}_covariances", covariances, dims=(component, feature, f"{feature}_bis")),
        name=name,
        prior=prior,
        anchor=anchor,
        feature_names=None if feature_names is None else tuple(feature_names),
    )
