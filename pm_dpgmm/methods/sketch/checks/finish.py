"""What every fit to a sketch ends with: a background, places, and what a reader is told. Post-processing, so free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.checks.caveats import sketch_caveats
from pm_dpgmm.methods.sketch.checks.counted_groups import groups_without_component, with_counted_groups
from pm_dpgmm.methods.sketch.checks.misfit import better
from pm_dpgmm.methods.sketch.checks.outliers import with_outliers
from pm_dpgmm.methods.sketch.checks.places import beyond_the_interval, counted_cells, placed
from pm_dpgmm.methods.sketch.estimate import SketchFit, outer_bounds
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.far_rows import far_rows


def finish(
    fit: SketchFit, evidence: SketchStatistics, raw: Mapping[str, FloatArray], most_components: int
) -> tuple[SketchFit, SketchStatistics, dict[str, Any]]:
    """The fit to leave with, the evidence with its kind of covariances, and misfit and caveats as a release has them.

    ``raw``: all that was released with the evidence; ``most_components``: the largest number that was asked for. Misfit
    and most caveats are about the numbers of the sketch, the same wherever whole periods move a component.
    """
    cells = [] if evidence.bounds is None else counted_cells(raw, evidence.bounds, evidence.resolution)
    fit = with_outliers(with_counted_groups(fit, evidence, cells), evidence)
    evidence = replace(evidence, covariance_type=fit.data.covariance_type)
    fit, misfit = better(evidence, fit)
    told = misfit.to_dict() | far_rows(outer_bounds(evidence), evidence.n_records)
    caveats = sketch_caveats(evidence, fit, raw, most_components)
    fit, open_places = placed(fit, evidence, cells)
    of_counts = open_places + beyond_the_interval(fit, evidence, cells) + groups_without_component(fit, evidence, cells)
    return fit, evidence, told | {"caveats": caveats + of_counts}
