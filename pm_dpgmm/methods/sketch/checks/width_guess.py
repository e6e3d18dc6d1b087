"""Whether the density of one column hangs on the guess how wide components are, which the fit begins with.

Two narrow groups side by side and one wide component may have the same waves up to the finest one, if other components
make up for the rest; the weak prior on widths then decides. So the fit is repeated with components of a GUESS-th of the
width as the guess. Post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.sketch.estimate import MEASURED, SketchFit, prior_about
from pm_dpgmm.methods.sketch.fit import refined, reweighted
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.pursuit import all_dropped
from pm_dpgmm.mixture.total_variation import total_variation_mixtures

GUESS = 16.0
TURNS = 1.75  # finest frequency times deviation below which a component's shape may be unseen
NOTABLE = 0.1  # weight of a component that is looked at
DIFFERS = 0.1  # total variation that counts
NARROW = 0.3  # deviation of the halves that a component is cut into, with its mean and variance as a whole
STEPS, N_POINTS = 15, 4_000


def hangs_on_the_guess(fit: SketchFit) -> str | None:
    """That another density fits the released numbers of one column as well, and where narrower groups may be."""
    if len(fit.data.unit) > 1 or fit.found.n_components < 3 or fit.rejected:
        return None
    turns = np.abs(fit.found.factors[:, 0, 0]) * np.abs(fit.data.frequencies).max()
    unseen: NDArray[np.bool_] = (turns < TURNS) & (fit.found.weights > NOTABLE)
    try:
        apart = max((_apart(fit, other) for other in _narrower(fit, unseen)), default=0.0)
    except (ValueError, RuntimeError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, so go on
        return None
    if not apart >= DIFFERS:  # NaN, too
        return None
    return (
        f"the released numbers fit another density as well, which differs in {apart:.0%} of the records, with narrower"
        f" groups in place of {listed(unseen)}: the finest released wave does not tell them apart, and a guess decided."
        " Tighter bounds would tell, or a larger order= of method 'sketch'"
    )


def _narrower(fit: SketchFit, unseen: NDArray[np.bool_]) -> Iterator[ScaledMixture]:
    """Fits with the other guess, from each of the unseen components cut in two and another one dropped."""
    prior = prior_about(fit.found)
    prior = replace(prior, scale=prior.scale / GUESS)
    for k in np.flatnonzero(unseen):
        cut = refined(fit.data, _cut(fit.found, int(k)), prior, steps=STEPS)
        for fewer in all_dropped(fit.data, cut, prior, steps=STEPS):
            yield reweighted(fit.data, fewer, prior)


def _apart(fit: SketchFit, other: ScaledMixture) -> float:
    """Total variation between the two densities; 0 where the other fits worse."""
    found = SketchFit.of(fit.data, other)
    if not found.deviance - fit.deviance < MEASURED:
        return 0.0
    rng = np.random.default_rng(0)  # of public points
    return total_variation_mixtures(fit.density, found.density, n_samples=N_POINTS, rng=rng)[0]


def _cut(found: ScaledMixture, k: int) -> ScaledMixture:
    weight, mean, factor = found.weights[k] / 2, found.means[k], NARROW * found.factors[k]
    step = math.sqrt(1 - NARROW**2) * found.factors[k, :, 0]
    means = np.vstack([np.delete(found.means, k, axis=0), mean - step, mean + step])
    weights = np.append(np.delete(found.weights, k), [weight, weight])
    factors = np.concatenate([np.delete(found.factors, k, axis=0), factor[None], factor[None]])
    return replace(found, weights=weights, means=means, factors=factors)
