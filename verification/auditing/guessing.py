"""The exact test behind every fixed-size audit: guess the coins, count the right guesses, compare with what DP allows.

Theorem and proof: guessing.md.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from verification._arguments import check_count, check_delta, check_non_negative, check_probability
from verification.auditing.bisection import root_from_below

FloatArray = NDArray[np.float64]

MOST_RUNS = 10**8  # more take gigabytes, and minutes to compute their bounds again
WINDOW = 12.0  # standard deviations of the number of marked runs that are summed; the rest is added as it stands
SMALLEST_SHARE = 1e-290  # below 1e-307 the binomial law of SciPy overflows
LARGEST_EPSILON = 64.0  # from 37 on, 1/(1 + exp(-epsilon)) rounds to 1


@dataclass(frozen=True, slots=True)
class GuessCounts:
    """What an audit counted; bounds and p-values follow from nothing else."""

    correct: int  # right guesses
    guesses: int  # guesses made
    planned: int  # guesses fixed before the first was made; simulated coins stand in for those not made
    rounds: int  # runs that could have been guessed, both data sets together
    tails: int  # labels that may be guessed: 0, 1 or 2
    pad_seed: int  # of the simulated coins

    def __post_init__(self) -> None:
        check_count(least=0, **{name: getattr(self, name) for name in self.__slots__})
        if not self.correct <= self.guesses <= self.planned <= self.rounds or self.tails > 2:
            raise ValueError(
                f"counts must satisfy correct <= guesses <= planned <= rounds and tails <= 2, got {self!r}"
            )

    def as_dict(self) -> dict[str, int]:
        """Plain JSON types."""
        return {name: getattr(self, name) for name in self.__slots__}


def p_value(counts: GuessCounts, *, epsilon: float, delta: float) -> float:
    """Return the p-value of the claim (epsilon, delta): how likely so many right guesses are at most.

    Parameters
    ----------
    counts : GuessCounts
    epsilon, delta : float
        The claim, no unit.

    Returns
    -------
    float
        Pr[U + Bin(planned - U, s) >= correct + pads], s = 1/(1 + exp(-epsilon)), U ~ Bin(rounds, delta tails/2);
        ``pads`` of the planned - guesses simulated coins, each right with probability s, are right.

    Raises
    ------
    TypeError, ValueError
        If an argument is outside its range.

    Guarantee
    ---------
    At most b with probability at most b, for all b, if the claim holds for the pair of data sets, the labels are
    independent fair coins, and no guess depends on its own coin or later ones. Proof: guessing.md.
    """
    check_non_negative(epsilon=epsilon)
    check_delta(delta)
    right = float(special.expit(epsilon))
    pads = int(np.searchsorted(_pads(counts), right))
    return _tail(counts.correct + pads, counts.planned, counts.rounds, delta * counts.tails / 2, right)


def epsilon_bound(counts: GuessCounts, *, delta: float, error: float) -> float:
    """Return a lower bound of epsilon at ``delta``: every smaller epsilon has a p-value of at most ``error``.

    Too high with probability at most ``error``; at least 0.
    """
    check_delta(delta)
    check_probability(error=error)
    share = delta * counts.tails / 2
    # Without marks and pads it is the interval of Clopper and Pearson, but no library knows either, and the interval of
    # a probability has no digits left where epsilon is large.
    # Between two pads the p-value grows with epsilon, at a pad it drops; ends[i], ends[i + 1]: pads i - 1 and i.
    pads = _pads(counts)
    n_low = int(np.searchsorted(pads, 0.5))
    ends = np.concatenate([[0.5], pads[n_low:], [1.0]])

    def tail(i: int, right: float) -> float:
        return _tail(counts.correct + n_low + i, counts.planned, counts.rounds, share, right)

    def first_above(low: int, high: int) -> int | None:
        """The first interval among low..high where the p-value rises above ``error``."""
        if tail(low, float(ends[high + 1])) <= error:  # at least every p-value of these intervals
            return None
        if low == high:
            return low
        middle = (low + high) // 2
        found = first_above(low, middle)
        return first_above(middle + 1, high) if found is None else found

    i = first_above(0, ends.size - 2)
    assert i is not None  # the last interval ends at 1, where the p-value is 1
    low = float(special.logit(ends[i]))
    high = min(LARGEST_EPSILON, float(special.logit(ends[i + 1])))

    def excess(epsilon: float) -> float:
        return tail(i, float(special.expit(epsilon))) - error

    if excess(low) > 0:
        return max(0.0, low)
    return max(0.0, root_from_below(excess, low, high, width=1e-11))


def delta_bound(counts: GuessCounts, *, epsilon: float, error: float) -> float:
    """Return a lower bound of delta at ``epsilon``: every smaller delta has a p-value of at most ``error``.

    Too high with probability at most ``error``; at least 0.
    """
    check_non_negative(epsilon=epsilon)
    check_probability(error=error)
    right = float(special.expit(epsilon))
    correct = counts.correct + int(np.searchsorted(_pads(counts), right))

    def excess(share: float) -> float:
        return _tail(correct, counts.planned, counts.rounds, share, right) - error

    if counts.tails == 0 or excess(0.0) > 0:
        return 0.0
    if excess(counts.tails / 2) <= 0:
        return 1.0
    return min(1.0, root_from_below(excess, 0.0, counts.tails / 2, width=1e-13) * 2 / counts.tails)


def largest_right(planned: int, rounds: int, share: float, epsilon: float, error: float) -> int:
    """The largest number of right guesses, simulated ones included, that does not refute; ``share``: delta tails/2."""
    right = float(special.expit(epsilon))

    def refutes(correct: int) -> bool:
        return _tail(correct, planned, rounds, share, right) <= error

    return bisect_left(range(planned + 1), True, key=refutes) - 1  # the tail of 0 is 1


@functools.lru_cache(maxsize=8)
def _pads(counts: GuessCounts) -> FloatArray:
    """Sorted uniforms: a pad is right at epsilon when its uniform is below 1/(1 + exp(-epsilon))."""
    return np.sort(np.random.default_rng(counts.pad_seed).random(counts.planned - counts.guesses))


def _tail(correct: int, planned: int, rounds: int, share: float, right: float) -> float:
    """Pr[U + Bin(planned - U, right) >= correct], U ~ Bin(rounds, share)."""
    if share <= 0:
        return float(_at_least(np.array([correct]), np.array([planned]), right)[0])
    share = max(share, SMALLEST_SHARE)  # the tail grows with it
    mean = rounds * share
    spread = WINDOW * math.sqrt(mean) + 40
    marked = np.arange(max(0, math.floor(mean - spread)), min(rounds, math.ceil(mean + spread)) + 1)
    weights = stats.binom.pmf(marked, rounds, share)
    tail = _at_least(correct - marked, np.maximum(planned - marked, 0), right)
    return float(min(1.0, weights @ tail + max(0.0, 1.0 - weights.sum())))


def _at_least(hits: NDArray[np.int64], trials: NDArray[np.int64], probability: float) -> FloatArray:
    """Pr[Bin(trials, probability) >= hits]."""
    inside = (hits > 0) & (hits <= trials)
    tail = special.betainc(np.where(inside, hits, 1), np.where(inside, trials - hits + 1, 1), probability)
    return np.where(hits <= 0, 1.0, np.where(inside, tail, 0.0))
