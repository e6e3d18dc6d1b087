"""The density of records whose transformed columns have a Gaussian mixture: in the unit of the records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, read_numbers, shown
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.records.transformed_columns import TransformedColumns


@dataclass(frozen=True, slots=True, eq=False)
class TransformedMixture:
    """Law of records in the unit that people use, some of whose columns have a mixture after a public transformation.

    Attributes
    ----------
    mixture : Mixture
        In the transformed unit, as are its means and covariances.
    transformations : TransformedColumns
        Of its columns.

    Raises
    ------
    TypeError, ValueError
        If they are of other kinds, or of different numbers of columns.

    Examples
    --------
    >>> from pm_dpgmm.records.transformation import Transformation
    >>> law = TransformedMixture(
    ...     Mixture([1.0], [[0.0]], [[[1.0]]]), TransformedColumns((Transformation.log(floor=1e-3),))
    ... )
    >>> law.log_density([[1.0], [-1.0]]).round(3).tolist()  # log-normal
    [-0.919, -inf]
    """

    mixture: Mixture
    transformations: TransformedColumns

    def __post_init__(self) -> None:
        if not isinstance(self.mixture, Mixture):
            raise TypeError(f"mixture must be a Mixture, got {shown(self.mixture)}")
        if not isinstance(self.transformations, TransformedColumns):
            raise TypeError(f"transformations must be TransformedColumns, got {shown(self.transformations)}")
        if self.transformations.n_features != self.mixture.n_features:
            rule = f"transformations must be {self.mixture.n_features}, one for each column of the mixture"
            raise ValueError(f"{rule}, got {self.transformations.n_features}")

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return self.mixture.n_features

    @property
    def n_components(self) -> int:
        """Number of components, K."""
        return self.mixture.n_components

    @property
    def weights(self) -> FloatArray:
        """Mixing weights, shape (K,)."""
        return self.mixture.weights

    @property
    def medians(self) -> FloatArray:
        """Of every component in every column, in the unit of the records, shape (K, D)."""
        return self.transformations.to_units(self.mixture.means)

    def log_density(self, points: ArrayLike) -> FloatArray:
        """Natural logarithm of the density at every row of ``points`` (N, D), in the unit of the records; shape (N,).

        -inf where a transformation has no value, as a logarithm of what is not above 0.
        """
        rows = read_numbers(points, "points")
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(f"points must have shape (n_points, {self.n_features}), got {rows.shape}")
        moved, slopes = self.transformations.of_points(rows)
        nowhere = slopes == -np.inf
        moved[nowhere] = 0.0
        return np.where(nowhere, -np.inf, self.mixture.log_density(moved) + np.where(nowhere, 0.0, slopes))

    def sample(self, n_points: int, *, rng: int | np.random.Generator | None = None) -> FloatArray:
        """Draw ``n_points`` independent rows, shape (n_points, D), in the unit of the records.

        From a generator, a seed or fresh entropy.
        """
        return self.transformations.to_units(self.mixture.sample(n_points, rng=rng))
