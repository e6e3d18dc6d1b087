"""Whether a finished fit gets a background, and how much of it: by evidence. Post-processing: nothing sees a record.

A component for every cluster leaves out what real tables have besides, a few rows far from all of them; a mixture
without a background gives such a row a log-density of minus dozens, and a few of them decide what the density is worth.
A search adds a background only where the objective falls a lot, with weights that do not depend on the mixture. Here
the finished fits with and without one are compared by their evidence, full covariance of the sketch and all.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pm_dpgmm.methods.sketch.estimate import SketchFit, finished, prior_about
from pm_dpgmm.methods.sketch.fit import surprise
from pm_dpgmm.methods.sketch.search import FIRST_BACKGROUND

ODDS = 0.25  # before the numbers are seen, that some records are in no component


def with_outliers(fit: SketchFit) -> SketchFit:
    """The fit without a background where its evidence is larger; else with one, its weight times its probability.

    The probability is that of a model choice with prior odds :data:`ODDS` and Laplace's approximation of both
    evidences: a weight that the numbers hardly know is taken for the mean over both models, not for its mode.

    Returns
    -------
    SketchFit
        The same object where neither is better than the fit.
    """
    data, found = fit.data, fit.found
    if data.background is None:
        return fit
    prior = prior_about(found)
    share = found.weights.sum()
    if found.background is None:
        weight = FIRST_BACKGROUND
        other = finished(data, replace(found, weights=found.weights * (1 - weight), background=weight), prior)
        plain, broad = found, other
    else:
        plain, broad = finished(data, replace(found, weights=found.weights / share, background=None), prior), found
    gain = surprise(data, plain, prior, quick=True) - surprise(data, broad, prior, quick=True)
    if not gain > 0:  # NaN: neither is a fit
        return fit if found.background is None else SketchFit.of(data, plain)
    assert broad.background is not None
    weight = broad.background / (1 + math.exp(-gain / 2) / ODDS)
    scale = (1 - weight) / broad.weights.sum()
    return SketchFit.of(data, replace(broad, weights=broad.weights * scale, background=weight))
