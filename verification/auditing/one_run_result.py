"""What an audit in one run found, and what follows from its counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from verification._arguments import check_choice, check_count, check_delta, check_non_negative, check_probability
from verification.auditing import curve_certificate
from verification.auditing.claimed_curve import ClaimedCurve
from verification.auditing.one_run_guessing import OneRunCounts, ceiling, epsilon_bound, p_value
from verification.auditing.result import claim_text, in_words, plain
from verification.auditing.rounding import exactly, rounded_down, six_digits, to_nearest

NEIGHBOURS = ("add-remove", "replace-one")


@dataclass(frozen=True, slots=True)
class OneRunResult:
    """A certified verdict on one privacy claim from one run of the mechanism on records and canaries.

    ``refuted`` and ``epsilon_lower`` are wrong together with probability at most ``false_alarm``. A pass proves
    nothing: with all guesses right the audit would have certified ``ceiling``.
    """

    refuted: bool
    claim: str  # in words
    epsilon: float | None  # the claim; None: a curve
    delta: float | None  # of the claim; of a curve: where epsilon is told
    epsilon_lower: float | None  # certified: the true epsilon at ``delta`` is at least this; None without a delta
    p_value: float  # of the claim: at most b with probability at most b if it holds
    ceiling: float | None  # ``epsilon_lower`` of the same number of guesses, were all of them right
    tries: tuple[OneRunCounts, ...]  # one for each number of guesses that was fixed beforehand
    best: int  # which of them gave the p-value
    n_included: int  # canaries that were in (for pairs: first ones)
    neighbours: str  # "add-remove" or "replace-one"
    labels: str  # what may be guessed: "both", "in" or "out"
    score: str  # name of the score
    false_alarm: float
    notes: tuple[str, ...]
    curve: ClaimedCurve | None = field(repr=False)

    @property
    def correct(self) -> int:
        """Right guesses, of the number of guesses that gave the p-value."""
        return self.tries[self.best].correct

    @property
    def guesses(self) -> int:
        """Guesses made, of the number that gave the p-value."""
        return self.tries[self.best].guesses

    @property
    def canaries(self) -> int:
        """Canaries, or pairs of them, each with a fair coin of its own."""
        return self.tries[self.best].canaries

    def as_dict(self) -> dict[str, Any]:
        """Return every field as plain JSON types, the claimed curve left out; an infinite number becomes "inf"."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("curve", "tries")}
        return plain(fields | {"tries": [counts.as_dict() for counts in self.tries], "notes": list(self.notes)})

    def __str__(self) -> str:
        return self._said(self.tries, rounded_down)

    def _said(
        self,
        tries: tuple[OneRunCounts, ...],
        bound_text: Callable[[float], str],
        number_text: Callable[[float], str] = exactly,
    ) -> str:
        right = ", ".join(f"{counts.correct:,} of {counts.guesses:,}" for counts in tries)
        guessed = f"{right} guesses right, {self.canaries:,} canaries, one run"
        certified = f"(certified, error probability {number_text(self.false_alarm)}; {guessed})"
        bound = "no epsilon is told without a delta"
        if self.epsilon_lower is not None:
            bound = f"epsilon is at least {bound_text(self.epsilon_lower)}"
            bound += f" at delta = {number_text(self.delta)}" if self.delta else ""
        notes = in_words(self.notes)
        if self.refuted:
            return f"claim {self.claim} refuted: {bound} {certified}{notes}"
        most = "" if self.ceiling is None else f"; with every guess right it would have been {self.ceiling:.4g}"
        return f"no violation of {self.claim} found: {bound} {certified}{most}; a pass is not a proof{notes}"

    def in_earlier_words(self) -> tuple[str, ...]:
        """What versions said that rounded claims, before that bounds, and before told the p-value's guesses alone.

        Their certificates hold, too.
        """
        best = (self.tries[self.best],)
        ways = ((self.tries, to_nearest), (self.tries, rounded_down), (best, to_nearest))
        return tuple(self._said(tries, bound_text, six_digits) for tries, bound_text in ways)

    def summary(self) -> str:
        """A few lines: claim, counts, what is certified and the most that could have been."""
        ends = (self.epsilon_lower, self.ceiling)
        lower, most = ("not told" if end is None else f"at least {rounded_down(end)}" for end in ends)
        at = f" at delta = {exactly(self.delta)}" if self.delta else ""
        rows = [
            ("claim", self.claim),
            ("verdict", "refuted" if self.refuted else "no violation found, which is no proof"),
            ("p-value of the claim", f"{self.p_value:.3g}"),
            (f"epsilon{at}", f"{lower}, error probability {exactly(self.false_alarm)}"),
            ("with every guess right", most),
            ("right guesses", "; ".join(f"{c.correct:,} of {c.guesses:,}" for c in self.tries)),
            ("canaries", f"{self.canaries:,}, {self.n_included:,} of them in; {self.neighbours}"),
            ("score", self.score),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join([*(f"{name:<{width}}  {value}" for name, value in rows), *self.notes])

    def save(self, path: Any, *, mechanism: str = "", pair: str = "") -> None:
        """Write a certificate (JSON) that ``python -m verification verify`` checks; see certificate_writing.py."""
        from verification.auditing.certificate_writing import save_certificate

        save_certificate(self, path, mechanism=mechanism, pair=pair)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from verification.auditing.notebook_html import audit_html

        rows = [(name.strip(), value) for name, _, value in (s.partition("  ") for s in self.summary().splitlines())]
        return audit_html(
            "Audit in one run", rows[: len(rows) - len(self.notes)], refuted=self.refuted, notes=self.notes
        )


def judged(
    tries: tuple[OneRunCounts, ...],
    claim: tuple[float, float] | ClaimedCurve,
    *,
    labels: str,
    neighbours: str,
    n_included: int,
    score: str,
    false_alarm: float,
) -> OneRunResult:
    """The verdict that follows from the counts: everything here is post-processing of them."""
    curve = claim if isinstance(claim, ClaimedCurve) else None
    if isinstance(claim, ClaimedCurve):
        epsilon, delta, words = None, claim.delta, claim.words
        epsilons, deltas = claim.epsilons, claim.allowed((labels != "out", labels != "in"))
    else:
        epsilon, delta = claim
        words = claim_text(epsilon, delta)
        epsilons, deltas = epsilon, delta  # type: ignore[assignment]
    values = [p_value([counts], epsilons=epsilons, deltas=deltas) for counts in tries]
    value = min(1.0, len(tries) * min(values))
    refuted = value <= false_alarm
    lower = most = None
    notes: tuple[str, ...] = ()
    if delta is not None:
        lower = epsilon_bound(tries, delta=delta, error=false_alarm)
        most = ceiling(tries, delta=delta, error=false_alarm)
        if epsilon is not None:  # one criterion: at the claim itself the bound and the p-value are the same event
            lower = max(lower, epsilon) if refuted else min(lower, epsilon)
            if most <= epsilon:
                refutable = f"no epsilon from {most:.4g} on at this delta"
                notes = (f"so few guesses could refute {refutable}, were all of them right",)
    return OneRunResult(
        refuted=refuted,
        claim=words,
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=lower,
        p_value=value,
        ceiling=most,
        tries=tries,
        best=values.index(min(values)),
        n_included=n_included,
        neighbours=neighbours,
        labels=labels,
        score=score,
        false_alarm=false_alarm,
        notes=notes,
        curve=curve,
    )


def _known_coins(counts: OneRunCounts, labels: str, *, pairs: bool) -> tuple[int, int]:
    """How many canaries were in, and how many out, at least: what the guesses say of the coins that they are of."""
    right, wrong = counts.correct, counts.guesses - counts.correct
    if labels != "both":
        return (right, wrong) if labels == "in" else (wrong, right)
    if pairs:  # each may be guessed either way
        return 0, 0
    said_in, said_out = (counts.guesses + 1) // 2, counts.guesses // 2
    return abs(right - said_out), abs(right - said_in)


def _check_together(tries: tuple[OneRunCounts, ...], labels: str, *, pairs: bool) -> None:
    """Raise ValueError where no scores and coins give all these counts: the surest few are among the surest many.

    Guesses of both labels of single canaries take the surest "in" first. Among equal and unsure scores some that
    fewer guesses call "out" may be "in" for more, and turn from right to wrong or back.
    """
    ordered = sorted(tries, key=lambda counts: counts.guesses)
    for few, many in itertools.combinations(ordered, 2):
        more = many.guesses - few.guesses
        if not more:
            raise ValueError(f"tries must be of different numbers of guesses, got {few.guesses} twice")
        turned = 0
        if labels == "both" and not pairs:
            turned = min(few.guesses // 2, (many.guesses + 1) // 2 - (few.guesses + 1) // 2)
        if not few.correct - turned <= many.correct <= few.correct + turned + more:
            told = " and ".join(f"{counts.correct} of {counts.guesses}" for counts in (few, many))
            raise ValueError(f"tries must be of the same canaries, the surest ones first, got {told} right")


def recomputed(stored: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a certificate of one run must say, from its counts; KeyError, TypeError or ValueError if it is none.

    A claimed curve is taken as it is stored, under the words that are; where these name a claim it must be that one's.
    """
    check_probability(false_alarm=stored["false_alarm"])
    check_choice(NEIGHBOURS, neighbours=stored["neighbours"])
    tries = tuple(OneRunCounts(**counts) for counts in stored["tries"])
    if not 0 < len(tries) <= 64 or len({(c.canaries, c.tails) for c in tries}) > 1:
        raise ValueError("tries must be of one number of canaries and labels, 64 at most")
    check_count(least=0, most=len(tries) - 1, best=stored["best"])
    labels = stored["labels"]
    if labels not in ("both", "in", "out") or tries[0].tails != (2 if labels == "both" else 1):
        raise ValueError("labels do not fit tails")
    _check_together(tries, labels, pairs=stored["neighbours"] == "replace-one")
    known = [_known_coins(c, labels, pairs=stored["neighbours"] == "replace-one") for c in tries]
    n_in, n_out = (max(numbers) for numbers in zip(*known, strict=True))
    check_count(least=n_in, most=tries[0].canaries - n_out, n_included=stored["n_included"])
    claim: Any
    if stored["epsilon"] is None:
        claim = curve_certificate.stored_curve(stored)
        curve_certificate.check_named(claim, stored["curve"])
    else:
        check_non_negative(epsilon=stored["epsilon"])
        check_delta(stored["delta"])
        claim = (float(stored["epsilon"]), float(stored["delta"]))
    found = judged(
        tries,
        claim,
        labels=labels,
        neighbours=stored["neighbours"],
        n_included=stored["n_included"],
        score=stored["score"],
        false_alarm=stored["false_alarm"],
    )
    if found.epsilon is not None and found.delta is not None:
        earlier = claim_text(found.epsilon, found.delta, six_digits)
        found = replace(found, claim=earlier if stored["claim"] == earlier else found.claim)
    fields = ("refuted", "claim", "epsilon_lower", "p_value", "ceiling", "best")
    values = {name: plain(getattr(found, name)) for name in fields}
    statement = stored["statement"] if stored.get("statement") in found.in_earlier_words() else str(found)
    return values | {"notes": list(found.notes), "statement": statement}, []
