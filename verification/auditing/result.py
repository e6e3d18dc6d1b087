"""What an audit found, what it would have caught, and the counts that prove it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification.auditing.features.bit_planes import NOT_BITS
from verification.auditing.features.column_pairs import NOT_SHARED_NOISE, NOT_TOGETHER, SHARED_NOISE
from verification.auditing.features.phases import NOT_GRIDS
from verification.auditing.rounding import exactly, rounded_down, six_digits, to_nearest
from verification.auditing.scores import NOT_REGIONS, REGIONS

EXACT_SCORE = "exact log-likelihood ratio"
LEARNERS = ("ridge", "quadratic", "monotone trees", "trees", "repeats", "mean+atoms")  # of a sequential audit
LEVELS = ("value", "bit")
FAMILY_SAYS, NOISE_HAS = "an accountant of that family says", "Gaussian noise with that mu has"  # of curves: epsilon
BY_DENSITY = "the densities given"
_BEST = "9 times in 10 with the best score"
# Noise at the detection limit, as in `verification.benchmarks.at_the_limit`; table: docs/audit-a-claim.md
HOW_OFTEN = (
    f"{_BEST} and event; as these are chosen, 4 or more where the claim is about 1 to 4, 1 or more near 0, from 5 down"
    " to less than 1 beyond 4, and fewer, hardly any of 100 runs, where several columns share fewer than 500"
)
AS_RUNS_COME = (
    f"{_BEST} from the first run on; as it is learned on the way, 3 or more, and down to none where the claim is 4 or"
    " more, where runs are fewer than 300, or where several columns share them"
)
CURVE_RARE = "; rare leaks, in one run of six or fewer, less"
TAILS = "the tails of single columns"
TOGETHER = "sums, differences and products of columns"
REPEATED = "values that repeat (where all do, in forty runs or more each)"
GRIDS = (
    "what numbers leave when divided by 1, or by the step of their grid (a whole multiple of a power of two or ten, or"
    " met often enough that neighbouring values lie few steps apart)"
)
BY_VALUE = (
    TAILS,
    TOGETHER,
    SHARED_NOISE,
    REGIONS,
    "failures and infinities",
    REPEATED,
    "the number of equal values in a run",
    GRIDS,
)
BY_BIT = (
    "each of the 64 bits of every number",
    "the parity of two bits of a number",
    "bits of a number counted in steps of a grid of a power of two",
)
UNLOOKED: dict[str, tuple[str, ...]] = {  # notes, and the kinds that they take back
    NOT_SHARED_NOISE: (SHARED_NOISE,),
    NOT_TOGETHER: (TOGETHER,),
    NOT_REGIONS: (REGIONS,),
    NOT_GRIDS: (GRIDS,),
    NOT_BITS: BY_BIT,
}
MEASURED = {BY_DENSITY, TAILS}  # kinds that are caught as often as HOW_OFTEN or AS_RUNS_COME says
_HOW_BEFORE = (
    f"{_BEST} and event; as these are chosen, 4 or more where the claim is about 1 to 4, 3 or more beyond, 1 or more"
    " near 0, and fewer, hardly any of 100 runs, where several columns share fewer than 500"
)
_AS_CHOSEN = f"{_BEST} and event; as these are chosen, 5 or more where the claim is about 1"
_SHARED_FEW = "1 or more near 0, and 2 or more where several columns share fewer than 500 runs"
_SUMS = {SHARED_NOISE: "sums of columns that share noise"}
_UNTOLD = _SUMS | {
    TAILS: "single columns and their tails",
    GRIDS: "what numbers leave when divided by 1 or by the step of their grid",
    REGIONS: "regions of up to four columns",
    REPEATED: "values that repeat",
    _HOW_BEFORE: f"{_AS_CHOSEN} or larger, 1 or more near 0",
}
# What earlier versions wrote for words of today's, the last one first; and whether they told apart, as this one does,
# kinds that are caught as often as they said from kinds that are caught less often.
_EARLIER: tuple[tuple[dict[str, str], bool], ...] = (
    ({_HOW_BEFORE: f"{_AS_CHOSEN} to 4, 3 or more beyond, {_SHARED_FEW}"}, True),
    (_SUMS | {_HOW_BEFORE: f"{_AS_CHOSEN} to 4, 3 or more beyond, {_SHARED_FEW}"}, True),
    (_SUMS | {_HOW_BEFORE: f"{_AS_CHOSEN} or larger, {_SHARED_FEW}"}, True),
    (_SUMS | {_HOW_BEFORE: _UNTOLD[_HOW_BEFORE]}, True),
    (
        _UNTOLD
        | {
            TAILS: "single columns and their tails, in steps of a fiftieth of their spread or wider",
            REGIONS: "regions of two or three columns, of four where columns are few or runs many",
            GRIDS: GRIDS,
        },
        False,
    ),
    (_UNTOLD, False),
    (_UNTOLD | {_HOW_BEFORE: f"{_BEST} and event, 6 or more as these are chosen"}, False),
)


@dataclass(frozen=True, slots=True, eq=False)
class AuditResult:
    """A certified verdict on one privacy claim, one mechanism and one pair of neighbouring data sets.

    ``refuted`` and ``epsilon_lower`` are wrong together with probability at most ``false_alarm``. A pass proves
    nothing: read it with ``detection_limit``, which holds where tails of single columns show a violation, and
    ``looked_for``, which says what else the scores can see, less often the harder it is to learn.
    """

    refuted: bool
    epsilon: float  # the claim
    delta: float  # the claim
    epsilon_lower: float  # certified: the true epsilon at the claimed delta is at least this
    delta_lower: float  # certified: the true delta at the claimed epsilon is at least this
    # Of the claim: at most b with probability at most b if it holds. With a delta it may be below ``false_alarm`` where
    # the claim is not refuted: the verdict is that of ``epsilon_lower``, which is the stricter one
    p_value: float
    e_value: float | None  # of the claim, with ``sequential``: expectation at most 1 if it holds
    n_samples: int  # runs of the mechanism, both data sets together
    n_certified: int  # of these, the runs behind the bounds
    false_alarm: float
    # Smallest epsilon that is refuted with probability 0.9 given the right score and event, as these are chosen as
    # often as HOW_OFTEN and AS_RUNS_COME say; infinite if none: detection_limit.py
    detection_limit: float
    score: str  # name of the score that ranked the outputs
    event: str  # the certified event in words
    counts: dict[str, Any]  # certified counts; the bounds follow from them
    level: str  # "value" or "bit"
    sequential: bool
    notes: tuple[str, ...]  # what a reader should know about the mechanism's outputs
    thresholds: tuple[float, ...]  # of the score, in the event
    histogram_edges: NDArray[np.float64]  # (bins + 1,), score of the certify part
    histogram: NDArray[np.int64]  # (2, bins): runs on x, runs on x_neighbour

    def __post_init__(self) -> None:
        for name in ("histogram_edges", "histogram"):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def looked_for(self) -> tuple[str, ...]:
        """Kinds of violation that the scores can see."""
        return kinds_looked_for(self.score, self.level, unlooked_in(self.notes))

    def as_dict(self) -> dict[str, Any]:
        """Return every field and ``looked_for`` as plain JSON types; an infinite number becomes "inf" or "-inf"."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["counts"] = dict(self.counts)
        fields["thresholds"] = list(self.thresholds)
        fields["notes"] = list(self.notes)
        fields["looked_for"] = list(self.looked_for)
        fields["histogram_edges"] = self.histogram_edges.tolist()
        fields["histogram"] = self.histogram.tolist()
        return plain(fields)

    def __str__(self) -> str:
        return self.said_with(rounded_down)

    def said_with(self, bound_text: Callable[[float], str], number_text: Callable[[float], str] = exactly) -> str:
        """The verdict, what is certified and what it is worth.

        ``bound_text`` writes the certified bound, ``number_text`` what was claimed and asked.
        """
        claim = claim_text(self.epsilon, self.delta, number_text)
        bound = f"epsilon is at least {bound_text(self.epsilon_lower)}"
        if self.delta > 0:
            bound += f" at delta = {number_text(self.delta)}"
        certified = f"(certified, error probability {number_text(self.false_alarm)})"
        if self.sequential and self.refuted:
            certified = f"({certified[1:-1]}, after {self.n_samples:,} runs)"
        notes = in_words(self.notes)
        if self.refuted:
            return f"claim {claim} refuted{as_bits(self.level)}: {bound} {certified}{notes}"
        power = power_words(self.detection_limit, self.looked_for, "this audit", sequential=self.sequential)
        return f"no violation found: {bound} {certified}; {power}; a pass is not a proof{notes}"

    def save(self, path: Any, *, mechanism: str = "", pair: str = "") -> None:
        """Write a certificate (JSON) that ``python -m verification verify`` checks; see certificate_writing.py."""
        from verification.auditing.certificate_writing import save_certificate

        save_certificate(self, path, mechanism=mechanism, pair=pair)

    def plot(self, ax: Any = None) -> Any:
        """Draw the score under both data sets and the chosen thresholds; return the matplotlib axes."""
        import matplotlib.pyplot as plt

        from verification.auditing.pictures import ink

        if ax is None:
            ax = plt.subplots()[1]
        for counts, name in zip(self.histogram, ("x", "x_neighbour"), strict=True):
            ax.stairs(counts / max(1, counts.sum()), self.histogram_edges, label=name, fill=True, alpha=0.5)
        low, high = self.histogram_edges[[0, -1]]
        for threshold in self.thresholds:
            ax.axvline(np.clip(threshold, low, high), color=ink(ax), linestyle="--", linewidth=1)
        ax.set_xlabel(f"score: {self.score} (log-odds of x)")
        ax.set_ylabel("share of runs")
        ax.set_title("refuted" if self.refuted else "no violation found")
        ax.legend()
        return ax

    def plot_bound(self, ax: Any = None) -> Any:
        """Draw what is claimed, what is certified and what would have been caught; return the matplotlib axes."""
        from verification.auditing.pictures import plot_bound

        return plot_bound(self, ax)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from verification.auditing.notebook_html import audit_html

        error = exactly(self.false_alarm)
        rows = [
            ("claim", claim_text(self.epsilon, self.delta)),
            ("certified", f"epsilon at least {rounded_down(self.epsilon_lower)}, error probability {error}"),
            ("would have caught", f"epsilon from {self.detection_limit:.4g} on, where it shows"),
            ("runs", f"{self.n_samples:,}"),
            ("event", self.event),
        ]
        return audit_html("Audit of a privacy claim", rows, refuted=self.refuted, notes=self.notes)


def claim_text(epsilon: float, delta: float, number_text: Callable[[float], str] = exactly) -> str:
    """A claim in words."""
    return f"epsilon = {number_text(epsilon)}" + (f", delta = {number_text(delta)}" if delta > 0 else "")


def as_bits(level: str) -> str:
    """What a refutation says of the way the outputs were read: noise that is sound as real numbers may fail as bits."""
    return ", outputs read as bits" if level == "bit" else ""


def in_words(notes: Iterable[str]) -> str:
    """Notes as a line ends with them."""
    return "".join(f"; note: {note}" for note in notes)


def power_words(limit: float, looked_for: tuple[str, ...], audit: str, *, sequential: bool) -> str:
    """What a pass is worth: the detection limit, never without the kinds of violation that it holds for."""
    if math.isinf(limit):
        return f"{audit} had too few samples to catch any epsilon"
    caught = f"too little noise, epsilon >= {limit:.4g}, {if_it_shows(looked_for, sequential=sequential)}"
    return f"{audit} would have caught {caught}; rare leaks less"


def if_it_shows(looked_for: tuple[str, ...], *, sequential: bool) -> str:
    """Where a violation of the size of the detection limit is caught how often, and what was looked for beside it."""
    measured = [kind for kind in looked_for if kind in MEASURED]
    others = [kind for kind in looked_for if kind not in MEASURED]
    how_often = AS_RUNS_COME if sequential else HOW_OFTEN
    words = f"if it shows in {', '.join(measured)} ({how_often})" if measured else "if it shows"
    if not others:
        return words
    return f"{words}; looked for as well, and caught less often the more must be learned: {', '.join(others)}"


def one_criterion(delta_lower: float, delta: float, *, refuted: bool) -> float:
    """For delta > 0, a bound of delta that agrees with the verdict: rounding must not let two bounds disagree."""
    if delta == 0:
        return delta_lower
    return max(delta_lower, float(np.nextafter(delta, 1))) if refuted else min(delta_lower, delta)


def scores_of(level: str, *, exact: bool) -> tuple[str, ...]:
    """Whose bets a sequential audit counts."""
    return (EXACT_SCORE,) if exact else LEARNERS if level == "value" else ("bits", *LEARNERS)


def unlooked_in(notes: Iterable[str]) -> set[str]:
    """Kinds that notes of an audit say were not looked for."""
    return {kind for note in notes for kind in UNLOOKED.get(note, ())}


def kinds_looked_for(score: str, level: str, unlooked: Collection[str]) -> tuple[str, ...]:
    """What a score of this name can see, but for kinds that were not looked for."""
    if score == EXACT_SCORE:
        return (BY_DENSITY,)
    kinds = BY_VALUE if level == "value" else (*BY_VALUE, *BY_BIT)
    return tuple(kind for kind in kinds if kind not in unlooked)


def _every_kinds() -> list[tuple[str, ...]]:
    """All that passes may say that they looked for, the longest first: shorter ones may begin longer ones."""
    found = {kinds_looked_for(EXACT_SCORE, LEVELS[0], ())}
    for n in range(len(UNLOOKED) + 1):
        for unlooked in itertools.combinations(UNLOOKED, n):
            found |= {kinds_looked_for("", level, unlooked_in(unlooked)) for level in LEVELS}
    return sorted(found, key=len, reverse=True)


def statement_of(result: Any, stored: Any) -> str:
    """The words of a result; where ``stored`` has those, as versions wrote them that rounded claims, or bounds, too."""
    for bound_text in (to_nearest, rounded_down):
        earlier: str = result.said_with(bound_text, six_digits)
        if stored in (earlier, *in_earlier_words(earlier)):
            return earlier
    return str(result)


def in_earlier_words(text: str) -> tuple[str, ...]:
    """What earlier versions said where this one says ``text``: their certificates hold, too."""
    before = text.replace(HOW_OFTEN, _HOW_BEFORE)
    last = before.replace(NOISE_HAS, FAMILY_SAYS).replace(CURVE_RARE, "")
    text = last.replace(AS_RUNS_COME, _HOW_BEFORE)  # which those before said of both kinds of audit
    untold = text
    for kinds in _every_kinds():
        said = if_it_shows(kinds, sequential=False).replace(HOW_OFTEN, _HOW_BEFORE)
        untold = untold.replace(said, f"if it shows in {', '.join(kinds)} ({_HOW_BEFORE})")
    found = [before, last]
    for words, told_apart in _EARLIER:
        earlier = text if told_apart else untold
        for today, before in words.items():
            earlier = earlier.replace(today, before)
        found.append(earlier)
    return tuple(found)


def plain(value: Any) -> Any:
    """``value`` with "inf", "-inf" and "nan" for floats of which JSON has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def json_text(value: Any) -> str:
    """Strict JSON, indented, of what may hold infinities."""
    return json.dumps(plain(value), indent=1, allow_nan=False)
