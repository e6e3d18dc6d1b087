"""Which coins to guess in the audit of a curve, and by which score; `curve_audit.audit_curve` does the rest.

Runs are used in order. From the first ones a plan is made: which labels may be guessed, and how many coins. All later
runs are guessed, block by block: the score of a block is learned from all runs before it, and the surest of its coins
are guessed. Whatever is chosen here costs power, never validity: curve_guessing.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from verification.auditing import scores
from verification.auditing.bisection import bracket
from verification.auditing.claimed_curve import ClaimedCurve
from verification.auditing.curve_guessing import Plan, critical_share, gaussian_limit_and_share, plan
from verification.auditing.events import wilson
from verification.auditing.features.column_pairs import joined
from verification.auditing.guess_choice import quantile
from verification.auditing.result import EXACT_SCORE

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

FIRST_SHARE, FIRST_ROOTS = 0.05, 3.0  # of the runs, and of their root, for the plan: the larger of the two
EXACT_SHARE, EXACT_RUNS = 0.02, 1_000  # the right score needs no learning
LAST = 0.75  # of the runs, up to which the score is learned again and again
FEW = 6_000  # runs up to which the learners for few of them are taken
GROWTH = 1.4, 2.0  # of the runs that are learned from, between one score and the next: for few runs, for many
BALANCED = 5_000  # outputs that balance a score
SIDES = ((True, True), (True, False), (False, True))
SHARES = np.array([1.0, 0.75, 0.55, 0.4, 0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002])
LEAST = 8  # guesses on the runs of the plan
TIE = 0.7  # standard errors within which scores count as equally good
# Runs that are surely apart: their least log-odds, what the claim may allow beyond, their fewest, and standard errors
SURE, RARE, LEAST_SURE, CAUTION = 3.0, 1e-3, 6, 1.0
DOUBT = 2.3  # standard errors by which another share must look better than the one that is best of Gaussian noise


@dataclass(frozen=True, slots=True, eq=False)
class Guessed:
    """A plan, carried out."""

    plan: Plan
    name: str  # of the last score
    correct: int
    unlooked: tuple[str, ...] = ()  # notes: what of columns together was not looked at


def by_exact_score(ratio: FloatArray, label: BoolArray, claim: ClaimedCurve, *, false_alarm: float) -> Guessed:
    """The exact log-likelihood ratio says how likely each coin was: no luck is in the plan."""
    n = ratio.size
    first = max(50, min(EXACT_RUNS, n // 10), round(EXACT_SHARE * n))
    made = _plan(ratio[:first], special.expit(ratio[:first]), claim, n - first, false_alarm, exact=True)
    ones, zeros = made.guess(ratio[first:], made.guesses)
    correct = int((ones & label[first:]).sum() + (zeros & ~label[first:]).sum())
    return Guessed(made, EXACT_SCORE, correct)


def by_learned_score(
    rows: FloatArray,
    label: BoolArray,
    claim: ClaimedCurve,
    *,
    false_alarm: float,
    rng: np.random.Generator,
    n_bits: int = 0,
) -> Guessed:
    """Plan on the first runs, each half of them scored by what was learned on the other; then guess and learn."""
    n = len(label)
    first = min(max(round(FIRST_ROOTS * math.sqrt(n)), round(FIRST_SHARE * n)), n // 2)
    models, growth = (scores.SMALL, GROWTH[0]) if n <= FEW else (scores.LARGE, GROWTH[1])

    def scored(learned: slice, start: int, end: int, last: int = n) -> tuple[dict[str, FloatArray], tuple[str, ...]]:
        """Scores of runs ``start`` to ``end`` by what was learned on others, and what was not looked at.

        They are balanced by outputs before ``last``: those of runs to be guessed must not touch the plan.
        """
        model = scores.learn(rows[learned], label[learned], rng=rng, models=models, n_bits=n_bits)
        found = scores.evaluate(model, rows[start : max(end, min(last, start + BALANCED))])
        return {name: balanced(score)[: end - start] for name, score in found.items()}, model.unlooked

    half = first // 2
    halves = [scored(slice(half, first), 0, half, first)[0], scored(slice(0, half), half, first, first)[0]]
    seen = _joined(halves, [half, first - half])
    coins, start = label[:first].astype(float), first
    name = _best(seen, coins, claim, n - first, false_alarm)
    made = _plan(seen[name], coins, claim, n - first, false_alarm)
    unlooked: tuple[str, ...] = ()
    left, correct = made.guesses, 0
    while start < n:
        end = round(start * growth) if start * growth < LAST * n else n
        found, notes = scored(slice(0, start), start, end)
        if name not in found:  # nothing was learned under this name from all runs
            name = _best({other: seen[other] for other in found if other in seen} or seen, coins, claim, n, false_alarm)
        score = found.get(name, np.zeros(end - start))
        guesses = left if end == n else min(left, round(made.guesses * (end - start) / made.rounds))
        ones, zeros = made.guess(score, guesses)
        correct += int((ones & label[start:end]).sum() + (zeros & ~label[start:end]).sum())
        left, used = left - guesses, name
        unlooked = joined(unlooked, notes)
        seen = _joined([seen, found], [start, end - start])
        coins, start = label[:end].astype(float), end
        if end < n:
            name = _best(seen, coins, claim, made.rounds, false_alarm)
    return Guessed(made, used, correct, unlooked)


def balanced(score: FloatArray) -> FloatArray:
    """Log-odds of label 1, moved so that half of the coins are expected to be 1: the coins are fair.

    Of a score learned from a hundred runs the intercept is the worst part; all outputs may be used here, coins apart.
    """

    def too_high(shift: float) -> bool:
        return float(special.expit(score - shift).mean()) > 0.5

    return score - bracket(too_high, -50.0, 50.0, width=1e-3)[0]


def _joined(parts: list[dict[str, FloatArray]], sizes: list[int]) -> dict[str, FloatArray]:
    """Scores one after the other; 0 where nothing was learned under a name."""
    names = list({**parts[0], **parts[1]})
    return {
        name: np.concatenate([part.get(name, np.zeros(size)) for part, size in zip(parts, sizes, strict=True)])
        for name in names
    }


def _best(seen: dict[str, FloatArray], coins: FloatArray, claim: ClaimedCurve, rounds: int, false_alarm: float) -> str:
    """Of the scores that are expected to refute as surely as the best, up to noise, the simplest with least log-loss.

    A less simple one must have less log-loss by a standard error.
    """
    values = {
        name: max(_values(score, coins, claim, sides, rounds, false_alarm)[1].max() for sides in SIDES)
        for name, score in seen.items()
    }
    tie = max(values.values()) - TIE * math.sqrt(rounds / coins.size)
    sign = np.where(coins > 0, -1.0, 1.0)
    losses = {name: np.logaddexp(0, sign * seen[name]) for name, value in values.items() if value >= tie}
    best = next(iter(losses))
    for name, loss in losses.items():
        gain = losses[best] - loss
        if gain.mean() > gain.std() / math.sqrt(gain.size):
            best = name
    return best


def _guesses(score: FloatArray, coins: FloatArray, sides: tuple[bool, bool]) -> tuple[FloatArray, FloatArray]:
    """How sure the guess of each run is, and whether it is right (1) or wrong (0)."""
    strength = np.abs(score) if all(sides) else score if sides[0] else -score
    return strength, np.where(score >= 0 if all(sides) else sides[0], coins, 1 - coins)


def _values(
    score: FloatArray,
    coins: FloatArray,
    claim: ClaimedCurve,
    sides: tuple[bool, bool],
    rounds: int,
    false_alarm: float,
    exact: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Shares of runs to guess, and how surely each refutes, in standard deviations."""
    size, usual = score.size, _usual(claim, rounds, false_alarm)
    shares = SHARES[SHARES * size >= LEAST] if not exact else SHARES[SHARES * rounds >= 1]
    if not all(sides):
        shares = shares[1:]
    strength, right = _guesses(score, coins, sides)
    hits = np.cumsum(right[np.argsort(-strength, kind="stable")])[np.maximum(1, np.rint(shares * size).astype(int)) - 1]
    made = np.maximum(1, np.rint(shares * size))
    needed, deviation, _ = critical_share(claim, sides, shares, rounds, quantile(false_alarm))
    rate = hits / made
    if not exact:
        alike = np.sqrt(np.minimum(shares, usual) / np.maximum(shares, usual)) * (1.0 if all(sides) else 0.5)
        rate = wilson(hits, made, DOUBT * np.sqrt(2 * (1 - alike)))
    value = (shares * rate - needed) / np.maximum(deviation, 1e-12)
    return shares, value


def _apart(
    score: FloatArray,
    coins: FloatArray,
    claim: ClaimedCurve,
    sides: tuple[bool, bool],
    rounds: int,
    false_alarm: float,
) -> tuple[float, float]:
    """Share of the runs that are surely apart, at log-odds that the claim hardly allows, and how surely it refutes.

    An outright leak in few runs: of 134 runs as `_values` doubts them a tenth that are all right are not enough.
    """
    allowed = claim.allowed(sides)
    least = max(SURE, float(claim.epsilons[np.argmax(allowed <= allowed[-1] + RARE)]))
    strength, right = _guesses(score, coins, sides)
    sure = strength >= least
    if sure.sum() < LEAST_SURE:
        return 0.0, -math.inf
    share, made = np.array([sure.mean()]), np.array([float(sure.sum())])
    needed, deviation, _ = critical_share(claim, sides, share, rounds, quantile(false_alarm))
    value = (share * wilson(np.array([float(right[sure].sum())]), made, CAUTION) - needed) / np.maximum(
        deviation, 1e-12
    )
    return float(share[0]), float(value[0])


@lru_cache(16)
def _usual(claim: ClaimedCurve, rounds: int, false_alarm: float) -> float:
    """The share of the runs to be guessed that is best against Gaussian noise that is too small by little.

    About half of them, but all where mu is 2 or larger: the surest half is right under such a claim, too.
    """
    return gaussian_limit_and_share(claim, n_certified=rounds, false_alarm=false_alarm)[1]


def _plan(
    score: FloatArray,
    coins: FloatArray,
    claim: ClaimedCurve,
    rounds: int,
    false_alarm: float,
    exact: bool = False,
) -> Plan:
    """Labels and number of guesses that are expected to refute most surely.

    Where some runs of the plan are surely apart, as many may be guessed: their share is seen and not chosen among
    others, so that less doubt is needed than of these.
    """
    best, share, chosen = -math.inf, _usual(claim, rounds, false_alarm), SIDES[0]
    for sides in SIDES:
        shares, values = _values(score, coins, claim, sides, rounds, false_alarm, exact)
        if shares.size and values.max() > best:
            best, share, chosen = float(values.max()), float(shares[np.argmax(values)]), sides
        apart, value = (0.0, -math.inf) if exact else _apart(score, coins, claim, sides, rounds, false_alarm)
        if value > best:
            best, share, chosen = value, apart, sides
    return plan(claim, sides=chosen, guesses=max(1, round(share * rounds)), rounds=rounds, false_alarm=false_alarm)
