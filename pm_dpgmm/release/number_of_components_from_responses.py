"""Numbers of components for a stored release of local responses: a refit, their scores. Post-processing, so free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pm_dpgmm.methods.local.caveats import misfit
from pm_dpgmm.methods.local.fit import chart_of
from pm_dpgmm.methods.local.method import MOST_COMPONENTS, MOST_NUMBERS, outcome_of, searched
from pm_dpgmm.methods.released import Released
from pm_dpgmm.release.number_of_components_from_counts import CountFit

AnyRelease = TypeVar("AnyRelease", bound=Released)


def check_responses(numbers: Sequence[int], n_features: int) -> None:
    """Raise ValueError unless mixtures of so many components can be fitted to responses."""
    if max(numbers) > MOST_COMPONENTS or chart_of(max(numbers), n_features).size > MOST_NUMBERS:
        raise ValueError(
            f"n_components must be at most {MOST_COMPONENTS}, for a mixture of at most {MOST_NUMBERS} numbers, to be"
            f" fitted to local responses, got {max(numbers)} in {n_features} columns"
        )


def refit_responses(release: AnyRelease, n_components: int) -> AnyRelease:
    """The same responses, another mixture."""
    check_responses([n_components], release.n_features)
    if n_components == release.n_components:
        return release
    return compared_responses(release, [n_components], 0.0)[0].release


def compared_responses(release: AnyRelease, numbers: Sequence[int], price: float) -> list[CountFit[AnyRelease]]:
    """Every number of components with its score, by the likelihood of the fit."""
    check_responses(numbers, release.n_features)
    found = []
    for k in numbers:
        search = searched(release.raw, release.noise, k, lambda done, total: None)
        outcome = outcome_of(search, release.guarantee, release.raw, release.noise)
        fitted = replace(release, mixture=outcome.mixture, noise=outcome.noise)
        _, evidence, _, best = search
        score = 2 * evidence.loss(best.shares) + price * (best.chart.size - 1)
        found.append(CountFit(fitted, score, misfit(evidence, best)))
    return found
