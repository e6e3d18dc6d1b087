"""Mixtures in PyMC models: priors of latent vectors, parameters around a release, likelihoods of releases, rows.

PyMC is imported here and nowhere else, but for the demo and ``pm-dpgmm warm-up``. What is compiled has three forms
beside its front ``X``: ``X_graph`` (PyTensor, for JAX and second derivatives), ``X_kernel`` (Numba), ``X_operation``
(the Op that joins them).
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

# Found, not imported: settings of the learner load no PyMC. Every way into this package passes here.
if importlib.util.find_spec("pymc") is None:
    raise ImportError("pm_dpgmm.bayes needs PyMC, which is not installed: pip install pymc")

# public name -> module that defines it; loaded on first use, so that settings of the learner load no PyMC
_PUBLIC = {
    "GMMParams": "parameters.params",
    "MapMixture": "starts.map_mixture",
    "MixtureLabels": "prior.label_step",
    "MixturePrior": "prior.prior_factory",
    "ModeCheck": "prior.mode_check",
    "anchor_separation": "parameters.anchor_laws",
    "check_modes": "prior.modes",
    "gaussian_posterior": "prior.measurement",
    "gmm": "rows.density",
    "gmm_dist": "rows.density",
    "initvals": "starts.starting_values",
    "is_multimodal": "prior.separation",
    "label_density": "prior.label_variable",
    "label_probs": "rows.labels",
    "measured": "prior.measured_vectors",
    "mixture_dist": "prior.priors",
    "mixture_params": "parameters.params",
    "mixture_prior": "prior.priors",
    "recommended_form": "prior.separation",
    "relabel": "rows.labels",
    "release_params": "parameters.params",
    "set_initvals": "starts.starting_values",
}

__all__ = [
    "GMMParams",
    "MapMixture",
    "MixtureLabels",
    "MixturePrior",
    "ModeCheck",
    "anchor_separation",
    "check_modes",
    "gaussian_posterior",
    "gmm",
    "gmm_dist",
    "initvals",
    "is_multimodal",
    "label_density",
    "label_probs",
    "measured",
    "mixture_dist",
    "mixture_params",
    "mixture_prior",
    "recommended_form",
    "relabel",
    "release_params",
    "set_initvals",
]

if TYPE_CHECKING:
    from pm_dpgmm.bayes.parameters.anchor_laws import anchor_separation
    from pm_dpgmm.bayes.parameters.params import GMMParams, mixture_params, release_params
    from pm_dpgmm.bayes.prior.label_step import MixtureLabels
    from pm_dpgmm.bayes.prior.label_variable import label_density
    from pm_dpgmm.bayes.prior.measured_vectors import measured
    from pm_dpgmm.bayes.prior.measurement import gaussian_posterior
    from pm_dpgmm.bayes.prior.mode_check import ModeCheck
    from pm_dpgmm.bayes.prior.modes import check_modes
    from pm_dpgmm.bayes.prior.prior_factory import MixturePrior
    from pm_dpgmm.bayes.prior.priors import mixture_dist, mixture_prior
    from pm_dpgmm.bayes.prior.separation import is_multimodal, recommended_form
    from pm_dpgmm.bayes.rows.density import gmm, gmm_dist
    from pm_dpgmm.bayes.rows.labels import label_probs, relabel
    from pm_dpgmm.bayes.starts.map_mixture import MapMixture
    from pm_dpgmm.bayes.starts.starting_values import initvals, set_initvals


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'pm_dpgmm.bayes' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pm_dpgmm.bayes.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value
