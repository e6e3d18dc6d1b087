"""A release as the prior of a latent vector: thin methods over :mod:`pm_dpgmm.bayes`, imported when one is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from pm_dpgmm.records.transformed_columns import refuse_transformations

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.bayes.prior.prior_factory import MixturePrior
    from pm_dpgmm.release.release import Release


class PriorMethods:
    """Methods of :class:`pm_dpgmm.Release`; all of them are post-processing and cost no budget."""

    __slots__ = ()

    def prior(
        self,
        name: str,
        *,
        dims: str | Sequence[str] | None = None,
        form: str = "auto",
        inflate: float = 1.0,
        model: pm.Model | None = None,
    ) -> TensorVariable:
        """Random vector with the released density, background and all, in a PyMC model.

        Parameters
        ----------
        name : str
        dims : str or sequence of str, optional
            The last one is the feature dimension; those before it give a batch. None: one vector, shape (D,).
        form : {"auto", "mixture", "labelled"}
            One continuous variable, or a label and an offset, which ``pm.sample`` moves between components.
        inflate : float
            Multiplies every covariance: tempers the prior, and is no model of the privacy noise.
        model : pymc.Model, optional
            The model on the context stack by default.

        Returns
        -------
        TensorVariable, shape (..., D)
            In the unit of the records. A background is component K, the last one. With transformations of columns a
            Deterministic of ``{name}_transformed``, which is sampled; log, logit and asinh alone, no functions.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as said, or dimensions do not fit; details: :func:`pm_dpgmm.bayes.mixture_prior`.

        Examples
        --------
        >>> import pymc as pm
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> with pm.Model() as model:
        ...     x = release.prior("x", dims="feature")
        >>> model.named_vars_to_dims["x"]
        ('feature',)
        """
        from pm_dpgmm.bayes.prior.priors import mixture_prior

        me = cast("Release", self)
        given: dict[str, Any] = {
            "feature_names": me.feature_names,
            "dims": dims,
            "form": form,
            "inflate": inflate,
            "model": model,
        }
        return cast("TensorVariable", mixture_prior(name, me.law, **given))

    def prior_dist(
        self, *, shape: int | Sequence[int] | None = None, form: str = "auto", inflate: float = 1.0
    ) -> TensorVariable:
        """The released density as a random variable without name or model, as ``.dist`` makes them.

        Parameters
        ----------
        shape : int or sequence of int, optional
            Of the whole variable; the last length is D. None: (D,).
        form, inflate
            As for :meth:`prior`; "labelled" cannot be had here, nor "auto" where NUTS may not move between components.

        Returns
        -------
        TensorVariable, shape (..., D)
            In the unit of the records.

        Raises
        ------
        TypeError, ValueError
            As :meth:`prior`, or if ``shape`` does not end in D, or the release has transformations of columns.

        Examples
        --------
        >>> import pymc as pm
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> pm.draw(release.prior_dist(shape=(4, 1), form="mixture"), random_seed=1).shape
        (4, 1)
        """
        from pm_dpgmm.bayes.prior.priors import mixture_dist

        me = cast("Release", self)
        refuse_transformations(
            me.transformations,
            me.feature_names,
            "prior_dist",
            "prior(name), or dpg.gmm.dist(release), in the unit of the records",
        )
        return mixture_dist(me.density, shape=shape, form=form, inflate=inflate)

    def as_prior(
        self, dims: str | Sequence[str] | None = "feature", *, form: str = "auto", inflate: float = 1.0
    ) -> MixturePrior:
        """The prior as an object that needs no model: for pymc-extras' ``Prior`` and bambi.

        Parameters
        ----------
        dims : str or sequence of str, or None
            The last one is the feature dimension.
        form, inflate
            As for :meth:`prior`.

        Returns
        -------
        MixturePrior

        Raises
        ------
        TypeError, ValueError
            As :meth:`prior`, as far as no model is needed; or if the release has transformations of columns.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> release.as_prior().dims
        ('feature',)
        """
        from pm_dpgmm.bayes.prior.prior_factory import MixturePrior
        from pm_dpgmm.bayes.prior.priors import listed_dims

        me = cast("Release", self)
        refuse_transformations(
            me.transformations, me.feature_names, "as_prior", "prior(name), in the unit of the records"
        )
        names = None if dims is None else listed_dims(dims)
        return MixturePrior(me.density, names, me.feature_names, form, inflate, me.private)

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
        """Vectors x with the released density that were measured: observed = A x + b + N(0, noise_cov).

        Parameters
        ----------
        name : str
        observed : array_like, DataFrame or TensorVariable, shape (M,) or (N, M)
            Of one vector, or of N independent ones, of other people than the release's; NaN where nothing was measured.
        noise_cov : array_like or TensorVariable, shape (M, M) or (N, M, M)
            In the unit of ``observed`` squared; may be unknown.
        design : array_like or TensorVariable, shape (M, D) or (N, M, D), optional
            A; the identity by default.
        offset : array_like or TensorVariable, shape (M,) or (N, M), optional
            b; zero by default.
        dims : str or two str, optional
            Of x: the features, or the vectors and the features.
        inflate, model
            As for :meth:`prior`.

        Returns
        -------
        TensorVariable, shape (D,) or (N, D)
            x, in the unit of the records; any sampler is right, nutpie too (:func:`pm_dpgmm.bayes.measured` says why).

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind, has the wrong shape or is out of range, or the release has
            transformations of columns.

        Examples
        --------
        >>> import pymc as pm
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> with pm.Model() as model:
        ...     x = release.measured("x", [[0.3], [5.0]], 0.5 * np.eye(1), dims=("patient", "feature"))
        >>> model.named_vars_to_dims["x"]
        ('patient', 'feature')
        """
        from pm_dpgmm.bayes.prior.measured_vectors import measured

        me = cast("Release", self)
        return measured(
            name,
            me,
            observed,
            noise_cov,
            design=design,
            offset=offset,
            feature_names=me.feature_names,
            dims=dims,
            inflate=inflate,
            model=model,
        )
