"""Gaussian mixtures under differential privacy, for PyMC.

    import pm_dpgmm as dpg
    release = dpg.fit_gmm(X, 3, epsilon=1.0, bounds=(0, 80))

Importing this package loads neither PyMC nor matplotlib; both load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pm_dpgmm._version import __version__
from pm_dpgmm.cache_folders import provide_cache_folders

provide_cache_folders()  # before Numba and PyTensor are loaded


# public name -> module that defines it; loaded on first use, so that importing the package stays light
_PUBLIC = {
    "fit_gmm": "fit",
    "PrivateGaussianMixture": "estimator",
    "RecordBlocks": "record_blocks",
    "Release": "release",
    "BackgroundWarning": "background",
    "ComponentWarning": "caveats",
    "FitWarning": "caveats",
    "Checkpoint": "checkpoint",
    "resume": "checkpoint",
    "KSelection": "selection",
    "FitCheck": "fit_check",
    "combine": "combining",
    "Misfit": "misfit",
    "Mixture": "mixture",
    "Guarantee": "privacy",
    "Neighbouring": "privacy",
    "Unstable": "privacy",
    "WeakGuarantee": "privacy",
    "compose": "privacy",
    "Ledger": "ledger",
    "BudgetExceeded": "ledger",
    "HistogramMethod": "methods.histogram",
    "Populous": "methods.populous",
    "PopulousSingle": "methods.populous_single",
    "BatchedEM": "batched_em",
    "plan": "planning",
    "smallest_size": "planning",
    "Plan": "plan_result",
    "SliceMethod": "methods.slices",
    "check_modes": "bayes.modes",
    "plot_release": "plots",
    "plot_prior_posterior": "plots",
    "gmm": "bayes.density",
    "label_probs": "bayes.labels",
    "relabel": "bayes.labels",
    "plot_coverage": "plots",
}

__all__ = [*_PUBLIC, "__version__", "load"]

if TYPE_CHECKING:
    from pm_dpgmm.background import BackgroundWarning
    from pm_dpgmm.batched_em import BatchedEM
    from pm_dpgmm.bayes.density import gmm
    from pm_dpgmm.bayes.labels import label_probs, relabel
    from pm_dpgmm.bayes.modes import check_modes
    from pm_dpgmm.caveats import ComponentWarning, FitWarning
    from pm_dpgmm.checkpoint import Checkpoint, resume
    from pm_dpgmm.combining import combine
    from pm_dpgmm.estimator import PrivateGaussianMixture
    from pm_dpgmm.fit import fit_gmm
    from pm_dpgmm.fit_check import FitCheck
    from pm_dpgmm.ledger import BudgetExceeded, Ledger
    from pm_dpgmm.methods.histogram import HistogramMethod
    from pm_dpgmm.methods.populous import Populous
    from pm_dpgmm.methods.populous_single import PopulousSingle
    from pm_dpgmm.methods.slices import SliceMethod
    from pm_dpgmm.misfit import Misfit
    from pm_dpgmm.mixture import Mixture
    from pm_dpgmm.plan_result import Plan
    from pm_dpgmm.planning import plan, smallest_size
    from pm_dpgmm.plots import plot_coverage, plot_prior_posterior, plot_release
    from pm_dpgmm.privacy import Guarantee, Neighbouring, Unstable, WeakGuarantee, compose
    from pm_dpgmm.record_blocks import RecordBlocks
    from pm_dpgmm.release import Release
    from pm_dpgmm.selection import KSelection


def load(path: Any) -> Release:
    """Read a release file: :meth:`Release.load`."""
    from pm_dpgmm.release import Release

    return Release.load(path)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'pm_dpgmm' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pm_dpgmm.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
