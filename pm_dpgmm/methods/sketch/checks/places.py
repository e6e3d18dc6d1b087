"""Where components lie that waves know up to whole periods. Post-processing: nothing sees a record, so it is free.

In one column the waves have a longest one, somewhat longer than the interval, and a group of records that lies whole
periods away looks to all of them as if it lay in the interval: an image. Bounds are narrowed to that interval by noisy
counts of cells, which leave out a group that is small against their noise. The same counts tell afterwards where a
component is, far better than they told then whether there was one: its size is known, and its place up to periods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pm_dpgmm._arguments import FloatArray, check_positive, finite_numbers
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics
from pm_dpgmm.methods.sketch.estimate import SketchFit
from pm_dpgmm.methods.sketch.location import CELLS, Cells
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture

BEYOND = 0.05  # probability of a component, before the counts are seen, to lie beyond the interval, wherever
OPEN = 2.0  # fall of the log-likelihood up to which another place is possible
MODEL = 0.05  # of the records in a cell: error of the mixture itself, as a standard deviation
MOST_PLACES = 64  # of a component; of more, so many at equal distances
SWEEPS = 3  # over all components, whose places depend on each other's
NOTABLE = 0.01  # share of the records from which on their place matters
SURE, MOST_CELLS = 4.5, 4  # deviations of an excess, in so many cells at most or in all: false alarm 4e-4 a histogram
NEXT = 1e-9  # share of a cell, or of a step, by which rounding errors may move an end
LARGEST_NOISE = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class CountedCells:
    """Noisy counts of the records in neighbouring cells of one column."""

    column: int
    edges: FloatArray  # (C + 1,)
    limits: FloatArray  # (C + 1,), of values before rounding; infinite at the bounds, to which records were moved
    counts: FloatArray  # (C,)
    noise: float  # standard deviation

    @property
    def variances(self) -> FloatArray:
        """Of noise, of the records' own chance, and of what a mixture is wrong by."""
        some = np.maximum(self.counts, 0.0)
        return np.asarray(self.noise**2 + some + np.square(MODEL * some))

    def shares(self, means: FloatArray, deviations: FloatArray) -> FloatArray:
        """Of normal laws (...), in every cell, (..., C)."""
        z = (self.limits - means[..., None]) / deviations[..., None]
        return np.asarray(np.diff(special.ndtr(z), axis=-1))

    def expected(self, density: Mixture, n_records: float) -> FloatArray:
        """Records that a density has in every cell, (C,)."""
        j = self.column
        shares = self.shares(density.means[:, j], np.sqrt(density.covariances[:, j, j]))
        return np.asarray(n_records * (density.weights @ shares))

    def place(self, cells: slice) -> str:
        """Of neighbouring cells, in words."""
        first, last = self.edges[[cells.start, cells.stop]]
        return f"from {first:.4g} to {last:.4g}"


def counted_cells(
    raw: Mapping[str, FloatArray], bounds: FloatArray, resolution: FloatArray | None = None
) -> list[CountedCells]:
    """All that a release has: ``cells_0`` and so on, of a column, an interval and its counts in each row.

    ValueError, for numbers from anywhere, unless they fit each other and the ``bounds`` (D, 2).
    """
    found = []
    noises = finite_numbers(raw["cell_noise"], "cell_noise") if "cell_noise" in raw else np.zeros(0)
    if noises.ndim != 1 or (noises > LARGEST_NOISE).any():
        raise ValueError(f"cell_noise must be a list of numbers up to {LARGEST_NOISE:g}, got {noises.tolist()}")
    for turn, noise in enumerate(noises):
        name = f"cells_{turn}"
        check_positive(cell_noise=float(noise))
        if name not in raw:
            raise ValueError(f"a release with cells must have {name!r}, got none")
        table = finite_numbers(raw[name], name)
        if table.ndim != 2 or table.shape[1] != 3 + CELLS:
            raise ValueError(f"{name} must have {3 + CELLS} columns, got shape {table.shape}")
        if not np.isin(table[:, 0], np.arange(len(bounds))).all():
            raise ValueError(f"{name} must be of columns 0 to {len(bounds) - 1}, got {table[:, 0].max():g}")
        if not (table[:, 1] < table[:, 2]).all():
            raise ValueError(f"{name} must be of intervals with a width, got {table[:, 1:3].tolist()}")
        for row in table:
            column = int(row[0])
            edges = np.linspace(row[1], row[2], 1 + CELLS)
            step = 0.0 if resolution is None else float(resolution[column])
            limits = _before_rounding(edges, step) if step else edges.copy()
            outer = edges[[0, -1]] == bounds[column]
            limits[[0, -1]] = np.where(outer, [-np.inf, np.inf], limits[[0, -1]])
            found.append(CountedCells(column, edges, limits, row[3:], float(noise)))
    return found


def _before_rounding(edges: FloatArray, step: float) -> FloatArray:
    """Ends of what is rounded to the multiples of ``step`` in each cell, which is open above, the last one closed."""
    first = np.ceil(edges / step - NEXT) - 0.5
    first[-1] = np.floor(edges[-1] / step + NEXT) + 0.5
    return np.asarray(step * first, dtype=float)


def period_of(evidence: SketchStatistics) -> float:
    """Of the waves of one column, in the unit of the records; infinite where they have none."""
    waves = [sketch.frequencies for sketch in evidence.sketches]
    steps = {wave.step for wave in waves if isinstance(wave, FejerHarmonics)}
    if not all(isinstance(wave, FejerHarmonics) for wave in waves) or len(steps) != 1:
        return np.inf
    return 2 * math.pi / float(steps.pop())


def nearest_images(found: ScaledMixture, evidence: SketchStatistics) -> ScaledMixture:
    """The same mixture to the waves of one column, its means as near to the middle of the interval as can be.

    What a prior about the middle is compared with: :func:`placed` moves components against it.
    """
    period = period_of(evidence)
    if not np.isfinite(period):
        return found
    whole = period / evidence.unit
    return replace(found, means=found.means - whole * np.rint(found.means / whole))


def placed(fit: SketchFit, evidence: SketchStatistics, cells: Sequence[CountedCells]) -> tuple[SketchFit, list[str]]:
    """The fit to one column with every component where the counts say, and caveats where they leave that open.

    Of all places that differ by whole periods of the sketch each component gets the likeliest, given the others'.
    """
    period = period_of(evidence)
    if evidence.bounds is None or not cells or not np.isfinite(period):
        return fit, []
    where = [_places(mean, period, evidence.bounds[0]) for mean in fit.mixture.means[:, 0]]
    chosen, logs = _likeliest(Counted.of(fit, where, cells, evidence.n_records))
    means = fit.found.means.copy()
    caveats = []
    for k, (places, place) in enumerate(zip(where, chosen, strict=True)):
        means[k] += (places[place] - places[0]) / evidence.unit
        likely = np.flatnonzero(logs[k] > logs[k][place] - OPEN)
        if len(likely) > 1 and fit.mixture.weights[k] > NOTABLE:
            caveats.append(_told(k, places[place], places[likely[likely != place]]))
    return replace(fit, found=replace(fit.found, means=means)), caveats


def beyond_the_interval(fit: SketchFit, evidence: SketchStatistics, cells: Sequence[CountedCells]) -> list[str]:
    """That beyond the interval of the waves other records were counted than the mixture has there; any columns.

    Where the interval was found from these counts there are hardly any; where it is that of another release, maybe.
    """
    density = fit.density
    parts: dict[int, str] = {}
    for one in cells:
        if one.column not in parts and (part := _told_beyond(one, density, evidence)):
            parts[one.column] = part
    if not parts:
        return []
    return [
        f"records were counted where the mixture has others: {'; '.join(parts.values())}. Waves repeat themselves"
        " beyond the interval of the sketch; if it is that of another release, take one as like whose interval holds"
        " all records"
    ]


def beyond(one: CountedCells, evidence: SketchStatistics) -> NDArray[np.bool_]:
    """Which cells lie beyond the interval of the waves, (C,)."""
    j, rounding = one.column, NEXT * (one.edges[1] - one.edges[0])
    low, high = evidence.centre[j] - evidence.unit[j], evidence.centre[j] + evidence.unit[j]
    return np.asarray((one.edges[1:] <= low + rounding) | (one.edges[:-1] >= high - rounding))


def _told_beyond(one: CountedCells, density: Mixture, evidence: SketchStatistics) -> str | None:
    """The same of the cells of one column: a few neighbouring ones, or all that lie beyond."""
    j, n_records, outside = one.column, evidence.n_records, beyond(one, evidence)
    expected = one.expected(density, n_records)
    found = surest_excess(outside * (one.counts - expected), outside * one.variances, NOTABLE * n_records)
    if found is not None and found.sure > SURE:
        few: Any = found.cells
        counted, place = float(one.counts[few].sum()), one.place(few)
    elif outside.all() or not outside.any() or np.isfinite(one.limits[[0, -1]]).any():
        return None
    else:
        few, inside = outside, np.flatnonzero(~outside)
        own = Cells(one.counts, one.noise)
        counted, noise = own.outside(inside[0], inside[-1] + 1, n_records, evidence.n_records_scale)
        some = max(counted, 0.0)
        surely = SURE * np.sqrt(noise**2 + some + np.square(MODEL * some))
        if abs(counted - expected[few].sum()) <= max(surely, NOTABLE * n_records):
            return None
        low, high = evidence.centre[j] - evidence.unit[j], evidence.centre[j] + evidence.unit[j]
        place = f"beyond {low:.4g} to {high:.4g}"
    return told_shares(counted / n_records, place, j, expected[few].sum() / n_records)


def told_shares(counted: float, place: str, column: int, has: float) -> str:
    """Of a share of the records that was counted at a place, and that a mixture has there."""
    digits = 0 if max(counted, has) >= NOTABLE else 2
    return f"about {max(counted, 0.0):.{digits}%} {place} in column {column}, where the mixture has {has:.{digits}%}"


class Excess(NamedTuple):
    """A few neighbouring cells, and how surely they hold others than expected, in standard deviations."""

    cells: slice
    sure: float


def surest_excess(excess: FloatArray, variances: FloatArray, least: float) -> Excess | None:
    """Of all few neighbouring cells those whose excess of more than ``least`` records is the surest; None of none."""
    found = Excess(slice(0), 0.0)
    for size in range(1, MOST_CELLS + 1):
        sums, squares = (np.convolve(values, np.ones(size), mode="valid") for values in (excess, variances))
        deviations = np.where(np.abs(sums) > least, np.abs(sums) / np.sqrt(np.maximum(squares, 1e-300)), 0.0)
        first = int(deviations.argmax())
        if deviations[first] > found.sure:
            found = Excess(slice(first, first + size), float(deviations[first]))
    return found if found.sure else None


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Records that a mixture has in all cells, whatever the places of its components."""

    released: FloatArray  # (C,), less those of the background, which is never moved
    variances: FloatArray  # (C,)
    expected: list[FloatArray]  # for each component: (places, C)

    @classmethod
    def of(
        cls, fit: SketchFit, where: Sequence[FloatArray], cells: Sequence[CountedCells], n_records: float
    ) -> Counted:
        density = fit.density
        deviations, n_own = np.sqrt(density.covariances[:, 0, 0]), len(where)

        def records(k: int, places: FloatArray) -> FloatArray:
            shares = [one.shares(places, np.full(len(places), deviations[k])) for one in cells]
            return n_records * density.weights[k] * np.concatenate(shares, axis=1)

        broad = sum((records(k, density.means[k]) for k in range(n_own, len(deviations))), start=np.zeros((1, 1)))
        return cls(
            (np.concatenate([one.counts for one in cells]) - broad)[0],
            np.concatenate([one.variances for one in cells]),
            [records(k, places) for k, places in enumerate(where)],
        )


def _likeliest(counted: Counted) -> tuple[list[int], list[FloatArray]]:
    """A place for each component, and the log-likelihoods of all of its places given the others' choices."""
    chosen = [0] * len(counted.expected)
    for _ in range(SWEEPS):
        before, logs = list(chosen), []
        for k, own in enumerate(counted.expected):
            others = sum(one[chosen[j]] for j, one in enumerate(counted.expected) if j != k)
            logs.append(-0.5 * (np.square(counted.released - others - own) / counted.variances).sum(axis=1))
            chosen[k] = int((logs[k] + _log_prior(len(own))).argmax())
        if chosen == before:
            break
    return chosen, logs


def _places(mean: float, period: float, bounds: FloatArray) -> FloatArray:
    """Where a component may lie: where it is, then all places within the bounds that are whole periods away."""
    low, high = np.ceil((bounds[0] - mean) / period), np.floor((bounds[1] - mean) / period)
    if not (np.isfinite([low, high]).all() and low <= high):  # no number: the budget is spent, so go on
        return np.array([mean])
    steps = np.unique(np.rint(np.linspace(low, high, int(min(high - low + 1, MOST_PLACES)))))
    return np.asarray(mean + period * np.append(0.0, steps[steps != 0]), dtype=float)


def _log_prior(n_places: int) -> FloatArray:
    return np.log(np.append(1 - BEYOND, np.full(n_places - 1, BEYOND / max(n_places - 1, 1))))


def _told(k: int, place: float, others: FloatArray) -> str:
    where = f"near {others[0]:.4g}" if len(others) == 1 else f"anywhere from {others.min():.4g} to {others.max():.4g}"
    return (
        f"the place of component {k}, {place:.4g}, may be {where} instead: waves repeat themselves beyond the part of"
        " the bounds where most records were, and the counts that found it do not tell so small a group's place."
        " Tighter bounds, more records or a larger budget would"
    )
