"""Choose an event on one part of the samples, certify it on another: exact binomial bounds and nothing else.

Every function takes a score and labels: label 1 for a sample of the mechanism on ``x``, 0 on ``x_neighbour``;
high scores speak for label 1. Choices may be arbitrary functions of the choose part; the bounds hold because the
certify part is independent of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

FIRST_RANK = 10  # smallest event that may be chosen, in samples of the choose part (ties may make it larger)
STEP = 0.05  # growth of the candidate events: at most that share of the hits is lost
CAUTION = 100.0  # choosing asks for an error probability this many times smaller: the best of many is partly luck
STEP_COST = 1.0  # wrong guesses added per step outwards: the rule of succession for a step that saw none
SPLITS = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98])  # share of the error spent on p


def binomial_lower(hits: ArrayLike, trials: ArrayLike, error: ArrayLike) -> FloatArray:
    """One-sided Clopper-Pearson lower bound of a probability, wrong with probability at most ``error``."""
    hits, trials = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    return np.where(
        hits > 0,
        special.betaincinv(np.where(hits > 0, hits, 1.0), np.maximum(trials - hits, 0.0) + 1, error),
        0.0,
    )


def binomial_upper(hits: ArrayLike, trials: ArrayLike, error: ArrayLike) -> FloatArray:
    """One-sided Clopper-Pearson upper bound of a probability, wrong with probability at most ``error``."""
    hits, trials = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    misses = trials - hits
    return np.where(misses > 0, special.betainccinv(hits + 1, np.where(misses > 0, misses, 1.0), error), 1.0)


def guessing_epsilon(correct: ArrayLike, guesses: ArrayLike, error: float) -> FloatArray:
    """Lower bound of epsilon from guessed labels, wrong with probability at most ``error`` under coin-flipped labels.

    Under (epsilon, 0)-DP each guess is right with probability at most 1/(1 + exp(-epsilon)) whatever was seen before,
    so ``correct`` is dominated by a binomial: epsilon >= logit of its Clopper-Pearson lower bound, at least 0.
    """
    return np.maximum(0.0, special.logit(binomial_lower(correct, guesses, error)))


@dataclass(frozen=True, slots=True)
class Guesses:
    """Guess label 1 at scores >= ``upper``, label 0 at scores <= ``lower``, abstain between; None: never."""

    upper: float | None
    lower: float | None
    value: float  # bound of the share of right guesses reached on the choose part

    def count(self, score: FloatArray, label: BoolArray) -> tuple[int, int]:
        """Right guesses and all guesses."""
        ones = np.zeros(label.size, bool) if self.upper is None else score >= self.upper
        zeros = np.zeros(label.size, bool) if self.lower is None else score <= self.lower
        return int((label & ones).sum() + (~label & zeros).sum()), int(ones.sum() + zeros.sum())


@dataclass(frozen=True, slots=True)
class Event:
    """{score >= threshold} for x over x_neighbour, or {score <= threshold} for the reverse; None: the empty event."""

    threshold: float | None
    reverse: bool
    error: float  # spent on the lower bound of the event's probability
    error_neighbour: float  # spent on the upper bound under the other data set
    value: float  # the objective reached on the choose part

    def count(self, score: FloatArray, label: BoolArray) -> tuple[int, int, int, int]:
        """Hits and trials under the data set favoured by the event, then under the other one."""
        if self.threshold is None:
            inside = np.zeros(label.size, bool)
        else:
            inside = score <= self.threshold if self.reverse else score >= self.threshold
        own = ~label if self.reverse else label
        return int((inside & own).sum()), int(own.sum()), int((inside & ~own).sum()), int((~own).sum())


def choose_guesses(
    score: FloatArray, label: ArrayLike, *, false_alarm: float, projection: float | None = None
) -> Guesses:
    """The pair of thresholds with the largest bound of right guesses on these very counts; ties go to more guesses.

    Maximising a lower bound rather than the estimate keeps far-tail events with a handful of hits from winning; the
    bound is made stricter by CAUTION and STEP_COST. With ``projection``, ``label`` holds exact probabilities of label 1
    in place of coins: there is no luck to guard against, and counts are multiplied by ``projection``, the size of the
    certify part over that of this one. All of this is a choice and needs no guarantee.
    """
    label = np.asarray(label, dtype=float)
    ups, up_right, up_wrong = _tail(score, label)
    downs, down_right, down_wrong = _tail(-score, 1 - label)
    right = up_right[:, None] + down_right
    wrong = up_wrong[:, None] + down_wrong
    overlap = ups[:, None] <= -downs  # both guesses at once
    if projection is None:
        steps = np.arange(ups.size)[:, None] + np.arange(downs.size)
        feared = right + wrong + STEP_COST * steps  # a far step with three lucky hits must not be worth its risk
        bound = binomial_lower(right, feared, false_alarm / CAUTION)
    else:
        bound = binomial_lower(projection * right, projection * (right + wrong), false_alarm)
    bound = np.where(overlap, -1.0, bound)
    best = np.flatnonzero(bound == bound.max())
    i, j = np.unravel_index(best[np.argmax((right + wrong).ravel()[best])], bound.shape)
    upper = float(ups[i]) if i else None
    lower = float(-downs[j]) if j else None
    return Guesses(upper, lower, float(bound[i, j]))


def choose_event(
    score: FloatArray,
    label: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    false_alarm: float,
    projection: float | None = None,
) -> Event:
    """The direction, threshold and error split with the largest objective on these very counts.

    The objective is the bound of epsilon, ln((p_L - delta) / q_U), when ``delta`` is above 0 and the bound of delta,
    p_L - exp(epsilon) q_U, when it is 0. ``label`` and ``projection`` as in `choose_guesses`.
    """
    label = np.asarray(label, dtype=float)
    size, error = (1.0, false_alarm / CAUTION) if projection is None else (projection, false_alarm)
    best = Event(None, False, false_alarm / 2, false_alarm / 2, -math.inf)
    for reverse in (False, True):
        own = 1 - label if reverse else label
        thresholds, hits, others = _tail(-score if reverse else score, own)
        p_low = binomial_lower(size * hits[:, None], size * own.sum(), error * SPLITS)
        q_high = binomial_upper(size * others[:, None], size * (1 - own).sum(), error * (1 - SPLITS))
        value = epsilon_bound(p_low, q_high, delta) if delta > 0 else delta_bound(p_low, q_high, epsilon)
        i, j = np.unravel_index(np.argmax(value), value.shape)
        if i and value[i, j] > best.value:
            threshold = -thresholds[i] if reverse else thresholds[i]
            spent = float(false_alarm * SPLITS[j])
            best = Event(float(threshold), reverse, spent, false_alarm - spent, float(value[i, j]))
    return best


def epsilon_bound(p_low: ArrayLike, q_high: ArrayLike, delta: float) -> FloatArray:
    """ln((p_low - delta) / q_high), minus infinity where p_low <= delta."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(0.0, np.asarray(p_low) - delta)) - np.log(np.asarray(q_high))


def delta_bound(p_low: ArrayLike, q_high: ArrayLike, epsilon: float) -> FloatArray:
    """p_low - exp(epsilon) q_high, at least -1 so that a large epsilon cannot overflow."""
    odds = np.minimum(700.0, epsilon + np.log(np.asarray(q_high)))  # exp(700) is finite, and far above 1
    return np.maximum(-1.0, np.asarray(p_low) - np.exp(odds))


def _tail(score: FloatArray, label: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Candidate thresholds from the top, with the hits of label 1 and 0 at or above each; the first is the empty event.

    Candidates lie on a geometric grid of ranks, so that they do not follow the luck of single labels.
    """
    order = np.argsort(-score, kind="stable")
    score, label = score[order], label[order]
    ends = np.append(np.flatnonzero(score[1:] != score[:-1]), score.size - 1)  # last member of each tie
    ones = np.cumsum(label)[ends]
    total = ends + 1.0
    first = min(FIRST_RANK, score.size)
    ranks = np.geomspace(first, score.size, math.ceil(math.log(score.size / first) / math.log1p(STEP)) + 1)
    keep = np.unique(np.searchsorted(total, ranks - 0.5))
    zero = np.zeros(1)
    return (
        np.concatenate([[np.inf], score[ends[keep]]]),
        np.concatenate([zero, ones[keep]]),
        np.concatenate([zero, np.maximum(0.0, total[keep] - ones[keep])]),
    )
