"""The release: what was released, and everything that is done with it. All of it is free post-processing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm.methods.released import Released
from pm_dpgmm.release.answer import Answer, answer_of
from pm_dpgmm.release.parameter_methods import ParameterMethods
from pm_dpgmm.release.presentation_methods import PresentationMethods
from pm_dpgmm.release.prior_methods import PriorMethods
from pm_dpgmm.release.uncertainty_methods import UncertaintyMethods

if TYPE_CHECKING:
    from pm_dpgmm.release.fit_check import FitCheck
    from pm_dpgmm.release.selection import KSelection


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Released, UncertaintyMethods, PriorMethods, ParameterMethods, PresentationMethods):
    """A Gaussian mixture fitted under differential privacy, what it cost, and what was really released.

    Every field is safe to publish when ``private`` is True.

    Attributes
    ----------
    mixture : Mixture
        Released parameters; also ``weights`` (K,), ``means`` (K, D), ``covariances`` (K, D, D), in the unit of
        the records (squared for covariances), components numbered in no order of
        meaning (texts list the heaviest first, by these numbers); without the background. Columns with
        a transformation are in the transformed unit here, and in all that is a mixture or its parameters.
    guarantee : Guarantee
        What is protected and how strongly.
    method : str
        Name of the fitting method.
    settings : Mapping
        Its public settings.
    raw : Mapping of str to ndarray
        Noisy statistics before any projection; noise-aware inference uses these.
    noise : Mapping
        Public law of the noise in ``raw``.
    feature_names : tuple of str
        Names of the columns.
    n_records : int or None
        Public under replace-one neighbours, None otherwise.
    background_weight : float
        Share of the records that no component describes (outliers, heavy tails): 0 unless the method found some, or its
        counts ("histogram", "slices") leave open that there are; then the mean of what they leave open.
    background : Mixture or None
        One broad Gaussian for them; never one of the K components, but part of ``density`` and of all that has it:
        ``log_density``, ``sample``, ``marginal``, ``conditional``, ``prior``, ``as_prior``, ``prior_dist``. What is of
        the components alone says so, and warns (:class:`pm_dpgmm.BackgroundWarning`) above 1 % of the records.
        ``log_density`` has besides half a record as wide as the bounds: ``row_density``.
    private : bool
        False when the noise was drawn from a known seed, or that of a release that this one was made from or like; or
        when the records were public anyway.
    """

    @property
    def covariance_type(self) -> str:
        """What the covariances were restricted to: "full" (nothing), "tied", "diag" or "spherical".

        As it was asked for or, with "auto", what the released numbers chose; ``noise["covariance_scores"]`` then has
        minus twice the log evidence of each.
        """
        return str(self.noise.get("covariance_type", "full"))

    # ------------------------------------------------------------------ answers that are no mixture
    @property
    def answer(self) -> Answer:
        """What a :class:`pm_dpgmm.VectorLearner` said of the records, in private: ``method="aggregate"`` alone.

        The mixture is then that of the sketch, which the learner has no part in. Columns with a transformation were in
        the transformed unit when the learner saw them.

        Raises
        ------
        ValueError
            If the release has none.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([50.0], [10.0], size=(5_000, 1))
        >>> middle = dpg.VectorLearner(lambda rows: np.median(rows, axis=0), names=("median",))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, method="aggregate", learner=middle)
        >>> release.answer.names, bool(abs(release.answer.values[0] - 50.0) < 2.0)
        (('median',), True)
        """
        return answer_of(self)

    # ------------------------------------------------------------------ other numbers of components
    def refit(self, n_components: int | None = None, *, covariance_type: str | None = None) -> Release:
        """The same statistics and guarantee, another mixture. Costs no privacy budget.

        Parameters
        ----------
        n_components : int, optional
            K of the new mixture; None is that of this one.
        covariance_type : {"full", "tied", "diag", "spherical", "auto"}, optional
            What its covariances are, of methods "sketch" and "two-phase": see :func:`pm_dpgmm.fit_gmm`. None is that
            of this one.

        Returns
        -------
        Release
            With the raw numbers, the guarantee and the records' facts of this one. A :class:`pm_dpgmm.FitWarning` is
            given as for a fit.

        Raises
        ------
        TypeError, ValueError
            Unless of method "sketch", "two-phase", "histogram" or "local" and ``n_components`` is one or more, and no
            more than the released numbers can tell apart; if ``covariance_type`` is none of these, or given for
            another method; or if the mixture of a "sketch" is of no ordinary size beside its numbers.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15))
        >>> other = release.refit(1)
        >>> other.means.shape, other.guarantee is release.guarantee
        ((1, 1), True)
        """
        from pm_dpgmm.release.by_statistic import refit
        from pm_dpgmm.release.late_warnings import warn_of_fit

        release = refit(self, n_components, covariance_type=covariance_type)
        warn_of_fit(release, stacklevel=2)
        return release

    def select_k(self, n_components: Iterable[int] = range(1, 9), *, penalty: float | str = 4.0) -> KSelection:
        """Compare numbers of components on the released statistics. Costs no privacy budget.

        Parameters
        ----------
        n_components : iterable of int
            Numbers to compare.
        penalty : float, "aic" or "bic"
            Price of a parameter, in units of minus twice the log posterior density: a positive number, 2 for "aic", the
            logarithm of the number of released numbers for "bic".

        Returns
        -------
        KSelection
            ``chosen``, the ``release`` with so many, scores and misfits of all; its repr is a table.

        Raises
        ------
        TypeError, ValueError
            As :meth:`refit`, or if ``penalty`` is none of these.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 2000 + [[6.0]] * 2000)
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-10, 15), random_seed=1)  # one is too few
        >>> release.select_k(range(1, 4)).chosen
        2
        """
        from pm_dpgmm.release.by_statistic import select_k

        return select_k(self, n_components, penalty=penalty)

    def check_fit(
        self,
        idata: Any = None,
        *,
        name: str | None = None,
        n_draws: int = 200,
        random_seed: int | np.random.Generator | None = None,
    ) -> FitCheck:
        """Does a mixture explain the released numbers? A predictive check. Costs no privacy budget.

        Parameters
        ----------
        idata : InferenceData, DataTree or Dataset, optional
            None checks the released mixture. Otherwise the posterior predictive check of the mixtures in the posterior:
            ``{name}_weights`` (K,), ``{name}_means`` (K, D) and ``{name}_covariances`` (K, D, D), in the unit of the
            records, or the transformed one; of a histogram beside the far rows that ``observe`` estimated (those of the
            one release that was observed, or of that named "release").
        name : str, optional
            Needed where ``idata`` has several such sets.
        n_draws : int
            Draws of the posterior that are used, spread evenly.
        random_seed : int or numpy.random.Generator, optional
            For simulated counts; a sketch needs none.

        Returns
        -------
        FitCheck
            ``p_value`` is uniform, about, when the records are from the mixture, and small when they are not.

        Raises
        ------
        TypeError, ValueError
            Unless of method "sketch", "two-phase" or "histogram", or if ``idata`` has no such variables, several sets
            and no ``name``, or other features.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 500 + [[6.0]] * 500)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, bounds=(-10, 15), random_seed=1)
        >>> release.check_fit(random_seed=1).p_value > 0.01
        True
        """
        from pm_dpgmm.release.by_statistic import check_fit_of

        return check_fit_of(self, idata, name=name, n_draws=n_draws, random_seed=random_seed)
