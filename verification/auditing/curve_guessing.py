"""The exact test of a claimed curve: guess the coins of which one is surest, count the right guesses, compare.

Theorem and proofs: curve_guessing.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from verification.auditing.bisection import bracket
from verification.auditing.claimed_curve import GAUSSIAN, ClaimedCurve, Family
from verification.auditing.guessing import GuessCounts, delta_bound, largest_right, p_value

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

POWER = 0.9  # of the detection limit
SHARES = (1.0, 0.55, 0.3)  # of the runs, guessed by an audit that is given the right score


@dataclass(frozen=True, slots=True)
class Plan:
    """Which coins will be guessed, fixed before the first one is: labels, number of guesses, point of the curve."""

    sides: tuple[bool, bool]  # whether 1 and whether 0 may be guessed
    guesses: int
    rounds: int
    epsilon: float  # where the curve is tested
    delta: float  # what it allows there

    def __str__(self) -> str:
        labels = [name for name, on in zip(("x", "x_neighbour"), self.sides, strict=True) if on]
        return f"guess {' or '.join(labels)} for the surest {self.guesses:,} of {self.rounds:,} runs, block by block"

    def guess(self, score: FloatArray, guesses: int) -> tuple[BoolArray, BoolArray]:
        """Where 1 and where 0 is guessed among these runs: ``guesses`` in all, those of the surest scores."""
        strength = np.abs(score) if all(self.sides) else score if self.sides[0] else -score
        made = np.zeros(score.size, bool)
        made[np.argsort(-strength, kind="stable")[:guesses]] = True
        ones = score >= 0 if all(self.sides) else np.full(score.size, self.sides[0])
        return made & ones, made & ~ones

    def counts(self, correct: int) -> GuessCounts:
        """What `guessing` tests."""
        return GuessCounts(correct, self.guesses, self.guesses, self.rounds, sum(self.sides), 0)


@dataclass(frozen=True, slots=True)
class CurveVerdict:
    """What follows from a plan and its number of right guesses."""

    p_value: float
    delta_lower: float  # at the plan's epsilon
    parameter_lower: float  # of the claim's family


def critical_share(
    claim: ClaimedCurve, sides: tuple[bool, bool], share: FloatArray, rounds: int, z: float
) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Right guesses a run that refute, when a ``share`` of the runs is guessed: normal approximation.

    Also its standard deviation, and the index of the epsilon that asks for the fewest; each of the shape of ``share``.
    """
    right = special.expit(claim.epsilons)
    marks = claim.allowed(sides) * sum(sides) / 2
    rest = np.maximum(np.atleast_1d(share)[:, None] - marks, 0.0)
    mean = np.minimum(marks + rest * right, np.atleast_1d(share)[:, None])
    deviation = np.sqrt((marks * (1 - marks) * (1 - right) ** 2 + rest * right * (1 - right)) / rounds)
    needed = mean + z * deviation
    best = np.argmin(needed, axis=1)
    rows = np.arange(best.size)
    return needed[rows, best], deviation[rows, best], best


def plan(claim: ClaimedCurve, *, sides: tuple[bool, bool], guesses: int, rounds: int, false_alarm: float) -> Plan:
    """The point of the curve that the fewest right guesses refute, for so many guesses of these labels."""
    z = float(-special.ndtri(false_alarm))
    _, _, best = critical_share(claim, sides, np.array([guesses / rounds]), rounds, z)
    point = int(best[0])
    return Plan(sides, guesses, rounds, float(claim.epsilons[point]), float(claim.allowed(sides)[point]))


def judge(planned: Plan, correct: int, *, family: Family, error: float) -> CurveVerdict:
    """Return the p-value of the claimed curve and what is certified in place of it.

    Parameters
    ----------
    planned : Plan
    correct : int
        Right guesses.
    family : Family
        Of the claim, or the Gaussian one.
    error : float
        Error probability of the bounds.

    Returns
    -------
    CurveVerdict

    Guarantee
    ---------
    The p-value is at most b with probability at most b, for all b, if P and Q keep the claimed curve, the labels are
    independent fair coins, the plan was made before the first of these runs, and no guess depends on its own coin or
    later ones. ``delta_lower`` exceeds the delta of the labels guessed (mean of both orders for both) with probability
    at most ``error``, whatever the claim; so does ``parameter_lower`` the parameter of any curve of the family that P
    and Q keep. Proof: curve_guessing.md.
    """
    counts = planned.counts(correct)
    delta_lower = delta_bound(counts, epsilon=planned.epsilon, error=error)
    return CurveVerdict(
        p_value(counts, epsilon=planned.epsilon, delta=min(planned.delta, math.nextafter(1.0, 0.0))),
        delta_lower,
        family.refuted_below(planned.epsilon, delta_lower),
    )


def gaussian_limit(claim: ClaimedCurve, *, n_certified: int, false_alarm: float) -> float:
    """Return the smallest mu of a Gaussian mechanism that so many guessed runs refute with probability 0.9.

    The right score is given; of some shares of the runs to be guessed the best is taken. Infinite if none is refuted.
    """
    return gaussian_limit_and_share(claim, n_certified=n_certified, false_alarm=false_alarm)[0]


def gaussian_limit_and_share(claim: ClaimedCurve, *, n_certified: int, false_alarm: float) -> tuple[float, float]:
    """The same, and the share of the runs to be guessed that is best there; 1 if none is refuted."""
    best, best_share = math.inf, 1.0
    for share in SHARES:
        guesses = max(1, round(share * n_certified))
        made = plan(claim, sides=(True, True), guesses=guesses, rounds=n_certified, false_alarm=false_alarm)
        needed = largest_right(guesses, n_certified, made.delta, made.epsilon, false_alarm) + 1

        def weak(mu: float, share: float = share, guesses: int = guesses, needed: int = needed) -> bool:
            return float(stats.binom.sf(needed - 1, guesses, gaussian_right(mu, share))) < POWER

        if needed <= guesses and not weak(GAUSSIAN.largest):
            limit = bracket(weak, 0.0, GAUSSIAN.largest, relative=1e-4)[1]
            best, best_share = min((best, best_share), (limit, share))
    return best, best_share


def gaussian_right(mu: float, share: float) -> float:
    """Share of right guesses among the surest ``share`` of the runs of N(0, 1) and N(mu, 1)."""

    def too_many(threshold: float) -> bool:
        return bool(special.ndtr(mu / 2 - threshold) + special.ndtr(-mu / 2 - threshold) > share)

    threshold = bracket(too_many, 0.0, mu / 2 + 10.0, width=1e-9)[0] if share < 1 else 0.0
    right, wrong = special.ndtr(mu / 2 - threshold), special.ndtr(-mu / 2 - threshold)
    return float(right / (right + wrong))
