"""Public partitions of space, hard or soft, whose parts moments are taken of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray, freeze
from pm_dpgmm.files.pickling import by_constructor


@dataclass(frozen=True, slots=True, eq=False)
class VoronoiPartition:
    """Public centres; a record belongs to the nearest one.

    Parameters
    ----------
    origin, unit : array_like, shape (n_features,)
        Records are taken as (x - origin) / unit; public.
    centres : array_like, shape (G, n_features)
        In that unit, like everything below.
    radii : array_like, shape (G,)
        Records further from their centre are moved to that distance.
    """

    origin: FloatArray
    unit: FloatArray
    centres: FloatArray
    radii: FloatArray
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        g, d = _shape_of(self.centres)
        freeze(self, origin=(d,), unit=(d,), centres=(g, d), radii=(g,))

    @property
    def shape(self) -> tuple[int, int]:
        """(parts, features)."""
        return self.centres.shape


@dataclass(frozen=True, slots=True, eq=False)
class SoftPartition:
    """A released mixture; a record belongs to its components by their posterior probabilities.

    Parameters
    ----------
    origin, unit : array_like, shape (n_features,)
    log_weights : array_like, shape (G,)
        Of the components, less the log-determinants of their factors.
    centres : array_like, shape (G, n_features)
    whiteners : array_like, shape (G, n_features, n_features)
        Lower triangular W with W S W' = I for the covariance S of a component.
    radii : array_like, shape (G,)
    """

    origin: FloatArray
    unit: FloatArray
    log_weights: FloatArray
    centres: FloatArray
    whiteners: FloatArray
    radii: FloatArray
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        g, d = _shape_of(self.centres)
        freeze(self, origin=(d,), unit=(d,), log_weights=(g,), centres=(g, d), whiteners=(g, d, d), radii=(g,))

    @classmethod
    def of(
        cls,
        origin: FloatArray,
        unit: FloatArray,
        weights: FloatArray,
        means: FloatArray,
        factors: FloatArray,
        *,
        reach: float,
    ) -> SoftPartition:
        """Components of a mixture with covariances L L'; radii are ``reach`` root mean square distances."""
        logs = np.log(np.maximum(weights, 1e-12)) - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        radii = reach * np.sqrt(np.square(factors).sum(axis=(1, 2)))
        return cls(origin, unit, logs, means, np.tril(np.linalg.inv(factors)), radii)

    @property
    def shape(self) -> tuple[int, int]:
        """(parts, features)."""
        return self.centres.shape


Partition = VoronoiPartition | SoftPartition


def _shape_of(centres: FloatArray) -> tuple[int, int]:
    if np.ndim(centres) != 2 or np.size(centres) == 0:
        raise ValueError(f"centres must have shape (parts, n_features), got {np.shape(centres)}")
    return np.shape(centres)
