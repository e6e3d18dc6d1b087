"""What the kind of statistics in a release allows, at no cost: one table, and the functions that ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pm_dpgmm._arguments import check_choice, check_count, generator_of, read_choices
from pm_dpgmm.methods.outcome import Outcome
from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.released_checks import MOST_RELEASED_COMPONENTS
from pm_dpgmm.methods.sketch.choice import PRICE
from pm_dpgmm.methods.sketch.covariance_types import COVARIANCE_TYPES
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.release.fit_check import (
    DrawnBackground,
    FitCheck,
    background_drawn,
    check_counts,
    check_sketch,
    mixtures_of,
)
from pm_dpgmm.release.interrupted_fits import (
    Interrupted,
    resumed_average,
    resumed_cells,
    resumed_em,
    resumed_gaps,
    resumed_histogram,
    resumed_local,
    resumed_sketch,
    resumed_slices,
)
from pm_dpgmm.release.number_of_components_from_counts import refit_counts
from pm_dpgmm.release.number_of_components_from_responses import refit_responses
from pm_dpgmm.release.selection import (
    KSelection,
    refit_sketch,
    selection_of_counts,
    selection_of_responses,
    selection_of_sketches,
)

if TYPE_CHECKING:
    from pm_dpgmm.release.release import Release

AnyRelease = TypeVar("AnyRelease", bound=Released)
NO_CHECK = "only sketches and histograms have a check"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What one kind of statistic allows; None, or a reason, where it does not."""

    check: Callable[[Released, Sequence[Mixture] | None, np.random.Generator], FitCheck] | str = NO_CHECK
    refit: Callable[..., Any] | None = None
    select: Callable[[Release, tuple[int, ...], float | str], KSelection] | None = None
    resume: Callable[[Interrupted], Outcome] | None = None
    chooses: bool = False  # a fit that is resumed may choose among numbers of components


ALLOWED = {
    Statistic.SKETCH: Allowed(check_sketch, refit_sketch, selection_of_sketches, resumed_sketch, chooses=True),
    Statistic.GRID_COUNTS: Allowed(check_counts, refit_counts, selection_of_counts, resumed_histogram),
    Statistic.SLICE_COUNTS: Allowed(
        "there is no test for the counts of one record in several directions", resume=resumed_slices
    ),
    Statistic.LIFTED_MASK: Allowed(),
    Statistic.MASK: Allowed(),
    Statistic.AVERAGE: Allowed(resume=resumed_average),
    Statistic.EM_SUMS: Allowed(resume=resumed_em),
    Statistic.CLUSTER_SUMS: Allowed(resume=resumed_em),
    Statistic.CELL_SUMS: Allowed(resume=resumed_cells),
    Statistic.BIN_COUNTS: Allowed(resume=resumed_gaps),
    Statistic.LOCAL_RESPONSES: Allowed(refit=refit_responses, select=selection_of_responses, resume=resumed_local),
    Statistic.UNKNOWN: Allowed(),
}


def check_fit(
    release: Released,
    mixtures: Sequence[Mixture] | None = None,
    *,
    far: DrawnBackground | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> FitCheck:
    """Compare the released numbers with what a mixture predicts for them; see :meth:`pm_dpgmm.Release.check_fit`.

    Parameters
    ----------
    release : Release
        Of a method that releases statistics: "sketch", "two-phase" or "histogram".
    mixtures : sequence of Mixture, optional
        Posterior draws of the mixture. The check then is the posterior predictive one, over all draws.
    far : pair of ndarray, optional
        Of a histogram: how many rows of each draw are far from all components, and which part of them is uniform.
    random_seed : int or numpy.random.Generator, optional
        For simulated counts; a sketch needs none.

    Returns
    -------
    FitCheck

    Raises
    ------
    ValueError
        If the method releases parameters only, or there are no draws.

    Notes
    -----
    The released mixture was fitted to the numbers. What a small step of its parameters could explain is left out on
    both sides, so the p-value is right whatever the fit had as its objective. With posterior draws it is not left out:
    such p-values keep away from 0 and 1 (Gelman, Meng and Stern 1996), so there are fewer false alarms than the p-value
    says, and less power.

    A sketch has the law N(n a phi, n V + s^2 I) under a mixture, so its squared distance is chi-square; of long
    sketches a part is tested. Counts are simulated: multinomial (Poisson, when the number of records is private) with
    discrete Laplace noise.
    """
    check = ALLOWED[release.statistic].check
    if isinstance(check, str):
        raise ValueError(
            f"check_fit has nothing to compare with for {release.statistic.of_method(release.method)}, as"
            f" {check}; it needs the statistics"
            " of 'sketch', 'two-phase' or 'histogram'"
        )
    if mixtures is not None:
        mixtures = list(mixtures)
        check_count(n_mixtures=len(mixtures))
    beside = {} if far is None else {"far": far}
    return replace(check(release, mixtures, generator_of(random_seed), **beside), private=release.private)


def check_fit_of(
    release: Released, idata: Any, *, name: str | None, n_draws: int, random_seed: int | np.random.Generator | None
) -> FitCheck:
    """See :meth:`pm_dpgmm.Release.check_fit`."""
    if idata is None:
        return check_fit(release, random_seed=random_seed)
    drawn = mixtures_of(idata, name=name, n_draws=n_draws, features=release.feature_names)
    if drawn[0].n_features != release.n_features:
        raise ValueError(f"idata must have {release.n_features} features as the release, got {drawn[0].n_features}")
    counts = release.statistic is Statistic.GRID_COUNTS
    far = background_drawn(idata, n_draws=n_draws) if counts else None
    return check_fit(release, drawn, far=far, random_seed=random_seed)


def refit(release: AnyRelease, n_components: int | None = None, *, covariance_type: str | None = None) -> AnyRelease:
    """See :meth:`pm_dpgmm.Release.refit`."""
    asked = release.n_components if n_components is None else n_components
    (number,) = read_choices([asked], most=MOST_RELEASED_COMPONENTS)
    refitted = ALLOWED[release.statistic].refit
    if refitted is None:
        raise ValueError(_refused(release, "refit"))
    kind: dict[str, str] = {}
    if covariance_type is not None:
        check_choice(COVARIANCE_TYPES, covariance_type=covariance_type)
        if release.statistic is not Statistic.SKETCH:
            rule = "covariance_type must be None unless the release is of method 'sketch' or 'two-phase'"
            raise ValueError(f"{rule}, got {covariance_type!r}")
        kind = {"covariance_type": covariance_type}
    found: AnyRelease = refitted(release, number, **kind)
    return found


def select_k(release: Release, n_components: Iterable[int], *, penalty: float | str = PRICE) -> KSelection:
    """See :meth:`pm_dpgmm.Release.select_k`."""
    numbers = read_choices(n_components, most=MOST_RELEASED_COMPONENTS)
    select = ALLOWED[release.statistic].select
    if select is None:
        raise ValueError(_refused(release, "select_k"))
    return select(release, numbers, penalty)


def _refused(release: Released, verb: str) -> str:
    return (
        f"{verb} needs a release of method 'sketch', 'two-phase', 'histogram' or 'local', got one of"
        f" {release.statistic.of_method(release.method)}"
    )
