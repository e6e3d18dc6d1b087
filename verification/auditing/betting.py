"""Evidence against a claim while runs come in: bets on the coins, a capital, and bounds from the counts alone.

Theorem and proof: betting.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from verification._arguments import check_delta, check_non_negative, check_probability
from verification.auditing.bisection import bracket

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A prediction is rounded to a multiple of STEP; counts by prediction are all that the capital depends on.
STEP, LARGEST = 0.125, 10.0
LEVELS = STEP * np.arange(-round(LARGEST / STEP), round(LARGEST / STEP) + 1)
ZERO = LEVELS.size // 2
# The bettors. Each is right for some mechanism; their mean loses at most the logarithm of their number to the best.
CUTS = np.array([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0])  # where a tail of predictions starts
EXCESS = np.array([0.1, 0.3, 0.8, 2.0, 5.0])  # log-odds of a right guess above epsilon that a bettor believes in
SHRINK = np.array([0.5, 0.75, 1.0])  # how much of a prediction a bettor believes
# Of the learners' capitals; 1 for all others: monotone trees find the most and start late, others seldom find more.
WEIGHTS = {"monotone trees": 2.0, "trees": 0.5}
STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95])  # of the largest stake allowed, for delta > 0
SIDES = np.array([2, 1, 1])  # guess both labels, label 1 only, label 0 only
LOG_SIDE_WEIGHTS = np.log([0.5, 0.25, 0.25])
SCAN, LARGEST_EPSILON = 0.01, 20.0


@dataclass(frozen=True, slots=True, eq=False)
class BetCounts:
    """Runs by learner, label and rounded prediction."""

    learners: tuple[str, ...]
    runs: IntArray  # (learners, 2, LEVELS.size): label 0, label 1

    def only(self, i: int) -> BetCounts:
        """The counts of one learner."""
        return BetCounts(self.learners[i : i + 1], self.runs[i : i + 1])

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            name: {"levels": LEVELS.tolist(), "label_0": table[0].tolist(), "label_1": table[1].tolist()}
            for name, table in zip(self.learners, self.runs, strict=True)
        }


def level_of(prediction: FloatArray) -> IntArray:
    """Index in LEVELS of predicted log-odds of label 1, rounded."""
    return np.rint(np.clip(prediction, -LARGEST, LARGEST) / STEP).astype(np.int64) + ZERO


def log_e_value(counts: BetCounts, *, epsilon: float, delta: float) -> float:
    """Return the logarithm of the e-value of the claim (epsilon, delta): the mean capital of the bettors.

    Parameters
    ----------
    counts : BetCounts
    epsilon, delta : float
        The claim, no unit.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If the claim is outside its range.

    Guarantee
    ---------
    exp of it has expectation at most 1 at any stopping time, if the claim holds for the pair of data sets, labels are
    independent fair coins, and predictions depend on outputs and on coins of earlier batches only. Proof: betting.md.
    """
    check_non_negative(epsilon=epsilon)
    check_delta(delta)
    capital = _pure if delta == 0 else _approximate
    return _mean(counts, [capital(table, epsilon, delta) for table in counts.runs])


def best_learner(bets: Any, log_e: Callable[[Any], float]) -> int:
    """Whose bets alone have the largest e-value; ``bets`` of a pair or of a curve."""
    return max(range(len(bets.learners)), key=lambda i: log_e(bets.only(i)))


def epsilon_bound(counts: BetCounts, *, claim: float, delta: float, error: float) -> float:
    """Return a lower bound of epsilon at ``delta``, just above the last refuted point of a grid of 0.01 and the claim.

    All points up to it have an e-value of at least 1/``error``. Too high with probability at most ``error``, at any
    stopping time; 0 when nothing is refuted.
    """
    check_probability(error=error)
    needed, last = -math.log(error), None
    steps = int(LARGEST_EPSILON / SCAN)
    for epsilon in sorted({*(i * SCAN for i in range(steps + 1)), claim}):
        if log_e_value(counts, epsilon=epsilon, delta=delta) < needed:
            break
        last = epsilon
    return 0.0 if last is None else math.nextafter(last, math.inf)  # the last point itself is refuted


def delta_bound(counts: BetCounts, *, epsilon: float, error: float) -> float:
    """Return a lower bound of delta at ``epsilon``: every smaller one has e-value 1/error or more; at least 0."""
    check_non_negative(epsilon=epsilon)
    check_probability(error=error)
    needed = -math.log(error)

    def refuted(delta: float) -> bool:
        return _mean(counts, [_approximate(table, epsilon, delta) for table in counts.runs]) >= needed

    if not refuted(0.0):
        return 0.0
    return bracket(refuted, 0.0, 1.0, width=1e-6)[0]  # the capital falls in delta


def _mean(counts: BetCounts, logs: list[float]) -> float:
    """Logarithm of the weighted mean capital of the learners."""
    weights = np.array([WEIGHTS.get(name, 1.0) for name in counts.learners])
    return float(special.logsumexp(logs, b=weights / weights.sum()))


def _pure(table: IntArray, epsilon: float, delta: float) -> float:
    """Half on the tails of the predictions, half on following them."""
    log_right, log_wrong = special.log_expit, lambda odds: special.log_expit(-odds)
    right, wrong = _tails(table)
    odds = epsilon + EXCESS
    gain, loss = log_right(odds) - log_right(epsilon), log_wrong(odds) - log_wrong(epsilon)
    by_tail = right[..., None] * gain + wrong[..., None] * loss + LOG_SIDE_WEIGHTS[:, None, None]
    tails = special.logsumexp(by_tail) - math.log(CUTS.size * EXCESS.size)
    zeros, ones = table
    believed = SHRINK[:, None] * LEVELS
    allowed = np.clip(believed, -epsilon, epsilon)
    by_shrink = (log_right(believed) - log_right(allowed)) @ ones + (log_wrong(believed) - log_wrong(allowed)) @ zeros
    return float(np.logaddexp(tails, special.logsumexp(by_shrink) - math.log(SHRINK.size)) - math.log(2))


def _approximate(table: IntArray, epsilon: float, delta: float) -> float:
    """Stakes on W = (right) - exp(epsilon) (wrong), whose expectation is at most delta/2 per label that is guessed."""
    right, wrong = (counts[..., None] for counts in _tails(table))
    none = int(table.sum()) - right - wrong
    share = (delta * SIDES / 2)[:, None, None]
    one, odds = special.expit([-epsilon, epsilon])  # 1 and exp(epsilon), over their sum, which may overflow
    capital = (
        right * np.log1p(STAKES * one * (1 - share))
        + wrong * np.log1p(-STAKES * (odds + one * share))
        + none * np.log1p(-STAKES * one * share)
    )
    return float(special.logsumexp(capital + LOG_SIDE_WEIGHTS[:, None, None]) - math.log(CUTS.size * STAKES.size))


def _tails(table: IntArray) -> tuple[IntArray, IntArray]:
    """Right and wrong guesses by sides and cut, shape (3, cuts): 1 is guessed from the cut up, 0 from minus it down."""
    zeros, ones = table
    above = (CUTS[:, None] <= LEVELS).astype(np.int64)
    below = (-CUTS[:, None] >= LEVELS).astype(np.int64)
    up, down = (above @ ones, above @ zeros), (below @ zeros, below @ ones)
    return np.stack([up[0] + down[0], up[0], down[0]]), np.stack([up[1] + down[1], up[1], down[1]])
