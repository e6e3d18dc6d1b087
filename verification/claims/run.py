"""Run claims: each with its own generator, in parallel, the same outcome for the same seed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verification.auditing.workers import stopping_is_no_error
from verification.claims.claim import TIGHT, Claim, Effort, Finding, Verdict

SEED = 20261120


@dataclass(frozen=True, slots=True)
class Outcome:
    """A claim and what its check found: of the statement as printed and of the contrast."""

    claim: Claim
    finding: Finding | None  # None: not checkable, or the check failed
    contrast: Finding | None
    seconds: float = 0.0
    failure: str = ""  # the error with which the check ended, if it did

    @property
    def without_finding(self) -> str:
        """Why there is none."""
        return f"the check failed: {self.failure}" if self.failure else self.claim.reason

    @property
    def right(self) -> bool:
        """The findings agree with the verdict, and the contrast has the other truth value."""
        if self.finding is None or self.contrast is None:
            return self.claim.verdict is Verdict.NOT_CHECKABLE
        true = self.claim.verdict is not Verdict.FALSE
        if self.finding.holds != true or self.contrast.holds == true:
            return False
        return self.claim.verdict is not Verdict.SLACK or self.finding.largest < TIGHT

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form; timings left out, so that two runs with one seed give the same text."""
        claim = self.claim
        return {
            "id": claim.id,
            "family": claim.family,
            "source": claim.source,
            "statement": claim.statement,
            "kind": claim.kind.value,
            "verdict": claim.verdict.value,
            "right": self.right,
            "finding": _as_dict(self.finding),
            "otherwise": claim.otherwise,
            "contrast": _as_dict(self.contrast),
            "constants": claim.constants,
            "reason": claim.reason,
            "failure": self.failure,
        }


def run_claim(claim: Claim, *, seed: int = SEED, thorough: bool = False) -> Outcome:
    """Check the statement as printed and its contrast; the generator comes from the seed and the id.

    An error of the check is its ``failure``, and no verdict: others that were asked for are not lost.
    """
    start = time.perf_counter()
    if claim.check is None:
        return Outcome(claim, None, None)
    found = []
    for arguments in (claim.printed, claim.contrast):
        effort = Effort(np.random.default_rng([seed, *claim.id.encode()]), thorough)
        try:
            found.append(claim.check(effort, **arguments))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            return Outcome(claim, None, None, time.perf_counter() - start, failure)
    return Outcome(claim, found[0], found[1], time.perf_counter() - start)


def run_claims(
    claims: Sequence[Claim],
    *,
    seed: int = SEED,
    thorough: bool = False,
    n_jobs: int = 1,
    progress: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run claims in order of the list; ``n_jobs`` worker processes, -1 for every core. Progress as they finish."""
    from joblib import Parallel, delayed

    if n_jobs == 1 or len(claims) < 2:
        outcomes = []
        for claim in claims:
            outcomes.append(run_claim(claim, seed=seed, thorough=thorough))
            progress(outcomes[-1])
        return outcomes
    names = {claim.id: claim for claim in claims}
    jobs = (delayed(_parts)(name, seed, thorough) for name in names)
    done: dict[str, Outcome] = {}
    with stopping_is_no_error():
        for name, *found in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs):
            done[name] = Outcome(names[name], *found)
            progress(done[name])
    return [done[name] for name in names]


def _parts(name: str, seed: int, thorough: bool) -> tuple[str, Finding | None, Finding | None, float, str]:
    """In a worker: claims hold functions, so they are looked up by name and only findings travel."""
    from verification.claims.registry import all_claims

    claim = next(claim for claim in all_claims() if claim.id == name)
    outcome = run_claim(claim, seed=seed, thorough=thorough)
    return name, outcome.finding, outcome.contrast, outcome.seconds, outcome.failure


def _as_dict(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    largest = finding.largest
    return {
        "holds": finding.holds,
        "largest": largest if math.isfinite(largest) else str(largest),
        "where": finding.where,
        "n_cases": finding.n_cases,
        "tolerance": finding.tolerance,
        "figures": dict(finding.figures),
        "false_alarm": finding.false_alarm,
    }
