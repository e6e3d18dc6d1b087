"""Choose score and guesses for a fixed number of runs; `audit.audit` does the rest.

Runs are used in order: those before ``start`` are learned and chosen from, those after it are guessed with thresholds
fixed at ``start``. guessing.md says why their count is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from verification.auditing import scores
from verification.auditing.events import Guesses, choose_guesses
from verification.auditing.features.column_pairs import joined
from verification.auditing.guessing import GuessCounts
from verification.auditing.result import EXACT_SCORE

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

STAGES = (0.02, 0.05, 0.16, 0.32)  # of the runs, learned and chosen from
LEAST_SHARE = 0.15  # below it only flawless guesses end the learning: rare leaks take time to show
FIRST_RUNS = 200  # of the first stage, at least
EXACT_SHARE, EXACT_RUNS = 0.02, 1_000  # the right score needs no learning, only thresholds
ENOUGH = 100  # guesses on the choose part, below which nothing is worth counting yet
FLAWLESS, FLAWLESS_EARLY = 200, 1_000  # right guesses without a wrong one that need no further stage
HOPE = 0.5  # of the last stage's gain, to be had again from the next one
DOUBT = 0.1  # standard errors of the bound that a larger choose part is taken to be worth
TIE = 0.6  # standard errors within which two scores count as equally good
FLAWLESS_TIE = 0.45  # in log-odds, between scores that never erred: about the logarithm of the ratio of their guesses
WITNESSES = ("trees", "fine trees")
AGREE = 0.94  # share of the guesses of a score that never erred that a witness must leave to be heard
MARGIN = 1.5  # standard deviations of the number of guesses that are planned above its mean


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One score on the runs it was chosen on and on those to be guessed."""

    name: str
    guesses: Guesses
    chosen_on: FloatArray  # (start,)
    coins: FloatArray  # (start,): labels 0 and 1, or with ``exact`` their probabilities
    exact: bool
    score: FloatArray  # (n - start,)
    doubted: BoolArray | None = None  # (n - start,): never guessed, because a witness would not
    unlooked: tuple[str, ...] = ()  # notes: what of columns together was not looked at

    @property
    def start(self) -> int:
        """Runs that were learned and chosen from."""
        return int(self.chosen_on.size)

    def count(self, guesses: Guesses, label: BoolArray, *, fixed_number: bool, pad_seed: int) -> GuessCounts:
        """Guess the runs from ``start`` on; ``label`` holds their coins.

        ``fixed_number``: as many guesses as planned and no more, which any test of delta > 0 needs.
        """
        ones, zeros = guesses.where(self.score)
        made = ones | zeros if self.doubted is None else (ones | zeros) & ~self.doubted
        rounds, tails = label.size, sum(guesses.sides)
        planned = int(made.sum())
        if fixed_number:
            planned = _plan(guesses, self.start, rounds)
            made &= np.cumsum(made) <= planned
        correct = int((made & (ones == label)).sum())
        return GuessCounts(correct, int(made.sum()), planned, rounds, tails, pad_seed)


def by_exact_score(ratio: FloatArray, *, delta: float, false_alarm: float) -> Scored:
    """Thresholds for the exact log-likelihood ratio: it says how likely each coin was, so no luck is in the choice."""
    n = ratio.size
    start = max(50, min(EXACT_RUNS, n // 10), round(EXACT_SHARE * n))
    coins = special.expit(ratio[:start])
    guesses = choose_guesses(
        ratio[:start], coins, delta=delta, rounds=ratio.size - start, z=quantile(false_alarm), exact=True
    )
    return Scored(EXACT_SCORE, guesses, ratio[:start], coins, True, ratio[start:])


def by_learned_score(
    rows: FloatArray,
    label: BoolArray,
    *,
    delta: float,
    false_alarm: float,
    rng: np.random.Generator,
    n_bits: int = 0,
    progress: Callable[[int], None] = lambda runs: None,
) -> Scored:
    """Learn on runs of sizes that double, until more of them are not worth what the guessing loses.

    Each half of the runs so far is scored by what was learned on the other half; score and thresholds are chosen on
    both halves together, and both go on to score half of the runs that are left. The first ``n_bits`` columns are also
    read bit by bit.
    """
    n, z = len(label), quantile(false_alarm)
    models: tuple[scores.Portfolio, scores.Portfolio] | None = None
    name = "none"
    sizes = stages(n)
    for size, following in zip(sizes, [*sizes[1:], None], strict=True):
        coins, half = label[:size].astype(float), size // 2
        before = 0.0
        if models is not None:  # what the last stage chose, seen on runs that are new to it
            old = scores.evaluate(models[0], rows[half:size], [name])[name]
            before = choose_guesses(old, coins[half:], delta=delta, rounds=n - size, z=z).value
        models = (
            scores.learn(rows[half:size], label[half:size], rng=rng, n_bits=n_bits),
            scores.learn(rows[:half], label[:half], rng=rng, n_bits=n_bits),
        )
        parts = [scores.evaluate(models[0], rows[:half]), scores.evaluate(models[1], rows[half:size])]
        names = [name for name in parts[0] if name in parts[1] or name in scores.APART]
        names += [name for name in parts[1] if name in scores.APART and name not in names]  # for few runs in one half
        empty = (np.zeros(half), np.zeros(size - half))
        crossed = {
            name: np.concatenate([part.get(name, nothing) for part, nothing in zip(parts, empty, strict=True)])
            for name in names
        }
        crossed = crossed or {"none": np.zeros(size)}  # halves so unlike that no score was learned on both
        settings: dict[str, Any] = {"delta": delta, "rounds": n - size, "z": z}
        choices = {other: choose_guesses(score, coins, **settings) for other, score in crossed.items()}
        name = _best(choices, crossed, coins, delta)
        if following is None and choices[name].value <= 0:
            choices = {other: choose_guesses(score, coins, bold=True, **settings) for other, score in crossed.items()}
            name = _best(choices, crossed, coins, delta)
        progress(size)
        if following is None:
            break
        chosen = choices[name]
        later = choose_guesses(crossed[name], coins, delta=delta, rounds=n - following, z=z).value
        if not _pays(chosen, before, later, early=size < LEAST_SHARE * n):
            break
    assert models is not None
    witnesses = _witnesses(choices, crossed, name)
    middle = size + (n - size) // 2
    rest: list[FloatArray] = []
    doubts: list[BoolArray] = []
    for model, part in zip(models, (slice(size, middle), slice(middle, n)), strict=True):
        found = scores.evaluate(model, rows[part], [name, *witnesses])
        rest.append(found[name])
        agreed = np.all([_sides(choices[other], found[other]) for other in (name, *witnesses)], axis=0)
        doubts.append(~agreed.any(axis=0))
    words = " and ".join([name, *witnesses])
    doubted = np.concatenate(doubts) if witnesses else None
    unlooked = joined(*(model.unlooked for model in models))
    return Scored(words, choices[name], crossed[name], coins, False, np.concatenate(rest), doubted, unlooked)


def _witnesses(choices: dict[str, Guesses], candidates: dict[str, FloatArray], name: str) -> list[str]:
    """Trees that never erred either and agree on nearly all guesses: they do not follow others into thin tails."""
    agreed, found = _sides(choices[name], candidates[name]), list[str]()
    least = AGREE * agreed.sum()
    for other in WITNESSES:
        if choices[name].flawless and other != name and other in choices and choices[other].flawless:
            both = agreed & _sides(choices[other], candidates[other])
            if both.sum() >= least:
                agreed = both
                found.append(other)
    return found


def _sides(guesses: Guesses, score: FloatArray) -> BoolArray:
    """Where 1 and where 0 is guessed, shape (2, runs)."""
    return np.stack(guesses.where(score))


def stages(n: int) -> list[int]:
    """Numbers of runs to learn and choose from, ascending."""
    last = round(STAGES[-1] * n)
    return sorted({min(max(FIRST_RUNS, round(share * n)), last) for share in STAGES})


def quantile(false_alarm: float) -> float:
    """Standard normal quantile of the certificate's error probability."""
    return float(-special.ndtri(false_alarm))  # 1 - false_alarm would round to 1


def _best(choices: dict[str, Guesses], candidates: dict[str, FloatArray], coins: FloatArray, delta: float) -> str:
    """Among the scores whose guesses are as good as the best up to noise: the simplest if none ever erred.

    Else, with delta = 0, the one that guesses most: its value owes least to luck. With delta > 0 that would only bring
    guesses of little worth; the log-loss tells better scores apart.
    """
    top = max(choices.values(), key=lambda chosen: chosen.value)
    if top.right + top.wrong == 0:
        return next(iter(choices))
    if top.flawless:
        return next(name for name, c in choices.items() if c.flawless and c.value >= top.value - FLAWLESS_TIE)
    tie = TIE * _standard_error(top) * (1.0 if delta == 0 else 0.5)
    equal = [name for name, chosen in choices.items() if chosen.value >= top.value - tie]
    if delta == 0:
        return max(equal, key=lambda name: choices[name].right + choices[name].wrong)
    sign = np.where(coins > 0, -1.0, 1.0)
    return min(equal, key=lambda name: float(np.mean(np.logaddexp(0, sign * candidates[name]))))


def _pays(chosen: Guesses, before: float, later: float, *, early: bool) -> bool:
    """Whether another stage is likely to gain more than it takes from the certificate."""
    if chosen.value <= 0 or chosen.right + chosen.wrong < ENOUGH:
        return True
    if chosen.flawless:
        return chosen.right < (FLAWLESS_EARLY if early else FLAWLESS)
    gain = HOPE * (chosen.value - before) + DOUBT * _standard_error(chosen)
    return early or gain > chosen.value - later


def _standard_error(chosen: Guesses) -> float:
    """Of the log-odds of a right guess on the choose part."""
    hits = chosen.right + chosen.wrong
    share = (chosen.right + 1) / (hits + 2)
    return 1 / math.sqrt(hits * share * (1 - share))


def _plan(guesses: Guesses, n_choose: int, rounds: int) -> int:
    """Guesses to fix: what is expected and a margin; what is missing costs little, what is left over is lost."""
    hits = guesses.right + guesses.wrong
    return min(rounds, math.ceil((hits + MARGIN * math.sqrt(hits)) * rounds / max(1, n_choose)))
