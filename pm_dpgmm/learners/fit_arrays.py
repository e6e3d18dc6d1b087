"""Fits to many subsets as arrays. Never leave a method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.mixture import Mixture

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Fits:
    """t fits as arrays; where ``given`` is False the rest of that fit has no meaning. Never leaves a method.

    The lower triangles of the covariances count, as for Cholesky.
    """

    weights: FloatArray  # (t, k)
    means: FloatArray  # (t, k, d), unit of the records
    covariances: FloatArray  # (t, k, d, d), unit of the records squared
    given: BoolArray  # (t,)

    def __post_init__(self) -> None:
        t, k, d = self.means.shape
        for name, shape in {"weights": (t, k), "covariances": (t, k, d, d), "given": (t,)}.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")
        for name in ("weights", "means", "covariances"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=float))

    def __len__(self) -> int:
        return len(self.given)


def stack_fits(fits: Iterable[Mixture | None], n_components: int, n_features: int) -> Fits:
    """``fits`` as arrays; what is no mixture of so many components and columns is not given."""
    fits = list(fits)
    t, k, d = len(fits), n_components, n_features
    stacked = Fits(np.zeros((t, k)), np.zeros((t, k, d)), np.zeros((t, k, d, d)), np.zeros(t, dtype=bool))
    for i, fit in enumerate(fits):
        if isinstance(fit, Mixture) and fit.means.shape == (k, d):
            stacked.weights[i], stacked.means[i], stacked.covariances[i] = fit.weights, fit.means, fit.covariances
            stacked.given[i] = True
    return stacked
