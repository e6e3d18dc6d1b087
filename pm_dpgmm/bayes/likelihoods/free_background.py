"""Rows far from all components, as a model of noisy counts has them: how many there are, and how they lie, is open.

A release has one number for them, the weight of its background, and one shape, a Gaussian as wide as the bounds. Held
fixed in evidence, both move what is said of the components: beside 6 % of uniform rows of 10,000, intervals of .90 of
the weights covered .35.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pm_dpgmm.bayes.coords import check_new
from pm_dpgmm.methods.counts.background import LEAST_SHARE, TYPICAL
from pm_dpgmm.methods.counts.count_check import CountLaw
from pm_dpgmm.methods.fit_warnings import FitWarning
from pm_dpgmm.methods.sketch.law import factors_of
from pm_dpgmm.mixture.background import background_of
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.posterior_draws import FLAT, WEIGHT

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

CONTRADICTED, SEED = 0.01, 20266  # p-value up to which evidence warns; of its simulation, public


@dataclass(frozen=True, slots=True, eq=False)
class FreeBackground:
    """Share of the records, and the part of them that is uniform within the bounds; the rest has the law ``broad``."""

    share: Any
    flat: Any
    broad: Mixture

    def beside(self, weights: Any, means: Any, chol: Any) -> tuple[Any, Any, Any]:
        """Tensors (K + 2,), (K + 2, D), (K + 2, D, D) of a density from those of its components.

        The last one is uniform, and has a mean and a factor that nobody reads.
        """
        mean, factor = (np.repeat(rows, 2, axis=0) for rows in (self.broad.means, factors_of(self.broad)))
        shapes = self.share * pt.stack([1 - self.flat, self.flat])
        return (
            pt.concatenate([(1 - self.share) * weights, shapes]),
            pt.concatenate([means, pt.as_tensor(mean)]),
            pt.concatenate([chol, pt.as_tensor(factor)]),
        )


def warn_if_contradicted(release: Released, n_components: int | None, *, stacklevel: int) -> None:
    """Warn of counts that no mixture near the released one explains, beside far rows of either shape.

    A false alarm in 100 releases, by simulation. A misfit that costs little in nats per record, of which a fit says
    nothing, moves parameters by several of their errors where records are many.

    Parameters
    ----------
    release : Release
        Of method "histogram".
    n_components : int or None
        Of the parameters that are observed, if known: the released mixture says nothing of another number of them.
    stacklevel : int
        As for ``warnings.warn``.
    """
    if n_components not in (None, release.n_components):
        return
    law = CountLaw.of(release.raw, release.noise, release.n_records)
    counts, background, rng = np.ravel(release.raw["counts"]), background_of(release), np.random.default_rng(SEED)
    try:
        p_value = law.check(counts, release.mixture, background, rng=rng, any_shape=True)[0]
    except ValueError:  # next to no noise: nothing to measure a contradiction by
        return
    if p_value <= CONTRADICTED:
        text = (
            f"the released counts contradict a mixture of {release.n_components} and rows far from all of them (p ="
            f" {p_value:.3f}): intervals of its parameters may be far too short, even where its density is"
            " good; more components may help (release.refit), and release.check_fit(idata) is the predictive check"
        )
        warnings.warn(FitWarning(text, release), stacklevel=stacklevel + 1)


def free_background(name: str, release: Released, model: Any) -> FreeBackground | None:
    """Free variables of the current model for the background of a release; None where it has none.

    ``{name}_background_odds`` (exponential, with the mean that the fit takes a background to have) and
    ``{name}_background_flat`` (uniform); ``{name}_background_weight`` is a Deterministic.
    """
    background = background_of(release)
    if background is None:
        return None
    odds, flat, weight = f"{name}_background_odds", f"{name}{FLAT}", f"{name}{WEIGHT}"
    check_new(model, odds, flat, weight)
    start = max(background[0], LEAST_SHARE)
    ratio = pm.Exponential(odds, scale=TYPICAL, initval=start / (1 - start))
    share = pm.Deterministic(weight, ratio / (1 + ratio))
    return FreeBackground(share, pm.Uniform(flat, 0.0, 1.0, initval=0.5), background[1])
