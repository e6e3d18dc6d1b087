"""Audit runs as they come: predict each coin from the past, bet on it, learn from it, stop when that is enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification.auditing import outputs as runs, scores
from verification.auditing.betting import (
    LEVELS,
    STEP,
    BetCounts,
    best_learner,
    delta_bound,
    epsilon_bound,
    level_of,
    log_e_value,
)
from verification.auditing.coins import fair_coins
from verification.auditing.detection_limit import sequential_limit
from verification.auditing.events import BETS
from verification.auditing.features.bits import bit_features
from verification.auditing.features.column_pairs import joined
from verification.auditing.result import EXACT_SCORE, LEARNERS, AuditResult, one_criterion, scores_of

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

FIRST_BATCH = 8
GROWTH = ((5_000, 0.08), (20_000, 0.15), (math.inf, 0.3))  # runs so far, and the next batch as a share of them
TREE_RUNS = 1_000  # from which trees may turn: before, what they see inside a column is mostly luck
# notes to a pass: something was looked at in late runs alone; and no learned score is right soon enough
LATE = (
    "of what is said not to have been looked at some was, in the last runs, but in too few of them to refute the claim"
)
FEW_BETS = (
    "what would have been caught is that of the right score from the first run on: in so few runs a learned score"
    " refutes such a claim seldom or never, so ask for more"
)
LEARNING = 2  # runs by those of sure predictions that refute, from which learned scores do as the limit says
PATIENCE = 3  # times the sure predictions that refute: what is learned from few runs errs, and is doubted
MAX_LEARNED = 60_000  # most recent runs that are learned from


class Batches:
    """Runs as they come: iterate for coins and predictions of each batch, stop at will, then call `finish`.

    Batches grow with the runs so far, so that learning takes a time that is almost linear in their number. Predictions
    depend on the outputs of their batch and on earlier batches; what is iterated over learns from a batch only when the
    next one is asked for.
    """

    def __init__(
        self,
        runner: runs.Runner,
        x: Any,
        x_neighbour: Any,
        n_samples: int,
        level: str,
        log_density: Callable[..., Any] | None,
        n_jobs: int,
        rng: np.random.Generator,
    ) -> None:
        self.names = scores_of(level, exact=log_density is not None)
        self.n = 0  # runs so far
        self._level = level
        self.model: scores.Portfolio | None = None
        self._given = runner, x, x_neighbour, n_samples, level, log_density, n_jobs, rng
        self._watch, self._calls, self._types, self._looks = runs.Watch(), runs.Calls(runner.probed), list[str](), 0
        self._blind: dict[str, int] = {}  # notes of what was not looked at, and the runs until it was

    def __iter__(self) -> Iterator[tuple[BoolArray, dict[str, FloatArray]]]:
        runner, x, x_neighbour, n_samples, level, log_density, n_jobs, rng = self._given
        seen: list[tuple[FloatArray, BoolArray]] = []
        n_bits = 0
        while self.n < n_samples:
            self._looks += 1
            size = min(_batch(self.n), n_samples - self.n)
            label = fair_coins(rng, size)
            outputs, is_tuple = runs.run_both(
                runner, label, rng, n_jobs=n_jobs, calls=self._calls, turn=self._looks - 1
            )
            rows = runs.as_rows(outputs)
            self._watch.see(rows, label)
            self._types = runs.type_notes(runner, level)
            if log_density is not None:
                whole = outputs if is_tuple else outputs[0]
                predictions = {EXACT_SCORE: runs.log_ratio(log_density, whole, x, x_neighbour, size)}
            else:
                if level == "bit":
                    n_bits = rows.shape[1]
                    rows = np.column_stack([rows, bit_features(rows)])
                seen = _latest([*seen, (rows, label)])
                predictions = {} if self.model is None else _predictions(self.model, rows)
            self.n += size
            self._blind |= dict.fromkeys(() if self.model is None else self.model.unlooked, self.n)
            yield label, predictions
            if log_density is None and self.n < n_samples:
                past, coins = (np.concatenate(parts) for parts in zip(*seen, strict=True))
                models = scores.SMALL if len(coins) < TREE_RUNS else (*scores.SMALL, "trees")
                self.model = scores.learn(past, coins, rng=rng, models=models, n_bits=n_bits)

    def finish(self) -> list[str]:
        """Notes on all runs; ValueError where they depend on when they were made."""
        self._calls.check(self._looks)
        return [*self._watch.notes(self._level), *self._types]

    def unlooked(
        self,
        tables: NDArray[np.int64],
        log_e: Callable[[NDArray[np.int64]], float],
        false_alarm: float,
        *,
        learning: int,
    ) -> tuple[str, ...]:
        """Notes to a pass: what was not looked at, or in too few runs.

        A note is left out where PATIENCE times as many runs came after the last one in which that was not looked at as
        refute by right predictions of one learner, as sure as they can be. Of all runs a share of 1 / ``learning``
        must do: no score is right from the first one on. ``log_e`` is of counts as in ``tables``.
        """
        if EXACT_SCORE in self.names:
            return ()

        def refutes(n: int) -> bool:
            sure = np.zeros_like(tables)
            sure[-1, [0, 1], [0, -1]] = n // 2, n - n // 2
            return log_e(sure) >= -math.log(false_alarm)

        found = joined(tuple(note for note, n in self._blind.items() if not refutes((self.n - n) // PATIENCE)))
        last = () if self.model is None else self.model.unlooked
        late = () if set(found) <= set(last) else (LATE,)
        return (*found, *late, *(() if refutes(self.n // learning) else (FEW_BETS,)))


def sequential_audit(
    runner: runs.Runner,
    x: Any,
    x_neighbour: Any,
    *,
    epsilon: float,
    delta: float,
    n_samples: int,
    false_alarm: float,
    level: str,
    log_density: Callable[..., Any] | None,
    notes: list[str],
    n_jobs: int,
    progress: Callable[[int], None],
    rng: np.random.Generator,
) -> AuditResult:
    """`audit` with ``sequential``; its arguments are checked there."""
    batches = Batches(runner, x, x_neighbour, n_samples, level, log_density, n_jobs, rng)
    names = batches.names
    tables = np.zeros((len(names), 2, LEVELS.size), dtype=np.int64)
    for label, predictions in batches:
        for table, name in zip(tables, names, strict=True):
            levels = level_of(predictions.get(name, np.zeros(label.size)))
            for coin in (0, 1):
                table[coin] += np.bincount(levels[label == coin], minlength=LEVELS.size)
        progress(label.size)
        counts = BetCounts(names, tables)
        enough = log_e_value(counts, epsilon=epsilon, delta=delta) >= -math.log(false_alarm)
        if enough and epsilon_bound(counts, claim=epsilon, delta=delta, error=false_alarm) > epsilon:
            break
    types = batches.finish()
    n = batches.n

    epsilon_lower = epsilon_bound(counts, claim=epsilon, delta=delta, error=false_alarm)
    delta_lower = delta_bound(counts, epsilon=epsilon, error=false_alarm)
    log_e = log_e_value(counts, epsilon=epsilon, delta=delta)
    if epsilon_lower <= epsilon:
        types += batches.unlooked(
            tables,
            lambda sure: log_e_value(BetCounts(names, sure), epsilon=epsilon, delta=delta),
            false_alarm,
            learning=LEARNING,
        )
    best = best_learner(counts, partial(log_e_value, epsilon=epsilon, delta=delta))
    return AuditResult(
        refuted=bool(epsilon_lower > epsilon),
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=epsilon_lower,
        delta_lower=one_criterion(delta_lower, delta, refuted=epsilon_lower > epsilon),
        p_value=math.exp(min(0.0, -log_e)),
        e_value=math.exp(min(log_e, 700.0)),
        n_samples=n,
        n_certified=n,
        false_alarm=false_alarm,
        detection_limit=sequential_limit(epsilon=epsilon, delta=delta, n_samples=n_samples, false_alarm=false_alarm),
        score=names[best],
        event=BETS,
        counts={"bets": counts.as_dict()},
        level=level,
        sequential=True,
        notes=(*notes, *types),
        thresholds=(),
        histogram_edges=np.append(LEVELS - STEP / 2, LEVELS[-1] + STEP / 2),
        histogram=tables[best][::-1],
    )


def _batch(n: int) -> int:
    """Runs until the next look."""
    share = next(share for limit, share in GROWTH if n < limit)
    return max(FIRST_BATCH, round(share * n))


def _predictions(model: scores.Portfolio, rows: FloatArray) -> dict[str, FloatArray]:
    """Of the learners that have learned something; the mean stands in where no output ever repeated."""
    names = [name for name in ("bits", *LEARNERS[:-1], "mean", "mean+atoms") if name in model.names]
    found = scores.evaluate(model, rows, names)
    last = next((found[name] for name in ("mean+atoms", "mean") if name in found), None)
    return found if last is None else found | {LEARNERS[-1]: last}


def _latest(batches: list[tuple[FloatArray, BoolArray]]) -> list[tuple[FloatArray, BoolArray]]:
    """The last batches that hold MAX_LEARNED runs together."""
    total = sum(len(label) for _, label in batches)
    while total - len(batches[0][1]) >= MAX_LEARNED:
        total -= len(batches.pop(0)[1])
    return batches
