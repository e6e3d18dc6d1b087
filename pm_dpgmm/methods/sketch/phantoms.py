"""Components that the released numbers do not ask for, and how far they may be from anything true.

Post-processing. The curvature of the objective at one optimum says nothing of other optima that explain the numbers
as well. Whether a component is needed says more: if the fit without it is hardly worse, it may be noise, and the
others may be divided otherwise.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.fit import refined, whitener_of
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture, packed_spreads

STEPS = 10  # of a refit without a component
EFFORT = 2e10  # multiplications of all refits beyond which none is made
FREE = 2.0  # fall of the objective for each parameter of a component that explains only noise: price of Akaike (1974)
OTHERS_LOGITS, OTHERS_SCALES = 1.0, 0.5  # spreads of log weights and log deviations where components may be noise


def phantom_chances(data: SketchData, found: ScaledMixture, prior: Prior) -> FloatArray:
    """How likely each component explains nothing but noise, shape (K,); zeros where to know would take too long.

    The objective is minus twice a log density; a component that is noise lowers it by about FREE for each of its
    parameters, so the odds are exp(half of what it lowers it by beyond that).
    """
    k = found.n_components
    if k == 1 or k * STEPS * data.values.size * float(found.n_parameters) ** 2 > EFFORT:
        return np.zeros(k)
    try:
        whitener = whitener_of(data, found)[0] if found.means.shape[1] == 1 else None  # as the fit was made
    except np.linalg.LinAlgError:
        whitener = None
    here = refined(data, found, prior, whitener=whitener, steps=0).objective
    without = [refined(data, found.without(i), prior, whitener=whitener, steps=STEPS).objective for i in range(k)]
    needed = np.array(without) - here
    sizes = [data.flat(number, found.background is not None).size for number in (k, k - 1)]
    chances = special.expit((FREE * (sizes[0] - sizes[1]) - needed) / 2)
    return np.asarray(np.where(np.isfinite(chances), chances, 1.0))  # no fit without it: nothing is known


def widened_root(root: FloatArray, data: SketchData, found: ScaledMixture, chances: FloatArray) -> FloatArray:
    """Root (P, Q) of the errors' covariance, with what phantoms add to it.

    A phantom may be anywhere where the records are, of any weight; where there is one, each other component may be two
    of which the fit made one, or a part of one that it cut in two.
    """
    if not chances.max() > 1e-6:
        return root
    anyone = chances.max()
    weights = found.weights / found.weights.sum()
    middle = weights @ found.means
    own = np.square(found.factors).sum(axis=2)
    everywhere = weights @ (own + np.square(found.means - middle))
    logits = anyone * (OTHERS_LOGITS**2 + np.square(np.log(len(weights) * np.maximum(weights, 1e-6))))
    means = anyone * own + chances[:, None] * everywhere
    scales = np.full(len(weights), anyone * OTHERS_SCALES**2) + chances * OTHERS_SCALES**2
    flat = data.flat(len(weights), found.background is not None)
    spreads = flat.means(packed_spreads(found, np.sqrt(logits), np.sqrt(means), np.sqrt(scales)))
    return np.hstack([root, flat.steps(np.diag(spreads))])


def weight_variances(found: ScaledMixture, chances: FloatArray) -> FloatArray:
    """What phantoms add to the variances of the weights, shape (K,): they may as well all be equal."""
    weights = found.weights / found.weights.sum()
    return np.asarray(chances.max() * np.square(weights - 1 / len(weights)))
