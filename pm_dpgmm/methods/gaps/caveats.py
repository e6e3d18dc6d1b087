"""What the released numbers of method "gaps" say against its mixture. Post-processing: no record is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.counts.caveats import MATTERS, TIMES, Counts, Judged, excess
from pm_dpgmm.methods.counts.histogram_law import noise_variance
from pm_dpgmm.methods.gaps.bin_fit import masses
from pm_dpgmm.methods.gaps.groups import groups_of
from pm_dpgmm.methods.gaps.statistics import GapStatistics
from pm_dpgmm.methods.sketch.estimate import MEASURED
from pm_dpgmm.mixture.mixture import Mixture

ELSEWHERE = 12.0  # standard deviations of the nearest group from which a component was not found by its gaps
NOTABLE = 0.02  # weight
INTERRUPTED = "the fit was interrupted before its choice: the mixture is the likeliest for what was released until then"


def gap_caveats(raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture) -> list[str]:
    """That the released counts contradict the mixture, lack its widths, or showed more groups than it has components.

    Empty where nothing speaks against the fit. Nothing is raised.

    Guarantee
    ---------
    Post-processing: costs no privacy budget.
    """
    try:
        with np.errstate(all="ignore"):
            found = GapStatistics.of(raw, noise)
            fit = judged(found, mixture)
            told = (_misfit(fit), _groups(found, mixture), _unmeasured_width(found, fit))
            return [text for text in told if text]
    except (LookupError, TypeError, ValueError, ArithmeticError):  # the budget is spent, or a file is odd: go on
        return []


def judged(found: GapStatistics, mixture: Mixture) -> Judged:
    """The counts of the bins beside what the mixture expects."""
    bins = found.bins
    bounds = np.array([[bins.edges[0], bins.edges[-1]]])
    counts = Counts(bins.counts, noise_variance(bins.noise_scale), bounds, len(bins.counts), None)
    deviations = np.sqrt(mixture.covariances[:, 0, 0])
    shares, _ = masses(bins, mixture.means[None, :, 0], deviations[None])
    total = float(found.n_records) if found.n_records is not None else float(bins.counts.sum())
    return Judged(counts, mixture, mixture.weights, shares[0], 0.0, max(total, 1.0))


def _misfit(fit: Judged) -> str | None:
    size = excess(fit)
    if size < MATTERS:
        return None
    told = f"{size:.2g}" if size < 1 else "1"
    return (
        f"a mixture of {fit.mixture.n_components} components does not fit the released counts: they alone show that it"
        f" is off by {told} nats per record or more; another number of components may help"
    )


def _unmeasured_width(found: GapStatistics, fit: Judged) -> str | None:
    """That components lie within a bin or two, so that the counts do not tell how narrow they are."""
    deviations = np.sqrt(fit.mixture.covariances[:, 0, 0]) / TIMES
    shares = masses(found.bins, fit.mixture.means[None, :, 0], deviations[None])[0][0]
    narrower = np.array([fit.rise(i, row) for i, row in enumerate(shares)]) < MEASURED
    if fit.mixture.weights[narrower].sum() <= NOTABLE:
        return None
    return (
        f"some widths were not measured: as far as the released counts tell, {listed(narrower)} could be {TIMES:.0f}"
        " times narrower or more, and densities there are arbitrary; more records may tell, or bounds from public"
        " knowledge, with method 'sketch'"
    )


def _groups(found: GapStatistics, mixture: Mixture) -> str | None:
    """Groups that no component is near: places of many records that the mixture leaves out."""
    deviations = np.sqrt(mixture.covariances[:, 0, 0])
    groups = groups_of(found.gaps)
    total = sum(group.count for group in groups)
    missed = 0
    for group in groups:
        reach = ELSEWHERE * group.scale
        near = (mixture.means[:, 0] >= group.low - reach) & (mixture.means[:, 0] <= group.high + reach)
        alike = deviations < ELSEWHERE * group.scale
        missed += not (near & alike).any() and group.count > NOTABLE * total
    if not missed:
        return None
    return (
        f"{missed} of {len(groups)} places where records lie close together have no component of their own:"
        " more components may help"
    )
