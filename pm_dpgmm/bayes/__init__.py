"""Mixtures in PyMC models: priors of latent vectors and initial values. The only part that imports PyMC."""

from __future__ import annotations

from pm_dpgmm.bayes.initvals import initvals, set_initvals
from pm_dpgmm.bayes.priors import mixture_prior
from pm_dpgmm.bayes.separation import is_multimodal, recommended_form

__all__ = ["initvals", "is_multimodal", "mixture_prior", "recommended_form", "set_initvals"]
