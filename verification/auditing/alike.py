"""Whether the runs on one data set are alike, as independent ones are: in every call and at every place of a call.

What a mechanism keeps from run to run, draws once for many runs or reads from a clock differs between the runs on two
data sets although no record does, and would refute a claim that holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from verification.auditing.parts import OutputError

FloatArray = NDArray[np.float64]

BY_CHANCE = 1e-9  # probability, at most, that independent runs of one law are refused
CELLS = 4_000_000  # entries that are looked at, LEAST_PIECE runs of every piece at least
LEAST_PIECE = 50
SPARSE = 8  # possible ranks for each run, beyond which it is quicker to rank anew
MOST_KEPT = 40_000_000  # entries of each data set, in whole calls
MOST_COLUMNS = 1_000
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

    def check(self, look: int = 1) -> None:
        """Raise ValueError where they depend on when they were made."""
        check_alike(self.rows, look=look)


def check_alike(calls: Sequence[list[FloatArray]], *, look: int = 1) -> None:
    """Raise ValueError where runs on one data set differ by when they were made.

    Parameters
    ----------
    calls : two lists of ndarray, shape (n_i, d)
        On ``x_neighbour`` and on ``x``: runs in the order in which they were made, an array for each call.
    look : int
        1 for the first time at which the audit could have ended, 2 for the second, ...

    Guarantee
    ---------
    Independent runs of one law are refused with probability at most 1e-9, whenever an audit ends: the shares
    1/(look (look + 1)) sum to 1. Given the values of a column, all their orders are then equally likely. Three tests on
    ranks and on their distances from the middle: between the calls (`_by_calls`, both data sets together); means of
    both halves of every call by Bernstein's inequality, which holds for draws without replacement (Hoeffding 1963,
    Theorem 4); and neighbours in time on one side of the median, in pairs and all, by the exact laws of their numbers.
    A further one on equal values: those that come again in one call alone (`_by_repeats`).

    What is seen: a shift that all runs of a call share, of one column, in half of all audits from 0.7 standard
    deviations of the runs on at 100 runs in total, 0.5 at 300, 0.35 at 700, 0.25 at 2,000, 0.11 at 10,000 and 0.05 at
    50,000; a drift from two and a half times as much on, from the first run to the last. What is not: smaller ones,
    which refute a claim without any slack in up to a third of audits (at 5 %; of randomised response whose calls share
    a draw of its probability 363 of 1,250 with the exact score, 28 of 81 with a learned one); a draw that all calls, or
    the two data sets, share, which does so in up to half (162 of 322); now and then a copy of the run before, where
    there are few different values, in up to a sixth; noise that is drawn once for each data set and kept, which no run
    tells from what the records do, in nearly all (37 of 40); dependence that shows neither in the ranks of a
    column nor in their distances from the middle, as a sign that two columns share; columns beyond the first 1,000.
    """
    made = [(name, *_looked_at(own)) for name, own in zip(NAMES, calls, strict=True) if sum(map(len, own)) > 1]
    if not made:
        return
    d = made[0][1].shape[1]
    # Columns; ranks and their distances, tests of both data sets; equal values of both.
    share = BY_CHANCE / (look * (look + 1) * d * (2 * 7 + 2))
    for j in range(d):
        ranks = [_centred_ranks(rows[:, j]) for _, rows, _ in made]
        for own, (name, _, pieces) in zip(ranks, made, strict=True):
            if _by_repeats(own, pieces.sum(axis=1)) < share:
                raise OutputError(
                    "mechanism must draw every run by itself, got runs of one call that repeat each other and none of"
                    f" another call (number {j} of a run on {name}): they share a pool of draws"
                )
        for scores in (ranks, [np.abs(own) for own in ranks]):
            squares = [_between(own, pieces.sum(axis=1)) for own, (_, _, pieces) in zip(scores, made, strict=True)]
            most = int(np.argmax([sum(own) for own in squares]))
            refused = [most] if _by_calls([*itertools.chain(*squares)]) < share else []
            for i, (_, _, pieces) in enumerate(made):
                upper = _upper(scores[i])
                found = _by_means(scores[i], pieces[pieces > 0]), _by_neighbours(upper), _by_changes(upper)
                if min(found) < share:
                    refused.append(i)
            if refused:
                raise OutputError(
                    "mechanism must draw every run by itself, got runs that depend on when they were made"
                    f" (number {j} of a run on {made[refused[-1]][0]}): on a state that it keeps, on one draw for many"
                    " runs, or on time"
                )


def come_again(first: FloatArray, other: FloatArray) -> bool:
    """Whether runs, or one number of them, come again at the same places of another call: by chance once in a billion.

    Given the values of two calls of independent runs, all orders within each are equally likely. Of n runs M then are
    the same at their place with E[M (M-1) ... (M-m+1)] <= (n mu)^m / (n (n-1) ... (n-m+1)), mu = E[M], so that Markov's
    inequality bounds P[M >= m]; and all of them with probability prod_v c_v! / n!, c_v runs of value v.
    """
    d = first.shape[1]
    wholes = [np.unique(np.concatenate([first, other]), axis=0, return_inverse=True)[1].reshape(-1)]
    columns = (np.unique(np.append(a, b), return_inverse=True)[1] for a, b in zip(first.T, other.T, strict=True))
    return any(_log_by_chance(places) < math.log(BY_CHANCE / (d + 1)) for places in itertools.chain(wholes, columns))


def _log_by_chance(places: NDArray[np.int64]) -> float:
    """Logarithm of the bound of `come_again`: of values, by number, of two calls after each other."""
    n = places.size // 2
    one, two = places[:n], places[n:]
    ours, theirs = (np.bincount(call, minlength=places.max() + 1) for call in (one, two))
    same = int((one == two).sum())
    if same == n:
        return float(special.gammaln(ours + 1.0).sum() - special.gammaln(n + 1.0))
    left = special.gammaln(n + 1.0) - special.gammaln(n - same + 1.0)
    return float(same * math.log(max(float(ours @ theirs), 1.0)) - left - special.gammaln(same + 1.0))


def _looked_at(calls: list[FloatArray]) -> tuple[FloatArray, NDArray[np.int64]]:
    """Runs in order, and how many of each half of each call, shape (calls, 2)."""
    halves = [np.array_split(call[:, :MOST_COLUMNS], 2) for call in calls if len(call)]
    most = max(LEAST_PIECE, CELLS // (2 * len(halves) * max(1, halves[0][0].shape[1])))
    rows = np.concatenate([half[:most] for call in halves for half in call])
    return rows, np.array([[min(most, len(half)) for half in call] for call in halves])


def _centred_ranks(column: FloatArray) -> FloatArray:
    """Whole numbers and halves that sum to 0: equal distances are equal."""
    return np.asarray(stats.rankdata(np.where(np.isnan(column), -np.inf, column)) - (len(column) + 1) / 2)


def _by_calls(squares: list[float]) -> float:
    """Bound of the probability that as many squares of `_between` have a sum as large.

    Given which runs fell to its two sides, the orders within each side are equally likely, so the moment generating
    functions multiply. That of Mann and Whitney's U of m and n runs without ties is known, a Gaussian binomial
    coefficient; with x half the argument it is prod_(i <= n) i sinh((m + i) x) / ((m + i) sinh(i x)) around the mean.
    As log(sinh(y)/y) = sum_k log(1 + (y/(pi k))^2), its logarithm is at most x^2/6 times the sum of (m + i)^2 - i^2,
    which is half the variance m n (m + n + 1)/12 times the squared argument, as of a Gaussian. With ties U is the mean
    of U over all ways to break them, and Jensen's inequality gives the same. Hence E exp(s z^2) <= 1/sqrt(1 - 2 s) for
    each square z^2 (average exp(sqrt(2 s) g z) over a Gaussian g), and Markov's inequality at the best s.
    """
    total, k = sum(squares), len(squares)
    return 1.0 if total <= k else math.exp(k / 2 * math.log(total / k) - (total - k) / 2)


def _between(score: FloatArray, sizes: NDArray[np.int64]) -> list[float]:
    """Squares of standardised U: the first half of the calls against the second, then the same within each half.

    ``score``: whole numbers and halves.
    """
    if len(sizes) < 2:
        return []
    half, n = len(sizes) // 2, len(score)
    m = int(sizes[:half].sum())
    if np.ptp(score) > SPARSE * n:  # of a larger whole
        score = stats.rankdata(score)
    places = (2 * (score - score.min())).astype(np.int64)
    counts = np.bincount(places)
    middles = np.cumsum(counts) - (counts + n) / 2  # ranks around their mean, in the middle of equal ones
    u = float((np.bincount(places[:m], minlength=counts.size) * middles).sum())  # quicker than @ and its threads
    within = _between(score[:m], sizes[:half]), _between(score[m:], sizes[half:])
    return [u**2 / (m * (n - m) * (n + 1) / 12), *within[0], *within[1]]


def _by_means(score: FloatArray, sizes: NDArray[np.int64]) -> float:
    """Bound of the probability of the piece whose mean lies farthest out, times the number of pieces."""
    score = score - score.mean()
    variance, reach = float(np.mean(score**2)), float(np.abs(score).max())
    if variance < 1e-6:  # one value, and rounding
        return 1.0
    ends = np.cumsum(sizes)
    far = np.abs(np.add.reduceat(score, ends - sizes)) / sizes
    return float(2 * sizes.size * np.exp(-sizes * far**2 / (2 * (variance + reach * far / 3))).min())


def _upper(score: FloatArray) -> NDArray[np.bool_]:
    """Which runs are above the middle; equal values are on one side, that which leaves the sides more alike."""
    middle = np.sort(score)[score.size // 2]
    above, from_it = score > middle, score >= middle
    return above if abs(2 * above.sum() - score.size) <= abs(2 * from_it.sum() - score.size) else from_it


def _by_neighbours(upper: NDArray[np.bool_]) -> float:
    """Probability of so few pairs, of runs 0 and 1, 2 and 3, ..., that lie on two sides, given how many lie above."""
    pairs = upper.size // 2
    upper = upper[: 2 * pairs]
    split, high = int((upper[::2] != upper[1::2]).sum()), int(upper.sum())
    apart = np.arange(high % 2, split + 1, 2)
    both, neither = (high - apart) // 2, pairs - (high + apart) // 2
    log_law = special.gammaln(pairs + 1) - sum(special.gammaln(n + 1) for n in (both, neither, apart))
    return float(np.exp(special.logsumexp(log_law + apart * np.log(2) - _log_choose(2 * pairs, high))))


def _by_changes(upper: NDArray[np.bool_]) -> float:
    """Probability of so few stretches on one side, given how many runs lie above: Wald and Wolfowitz (1940)."""
    high, stretches = int(upper.sum()), 1 + int((upper[1:] != upper[:-1]).sum())
    low = upper.size - high
    if not high or not low:
        return 1.0
    half = np.arange(1, stretches // 2 + 1)  # stretches above, and as many or one fewer below, or the other way round
    even = np.log(2) + _log_choose(high - 1, half - 1) + _log_choose(low - 1, half - 1)
    half = np.arange(1, (stretches - 1) // 2 + 1)
    odd = [_log_choose(m - 1, half) + _log_choose(n - 1, half - 1) for m, n in ((high, low), (low, high))]
    return float(np.exp(special.logsumexp(np.concatenate([even, *odd])) - _log_choose(upper.size, high)))


def _log_choose(n: int, k: Any) -> Any:
    """Logarithm of the number of ways; minus infinity where k is above n, as gammaln is infinite there."""
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _by_repeats(score: FloatArray, sizes: NDArray[np.int64]) -> float:
    """Bound of the probability that so many of the values that come again do so within one call alone.

    Take two runs of each of k values, one value after the other. Wherever the earlier ones fell, all places left are
    equally likely, and for R runs left the second is in the call of the first with probability at most (m - 1)/(R - 1),
    m runs in the largest call; so a binomial dominates. Values are taken for up to a quarter of the runs of the other
    calls, the lowest first, which no order of the runs has a say in.
    """
    order = np.argsort(score, kind="stable")
    ordered, call = score[order], np.repeat(np.arange(sizes.size), sizes)[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    again = np.flatnonzero(np.diff(np.append(starts, score.size)) > 1)
    again = again[: (score.size - sizes.max()) // 4]
    if again.size == 0:
        return 1.0
    alone = np.minimum.reduceat(call, starts)[again] == np.maximum.reduceat(call, starts)[again]
    together = (sizes.max() - 1) / (score.size - 2 * again.size + 1)
    return float(stats.binom.sf(alone.sum() - 1, again.size, together))
