"""A Gaussian mixture as the prior of a latent vector in a PyMC model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pm_dpgmm._arguments import check_choice, check_positive, check_text, shown
from pm_dpgmm.bayes.coords import add_dim, check_apart, check_new, model_of, read_labels, read_shape
from pm_dpgmm.bayes.marks import PRIOR, mark, marks
from pm_dpgmm.bayes.prior.label_step import mixture_label
from pm_dpgmm.bayes.prior.separation import recommended_form, without_empty
from pm_dpgmm.bayes.rows.transformed import check_graph, in_units
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture
from pm_dpgmm.records.transformed_mixture import TransformedMixture

SUFFIX = "_transformed"
FORMS = ("auto", "mixture", "labelled")
FEATURES_LAST = (
    "; the last of dims is that of the features, of one column too (dims=('person', 'feature')), and releases of"
    " different columns need one each"
)


@dataclass(frozen=True, slots=True)
class PriorVariables:
    """Names of the free variables that one call of ``mixture_prior`` added to a model.

    ``offset`` and ``label`` belong to the labelled form, ``latent`` to the mixture form; absent ones are None.
    ``name`` is the vector in both forms. ``mixture`` has its covariances inflated.
    """

    mixture: Mixture
    name: str
    latent: str | None = None
    offset: str | None = None
    label: str | None = None


def prior_variables(model: Any) -> tuple[PriorVariables, ...]:
    """What ``mixture_prior`` added to ``model`` and is free in it, oldest first."""
    return tuple(record for _, record in marks(model.root.free_RVs, PRIOR))


def mixture_prior(
    name: str,
    mixture: Mixture | TransformedMixture,
    *,
    feature_names: Sequence[str] | None = None,
    dims: str | Sequence[str] | None = None,
    form: str = "auto",
    inflate: float = 1.0,
    model: Any = None,
) -> Any:
    """Add to a PyMC model a latent vector, or a batch of them, whose density is ``mixture``.

    Using a released mixture is post-processing: it costs no privacy budget.

    Parameters
    ----------
    name : str
        Name of the latent variable.
    mixture : Mixture or TransformedMixture
        K components in D dimensions, in the unit of the latent vector. Of a law with transformations, such as a
        ``release.marginal``, ``{name}_transformed`` has the mixture and ``name`` is a Deterministic of it in the unit
        of the records.
    feature_names : sequence of str, length D, optional
        Coordinate values for the feature dimension when the model does not have it yet.
    dims : str or sequence of str, optional
        The last one is the feature dimension (length D, added when missing); the ones before it must be in the
        model and give a batch of independent vectors. Without ``dims``: one vector, shape (D,).
    form : {"auto", "mixture", "labelled"}
        ``"mixture"``: one continuous variable with the mixture density. NUTS and nutpie can sample it, but between
        well separated components NUTS does not move, and no diagnostic shows it.
        ``"labelled"``: a Categorical ``{name}_label`` and a standard normal ``{name}_offset`` that give ``name`` as
        a Deterministic; ``pm.sample`` then moves the labels by ``MixtureLabels`` and the rest by NUTS. Every other
        sampler is refused with an error that says so, as are evaluations of the model's density outside
        ``label_density``. With one component there is no label. For vectors that were measured with normal noise
        ``measured`` has no labels to sample, and any sampler will do.
        ``"auto"``: ``recommended_form`` of the (inflated) mixture.
    inflate : float
        Multiplies every covariance. This tempers the prior; it is **not** a model of the privacy noise.
    model : pymc.Model, optional
        The model on the context stack by default.

    Returns
    -------
    TensorVariable, shape (..., D)
        A free random variable (mixture form) or a Deterministic (labelled form), in the unit of ``mixture``.

    Raises
    ------
    TypeError
        If ``mixture`` is neither, ``dims`` holds something other than names, or ``inflate`` is no number.
    ValueError
        If ``form`` or ``inflate`` is out of range, a leading dimension is not in the model, or the feature dimension
        has another length than D or the feature names in another order.

    Notes
    -----
    Both forms have the same law. ``pm.sample`` is right for the labelled one with sharp and with vague likelihoods
    (``python -m verification.benchmarks.prior_modes``); ``check_modes`` looks at the draws of either.

    Examples
    --------
    >>> import pymc as pm
    >>> g = Mixture([0.5, 0.5], [[0.0, 0.0], [9.0, 0.0]], [[[1.0, 0.0], [0.0, 1.0]]] * 2)
    >>> with pm.Model(coords={"patient": range(4)}) as model:
    ...     x = mixture_prior("x", g, feature_names=("height", "weight"), dims=("patient", "feature"))
    >>> sorted(rv.name for rv in model.free_RVs), model.coords["feature"]
    (['x_label', 'x_offset'], ('height', 'weight'))
    """
    if isinstance(mixture, TransformedMixture):
        given = {"feature_names": feature_names, "dims": dims, "form": form, "inflate": inflate}
        return _of_transformed(name, mixture, model=model, **given)
    mixture, form = _checked(mixture, form, inflate)
    with model_of(model) as owner:
        parts = () if form == "mixture" else (f"{name}_offset", f"{name}_label")
        check_new(owner, name, *parts)
        dims = checked_dims(owner, dims, feature_names, mixture.n_features)
        for part in (name, *parts):
            check_apart(part, dims or ())
        if form == "mixture":
            latent = _density(mixture, name, dims=dims)
            record = PriorVariables(mixture, latent.name, latent=latent.name)
        else:
            latent, record = _labelled_form(name, mixture, dims, owner)
        mark(owner.root[record.latent or record.offset], PRIOR, record)
    return latent


def _of_transformed(name: str, law: TransformedMixture, *, model: Any, **settings: Any) -> Any:
    """A vector that is sampled in the transformed unit; in that of the records it is a Deterministic.

    Its law there needs no Jacobian: nothing is observed or sampled in that unit.
    """
    check_text(name=name)
    check_graph(law.transformations, "prior")
    with model_of(model) as owner:
        check_new(owner, name)
        inner = mixture_prior(f"{name}{SUFFIX}", law.mixture, model=owner, **settings)
        dims = owner.root.named_vars_to_dims.get(inner.name)
        return pm.Deterministic(name, in_units(inner, law.transformations), dims=dims)


def mixture_dist(
    mixture: Mixture, *, shape: int | Sequence[int] | None = None, form: str = "auto", inflate: float = 1.0
) -> Any:
    """A random variable with the density ``mixture`` that has no name and belongs to no model, as ``.dist`` makes them.

    For ``pm.draw``, ``pm.logp``, as a component of ``pm.Mixture`` or inside ``pm.CustomDist``. Post-processing: costs
    no privacy budget.

    Parameters
    ----------
    mixture, inflate
        As in ``mixture_prior``.
    shape : int or sequence of int, optional
        Of the whole variable; the last length is D. One vector without it, shape (D,).
    form : {"auto", "mixture", "labelled"}
        The labelled form consists of three variables with names, so it cannot be had here: ``"labelled"`` raises, and
        so does ``"auto"`` where NUTS may fail to move between the components. ``"mixture"`` is always given: right for
        draws and densities, and for samplers that find modes, such as ``pm.sample_smc``.

    Returns
    -------
    TensorVariable, shape (..., D)

    Raises
    ------
    TypeError, ValueError
        As ``mixture_prior``; and as said at ``form``, or when ``shape`` does not end in D.

    Examples
    --------
    >>> import pymc as pm
    >>> g = Mixture([0.5, 0.5], [[0.0], [2.0]], [[[1.0]], [[1.0]]])
    >>> pm.draw(mixture_dist(g, shape=(4, 1)), random_seed=1).shape
    (4, 1)
    """
    mixture, chosen = _checked(mixture, form, inflate)
    if chosen == "labelled":
        why = "" if form == "labelled" else ', which form="auto" asks for: NUTS may not move between the components'
        raise ValueError(
            f"form must be 'mixture' for a variable without a name, got the labelled form{why}; name it with prior(),"
            ' or pass form="mixture" when NUTS will not sample it'
        )
    lengths = (mixture.n_features,) if shape is None else read_shape(shape)
    if lengths[-1:] != (mixture.n_features,):
        raise ValueError(f"shape must end in {mixture.n_features} (features), got {shape!r}")
    return _density(mixture, shape=lengths)


def _checked(mixture: Mixture, form: str, inflate: float) -> tuple[Mixture, str]:
    """The inflated mixture, and a form that is not "auto"."""
    check_choice(FORMS, form=form)
    check_positive(inflate=inflate)
    if not isinstance(mixture, Mixture):
        wanted = "; its attribute mixture is one" if isinstance(mixture, TransformedMixture) else ""
        raise TypeError(f"mixture must be a Mixture, got {type(mixture).__name__}{wanted}")
    mixture = Mixture(mixture.weights, mixture.means, mixture.covariances * inflate)
    return mixture, recommended_form(mixture) if form == "auto" else form


def _density(mixture: Mixture, *name: str, **size: Any) -> Any:
    """One variable with the mixture density, free in the current model if it has a ``name``.

    Plain array operations instead of ``pm.Mixture(MvNormal)``: for D=2, K=3 and 60 vectors one gradient takes
    25 microseconds against 1100, and compilation half the time (measured with PyMC 5.28, C backend, one core).
    """
    kept = without_empty(mixture)
    d = kept.n_features
    factors = np.linalg.cholesky(kept.covariances)
    whitening = np.linalg.solve(factors, np.broadcast_to(np.eye(d), factors.shape))
    log_determinants = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    heights = np.log(kept.weights) - log_determinants - 0.5 * d * LOG_2PI
    heaviest = kept.means[np.argmax(kept.weights)]
    probabilities = kept.weights / kept.weights.sum()

    def log_density(value: Any, means: Any, factors: Any) -> Any:
        centred = value[..., None, None, :] - means[:, None, :]
        whitened = (centred * whitening).sum(axis=-1)
        joint = heights - 0.5 * (whitened**2).sum(axis=-1)
        # Written out, because mode="FAST_COMPILE" leaves out the rewrite that makes pt.logsumexp safe in the tails.
        highest = joint.max(axis=-1, keepdims=True)
        return highest[..., 0] + pt.log(pt.exp(joint - highest).sum(axis=-1))

    def draw(means: Any, factors: Any, size: Any) -> Any:
        label = pm.Categorical.dist(p=probabilities, size=size)
        offset = pm.Normal.dist(pt.zeros((*label.shape, d)), 1)
        return _place(means, factors, label, offset)

    def start(rv: Any, size: Any, means: Any, factors: Any) -> Any:
        return pt.zeros_like(rv) + heaviest

    make = pm.CustomDist if name else pm.CustomDist.dist
    return make(
        *name,
        kept.means,
        factors,
        dist=draw,
        logp=log_density,
        support_point=start,
        signature="(k,d),(k,d,d)->(d)",
        class_name="GaussianMixture",
        **size,
    )


def _labelled_form(name: str, mixture: Mixture, dims: tuple[str, ...] | None, model: Any) -> tuple[Any, PriorVariables]:
    factors = np.linalg.cholesky(mixture.covariances)
    size = {"dims": dims} if dims else {"shape": (mixture.n_features,)}
    latent_name, offset_name = model.name_for(name), model.name_for(f"{name}_offset")
    if mixture.n_components > 1:
        batch = dims[:-1] if dims and dims[1:] else None
        label = mixture_label(f"{name}_label", mixture, latent=latent_name, offset=offset_name, dims=batch, model=model)
    else:
        label = None
    offset = pm.Normal(f"{name}_offset", 0, 1, **size)
    chosen = 0 if label is None else label
    place = _place(pt.as_tensor_variable(mixture.means), pt.as_tensor_variable(factors), chosen, offset)
    latent = pm.Deterministic(name, place, dims=dims)
    label_name = None if label is None else label.name
    return latent, PriorVariables(mixture, latent.name, offset=offset.name, label=label_name)


def _place(means: Any, factors: Any, label: Any, offset: Any) -> Any:
    """Mean plus factor times offset of the chosen components; shape (..., D) like ``offset``."""
    return means[label] + (factors[label] * offset[..., None, :]).sum(axis=-1)


def listed_dims(dims: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several as a tuple."""
    if not isinstance(dims, str | Sequence):
        raise TypeError(f"dims must be a name or several, got {shown(dims)}")
    return (dims,) if isinstance(dims, str) else tuple(dims)


def checked_dims(
    model: Any, dims: str | Sequence[str] | None, feature_names: Sequence[str] | None, n_features: int
) -> tuple[str, ...] | None:
    """``dims`` as a tuple whose members all are in ``model``; adds the feature dimension when it is missing."""
    names = read_labels(feature_names, n_features)
    if dims is None:
        return None
    dims = listed_dims(dims)
    if not all(isinstance(dim, str) for dim in dims):
        raise TypeError(f"dims must hold names only, got {shown(dims)}")
    if not dims or len(set(dims)) < len(dims):
        raise ValueError(f"dims must be one or more different names, got {dims}")
    for dim in dims[:-1]:
        if dim not in model.dim_lengths:
            known = ", ".join(map(repr, model.dim_lengths)) or "none"
            raise ValueError(
                f"dims must start with dimensions of the model ({known}) and end with that of the features,"
                f" got {dim!r} in {dims}; add it to coords, or put it last if it is that of the features"
            )
    add_dim(model, dims[-1], n_features, names, advice=FEATURES_LAST)
    return dims
