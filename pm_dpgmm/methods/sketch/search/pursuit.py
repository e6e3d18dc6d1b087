"""Where a fit to sketches starts: searches for a mixture in the released numbers. Post-processing, free of budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.fit import misfit, refined, reweighted
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.prior import Prior
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.dictionary import Dictionary, best_added, places_of
from pm_dpgmm.methods.sketch.search.matched_filter import PlaceGrid

SCALES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)  # of candidates, as shares of the radius
WORTH = 1e-2  # least fall of the objective that counts


def fit_sketch(data: SketchData, n_components: int, prior: Prior, *, radius: float) -> ScaledMixture:
    """From an empty mixture: add the best candidate, refine, replace; again with a spare component, which is dropped.

    The better of the two is refitted with the full covariance of the sketch as weights. Without a spare component one
    fit in fourteen to 1,000 records lost 0.03 nats a record.
    """
    library = Dictionary.round(data, radius, SCALES)
    found: ScaledMixture | None = None
    for _ in range(n_components):
        found = replaced(data, added(data, found, prior, library), prior, library)
    assert found is not None
    larger = replaced(data, added(data, found, prior, library), prior, library)
    fewer = min(all_dropped(data, larger, prior), key=lambda other: other.objective)
    other = replaced(data, fewer, prior, library)
    return reweighted(data, min(found, other, key=lambda one: one.objective), prior)


def added(data: SketchData, found: ScaledMixture | None, prior: Prior, library: Dictionary) -> ScaledMixture:
    """One component more: the candidate that explains most of the residual, then a refit of all."""
    return refined(data, best_added(data, found, library, 1)[0], prior)


def replaced(
    data: SketchData, found: ScaledMixture, prior: Prior, library: Dictionary, *, passes: int = 3
) -> ScaledMixture:
    """Drop a component and add the best candidate in its place, as long as the objective falls."""
    for _ in range(passes if found.n_components > 1 else 0):
        before = found.objective
        for i in range(found.n_components):
            fewer = refined(data, found.without(i), prior, steps=6)
            other = added(data, fewer, prior, library)
            if other.objective < found.objective - WORTH:
                found = other
        if found.objective > before - WORTH:
            break
    return found


def all_dropped(data: SketchData, found: ScaledMixture, prior: Prior, *, steps: int = 15) -> list[ScaledMixture]:
    """One component less, in every way."""
    return [refined(data, found.without(i), prior, steps=steps) for i in range(found.n_components)]


# ---------------------------------------------------------------------- from given starts
GOOD = 5.0  # misfit below which nothing more is tried
BEST_ATOMS = 2  # candidates that are followed up, of each kind
FIRST_BACKGROUND, BACKGROUND_WORTH = 0.01, 12.0  # weight to start from; least fall of the objective for one
ENOUGH = 2  # moves that are made whatever the misfit says, where it says little
ELSEWHERE = 4.0  # fall of the objective for which a mixture that explains the sketch is left for another
LOOKED_AT = 400  # numbers in which a place for a component is looked for, where the mixture explains the sketch
ROWS, LEAST_ROWS = 4, 2000  # numbers for each parameter that a search looks at, at least; the fit itself uses all
REACHES = (8.0, 4.0, 2.0, 1.0)  # radii within which every place is looked at, as many as that is cheap in
EFFORT = 4e10  # multiplications that repairs may cost


def fit_from(
    data: SketchData,
    start: ScaledMixture,
    others: Iterable[ScaledMixture],
    prior: Prior,
    atoms: tuple[FloatArray, FloatArray],
    *,
    radius: float,
    thorough: bool,
    last: bool,
) -> ScaledMixture:
    """Fit from given mixtures; where none explains the sketch, search on until one does or the effort is spent.

    In the last fit one place more is tried in any case: of thousands of numbers chi-square does not notice a rare
    component that the start had put into a common one, and the objective falls by hundreds where it is found.

    Parameters
    ----------
    start : ScaledMixture
        Tried alone.
    others : iterable of ScaledMixture
        Asked for and tried when the first does not explain the sketch.
    atoms : (means, factors)
        Gaussians that may become components.
    thorough : bool
        Search on whatever the misfit says: with little signal it says little.
    last : bool
        Whether no fit to more numbers follows.
    """
    rows = max(LEAST_ROWS, ROWS * start.n_parameters)
    full, data = data, data.thinned(max(1, data.values.size // rows))
    work = Effort(data)
    found = with_background(data, refined(data, start, prior), prior)

    def of_all(best: ScaledMixture) -> ScaledMixture:
        return best if data is full else with_background(full, refined(full, best, prior), prior)

    if found.n_components == 1:
        return of_all(found)
    if not thorough and explained(data, found):
        other = elsewhere(data, found, prior, atoms, radius=radius) if last else None
        if other is not None:
            other = with_background(data, other, prior)
            found = other if other.objective < found.objective - ELSEWHERE else found
        return of_all(found)
    moves = [
        lambda _: _best((_tried(data, start, prior, work) for start in others), work),
        lambda best: add_and_drop(data, best, prior, atoms, work, radius=radius),
        lambda best: _best((spare(data, atoms, best, prior, work, more) for more in (2, 4)), work),
        lambda best: add_and_drop(data, best, prior, atoms, work, radius=radius),
        lambda best: _best((spare(data, atoms, best, prior, work, more) for more in (1, 3, best.n_components)), work),
        lambda best: add_and_drop(data, best, prior, atoms, work, radius=radius),
    ]
    for i, move in enumerate(moves):
        other = move(found)
        if other is not None:
            other = with_background(data, other, prior)
            if other.objective < found.objective:
                found = other
        enough = not thorough or i + 1 >= ENOUGH
        if work.spent > EFFORT or (enough and explained(data, found)):
            break
    return of_all(found)


def explained(data: SketchData, found: ScaledMixture) -> bool:
    """Whether the misfit is what a right mixture has."""
    return misfit(data, found) < GOOD


def with_background(data: SketchData, found: ScaledMixture, prior: Prior) -> ScaledMixture:
    """The same fit with a broad component, where the sketch asks for one."""
    if found.background is not None or data.background is None:
        return found
    weight = FIRST_BACKGROUND
    other = refined(data, replace(found, weights=found.weights * (1 - weight), background=weight), prior)
    return other if other.objective < found.objective - BACKGROUND_WORTH else found


class Effort:
    """Counts the multiplications of Levenberg-Marquardt steps: a clock that is the same on every machine."""

    def __init__(self, data: SketchData) -> None:
        self.rows, self.spent = data.values.size, 0.0

    def pay(self, found: ScaledMixture, steps: int) -> None:
        """Of ``steps`` steps for a mixture of that size."""
        self.spent += steps * self.rows * float(found.n_parameters) ** 2


def _best(fits: Iterator[ScaledMixture], work: Effort) -> ScaledMixture | None:
    """The best of fits that are made one by one until the effort is spent; None of none."""
    best = None
    for found in fits:
        if best is None or found.objective < best.objective:
            best = found
        if work.spent > EFFORT:
            break
    return best


def _tried(data: SketchData, start: ScaledMixture, prior: Prior, work: Effort) -> ScaledMixture:
    work.pay(start, 20)
    return refined(data, start, prior)


def outstanding_places(data: SketchData, found: ScaledMixture, radius: float) -> list[Dictionary]:
    """The best of all places within the bounds and as many radii as a grid may have, one dictionary or none."""
    for reach in REACHES:
        farthest = np.full((1, len(data.unit)), reach * radius)
        low, high = data.inside(np.concatenate([-farthest, farthest]))
        grid = PlaceGrid.over(data, found, low, high)
        if grid is not None:
            places = grid.places(data, found)
            return [] if places is None else [places]
    return []


def elsewhere(
    data: SketchData, found: ScaledMixture, prior: Prior, atoms: tuple[FloatArray, FloatArray], *, radius: float
) -> ScaledMixture | None:
    """:func:`add_and_drop` in short: the best place of each kind in a few of the numbers, and few steps from there."""
    few = data.thinned(max(1, data.values.size // LOOKED_AT))
    news = [best_added(few, found, kind, 1)[0] for kind in places_of(few, found, atoms, radius)]
    news += [new for narrow in outstanding_places(data, found, radius) for new in best_added(data, found, narrow, 1)]
    larger = min((refined(data, new, prior, steps=8) for new in news), key=lambda other: other.objective)
    other = min(all_dropped(data, larger, prior, steps=5), key=lambda other: other.objective)
    return refined(data, other, prior, steps=20) if other.objective < 2 * found.objective else None


def add_and_drop(
    data: SketchData,
    found: ScaledMixture,
    prior: Prior,
    atoms: tuple[FloatArray, FloatArray],
    work: Effort,
    *,
    radius: float,
) -> ScaledMixture | None:
    """Add the best atom, then drop the component that is missed least; at most as many as before."""
    library = [*places_of(data, found, atoms, radius), *outstanding_places(data, found, radius)]
    news = [new for kind in library for new in best_added(data, found, kind, BEST_ATOMS)]
    more = [refined(data, new, prior, steps=15) for new in news]
    larger = min(more, key=lambda other: other.objective)
    work.pay(larger, 15 * len(more))
    other = min(all_dropped(data, larger, prior, steps=5), key=lambda other: other.objective)
    work.pay(found, 5 * larger.n_components + 30)
    return None if other.objective > 3 * found.objective else refined(data, other, prior, steps=30)


def spare(
    data: SketchData,
    atoms: tuple[FloatArray, FloatArray],
    found: ScaledMixture,
    prior: Prior,
    work: Effort,
    more: int,
) -> ScaledMixture:
    """Fit with so many components more, then drop one at a time."""
    library, larger = Dictionary.of(data, *atoms), found
    for _ in range(more):
        larger = refined(data, best_added(data, larger, library, 1)[0], prior, steps=8)
        work.pay(larger, 8)
    larger = refined(data, larger, prior, steps=20)
    work.pay(larger, 20)
    while larger.n_components > found.n_components:
        larger = min(all_dropped(data, larger, prior, steps=4), key=lambda other: other.objective)
        work.pay(larger, 4 * (larger.n_components + 1))
    work.pay(larger, 20)
    return refined(data, larger, prior)
