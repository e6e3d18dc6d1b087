"""What a release says of records: their density and draws of it, in the unit of the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_flag, check_real, generator_of, shown
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.records.feature_names import in_order, place_of
from pm_dpgmm.records.resolution import on_grid
from pm_dpgmm.records.transformed_columns import TransformedColumns
from pm_dpgmm.records.transformed_mixture import TransformedMixture

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released


class DensityMethods:
    """Methods of :class:`pm_dpgmm.methods.released.Released`."""

    __slots__ = ()

    def log_density(self, points: ArrayLike) -> FloatArray:
        """Log of the density, background and all, at every point; also of rounded columns before they are rounded.

        That is ``row_density``: methods that know bounds or found intervals have half a record there as wide as these,
        so that a row far from everything, such as noise hides, costs ten or twenty nats and not thousands. All else
        (``sample``, ``marginal``, ``conditional``, ``prior``, ``interval``) is of ``density``, without it.

        Parameters
        ----------
        points : array_like or DataFrame, shape (N, D)
            In the unit of the records. Columns of an array are in the order of ``feature_names``, of a frame in any.

        Returns
        -------
        ndarray, shape (N,)
            Logarithms of densities in one over the unit of each feature.

        Raises
        ------
        TypeError, ValueError
            If points are no numbers of that shape, or columns of a data frame are missing, unknown or too many.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
        >>> int(release.log_density([[0.0, 0.0], [4.0, 4.0]]).argmax())
        0
        """
        me = cast("Released", self)
        law = law_of(me.row_density, me.transformations, range(me.n_features))
        return law.log_density(in_order(points, me.feature_names, name="points"))

    def sample(
        self,
        n_points: int,
        *,
        random_seed: int | np.random.Generator | None = None,
        as_frame: bool = False,
        rounded: bool = False,
    ) -> Any:
        """Synthetic records from ``density``, background and all.

        Parameters
        ----------
        n_points : int
        random_seed : int or numpy.random.Generator, optional
            Any seed is safe: what is drawn from has been paid for.
        as_frame : bool
            Whether to return a pandas DataFrame with the names of the features.
        rounded : bool
            Whether to round columns to their ``resolution``, as the records were.

        Returns
        -------
        ndarray or DataFrame, shape (n_points, D)
            In the unit of the records.

        Raises
        ------
        TypeError, ValueError
            If ``n_points`` is no integer of at least 1, the seed is none, or ``as_frame`` no truth value.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
        >>> release.sample(3, random_seed=1).shape, list(release.sample(3, as_frame=True).columns)
        ((3, 2), ['x0', 'x1'])
        """
        check_flag(as_frame=as_frame, rounded=rounded)
        me = cast("Released", self)
        points = me.law.sample(n_points, rng=generator_of(random_seed))
        if rounded and me.resolution is not None:
            points = on_grid(points, me.resolution)
        if not as_frame:
            return points
        import pandas as pd

        return pd.DataFrame(points, columns=list(me.feature_names))

    def marginal(self, names: Sequence[str]) -> Mixture | TransformedMixture:
        """Law of some of the features, background and all.

        Parameters
        ----------
        names : sequence of str
            In the order that the columns of the result shall have.

        Returns
        -------
        Mixture, or TransformedMixture where one of them has a transformation
            In ``len(names)`` dimensions; densities and draws are in the unit of the records.

        Raises
        ------
        TypeError, ValueError
            If they are not different features of the release.

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
        >>> release.marginal(["x1"]).n_features
        1
        """
        if isinstance(names, (str, Set)) or not isinstance(names, Iterable):
            raise TypeError(f"names must be a sequence of feature names, got {shown(names)}")
        me = cast("Released", self)
        places = [place_of(name, me.feature_names, parameter="names") for name in names]
        return law_of(me.density.marginal(places), me.transformations, places)

    def conditional(self, given: Mapping[str, float]) -> Mixture | TransformedMixture:
        """Law of the other features, in their order, when some are known; background and all.

        Parameters
        ----------
        given : mapping of str to float
            Values of the known features, in the unit of the records.

        Returns
        -------
        Mixture, or TransformedMixture where one of the others has a transformation
            In D less ``len(given)`` dimensions; densities and draws are in the unit of the records.

        Raises
        ------
        TypeError, ValueError
            If they are not features of the release, all of them are given, or a value is no finite number, or none
            that the transformation of its column has (of "log", one above 0).

        Examples
        --------
        >>> import pm_dpgmm as dpg
        >>> X = np.random.default_rng(1).normal(size=(1000, 2))
        >>> release = dpg.fit_gmm(X, 1, epsilon=1.0, bounds=(-5, 5))
        >>> release.conditional({"x0": 0.5}).n_features
        1
        """
        if not isinstance(given, Mapping):
            raise TypeError(f"given must map feature names to values, got {shown(given)}")
        me = cast("Released", self)
        columns = {place_of(name, me.feature_names, parameter="given"): value for name, value in given.items()}
        others = [j for j in range(me.n_features) if j not in columns]
        known = in_transformed_unit(columns, me.transformations, me.feature_names)
        return law_of(me.density.conditional(known), me.transformations, others)


def law_of(
    mixture: Mixture, transformations: TransformedColumns | None, places: Sequence[int]
) -> Mixture | TransformedMixture:
    """Law in the unit of the records of the columns at ``places``, which have ``mixture`` in the transformed unit."""
    columns = None if transformations is None else transformations.of(places)
    return mixture if columns is None else TransformedMixture(mixture, columns)


def in_transformed_unit(
    given: Mapping[int, float], transformations: TransformedColumns | None, names: Sequence[str]
) -> dict[int, float]:
    """Values of some columns, by place, in the transformed unit; ValueError where a transformation has none."""
    known = dict(given)
    for j, value in given.items():
        name = f"given[{names[j]!r}]"
        check_real(**{name: value})
        if not np.isfinite(float(value)):
            raise ValueError(f"{name} must be finite, got {value}")
        one = None if transformations is None else transformations.columns[j]
        if one is None:
            continue
        known[j] = float(one.of_points(np.array([value], dtype=float))[0][0])
        if not np.isfinite(known[j]):
            rule = f"{name} must be a number that its transformation ({one.told}) has a value for"
            raise ValueError(f"{rule}, got {shown(value)}")
    return known
