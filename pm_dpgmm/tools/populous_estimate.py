"""The Private Populous Estimator in any space with a distance and a mask. Proof: populous_estimate.md.

Arbas, Ashtiani and Liaw (2023), Algorithm 1; Arbas (2023), section 8.2, for spaces beyond mixtures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import (
    FloatArray,
    check_count,
    check_delta,
    check_flag,
    check_non_negative,
    check_positive,
    finite_numbers,
    generator_of,
    shown,
    unmasked,
)
from pm_dpgmm.learners.quiet import outside_events, unheard
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_count, truncated_laplace_loss
from pm_dpgmm.methods.populous.method import split
from pm_dpgmm.privacy.curves import CompositionProfile, PointProfile, TruncatedLaplaceProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring, Unstable
from pm_dpgmm.privacy.ledger import Ledger
from pm_dpgmm.privacy.noise import Rng, discrete_laplace, laplace_scale
from pm_dpgmm.progress_bar import progress_bar
from pm_dpgmm.tools.rehearsal import own_answer, rehearse_estimate
from pm_dpgmm.tools.spending import accounted, check_ledger_and_rng, spent

GRID_STEPS = 2**20  # grid points in one unit
LARGEST = 2.0**30  # of a number, in units: the grid stays exact
ROUNDING = 1e-6  # of a distance in units, far above its error below LARGEST
MOST_SUBSETS = 20_000  # half an hour for all pairs of answers
LEAST_ROWS = 100  # of a trial
GROWTH = 1.05
COSTS = ("epsilon", "delta", "relaxation")  # of a space


class Space(Protocol):
    """What the estimator asks of a space of answers."""

    @property
    def epsilon(self) -> float:
        """Of the mask, for two points at a distance of at most 1."""
        ...

    @property
    def delta(self) -> float:
        """Of the mask likewise."""
        ...

    @property
    def relaxation(self) -> float:
        """z: d(a, c) is at most z (d(a, b) + d(b, c)) where that is at most 1; 1 for a metric."""
        ...

    def distance(self, one: Any, other: Any) -> float:
        """Symmetric, a function of two points alone; rounded up, in units of what the mask hides."""
        ...

    def mask(self, point: Any, rng: Rng) -> Any:
        """A noisy version: (epsilon, delta)-close for two points at a distance of at most 1."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Vectors of numbers, with the largest difference in units as distance, and Laplace noise on a grid as mask.

    Parameters
    ----------
    units : array_like, shape (P,)
        What the mask hides in each number, in its unit: noise has about sqrt(2) P / epsilon times this as its standard
        deviation. Public; answers of subsets must agree within half of it.
    epsilon : float
        Cost of the mask; pure, and at least some P 2^-32, below which the noise could not be drawn.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Guarantee
    ---------
    The mask is epsilon-DP for two points at a distance of at most 1. Proof: populous_estimate.md.
    """

    units: FloatArray
    epsilon: float
    delta: float = 0.0
    relaxation: float = 1.0

    def __post_init__(self) -> None:
        units = np.atleast_1d(finite_numbers(self.units, "units"))
        if units.ndim != 1 or not units.size or not (units > 0).all():
            raise ValueError(f"units must be positive numbers (P,), got {shown(self.units)}")
        check_positive(epsilon=self.epsilon)
        if self.delta != 0 or self.relaxation != 1:
            raise ValueError(f"delta and relaxation must be 0 and 1, got {self.delta!r} and {self.relaxation!r}")
        laplace_scale(units.size * (GRID_STEPS + 1), self.epsilon)  # or an error, before anything is spent
        object.__setattr__(self, "units", units)

    def distance(self, one: Any, other: Any) -> float:
        """Largest difference in units; infinite beyond what the grid holds, or where something is no number."""
        a, b = (np.atleast_1d(np.asarray(unmasked(point), dtype=float)) for point in (one, other))
        if a.shape != self.units.shape or b.shape != self.units.shape:
            return math.inf
        a, b = a / self.units, b / self.units
        if not (np.abs(a) <= LARGEST).all() or not (np.abs(b) <= LARGEST).all():
            return math.inf
        return float(np.abs(a - b).max()) + ROUNDING

    def mask(self, point: Any, rng: Rng) -> FloatArray:
        """Rounded to the grid, with discrete Laplace noise on every number."""
        steps = np.rint(np.atleast_1d(np.asarray(point, dtype=float)) / self.units * GRID_STEPS).astype(np.int64)
        scale = laplace_scale(steps.size * (GRID_STEPS + 1), self.epsilon)
        return np.asarray((steps + discrete_laplace(steps.shape, scale=scale, rng=rng)) / GRID_STEPS * self.units)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A masked answer, and what it cost. Safe to publish."""

    value: Any
    guarantee: Guarantee
    n_subsets: int


@dataclass(frozen=True, slots=True)
class Design:
    """Numbers of a run that are fixed before the records are seen."""

    n_subsets: int
    friend_radius: float  # two friends of one answer are at a distance of at most 1
    min_friends: int
    threshold: int  # least sum of friend counts with which an answer has so many friends
    test: TruncatedLaplaceProfile


def populous_estimate(
    records: Any,
    learner: Callable[[FloatArray], Any],
    space: Space,
    *,
    epsilon: float,
    delta: float,
    n_subsets: int | None = None,
    neighbouring: str = "replace-one",
    rehearse: bool = True,
    ledger: Ledger | None = None,
    progress: bool = True,
    rng: Rng = None,
) -> Estimate:
    """Release one answer of a learner, masked, after a private test that most of its answers to subsets agree.

    Parameters
    ----------
    records : array_like, shape (N,) or (N, D)
        Finite numbers. No bounds are needed.
    learner : function of some records, shaped as these
        Its answer is a point of the space, or None; whatever it raises counts as None, an exit too, but for Ctrl-C and
        what else your signal handlers raise. It must depend on its subset alone: functions that keep something between
        calls break the guarantee, a random generator of their own among it; the global ones of NumPy and Python are
        seeded for every call. Answers are copied (``copy.deepcopy``; what cannot be copied counts as None), so memory
        may be used again. What it prints, logs or warns of is dropped.
    space : Space
        Distance and mask, such as :class:`Numbers`.
    epsilon, delta : float
        Cost of test and mask together; more than those of ``space``, the rest is for the test.
    n_subsets : int, optional
        t, at least 4. None: the fewest with which full agreement always passes.
    neighbouring : {"replace-one", "add-remove"}
    rehearse : bool
        Try learner and space on standard normal rows first, so that a slip costs no budget: the learner gets rows A,
        other rows B and A again with equal seeds, and must say the same of A twice. False: for learners that cannot
        answer to such rows.
    ledger : Ledger, optional
        Charged before the records are split.
    progress : bool
        Show a progress bar on a terminal. All pairs of answers are compared, at some 10 microseconds each for
        :class:`Numbers`: 1,600 subsets take 12 seconds.
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates, and the guarantee says NOT PRIVATE.

    Returns
    -------
    Estimate

    Raises
    ------
    Unstable
        If the test was not passed: the budget is spent, nothing else is known of the records.
    TypeError, ValueError
        On bad input, before anything is spent.

    Guarantee
    ---------
    (epsilon, delta)-DP of answer and refusal, if learner and space are as said above and the mask raises nothing:
    :class:`Numbers` does not. Proof: populous_estimate.md.

    Notes
    -----
    One answer of a subset is released, so the noise is far above the error of an answer to all records: units must be
    some four errors of a subset's answer. ``fit_gmm(method="aggregate")`` with a ``VectorLearner`` averages in place of
    that; this tool is for spaces that have no average.

    Examples
    --------
    The quartiles, an interval that holds the middle half of the records, each with noise of 23 cm:

    >>> heights = np.random.default_rng(1).normal(170.0, 9.0, size=60_000)
    >>> space = Numbers([4.0, 4.0], epsilon=0.5)
    >>> half = populous_estimate(heights, lambda x: np.quantile(x, [0.25, 0.75]), space, epsilon=1.0, delta=1e-6)
    >>> half.value.shape, half.guarantee.epsilon
    ((2,), 1.0)

    A regression line, with the slope in units of 0.2 and the height at 45 years in units of 6:

    >>> age = np.random.default_rng(2).normal(45.0, 12.0, size=60_000)
    >>> table = np.column_stack([age, 20.0 + 0.8 * age + np.random.default_rng(3).normal(0.0, 10.0, size=60_000)])
    >>> def line(rows):
    ...     return np.polyfit(rows[:, 0] - 45.0, rows[:, 1], 1)
    >>> populous_estimate(table, line, Numbers([0.4, 6.0], epsilon=0.5), epsilon=1.0, delta=1e-6).value.shape
    (2,)
    """
    relation = Neighbouring.parse(neighbouring)
    check_positive(epsilon=epsilon)
    check_delta(delta, zero=False)
    check_flag(rehearse=rehearse, progress=progress)
    check_ledger_and_rng(ledger, rng)
    if not callable(learner):
        raise TypeError(f"learner must be a function, got {shown(learner)}")
    rows = finite_numbers(records, "records")
    if rows.ndim not in (1, 2):
        raise ValueError(f"records must have shape (N,) or (N, D), got {rows.shape}")
    design = designed(space, epsilon=epsilon, delta=delta, n_subsets=n_subsets)
    if relation is Neighbouring.REPLACE_ONE and len(rows) < design.n_subsets:
        raise ValueError(f"records must be at least n_subsets = {design.n_subsets}, got {len(rows)}")
    if rehearse:  # under add-remove neighbours how many records there are is private
        of_a_subset = len(rows) // design.n_subsets if relation is Neighbouring.REPLACE_ONE else 0
        rehearse_estimate(learner, space, design, (max(of_a_subset, LEAST_ROWS), *rows.shape[1:]), rng=rng)
    mask = PointProfile(float(space.epsilon), float(space.delta))
    loss = CompositionProfile(design.test, mask, split=left_for_test(space, epsilon, delta)[0])
    words = "Private Populous Estimator in a space of one's own (tools/populous_estimate.md)"
    guarantee = spent(epsilon, delta, relation, words, ledger=ledger, private=rng is None, loss=loss)
    t = design.n_subsets
    with (
        accounted(guarantee),
        progress_bar(progress, "populous estimate") as step,
        unheard(),  # a warning would tell of a record
    ):
        order, edges = split(len(rows), design.n_subsets, relation, rng=rng)
        seeds = generator_of(rng).integers(2**32, size=design.n_subsets).tolist()
        parts = np.split(rows[order], edges[1:-1])
        with outside_events() as events:
            answers = []
            for part, seed in zip(parts, seeds, strict=True):
                answers.append(_unless_it_raises(events, None, own_answer, learner, part.copy(), seed))
                step(len(answers), 2 * t)
            friends = friend_table(answers, space, design.friend_radius, events, lambda done: step(t + done, 2 * t))
        value = released(answers, friends, space, design, rng=rng)
    if value is None:
        raise Unstable(
            f"the private test did not find that most of {design.n_subsets} answers agree; the budget is spent",
            guarantee,
        )
    return Estimate(value[0], guarantee, design.n_subsets)


def designed(space: Space, *, epsilon: float, delta: float, n_subsets: int | None) -> Design:
    """All numbers of a run, from public facts alone; ValueError if there are none."""
    functions = callable(getattr(space, "distance", None)) and callable(getattr(space, "mask", None))
    if isinstance(space, type) or not functions or not all(hasattr(space, name) for name in COSTS):
        rule = "space must be an object with epsilon, delta, relaxation, distance and mask, such as Numbers(...)"
        raise TypeError(f"{rule}, got {shown(space)}")
    check_positive(**{"epsilon of the space": space.epsilon})
    check_non_negative(**{"delta of the space": space.delta})
    check_positive(**{"relaxation of the space": space.relaxation})
    if not (space.epsilon < epsilon and space.delta < delta) or space.relaxation < 1:
        raise ValueError(
            f"space must cost less than epsilon {epsilon:g} and delta {delta:g} and have a relaxation of at least 1,"
            f" got {space.epsilon:g}, {space.delta:g} and {space.relaxation:g}"
        )
    budget = left_for_test(space, epsilon, delta)
    if n_subsets is not None:
        check_count(least=4, most=MOST_SUBSETS, n_subsets=n_subsets)
        found = _design(n_subsets, space, *budget)
        if not passes_surely(found):
            rule = "n_subsets must be large enough that full agreement passes (None finds the fewest)"
            raise ValueError(f"{rule}, got {n_subsets}")
        return found
    t = 4
    while t <= MOST_SUBSETS:
        found = _design(t, space, *budget)
        if passes_surely(found):
            return found
        t = math.ceil(t * GROWTH) + 1
    raise ValueError(f"epsilon and delta must leave a test with {MOST_SUBSETS} subsets, got {epsilon:g} and {delta:g}")


def left_for_test(space: Space, epsilon: float, delta: float) -> tuple[float, float]:
    """What the mask leaves for the test, rounded down."""
    left = (
        float(epsilon) - float(space.epsilon),
        float(delta) - float(space.delta),
    )  # NumPy has numbers of 16 bits
    return math.nextafter(left[0], 0.0), math.nextafter(left[1], 0.0)


def passes_surely(design: Design) -> bool:
    """Whether full agreement passes whatever the noise is."""
    return design.n_subsets**2 - design.test.bound >= design.threshold + design.test.bound


def _design(t: int, space: Space, epsilon: float, delta: float) -> Design:
    test = truncated_laplace_loss(sensitivity=2 * (t - 1), epsilon=epsilon, delta=delta)
    min_friends = (t + 3) // 2  # two sets of so many out of t share one besides any one
    return Design(t, 1 / (2 * space.relaxation), min_friends, min_friends * t, test)


def _unless_it_raises(
    events: Sequence[BaseException], otherwise: Any, function: Callable[..., Any], *arguments: Any
) -> Any:
    """What a function of the user's own answers, or ``otherwise``; raises ``events`` of signals alone."""
    try:
        found = function(*arguments)
    except BaseException:  # an exit, too, must not tell of one subset
        found = otherwise
    if events:
        raise events[0]
    return found


def friend_table(
    answers: Sequence[Any],
    space: Space,
    radius: float,
    events: Sequence[BaseException] = (),
    step: Callable[[int], None] = lambda done: None,
) -> NDArray[np.bool_]:
    """Symmetric table (t, t) of answers at a distance of at most ``radius``; None is a friend of nobody but itself.

    ``step`` is told how many answers have been compared with all before.
    """
    t = len(answers)
    table = np.eye(t, dtype=bool)
    for i in range(t):
        for j in range(i):
            if answers[i] is not None and answers[j] is not None:
                near = _unless_it_raises(events, False, _close, answers[i], answers[j], space, radius)
                table[i, j] = table[j, i] = near
        step(i + 1)
    return table


def _close(one: Any, other: Any, space: Space, radius: float) -> bool:
    return bool(space.distance(one, other) <= radius)


def released(
    answers: Sequence[Any], friends: NDArray[np.bool_], space: Space, design: Design, *, rng: Rng
) -> tuple[Any] | None:
    """The randomised part: one noisy sum, one masked answer; None is a refusal."""
    counts = friends.sum(axis=1)
    noisy = truncated_laplace_count(int(counts.sum()), loss=design.test, rng=rng)
    if noisy < design.threshold + design.test.bound:
        return None
    # the noise is at most its bound, so the sum itself reaches the threshold and some count reaches min_friends
    return (space.mask(answers[int(np.argmax(counts >= design.min_friends))], rng),)
