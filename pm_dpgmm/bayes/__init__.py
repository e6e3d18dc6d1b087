"""Mixtures in PyMC models: priors of latent vectors, initial values, a learner. The only part that imports PyMC."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

# Found, not imported: settings of the learner load no PyMC. Every way into this package passes here.
if importlib.util.find_spec("pymc") is None:
    raise ImportError("pm_dpgmm.bayes needs PyMC, which is not installed: pip install pymc")

# public name -> module that defines it; loaded on first use, so that settings of the learner load no PyMC
_PUBLIC = {
    "GMMParams": "params",
    "MapMixture": "map_learner",
    "MixtureLabels": "label_step",
    "MixturePrior": "prior_factory",
    "ModeCheck": "mode_check",
    "anchor_separation": "anchor_laws",
    "check_modes": "modes",
    "gaussian_posterior": "measurement",
    "gmm": "density",
    "gmm_dist": "density",
    "initvals": "starting_values",
    "is_multimodal": "separation",
    "label_density": "label_variable",
    "label_probs": "labels",
    "measured": "measured_vectors",
    "mixture_dist": "priors",
    "mixture_params": "params",
    "mixture_prior": "priors",
    "recommended_form": "separation",
    "relabel": "labels",
    "release_params": "params",
    "set_initvals": "starting_values",
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
    from pm_dpgmm.bayes.anchor_laws import anchor_separation
    from pm_dpgmm.bayes.density import gmm, gmm_dist
    from pm_dpgmm.bayes.label_step import MixtureLabels
    from pm_dpgmm.bayes.label_variable import label_density
    from pm_dpgmm.bayes.labels import label_probs, relabel
    from pm_dpgmm.bayes.map_learner import MapMixture
    from pm_dpgmm.bayes.measured_vectors import measured
    from pm_dpgmm.bayes.measurement import gaussian_posterior
    from pm_dpgmm.bayes.mode_check import ModeCheck
    from pm_dpgmm.bayes.modes import check_modes
    from pm_dpgmm.bayes.params import GMMParams, mixture_params, release_params
    from pm_dpgmm.bayes.prior_factory import MixturePrior
    from pm_dpgmm.bayes.priors import mixture_dist, mixture_prior
    from pm_dpgmm.bayes.separation import is_multimodal, recommended_form
    from pm_dpgmm.bayes.starting_values import initvals, set_initvals


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'pm_dpgmm.bayes' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pm_dpgmm.bayes.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value
