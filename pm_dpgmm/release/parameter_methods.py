"""Parameters, evidence and starts in PyMC: thin methods over :mod:`pm_dpgmm.bayes`, imported when one is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pm_dpgmm.mixture.background import warn_without_background

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.bayes.parameters.params import GMMParams
    from pm_dpgmm.release.release import Release


class ParameterMethods:
    """Methods of :class:`pm_dpgmm.Release`; all of them are post-processing and cost no budget."""

    __slots__ = ()

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
        """Random weights, means and covariances around the released ones, without the background.

        Parameters
        ----------
        name : str
            Prefix of the variables.
        dims : two str
            Of components and features; what the model does not have yet is added.
        weight_conc : "auto" or float
            Weights vary as those of a Dirichlet law with this concentration. For all three scales "auto" is the law of
            the release's own errors.
        mean_scale : "auto", float or (K,)
            Standard deviation of every mean, in standard deviations of its component.
        cov_scale : "auto", float or (K,)
            Standard deviation of log scales of the covariances.
        prior : {"anchored", "weak"}
            All that the release tells, so do not observe it too; or wide, for use with :meth:`observe`.
        model : pymc.Model, optional

        Returns
        -------
        GMMParams
            ``weights`` (K,), ``means`` (K, D), ``covariances`` and ``chol`` (K, D, D), in the unit of the records, or
            in the transformed one of columns that have a transformation; ``gmm`` has rows in the unit of the records.

        Raises
        ------
        TypeError, ValueError
            If a scale is out of range or unknown for the method, dimensions do not fit, or the model has observed this.

        Warns
        -----
        UserWarning, BackgroundWarning
            If labels may be exchanged; if more than 1 % of the records are in the background.

        Examples
        --------
        >>> import pymc as pm
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> with pm.Model() as model:
        ...     params = release.params("g", prior="weak")
        >>> [rv.name for rv in model.free_RVs], params.means.type.shape
        (['g_offset'], (2, 1))
        """
        from pm_dpgmm.bayes.parameters.params import release_params

        return release_params(
            cast("Release", self),
            name,
            dims=dims,
            weight_conc=weight_conc,
            mean_scale=mean_scale,
            cov_scale=cov_scale,
            prior=prior,
            model=model,
        )

    def anchor_separation(self, *, mean_scale: Any = "auto") -> float:
        """Smallest distance between two means, in standard deviations of the anchored prior; inf for one component.

        Below about 4 a posterior with ``params(...)`` may exchange labels.

        Parameters
        ----------
        mean_scale : "auto", float or (K,)
            As for :meth:`params`.

        Raises
        ------
        TypeError, ValueError
            If a scale is out of range or unknown for the method.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> release.anchor_separation(mean_scale=0.1) > 4
        True
        """
        from pm_dpgmm.bayes.parameters.anchor_laws import anchor_separation

        return anchor_separation(cast("Release", self), mean_scale=mean_scale)

    def observe(
        self, th: Any, *, name: str = "release", likelihood: str = "auto", model: pm.Model | None = None
    ) -> TensorVariable:
        """The noisy statistics as evidence about a mixture: the posterior knows of the noise.

        Parameters
        ----------
        th : GMMParams, or any object with ``weights`` (K,), ``means`` (K, D) and ``chol`` (K, D, D)
            In the unit of the records, or the transformed one; ``chol`` lower triangular.
            For "populous", "populous-single" and "aggregate" K must be the release's; components, whose order means
            nothing, are matched with its own by :meth:`params`, or draw by draw (up to 7; else taken by their order).
        name : str
            Of the term in the model.
        likelihood : str
            "exact", "gaussian" (covariance held at the release), for "populous" and "populous-single" also "wishart".
            "auto" takes "exact" where it is cheap: for counts, and for sketches of at most 128 numbers.
        model : pymc.Model, optional

        Returns
        -------
        TensorVariable
            The log-likelihood, a scalar that is part of the model (``pm.Potential``).

        Raises
        ------
        TypeError, ValueError
            If ``th`` does not fit, the method has no (such) likelihood, ``name`` exists, or the model uses this release
            already.

        Warns
        -----
        BackgroundWarning
            If more than 1 % of the records are in the background, which ``th`` is without.

        Examples
        --------
        >>> import pymc as pm
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> with pm.Model() as model:
        ...     term = release.observe(release.params("g", prior="weak"))
        >>> [potential.name for potential in model.potentials]
        ['release']
        """
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
        """Starting values for ``pm.sample(initvals=..., init="adapt_diag")``, of the K components alone.

        Parameters
        ----------
        model : pymc.Model, optional
        mapping : mapping of variable name to field, optional
            Fields: "weights" (K,), "means" and "sds" (K, D), "covariances" and "chol" (K, D, D), lower Cholesky
            factors also packed as those of ``LKJCholeskyCov``; "chol:0" is that of component 0 alone. None goes by
            common names (w, mu, sigma, cov, chol, mu_0, mu_1 and their like) and shapes. Features come last, in the
            order of the release.
        chains : int
        jitter : float
            Spread between chains: in standard deviations of the components, of log weights, of relative factors.
        random_seed : int, optional

        Returns
        -------
        list of dict
            One for each chain: constrained values by variable name, in the unit of the records or the transformed one.

        Raises
        ------
        TypeError, ValueError
            If a variable or field does not exist or fit, or nothing in the model can be initialised.

        Warns
        -----
        BackgroundWarning
            If more than 1 % of the records are in the background.

        Examples
        --------
        >>> import pymc as pm
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> with pm.Model() as model:
        ...     mu = pm.Normal("mu", 0, 10, shape=2)
        >>> [start["mu"].shape for start in release.initvals(model, chains=2)]
        [(2,), (2,)]
        """
        from pm_dpgmm.bayes.starts.starting_values import initvals

        me = cast("Release", self)
        warn_without_background(me, "initvals() start at the components alone")
        return initvals(
            me.mixture,
            model,
            mapping=mapping,
            feature_names=me.feature_names,
            chains=chains,
            jitter=jitter,
            random_seed=random_seed,
        )

    def set_initvals(
        self,
        model: pm.Model | None = None,
        *,
        mapping: Mapping[str, str] | None = None,
        jitter: float = 0.0,
        random_seed: int | None = None,
    ) -> set[TensorVariable]:
        """Store starting values in the model itself, where every sampler finds them; of the K components alone.

        Parameters
        ----------
        model, mapping, jitter, random_seed
            As for :meth:`initvals`, but the jitter is the same for all chains, and without a seed always the same.

        Returns
        -------
        set of TensorVariable
            Free variables that keep the model's own start: ``jitter_rvs`` of nutpie.

        Raises
        ------
        TypeError, ValueError
            As :meth:`initvals`.

        Warns
        -----
        BackgroundWarning
            If more than 1 % of the records are in the background.

        Examples
        --------
        >>> import pymc as pm
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> with pm.Model() as model:
        ...     mu, s = pm.Normal("mu", 0, 10, shape=2), pm.HalfNormal("s")
        >>> [rv.name for rv in release.set_initvals(model, mapping={"mu": "means"})]
        ['s']
        """
        from pm_dpgmm.bayes.starts.starting_values import set_initvals

        me = cast("Release", self)
        warn_without_background(me, "set_initvals() start at the components alone")
        return set_initvals(
            me.mixture,
            model,
            mapping=mapping,
            feature_names=me.feature_names,
            jitter=jitter,
            random_seed=random_seed,
        )

    # ------------------------------------------------------------------ ArviZ
    def to_inferencedata(self) -> Any:
        """The release as inference data with one group, ``constant_data``, for ArviZ.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            ``weights`` (component), ``means`` (component, feature), ``covariances`` (component, feature,
            feature_bis), in the unit of the records, or the transformed one; where there is a background
            ``background_weight``, ``background_mean`` and ``background_covariance``; and every noisy statistic as
            ``raw_<name>``. The guarantee is one of the attributes.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> release.to_inferencedata()["constant_data"]["means"].dims
        ('component', 'feature')
        """
        from pm_dpgmm.bayes.inference_data import to_inferencedata

        return to_inferencedata(cast("Release", self))
