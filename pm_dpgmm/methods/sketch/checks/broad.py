"""Components that could be much broader than the fit says: the lowest released wave sees them as next to flat.

A few records far around the others, without bounds, leave no bins of their own. Their share is known then, and that
they are broad; how broad is a guess, and a guess that is too narrow costs much where they are. Post-processing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.sketch.estimate import MEASURED, SketchFit
from pm_dpgmm.mixture.mixture import Mixture

TIMES = (2.0, 3.0, 5.0, 10.0)  # as large deviations; a rise at one of them ends the trials
COSTS = 0.1  # nats a record
N_POINTS = 1_000


def could_be_broader(fit: SketchFit) -> str | None:
    """That components could be some times as broad, along all axes or one, at a cost, as far as the numbers tell."""
    found = [_broadest(fit, i) for i in range(fit.found.n_components)]
    most = np.array(found)
    if not (most > 1).any():
        return None
    times = f"{most.max():g} times" + (" or more" if most.max() == TIMES[-1] else "")
    return (
        f"the released numbers do not tell how broad {listed(most > 1)} may be: {times} as broad along some axis would"
        " explain them as well, and a density that is too narrow there loses a tenth of a nat a record or more. More"
        " records, a larger budget or bounds would tell"
    )


def _broadest(fit: SketchFit, component: int) -> float:
    """How many times as large its deviations may be, where that costs; else 1."""
    d = fit.found.means.shape[1]
    along = [np.ones(d, dtype=bool), *(np.eye(d, dtype=bool) if d > 1 else ())]
    most = 1.0
    for axes in along:
        for times in TIMES:
            try:
                other = _stretched(fit, component, np.where(axes, times, 1.0))
                if not other.deviance - fit.deviance < MEASURED:
                    break
                if _lost(fit.density, other.density, component) > COSTS:
                    most = max(most, times)
            except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, so go on
                break
    return most


def _stretched(fit: SketchFit, component: int, times: FloatArray) -> SketchFit:
    """With one component's deviations along its axes, the longest first, multiplied by ``times`` (D,)."""
    factors = fit.found.factors.copy()
    axes, lengths = np.linalg.svd(factors[component])[:2]
    factors[component] = np.linalg.cholesky((axes * np.square(times * lengths)) @ axes.T)
    return SketchFit.of(fit.data, replace(fit.found, factors=factors, given=None))


def _lost(density: Mixture, truth: Mixture, component: int) -> float:
    """Nats a record, by those of a component of ``truth``, as elsewhere the two are nearly the same."""
    own = Mixture([1.0], truth.means[[component]], truth.covariances[[component]])
    points = own.sample(N_POINTS, rng=np.random.default_rng(0))  # public
    return float(truth.weights[component] * (truth.log_density(points) - density.log_density(points)).mean())
