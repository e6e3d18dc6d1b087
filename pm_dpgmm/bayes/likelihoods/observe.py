"""A release's noisy statistics as evidence in a PyMC model: which likelihood belongs to which kind of statistic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pymc as pm
import pytensor.tensor as pt

from pm_dpgmm._arguments import shown
from pm_dpgmm.bayes.coords import check_new, model_of
from pm_dpgmm.bayes.likelihoods import aggregate, central, counts, em, local, populous, populous_single, sketch
from pm_dpgmm.bayes.likelihoods.free_background import free_background, warn_if_contradicted
from pm_dpgmm.bayes.likelihoods.matching import in_order_of
from pm_dpgmm.bayes.parameters.named_parameters import features_of, without_names
from pm_dpgmm.bayes.parameters.own_parameters import of_one_mixture
from pm_dpgmm.bayes.registry import OBSERVED, check_unused, remember_use
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.background import warn_without_background
from pm_dpgmm.privacy.guarantee import seeded_mark
from pm_dpgmm.records.feature_names import check_columns, check_order, own_names

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released


class Parameters(Protocol):
    """What :func:`observe` reads of the parameters: ``release.params(...)`` has it, and any object may."""

    weights: Any  # (K,)
    means: Any  # (K, D)
    chol: Any  # (K, D, D)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Evidence of one kind of statistic."""

    forms: Sequence[str]  # what ``likelihood`` may be, beside "auto"
    log_likelihood: Callable[..., TensorVariable]  # (release, weights, means, chol, *, likelihood): a scalar
    ordered: bool = False  # components are compared one by one, in the order of the release
    far: bool = False  # the background of the release is estimated again: free_background.py


# A kind that has none says why.
LIKELIHOODS: dict[Statistic, Likelihood | str] = {
    Statistic.SKETCH: Likelihood(sketch.LIKELIHOODS, sketch.log_likelihood),
    Statistic.GRID_COUNTS: Likelihood(counts.LIKELIHOODS, counts.log_likelihood, far=True),
    Statistic.SLICE_COUNTS: "whose histograms share their records: the joint law of slices along many directions is not"
    " known",
    Statistic.LIFTED_MASK: Likelihood(populous.LIKELIHOODS, populous.log_likelihood, ordered=True),
    Statistic.MASK: Likelihood(populous_single.LIKELIHOODS, populous_single.log_likelihood, ordered=True),
    Statistic.AVERAGE: Likelihood(aggregate.LIKELIHOODS, aggregate.log_likelihood, ordered=True),
    Statistic.BIN_COUNTS: Likelihood(counts.LIKELIHOODS, counts.log_likelihood),
    Statistic.EM_SUMS: Likelihood(em.LIKELIHOODS, em.log_likelihood),
    Statistic.CLUSTER_SUMS: "whose records are in one cluster each: the law of sums over cells with hard edges is not"
    " computed here; the other estimates of 'em' have one",
    Statistic.CELL_SUMS: Likelihood(em.LIKELIHOODS, central.log_likelihood),
    Statistic.LOCAL_RESPONSES: Likelihood(local.LIKELIHOODS, local.log_likelihood),
    Statistic.UNKNOWN: "which has no likelihood here",
}


def observe(
    release: Released,
    th: Parameters,
    *,
    name: str = "release",
    likelihood: str = "auto",
    model: Any = None,
) -> TensorVariable:
    """Add the noisy statistics of a release to a PyMC model, as evidence about the mixture ``th``.

    The posterior then knows of the noise and of the sampling of the records. Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release
        With the noisy statistics in ``raw``.
    th : GMMParams, or any object with the same attributes
        ``weights`` (K,), ``means`` (K, D) and ``chol`` (K, D, D; lower Cholesky factors), in the unit of the records,
        of columns with a transformation in the transformed one: the density that they are taken to have, apart from a
        background of the release. That of a sketch stays as it was released, its weight normal about the released one;
        that of a histogram is estimated again, ``{name}_background_weight``: a Gaussian as wide as the bounds, or
        uniform within them, or some of both (``{name}_background_flat``). Any number of components, but the release's
        features. Where it or the model's coordinates name the columns of its means, they are in the release's order.
        Of methods "populous", "populous-single" and "aggregate" K is the release's, and components, whose order means
        nothing, are matched with its own: those of anchored ``params`` once, those of any others at every draw, by the
        nearest places and widths (up to 7; of more, component j is taken to be component j of the release).
    name : str
        Of the term in the model.
    likelihood : str
        "auto", or one that the method offers: "exact" (the law of the noise, no approximation but the central limit
        theorem where the records are summed), "wishart" (masks with little noise), "gaussian" (normal, with a
        covariance that is held at the release).
    model : pymc.Model, optional
        The model on the context stack by default.

    Returns
    -------
    TensorVariable
        The log-likelihood, already part of the model (``pm.Potential``). Its ``str_repr()``, which notebooks show, says
        so where the release is not private.

    Raises
    ------
    TypeError
        If ``th`` lacks an attribute.
    ValueError
        If the release holds no noisy statistics, its method has no likelihood or not this one, ``th`` has other
        features or another order of them, or is around a release with other transformations of columns, ``name``
        exists, or the model already uses this release (also as the centre of an anchored prior).

    Warns
    -----
    UserWarning
        If more than 7 components of such methods, not anchored, are taken by their order.
    BackgroundWarning
        If more than 1 % of the records are in the release's background, which ``th`` is without.
    FitWarning
        If the counts of a histogram contradict as many components as it has (p = .01 or less): intervals may be too
        short.

    Notes
    -----
    With ``params = release.params(name, prior="weak")`` one unit of the free variable is about one posterior standard
    deviation, uncorrelated, so NUTS needs few steps and 200 tuning draws; any other prior of weights, means and
    Cholesky factors will do, at more cost.

    The evidence is a potential, not an observed variable: PyMC warns that draws from the prior ignore it, and there is
    nothing to draw from the posterior predictive; ``release.check_fit(idata)`` is the predictive check of a sketch or
    a histogram. The first model of a kind compiles for ten seconds to half a minute, that of "central" in several
    columns for a minute or two; ``pm-dpgmm warm-up`` does so beforehand, but for "central".

    Releases of methods "populous", "populous-single" and "two-phase", and those without bounds, only exist because the
    records passed a private test. The likelihoods are those of the released numbers without that condition: the
    difference is nil where the test is passed nearly always, as it is with enough records, and unknown near its limit.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal(3.0, 1.0, size=(1000, 1))
    >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-5, 10))
    >>> with pm.Model() as model:
    ...     params = release.params("g", prior="weak")
    ...     term = release.observe(params)
    >>> [rv.name for rv in model.free_RVs], [potential.name for potential in model.potentials]
    (['g_offset'], ['release'])
    """
    owner = model_of(model)
    found = _likelihood(release)
    if not isinstance(likelihood, str) or likelihood not in ("auto", *found.forms):
        offered = ", ".join(map(repr, ("auto", *found.forms)))
        raise ValueError(
            f"likelihood must be one of {offered} for a release of method {release.method!r}, got {shown(likelihood)}"
        )
    features = features_of(th, owner)
    _check_other_release(th, release, features)
    th = without_names(th)
    weights, means, chol = _parameters(th, release.n_features)
    check_order(features, release.feature_names, name="th")
    check_unused(owner, release, OBSERVED)
    check_new(owner, name, advice="; every release that is observed has a name= of its own")
    kept = "estimates the background beside them" if found.far else "keeps the background as released"
    warn_without_background(release, f"observe() takes th for the components alone and {kept}", stacklevel=3)
    if found.far:
        warn_if_contradicted(release, weights.type.shape[0], stacklevel=3)
    with owner:
        beside = {"far": free_background(name, release, owner)} if found.far else {}
        if found.ordered:
            weights, means, chol = in_order_of(release, th, (weights, means, chol))
        value = found.log_likelihood(release, weights, means, chol, likelihood=likelihood, **beside)
        term = pm.Potential(name, value)
    if not release.private:
        for way in ("str_repr", "_repr_latex_"):  # what IPython and notebooks show of a variable; repr is its name
            setattr(term, way, functools.partial(_not_private, getattr(term, way)))
    remember_use(term, release, OBSERVED)
    return term


def _named(features: Sequence[str] | None) -> bool:
    """Whether columns have names of their own, which those of an array have not."""
    return features is not None and own_names(features) is not None


def _check_other_release(th: Any, release: Released, features: Sequence[str] | None) -> None:
    """ValueError for parameters around a release of other columns, or with other transformations: another unit."""
    of_release, of_th = getattr(th, "of_release", False), getattr(th, "transformations", None)
    if of_release and _named(features) and _named(release.feature_names):
        check_columns(features, release.feature_names, name="th")
    if (of_release or of_th is not None) and of_th != release.transformations:
        names = release.feature_names
        told = ["none" if columns is None else columns.told(names) for columns in (release.transformations, of_th)]
        raise ValueError(
            f"th must be in the unit of the release, whose transformations of columns are: {told[0]}; got those of a"
            f" release with: {told[1]}"
        )


def _not_private(text: Callable[..., str], *given: Any, **named: Any) -> str:
    return text(*given, **named) + seeded_mark(private=False)


def _likelihood(release: Released) -> Likelihood:
    if not release.raw:
        raise ValueError(
            f"observe needs the noisy statistics of a release, got one of method {release.method!r} whose raw is empty"
        )
    found = LIKELIHOODS[release.statistic]
    if isinstance(found, str):
        able = [statistic for statistic, row in LIKELIHOODS.items() if not isinstance(row, str)]
        methods = ", ".join(repr(method) for statistic in able for method in statistic.methods)
        raise ValueError(
            f"observe needs a release of one of the methods {methods}, got one of"
            f" {release.statistic.of_method(release.method)}, {found}"
        )
    return found


def _parameters(th: Any, n_features: int) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
    """Tensors of ``th``, their known dimensions checked."""
    shapes = {"weights": (None,), "means": (None, n_features), "chol": (None, n_features, n_features)}
    missing = [part for part in shapes if not hasattr(th, part)]
    if missing:
        raise TypeError(
            f"th must have weights, means and chol, as release.params(...) has, got {shown(th)}"
            f" without {', '.join(missing)}"
        )
    tensors = [pt.as_tensor(getattr(th, part)) for part in shapes]
    for (part, wanted), tensor in zip(shapes.items(), tensors, strict=True):
        got = tensor.type.shape
        if len(got) != len(wanted) or any(a not in (None, b) for a, b in zip(got, wanted, strict=True) if b):
            words = ", ".join(["K", "D", "D"][: len(wanted)])
            raise ValueError(f"th.{part} must have shape ({words}), with D = {n_features} as the release, got {got}")
    return of_one_mixture(*tensors)
