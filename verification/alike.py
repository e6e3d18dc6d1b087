"""Whether the runs on one data set are alike, as independent ones are: in every call and at every place of a call.

What a mechanism keeps from run to run, draws once for many runs or reads from a clock differs between the runs on two
data sets although no record does, and would refute a claim that holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from verification.parts import OutputError

FloatArray = NDArray[np.float64]

BY_CHANCE = 1e-9  # probability, at most, that independent runs of one law are refused
CELLS = 4_000_000  # entries that are looked at, LEAST_PIECE runs of every piece at least
LEAST_PIECE = 50
MOST_KEPT = 40_000_000  # entries of each data set, in whole calls
MOST_COLUMNS = 1_000
TIES = 20240601  # seed of the order of equal values
NAMES = ("x_neighbour", "x")  # a coin is the index


class Calls:
    """Runs in the order in which they were made."""

    def __init__(self, probed: Mapping[int, list[FloatArray]]) -> None:
        self.rows = tuple(list(probed.get(which, [])) for which in (0, 1))  # by coin
        self.kept = [0, 0]

    def see(self, rows: FloatArray, which: int) -> None:
        """Take note of the runs of one call."""
        if self.kept[which] < MOST_KEPT:
            self.rows[which].append(rows)
            self.kept[which] += rows.size

    def check(self) -> None:
        """Raise ValueError where they depend on when they were made."""
        for which in (1, 0):
            check_alike(self.rows[which], NAMES[which])


def check_alike(calls: list[FloatArray], name: str) -> None:
    """Raise ValueError where runs on one data set differ by when they were made.

    Parameters
    ----------
    calls : list of ndarray, shape (n_i, d)
        Runs in the order in which they were made, an array for each call.
    name : str
        Of the data set.

    Guarantee
    ---------
    Independent runs of one law are refused with probability at most 1e-9. Given the values of a column, all their
    orders are then equally likely. Two tests on ranks and on their distances from the middle: means of both halves of
    every call by Bernstein's inequality, which holds for draws without replacement (Hoeffding 1963, Theorem 4); and
    neighbours in time on one side of the median, by the exact law of their number.
    """
    pieces = [half for call in calls for half in np.array_split(call[:, :MOST_COLUMNS], 2) if len(half)]
    if len(pieces) < 2:
        return
    d = pieces[0].shape[1]
    rows = np.concatenate([piece[: max(LEAST_PIECE, CELLS // (d * len(pieces)))] for piece in pieces])
    sizes = np.array([min(len(piece), max(LEAST_PIECE, CELLS // (d * len(pieces)))) for piece in pieces])
    shuffled = np.random.default_rng(TIES).permutation(len(rows))  # breaks ties
    share = BY_CHANCE / (2 * d * 2)  # data sets, columns, ranks and their distances
    for j, column in enumerate(rows.T):
        ranks = stats.rankdata(np.where(np.isnan(column), -np.inf, column))
        ranks -= (len(rows) + 1) / 2  # whole numbers and halves: equal distances are equal
        for score in (ranks, np.abs(ranks)):
            if min(_by_means(score, sizes), _by_neighbours(score, shuffled)) < share / 2:
                raise OutputError(
                    "mechanism must draw every run by itself, got runs that depend on when they were made"
                    f" (number {j} of a run on {name}): on a state that it keeps, on one draw for many runs, or on time"
                )


def _by_means(score: FloatArray, sizes: NDArray[np.int64]) -> float:
    """Bound of the probability of the piece whose mean lies farthest out, times the number of pieces."""
    score = score - score.mean()
    variance, reach = float(np.mean(score**2)), float(np.abs(score).max())
    if variance < 1e-6:  # one value, and rounding
        return 1.0
    ends = np.cumsum(sizes)
    far = np.abs(np.add.reduceat(score, ends - sizes)) / sizes
    return float(2 * sizes.size * np.exp(-sizes * far**2 / (2 * (variance + reach * far / 3))).min())


def _by_neighbours(score: FloatArray, shuffled: NDArray[np.int64]) -> float:
    """Probability of so few pairs, of runs 0 and 1, 2 and 3, ..., that lie on two sides of the median."""
    pairs = score.size // 2
    order = np.lexsort((shuffled[: 2 * pairs], score[: 2 * pairs]))
    high = np.zeros(2 * pairs, dtype=bool)
    high[order[pairs:]] = True
    split = int((high[::2] != high[1::2]).sum())
    both = np.arange((pairs - split) // 2, pairs // 2 + 1)  # pairs above the median, as many as below it
    apart = pairs - 2 * both
    log_law = special.gammaln(pairs + 1) - 2 * special.gammaln(both + 1) - special.gammaln(apart + 1)
    log_law += apart * np.log(2) + 2 * special.gammaln(pairs + 1) - special.gammaln(2 * pairs + 1)
    return float(np.exp(special.logsumexp(log_law)))
