"""From released counts of gaps to places, scales and bins. Post-processing: no record is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.gap_histogram import GapCounts

# Of a Gaussian of deviation s the log gaps of N records are ln(s / N) + .842 on average: 1.419 of its entropy, less
# Euler's constant .577
MEAN_LOG_GAP = 0.5 * math.log(2 * math.pi * math.e) - float(np.euler_gamma)
BINS_PER_DEVIATION = 2
MARGIN = 2.0  # of the bins beyond the cells, in deviations
MOST_BINS = 1_000  # of one group; wider cells get wider bins
LADDER, RUNGS = 1.6, 30  # bins beyond grow by this factor, so many of them: to 10^6 deviations
LARGEST_EDGE = 1e300
MOST_CELLS = 4_096  # of gaps: every pair of them is looked at
MOST_GROUPS = 64  # with bins of their own


@dataclass(frozen=True, slots=True)
class Group:
    """Released cells that touch in place and size: about one component, or several that lie together."""

    low: float
    high: float
    scale: float  # a standard deviation
    count: float  # of gaps, noisy


def most_counted(found: GapCounts) -> GapCounts:
    """The cells with the largest counts, as many as a release may hold, in their order."""
    kept = np.sort(np.argsort(-found.counts, kind="stable")[:MOST_CELLS])
    return GapCounts(found.exponents[kept], found.places[kept], found.counts[kept], found.cell_bits)


def groups_of(found: GapCounts) -> list[Group]:
    """Groups of cells, the most counted first: cells of equal or neighbouring exponents that touch are of one."""
    n = len(found.counts)
    lows, highs = found.lows, found.lows + found.widths
    near = np.abs(found.exponents[:, None] - found.exponents) <= 1
    touching = near & (lows[:, None] <= highs) & (lows <= highs[:, None])
    n_groups, label = connected_components(csr_array(touching), directed=False) if n else (0, np.zeros(0, int))
    groups = []
    for i in range(n_groups):
        of = label == i
        counts, exponents = found.counts[of].astype(float), found.exponents[of]
        log_gap = float((counts * (exponents + 0.5)).sum() / counts.sum()) * math.log(2)
        scale = math.exp(min(math.log(counts.sum()) + log_gap - MEAN_LOG_GAP, 690.0))
        at = exponents == exponents[np.argmax(counts)]
        groups.append(Group(float(lows[of][at].min()), float(highs[of][at].max()), scale, float(counts.sum())))
    return sorted(groups, key=lambda group: -group.count)


def group_bins(group: Group) -> FloatArray:
    """Edges of the bins inside the margin of one group."""
    low, high = group.low - MARGIN * group.scale, group.high + MARGIN * group.scale
    n = min(MOST_BINS, max(2, math.ceil(BINS_PER_DEVIATION * (high - low) / group.scale)))
    return np.linspace(low, high, n + 1)


def bin_edges(groups: list[Group]) -> FloatArray:
    """Inner edges of the bins of the largest groups, increasing: fine ones in each, then ladders outward."""
    parts = [np.zeros(0)]
    for group in groups[:MOST_GROUPS]:
        inner = group_bins(group)
        steps = group.scale * LADDER ** np.arange(1, RUNGS + 1)
        parts += [inner, inner[0] - steps, inner[-1] + steps]
    every = np.concatenate(parts)
    return np.unique(every[np.abs(every) <= LARGEST_EDGE])
