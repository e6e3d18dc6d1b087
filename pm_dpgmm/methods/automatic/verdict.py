"""Which method can tell the scales of a column apart, by released counts. Post-processing: no record is seen."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.optimize import nnls

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.mechanisms.column_scales import ColumnScales

MOST_TOLD = 128.0  # how far records lie apart, over the least deviation: beyond, a sketch's waves are too long
STAND_OUT = 4.0  # standard deviations of noise
NOTABLE_GAPS, NOTABLE_PAIRS = 0.03, 0.05  # shares of the records in a group, and of the pairs that lie so far apart
STEPS = 400  # of each of the two integrals of a kernel
BELOW, ABOVE = 16, 24  # exponents of a kernel


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was read off the released counts."""

    narrowest: float  # least deviation of a group of records; NaN where none stood out
    farthest: float  # how far records lie apart; NaN where no distance stood out

    @property
    def many_scales(self) -> bool:
        """Whether the narrowest group is too narrow for a sketch of everything."""
        return bool(self.farthest > MOST_TOLD * self.narrowest)  # not of NaN

    @property
    def reason(self) -> str:
        """In words."""
        if math.isnan(self.narrowest) or math.isnan(self.farthest):
            return "no scale stood out in the released sizes of gaps and distances"
        times = "more" if self.many_scales else "not more"
        return (
            f"by the released sizes of gaps and distances records lie about {self.farthest:.2g} apart, {times} than"
            f" {MOST_TOLD:g} times the deviation of the narrowest group, about {self.narrowest:.2g}"
        )


def verdict(scales: ColumnScales, n_records: int) -> Verdict:
    """The narrowest group of gaps that stands out of the noise, and the largest distance that many pairs have."""
    return Verdict(narrowest(scales, n_records), farthest(scales))


def narrowest(scales: ColumnScales, n_records: int) -> float:
    """Least deviation of a group of at least NOTABLE_GAPS of the records: gaps told apart as of Gaussian components."""
    sizes, _ = nnls(kernels(), scales.gap_counts)
    least = max(STAND_OUT * scales.gap_noise / float(np.linalg.norm(kernel())), NOTABLE_GAPS * n_records)
    ends = np.flatnonzero(np.diff(np.concatenate([[False], sizes > 0, [False]]).astype(int)))
    found = []
    for first, last in zip(ends[::2], ends[1::2], strict=True):
        group = sizes[first:last]
        if group.sum() > least:
            exponent = float(group @ EXPONENTS[first:last] / group.sum()) + 0.5
            found.append(float(group.sum()) * 2.0**exponent / math.sqrt(2 * math.pi))
    return min(found, default=math.nan)


def farthest(scales: ColumnScales) -> float:
    """The distance that NOTABLE_PAIRS of the pairs exceed, up to a factor of 2."""
    three = np.convolve(scales.pair_counts, np.ones(3), mode="same")
    sure = three > STAND_OUT * math.sqrt(3) * scales.pair_noise
    seen = np.where(sure, np.maximum(scales.pair_counts, 0.0), 0.0)
    if not seen.any():
        return math.nan
    beyond = np.cumsum(seen[::-1])[::-1] / seen.sum()
    return float(2.0 ** (EXPONENTS[np.flatnonzero(beyond > NOTABLE_PAIRS)[-1]] + 1))


@functools.cache
def kernel() -> FloatArray:
    """Shares of a Gaussian component's gaps by binary exponent, from -BELOW to ABOVE, over its least mean gap.

    A gap is exponential with mean 1 / (N f(x)), and f(x) falls with x by exp(-z^2 / 2), z normal.
    """
    at = (np.arange(STEPS) + 0.5) / STEPS
    logs = np.log(-np.log1p(-at))[:, None] + special.ndtri(at) ** 2 / 2
    counts, _ = np.histogram(logs / math.log(2), bins=np.arange(-BELOW, ABOVE + 1))
    return np.asarray(counts / logs.size)


@functools.cache
def kernels() -> FloatArray:
    """One column for each exponent of the least mean gap, (201, 201)."""
    n, shape = EXPONENTS.size, kernel()
    found = np.zeros((n, n))
    for column in range(n):
        rows = np.clip(column + np.arange(-BELOW, ABOVE), 0, n - 1)
        np.add.at(found[:, column], rows, shape)
    return found
