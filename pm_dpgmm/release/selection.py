"""Other numbers of components for a stored release: a refit, a comparison. Post-processing, so free of budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.released_statistics import check_histogram
from pm_dpgmm.methods.sketch.checks.finish import finish
from pm_dpgmm.methods.sketch.choice import Choice, choose, price_of
from pm_dpgmm.methods.sketch.covariance_types import FULL
from pm_dpgmm.methods.sketch.estimate import SketchFit, as_start
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.methods.sketch.statistics_checks import check_fittable, check_numbers, check_start
from pm_dpgmm.privacy.guarantee import NOT_PRIVATE
from pm_dpgmm.release.number_of_components_from_counts import CountFit, compared_counts, count_price
from pm_dpgmm.release.number_of_components_from_responses import compared_responses

if TYPE_CHECKING:
    from pm_dpgmm.release.release import Release

OF_A_FIT = ("k_scores", "covariance_scores", "covariance_type")
AnyRelease = TypeVar("AnyRelease", bound=Released)


@dataclass(frozen=True, slots=True, eq=False)
class KSelection:
    """Numbers of components compared on the statistics of one release.

    Attributes
    ----------
    n_components : tuple of int
        Increasing.
    scores : tuple of float
        Minus twice the log posterior density of each fit (of counts and responses: log-likelihood), plus ``penalty``
        for each parameter: the smallest is best, and differences of a few units say little.
    misfits : tuple of float
        Of each fit; right mixtures stay below about 5. ``releases[i].misfit`` says what they cost in nats.
    releases : tuple of Release
        The refits; all have the guarantee and the statistics of the release they came from.
    penalty : float
        4 unless another was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal([[0.0]] * 2000 + [[9.0]] * 2000)
    >>> release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-5, 15))
    >>> found = release.select_k(range(1, 4))
    >>> found.chosen, found.release.n_components, found.release.guarantee is release.guarantee
    (2, 2, True)
    """

    n_components: tuple[int, ...]
    scores: tuple[float, ...]
    misfits: tuple[float, ...]
    releases: tuple[Release, ...]
    penalty: float
    __reduce__ = by_constructor

    @property
    def chosen(self) -> int:
        """Number of components with the smallest score; of two, the smaller."""
        return self.n_components[self._best]

    @property
    def release(self) -> Release:
        """The refit with ``chosen`` components."""
        return self.releases[self._best]

    @property
    def private(self) -> bool:
        """As the releases say."""
        return self.release.private

    @property
    def _best(self) -> int:
        return min(range(len(self.scores)), key=self.scores.__getitem__)

    def summary(self) -> str:
        """A table: number of components, score above the best, misfit."""
        least = min(self.scores)
        lines = ["components  score above best   misfit"]
        for k, score, misfit in zip(self.n_components, self.scores, self.misfits, strict=True):
            mark = "  <- chosen" if k == self.chosen else ""
            lines.append(f"{k:>10}  {score - least:16.1f} {misfit:8.1f}{mark}")
        if self.release.flag:
            lines.append(f"WARNING: {self.release.flag}.")
        if not self.private:
            lines.append(f"{NOT_PRIVATE}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<KSelection: {self.chosen} of {', '.join(map(str, self.n_components))} components>\n{self.summary()}"

    def as_dict(self) -> dict[str, Any]:
        """Chosen number, and lists of numbers, scores and misfits; JSON-ready where all are finite."""
        return {
            "chosen": self.chosen,
            "private": self.private,
            "penalty": self.penalty,
            "n_components": list(self.n_components),
            "scores": list(self.scores),
            "misfits": list(self.misfits),
        }

    def plot(self, *, ax: Any = None) -> Any:
        """Score above the best by number of components: :func:`pm_dpgmm.release.plots.plot_selection`."""
        from pm_dpgmm.release.plots import plot_selection

        return plot_selection(self, ax=ax)


def refit_sketch(release: AnyRelease, n_components: int, covariance_type: str | None = None) -> AnyRelease:
    """The same sketches, another mixture; None: covariances of the kind that it has.

    The release's own number may give another mixture where the mixture had been chosen by a private comparison: where
    none of so many components explained the first round.
    """
    evidence = _evidence(release)
    check_numbers([n_components], release.n_features, evidence.n_numbers)
    if covariance_type is not None:
        evidence = replace(evidence, covariance_type=covariance_type)
    choice = choose(evidence, [n_components], first=_own(release, evidence))
    return with_fit(release, evidence, choice.best, choice)


def selection_of_sketches(release: Release, numbers: tuple[int, ...], penalty: float | str) -> KSelection:
    """Numbers of components by the released sketches."""
    evidence = _evidence(release)
    check_numbers(numbers, release.n_features, evidence.n_numbers)
    price = price_of(penalty, evidence)
    choice = choose(evidence, numbers, first=_own(release, evidence), price=price, scored=True)
    releases = tuple(with_fit(release, evidence, fit, choice) for fit in choice.fits)
    return KSelection(numbers, choice.scores, tuple(fit.misfit for fit in choice.fits), releases, price)


def selection_of_counts(release: Release, numbers: tuple[int, ...], penalty: float | str) -> KSelection:
    """Numbers of components by the released counts of a grid."""
    check_histogram(release.raw, release.noise, release.n_features)
    price = count_price(penalty, release.raw["counts"].size)
    return _compared(numbers, compared_counts(release, numbers, price), price)


def selection_of_responses(release: Release, numbers: tuple[int, ...], penalty: float | str) -> KSelection:
    """Numbers of components by the counts of local responses."""
    counts = release.raw.get("local_asked", release.raw.get("local_counts"))
    if counts is None:
        raise ValueError("a release of method 'local' must have reports to be fitted, got none")
    price = count_price(penalty, counts.size)
    return _compared(numbers, compared_responses(release, numbers, price), price)


def _compared(numbers: tuple[int, ...], fits: Sequence[CountFit[Release]], price: float) -> KSelection:
    scores, misfits = tuple(fit.score for fit in fits), tuple(fit.misfit for fit in fits)
    return KSelection(numbers, scores, misfits, tuple(fit.release for fit in fits), price)


def with_fit(
    release: AnyRelease, evidence: SketchStatistics, fit: SketchFit, choice: Choice | None = None
) -> AnyRelease:
    """The same statistics, of which ``evidence`` was read, and guarantee with another mixture."""
    most_components = fit.found.n_components if choice is None else choice.most_components
    fit, evidence, told = finish(fit, evidence, release.raw, most_components)
    noise = {name: value for name, value in release.noise.items() if name not in OF_A_FIT}
    noise |= {} if evidence.covariance_type == FULL else {"covariance_type": evidence.covariance_type}
    noise |= told | ({} if choice is None else choice.told())
    weight, broad = fit.background or (0.0, None)
    return replace(release, mixture=fit.mixture, noise=noise, background_weight=weight, background=broad)


def _evidence(release: Released) -> SketchStatistics:
    evidence = SketchStatistics.from_arrays(release.raw, release.noise)
    check_fittable(evidence, "release")
    return evidence


def _own(release: Released, evidence: SketchStatistics) -> dict[int, ScaledMixture]:
    """The release's mixture as a start."""
    return {release.n_components: own_start(release, evidence, "release")}


def own_start(release: Released, evidence: SketchStatistics, name: str) -> ScaledMixture:
    """The mixture of a release from anywhere as a start of a fit to ``evidence``.

    ValueError, about ``name``, unless it has an ordinary size there: from another start the search takes minutes and
    ends nowhere.
    """
    try:
        with np.errstate(all="ignore"):
            start = as_start(evidence, release.mixture, release.background_weight)
    except np.linalg.LinAlgError:  # what overflows in the unit of the evidence
        raise ValueError(f"{name} must have a mixture of the size of its unit, got one far from it") from None
    check_start(start, name)
    return start
