"""Audit a claimed curve with a fixed number of runs; `audit.audit` checks the arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from verification.auditing import outputs as runs
from verification.auditing.betting import best_learner
from verification.auditing.betting_audit import Batches
from verification.auditing.claimed_curve import ClaimedCurve
from verification.auditing.coins import fair_coins
from verification.auditing.curve_betting import (
    CUTS,
    EPSILONS,
    CurveBets,
    allowed_at_cuts,
    best_point,
    log_e_value,
    parameter_bound,
    place_of,
    sequential_gaussian_limit,
)
from verification.auditing.curve_choice import Guessed, balanced, by_exact_score, by_learned_score
from verification.auditing.curve_guessing import gaussian_limit, judge
from verification.auditing.curve_result import CurveAuditResult
from verification.auditing.events import BETS
from verification.auditing.features.bits import bit_features
from verification.auditing.result import EXACT_SCORE

# Runs by those of sure predictions that refute, from which learned scores do as the detection limit says: against
# GDP(3) 2 of 8 were refuted with 2.3 times as many and 6 of 10 with 3 times; against GDP(4) 1 of 8 with 11 times as
# many, as each wrong prediction of the first hundreds of runs costs most where nearly all must be right.
LEARNING, LEARNING_APART, ALL_APART = 3, 30, 0.95
LEAST_BALANCED = 100  # outputs of a batch, from which its predictions are balanced


def curve_audit(
    runner: runs.Runner,
    x: Any,
    x_neighbour: Any,
    *,
    claim: ClaimedCurve,
    n_samples: int,
    false_alarm: float,
    level: str,
    sequential: bool,
    log_density: Callable[..., Any] | None,
    notes: list[str],
    n_jobs: int,
    progress: Callable[[int], None],
    rng: np.random.Generator,
) -> CurveAuditResult:
    """`audit` of a curve."""
    if sequential:
        batches = Batches(runner, x, x_neighbour, n_samples, level, log_density, n_jobs, rng)
        return _bet(
            batches, claim, n_samples=n_samples, false_alarm=false_alarm, level=level, notes=notes, progress=progress
        )
    label = fair_coins(rng, n_samples)
    outputs, is_tuple = runs.run_both(runner, label, rng, n_jobs=n_jobs, progress=progress)
    rows, watch = runs.as_rows(outputs), runs.Watch()
    watch.see(rows, label)
    notes = [*notes, *watch.notes(level), *runs.type_notes(runner, level)]
    if log_density is not None:
        ratio = runs.log_ratio(log_density, outputs if is_tuple else outputs[0], x, x_neighbour, n_samples)
        guessed = by_exact_score(ratio, label, claim, false_alarm=false_alarm)
    else:
        n_bits = rows.shape[1] if level == "bit" else 0
        if n_bits:
            rows = np.column_stack([rows, bit_features(rows)])
        guessed = by_learned_score(rows, label, claim, false_alarm=false_alarm, rng=rng, n_bits=n_bits)
    return _result(guessed, claim, n_samples=n_samples, false_alarm=false_alarm, level=level, notes=notes)


def _result(
    guessed: Guessed, claim: ClaimedCurve, *, n_samples: int, false_alarm: float, level: str, notes: list[str]
) -> CurveAuditResult:
    made, family = guessed.plan, claim.family
    found = judge(made, guessed.correct, family=family, error=false_alarm)
    refuted = found.delta_lower > made.delta
    if not refuted:
        notes = [*notes, *guessed.unlooked]
    lower = found.parameter_lower
    if refuted and family.claimed is not None:  # with it all smaller ones; the chords of a claim are a little lower
        lower = max(lower, family.claimed)
    epsilon_lower = claim.certified_epsilon(lower)
    return CurveAuditResult(
        refuted=refuted,
        claim=claim.words,
        p_value=found.p_value,
        e_value=None,
        family=family.name,
        parameter=family.parameter,
        claimed=family.claimed,
        parameter_lower=lower,
        epsilon_point=made.epsilon,
        delta_claimed=made.delta,
        delta_lower=found.delta_lower,
        delta=claim.delta,
        epsilon_lower=epsilon_lower,
        n_samples=n_samples,
        n_certified=made.rounds,
        false_alarm=false_alarm,
        detection_limit=gaussian_limit(claim, n_certified=made.rounds, false_alarm=false_alarm),
        score=guessed.name,
        event=str(made),
        counts={"guesses": made.counts(guessed.correct).as_dict(), "labels": list(made.sides)},
        level=level,
        sequential=False,
        notes=tuple(notes),
        curve=claim,
    )


def _bet(
    batches: Batches,
    claim: ClaimedCurve,
    *,
    n_samples: int,
    false_alarm: float,
    level: str,
    notes: list[str],
    progress: Callable[[int], None],
) -> CurveAuditResult:
    """Bet on each batch and stop when the capital refutes the curve."""
    first, second = allowed_at_cuts(claim)
    tables = np.zeros((len(batches.names), 2, 2 * CUTS.size + 1), dtype=np.int64)
    for label, predictions in batches:
        for table, name in zip(tables, batches.names, strict=True):
            prediction = predictions.get(name, np.zeros(label.size))
            if label.size >= LEAST_BALANCED and name != EXACT_SCORE:
                prediction = balanced(prediction)
            places = place_of(prediction)
            for coin in (0, 1):
                table[coin] += np.bincount(places[label == coin], minlength=tables.shape[2])
        progress(label.size)
        bets = CurveBets(batches.names, tables)
        log_e = log_e_value(bets, first, second)
        if log_e >= -math.log(false_alarm):
            break
    refuted = log_e >= -math.log(false_alarm)
    notes = [*notes, *batches.finish()]

    if not refuted:
        apart = max(first[0, 0], second[0, 0])  # total variation that the claim allows
        notes += batches.unlooked(
            tables,
            lambda sure: log_e_value(CurveBets(batches.names, sure), first, second),
            false_alarm,
            learning=LEARNING if apart < ALL_APART else LEARNING_APART,
        )
    family = claim.family
    lower = parameter_bound(bets, family, false_alarm)
    if refuted and family.claimed is not None:
        lower = max(lower, family.claimed)
    point, delta_lower = best_point(bets, first, second, false_alarm)
    best = best_learner(bets, partial(log_e_value, first=first, second=second))
    return CurveAuditResult(
        refuted=refuted,
        claim=claim.words,
        p_value=math.exp(min(0.0, -log_e)),
        e_value=math.exp(min(log_e, 700.0)),
        family=family.name,
        parameter=family.parameter,
        claimed=family.claimed,
        parameter_lower=lower,
        epsilon_point=float(EPSILONS[point]),
        delta_claimed=float((first[point] + second[point]) / 2),
        delta_lower=delta_lower,
        delta=claim.delta,
        epsilon_lower=claim.certified_epsilon(lower),
        n_samples=batches.n,
        n_certified=batches.n,
        false_alarm=false_alarm,
        detection_limit=sequential_gaussian_limit(claim, n_samples=n_samples, false_alarm=false_alarm),
        score=batches.names[best],
        event=BETS,
        counts={"bets": bets.as_dict()},
        level=level,
        sequential=True,
        notes=tuple(notes),
        curve=claim,
    )
