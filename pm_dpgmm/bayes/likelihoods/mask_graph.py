"""Likelihood of masked parameters as a graph: what those of both populous methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytensor.tensor as pt

from pm_dpgmm._arguments import check_choice
from pm_dpgmm.bayes.likelihoods.spectrum import eigenvalues
from pm_dpgmm.methods.populous.mask_law import FORMS, MaskedMixture, log_density

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable


def log_masked(
    masked: MaskedMixture, weights: Any, means: Any, chol: Any, *, likelihood: str = "auto"
) -> TensorVariable:
    """:func:`pm_dpgmm.methods.populous.mask_law.log_density` as a graph."""
    check_choice(("auto", *FORMS), likelihood=likelihood)
    form = masked.form if likelihood == "auto" else likelihood
    k, d = masked.means.shape
    weights = pt.specify_shape(pt.as_tensor_variable(weights), (k,))
    means = pt.specify_shape(pt.as_tensor_variable(means), (k, d))
    chol = pt.specify_shape(pt.as_tensor_variable(chol), (k, d, d))
    found: TensorVariable = log_density(masked, weights, means, chol, form=form, xp=pt, spectrum=eigenvalues)
    return found
