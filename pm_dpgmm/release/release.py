"""The release: what was released, and everything that is done with it. All of it is free post-processing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import read_path
from pm_dpgmm.files.writing import write_text
from pm_dpgmm.methods.released import Released
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.release.card import card, summary
from pm_dpgmm.release.pymc_methods import PyMCMethods

if TYPE_CHECKING:
    from pm_dpgmm.release.fit_check import FitCheck
    from pm_dpgmm.release.selection import KSelection
    from pm_dpgmm.release.uncertainty import Band, StandardErrors


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Released, PyMCMethods):
    """A Gaussian mixture fitted under differential privacy, what it cost, and what was really released.

    Every field is safe to publish when ``private`` is True.

    Attributes
    ----------
    mixture : Mixture
        Released parameters; also ``weights`` (K,), ``means`` (K, D), ``covariances`` (K, D, D), in the unit of
        the records (squared for covariances), components in no meaningful order; without the background.
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
        Share of the records that no component describes, 0 unless the method found some: outliers, heavy tails.
    background : Mixture or None
        One broad Gaussian for them; never one of the K components, but part of ``density`` and of all that has it:
        ``log_density``, ``sample``, ``marginal``, ``conditional``, ``prior``, ``as_prior``, ``prior_dist``. What is of
        the components alone says so, and warns (:class:`pm_dpgmm.BackgroundWarning`) above 1 % of the records.
    private : bool
        False when the noise was drawn from a known seed, or that of a release that this one was made from or like; or
        when the records were public anyway.
    """

    # ------------------------------------------------------------------ other numbers of components
    def refit(self, n_components: int) -> Release:
        """The same statistics and guarantee, another mixture; ValueError unless of method "sketch" or "histogram"."""
        from pm_dpgmm.release.selection import refit

        return refit(self, n_components)

    def select_k(self, n_components: Iterable[int] = range(1, 9), *, penalty: float | str = 4.0) -> KSelection:
        """Compare numbers of components on the released statistics: :class:`pm_dpgmm.KSelection`. Free.

        ``penalty`` is the price of a parameter: a number, "aic" (2) or "bic" (log of the number of released numbers).
        """
        from pm_dpgmm.release.selection import select_k

        return select_k(self, n_components, penalty=penalty)

    def check_fit(
        self,
        idata: Any = None,
        *,
        name: str | None = None,
        n_draws: int = 200,
        random_seed: int | np.random.Generator | None = None,
    ) -> FitCheck:
        """Does the mixture explain the released numbers? A predictive check: :class:`pm_dpgmm.FitCheck`. Free.

        With ``idata``, the posterior predictive check over ``n_draws`` draws of the parameters ``{name}_weights``,
        ``{name}_means`` and ``{name}_covariances``. ValueError where only parameters are released.
        """
        from pm_dpgmm.release.fit_check import check_fit, mixtures_of

        drawn = None if idata is None else mixtures_of(idata, name=name, n_draws=n_draws, features=self.feature_names)
        if drawn and drawn[0].n_features != self.n_features:
            raise ValueError(f"idata must have {self.n_features} features as the release, got {drawn[0].n_features}")
        return check_fit(self, drawn, random_seed=random_seed)

    # ------------------------------------------------------------------ uncertainty (method "sketch"; imported on use)
    def draws(self, n_draws: int, *, random_seed: int | np.random.Generator | None = None) -> list[Mixture]:
        """Mixtures that the released numbers leave plausible, labels as here: :mod:`pm_dpgmm.release.uncertainty`."""
        from pm_dpgmm.release.uncertainty import draws

        return draws(self, n_draws, random_seed=random_seed)

    def standard_errors(self) -> StandardErrors:
        """Of weights, means and standard deviations: :func:`pm_dpgmm.release.uncertainty.standard_errors`."""
        from pm_dpgmm.release.uncertainty import standard_errors

        return standard_errors(self)

    def interval(self, quantity: Callable[[Mixture], ArrayLike], **settings: Any) -> Band:
        """Interval of any function of ``density``: :func:`pm_dpgmm.release.uncertainty.interval`."""
        from pm_dpgmm.release.uncertainty import interval

        return interval(self, quantity, **settings)

    def band(self, points: ArrayLike, **settings: Any) -> Band:
        """Pointwise intervals of a marginal or conditional density: :func:`pm_dpgmm.release.uncertainty.band`."""
        from pm_dpgmm.release.uncertainty import band

        return band(self, points, **settings)

    # ------------------------------------------------------------------ text and plots
    def summary(self) -> str:
        """What was fitted, what it cost and the released parameters, as text."""
        return summary(self)

    def card(self, path: str | os.PathLike[str]) -> Path:
        """Write a Markdown card to publish beside the file: summary, guarantee, noise law. Returns the path."""
        return write_text(read_path(path), card(self))

    def plot(self, **kwargs: Any) -> Any:
        """Density of the released mixture: :func:`pm_dpgmm.release.plots.plot_release`."""
        from pm_dpgmm.release.plots import plot_release

        return plot_release(self, **kwargs)
