"""How many components the released numbers ask for. Post-processing: nothing here sees a record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pm_dpgmm._arguments import check_choice, check_positive
from pm_dpgmm.methods.sketch.covariance_types import AUTO, FULL, kinds_in
from pm_dpgmm.methods.sketch.estimate import SketchFit, fit_evidence, less_floor, prior_about, with_floor
from pm_dpgmm.methods.sketch.fit import penalty, surprise
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.start import merged
from pm_dpgmm.methods.sketch.statistics import SketchStatistics

PRICE = 4.0  # of a parameter; prices of 1.1 to 5.3 found the true number in all of 29 comparisons (DECISIONS.md)
EXPLAINS, HOPELESS = 5.0, 30.0  # misfits: of a right mixture; of one that leaves out a component, mostly
STRONG = 6.0  # twice a log Bayes factor, from which a simpler kind of covariances is taken (Kass and Raftery 1995)
BEHIND = 50.0  # deviance, beyond the price of what it saves, by which a kind of covariances is out of the question


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Fits with several numbers of components to the same evidence, and their scores; the smallest is best.

    ``kinds``: where kinds of covariances were compared, the :func:`surprise` of the best fit of each; infinite for one
    that was out of the question.
    """

    fits: tuple[SketchFit, ...]
    scores: tuple[float, ...]
    kinds: Mapping[str, float] = field(default_factory=dict)

    @property
    def best(self) -> SketchFit:
        """The fit with the smallest score, of two the one with fewer components."""
        return self.fits[int(np.nanargmin(self.scores))] if np.isfinite(self.scores).any() else self.fits[0]

    @property
    def most_components(self) -> int:
        """The largest number that was fitted."""
        return max(fit.found.n_components for fit in self.fits)

    @property
    def starts(self) -> dict[int, ScaledMixture]:
        """The mixtures by their number of components, to start later fits from."""
        return {fit.found.n_components: fit.found for fit in self.fits}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: numbers of components, scores (None: not finite) and misfits."""
        return {
            "n_components": [fit.found.n_components for fit in self.fits],
            "score": [finite(score) for score in self.scores],
            "misfit": [finite(fit.misfit) for fit in self.fits],
        }

    def told(self) -> dict[str, Any]:
        """What a release holds of the comparison: scores of numbers of components, and of kinds of covariances."""
        scores: dict[str, Any] = {"k_scores": self.to_dict()} if len(self.fits) > 1 else {}
        kinds = {kind: finite(value) for kind, value in self.kinds.items()}
        return scores | ({"covariance_scores": kinds} if kinds else {})


def choose(
    evidence: SketchStatistics,
    choices: Sequence[int],
    *,
    first: Mapping[int, ScaledMixture] | None = None,
    price: float = PRICE,
    scored: bool = False,
    last: bool = True,
) -> Choice:
    """Fit every number of components in ``choices`` and score it; a single one only if ``scored``.

    Where the statistics leave the kind of covariances open, every kind is fitted so, and the one taken whose best fit
    has the largest evidence, by Laplace's approximation; full ones, unless the evidence against them is strong.

    Parameters
    ----------
    evidence : SketchStatistics
        What was released.
    choices : sequence of int
        Distinct, increasing.
    first : mapping of int to ScaledMixture, optional
        Mixtures to start from, by their number of components.
    price : float
        See :func:`score`.
    scored, last : bool
        ``last`` as for :func:`pm_dpgmm.methods.sketch.estimate.fit_evidence`.

    Notes
    -----
    The largest number comes first. Where it explains the numbers, a smaller one is searched for at length only if
    simple starts, among them the larger mixture with components merged, leave any hope: a long search for a mixture
    that is not there takes most of the time.
    """
    if evidence.covariance_type == AUTO:
        return _best_kind(evidence, choices, first=first, price=price, scored=scored, last=last)
    known, found = first or {}, dict[int, SketchFit]()
    for k in reversed(choices):
        begin = [known[k]] if k in known else []
        larger = min((n for n, fit in found.items() if fit.misfit < EXPLAINS), default=None)
        if larger is not None and len(evidence.unit) > 1:
            leaves = merged(with_floor(found[larger]), k)
            begin.append(less_floor(leaves, evidence.variance_floor))
            quick = [
                fit_evidence(evidence, k, first=one, search=False, last=False)
                for one in ([], *([item] for item in begin))
            ]
            best = min(quick, key=lambda fit: fit.found.objective)
            if best.misfit > HOPELESS:
                found[k] = best
                continue
        found[k] = fit_evidence(evidence, k, first=begin, last=last)
    fits = tuple(found[k] for k in choices)
    if len(fits) == 1 and not scored:
        return Choice(fits, (math.nan,))
    return Choice(fits, tuple(score(fit, price=price) for fit in fits))


def _best_kind(
    evidence: SketchStatistics, choices: Sequence[int], *, first: Mapping[int, ScaledMixture] | None, **settings: Any
) -> Choice:
    """Of all kinds of covariances; full ones come first, and are where the others start.

    A kind is searched for at length only if a fit from there leaves any hope.
    """
    found = {FULL: choose(replace(evidence, covariance_type=FULL), choices, first=first, **settings)}
    starts, full = found[FULL].starts, found[FULL].best
    kinds = dict.fromkeys(kinds_in(len(evidence.unit)), math.inf)
    for kind in kinds:
        own = replace(evidence, covariance_type=kind)
        if kind != FULL and len(evidence.unit) > 1:
            quick = fit_evidence(own, full.found.n_components, first=[full.found], search=False, last=False)
            saved = n_free(full) - n_free(quick)
            if quick.deviance > full.deviance + PRICE * saved + BEHIND:
                continue
        if kind != FULL:
            found[kind] = choose(own, choices, first=starts, **settings)
        best = found[kind].best
        kinds[kind] = surprise(best.data, best.found, prior_about(best.found))
    best_kind = min(found, key=kinds.__getitem__)
    return replace(found[FULL if kinds[FULL] - kinds[best_kind] <= STRONG else best_kind], kinds=kinds)


def price_of(penalty: object, evidence: SketchStatistics) -> float:
    """A positive number itself, 2 for "aic", log(number of released numbers) for "bic"."""
    if isinstance(penalty, str):
        check_choice(("aic", "bic"), penalty=penalty)
        return 2.0 if penalty == "aic" else math.log(sum(sketch.values.size for sketch in evidence.sketches))
    check_positive(penalty=penalty)
    return float(penalty)  # type: ignore[arg-type]


def score(fit: SketchFit, *, price: float = PRICE) -> float:
    """Minus twice the log posterior density under the full covariance of the sketch, and a price for each parameter.

    A parameter too many lowers the first part by about 1, so that 2, as in Akaike's criterion, lets too many in where
    a component has few parameters; the logarithm of the number of released numbers is too much where there are few
    records. The fit is not refined under the full covariance where it was made with a diagonal one: that hardly
    changes the score, and takes most of the time.
    """
    return fit.deviance + penalty(fit.data, fit.found, prior_about(fit.found)) + price * n_free(fit)


def n_free(fit: SketchFit) -> int:
    """Free numbers of the mixture, its background's weight among them."""
    return fit.data.flat(fit.found.n_components, fit.found.background is not None).size - 1


def finite(value: float) -> float | None:
    """A number that JSON can hold, or None."""
    return float(value) if math.isfinite(value) else None
