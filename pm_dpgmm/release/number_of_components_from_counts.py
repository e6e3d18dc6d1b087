"""Numbers of components for a stored release of noisy counts: a refit, their scores. Post-processing, so free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from pm_dpgmm._arguments import check_choice, check_positive
from pm_dpgmm.methods.counts.count_check import CountLaw
from pm_dpgmm.methods.counts.histogram import fitted
from pm_dpgmm.methods.counts.histogram_fit import SMALLEST_EXPECTED
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.released_statistics import check_histogram
from pm_dpgmm.release.fit_check import check_counts

AnyRelease = TypeVar("AnyRelease", bound=Released)


@dataclass(frozen=True, slots=True, eq=False)
class CountFit(Generic[AnyRelease]):
    """A refit, minus twice its log-likelihood plus the price of its parameters, and its misfit."""

    release: AnyRelease
    score: float
    misfit: float


def refit_counts(release: AnyRelease, n_components: int) -> AnyRelease:
    """The same counts, another mixture."""
    check_histogram(release.raw, release.noise, release.n_features)
    if n_components == release.n_components:
        return release
    told = release.guarantee, release.raw, release.noise
    fit = fitted(*told, n_components, release.n_records, lambda done, total: None)
    weight, background = fit.background or (0.0, None)
    return replace(release, mixture=fit.mixture, noise=fit.noise, background_weight=weight, background=background)


def compared_counts(release: AnyRelease, numbers: Sequence[int], price: float) -> list[CountFit[AnyRelease]]:
    """Every number of components with its score.

    The likelihood is that of :func:`pm_dpgmm.methods.counts.noisy_poisson.count_log_likelihood` at exact cell
    probabilities; the misfit is the discrepancy of ``check_fit`` less its mean, in standard deviations of a chi-square.
    """
    check_histogram(release.raw, release.noise, release.n_features)
    counts = np.asarray(release.raw["counts"])
    noise_scale = float(release.noise["scale"])
    law = CountLaw.of(release.raw, release.noise, release.n_records)
    found = []
    for k in numbers:
        refit = refit_counts(release, k)
        expected = law.expected(refit.density) + SMALLEST_EXPECTED
        log_likelihood, _ = count_log_likelihood(counts.ravel(), expected, noise_scale=noise_scale)
        check = check_counts(refit, None, np.random.default_rng(0))
        d = refit.n_features
        n_parameters = k * (1 + d + d * (d + 1) // 2) + (refit.background is not None)
        misfit = (check.statistic - check.expected) / math.sqrt(2 * check.expected)
        found.append(CountFit(refit, float(-2 * log_likelihood.sum()) + price * n_parameters, misfit))
    return found


def count_price(penalty: Any, n_counts: int) -> float:
    """Price of a parameter: a positive number, "aic" (2) or "bic" (log of the number of counts)."""
    if isinstance(penalty, str):
        check_choice(("aic", "bic"), penalty=penalty)
        return 2.0 if penalty == "aic" else math.log(n_counts)
    check_positive(penalty=penalty)
    return float(penalty)
