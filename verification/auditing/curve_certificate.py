"""Certificates of curves, read again: what follows from the counts and the claimed curve."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification._arguments import (
    check_choice,
    check_count,
    check_delta,
    check_non_negative,
    check_probability,
    check_switch,
    shown,
)
from verification.auditing import curve_betting as betting, guessing
from verification.auditing.betting import best_learner
from verification.auditing.claimed_curve import (
    FAMILIES,
    GAUSSIAN,
    GDP,
    LARGEST,
    LEAST_MU,
    MOST_MU,
    MOST_POINTS,
    ZCDP,
    ClaimedCurve,
    Family,
    claimed_curve,
    curve_at,
    gaussian_family,
)
from verification.auditing.curve_guessing import Plan, gaussian_limit, judge
from verification.auditing.curve_result import CurveAuditResult
from verification.auditing.events import BETS
from verification.auditing.guessing import MOST_RUNS
from verification.auditing.result import LEVELS, scores_of, statement_of
from verification.auditing.rounding import exactly, to_nearest

CLAIMS = {"GDP": GDP, "zCDP": ZCDP}
LEAST = {"GDP": LEAST_MU, "zCDP": 0.0}
PRECISION = 1e-6, 1e-9  # relative and absolute, of a claimed curve; those of another computer differ by less
NUMBER = "[0-9.e+-]+"
PAIR = re.compile(rf"the curve of \(epsilon = ({NUMBER}|inf), delta = ({NUMBER})\)")  # of a guarantee
NOISE = re.compile(rf"the curve given, mu = ({NUMBER})")  # of Gaussian noise, with what a guarantee adds to it
GIVEN = ("the curve given", "the two curves given")
FOUR_DIGITS, SIX_DIGITS = 1e-3, 1e-5  # relative, of a parameter in words, and of a guarantee's


def recomputed(stored: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a certificate must say, from its counts and its curve, and what is wrong with these.

    Parameters
    ----------
    stored : mapping
        A certificate of a curve; KeyError, TypeError or ValueError if it is none.

    Guarantee
    ---------
    None: the counts are as stored. A claim of GDP or zCDP must be that of its parameter, one of Gaussian noise with
    what a guarantee adds to it (family "") that of its parameter, slack and failure. Other claims have the curve that
    is stored, under the words that are; under those of a guarantee it must hold epsilon and delta. The detection limit
    of a sequential audit that refuted, which is a simulation, is taken as it stands.
    """
    error, problems = stored["false_alarm"], list[str]()
    check_probability(false_alarm=error)
    check_switch(sequential=stored["sequential"])
    for name in ("n_samples", "n_certified"):
        check_count(least=1, most=MOST_RUNS, **{name: stored[name]})
    check_level(stored)
    claim = _claim(stored)
    family = claim.family
    found: dict[str, Any] = {}
    if stored["sequential"]:
        first, second = betting.allowed_at_cuts(claim)
        bets = _bets(stored["counts"]["bets"])
        if (bets.runs.sum(axis=(1, 2)) != stored["n_certified"]).any() or stored["n_certified"] != stored["n_samples"]:
            problems.append("the bets do not add up to n_certified and n_samples")
        elif (bets.runs.sum(axis=2) != bets.runs[0].sum(axis=1)).any():
            problems.append("the bets of different learners are not on the same coins")
        log_e = betting.log_e_value(bets, first, second)
        point, found["delta_lower"] = betting.best_point(bets, first, second, error)
        found["refuted"] = bool(log_e >= -math.log(error))
        found["p_value"], found["e_value"] = math.exp(min(0.0, -log_e)), math.exp(min(log_e, 700.0))
        best = best_learner(bets, partial(betting.log_e_value, first=first, second=second))
        found["score"], found["event"] = bets.learners[best], BETS
        found["epsilon_point"] = float(betting.EPSILONS[point])
        found["delta_claimed"] = float((first[point] + second[point]) / 2)
        lower = betting.parameter_bound(bets, family, error)
        if not found["refuted"]:
            found["detection_limit"] = betting.sequential_gaussian_limit(
                claim, n_samples=stored["n_samples"], false_alarm=error
            )
        elif not limit_of(stored) > 0:  # of a refutation after fewer runs than it was made for
            raise ValueError(f"detection_limit must be above 0, got {stored['detection_limit']}")
    else:
        counts = guessing.GuessCounts(**stored["counts"]["guesses"])
        sides = tuple(stored["counts"]["labels"])
        check_switch(**{f"labels[{i}]": side for i, side in enumerate(sides)})
        if len(sides) != 2 or sum(sides) != counts.tails or not counts.tails:
            raise ValueError("labels do not fit tails")
        if counts.planned != counts.guesses or counts.rounds != stored["n_certified"] or counts.pad_seed:
            raise ValueError("guesses, planned, rounds and n_certified do not fit each other")
        if stored["n_certified"] > stored["n_samples"]:
            problems.append("n_certified does not fit n_samples")
        check_non_negative(epsilon_point=stored["epsilon_point"])
        place = np.flatnonzero(claim.epsilons == stored["epsilon_point"])
        if place.size != 1:
            raise ValueError("epsilon_point must be one of the curve's epsilons")
        allowed = float(claim.allowed((sides[0], sides[1]))[place[0]])
        made = Plan((sides[0], sides[1]), counts.guesses, counts.rounds, float(stored["epsilon_point"]), allowed)
        verdict = judge(made, counts.correct, family=family, error=error)
        found |= {"p_value": verdict.p_value, "delta_lower": verdict.delta_lower, "e_value": None}
        found |= {"refuted": verdict.delta_lower > allowed, "delta_claimed": allowed, "event": str(made)}
        found["detection_limit"] = gaussian_limit(claim, n_certified=counts.rounds, false_alarm=error)
        lower = verdict.parameter_lower
    if found["refuted"] and stored["claimed"] is not None:
        lower = max(lower, float(stored["claimed"]))
    found["parameter"], found["parameter_lower"] = family.parameter, lower
    found["epsilon_lower"] = _epsilon_lower(claim, lower, stored["epsilon_lower"])
    fields = {name: stored[name] for name in CurveAuditResult.__slots__ if name != "curve"}
    fields |= {name: math.inf for name in ("epsilon_lower", "detection_limit") if stored[name] == "inf"}
    result = CurveAuditResult(**(fields | {"notes": tuple(stored["notes"])} | found), curve=claim)
    return found | {
        "statement": statement_of(result, stored.get("statement")),
        "looked_for": list(result.looked_for),
    }, problems


def _epsilon_lower(claim: ClaimedCurve, lower: float, stored: Any) -> float | None:
    """What is told of epsilon; as earlier versions told it with a guarantee's slack, where four digits are the same.

    They told one at delta 0, too, where there is none.
    """
    if claim.delta is None or (stored is None and claim.delta == 0):
        return None
    found, before = claim.family.certified_epsilon(lower, claim.delta), claim.family.epsilon_at(lower, claim.delta)
    alike = type(stored) is float and f"{stored:.4g}" == f"{found:.4g}"
    return before if alike and math.isclose(stored, before, rel_tol=PRECISION[0]) else found


def _claim(stored: Mapping[str, Any]) -> ClaimedCurve:
    """The claimed curve; ValueError where it is none, or is not that of its family."""
    claim = stored_curve(stored, _family(stored))
    _check_words(claim, stored["family"], stored["claimed"])
    return claim


def _family(stored: Mapping[str, Any]) -> Family:
    """The family of curves that a certificate names, or that of Gaussian noise with what its guarantee adds to it."""
    name, claimed = stored["family"], stored["claimed"]
    if name in FAMILIES:
        return FAMILIES[name]
    if name != "":
        raise ValueError("family must be GDP, zCDP or empty")
    if claimed is None:
        raise ValueError("claim, family and claimed do not fit each other")
    return _noise_family(claimed, stored["curve"])


def _noise_family(mu: Any, curve: Mapping[str, Any]) -> Family:
    """Curves of Gaussian noise with this mu and what a certificate's curve says was added; ValueError for others."""
    if not {"slack", "failure"} <= {*curve}:
        raise ValueError("curve must say slack and failure, without which no epsilon follows, as in older certificates")
    slack, failure = curve["slack"], curve["failure"]
    check_non_negative(claimed=mu, slack=slack, failure=failure)
    if not (LEAST_MU <= mu <= MOST_MU and slack < 1 and failure < 1):
        raise ValueError(f"claimed, slack and failure must be those of Gaussian noise, got {mu}, {slack}, {failure}")
    return gaussian_family(float(mu), float(slack), float(failure))


def stored_curve(stored: Mapping[str, Any], family: Family = GAUSSIAN) -> ClaimedCurve:
    """The curve of a certificate under the words that are stored; ValueError where it is none."""
    arrays = [np.array(stored["curve"][name], dtype=float) for name in ("epsilons", "first", "second")]
    epsilons, first, second = arrays
    if not 0 < epsilons.size <= MOST_POINTS or any(a.shape != epsilons.shape or a.ndim != 1 for a in arrays):
        raise ValueError(f"curve must have up to {MOST_POINTS} points")
    if epsilons[0] != 0 or not (np.diff(epsilons) > 0).all() or not epsilons[-1] < 700:
        raise ValueError("epsilons of the curve must increase from 0")
    if any(not ((a >= 0) & (a <= 1)).all() for a in (first, second)):
        raise ValueError("deltas of the curve must lie from 0 to 1")
    delta = stored["delta"]
    if delta is not None:
        check_delta(delta)
    claim = ClaimedCurve(str(stored["claim"]), epsilons, first, second, family, delta)
    _check_pair(claim)
    return claim


def _check_pair(claim: ClaimedCurve) -> None:
    """Raise ValueError if the words are those of a guarantee, and the curve does not hold its epsilon and delta.

    A guarantee's curve may be far below its pair, so that a curve below is no contradiction.
    """
    pair = PAIR.fullmatch(claim.words)
    if pair is None:
        return
    if not (float(pair[1]) >= 0 and 0 <= float(pair[2]) <= 1):
        raise ValueError(f"epsilon and delta must be at least 0, and delta at most 1, got {claim.words}")
    if float(pair[1]) > LARGEST * (1 + SIX_DIGITS):
        return
    there = np.isclose(claim.epsilons, float(pair[1]), rtol=SIX_DIGITS, atol=0.0)
    highest = max(side[there].min(initial=1.0) for side in (claim.first, claim.second))
    if highest > float(pair[2]) * (1 + SIX_DIGITS) + PRECISION[1]:
        raise ValueError(f"{claim.words} must be at most {pair[2]} at epsilon {pair[1]}, got {highest:.4g}")


def check_named(claim: ClaimedCurve, stored: Mapping[str, Any]) -> None:
    """Raise ValueError unless the curve is that of the words: one below is refuted by less, one above by more.

    Words of earlier versions have four digits of a parameter. A named claim is read at the same epsilons every time,
    between which there is no room for another point. Words of other claims say no more than that a curve was given,
    which is here; where they tell a mu, ``stored``, the curve as a certificate has it, says what was added to Gaussian
    noise.
    """
    named, noise = re.fullmatch(rf"({NUMBER})-(GDP|zCDP)", claim.words), NOISE.fullmatch(claim.words)
    if named is not None:
        about = [max(float(named[1]) * (1 + x), LEAST[named[2]]) for x in (-FOUR_DIGITS, FOUR_DIGITS)]
        least, most = (claimed_curve(profile=CLAIMS[named[2]](value)) for value in about)
        alike = claim.epsilons.shape == least.epsilons.shape and _close(claim.epsilons, least.epsilons)
        fits = alike and _between(claim, least.first, most.first)
    elif noise is not None:
        about = [min(max(float(noise[1]) * (1 + x), LEAST_MU), MOST_MU) for x in (-FOUR_DIGITS, FOUR_DIGITS)]
        families = [_noise_family(value, stored) for value in about]
        ends = [curve_at(claim.epsilons, partial(one.delta, value)) for one, value in zip(families, about, strict=True)]
        fits = _between(claim, *ends)
    elif claim.words in GIVEN or PAIR.fullmatch(claim.words):
        return
    else:
        raise ValueError("claim must be in the words of a curve")
    if not fits:
        raise ValueError(f"claim and curve must be those of {claim.words}")


def _between(claim: ClaimedCurve, least: NDArray[np.float64], most: NDArray[np.float64]) -> bool:
    """Whether both orders of a curve lie between two others, up to rounding."""
    low, high = least * (1 - PRECISION[0]) - PRECISION[1], most * (1 + PRECISION[0]) + PRECISION[1]
    return all(((low <= side) & (side <= high)).all() for side in (claim.first, claim.second))


def _check_words(claim: ClaimedCurve, family: Any, claimed: Any) -> None:
    """Raise ValueError if the words, the family and the claimed parameter are not of this curve."""
    if family and claimed is not None:
        read = claimed_curve(profile=CLAIMS[family](claimed))
        pairs = ((claim.epsilons, read.epsilons), (claim.first, read.first), (claim.second, read.second))
        earlier = f"{to_nearest(claimed)}-{family}"
        if claim.words not in (read.words, earlier) or not all(a.shape == b.shape and _close(a, b) for a, b in pairs):
            raise ValueError(f"claim and curve must be those of {read.words}")
        return
    fits = claimed is None if family == "GDP" else claimed is not None and not family
    own: tuple[str, ...] = GIVEN
    if claimed is not None:  # in four digits as earlier versions wrote it
        own = tuple(f"the curve given, mu = {text(claimed)}" for text in (exactly, to_nearest))
    if not (fits and (claim.words in own or PAIR.fullmatch(claim.words))):
        raise ValueError("claim, family and claimed do not fit each other")
    if claimed is not None:
        told = curve_at(claim.epsilons, partial(claim.family.delta, claimed))
        if not all(_close(side, told) for side in (claim.first, claim.second)):
            raise ValueError("claimed, slack and failure do not fit the curve")


def _close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, rtol=PRECISION[0], atol=PRECISION[1]))


def limit_of(stored: Mapping[str, Any]) -> float:
    """The detection limit as it is stored; TypeError if it is no number and not "inf"."""
    limit = stored["detection_limit"]
    if type(limit) not in (int, float) and limit != "inf":
        raise TypeError(f"detection_limit must be a number, got {shown(limit)}")
    return float(limit)


def check_level(stored: Mapping[str, Any]) -> None:
    """Raise ValueError where level and, of a sequential audit, who betted do not fit: they say what was seen."""
    check_choice(LEVELS, level=stored["level"])
    if stored["sequential"]:
        names = {*stored["counts"]["bets"]}
        if not any(names == {*scores_of(stored["level"], exact=exact)} for exact in (False, True)):
            raise ValueError(f"bets must be those of level {stored['level']!r}, got {shown(sorted(names))}")


def bet_counts(tables: Iterable[Mapping[str, Any]]) -> np.ndarray:
    """Stored runs by learner, label and prediction; their dtype is an integer's only if all of them are integers."""
    rows = [[table["label_0"], table["label_1"]] for table in tables]
    if any(isinstance(number, bool) for row in rows for side in row for number in side):
        raise ValueError("counts of the bets must be integers, got True or False")
    return np.array(rows)


def _bets(tables: Mapping[str, Any]) -> betting.CurveBets:
    runs = bet_counts(tables.values())
    if runs.dtype.kind != "i" or runs.shape[1:] != (2, 2 * betting.CUTS.size + 1) or runs.min() < 0:
        raise ValueError("counts of the bets are not those of this format")
    if runs.max() > MOST_RUNS or any(not np.array_equal(t["cuts"], betting.CUTS) for t in tables.values()):
        raise ValueError("cuts or counts of the bets are not those of this format")
    return betting.CurveBets(tuple(tables), runs)
