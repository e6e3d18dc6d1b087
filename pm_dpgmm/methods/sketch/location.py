"""Where the records of every column lie: the first releases of the sketch method. Proof: location.md."""

from __future__ import annotations

import math
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
PRECISION = 0.04  # share of the records that the noise of four cells should not exceed
FEW = 2  # cells in use at which the search goes on
LEAST_STEPS = 5.0  # of a rounded column in half an interval
DOUBT, MISSED = 2.5, 0.05  # records that may be outside: this many standard deviations, at most this share of all


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
    records: Records, budget: GaussianFilter, problem: Problem, rng: Rng
) -> tuple[FloatArray, dict[str, FloatArray], GaussianFilter]:
    """Bounds, or intervals inside them where almost all records lie: a few cheap histograms in turn.

    Guarantee
    ---------
    MOST_SHARE of the budget's limit and LEAST_SHARE for each further round, of MOST_ROUNDS in all, at most.
    Proof: location.md.
    """
    assert problem.bounds is not None
    intervals = np.array(problem.bounds)
    raw: dict[str, FloatArray] = {}
    scales: list[float] = []
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
            share=LEAST_SHARE if turn else first_share,
            neighbouring=problem.neighbouring,
            rng=rng,
        )
        raw[f"cells_{turn}"] = np.column_stack([active, asked, counts])
        scales.append(scale)
        going_on = []
        for j, row in zip(active.tolist(), counts, strict=True):
            intervals[j], again = _narrower(intervals[j], row, scale, problem.n_records)
            step = 0.0 if problem.resolution is None else problem.resolution[j]
            if again and intervals[j, 1] / 2 - intervals[j, 0] / 2 > LEAST_STEPS * step:
                going_on.append(j)
        active = np.array(going_on, dtype=int)
        if not active.size:
            break
    return intervals, raw | {"cell_noise": np.array(scales)}, budget


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


def _narrower(interval: FloatArray, counts: FloatArray, scale: float, n_records: float) -> tuple[FloatArray, bool]:
    """The part of an interval that holds almost all records, with a margin, and whether to look again there."""
    seen = np.flatnonzero(counts > SEEN * scale)
    if not seen.size:
        return interval, False
    extent = seen[-1] + 1 - seen[0]
    few = bool(extent <= FEW)
    margin = 1 if few else max(2, math.ceil(extent / 2))
    first, last = max(seen[0] - margin, 0), min(seen[-1] + 1 + margin, CELLS)
    outside = n_records - counts[first:last].sum()
    doubt = DOUBT * scale * math.sqrt(last - first)
    if outside > max(0.01 * n_records, min(doubt, MISSED * n_records)):
        return interval, few  # the noise may be to blame: count again
    low, high = interval
    width = (high - low) / CELLS
    return np.array([low + first * width, low + last * width if last < CELLS else high]), few
