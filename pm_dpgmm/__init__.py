"""Gaussian mixtures under differential privacy, for PyMC.

    import pm_dpgmm as dpg
    release = dpg.fit_gmm(X, 3, epsilon=1.0, bounds=(0, 80))

Importing this package loads neither PyMC nor matplotlib; both load on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pm_dpgmm._version import __version__ as __version__
from pm_dpgmm.files.cache_folders import provide_cache_folders

provide_cache_folders()  # before Numba and PyTensor are loaded

# public name -> module that defines it; loaded on first use, so that importing the package stays light
_PUBLIC = {
    "fit_gmm": "fit",
    "fit_levels": "by_level",
    "LevelReleases": "release.levels",
    "PrivateGaussianMixture": "estimator",
    "RecordBlocks": "records.blocks",
    "Release": "release.release",
    "Transformation": "records.transformation",
    "TransformedMixture": "records.transformed_mixture",
    "BackgroundWarning": "mixture.background",
    "ComponentWarning": "methods.fit_warnings",
    "FitWarning": "methods.fit_warnings",
    "Checkpoint": "release.checkpoint",
    "resume": "release.checkpoint",
    "KSelection": "release.selection",
    "FitCheck": "release.fit_check",
    "combine": "release.combining",
    "Misfit": "methods.sketch.checks.misfit",
    "Mixture": "mixture.mixture",
    "Guarantee": "privacy.guarantee",
    "Neighbouring": "privacy.guarantee",
    "Unstable": "privacy.guarantee",
    "WeakGuarantee": "privacy.guarantee",
    "compose": "privacy.guarantee",
    "Ledger": "privacy.ledger",
    "BudgetExceeded": "privacy.ledger",
    "HistogramMethod": "methods.counts.histogram",
    "Populous": "methods.populous.method",
    "PopulousSingle": "methods.populous_single.method",
    "BatchedEM": "learners.batched_em",
    "VectorLearner": "learners.vector_learner",
    "Aggregate": "methods.aggregate.method",
    "Answer": "release.answer",
    "LocalMethod": "methods.local.method",
    "LocalProtocol": "methods.local.protocol",
    "LocalReports": "methods.local.aggregation",
    "fit_reports": "release.local_reports",
    "EM": "methods.em.method",
    "MapPrior": "methods.em.maximisation",
    "Central": "methods.central.method",
    "plan": "planning.plan",
    "smallest_size": "planning.sizes",
    "Plan": "planning.result",
    "plot_plans": "planning.plots",
    "plot_pairs": "release.pair_plots",
    "group_epsilons": "privacy.group_privacy",
    "SliceMethod": "methods.counts.slices",
    "GapsMethod": "methods.gaps.method",
    "check_modes": "bayes.prior.modes",
    "plot_release": "release.plots",
    "plot_prior_posterior": "release.plots",
    "gmm": "bayes.rows.density",
    "label_probs": "bayes.rows.labels",
    "relabel": "bayes.rows.labels",
    "plot_coverage": "release.plots",
    "robust_normal": "mechanisms.robust_normal",
    "SampleSize": "planning.sample_sizes",
    "selection_size": "planning.sample_sizes",
    "populous_size": "planning.sample_sizes",
    "mixture_rate": "planning.sample_sizes",
    "univariate_rate": "planning.sample_sizes",
    "necessary_rate": "planning.sample_sizes",
}

__all__ = [*_PUBLIC, "__version__", "load"]

if TYPE_CHECKING:  # "as": type checkers take other names for private ones of a package with py.typed
    from pm_dpgmm.bayes.prior.modes import check_modes as check_modes
    from pm_dpgmm.bayes.rows.density import gmm as gmm
    from pm_dpgmm.bayes.rows.labels import label_probs as label_probs, relabel as relabel
    from pm_dpgmm.by_level import fit_levels as fit_levels
    from pm_dpgmm.estimator import PrivateGaussianMixture as PrivateGaussianMixture
    from pm_dpgmm.fit import fit_gmm as fit_gmm
    from pm_dpgmm.learners.batched_em import BatchedEM as BatchedEM
    from pm_dpgmm.learners.vector_learner import VectorLearner as VectorLearner
    from pm_dpgmm.mechanisms.robust_normal import robust_normal as robust_normal
    from pm_dpgmm.methods.aggregate.method import Aggregate as Aggregate
    from pm_dpgmm.methods.central.method import Central as Central
    from pm_dpgmm.methods.counts.histogram import HistogramMethod as HistogramMethod
    from pm_dpgmm.methods.counts.slices import SliceMethod as SliceMethod
    from pm_dpgmm.methods.em.maximisation import MapPrior as MapPrior
    from pm_dpgmm.methods.em.method import EM as EM
    from pm_dpgmm.methods.fit_warnings import ComponentWarning as ComponentWarning, FitWarning as FitWarning
    from pm_dpgmm.methods.gaps.method import GapsMethod as GapsMethod
    from pm_dpgmm.methods.local.aggregation import LocalReports as LocalReports
    from pm_dpgmm.methods.local.method import LocalMethod as LocalMethod
    from pm_dpgmm.methods.local.protocol import LocalProtocol as LocalProtocol
    from pm_dpgmm.methods.populous.method import Populous as Populous
    from pm_dpgmm.methods.populous_single.method import PopulousSingle as PopulousSingle
    from pm_dpgmm.methods.sketch.checks.misfit import Misfit as Misfit
    from pm_dpgmm.mixture.background import BackgroundWarning as BackgroundWarning
    from pm_dpgmm.mixture.mixture import Mixture as Mixture
    from pm_dpgmm.planning.plan import plan as plan
    from pm_dpgmm.planning.plots import plot_plans as plot_plans
    from pm_dpgmm.planning.result import Plan as Plan
    from pm_dpgmm.planning.sample_sizes import (
        SampleSize as SampleSize,
        mixture_rate as mixture_rate,
        necessary_rate as necessary_rate,
        populous_size as populous_size,
        selection_size as selection_size,
        univariate_rate as univariate_rate,
    )
    from pm_dpgmm.planning.sizes import smallest_size as smallest_size
    from pm_dpgmm.privacy.group_privacy import group_epsilons as group_epsilons
    from pm_dpgmm.privacy.guarantee import (
        Guarantee as Guarantee,
        Neighbouring as Neighbouring,
        Unstable as Unstable,
        WeakGuarantee as WeakGuarantee,
        compose as compose,
    )
    from pm_dpgmm.privacy.ledger import BudgetExceeded as BudgetExceeded, Ledger as Ledger
    from pm_dpgmm.records.blocks import RecordBlocks as RecordBlocks
    from pm_dpgmm.records.transformation import Transformation as Transformation
    from pm_dpgmm.records.transformed_mixture import TransformedMixture as TransformedMixture
    from pm_dpgmm.release.answer import Answer as Answer
    from pm_dpgmm.release.checkpoint import Checkpoint as Checkpoint, resume as resume
    from pm_dpgmm.release.combining import combine as combine
    from pm_dpgmm.release.fit_check import FitCheck as FitCheck
    from pm_dpgmm.release.levels import LevelReleases as LevelReleases
    from pm_dpgmm.release.local_reports import fit_reports as fit_reports
    from pm_dpgmm.release.pair_plots import plot_pairs as plot_pairs
    from pm_dpgmm.release.plots import (
        plot_coverage as plot_coverage,
        plot_prior_posterior as plot_prior_posterior,
        plot_release as plot_release,
    )
    from pm_dpgmm.release.release import Release as Release
    from pm_dpgmm.release.selection import KSelection as KSelection


def load(path: Any) -> Release:
    """Read a release file: :meth:`Release.load`."""
    from pm_dpgmm.release.release import Release

    return Release.load(path)


if not TYPE_CHECKING:  # to a type checker every name would exist

    def __getattr__(name: str) -> Any:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'pm_dpgmm' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"pm_dpgmm.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
