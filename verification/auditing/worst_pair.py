"""Which of many neighbouring pairs exposes a mechanism most; the smallest that does is in ``minimal_pair.py``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from verification._arguments import check_callable, check_count, check_delta, check_probability, check_rng, shown
from verification.auditing.candidates import (
    LEAST_RUNS,
    Pair,
    audit_pair,
    checked_pairs,
    drawn_pairs,
    pair_words,
)
from verification.auditing.claimed_curve import claim_of
from verification.auditing.curve_result import CurveAuditResult
from verification.auditing.minimal_pair import MinimalPair, minimal_pair
from verification.auditing.result import AuditResult

__all__ = ["MinimalPair", "SearchRound", "WorstPair", "minimal_pair", "worst_pair"]

BOUNDS = ("epsilon_lower", "parameter_lower")  # that rank pairs: of a claim of (epsilon, delta), of one of a curve
RANK_ERROR = 0.2  # error probability of the bounds that rank pairs; 0.05 and 0.5 choose as well within noise


@dataclass(frozen=True, slots=True)
class SearchRound:
    """Small audits of the pairs that were left. They rank pairs and certify nothing."""

    candidates: tuple[int, ...]  # places of the pairs, worst first
    n_samples: int  # runs of each
    epsilon_lower: tuple[float, ...]  # at error probability RANK_ERROR, not corrected for the number of pairs
    p_value: tuple[float, ...]
    parameter_lower: tuple[float, ...] = ()  # of a claimed curve, mu or rho, in the place of ``epsilon_lower``

    def as_dict(self) -> dict[str, Any]:
        """Return every field as plain JSON types."""
        lists = {name: list(getattr(self, name)) for name in ("candidates", *BOUNDS, "p_value")}
        return {"n_samples": self.n_samples, **lists}


@dataclass(frozen=True, slots=True, eq=False)
class WorstPair:
    """The pair that looked worst, its certified audit on fresh runs, and the search that found it."""

    pair: Pair
    place: int  # of ``pair`` among the pairs given or drawn
    result: AuditResult | CurveAuditResult
    history: tuple[SearchRound, ...]
    names: tuple[str, ...] = ()  # of all pairs, if they were given with names

    @property
    def name(self) -> str:
        """Of ``pair``, if pairs were given with names, or its place."""
        return self.names[self.place] if self.names else str(self.place)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted on this pair."""
        return self.result.refuted

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the pair as plain JSON types."""
        found = {"place": self.place, "name": self.name, "names": list(self.names)}
        return found | {"result": self.result.as_dict(), "history": [r.as_dict() for r in self.history]}

    def __str__(self) -> str:
        n_pairs = len(self.history[0].candidates) if self.history else 1
        which = f'pair "{self.name}" of {n_pairs}' if self.names else f"pair {self.place} of 0 to {n_pairs - 1}"
        return f"{self.result} ({which}, {pair_words(self.pair)})"


def worst_pair(
    mechanism: Any,
    pairs: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    guarantee: Any = None,
    profile: Any = None,
    n_samples: int = 200_000,
    search_share: float = 0.5,
    false_alarm: float = 0.05,
    n_pairs: int = 16,
    rng: np.random.Generator | None = None,
    progress: Callable[[SearchRound], None] = lambda search_round: None,
    **options: Any,
) -> WorstPair:
    """Search the worst of many neighbouring pairs by successive halving, then audit it on fresh runs.

    Parameters
    ----------
    mechanism
        As in `audit`. Its runs must be independent of its earlier ones.
    pairs : iterable of (x, x_neighbour), mapping of names to them, or Hypothesis strategy of such pairs
        Candidates; `auditing.neighbour_kinds.neighbours_of` makes named ones, `verification.neighbours`
        has strategies. From a strategy ``n_pairs`` are drawn.
    epsilon, delta, guarantee, profile
        The claim, as in `audit`: (epsilon, delta) or a whole curve, which needs far fewer runs where delta is small.
    n_samples : int
        Runs in total, for search and certificate.
    search_share : float
        Share of the runs that the search may use, in (0, 1). Its rounds share them equally, and so do the pairs within
        a round; the worse half of the pairs, by ``epsilon_lower`` (of a curve ``parameter_lower``) and then
        ``p_value``, goes on. One pair needs no search.
    false_alarm : float
        Error probability of ``result``.
    n_pairs : int
        Pairs drawn from a strategy, fewer if it has no more.
    rng : numpy.random.Generator, optional
        None: fresh entropy.
    progress : callable
        Called with the `SearchRound` after each round.
    **options
        Further keyword arguments of `audit`, for search and certificate: ``log_density``, ``level``.

    Returns
    -------
    WorstPair

    Raises
    ------
    TypeError, ValueError
        If an argument breaks these rules or those of `audit`; if there are too few runs for 250 on each pair.

    Guarantee
    ---------
    ``result.epsilon_lower`` exceeds the true epsilon of ``pair`` at ``delta`` with probability at most ``false_alarm``,
    whatever the number of pairs, and so exceeds the epsilon of the mechanism, a supremum over pairs, at most as often;
    a curve that holds for every pair is refuted at most as often.
    No correction is needed: the winner is a function of the search's runs, the certificate's are independent of those,
    and given any winner the audit errs with at most this probability. The bounds in ``history`` have no such guarantee:
    the largest of many is too large.

    Example
    -------
    >>> def laplace(data, n, rng):
    ...     return np.sum(data) + rng.laplace(size=n)
    >>> pairs = [([1.0], [0.5]), ([1.0], []), ([1.0], [3.0])]
    >>> rng = np.random.default_rng(1)
    >>> worst = worst_pair(laplace, pairs, epsilon=1.0, n_samples=40_000, rng=rng)
    >>> worst.pair, worst.refuted
    (([1.0], [3.0]), True)

    Source
    ------
    Karnin, Koren and Somekh (2013), Almost optimal exploration in multi-armed bandits: sequential halving.
    """
    claim_of(epsilon, guarantee=guarantee, profile=profile, delta=delta)
    check_delta(delta)
    check_probability(false_alarm=false_alarm, search_share=search_share)
    given_claim = {"epsilon": epsilon, "guarantee": guarantee, "profile": profile}
    claim: dict[str, Any] = {"delta": delta} | {name: value for name, value in given_claim.items() if value is not None}
    check_count(least=LEAST_RUNS, n_samples=n_samples)
    check_count(least=1, n_pairs=n_pairs)
    check_callable(progress=progress)
    if options.get("sequential"):
        raise ValueError(
            "sequential must be False for worst_pair, which compares bounds: audits that stop early have no such bounds"
        )
    rng = check_rng(rng)
    names = tuple(map(str, pairs)) if isinstance(pairs, Mapping) else ()
    if len(set(names)) < len(names):
        raise ValueError(f"pairs must have names that differ as texts, got {shown(list(pairs))}")
    given = pairs.values() if isinstance(pairs, Mapping) else pairs
    most = n_samples // LEAST_RUNS + 1  # already too many for the runs: a source without end is one, too
    first = list(islice(given, most)) if isinstance(given, Iterable) else drawn_pairs("pairs", pairs, n_pairs, rng)
    found = checked_pairs(first)

    n_rounds = math.ceil(math.log2(len(found)))
    budget = math.floor(search_share * n_samples) // max(1, n_rounds)  # of a round
    told = f"{len(found)} or more" if len(found) == most else str(len(found))
    if n_rounds and min(budget // len(found), n_samples - n_rounds * budget) < LEAST_RUNS:
        raise ValueError(
            f"n_samples must allow {LEAST_RUNS} runs on each of {told} pairs in {n_rounds} rounds of the search"
            f" and {LEAST_RUNS} for the certificate, got {n_samples} with search_share {search_share:g}"
        )

    def run(place: int, runs: int, error: float) -> AuditResult | CurveAuditResult:
        words = f"pair {names[place] if names else place}: "
        own = {"n_samples": runs, "false_alarm": error}
        return audit_pair(mechanism, found[place], place=words, **claim, **own, rng=rng, **options)

    bound = BOUNDS[epsilon is None]
    left, history, spent = list(range(len(found))), [], 0
    while len(left) > 1:
        runs = budget // len(left)
        results = {place: run(place, runs, RANK_ERROR) for place in left}
        spent += runs * len(left)
        lower = {place: float(getattr(results[place], bound)) for place in left}
        left.sort(key=lambda place: (-lower[place], results[place].p_value))  # stable: first among equals
        p_values = tuple(float(results[place].p_value) for place in left)
        ranked: dict[str, tuple[float, ...]] = dict.fromkeys(BOUNDS, ())
        ranked[bound] = tuple(lower[place] for place in left)
        history.append(SearchRound(tuple(left), runs, p_value=p_values, **ranked))
        progress(history[-1])
        left = left[: math.ceil(len(left) / 2)]
    winner = left[0]
    result = run(winner, n_samples - spent, false_alarm)
    return WorstPair(found[winner], winner, result, tuple(history), names)
