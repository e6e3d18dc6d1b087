"""What a method is asked, and what leaves it: the interface between the front door and the methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import Rng

Progress = Callable[[int, int], None]  # steps done, steps in all: both public
# everything released so far, as in Outcome: guarantee of the whole, noisy statistics, their public law
Listener = Callable[[Guarantee, Mapping[str, FloatArray], Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything public about one fit. Under replace-one the number of records is public."""

    n_records: int
    n_features: int
    n_components: int
    epsilon: float
    delta: float
    bounds: FloatArray | None  # (D, 2), in the unit of the records
    neighbouring: Neighbouring
    choices: tuple[int, ...] = ()  # numbers of components to choose from, increasing; n_components is the last

    @property
    def component_choices(self) -> tuple[int, ...]:
        """Numbers of components that the mixture may have."""
        return self.choices or (self.n_components,)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What leaves a method: paid for, every number of it."""

    mixture: Mixture  # parameters made valid, a function of ``raw`` and public numbers
    guarantee: Guarantee
    raw: Mapping[str, FloatArray]  # noisy statistics as released
    noise: Mapping[str, Any]  # their public noise law
    background: tuple[float, Mixture] | None = None  # weight and law of what no component describes


class Method(Protocol):
    """What the front door needs of a method."""

    name: str

    def cost(self, problem: Problem) -> tuple[float, float]:
        """(epsilon, delta) that :meth:`release` spends, also when it refuses."""
        ...

    def check(self, problem: Problem) -> None:
        """Raise ValueError, from public facts alone, when the method cannot run."""
        ...

    def release(
        self, records: FloatArray, problem: Problem, *, learner: Any, n_jobs: int | None, progress: Progress, rng: Rng,
        released: Listener,
    ) -> Outcome:  # fmt: skip
        """Spend the budget of ``problem``; may raise :class:`pm_dpgmm.Unstable`.

        ``released`` is told after every release what is public by then, so that an interrupted fit loses nothing.
        """
        ...


def kept_by_nobody(guarantee: Guarantee, raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> None:
    """A listener for releases that need not survive an interruption."""
