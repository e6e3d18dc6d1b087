"""Where a fit to sketches starts: searches for a mixture in the released numbers. Post-processing, free of budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special, stats

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.characteristic import component_functions
from pm_dpgmm.sketch_fit import Fitted, Prior, SketchData, misfit, rated, refined, reweighted

ATOMS = 192  # candidates for a new component, of each scale
SCALES = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)  # of candidates, as shares of the radius
SEARCHES = (SCALES, SCALES[:4], SCALES[2:])  # each is a search of its own
SPARE = 2  # components fitted beyond those wanted, then dropped one by one
WORTH = 1e-2  # least fall of the objective that counts


def fit_sketch(data: SketchData, n_components: int, prior: Prior, *, radius: float) -> Fitted:
    """Several searches from an empty mixture: add the best candidate, refine, replace; with spare components, too.

    The three best are refined with the full covariance of the sketch as weights, and the best of these is returned.
    """
    candidates = []
    for scales in SEARCHES:
        library = Library.round(data, radius, scales)
        found: Fitted | None = None
        for k in range(1, n_components + 1 + SPARE):
            found = replaced(data, added(data, found, prior, library), prior, library)
            if k == n_components:
                candidates.append(found)
        while found is not None and found.n_components > n_components:
            found = min(all_dropped(data, found, prior), key=lambda other: other.objective)
        assert found is not None
        candidates.append(replaced(data, found, prior, library))
    best: list[Fitted] = []
    for found in sorted(candidates, key=lambda other: other.objective):
        if not best or found.objective > best[-1].objective + WORTH:  # not the same one again
            best.append(found)
    return min(
        (rated(data, reweighted(data, found, prior), prior) for found in best[:3]), key=lambda other: other.objective
    )


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """Candidates for a component."""

    means: FloatArray  # (A, D)
    factors: FloatArray  # (A, D, D)
    shapes: FloatArray  # (2 m, A): weighted characteristic functions
    powers: FloatArray  # (A,)

    @classmethod
    def of(cls, data: SketchData, means: FloatArray, factors: FloatArray) -> Library:
        """Given Gaussians."""
        shapes = component_functions(data.frequencies, means, factors)
        weighted = (data.size / data.deviations)[:, None] * np.concatenate([shapes.real, shapes.imag])
        return cls(means, factors, weighted, np.square(weighted).sum(axis=0))

    @classmethod
    def round(cls, data: SketchData, radius: float, shares: Sequence[float]) -> Library:
        """Round Gaussians spread over the ball at several scales."""
        n_features = data.frequencies.shape[1]
        points = stats.qmc.Halton(n_features + 1, scramble=False).random(ATOMS * len(shares) + 1)[1:]
        directions = special.ndtri(np.clip(points[:, :-1], 1e-9, 1 - 1e-9))
        if n_features == 1:
            means = radius * (2 * points[:, :1] - 1)
        else:
            lengths = np.linalg.norm(directions, axis=1, keepdims=True)
            means = radius * directions / lengths * points[:, -1:] ** (1 / n_features)
        scales = radius * np.tile(shares, ATOMS)
        return cls.of(data, means, scales[:, None, None] * np.eye(n_features))


def added(data: SketchData, found: Fitted | None, prior: Prior, library: Library, *, steps: int = 40) -> Fitted:
    """One component more: the candidate that explains most of the residual, then a refit of all."""
    return refined(data, best_added(data, found, library, 1)[0], prior, steps=steps)


def best_added(data: SketchData, found: Fitted | None, library: Library, number: int) -> list[Fitted]:
    """The mixture with each of the candidates that explain most of its residual; None is the empty mixture."""
    residuals = -data.values if found is None else data.residuals(found)
    overlap = -library.shapes.T @ (residuals / data.deviations)
    share = np.clip(overlap / library.powers, 0.02, 1.0)
    order = np.argsort(share**2 * library.powers - 2 * share * overlap, kind="stable")[:number].tolist()
    if found is None:
        return [Fitted(np.ones(1), library.means[[j]], library.factors[[j]]) for j in order]
    return [found.with_component(share[j] / (1 + share[j]), library.means[j], library.factors[j]) for j in order]


def replaced(data: SketchData, found: Fitted, prior: Prior, library: Library, *, passes: int = 3) -> Fitted:
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


def all_dropped(data: SketchData, found: Fitted, prior: Prior, *, steps: int = 15) -> list[Fitted]:
    """One component less, in every way."""
    return [refined(data, found.without(i), prior, steps=steps) for i in range(found.n_components)]


# ---------------------------------------------------------------------- from given starts
GOOD = 5.0  # misfit below which nothing more is tried
BEST_ATOMS, BEST_DROPS = 3, 3  # candidates that are followed up
PLACES, MANY_PLACES = 300, 4000  # random places at which a component may be added, each at two scales
FARTHEST = 4.0  # half of the places lie up to so many radii away: bounds may have been narrowed past a small cluster
PLACE_SEED = 20242  # public
FIRST_BACKGROUND, BACKGROUND_WORTH = 0.01, 12.0  # weight to start from; least fall of the objective for one
ENOUGH = 2  # moves that are made whatever the misfit says, where it says little
ROWS, LEAST_ROWS = 4, 2000  # numbers for each parameter that a search looks at, at least; the fit itself uses all
EFFORT = 4e10  # multiplications that repairs may cost


def fit_from(
    data: SketchData, starts: Sequence[Fitted], prior: Prior, atoms: tuple[FloatArray, FloatArray], *, radius: float,
    thorough: bool,
) -> Fitted:  # fmt: skip
    """Fit from given mixtures; where none explains the sketch, search on until one does or the effort is spent.

    Parameters
    ----------
    starts : sequence of Fitted
        The first is tried alone; the others when it does not explain the sketch.
    atoms : (means, factors)
        Gaussians that may become components.
    thorough : bool
        Search on whatever the misfit says: with little signal it says little.
    """
    rows = max(LEAST_ROWS, ROWS * starts[0].n_parameters)
    full, data = data, data.thinned(max(1, data.values.size // rows))
    work = Effort(data)
    found = with_background(data, refined(data, starts[0], prior), prior)
    if found.n_components == 1 or (not thorough and explained(data, found)):
        return found if data is full else with_background(full, refined(full, found, prior), prior)
    places = MANY_PLACES if thorough else PLACES
    moves = [
        lambda best: _others(data, starts[1:], prior, work),
        lambda best: add_and_drop(data, best, prior, atoms, work, radius=radius, places=places),
        lambda best: spare(data, atoms, best, prior, work, (2, 4)),
        lambda best: add_and_drop(data, best, prior, atoms, work, radius=radius, places=places),
        lambda best: spare(data, atoms, best, prior, work, (1, 3, best.n_components)),
        lambda best: add_and_drop(data, best, prior, atoms, work, radius=radius, places=places),
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
    return found if data is full else with_background(full, refined(full, found, prior), prior)


def explained(data: SketchData, found: Fitted) -> bool:
    """Whether the misfit is what a right mixture has."""
    return misfit(data, found) < GOOD


def with_background(data: SketchData, found: Fitted, prior: Prior) -> Fitted:
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

    def pay(self, found: Fitted, steps: int) -> None:
        """Of ``steps`` steps for a mixture of that size."""
        self.spent += steps * self.rows * float(found.n_parameters) ** 2


def _others(data: SketchData, starts: Sequence[Fitted], prior: Prior, work: Effort) -> Fitted | None:
    best = None
    for start in starts:
        found = refined(data, start, prior)
        work.pay(start, 20)
        if best is None or found.objective < best.objective:
            best = found
        if work.spent > EFFORT:
            break
    return best


def add_and_drop(
    data: SketchData, found: Fitted, prior: Prior, atoms: tuple[FloatArray, FloatArray], work: Effort, *, radius: float,
    places: int = PLACES,
) -> Fitted | None:  # fmt: skip
    """Add the best atom, then drop the component that is missed least; at most as many as before."""
    n_features = data.frequencies.shape[1]
    rng = np.random.default_rng(PLACE_SEED)
    covariances = found.factors @ found.factors.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(covariances)
    means, factors = [atoms[0]], [atoms[1]]
    for axis in range(max(0, n_features - 4), n_features):  # pieces of the components along their long axes
        for offset in (-1.5, -0.7, 0.7, 1.5):
            means.append(found.means + offset * np.sqrt(values[:, axis, None]) * vectors[:, :, axis])
            factors.append(found.factors * np.sqrt(0.5))
    directions = rng.standard_normal((places, n_features))
    lengths = radius * rng.random(places) ** (1 / n_features)
    lengths[::2] *= FARTHEST ** rng.random(len(lengths[::2]))
    lengths /= np.linalg.norm(directions, axis=1)
    size = np.sqrt(np.median(np.exp(np.log(values).mean(axis=1))))
    for scale in (1.0, 2.0):
        means.append(directions * lengths[:, None])
        factors.append(np.broadcast_to(scale * size * np.eye(n_features), (places, n_features, n_features)))
    library = Library.of(data, np.concatenate(means), np.concatenate(factors))
    more = [refined(data, new, prior, steps=15) for new in best_added(data, found, library, BEST_ATOMS)]
    larger = min(more, key=lambda other: other.objective)
    work.pay(larger, 15 * len(more))
    fewer = sorted(all_dropped(data, larger, prior, steps=5), key=lambda other: other.objective)
    work.pay(found, 5 * len(fewer) + 30)
    best = None
    for other in fewer[:BEST_DROPS]:
        if other.objective > 3 * found.objective or work.spent > EFFORT:
            continue
        other = refined(data, other, prior, steps=30)
        work.pay(found, 30)
        if best is None or other.objective < best.objective:
            best = other
    return best


def spare(
    data: SketchData, atoms: tuple[FloatArray, FloatArray], found: Fitted, prior: Prior, work: Effort,
    more: Sequence[int],
) -> Fitted | None:  # fmt: skip
    """Fit with spare components, then drop one at a time."""
    library = Library.of(data, *atoms)
    k, best = found.n_components, None
    for extra in more:
        larger = found
        for _ in range(extra):
            larger = refined(data, best_added(data, larger, library, 1)[0], prior, steps=8)
            work.pay(larger, 8)
        larger = refined(data, larger, prior, steps=20)
        work.pay(larger, 20)
        while larger.n_components > k:
            larger = min(all_dropped(data, larger, prior, steps=4), key=lambda other: other.objective)
            work.pay(larger, 4 * (larger.n_components + 1))
        larger = refined(data, larger, prior)
        work.pay(larger, 20)
        if best is None or larger.objective < best.objective:
            best = larger
        if work.spent > EFFORT:
            break
    return best
