"""The exact test behind audits in one run: guess who was in, count the right guesses, compare with what DP allows.

Theorem and proof: one_run_guessing.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from verification._arguments import check_count, check_delta, check_probability
from verification.auditing.bisection import bracket
from verification.auditing.guessing import LARGEST_EPSILON, MOST_RUNS

FloatArray = NDArray[np.float64]
TINY = 1e-290  # a probability below it has lost digits


@dataclass(frozen=True, slots=True)
class OneRunCounts:
    """What an audit in one run counted, for one number of guesses."""

    correct: int  # right guesses
    guesses: int  # guesses made, a number fixed beforehand
    canaries: int  # slots with a coin of their own
    tails: int  # labels that may be guessed, 1 or 2

    def __post_init__(self) -> None:
        check_count(least=0, most=MOST_RUNS, **{name: getattr(self, name) for name in self.__slots__})
        if not (self.correct <= self.guesses <= self.canaries and self.guesses >= 1 and 1 <= self.tails <= 2):
            raise ValueError(
                f"counts must satisfy correct <= guesses <= canaries, 1 <= guesses, 1 <= tails <= 2, got {self!r}"
            )

    def as_dict(self) -> dict[str, int]:
        """Plain JSON types."""
        return {name: int(getattr(self, name)) for name in self.__slots__}


def bound_of_right(counts: OneRunCounts, *, epsilon: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Bound the probability of at least ``counts.correct`` right guesses.

    Parameters
    ----------
    counts : OneRunCounts
    epsilon, delta : array_like
        The claim or several, of shapes that fit each other; no unit. With one label guessed, delta of its order.

    Returns
    -------
    ndarray
        min(1, beta + m u beta (1 - beta)/(v Pr[W = v])), W ~ Bin(guesses, 1/(1 + exp(-epsilon))), beta = Pr[W >= v], v
        the right guesses, m the canaries, u = delta tails/2.

    Guarantee
    ---------
    If turning one canary's coin keeps (epsilon, delta)-DP, whatever the mechanism does with all of them. No such bound
    by these counts alone is smaller, with both labels guessed. Proof: one_run_guessing.md.
    """
    v, k = counts.correct, counts.guesses
    logit = np.asarray(epsilon, dtype=float)
    right = special.expit(logit)
    given_away = counts.canaries * counts.tails / 2 * np.asarray(delta, dtype=float)
    if v == 0:
        return np.ones(np.broadcast_shapes(right.shape, given_away.shape))
    tail = special.betainc(v, k - v + 1, right)
    below = special.betaincc(v, k - v + 1, right)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # SciPy's stats.binom.pmf takes twenty times as long
        log_powers = v * special.log_expit(logit) + (k - v) * special.log_expit(-logit)
        at = np.exp(log_powers - special.betaln(v, k - v + 1) - math.log(v))
        fall = (k - v) / (v + 1) * np.exp(logit)  # Pr[W = v + 1]/Pr[W = v]
        ratio = np.where(at > TINY, tail / np.maximum(at, TINY), np.where(fall < 1, 1 / (1 - fall), np.inf))
        extra = np.where(given_away > 0, given_away * ratio * below / v, 0.0)
    return np.asarray(np.minimum(1.0, np.nan_to_num(tail + extra, nan=1.0)))


def p_value(tries: Sequence[OneRunCounts], *, epsilons: ArrayLike, deltas: ArrayLike) -> float:
    """Return the p-value of a claimed curve: at most c with probability at most c if it is kept, for all c.

    ``tries``: counts for each number of guesses, all fixed beforehand; ``epsilons``, ``deltas``: points of the curve.
    """
    least = min(float(bound_of_right(counts, epsilon=epsilons, delta=deltas).min()) for counts in tries)
    return min(1.0, len(tries) * least)


def epsilon_bound(tries: Sequence[OneRunCounts], *, delta: float, error: float) -> float:
    """Return a lower bound of epsilon at ``delta``: too high with probability at most ``error``; at least 0."""
    check_delta(delta)
    check_probability(error=error)

    def bound(counts: OneRunCounts) -> float:
        def refuted(epsilon: float) -> bool:
            return float(bound_of_right(counts, epsilon=epsilon, delta=delta)) <= error / len(tries)

        return bracket(refuted, 0.0, LARGEST_EPSILON, width=1e-9)[0] if refuted(0.0) else 0.0

    return max(map(bound, tries))


def ceiling(tries: Sequence[OneRunCounts], *, delta: float, error: float) -> float:
    """Return the most that `epsilon_bound` could have said: with every guess right."""
    perfect = [OneRunCounts(c.guesses, c.guesses, c.canaries, c.tails) for c in tries]
    return epsilon_bound(perfect, delta=delta, error=error)


def canaries_needed(epsilon: float, *, error: float) -> int:
    """Return how many guesses, all right, certify ``epsilon`` at delta 0."""
    return math.ceil(math.log(error) / -math.log1p(math.exp(-epsilon)))
