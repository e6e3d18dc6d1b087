"""The smallest neighbouring pair that refutes a claim."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from verification._arguments import check_callable, check_count, check_rng
from verification.auditing.candidates import (
    LEAST_RUNS,
    Pair,
    audit_pair,
    check_claim,
    checked_pairs,
    hypothesis_for,
    pair_words,
)
from verification.auditing.result import AuditResult, in_words, power_words


class _SearchFailed(BaseException):
    """Ends a search at once: any Exception Hypothesis would replay, shrink, and call flaky where it came by chance."""


@dataclass(frozen=True, slots=True, eq=False)
class MinimalPair:
    """The simplest pair that refutes a claim, or the news that none did."""

    pair: Pair | None  # None: no pair tried was refuted
    result: AuditResult | None  # of ``pair``, on fresh runs
    n_tried: int  # different pairs audited, those of the shrinking included
    detection_limit: float  # of the audit of each pair tried
    looked_for: tuple[str, ...] = ()  # kinds of violation that the scores can see, on every pair
    notes: tuple[str, ...] = ()  # of the audits of the pairs tried, each once
    sequential: bool = False  # whether these audits were

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted: a pair was found, and fresh runs confirm it."""
        return self.result is not None and self.result.refuted

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the pair as plain JSON types; an infinite number becomes the string "inf"."""
        limit = self.detection_limit
        return {
            "refuted": self.refuted,
            "result": None if self.result is None else self.result.as_dict(),
            "n_tried": self.n_tried,
            "detection_limit": limit if math.isfinite(limit) else str(limit),
            "looked_for": list(self.looked_for),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        if self.pair is None:
            power = power_words(self.detection_limit, self.looked_for, "each audit", sequential=self.sequential)
            notes = in_words(self.notes)
            return f"no violation found on {self.n_tried} pairs; {power}; a pass is not a proof{notes}"
        found = f"{self.result} ({pair_words(self.pair)}, the simplest that was refuted of {self.n_tried} pairs)"
        return found if self.refuted else f"refuted in the search, but not on fresh runs: {found}"


def minimal_pair(
    mechanism: Any,
    strategy: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    n_samples: int = 50_000,
    n_search: int = 5_000,
    n_pairs: int = 100,
    false_alarm: float = 0.05,
    rng: np.random.Generator | None = None,
    progress: Callable[[Pair, AuditResult], None] = lambda pair, result: None,
    **options: Any,
) -> MinimalPair:
    """Find a neighbouring pair that refutes a claim, shrink it while it does, and audit what is left on fresh runs.

    Parameters
    ----------
    mechanism
        As in `audit`. Its runs must be independent of its earlier ones.
    strategy : Hypothesis strategy of (x, x_neighbour)
        For example `verification.neighbours.add_remove_pairs`. What is simpler is up to the strategy: fewer records,
        numbers nearer 0.
    epsilon, delta : float
        The claim, as in `audit`.
    n_samples : int
        Runs of the final audit. Several times ``n_search``: among pairs near the limit of what an audit can catch,
        shrinking prefers the lucky ones.
    n_search : int
        Runs on each pair tried, at least 250; the less a mechanism violates its claim, the more it needs.
    n_pairs : int
        Pairs tried before giving up. Shrinking tries some hundreds more.
    false_alarm : float
        Error probability of ``result``; each pair tried is audited at ``false_alarm / n_pairs``.
    rng : numpy.random.Generator, optional
        None: fresh entropy.
    progress : callable
        Called with every pair tried and its audit.
    **options
        Further keyword arguments of `audit`: ``log_density``, ``level``.

    Returns
    -------
    MinimalPair
        ``pair`` is None if no pair tried was refuted: no error, but no proof either.

    Raises
    ------
    TypeError, ValueError
        If an argument breaks these rules or those of `audit`.
    RuntimeError
        If ``mechanism`` raises; its error is the cause. The first error of an audit ends the search, and a note on it
        names the pair.
    ImportError
        Without Hypothesis.

    Guarantee
    ---------
    ``result`` errs with probability at most ``false_alarm``, however many pairs were tried: its runs are independent of
    those that chose the pair, as in `worst_pair`. One pair has one verdict during the search, from a seed made of its
    bytes and a number drawn from ``rng``, and remembered for mechanisms with randomness of their own; Hypothesis relies
    on that when it replays a pair.

    Example
    -------
    >>> from hypothesis import strategies as st
    >>> from verification.neighbours import add_remove_pairs
    >>> def total(data, n, rng):  # sensitivity 1 claimed, but nobody clips the records
    ...     return np.sum(data) + rng.laplace(size=n)
    >>> pairs = add_remove_pairs(n_features=1, elements=st.integers(-50, 50).map(float))
    >>> found = minimal_pair(total, pairs, epsilon=1.0, false_alarm=1e-4, rng=np.random.default_rng(1))
    >>> found.refuted, max(found.pair, key=len)
    (True, array([[2.]]))

    Source
    ------
    MacIver and Donaldson (2020), Test-case reduction via test-case generation: the shrinking of Hypothesis.
    """
    check_claim(epsilon, delta, false_alarm)
    check_count(least=LEAST_RUNS, n_samples=n_samples, n_search=n_search)
    check_count(least=1, n_pairs=n_pairs)
    check_callable(progress=progress)
    rng = check_rng(rng)
    hypothesis = hypothesis_for("strategy", strategy)
    base = int(rng.integers(2**63))
    tried: dict[bytes, AuditResult] = {}
    failed: Exception | None = None

    def run(pair: Pair, **given: Any) -> AuditResult:
        return audit_pair(mechanism, pair, epsilon=epsilon, delta=delta, **options, **given)

    def refuted(pair: Pair) -> bool:
        nonlocal failed
        try:
            checked_pairs([pair])
            key = hashlib.sha256(_bytes(pair)).digest()
            if key not in tried:
                own = np.random.default_rng([base, *key])
                tried[key] = run(pair, n_samples=n_search, false_alarm=false_alarm / n_pairs, rng=own)
                progress(pair, tried[key])
        except Exception as raised:
            failed = raised
            raise _SearchFailed from raised
        return tried[key].refuted

    settings = hypothesis.settings(
        max_examples=n_pairs,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    try:
        pair = hypothesis.find(strategy, refuted, settings=settings, random=Random(int(rng.integers(2**63))))
    except hypothesis.errors.NoSuchExample:
        pair = None
    except _SearchFailed:
        assert failed is not None
    if failed is not None:  # outside of the handler, so that the traceback tells of nothing else
        raise failed
    result = None if pair is None else run(pair, n_samples=n_samples, false_alarm=false_alarm, rng=rng)
    limit = max((one.detection_limit for one in tried.values()), default=math.inf)
    kinds = next((one.looked_for for one in tried.values()), ())
    kinds = tuple(kind for kind in kinds if all(kind in one.looked_for for one in tried.values()))
    notes = dict.fromkeys(note for one in tried.values() for note in one.notes)
    sequential = bool(options.get("sequential", False))
    return MinimalPair(pair, result, len(tried), limit, kinds, tuple(notes), sequential)


def _bytes(data: Any) -> bytes:
    """Bytes that are equal for equal data, whatever objects they share."""
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        return repr((data.dtype.str, data.shape)).encode() + data.tobytes()
    if isinstance(data, (tuple, list)):
        return repr((type(data).__name__, len(data))).encode() + b"".join(map(_bytes, data))
    try:
        return pickle.dumps(data)
    except (pickle.PicklingError, AttributeError, TypeError):  # functions of a session, say
        import cloudpickle

        return bytes(cloudpickle.dumps(data))
