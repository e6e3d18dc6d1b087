"""Certificates, read again: every bound follows from the counts."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from verification._arguments import (
    check_count,
    check_delta,
    check_non_negative,
    check_probability,
    check_switch,
    printable,
    shown,
)
from verification.auditing import betting, curve_certificate, guessing, one_run_result
from verification.auditing.certificate_writing import (
    CURVE_FORMAT,
    FORMAT,
    NOT_COVERED,
    ONE_RUN_FORMAT,
    ONE_RUN_NOT_COVERED,
    digest_of,
)
from verification.auditing.detection_limit import detection_limit, sequential_limit
from verification.auditing.events import BETS, events_at
from verification.auditing.guessing import MOST_RUNS
from verification.auditing.result import AuditResult, in_earlier_words, one_criterion, statement_of

SAME = 40  # letters with which two texts begin alike that are not both told
TOLERANCE = 1e-6  # relative; bounds are roots found to 1e-6 or better
MOST_SIMULATED = 10**7  # coins of guesses that were planned and not made: these are drawn again, one by one
# of entries that nobody saved; RuntimeError is of curves that floats cannot compute, and of nesting
FAULTS = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether the bounds of a certificate follow from its counts."""

    problems: tuple[str, ...]
    statement: str
    not_covered: str = NOT_COVERED

    @property
    def holds(self) -> bool:
        """No problem was found."""
        return not self.problems

    def __str__(self) -> str:
        if self.holds:
            return f"every bound follows from the stored counts: {printable(self.statement)}\n{self.not_covered}"
        return "\n".join(["the certificate does not hold:", *(f"- {printable(problem)}" for problem in self.problems)])


def verify(stored: Mapping[str, Any]) -> Verification:
    """Compute every bound, the verdict and its wording again from the counts of a certificate and compare.

    Parameters
    ----------
    stored : mapping
        As `certificate_writing.certificate` returns it, or as read from a file.

    Returns
    -------
    Verification

    Raises
    ------
    ValueError
        If ``stored`` is no certificate of this format.

    Notes
    -----
    Curves of GDP and zCDP are compared with those of the parameter in the words of the claim. Any other claimed curve
    is the one that is stored: of a guarantee it must hold the epsilon (up to 60) and delta in the words, which say no
    more of it. Whose score it was follows from the bets of a sequential audit alone; of others it is as stored, with
    the kinds of violation that it looked for. Notes are as stored, and so is what they say was not looked for; of one
    run the neighbouring relation is, and how many canaries were in, as far as the guesses allow it.
    """
    if not isinstance(stored, Mapping) or not isinstance(stored.get("format"), str) or stored["format"] not in READERS:
        raise ValueError(f"certificate must have format {', '.join(map(repr, READERS))}, got {shown(stored)}")
    not_covered = ONE_RUN_NOT_COVERED if stored["format"] == ONE_RUN_FORMAT else NOT_COVERED
    try:
        found, problems = READERS[stored["format"]](stored)
    except FAULTS as error:
        return Verification((f"cannot be computed again: {type(error).__name__}: {error}",), "")
    for name, value in found.items():
        if not _same(stored.get(name), value) and not _in_earlier_words(stored.get(name), value):
            problems.append(f"{name}: {_differing(stored.get(name), value)} follows from the counts")
    notes = stored.get("notes")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        problems.append(f"notes: must be a list of texts, got {shown(notes)}")
    if not isinstance(stored.get("score"), str):
        problems.append(f"score: must be a text, got {shown(stored.get('score'))}")
    if stored.get("not_covered") != not_covered:
        problems.append("not_covered: the words are not those of this format")
    if not problems:  # of what no count leads to; else it is no news
        digest = digest_of(stored)
        if digest is None or stored.get("digest") != digest:
            problems.append("digest: some entry is not as it was saved")
    return Verification(tuple(problems), str(found.get("statement", "")), not_covered)


def _recomputed(stored: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    epsilon, delta, error = (stored[name] for name in ("epsilon", "delta", "false_alarm"))
    check_non_negative(epsilon=epsilon)
    check_delta(delta)
    check_probability(false_alarm=error)
    check_switch(sequential=stored["sequential"])
    check_count(least=0, most=MOST_RUNS, n_samples=stored["n_samples"], n_certified=stored["n_certified"])
    curve_certificate.check_level(stored)
    counts, problems, e_value, score = stored["counts"], [], None, stored["score"]
    possible: tuple[str, ...]
    if stored["sequential"]:
        tables = list(counts["bets"].values())
        runs = curve_certificate.bet_counts(tables)
        if runs.dtype.kind != "i" or runs.max() > MOST_RUNS:
            raise ValueError(f"counts of the bets must be integers of at most {MOST_RUNS}")
        if any(not np.array_equal(table["levels"], betting.LEVELS) for table in tables) or (runs < 0).any():
            raise ValueError("levels or counts of the bets are not those of this format")
        if (runs.sum(axis=(1, 2)) != stored["n_certified"]).any():
            problems.append("the bets do not add up to n_certified")
        elif (runs.sum(axis=2) != runs[0].sum(axis=1)).any():  # all bet on the same coins
            problems.append("the bets of different learners are not on the same coins")
        bets = betting.BetCounts(tuple(counts["bets"]), runs)
        epsilon_lower = betting.epsilon_bound(bets, claim=epsilon, delta=delta, error=error)
        delta_lower = betting.delta_bound(bets, epsilon=epsilon, error=error)
        log_e_of = partial(betting.log_e_value, epsilon=epsilon, delta=delta)
        log_e = log_e_of(bets)
        p_value, e_value = math.exp(min(0.0, -log_e)), math.exp(min(log_e, 700.0))
        score = bets.learners[betting.best_learner(bets, log_e_of)]
        n_labels, possible = 0, (BETS,)
    else:
        guesses = guessing.GuessCounts(**counts["guesses"])
        others = guesses if delta > 0 else guessing.GuessCounts(**counts["delta_guesses"])
        check_count(least=0, most=MOST_RUNS, rounds=max(guesses.rounds, others.rounds))
        if max(found.planned - found.guesses for found in (guesses, others)) > MOST_SIMULATED:
            raise ValueError(f"simulated coins must be at most {MOST_SIMULATED}")
        if {guesses.rounds, others.rounds} != {stored["n_certified"]}:
            problems.append("rounds differ from n_certified")
        if any(found.planned and not found.tails for found in (guesses, others)):  # they would be charged no delta
            problems.append("guesses are planned, but of no label (tails is 0)")
        if delta == 0 and guesses.planned != guesses.guesses:
            problems.append("a pure claim has no simulated coins")
        epsilon_lower = guessing.epsilon_bound(guesses, delta=delta, error=error)
        p_value = guessing.p_value(guesses, epsilon=epsilon, delta=delta)
        delta_lower = guessing.delta_bound(others, epsilon=epsilon, error=error)
        n_labels, possible = guesses.tails, events_at(_numbers(stored["thresholds"]))
    if len(_numbers(stored["thresholds"])) != n_labels or stored["event"] not in possible:
        problems.append("event, thresholds and the labels that are guessed (tails) do not fit each other")
    refuted = epsilon_lower > epsilon
    if stored["n_certified"] > stored["n_samples"] or (
        stored["sequential"] and stored["n_certified"] != stored["n_samples"]
    ):
        problems.append("n_certified does not fit n_samples")
    found = {
        "refuted": refuted,
        "epsilon_lower": epsilon_lower,
        "delta_lower": one_criterion(delta_lower, delta, refuted=refuted),
        "p_value": p_value,
        "e_value": e_value,
        "detection_limit": _limit(stored, refuted=refuted),
        "score": score,
    }
    if not isinstance(stored["looked_for"], list):
        raise TypeError(f"looked_for must be a list, got {shown(stored['looked_for'])}")
    fields = {name: stored[name] for name in AuditResult.__slots__ if not name.startswith("histogram")}
    words = AuditResult(**(fields | found), histogram_edges=np.empty(0), histogram=np.empty((2, 0), dtype=np.int64))
    return found | {
        "statement": statement_of(words, stored.get("statement")),
        "looked_for": list(words.looked_for),
    }, problems


def _numbers(stored: Any) -> list[float]:
    """Thresholds as they are written, which may be infinite."""
    if not isinstance(stored, list) or len(stored) > 2:
        raise TypeError(f"thresholds must be a list of at most two, got {shown(stored)}")
    if not all(one in ("inf", "-inf") or type(one) in (int, float) for one in stored):
        raise TypeError(f"thresholds must be numbers, got {shown(stored)}")
    return [float(one) for one in stored]


def _limit(stored: Mapping[str, Any], *, refuted: bool) -> float:
    """The detection limit; as stored where it follows from more runs than were needed."""
    claim = {name: stored[name] for name in ("epsilon", "delta", "false_alarm")}
    if not stored["sequential"]:
        return detection_limit(n_certified=stored["n_certified"], **claim)
    if not refuted:
        return sequential_limit(n_samples=stored["n_samples"], **claim)
    limit = curve_certificate.limit_of(stored)
    if not limit > stored["epsilon"]:  # a limit beyond the claim is all that can follow: runs stopped early
        raise ValueError(f"detection_limit must be above epsilon = {stored['epsilon']}, got {limit}")
    return limit


def _same(stored: Any, found: Any) -> bool:
    if isinstance(found, bool) or found is None:
        return stored is found
    if isinstance(found, list):
        return bool(stored == found)
    if found == math.inf or isinstance(found, str):
        return bool(stored == ("inf" if found == math.inf else found))
    if type(stored) not in (int, float) or abs(stored) > sys.float_info.max:
        return False
    return math.isclose(stored, found, rel_tol=TOLERANCE)


def _in_earlier_words(stored: Any, found: Any) -> bool:
    """Of a statement, or of the kinds of violation that were looked for."""
    if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
        return any(list(words) == stored for words in zip(*map(in_earlier_words, found), strict=True))
    return isinstance(found, str) and isinstance(stored, str) and stored in in_earlier_words(found)


def _differing(stored: Any, found: Any) -> str:
    """Both in short; of texts that begin alike from shortly before they part."""
    if isinstance(stored, str) and isinstance(found, str):
        pairs = zip(stored, found, strict=False)
        alike = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(stored), len(found)))
        if alike > SAME:
            stored, found = (f"... {text[alike - SAME // 2 :]}" for text in (stored, found))
    return f"{shown(stored)} is stored, {shown(found)}"


READERS = {
    FORMAT: _recomputed,
    CURVE_FORMAT: curve_certificate.recomputed,
    ONE_RUN_FORMAT: one_run_result.recomputed,
}
