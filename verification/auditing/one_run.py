"""Audits in one run, for mechanisms that can be run only once: who of many canaries was in?

Theorem and proof: one_run_guessing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verification._arguments import (
    check_callable,
    check_choice,
    check_count,
    check_delta,
    check_probability,
    check_rng,
    printable,
    shown,
    unmasked,
)
from verification.auditing.claimed_curve import claim_of
from verification.auditing.coins import fair_coins
from verification.auditing.foreign import foreign
from verification.auditing.guessing import MOST_RUNS
from verification.auditing.one_run_guessing import OneRunCounts
from verification.auditing.one_run_result import NEIGHBOURS, OneRunResult, judged
from verification.auditing.repeated import repeated

FloatArray = NDArray[np.float64]
Score = Callable[[Any, Any], ArrayLike]

LABELS = ("both", "in", "out")
DENSITY = "log density of the canary under the release"


def one_run(
    mechanism: Callable[..., Any],
    records: ArrayLike,
    canaries: Any,
    *,
    score: Score | None = None,
    neighbours: str = "add-remove",
    epsilon: float | None = None,
    delta: float = 0.0,
    guarantee: Any = None,
    profile: Any = None,
    guesses: int | Sequence[int] | None = None,
    labels: str = "both",
    false_alarm: float = 0.05,
    rng: np.random.Generator | None = None,
) -> OneRunResult:
    """Audit a privacy claim by a single run of the mechanism.

    Each canary is in or out by a fair coin of its own; the mechanism runs once on the records and the canaries that
    are in; the score guesses who was, where it is surest, and the number of right guesses is compared with the most
    that the claim allows.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng)`` or ``mechanism(data)``, as `repeated` takes; ``data`` are rows as in ``records``.
        Returns anything that ``score`` can read. It is run once.
    records : array_like, shape (n, ...)
        Fixed records, n may be 0, in any unit. They take part in every run and are guessed by nobody.
    canaries : array_like, shape (m, ...), or a pair of them
        Records that a claim should protect least: far out, each far from the others. For replace-one a pair
        ``(first, second)`` of m rows each: slot i holds one of the two.
    score : callable, optional
        ``score(release, canaries)`` gives m numbers, the larger the likelier in; NaN, or a mask, counts as unsure. For
        replace-one it is asked for both of the pair, and the difference counts. Default:
        ``release.log_density(canaries)``. It may look at the whole release and at public data, but not at the coins;
        nor at numbers that nobody set (``np.empty``), as memory may hold rows of the run. Try it on another run first:
        an error in it comes after the run.
    neighbours : {"add-remove", "replace-one"}
        The relation of the claim, and of ``guarantee`` if that has one. A replace-one claim, the default of `fit_gmm`,
        says nothing of add-remove, where two numbers of records differ.
    epsilon, delta : float
        The claim (epsilon, delta). With a curve, ``delta`` is where the bound of epsilon is told.
    guarantee, profile : optional
        In place of ``epsilon``: a whole curve, as in `audit`. The "in" order is that of x over x_neighbour.
    guesses : int or sequence of ints, optional
        How many of the m coins are guessed, fixed here, before the run. Default m // 2 (1 at least). Of several, each
        is tested at ``false_alarm`` divided by their number.
    labels : {"both", "in", "out"}
        Which guesses are made: for add-remove "both" guesses in for the half of ``guesses`` with the highest scores
        and out for that with the lowest; for pairs the sign of the difference, where it is largest.
    false_alarm : float
        Probability, at most, that the verdict or the bound is wrong; in (0, 1).
    rng : numpy.random.Generator, optional
        For coins and mechanism; default fresh entropy. Coins of a known seed are no secret: never share a release of
        such a run.

    Returns
    -------
    OneRunResult
        ``epsilon_lower``, ``p_value``, ``correct`` of ``guesses``, and ``ceiling``, the most that so many guesses
        could have certified. ``save`` writes a certificate.

    Raises
    ------
    TypeError, ValueError
        If an argument breaks these rules, before the run; if the score gives no m numbers, after it.

    Guarantee
    ---------
    If turning one coin keeps the claim, the claim is refuted with probability at most ``false_alarm``; and
    ``epsilon_lower`` exceeds the true epsilon at ``delta`` with no more. Exact coins are assumed, and that
    the score is a function of release and public data; not that the canaries do not touch each other, nor that it is
    a good one. Proof: one_run_guessing.md.

    One run says little of a small epsilon: of 1,000 guesses at epsilon 1 and delta 0 at least 755 must be right, 73 %
    are allowed, and only a mechanism with room for many canaries that do not hide each other lets so many be right.

    Source
    ------
    Steinke, Nasr and Jagielski (2023), here with a sharp term for delta.

    Examples
    --------
    >>> import numpy as np
    >>> def noisy_counts(rows, rng):  # one number for each of 1,000 people, with a third of the noise of epsilon = 1
    ...     return np.bincount(rows, minlength=1000) + rng.laplace(scale=1 / 3, size=1000)
    >>> people = np.arange(1000)
    >>> found = one_run(noisy_counts, people[:0], people, score=lambda release, rows: release[rows], epsilon=1.0,
    ...                 rng=np.random.default_rng(1))
    >>> found.refuted
    True
    """
    check_callable(mechanism=mechanism)
    if score is not None:
        check_callable(score=score)
    check_choice(NEIGHBOURS, neighbours=neighbours)
    check_choice(LABELS, labels=labels)
    check_delta(delta)
    check_probability(false_alarm=false_alarm)
    curve = claim_of(epsilon, guarantee=guarantee, profile=profile, delta=delta)
    claim = (float(epsilon), float(delta)) if epsilon is not None else curve
    assert claim is not None
    relation = getattr(guarantee, "neighbouring", neighbours)
    if relation != neighbours:
        raise ValueError(f"neighbours must be that of the guarantee, {str(relation)!r}, got {neighbours!r}")
    rng = check_rng(rng)
    once = repeated(mechanism)
    fixed, first, second = _rows(records, canaries, pairs=neighbours == "replace-one")
    n_canaries = first.shape[0]
    numbers = _numbers(guesses, n_canaries)
    tails = 2 if labels == "both" else 1

    coins = fair_coins(rng, n_canaries)
    own = np.random.default_rng(rng.integers(2**32, size=4))
    rows = _included(fixed, first, second, coins)  # held until the scores are read, as what it says is the coins
    with foreign("mechanism raised in its run", passing=(Exception,)):
        release = once.once(rows, own)

    ask = _by_density if score is None else score
    scores = _scored(ask, release, first)
    if second is not None:
        with np.errstate(invalid="ignore"):  # two that are infinite tell nothing
            scores = scores - _scored(ask, release, second)
    del rows
    tries = tuple(
        OneRunCounts(_right(scores, coins, number, labels, pairs=second is not None), number, n_canaries, tails)
        for number in numbers
    )
    return judged(
        tries,
        claim,
        labels=labels,
        neighbours=neighbours,
        n_included=int(coins.sum()),
        score=DENSITY if score is None else printable(str(getattr(score, "__name__", type(score).__name__))),
        false_alarm=float(false_alarm),
    )


def _included(fixed: Any, first: Any, second: Any, coins: NDArray[np.bool_]) -> Any:
    """Rows of the run; no place of a coin stays behind in freed memory (coins.py)."""
    if second is not None:
        rows = np.concatenate([fixed, second])
        np.copyto(rows[len(fixed) :], first, where=coins.reshape(-1, *[1] * (first.ndim - 1)))
        return rows
    places = np.flatnonzero(coins)
    rows = np.concatenate([fixed, first[: len(places)]])
    np.take(first, places, axis=0, out=rows[len(fixed) :], mode="clip")  # "raise" would write to a copy first
    places[:] = 0
    return rows


def guess(scores: FloatArray, number: int, labels: str, *, pairs: bool) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Which ``number`` slots are guessed, and as what, from the scores alone; unsure slots come last, by place."""
    unsure = np.isnan(scores)
    if labels == "both" and pairs:
        places = np.argsort(-np.where(unsure, -1.0, np.abs(scores)), kind="stable")[:number]
        return places, scores[places] > 0
    order = np.argsort(-np.where(unsure, -np.inf, scores), kind="stable")
    upward = np.argsort(np.where(unsure, np.inf, scores), kind="stable")
    if labels != "both":
        return (order if labels == "in" else upward)[:number], np.full(number, labels == "in")
    high = order[: (number + 1) // 2]
    low = upward[~np.isin(upward, high)][: number // 2]
    return np.concatenate([high, low]), np.arange(number) < high.size


def _right(scores: FloatArray, coins: NDArray[np.bool_], number: int, labels: str, *, pairs: bool) -> int:
    places, guessed = guess(scores, number, labels, pairs=pairs)
    return int((coins[places] == guessed).sum())


def _rows(records: Any, canaries: Any, *, pairs: bool) -> tuple[Any, Any, Any]:
    """Records, canaries and, for pairs, their alternatives, as arrays of one dtype and row shape."""
    if pairs and not (isinstance(canaries, (tuple, list, np.ndarray)) and len(canaries) == 2):
        raise ValueError(
            "canaries must be a pair (first, second) of arrays of m rows each for neighbours='replace-one', got"
            f" {shown(canaries)}"
        )
    given = {"records": records}
    given |= {"canaries[0]": canaries[0], "canaries[1]": canaries[1]} if pairs else {"canaries": canaries}
    arrays = {name: _array(name, value) for name, value in given.items()}
    kind = np.result_type(*[array for array in arrays.values() if array.size] or arrays.values())
    if kind.kind == "f" and all(array.dtype.kind in "biu" for array in arrays.values()):
        told = ", ".join(f"{name} of {array.dtype}" for name, array in arrays.items())
        raise TypeError(f"records and canaries must be whole numbers that one type holds, got {told}")
    for name, array in arrays.items():
        if not _kept_by(kind, array):
            raise TypeError(f"{name} must be whole numbers that {kind} holds, as that of all the rows, got others")
    rows, *slots = [array.astype(kind) for array in arrays.values()]
    if slots[0].shape[0] < 1 or any(slot.shape[1:] != rows.shape[1:] or len(slot) != len(slots[0]) for slot in slots):
        shapes = ", ".join(str(slot.shape) for slot in slots)
        raise ValueError(
            "canaries must have at least one row, rows of the shape of those of records, and for pairs as many on both"
            f" sides, got shape {shapes} beside {rows.shape}"
        )
    check_count(least=1, most=MOST_RUNS, canaries=len(slots[0]))
    return rows, slots[0], slots[1] if pairs else None


def _kept_by(kind: Any, array: NDArray[Any]) -> bool:
    """Whether whole numbers are the same in another type."""
    if array.dtype.kind not in "iu" or kind.kind != "f":
        return True
    with np.errstate(invalid="ignore"):
        return bool((array.astype(kind).astype(array.dtype) == array).all())


def _array(name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty((), dtype=object)
    if array.ndim < 1 or array.dtype.kind not in "biuf" or np.ma.is_masked(value):
        raise TypeError(f"{name} must be an array of numbers without a mask, one row for each, got {shown(value)}")
    return array


def _numbers(guesses: Any, n_canaries: int) -> tuple[int, ...]:
    if guesses is None:
        return (max(1, n_canaries // 2),)
    several = list(guesses) if isinstance(guesses, (list, tuple, range, np.ndarray)) else [guesses]
    if not 0 < len(several) <= 64:
        raise ValueError(f"guesses must be a number or up to 64 of them, got {shown(guesses)}")
    for number in several:
        check_count(least=1, most=n_canaries, guesses=number)
    return tuple(int(number) for number in dict.fromkeys(several))


def _by_density(release: Any, rows: Any) -> Any:
    if not callable(getattr(release, "log_density", None)):
        raise TypeError(f"score must be given where the release has no log_density, got {type(release).__name__}")
    return release.log_density(rows)


def _scored(score: Score, release: Any, rows: Any) -> FloatArray:
    with foreign("score raised on the canaries", passing=(Exception,)):
        found = score(release, rows)
    try:
        scores = np.asarray(unmasked(found))
        scores = np.empty(()) if np.iscomplexobj(scores) else scores.astype(float)
    except (TypeError, ValueError, OverflowError):
        scores = np.empty(())
    if scores.shape != (len(rows),):
        raise ValueError(f"score must give one number for each of {len(rows)} canaries, got {shown(found)}")
    return scores
