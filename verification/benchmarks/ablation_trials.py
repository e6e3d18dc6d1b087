"""Constants of the sketch method that are a matter of tuning, and plainer values to try in their place.

Not here: numbers of a proof, bounds against hostile files, numerical safety, numbers of compiled kernels (a kernel
keeps those it was compiled with), and thresholds of warnings, which no density depends on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch import rounds

SCHEDULE = rounds.Schedule  # the name in its module is replaced by trials


@dataclass(frozen=True, slots=True)
class Trial:
    """One value to try instead of a constant of a module of ``pm_dpgmm``."""

    module: str
    name: str
    value: Any
    shown: str = ""  # empty: the value itself

    @property
    def label(self) -> str:
        """Name with the end of the module's, and what is tried."""
        return f"{self.module.rpartition('.')[2]}.{self.name} = {self.shown or self.value}"


class EqualShares(SCHEDULE):
    """The schedule with shares that do not depend on the signal."""

    @classmethod
    def of(cls, problem: Problem, budget: GaussianFilter) -> rounds.Schedule:
        """8 % of what is left for the cells and for the soft step each, whatever the signal."""
        left = 1 - budget.spent / budget.limit
        share = Fraction(8, 100) * left
        return replace(SCHEDULE.of(problem, budget), cells=share, soft=share)


class ThreeLeaves(SCHEDULE):
    """The schedule with cells whose number does not depend on the signal."""

    @classmethod
    def of(cls, problem: Problem, budget: GaussianFilter) -> rounds.Schedule:
        """Three cells for each component."""
        return replace(SCHEDULE.of(problem, budget), leaves=3 * problem.n_components)


def _trials(module: str, **values: Any) -> list[Trial]:
    """Several values for each name."""
    return [Trial(f"pm_dpgmm.{module}", name, value) for name, tried in values.items() for value in tried]


ROUNDS, SKETCH = "pm_dpgmm.methods.sketch.rounds", "methods.sketch"
TRIALS: list[Trial] = [
    Trial(ROUNDS, "Schedule", EqualShares, "equal shares"),
    Trial(ROUNDS, "Schedule", ThreeLeaves, "three leaves"),
    *_trials(
        f"{SKETCH}.rounds", FIRST_ROUND=(0.125, 0.5), RADIUS_SQUARED=(0.4, 0.5),
        LEAST_FRAMES=(10, 40), SOFT_REACH=(1.0, 4.0),
    ),
    *_trials(
        f"{SKETCH}.search.start", MIXED=(0.0,), TRUSTED=(0.0,), LOST=(0.0,), SPLIT=(3.0, 12.0), TRIES=(0, 1),
        REACH=(1.5, 3.0), APART=(0.4,), LEAST_COUNT=(0.005,), SYNTHETIC=(2000,), EM_STEPS=(20,),
    ),
    *_trials(
        f"{SKETCH}.search.pursuit", WORTH=(0.0,), GOOD=(math.inf,), BEST_ATOMS=(1,), FIRST_BACKGROUND=(0.05,),
        BACKGROUND_WORTH=(math.inf, 4.0), ENOUGH=(0,), LEAST_ROWS=(1000,),
    ),
    *_trials(
        f"{SKETCH}.search.dictionary", PLACES=(300,), FARTHEST=(1.0,), CLOSER=((), (0.25,)), SHARPENED=(4,),
        NEARBY=(10,),
    ),
    *_trials(
        f"{SKETCH}.estimate", RADIUS_PRIOR=(1.0,), SCALE_PRIOR=(1 / 3, 1 / 12), LOG_SCALES=(1.0,), SLOPES=(1.0,),
        SIZES=(0.0,), BROADER=(1.0, 3.0), FAINT=(0.0,), NEGLIGIBLE=(1e-4,),
    ),
    *_trials(
        f"{SKETCH}.fit", TOLERANCE=(1e-2,), DAMPING=(1.0,), FACTOR=(2.0,), MOST_TESTED=(10**6,),
        TRIES=(4,),
    ),
    *_trials(f"{SKETCH}.prior", BACKGROUND_LOGIT=(0.0,)),
    *_trials(f"{SKETCH}.model", NOTABLE=(0.0, math.inf)),
    *_trials(f"{SKETCH}.method", PERIOD=(2.0, 4.0), FAILURE_SHARE=(0.5,)),
    *_trials(
        f"{SKETCH}.location", MOST_SHARE=(Fraction(1, 50),), MOST_ROUNDS=(1, 2), FEW=(4,), DOUBT=(math.inf,),
        MISSED=(0.0,), CELLS=(8,), MOST_LOCATION_SHARE=(Fraction(1, 20),), MOST_SCALE_SHARE=(Fraction(1, 20),),
    ),
    *_trials("mechanisms.box", QUANTILE=(0.5,), WIDEN=(1.0, 4.0)),
]  # fmt: skip
