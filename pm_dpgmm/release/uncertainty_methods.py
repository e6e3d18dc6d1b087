"""What a release tells of its own precision: thin methods over :mod:`pm_dpgmm.release.uncertainty`, imported on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm.mixture.mixture import Mixture

if TYPE_CHECKING:
    from pm_dpgmm.release.release import Release
    from pm_dpgmm.release.uncertainty import Band, StandardErrors


class UncertaintyMethods:
    """Methods of a :class:`pm_dpgmm.Release` of method "sketch" or "two-phase"; all post-processing, free of budget.

    A normal approximation about the released mixture: not to be trusted where ``release.flag`` speaks, or where
    components could be exchanged. Mixtures, means and deviations are in the transformed unit of columns that have a
    transformation; points, and densities at them, in the unit of the records.
    """

    __slots__ = ()

    def draws(self, n_draws: int, *, random_seed: int | np.random.Generator | None = None) -> list[Mixture]:
        """Mixtures that the released numbers leave plausible: a normal approximation about the released one.

        Parameters
        ----------
        n_draws : int
        random_seed : int or numpy.random.Generator, optional
            Any seed is safe: what is drawn from has been paid for.

        Returns
        -------
        list of Mixture
            In the unit of the records, or the transformed one, without the background; component k everywhere that of
            the release.

        Raises
        ------
        TypeError, ValueError
            Unless of method "sketch" or "two-phase", and ``n_draws`` from 1 to 10^6.

        Warns
        -----
        BackgroundWarning
            If more than 1 % of the records are in the background.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 4000 + [[6.0]] * 4000)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-10, 15))
        >>> [mixture.means.shape for mixture in release.draws(2, random_seed=1)]
        [(2, 1), (2, 1)]
        """
        from pm_dpgmm.release.uncertainty import draws

        return draws(cast("Release", self), n_draws, random_seed=random_seed)

    def standard_errors(self) -> StandardErrors:
        """Standard errors of weights, means and component standard deviations: of noise and sampling together.

        Returns
        -------
        StandardErrors
            ``weights`` (K,), without unit; ``means`` and ``standard_deviations`` (K, D), in the unit of the records;
            ``flag`` says why they should not be trusted, or is None.

        Raises
        ------
        ValueError
            Unless of method "sketch" or "two-phase".

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal([[0.0]] * 4000 + [[6.0]] * 4000)
        >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-10, 15))
        >>> bool((release.standard_errors().means < 0.2).all())
        True
        """
        from pm_dpgmm.release.uncertainty import standard_errors

        return standard_errors(cast("Release", self))

    def interval(
        self,
        quantity: Callable[[Mixture], ArrayLike],
        *,
        probability: float = 0.9,
        n_draws: int = 1000,
        random_seed: int | np.random.Generator | None = None,
    ) -> Band:
        """Interval of any function of the released density.

        Parameters
        ----------
        quantity : function
            From a Mixture like ``density`` (with the background last, if there is one) to a number or an array.
        probability : float
            Of every interval on its own, between 0 and 1.
        n_draws : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        Band
            ``estimate``, ``lower`` and ``upper``, of the shape and unit that ``quantity`` returns.

        Raises
        ------
        TypeError, ValueError
            Unless of method "sketch" or "two-phase", or if ``probability`` or ``n_draws`` is out of range.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(5000, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-6, 6))
        >>> found = release.interval(lambda mixture: mixture.conditional({0: 1.0}).mean(), random_seed=1)
        >>> bool(found.lower < found.estimate < found.upper)
        True
        """
        from pm_dpgmm.release.uncertainty import interval

        return interval(
            cast("Release", self), quantity, probability=probability, n_draws=n_draws, random_seed=random_seed
        )

    def band(
        self,
        points: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        given: Mapping[str, float] | None = None,
        probability: float = 0.9,
        n_draws: int = 1000,
        random_seed: int | np.random.Generator | None = None,
    ) -> Band:
        """Pointwise intervals of the density of some features, given others.

        Parameters
        ----------
        points : array_like or DataFrame, shape (n_points, M), or (n_points,) for one feature
            Where, in the unit of the records. Columns of a data frame are matched by name, in any order.
        names : sequence of str, length M, optional
            Features whose joint density is wanted; None: all that are not given.
        given : mapping of str to float, optional
            Features that are known, in the unit of the records.
        probability, n_draws, random_seed
            As for :meth:`interval`.

        Returns
        -------
        Band
            Arrays of shape (n_points,), in one over the unit of each of the M features.

        Raises
        ------
        TypeError, ValueError
            As :meth:`interval`, or if ``names`` and ``given`` do not name different features.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(5000, 1))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-6, 6))
        >>> release.band([-1.0, 0.0, 1.0], random_seed=1).upper.shape
        (3,)
        """
        from pm_dpgmm.release.uncertainty import band

        chosen: dict[str, Any] = {"probability": probability, "n_draws": n_draws, "random_seed": random_seed}
        return band(cast("Release", self), points, names=names, given=given, **chosen)
