"""Whether the density of one column hangs on the guess how wide components are, which the fit begins with.

Two narrow groups side by side and one wide component may have the same waves up to the finest one, if other components
make up for the rest or one of them is not needed; the weak prior on widths then decides. So other fits are looked at,
with narrow components as the guess and spikes to begin with. Post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.sketch.estimate import MEASURED, SketchFit, prior_about
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.spikes import as_spikes, marked, narrower, unseen_parts
from pm_dpgmm.mixture.total_variation import total_variation_mixtures

DIFFERS = 0.07  # total variation that counts
N_POINTS = 4_000


def hangs_on_the_guess(fit: SketchFit, most_components: int) -> str | None:
    """That another density fits the released numbers of one column as well, and where narrower groups may be.

    Parameters
    ----------
    fit : SketchFit
    most_components : int
        That another mixture may have.
    """
    data, found = fit.data, fit.found
    if len(data.unit) > 1 or found.n_components < 2 or most_components < 3:
        return None
    prior, spare = prior_about(found), found.n_components < most_components
    try:
        apart = _farthest(fit, as_spikes(data, found, prior, spare=spare))
        if not apart >= DIFFERS:
            apart = _farthest(fit, narrower(data, found, prior))
    except (ValueError, RuntimeError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, so go on
        return None
    if not apart >= DIFFERS:  # NaN, too
        return None
    which = listed(marked(found, unseen_parts(data, found)))
    return (
        f"the released numbers fit another density as well, which differs in {apart:.0%} of the records, with narrower"
        f" groups in place of {which}: the finest released wave does not tell them apart, and a guess decided. Tighter"
        " bounds may tell, or a larger order= of method 'sketch'"
    )


def _farthest(fit: SketchFit, others: Iterable[ScaledMixture]) -> float:
    return max((_apart(fit, other) for other in others), default=0.0)


def _apart(fit: SketchFit, other: ScaledMixture) -> float:
    """Total variation between the two densities; 0 where the other fits worse."""
    found = SketchFit.of(fit.data, other)
    if not found.deviance - fit.deviance < MEASURED:
        return 0.0
    rng = np.random.default_rng(0)  # of public points
    return total_variation_mixtures(fit.density, found.density, n_samples=N_POINTS, rng=rng)[0]
