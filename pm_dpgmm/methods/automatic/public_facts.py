"""The method that "auto" stands for where public facts alone decide."""

from __future__ import annotations

from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.counts.slices import SliceMethod
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch.method import SketchMethod


def by_public_facts(problem: Problem) -> str:
    """Its name; ValueError where none can answer."""
    if problem.delta > 0:
        return SketchMethod.name
    if problem.bounds is None:
        raise ValueError(
            "method 'auto' needs delta (it then takes 'sketch'), or bounds (it then takes 'histogram' or 'slices'),"
            f" got {problem.n_features} features, no bounds and no delta"
        )
    return HistogramMethod.name if problem.n_features <= 2 else SliceMethod.name
