"""Evidence against a claimed curve while runs come in: bets at many of its points, and one capital.

Theorem and proof: curve_betting.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from verification.auditing.betting import LOG_SIDE_WEIGHTS, STAKES
from verification.auditing.bisection import bracket
from verification.auditing.claimed_curve import ClaimedCurve, Family
from verification.auditing.curve_guessing import POWER

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Predicted log-odds from which a bettor guesses; predictions are kept only up to which cuts they reach.
CUTS = np.array([0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
OF_CUT = np.array([0.5, 1.0])  # where the curve is tested, as a share of the cut
EPSILONS = OF_CUT[:, None] * CUTS  # (points, cuts)
SIDES = np.array([[1, 1], [1, 0], [0, 1]])  # guess both labels, label 1 only, label 0 only
SIMULATED, SEED = 40, 5  # audits that tell a detection limit, always the same random numbers


@dataclass(frozen=True, slots=True, eq=False)
class CurveBets:
    """Runs by learner, label and place of the prediction among the cuts."""

    learners: tuple[str, ...]
    runs: IntArray  # (learners, 2, 2 * CUTS.size + 1): label 0, label 1; the middle place is a prediction of 0

    def only(self, i: int) -> CurveBets:
        """The counts of one learner."""
        return CurveBets(self.learners[i : i + 1], self.runs[i : i + 1])

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            name: {"cuts": CUTS.tolist(), "label_0": table[0].tolist(), "label_1": table[1].tolist()}
            for name, table in zip(self.learners, self.runs, strict=True)
        }


def place_of(prediction: FloatArray) -> IntArray:
    """Index of predicted log-odds of label 1: the middle and, up or down from it, one for each cut that is reached."""
    reached = np.searchsorted(CUTS, np.abs(prediction), side="right")
    return np.asarray(CUTS.size + np.sign(prediction).astype(np.int64) * reached)


def log_e_value(bets: CurveBets, first: FloatArray, second: FloatArray) -> float:
    """Return the logarithm of the e-value of a claim: the mean capital of the bettors.

    Parameters
    ----------
    bets : CurveBets
    first, second : ndarray, shape of EPSILONS
        What the claim allows there, in either order.

    Returns
    -------
    float

    Guarantee
    ---------
    exp of it has expectation at most 1 at any stopping time, if P and Q keep the claim, labels are independent fair
    coins, and predictions depend on outputs and on coins of earlier batches only. Proof: curve_betting.md.
    """
    return float(
        special.logsumexp([_log_capital(table, first, second) for table in bets.runs]) - math.log(len(bets.runs))
    )


def allowed_at_cuts(claim: ClaimedCurve) -> tuple[FloatArray, FloatArray]:
    """What a claim allows at EPSILONS, in both orders: the value at the next smaller epsilon that was read."""
    place = np.searchsorted(claim.epsilons, EPSILONS, side="right") - 1
    return claim.first[place], claim.second[place]


def parameter_bound(bets: CurveBets, family: Family, error: float) -> float:
    """The parameter up to which curves of the family have an e-value of at least 1/``error``; at least 0."""

    def refuted(value: float) -> bool:
        curve = _family_at_cuts(family, value)
        return log_e_value(bets, curve, curve) >= -math.log(error)

    return bracket(refuted, 0.0, family.largest, width=1e-4, relative=1e-4)[0] if refuted(0.0) else 0.0


def best_point(bets: CurveBets, first: FloatArray, second: FloatArray, error: float) -> tuple[tuple[int, int], float]:
    """The point of EPSILONS whose own bettors, of both labels, gained most, and a lower bound of delta there.

    Bounds of all points hold at once: each asks for a capital that counts all other bettors as lost.
    """
    needed = -math.log(error)

    def capitals(delta: FloatArray) -> FloatArray:
        logs = [_log_bettors(table, delta, delta)[0] for table in bets.runs]
        return np.asarray(special.logsumexp(logs, axis=(0, 3)) - math.log(len(bets.runs)))

    mean = (first + second) / 2
    point = np.unravel_index(int(np.argmax(capitals(mean))), mean.shape)
    place = int(point[0]), int(point[1])

    def refuted(delta: float) -> bool:
        return float(capitals(np.full(mean.shape, delta))[place]) >= needed

    return place, bracket(refuted, 0.0, 1.0, width=1e-6)[0] if refuted(0.0) else 0.0


def sequential_gaussian_limit(claim: ClaimedCurve, *, n_samples: int, false_alarm: float) -> float:
    """Smallest mu of a Gaussian mechanism that is refuted in 9 of 10 simulated audits given the right score.

    The capital must suffice at the end; one that stops on the way catches a little more. Infinite if none is.
    """
    first, second = allowed_at_cuts(claim)
    edges = np.array([*-CUTS[:0:-1], -1e-12, 1e-12, *CUTS[1:]])

    def weak(mu: float) -> bool:
        below = np.concatenate([[0.0], special.ndtr(edges / mu - mu / 2), [1.0]])  # of the loss on x
        law, rng, caught = np.diff(below), np.random.default_rng(SEED), 0
        for ones in rng.binomial(n_samples, 0.5, size=SIMULATED):
            table = np.stack([rng.multinomial(n_samples - ones, law[::-1]), rng.multinomial(ones, law)])
            caught += _log_capital(table, first, second) >= -math.log(false_alarm)
        return caught < POWER * SIMULATED

    return math.inf if weak(20.0) else bracket(weak, 0.0, 20.0, relative=1e-3)[1]


@lru_cache(maxsize=64)
def _family_at_cuts(family: Family, value: float) -> FloatArray:
    return np.vectorize(lambda epsilon: min(1.0, family.delta(value, epsilon)), otypes=[float])(EPSILONS)


def _log_capital(table: IntArray, first: FloatArray, second: FloatArray) -> float:
    """Of all bettors on one learner."""
    return float(special.logsumexp(_log_bettors(table, first, second)))


def _log_bettors(table: IntArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Weighted, shape (sides, points, cuts, stakes): on W = (right) - exp(epsilon) (wrong)."""
    right, wrong = (counts[:, None, :, None] for counts in _hits(table))  # (sides, 1, cuts, 1)
    none = int(table.sum()) - right - wrong
    share = (np.tensordot(SIDES, np.stack([first, second]), 1) / 2)[..., None]  # (sides, points, cuts, 1)
    one, odds = special.expit(-EPSILONS)[..., None], special.expit(EPSILONS)[..., None]
    capital = (
        right * np.log1p(STAKES * one * (1 - share))
        + wrong * np.log1p(-STAKES * (odds + one * share))
        + none * np.log1p(-STAKES * one * share)
    )
    weights = LOG_SIDE_WEIGHTS[:, None, None, None] - math.log(EPSILONS.size * STAKES.size)
    return np.asarray(capital + weights)


def _hits(table: IntArray) -> tuple[IntArray, IntArray]:
    """Right and wrong guesses by sides and cut, shape (3, cuts)."""
    zeros, ones = table
    up = slice(CUTS.size + 1, None)
    above = [np.cumsum(part[up][::-1])[::-1] for part in (ones, zeros)]
    below = [np.cumsum(part[: CUTS.size])[::-1] for part in (zeros, ones)]
    right, wrong = (np.stack([above[i] + below[i], above[i], below[i]]) for i in (0, 1))
    return right, wrong
