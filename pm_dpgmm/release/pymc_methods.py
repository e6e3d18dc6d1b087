"""What a release offers to PyMC: thin methods over :mod:`pm_dpgmm.bayes`, which is imported when one is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pm_dpgmm.mixture.background import warn_without_background

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.bayes.parameters.params import GMMParams
    from pm_dpgmm.bayes.prior.prior_factory import MixturePrior
    from pm_dpgmm.release.release import Release


class PyMCMethods:
    """Methods of :class:`pm_dpgmm.Release`; all of them are post-processing and cost no budget."""

    __slots__ = ()

    # ------------------------------------------------------------------ priors of a latent vector
    def prior(
        self,
        name: str,
        *,
        dims: str | Sequence[str] | None = None,
        form: str = "auto",
        inflate: float = 1.0,
        model: pm.Model | None = None,
    ) -> TensorVariable:
        """Random vector with the released density, in the current PyMC model: :func:`pm_dpgmm.bayes.mixture_prior`.

        Its log density is ``log_density`` of the release: a background is component K of the prior, the last one, with
        label K in the labelled form.
        """
        from pm_dpgmm.bayes.prior.priors import mixture_prior

        me = cast("Release", self)
        return mixture_prior(
            name, me.density, feature_names=me.feature_names, dims=dims, form=form, inflate=inflate, model=model
        )

    def prior_dist(
        self, *, shape: int | Sequence[int] | None = None, form: str = "auto", inflate: float = 1.0
    ) -> TensorVariable:
        """The same without a name, as ``.dist`` makes it: :func:`pm_dpgmm.bayes.mixture_dist`."""
        from pm_dpgmm.bayes.prior.priors import mixture_dist

        return mixture_dist(cast("Release", self).density, shape=shape, form=form, inflate=inflate)

    def as_prior(
        self, dims: str | Sequence[str] | None = "feature", *, form: str = "auto", inflate: float = 1.0
    ) -> MixturePrior:
        """The prior as an object, for pymc-extras and bambi: :class:`pm_dpgmm.bayes.MixturePrior`. Needs no model."""
        from pm_dpgmm.bayes.prior.prior_factory import MixturePrior

        me = cast("Release", self)
        names = None if dims is None else (dims,) if isinstance(dims, str) else tuple(dims)
        return MixturePrior(me.density, names, me.feature_names, form, inflate)

    def measured(
        self,
        name: str,
        observed: Any,
        noise_cov: Any,
        *,
        design: Any = None,
        offset: Any = None,
        dims: str | Sequence[str] | None = None,
        inflate: float = 1.0,
        model: pm.Model | None = None,
    ) -> TensorVariable:
        """Vectors with the released density that were measured with normal noise: :func:`pm_dpgmm.bayes.measured`.

        Right with every sampler, nutpie among them. Where nothing but the vector is unknown,
        :func:`pm_dpgmm.bayes.gaussian_posterior` has the posterior in closed form.
        """
        from pm_dpgmm.bayes.prior.measured_vectors import measured

        me = cast("Release", self)
        return measured(
            name, me, observed, noise_cov, design=design, offset=offset, feature_names=me.feature_names, dims=dims,
            inflate=inflate, model=model,
        )  # fmt: skip

    # ------------------------------------------------------------------ parameters of a mixture, and evidence
    def params(
        self,
        name: str,
        *,
        dims: Sequence[str] = ("component", "feature"),
        weight_conc: Any = "auto",
        mean_scale: Any = "auto",
        cov_scale: Any = "auto",
        prior: str = "anchored",
        model: pm.Model | None = None,
    ) -> GMMParams:
        """Random weights, means and covariances around the released ones: :func:`pm_dpgmm.bayes.release_params`."""
        from pm_dpgmm.bayes.parameters.params import release_params

        return release_params(
            cast("Release", self), name, dims=dims, weight_conc=weight_conc, mean_scale=mean_scale,
            cov_scale=cov_scale, prior=prior, model=model,
        )  # fmt: skip

    def anchor_separation(self, *, mean_scale: Any = "auto") -> float:
        """Smallest distance between means, in anchored prior sds: :func:`pm_dpgmm.bayes.anchor_separation`."""
        from pm_dpgmm.bayes.parameters.anchor_laws import anchor_separation

        return anchor_separation(cast("Release", self), mean_scale=mean_scale)

    def observe(
        self, th: Any, *, name: str = "release", likelihood: str = "auto", model: pm.Model | None = None
    ) -> TensorVariable:
        """The noisy statistics as evidence about the mixture ``th``: ``pm_dpgmm.bayes.likelihoods.observe``."""
        from pm_dpgmm.bayes.likelihoods.observe import observe

        return observe(cast("Release", self), th, name=name, likelihood=likelihood, model=model)

    # ------------------------------------------------------------------ initial values
    def initvals(
        self,
        model: pm.Model | None = None,
        *,
        mapping: Mapping[str, str] | None = None,
        chains: int = 4,
        jitter: float = 0.05,
        random_seed: int | None = None,
    ) -> list[dict[str, Any]]:
        """Starting values for ``pm.sample(initvals=..., init="adapt_diag")``: :func:`pm_dpgmm.bayes.initvals`.

        Those of parameters are of the K components, without the background: with more than 1 % of the records in it
        a :class:`pm_dpgmm.BackgroundWarning` says so.
        """
        from pm_dpgmm.bayes.starts.starting_values import initvals

        me = cast("Release", self)
        warn_without_background(me, "initvals() start at the components alone")
        return initvals(me.mixture, model, mapping=mapping, chains=chains, jitter=jitter, random_seed=random_seed)

    def set_initvals(
        self,
        model: pm.Model | None = None,
        *,
        mapping: Mapping[str, str] | None = None,
        jitter: float = 0.0,
        random_seed: int | None = None,
    ) -> set[TensorVariable]:
        """Set the model's own starting values, which every sampler honours: :func:`pm_dpgmm.bayes.set_initvals`.

        Of the K components, as :meth:`initvals`.
        """
        from pm_dpgmm.bayes.starts.starting_values import set_initvals

        me = cast("Release", self)
        warn_without_background(me, "set_initvals() start at the components alone")
        return set_initvals(me.mixture, model, mapping=mapping, jitter=jitter, random_seed=random_seed)

    # ------------------------------------------------------------------ ArviZ
    def to_inferencedata(self) -> Any:
        """The release as a group ``constant_data``: :func:`pm_dpgmm.bayes.inference_data.to_inferencedata`."""
        from pm_dpgmm.bayes.inference_data import to_inferencedata

        return to_inferencedata(cast("Release", self))
