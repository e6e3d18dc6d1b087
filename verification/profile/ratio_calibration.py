"""Do log-likelihood ratios fit the coins of their runs? A wrong density shows here before it misleads a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

BINS = 24
OUTER = np.array([1e-4, 1e-3, 1e-2])  # shares of the runs in further, smaller bins at both ends
STAKES = 0.9 * 0.5 ** np.arange(14)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Whether log-likelihood ratios look right."""

    passed: bool  # p_value >= false_alarm
    p_value: float  # at most b with probability at most b if the densities are right
    false_alarm: float
    n_tests: int  # tests behind the p-value, which is corrected for their number
    worst: str  # the test with the smallest p-value, in words

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        verdict = "densities look right" if self.passed else "densities look wrong"
        return f"{verdict} (p = {self.p_value:.3g}; {self.worst})"


def calibration(log_ratio: FloatArray, label: BoolArray, *, false_alarm: float) -> Calibration:
    """Test that Pr[label 1 | run] = 1/(1 + exp(-log_ratio)), and that its mean is 1/2.

    Parameters
    ----------
    log_ratio : ndarray, shape (n,)
        ln(p/q) of every run, possibly infinite.
    label : ndarray of bool, shape (n,)
        Fair coins: True for a run on ``x``, of density p.
    false_alarm : float
        Probability, at most, that right densities fail.

    Returns
    -------
    Calibration

    Guarantee
    ---------
    The p-value is valid for right densities and any number of runs. Proof: profile.md.

    The mean is that of q exp(log_ratio) over q: it shows densities that do not have the same total, such as a
    forgotten normaliser. Labels in bins of the log ratio, and in unions of bins at either end, show a wrong scale, a
    wrong shift and swapped data sets. What no test can show: a density that ignores a part of the output.
    """
    s, r = special.expit(log_ratio), special.expit(-log_ratio)
    centred = np.where(log_ratio > 0, 1 - 2 * r, 2 * s - 1)
    capitals = [float(np.log1p(sign * stake * centred).sum()) for stake in STAKES for sign in (1, -1)]
    p_mean = math.exp(min(0.0, math.log(len(capitals)) - float(special.logsumexp(capitals))))
    levels = np.unique(np.concatenate([OUTER, 1 - OUTER, np.arange(1, BINS) / BINS]))
    finite = log_ratio[np.isfinite(log_ratio)]
    inner = np.quantile(finite, levels, method="lower") if finite.size else np.zeros(0)
    edges = np.unique(np.append(inner, [-np.finfo(float).max, np.finfo(float).max]))
    # An infinite ratio has a bin of its own, and so has a ratio that is common: edges belong to the bin below them.
    bins = np.searchsorted(edges, log_ratio, side="left")
    k = edges.size + 1
    sums = [np.bincount(bins, weights=w, minlength=k) for w in (np.ones(label.size), label, ~label, s, r)]
    groups = np.stack([np.concatenate([v, np.cumsum(v), np.cumsum(v[::-1])]) for v in sums])
    p_values = _p_values(*groups)
    best = int(np.argmin(p_values))
    p_bins = min(1.0, p_values.size * float(p_values[best]))
    p_value = min(1.0, 2 * min(p_mean, p_bins))
    if p_mean <= p_bins:
        worst = f"mean of exp(ratio) over x_neighbour, less 1, shows {centred.mean():+.3g} against 0"
    else:
        n, ones, _, expected, _ = groups[:, best % groups.shape[1]]
        worst = f"{ones:.0f} of {n:.0f} runs in a range of the ratio are on x, {expected:.1f} expected"
    return Calibration(p_value >= false_alarm, p_value, false_alarm, p_values.size + 1, worst)


def _p_values(
    n: FloatArray, ones: FloatArray, zeros: FloatArray, expected: FloatArray, expected_zeros: FloatArray
) -> FloatArray:
    """P-values of too many labels 1 and of too many labels 0, by the binomial that dominates a sum of coins."""
    size = np.maximum(n, 1)
    p_values = []
    for hits, mean, other in ((ones, expected, expected_zeros), (zeros, expected_zeros, expected)):
        # The rarer label is counted, because 1 minus a tiny probability is not exact.
        tail = np.where(
            mean <= other,
            stats.binom.sf(hits - 1, size, np.minimum(1.0, mean / size)),
            stats.binom.cdf(n - hits, size, np.minimum(1.0, other / size)),
        )
        p_values.append(np.where((hits >= mean + 1) & (n > 0), tail, 1.0))
    return np.concatenate(p_values)
