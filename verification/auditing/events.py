"""Choose which outputs to guess, so that a certification on other runs finds as much as it can.

Every function takes a score and labels: label 1 for a run of the mechanism on ``x``, 0 on ``x_neighbour``; high scores
speak for label 1. A choice may be any function of these runs: it needs no guarantee, and none is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

FIRST_RANK = 8  # smallest event that may be chosen, in runs of the choose part (ties may make it larger)
STEP = 0.02  # growth of the candidate events: about that share of the guesses may be lost
# Standard deviations by which the share of right guesses is believed to be lower than seen: the best of many is lucky.
# With delta > 0 small events cost something anyway.
CAUTION, CAUTION_DELTA = 2.0, 1.5
BOLD, BOLD_RANK = 1.0, 2  # the same where nothing is found otherwise: a few runs that stand out are all there is
LOOK = 5  # runs: wrong ones count as far beyond a threshold as this many of those inside reach, and up to this number
BETS = "bet on each run from the runs before it"  # in place of an event, of audits that look as runs come


@dataclass(frozen=True, slots=True)
class Guesses:
    """Guess label 1 at the highest scores and label 0 at the lowest; None: never."""

    upper: float | None  # guess 1 at scores of at least this
    lower: float | None  # guess 0 at scores of at most this
    right: float  # on the choose part
    wrong: float
    value: float  # bound to be expected from the runs that are left
    near: float = 0.0  # wrong ones just beyond the thresholds

    def __str__(self) -> str:
        return in_words(self.upper, self.lower)

    @property
    def sides(self) -> tuple[bool, bool]:
        """Whether 1 and whether 0 is ever guessed."""
        return self.upper is not None, self.lower is not None

    @property
    def flawless(self) -> bool:
        """Whether no guess is wrong, nor nearly."""
        return self.wrong + self.near == 0

    def where(self, score: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Where 1 and where 0 is guessed."""
        never = np.zeros(score.size, bool)
        return (
            never if self.upper is None else score >= self.upper,
            never if self.lower is None else score <= self.lower,
        )


def in_words(upper: float | None, lower: float | None) -> str:
    """The event of the two thresholds."""
    parts = [] if upper is None else [f"guess x where score >= {upper:.6g}"]
    parts += [] if lower is None else [f"guess x_neighbour where score <= {lower:.6g}"]
    return "; ".join([*parts, "abstain elsewhere"]) if parts else "never guess"


def events_at(thresholds: Sequence[float]) -> tuple[str, ...]:
    """The events, in words, that have these thresholds, the lower one first: one alone may be of either label."""
    if len(thresholds) == 1:
        return in_words(thresholds[0], None), in_words(None, thresholds[0])
    lower, upper = thresholds if len(thresholds) else (None, None)
    return (in_words(upper, lower),)


def choose_guesses(
    score: FloatArray,
    label: ArrayLike,
    *,
    delta: float,
    rounds: int,
    z: float,
    exact: bool = False,
    at_epsilon: float | None = None,
    bold: bool = False,
) -> Guesses:
    """The pair of thresholds with the largest bound of epsilon at ``delta`` to be expected.

    Parameters
    ----------
    score, label : ndarray, shape (n,)
        The choose part; with ``exact``, ``label`` holds exact probabilities of label 1 in place of coins.
    rounds : int
        Runs of the certify part: counts are projected to it.
    z : float
        Standard normal quantile of the certificate's error probability.
    exact : bool
        The shares of right guesses are exact: no CAUTION, and nothing beyond the thresholds counts.
    at_epsilon : float, optional
        Choose for the largest bound of delta at this epsilon instead; ``delta`` is not used then.
    bold : bool
        Less caution and smaller events, for scores of which nothing can be expected otherwise.

    Candidates lie on a geometric grid of ranks, so that they do not follow the luck of single labels; the share of
    right guesses is lowered by CAUTION standard deviations, because the best of many candidates is partly luck. Both
    keep far-tail events with a handful of hits from winning.
    """
    label = np.asarray(label, dtype=float)
    least = BOLD_RANK if bold else FIRST_RANK
    ups, up_right, up_wrong, up_near = _tail(score, label, least)
    downs, down_right, down_wrong, down_near = _tail(-score, 1 - label, least)
    near = up_near[:, None] + down_near
    right = up_right[:, None] + down_right
    wrong = up_wrong[:, None] + down_wrong
    tails = (np.arange(ups.size)[:, None] > 0).astype(float) + (np.arange(downs.size) > 0)
    scale = rounds / score.size
    guesses = right + wrong
    with np.errstate(invalid="ignore", divide="ignore"):
        if exact:
            share = right / guesses
        else:
            share = wilson(right, guesses + near, BOLD if bold else CAUTION if delta == 0 else CAUTION_DELTA)
    share = np.where(guesses > 0, share, 0.0)
    if at_epsilon is None:
        value = epsilon_to_expect(scale * guesses, share, rounds * delta * tails / 2, z)
    else:
        value = _delta_to_expect(scale * guesses, share, rounds * tails / 2, z, at_epsilon)
    value = np.where(ups[:, None] <= -downs, -1.0, value)  # two guesses at once
    value[0, 0] = 0.0
    best = np.flatnonzero(value == value.max())
    i, j = np.unravel_index(best[np.argmax(guesses.ravel()[best])], value.shape)
    return Guesses(
        upper=float(ups[i]) if i else None,
        lower=float(-downs[j]) if j else None,
        right=float(right[i, j]),
        wrong=float(wrong[i, j]),
        near=0.0 if exact else float(near[i, j]),
        value=float(value[i, j]),
    )


def wilson(hits: FloatArray, trials: FloatArray, z: float | FloatArray) -> FloatArray:
    """Lower end of the score interval of a probability; it only chooses, so no audit waits for statsmodels to load."""
    centre = hits + z**2 / 2
    return (centre - z * np.sqrt(np.maximum(0.0, hits * (trials - hits) / trials) + z**2 / 4)) / (trials + z**2)


def epsilon_to_expect(guesses: FloatArray, share: FloatArray, marked: FloatArray, z: float) -> FloatArray:
    """Normal approximation of the bound: solve right - m - (guesses - m) s = z sd(s) for s, where m runs are marked.

    sd(s)^2 = m (1 - s)^2 + (guesses - m) s (1 - s).
    """
    a, b = guesses * share - marked, guesses - marked
    quadratic = b**2 + z**2 * (b - marked)
    linear = 2 * a * b + z**2 * (b - 2 * marked)
    constant = a**2 - z**2 * marked
    with np.errstate(invalid="ignore", divide="ignore"):
        root = (linear - np.sqrt(np.maximum(0.0, linear**2 - 4 * quadratic * constant))) / (2 * quadratic)
    root = np.where((b > 0) & (a > 0) & (quadratic > 0), root, 0.5)
    return special.logit(np.clip(root, 0.5, 1 - 1e-16))


def _delta_to_expect(guesses: FloatArray, share: FloatArray, marks: FloatArray, z: float, epsilon: float) -> FloatArray:
    """Normal approximation of the bound of delta: ``marks`` is the number of marked runs per unit of delta."""
    s = float(special.expit(epsilon))
    excess = guesses * (share - s) - z * np.sqrt(guesses * s * (1 - s))
    return np.minimum(1.0, excess / (max(1 - s, 1e-300) * np.maximum(marks, 1e-6)))


def _tail(score: FloatArray, label: FloatArray, least: int = FIRST_RANK) -> tuple[FloatArray, ...]:
    """Candidate thresholds from the top; hits of label 1 and 0 at or above each, of 0 just below; first no event."""
    zero = np.zeros(1)
    order = np.argsort(-score, kind="stable")
    score, label = score[order], label[order]
    ends = np.append(np.flatnonzero(score[1:] != score[:-1]), score.size - 1)  # last member of each tie
    first = min(least, score.size)
    ranks = np.geomspace(first, score.size, math.ceil(math.log(score.size / first) / math.log1p(STEP)) + 1)
    ends = ends[np.unique(np.searchsorted(ends + 1.0, ranks - 0.5))]
    wrong = np.cumsum(1 - label)
    with np.errstate(invalid="ignore"):  # equal infinities are a tie
        reach = np.nan_to_num(score[np.maximum(ends - LOOK, 0)] - score[ends], nan=0.0, posinf=np.inf)
    beyond = np.searchsorted(-score, reach - score[ends], side="left") - 1  # the last run that is nearer than that
    near = np.clip(wrong[np.maximum(beyond, ends)] - wrong[ends], 0, LOOK)
    return (
        np.concatenate([[np.inf], score[ends]]),
        np.concatenate([zero, ends + 1.0 - wrong[ends]]),
        np.concatenate([zero, np.maximum(0.0, wrong[ends])]),
        np.concatenate([zero, near]),
    )
