"""Where the records of every column lie: the first releases of the sketch method. Proof: location.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm._blocks import Records, mapped
from pm_dpgmm.mechanisms.box import SEEN, noisy_box, noisy_cells
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.privacy.noise import IntArray, Rng
from pm_dpgmm.records.resolution import near_enough, on_grid

LEAST_LOCATION_SHARE, MOST_LOCATION_SHARE = Fraction(1, 20), Fraction(3, 20)  # of mu^2, without bounds
REACH = 0.05  # share of the records that a bin should need to be kept: what is not is folded onto the rest
LEAST_SCALE_SHARE, MOST_SCALE_SHARE = Fraction(1, 20), Fraction(3, 20)  # the same for scales
PAIRED = 2**18  # records of a stream, on average, whose distances tell the scale
STAND_OUT = 7.0  # standard deviations of noise by which three quarters of the pairs should
CELLS, MOST_ROUNDS = 16, 6  # of the search for a narrower interval within bounds
LEAST_SHARE, MOST_SHARE = Fraction(1, 50), Fraction(1, 12)  # of mu^2 for its first round, then LEAST_SHARE
CELLS_SHARE = Fraction(1, 25)  # of mu^2, for cells of the bounds where the interval is another release's
PRECISION = 0.005  # share of the records that the noise of four cells should not exceed
FEW = 2  # cells in use at which the search goes on
LEAST_STEPS = 5.0  # of a rounded column in half an interval
DOUBT, MISSED = 2.5, 0.05  # records that may be outside: this many standard deviations, at most this share of all
GROUP_CELLS, GROUP = 2, 0.005  # of a group outside that is to be kept: cells at most, share of all records at least
SUSPECT, MORE = 2.3, 0.5  # deviations of what may be one, so that cells are counted again; more after each histogram


def unbounded_intervals(
    records: Records, budget: GaussianFilter, problem: Problem, rng: Rng
) -> tuple[FloatArray | None, dict[str, FloatArray], GaussianFilter]:
    """An interval for every column, shape (D, 2), from a private box; None when a column kept no bin.

    Guarantee
    ---------
    At most MOST_LOCATION_SHARE and MOST_SCALE_SHARE of the limit, outside an event of probability ``budget.failure``.
    Proof: location.md.
    """
    needed = 6 * problem.n_features * (STAND_OUT / (0.375 * problem.n_records)) ** 2 / float(budget.limit)
    scale_share = min(max(Fraction(needed).limit_denominator(1000), LEAST_SCALE_SHARE), MOST_SCALE_SHARE)
    share = scale_share + _location_share(budget, problem)
    paired = 1.0 if isinstance(records, np.ndarray) else min(1.0, PAIRED / problem.n_records)
    box, left = noisy_box(
        records,
        budget=budget,
        share=share,
        scale_part=scale_share / share,
        neighbouring=problem.neighbouring,
        paired=paired,
        rng=rng,
    )
    raw = {"pair_distance_counts": box.scale_counts, "bin_width": np.array([c.width for c in box.columns])}
    raw["pair_distance_law"] = np.array([box.scale_noise, paired * problem.n_records / 2])  # noise, pairs in all
    raw["bin_noise"] = np.array([box.location_noise])
    for j, column in enumerate(box.columns):
        raw[f"bin_index_{j}"] = column.index.astype(float)
        raw[f"bin_counts_{j}"] = column.counts
    intervals = np.array([column.interval for column in box.columns])
    # what lies just outside is then within reach; one column has waves that are longer than its interval
    margin = 0.5 if problem.n_features == 1 else 1.0
    intervals += margin * np.array([-1.0, 1.0]) * raw["bin_width"][:, None]
    return (intervals if box.found else None), raw, left


def _location_share(budget: GaussianFilter, problem: Problem) -> Fraction:
    """What it takes for a bin with REACH of the records to be kept, within limits."""
    quantile = -float(special.ndtri(budget.failure / problem.n_features))
    needed = 2 * problem.n_features * (quantile / (REACH * problem.n_records)) ** 2 / float(budget.limit)
    return min(max(Fraction(needed).limit_denominator(1000), LEAST_LOCATION_SHARE), MOST_LOCATION_SHARE)


def intervals_within(
    records: Records, budget: GaussianFilter, problem: Problem, rng: Rng, n_records_scale: float = 0.0
) -> tuple[FloatArray, dict[str, FloatArray], GaussianFilter]:
    """Bounds, or intervals inside them where almost all records lie: a few cheap histograms in turn.

    ``n_records_scale``: standard deviation of the noise on ``problem.n_records``.

    Guarantee
    ---------
    Twice MOST_SHARE of the budget's limit and LEAST_SHARE for each further round, of MOST_ROUNDS in all, at most.
    Proof: location.md.
    """
    assert problem.bounds is not None
    intervals = np.array(problem.bounds)
    raw: dict[str, FloatArray] = {}
    scales: list[float] = []
    known: dict[int, Cells] = {}  # of columns whose interval is counted again
    active = np.arange(problem.n_features)
    needed = 8 * problem.n_features / (float(budget.limit) * (PRECISION * problem.n_records) ** 2)
    first_share = min(max(Fraction(needed).limit_denominator(1000), LEAST_SHARE), MOST_SHARE)
    for turn in range(MOST_ROUNDS):
        asked = intervals[active]
        counts, scale, budget = noisy_cells(
            mapped(records, partial(_columns, active=active)),
            asked,
            CELLS,
            budget=budget,
            share=first_share if turn == 0 or (turn == 1 and known) else LEAST_SHARE,
            neighbouring=problem.neighbouring,
            rng=rng,
        )
        raw[f"cells_{turn}"] = np.column_stack([active, asked, counts])
        scales.append(scale)
        before, known, going_on = known, {}, []
        for j, row in zip(active.tolist(), counts, strict=True):
            cells = Cells(row, scale).pooled(before.get(j))
            found, again = _narrower(intervals[j], cells, problem.n_records, n_records_scale)
            step = 0.0 if problem.resolution is None else problem.resolution[j]
            if again and found[1] / 2 - found[0] / 2 > LEAST_STEPS * step:
                going_on.append(j)
                if np.array_equal(found, intervals[j]):
                    known[j] = cells
            intervals[j] = found
        active = np.array(going_on, dtype=int)
        if not active.size:
            break
    return intervals, raw | {"cell_noise": np.array(scales)}, budget


def cells_within(
    records: Records, budget: GaussianFilter, problem: Problem, rng: Rng
) -> tuple[dict[str, FloatArray], GaussianFilter]:
    """The first histogram of :func:`intervals_within` alone, where intervals are known: how many lie beyond them.

    Guarantee
    ---------
    CELLS_SHARE of the budget's limit. Proof: location.md.
    """
    assert problem.bounds is not None
    counts, scale, left = noisy_cells(
        records,
        problem.bounds,
        CELLS,
        budget=budget,
        share=CELLS_SHARE,
        neighbouring=problem.neighbouring,
        rng=rng,
    )
    rows = np.column_stack([np.arange(problem.n_features), problem.bounds, counts])
    return {"cells_0": rows, "cell_noise": np.array([scale])}, left


def centre_and_unit(
    intervals: FloatArray, resolution: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Middle and half-width of every interval, (D,), and the resolution that a fit may use there. Post-processing.

    Where columns are rounded the middle is a value and the interval at least LEAST_STEPS values wide on either side.
    """
    unit = intervals[:, 1] / 2 - intervals[:, 0] / 2
    centre = intervals[:, 0] + unit
    if resolution is not None:
        resolution = near_enough(resolution, centre)
    if resolution is None:
        return centre, unit, None
    return on_grid(centre, resolution), np.maximum(unit, LEAST_STEPS * resolution), resolution


def _columns(rows: FloatArray, active: IntArray) -> FloatArray:
    return rows[:, active]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Noisy counts of the cells of an interval, from one histogram or several."""

    counts: FloatArray  # (CELLS,)
    scale: float  # standard deviation of the noise
    histograms: int = 1

    def pooled(self, other: Cells | None) -> Cells:
        """With those of an earlier histogram, each by its precision."""
        if other is None:
            return self
        own, its = self.scale**-2, other.scale**-2
        counts = (own * self.counts + its * other.counts) / (own + its)
        return Cells(counts, 1 / math.sqrt(own + its), self.histograms + other.histograms)

    def outside(self, first: int, last: int, n_records: float, n_records_scale: float = 0.0) -> tuple[float, float]:
        """Records in no cell from ``first`` to before ``last``, and its standard deviation.

        The mean with the least variance of the others' counts and of all records less the counts of these;
        ``n_records_scale`` is the noise on the number of all.
        """
        within, beyond = self.counts[first:last].sum(), self.counts[:first].sum() + self.counts[last:].sum()
        kept = (last - first) * self.scale**2 + n_records_scale**2  # variances
        left = (CELLS - last + first) * self.scale**2
        if not left:
            return float(n_records - within), math.sqrt(kept)
        outside = (left * (n_records - within) + kept * beyond) / (kept + left)
        return float(outside), math.sqrt(kept * left / (kept + left))

    def group_beyond(self, first: int, last: int, n_records: float) -> bool:
        """Whether a group may be in a cell or two neighbours that are not from ``first`` to before ``last``."""
        deviations = (SUSPECT + MORE * (self.histograms - 1)) * self.scale
        for part in (self.counts[:first], self.counts[last:]):
            for n_cells in range(1, min(GROUP_CELLS, part.size) + 1):
                most = np.convolve(part, np.ones(n_cells), mode="valid").max()
                if most > max(deviations * math.sqrt(n_cells), GROUP * n_records):
                    return True
        return False


def _narrower(
    interval: FloatArray, cells: Cells, n_records: float, n_records_scale: float = 0.0
) -> tuple[FloatArray, bool]:
    """The part of an interval that holds almost all records, with a margin, and whether to look again there."""
    seen = np.flatnonzero(cells.counts > SEEN * cells.scale)
    if not seen.size:
        return interval, False
    extent = seen[-1] + 1 - seen[0]
    few = bool(extent <= FEW)
    margin = 1 if few else max(2, math.ceil(extent / 2))
    first, last = max(seen[0] - margin, 0), min(seen[-1] + 1 + margin, CELLS)
    if cells.group_beyond(first, last, n_records):
        return interval, True
    outside, deviation = cells.outside(first, last, n_records, n_records_scale)
    if outside > max(0.01 * n_records, min(DOUBT * deviation, MISSED * n_records)):
        return interval, few  # the noise may be to blame: count again
    low, high = interval
    width = (high - low) / CELLS
    return np.array([low + first * width, low + last * width if last < CELLS else high]), few
