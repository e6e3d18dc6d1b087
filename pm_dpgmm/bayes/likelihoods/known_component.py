"""A background in evidence: one component more, which stays as it was released."""

from __future__ import annotations

from typing import Any

import pytensor
import pytensor.tensor as pt

from pm_dpgmm.methods.sketch.law import factors_of
from pm_dpgmm.mixture.mixture import Mixture


def beside(background: tuple[float, Mixture], weights: Any, means: Any, chol: Any) -> tuple[Any, Any, Any]:
    """Tensors (K + 1,), (K + 1, D), (K + 1, D, D) of a density from those of its components, the background last."""
    share, broad = background
    mean, factor = (pytensor.shared(value, shape=value.shape) for value in (broad.means, factors_of(broad)))
    return (
        pt.concatenate([(1 - share) * weights, share * broad.weights]),
        pt.concatenate([means, mean]),
        pt.concatenate([chol, factor]),
    )
