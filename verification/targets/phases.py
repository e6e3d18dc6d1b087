"""A crude populous release, then a sketch: whole calls of ``fit_gmm`` on subsets of one record."""

from __future__ import annotations

import functools
import math
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods import two_phase
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.populous.method import Populous
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.methods.two_phase import TwoPhase
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring
from verification.specimens import Specimen
from verification.targets.lifted import PARTS
from verification.targets.populous import NOISE, Coded, constants
from verification.targets.runs import DELTA, EPSILON, rows_of
from verification.targets.sketch_fits import ORDER, QUICK_ENDS, in_one_column

METHOD = "methods/two_phase.py"
T, TOP = 200, 165  # subsets of one record; room for a longer table at half of the budget
WIDTH = len(PARTS) + 3 + 2 * ORDER


@functools.cache
def settings() -> TwoPhase:
    """Half of the budget for each phase, more noise than one budget would need."""
    design = replace(constants(T, TOP, TOP).design, noise=2.5 * NOISE)
    return TwoPhase(crude_share=0.5, crude=Populous(design=design), sketch=SketchMethod(order=ORDER))


def shown(raw: Any) -> FloatArray:
    """Crude numbers, zeros if it refused; what chose the interval; the sketch."""
    crude = [np.ravel(raw.get(f"crude_{name}", 0.0)) for name in PARTS]
    return np.concatenate([*crude, in_one_column(raw)])


def by_two_phases(records: FloatArray, n_samples: int, rng: np.random.Generator, *, simulated: bool = False) -> Any:
    """``method="two-phase"``; a refusal is a row of NaN."""
    method: Any = settings()
    budget: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "learner": Coded(), "progress": False}
    budget["random_seed"] = rng if simulated else None

    def run() -> FloatArray:
        try:
            return shown(fit_gmm(records, 1, method=method, **budget).raw)
        except Unstable:
            return np.full(WIDTH, np.nan)

    claim = TwoPhase.guarantee(method, _problem())
    with ExitStack() as stack:
        for place, name, quick in (
            *QUICK_ENDS,
            (TwoPhase, "guarantee", lambda self, problem: claim),
            (SketchMethod, "guarantee", lambda self, problem: claim),
            (TwoPhase, "check", lambda self, problem: None),
        ):
            stack.enter_context(mock.patch.object(place, name, quick))
        return rows_of(run, n_samples)


def unpaid_domain(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the domain of the second phase is the range of the records."""

    def seen(mixture: Mixture) -> FloatArray:
        return np.column_stack([records.min(axis=0) - 1.0, records.max(axis=0) + 1.0])

    with mock.patch.object(two_phase, "domain", seen):
        return by_two_phases(records, n_samples, rng, simulated=True)


def _problem() -> Problem:
    return Problem(T, 1, 1, EPSILON, DELTA, None, Neighbouring.REPLACE_ONE)


def targets() -> list[Specimen]:
    """One record goes from one end of what the crude test lets pass to the other."""
    far = 0.999 * settings().crude.design.rule.fit_radius  # type: ignore[union-attr]
    others = np.zeros((T - 1, 1))
    pair = np.vstack([others, [[far]]]), np.vstack([others, [[-far]]])
    claim = EPSILON, DELTA
    return [
        Specimen("fit_gmm_two_phase", METHOD, by_two_phases, *pair, *claim, 1.0, False, 1_200),
        Specimen(
            "fit_gmm_two_phase_unpaid_domain", f"fault in {METHOD}", unpaid_domain, *pair, *claim, math.inf, True, 1_000
        ),
    ]
