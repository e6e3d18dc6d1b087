"""Groups of records that the noisy counts of cells show and no component stands for. Post-processing, so free.

In several columns the waves tell a small group surely and its place to a fraction of its width, but only a search from
within that width finds it. The counts that narrowed the bounds say in which cell of every column it lies.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.checks.places import NOTABLE, SURE, CountedCells, beyond, surest_excess, told_shares
from pm_dpgmm.methods.sketch.estimate import SketchFit, full_weights, prior_about
from pm_dpgmm.methods.sketch.fit import refined
from pm_dpgmm.methods.sketch.search.dictionary import best_added
from pm_dpgmm.methods.sketch.search.matched_filter import PlaceGrid
from pm_dpgmm.methods.sketch.search.pursuit import BACKGROUND_WORTH, all_dropped
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture

HARDLY = 0.25  # of the records that were counted: a mixture with fewer there has no component for them
LIKELY, MAYBE = 4.0, 2.0  # standard deviations of what may be a group: it is looked for, and the waves decide
TRIED, MOST_BOXES, EFFORT = 3, 4, 2.0  # places in each box, boxes, and what all may cost
COMMON, REACH = 0.05, 4.0  # where most records lie: so many deviations about components of so much weight


class Group(NamedTuple):
    """Neighbouring cells that hold several times the records that a mixture has there."""

    cells: slice
    counted: float
    expected: float
    sure: float  # standard deviations by which they are more


def with_counted_groups(fit: SketchFit, evidence: SketchStatistics, cells: Sequence[CountedCells]) -> SketchFit:
    """The fit with a component where a group was counted, in the place of the one that is missed least.

    The same object where no group lacks a component, or where the waves do not say so, too.
    """
    for _ in range(fit.found.n_components if len(evidence.unit) > 1 and fit.found.n_components > 1 else 0):
        boxes = _boxes(fit, evidence, cells)
        other = _moved_into(fit, boxes) if boxes else None
        if other is None:
            break
        fit = other
    return fit


def groups_without_component(fit: SketchFit, evidence: SketchStatistics, cells: Sequence[CountedCells]) -> list[str]:
    """That groups were counted within the interval of the waves that no component stands for; a text or none.

    Of several columns: in one the misfit, of fewer and surer numbers, tells of them.
    """
    parts: dict[int, str] = {}
    for one in cells if len(evidence.unit) > 1 else ():
        found = None if one.column in parts else _group(one, fit.density, evidence.n_records)
        if found is None or found.sure <= SURE or beyond(one, evidence)[found.cells].all():  # which is told otherwise
            continue
        counted, expected = found.counted / evidence.n_records, found.expected / evidence.n_records
        parts[one.column] = told_shares(counted, one.place(found.cells), one.column, expected)
    if not parts:
        return []
    return [
        f"records were counted where no component is: {'; '.join(parts.values())}. More components, tighter bounds or"
        " more records may give them one"
    ]


def _group(one: CountedCells, density: Mixture, n_records: float) -> Group | None:
    """The surest of such groups that matters, if there is any."""
    expected = one.expected(density, n_records)
    hardly = expected < HARDLY * one.counts
    variances = np.where(hardly, one.variances, np.inf)  # no group lies across a cell that the mixture has
    found = surest_excess(hardly * (one.counts - expected), variances, NOTABLE * n_records)
    if found is None:
        return None
    return Group(found.cells, float(one.counts[found.cells].sum()), float(expected[found.cells].sum()), found.sure)


def _boxes(fit: SketchFit, evidence: SketchStatistics, cells: Sequence[CountedCells]) -> list[FloatArray]:
    """Where a group may lie, each (2, D), in the unit of the data: in the cells that say so, or where most records do.

    None unless cells of some column are LIKELY to hold one. A column whose cells only may, gives both.
    """
    density, data = fit.density, fit.data
    common = density.weights > min(COMMON, float(density.weights.max()) / 2)
    means = density.means[common]
    reach = REACH * np.sqrt(np.diagonal(density.covariances, axis1=1, axis2=2))[common]
    most = np.array([(means - reach).min(axis=0), (means + reach).max(axis=0)]).T.tolist()
    likely, maybe = dict[int, list[float]](), dict[int, list[float]]()
    for one in cells:  # later ones are narrower
        found = _group(one, density, evidence.n_records)
        if found is not None and found.sure > MAYBE:
            told = likely if found.sure > LIKELY else maybe
            told[one.column] = one.edges[[found.cells.start, found.cells.stop]].tolist()
    if not likely:
        return []
    choices = [
        [likely[j]] if j in likely else [maybe[j], most[j]] if j in maybe else [most[j]] for j in range(len(most))
    ]
    boxes = itertools.islice(itertools.product(*choices), MOST_BOXES)
    return [data.inside((np.array(box).T - data.centre) / data.unit) for box in boxes]


def _moved_into(fit: SketchFit, boxes: Sequence[FloatArray]) -> SketchFit | None:
    """The fit with a component in one of the boxes and another one dropped; None unless the objective falls enough."""
    data, prior = fit.data, prior_about(fit.found)
    grids = [PlaceGrid.over(data, fit.found, low, high, effort=EFFORT / len(boxes)) for low, high in boxes]
    if all(grid is None for grid in grids):
        return None
    found = refined(data, fit.found, prior)
    looked_for = [grid.places(data, found) for grid in grids if grid is not None]
    news = [new for place in looked_for if place is not None for new in best_added(data, found, place, TRIED)]
    if not news:
        return None
    larger = min((refined(data, new, prior, steps=15) for new in news), key=lambda other: other.objective)
    fewer = min(all_dropped(data, larger, prior, steps=5), key=lambda other: other.objective)
    other = refined(data, fewer, prior)
    if not other.objective < found.objective - BACKGROUND_WORTH:
        return None
    return SketchFit.of(data, full_weights(data, other, prior))
