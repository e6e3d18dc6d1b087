"""Noise-aware evidence of method "aggregate": the answer of a learner, normal about what it would answer without noise.

The law of the noise is exact; that of the learner's own error is what it was on simulated records of the released
mixture, scaled to the number of records. Both are in the offsets of :mod:`pm_dpgmm.mixture.coordinates` about the
released mixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt

from pm_dpgmm.bayes.likelihoods.shared_numbers import shared
from pm_dpgmm.mixture.coordinates import Coordinates, triangle
from pm_dpgmm.mixture.mixture import LOG_2PI

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

    from pm_dpgmm.methods.released import Released

LIKELIHOODS = ("gaussian",)
# share of the largest variance: directions in which the learner never differs, such as correlations of a diagonal
# mixture, say nothing of the records
FLAT = 1e-9


def log_likelihood(
    release: Released, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """Log density of the released answer given a mixture that the learner would answer to endless records.

    Post-processing: costs no privacy budget.

    Parameters
    ----------
    release : Release
        Of method "aggregate".
    weights, means, chol : tensors, shapes (K,), (K, D) and (K, D, D)
        Of the mixture; ``chol`` lower triangular with a positive diagonal. Component j is compared with component j of
        the release, so its order must be that of the release (matching.py).
    likelihood : {"auto", "gaussian"}
        The same.

    Returns
    -------
    TensorVariable, scalar
    """
    chart = Coordinates.about(release.mixture)
    assert chart.origin is not None
    base, middle, frames = chart.origin
    k, d = middle.shape
    weights = pt.specify_shape(pt.as_tensor_variable(weights), (k,))
    means = pt.specify_shape(pt.as_tensor_variable(means), (k, d))
    chol = pt.specify_shape(pt.as_tensor_variable(chol), (k, d, d))
    values, axes = np.linalg.eigh(release.raw["offset_covariance"])
    measured = values > FLAT * values[-1]
    deviations = np.sqrt(values[measured])
    whitener, inverse = (axes[:, measured] / deviations).T, np.linalg.inv(frames)
    constant = -np.log(deviations).sum() - 0.5 * len(deviations) * LOG_2PI

    logs = pt.log(weights) - shared(np.log(base))
    others = np.delete(np.arange(k), chart.reference)
    ratios = logs[others] - logs[chart.reference]
    moved = (shared(inverse) * (means - shared(middle))[:, None, :]).sum(axis=-1)
    factors = (shared(inverse)[:, :, :, None] * chol[:, None, :, :]).sum(axis=2)
    row, column, diagonal = triangle(d)
    entries = factors[:, row, column]
    entries = pt.set_subtensor(entries[:, diagonal], pt.log(entries[:, diagonal]))
    offsets = pt.concatenate([ratios, moved.ravel(), entries.ravel()])
    found: TensorVariable = shared(np.asarray(constant)) - 0.5 * pt.sum(pt.square(pt.dot(shared(whitener), offsets)))
    return found
