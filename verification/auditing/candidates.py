"""Pairs of neighbouring data sets as candidates of a search: checked, drawn from a strategy, put in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from verification._arguments import check_delta, check_non_negative, check_probability, shown
from verification.auditing.audit import audit

Pair = tuple[Any, Any]

LEAST_RUNS = 250  # measured: below, an audit's thresholds rest on so few runs that it sees next to nothing


def check_claim(epsilon: Any, delta: Any, false_alarm: Any) -> None:
    check_non_negative(epsilon=epsilon)
    check_delta(delta)
    check_probability(false_alarm=false_alarm)


def checked_pairs(pairs: list[Any]) -> list[Pair]:
    if not pairs:
        raise ValueError("pairs must hold at least one pair, got none")
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"each pair must be a tuple (x, x_neighbour), got {shown(pair)}")
    return [(pair[0], pair[1]) for pair in pairs]


def hypothesis_for(name: str, strategy: Any) -> Any:
    """The module, if ``strategy`` is one of its strategies."""
    import hypothesis
    from hypothesis.strategies import SearchStrategy

    if not isinstance(strategy, SearchStrategy):
        raise TypeError(
            f"{name} must be a Hypothesis strategy of pairs (x, x_neighbour), or for worst_pair an iterable of pairs,"
            f" got {shown(strategy)} of type {type(strategy).__name__}"
        )
    return hypothesis


def drawn_pairs(name: str, strategy: Any, n_pairs: int, rng: np.random.Generator) -> list[Any]:
    hypothesis = hypothesis_for(name, strategy)
    drawn: list[Any] = []

    @hypothesis.seed(int(rng.integers(2**63)))
    @hypothesis.settings(
        max_examples=n_pairs,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def draw(pair: Any) -> None:
        drawn.append(pair)

    draw()
    return drawn[:n_pairs]


def audit_pair(mechanism: Any, pair: Pair, *, place: str = "", **arguments: Any) -> Any:
    """The audit of a pair; where it fails, a note on the error says of which pair."""
    try:
        return audit(mechanism, *pair, **arguments)
    except Exception as raised:
        raised.add_note(f"in the audit of {place}{pair_words(pair)}")
        raise


def pair_words(pair: Pair) -> str:
    return f"x = {shown(pair[0])}, x_neighbour = {shown(pair[1])}"
