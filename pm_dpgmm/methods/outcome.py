"""What a method is asked, and what leaves it: the interface between the front door and the methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.records.transformed_columns import TransformedColumns

Progress = Callable[[int, int], None]  # steps done, steps in all: both public
AUTOMATIC = "auto"  # the method that picks another one, by released numbers; and its entry in their law
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
    bounds: FloatArray | None  # (D, 2), in the unit of the records as the method sees them
    neighbouring: Neighbouring
    choices: tuple[int, ...] = ()  # numbers of components to choose from, increasing; n_components is the last
    resolution: FloatArray | None = None  # (D,), in the unit of the records: steps of rounded columns, 0 for others
    transformations: TransformedColumns | None = None  # done already: records and bounds are in the transformed unit

    @property
    def component_choices(self) -> tuple[int, ...]:
        """Numbers of components that the mixture may have."""
        return self.choices or (self.n_components,)

    @property
    def public_records(self) -> int | None:
        """Number of records where it is public: under replace-one neighbours."""
        return self.n_records if self.neighbouring is Neighbouring.REPLACE_ONE else None


class TooFewRecords(ValueError):
    """A method takes no data set of so few records, whatever is in it.

    Parameters
    ----------
    least : str
        What there must be at least, and what for.
    n_records : int
        What was given.
    """

    def __init__(self, least: str, n_records: int) -> None:
        super().__init__(least, n_records)
        self.least, self.n_records = least, n_records

    def __str__(self) -> str:
        return f"X must have at least {self.least}, got {self.n_records:,}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What leaves a method: paid for, every number of it."""

    mixture: Mixture  # parameters made valid, a function of ``raw`` and public numbers
    guarantee: Guarantee
    raw: Mapping[str, FloatArray]  # noisy statistics as released
    noise: Mapping[str, Any]  # their public noise law
    background: tuple[float, Mixture] | None = None  # weight and law of what no component describes

    def with_caveat(self, caveat: str) -> Outcome:
        """The same with one caveat more, before the others."""
        return replace(self, noise=dict(self.noise) | {"caveats": [caveat, *self.noise["caveats"]]})


@runtime_checkable
class Method(Protocol):
    """What the front door asks of a method, all of it: a frozen settings object whose class is made from this one.

    Four parts have no default: ``name``, :meth:`cost`, :meth:`guarantee` and :meth:`release`. The others say what most
    methods say. Everything but :meth:`release` is a function of settings and of the public facts of a
    :class:`Problem`, and is asked before anything is spent.

    Attributes
    ----------
    name : str
        As ``fit_gmm(method=name)`` and a release have it.
    chooses : bool
        Whether it chooses among several numbers of components.
    streams : bool
        Whether its records may come in blocks (:class:`pm_dpgmm.RecordBlocks`).
    takes_bounds : bool
        Whether it has a use for bounds on the columns.
    knows_rounding : bool
        Whether it knows of columns that are rounded (``Problem.resolution``).
    takes_learner : bool
        Whether it runs a learner, which may be the user's own.
    takes_vectors : bool
        Whether that may be a :class:`pm_dpgmm.VectorLearner`.
    """

    __slots__ = ()
    name: ClassVar[str]
    chooses: ClassVar[bool] = False
    streams: ClassVar[bool] = False
    takes_bounds: ClassVar[bool] = True
    knows_rounding: ClassVar[bool] = False
    takes_learner: ClassVar[bool] = False
    takes_vectors: ClassVar[bool] = False

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names that the columns must have, in this order; None for any."""
        return None

    @property
    def assumed_records(self) -> int | None:
        """Public guess of the number of records where that is private; None for no guess."""
        return None

    @property
    def private(self) -> bool:
        """Whether what the settings bring along, such as an earlier release, was made in private."""
        return True

    def recorded(self) -> dict[str, Any]:
        """The settings as a release holds them: plain numbers, texts and lists that JSON can hold."""
        return asdict(self)  # type: ignore[call-overload]

    def first_kernel(self, n_features: int) -> Any:
        """The function that Numba compiles first, or longest, in a fit of so many columns; None where none is."""
        return None

    def cost(self, problem: Problem) -> tuple[float, float]:
        """(epsilon, delta) that :meth:`release` spends, also when it refuses."""
        ...

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises, to the last bit: its outcome, or its refusal, has this guarantee."""
        ...

    def check(self, problem: Problem) -> None:
        """Raise ValueError when the method cannot run; what passes here does not fail after it has spent."""
        self.guarantee(problem).check_storable()

    def try_learner(self, learner: Any, problem: Problem) -> None:
        """Raise if a learner of the user's own cannot do its work; nothing for methods without one."""
        return

    def release(
        self,
        records: Any,
        problem: Problem,
        *,
        learner: Any,
        n_jobs: int | None,
        progress: Progress,
        rng: Rng,
        released: Listener,
    ) -> Outcome:
        """Spend the budget of ``problem``; may raise :class:`pm_dpgmm.Unstable`.

        ``released`` is told after every release what is public by then, so that an interrupted fit loses nothing:
        before the next step, and before the records are read again.
        """
        ...


def answered(facts: Mapping[str, Any], noise: Mapping[str, Any]) -> dict[str, Any]:
    """The public facts of a fit, with the method that answered in the place of "auto", and its settings."""
    choice = noise.get(AUTOMATIC)
    if facts["method"] != AUTOMATIC or not isinstance(choice, Mapping):
        return dict(facts)
    return dict(facts) | {"method": choice["method"], "settings": facts["settings"][choice["method"]]}


def kept_by_nobody(guarantee: Guarantee, raw: Mapping[str, FloatArray], noise: Mapping[str, Any]) -> None:
    """A listener for releases that need not survive an interruption."""
