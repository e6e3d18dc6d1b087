"""Whether a finished fit gets a background, and how much of it: by evidence. Post-processing: nothing sees a record.

A component for every cluster leaves out what real tables have besides, a few rows far from all of them; a mixture
without a background gives such a row a log-density of minus dozens, and a few of them decide what the density is worth.
A search adds a background only where the objective falls a lot, with weights that do not depend on the mixture. Here
the finished fits with and without one are compared by their evidence, full covariance of the sketch and all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from pm_dpgmm.methods.sketch.estimate import SketchFit, doubt, full_weights, less_floor, prior_about
from pm_dpgmm.methods.sketch.fit import MOST_TESTED, refined, surprise, thinned
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.pursuit import FIRST_BACKGROUND
from pm_dpgmm.methods.sketch.search.start import merged_pair
from pm_dpgmm.methods.sketch.statistics import SketchStatistics

ODDS = 0.25  # before the numbers are seen, that some records are in no component
FINISHED = 2  # of the mixtures without a background: these are fitted to the end


def with_outliers(fit: SketchFit, evidence: SketchStatistics | None = None) -> SketchFit:
    """The fit without a background where its evidence is larger; else with one, its weight times its probability.

    The probability is that of a model choice with prior odds :data:`ODDS` and Laplace's approximation of both
    evidences: a weight that the numbers hardly know is taken for the mean over both models, not for its mode. Where
    ``evidence``, from which the fit was made, is of few records, any fit has a background, of the weight
    :func:`pm_dpgmm.methods.sketch.estimate.doubt` at least.

    Returns
    -------
    SketchFit
        The same object where neither is better than the fit.
    """
    found = _by_evidence(fit)
    least = 0.0 if evidence is None else doubt(evidence, fit.found.n_components)
    if fit.data.background is None or (found.found.background or 0.0) >= least:
        return found
    return SketchFit.of(fit.data, weighing(found.found, least))


def _by_evidence(fit: SketchFit) -> SketchFit:
    data, found = fit.data, fit.found
    if data.background is None:
        return fit
    prior = prior_about(found)
    own = cost_of(data, found, prior), found
    plain_cost, plain = own if found.background is None else without_background(data, found, prior)
    start = replace(plain, weights=plain.weights * (1 - FIRST_BACKGROUND), background=FIRST_BACKGROUND)
    if found.background is None:
        broad = full_weights(data, refined(data, start, prior), prior)
        broad_cost = cost_of(data, broad, prior)
    else:
        broad_cost, broad = min(own, finished(data, [start], prior), key=itemgetter(0))
    gain = plain_cost - broad_cost
    if not gain > 0:  # NaN: neither is a fit
        return fit if plain is found else SketchFit.of(data, plain)
    assert broad.background is not None
    weight = broad.background / (1 + math.exp(-gain / 2) / ODDS)
    return SketchFit.of(data, weighing(broad, weight))


def weighing(found: ScaledMixture, background: float) -> ScaledMixture:
    """The mixture with a background of that weight, all components in proportion."""
    scale = (1 - background) / found.weights.sum()
    return replace(found, weights=found.weights * scale, background=background)


def without_background(data: SketchData, found: ScaledMixture, prior: Prior) -> tuple[float, ScaledMixture]:
    """Of several fits the one with the largest evidence: what was the background is left out, or is a component.

    A broad cluster can pass for a background, and two components then share what is one: any two are merged.
    """
    all_of_it = ScaledMixture(*data.components(found))
    pairs = itertools.combinations(range(all_of_it.n_components), 2)
    merged = (less_floor(merged_pair(all_of_it, *pair), data.variance_floor) for pair in pairs)
    left_out = replace(found, weights=found.weights / found.weights.sum(), background=None)
    few = thinned(data, MOST_TESTED)
    starts = sorted((finished(few, [start], prior) for start in (left_out, *merged)), key=itemgetter(0))
    return finished(data, [start for _, start in starts[:FINISHED]], prior)


def finished(data: SketchData, starts: Sequence[ScaledMixture], prior: Prior) -> tuple[float, ScaledMixture]:
    """The fit with the largest evidence from mixtures that are nearly fits, after its :func:`cost_of`.

    Full weights are those at the start, and those of a fit with weights of no mixture: such a fit may lead away from a
    good start, or get a poor one going.
    """
    fits = [refined(data, start, prior) for start in starts]
    if data.full_weights:
        fits = [full_weights(data, one, prior) for one in (*starts, *fits)]
    return min(((cost_of(data, one, prior), one) for one in fits), key=itemgetter(0))


def cost_of(data: SketchData, found: ScaledMixture, prior: Prior) -> float:
    """Minus twice the log evidence; a covariance and its factor, which take as long as a fit's last steps."""
    return surprise(data, found, prior, quick=True)
