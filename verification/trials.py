"""Run audits over a list of specimens and compare the verdicts with the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from pm_dpgmm.cli.exit_status import one_line
from verification.auditing.audit import audit
from verification.auditing.claimed_curve import GAUSSIAN
from verification.auditing.curve_result import CurveAuditResult
from verification.auditing.result import AuditResult, plain
from verification.auditing.workers import stopping_is_no_error
from verification.specimens import Specimen

# what fewer runs than these can refute is far from any claim; 400 against a curve see what 1,000 against a pair do
LEAST_AGAINST_PAIR, LEAST_AGAINST_CURVE = 1000, 500
FALSE_ALARM = 1e-4  # of each audit, so that a run over tens of sound mechanisms raises no alarm


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A specimen, its audit, and whether the verdict is the right one."""

    specimen: Specimen
    result: AuditResult | CurveAuditResult
    seconds: float

    @property
    def epsilon_lower(self) -> float:
        """Certified bound at the claimed delta; of a curve's claim conditional on its family."""
        assert self.result.epsilon_lower is not None
        return self.result.epsilon_lower

    @property
    def would_catch(self) -> float:
        """Epsilon at the claimed delta of the smallest violation caught nine times in ten; of a curve, if Gaussian."""
        limit, delta = self.result.detection_limit, self.specimen.delta
        return GAUSSIAN.epsilon_at(limit, delta) if isinstance(self.result, CurveAuditResult) else limit

    @property
    def right(self) -> bool:
        """Broken mechanisms must be refuted, sound ones must not."""
        return self.result.refuted == self.specimen.broken

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "name": self.specimen.name,
            "origin": self.specimen.origin,
            "broken": self.specimen.broken,
            "true_epsilon": plain(self.specimen.true_epsilon),
            "right": self.right,
            "would_catch": plain(self.would_catch),
            "seconds": round(self.seconds, 2),
            **{key: value for key, value in self.result.as_dict().items() if not key.startswith("histogram")},
        }


class TrialsError(RuntimeError):
    """Audits that ended in an error, when all others were done.

    Attributes
    ----------
    trials : list of Trial
        The others, in order.
    failed : dict of str to Exception
        By the name of the mechanism.
    """

    def __init__(self, trials: list[Trial], failed: dict[str, Exception]) -> None:
        causes = "; ".join(f"{name}: {type(error).__name__}: {one_line(error)}" for name, error in failed.items())
        super().__init__(f"{len(failed)} of {len(trials) + len(failed)} mechanisms could not be audited: {causes}")
        self.trials, self.failed = trials, failed


def _claim(specimen: Specimen) -> dict[str, Any]:
    if specimen.curve is None:
        return {"epsilon": specimen.epsilon, "delta": specimen.delta}
    return {"profile": specimen.curve, "delta": specimen.delta}


def run_trials(
    specimens: Iterable[Specimen],
    *,
    seed: int,
    share: float = 1.0,
    false_alarm: float = FALSE_ALARM,
    n_jobs: int = 1,
    until_refuted: bool = False,
    progress: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Audit every specimen: against its curve if it claims one, else against its epsilon and delta.

    Parameters
    ----------
    specimens : iterable of Specimen
    seed : int
        Each specimen gets its own generator, from the seed and its name: order and workers do not matter.
    share : float
        Multiplies the number of samples, down to 1,000, or 500 of a mechanism that is audited against a curve.
    false_alarm : float
        Error probability of each audit; over m sound specimens the run errs with probability at most m times this.
    n_jobs : int
        Specimens that are audited at once, -1 for one on every core.
    until_refuted : bool
        Broken specimens are audited as runs come, with half of the error probability, until they are refuted; one that
        is not is audited again with as many runs in one piece and the other half. What is certified of them is then
        little more than that the claim is false.
    progress : callable
        Called after each trial.

    Raises
    ------
    TrialsError
        If audits ended in an error, when all others are done; it has their trials.
    """
    jobs = (delayed(_trial_or_error)(specimen, seed, share, false_alarm, until_refuted) for specimen in specimens)
    trials: list[Trial] = []
    failed: dict[str, Exception] = {}
    with stopping_is_no_error():
        for name, found in Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)(jobs):
            if isinstance(found, Exception):
                failed[name] = found
            else:
                trials.append(found)
                progress(found)
    if failed:
        raise TrialsError(trials, failed) from next(iter(failed.values()))
    return trials


def _trial_or_error(specimen: Specimen, *settings: Any) -> tuple[str, Trial | Exception]:
    try:
        return specimen.name, _trial(specimen, *settings)
    except Exception as error:  # a mechanism may raise anything
        return specimen.name, error


def _trial(specimen: Specimen, seed: int, share: float, false_alarm: float, until_refuted: bool) -> Trial:
    start = time.perf_counter()
    if until_refuted and specimen.broken:
        result = _audit(specimen, seed, share, false_alarm / 2, sequential=True)
        if not result.refuted:
            result = _audit(specimen, seed, share, false_alarm / 2, sequential=False)
    else:
        result = _audit(specimen, seed, share, false_alarm, sequential=False)
    return Trial(specimen, result, time.perf_counter() - start)


def _audit(
    specimen: Specimen, seed: int, share: float, false_alarm: float, *, sequential: bool
) -> AuditResult | CurveAuditResult:
    least = LEAST_AGAINST_PAIR if specimen.curve is None else LEAST_AGAINST_CURVE
    return audit(
        specimen.mechanism,
        specimen.x,
        specimen.x_neighbour,
        **_claim(specimen),
        n_samples=max(least, round(specimen.n_samples * share)),
        false_alarm=false_alarm,
        level=specimen.level,
        sequential=sequential,
        rng=np.random.default_rng([seed, *specimen.name.encode()]),
    )
