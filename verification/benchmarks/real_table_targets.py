"""What the real-table benchmark must reach, and which of it was missed.

The loss of a fit is what it lacks to the ceiling, none if it is above. With bounds this project's default may not be
below the better of MST and AIM by more than 0.01 on any table, and must be above both on eight of ten. Without bounds
it may lose twice what it loses with bounds, and the worst run of either three times what its median loses; 0.03 is
always allowed. Medians over divisions. A method that was not run sets no target; one that could not run misses its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from verification.benchmarks.real_table_methods import BOUNDS, NO_BOUNDS, RIVALS, Score

BEHIND, SHARE_ABOVE = 0.01, 0.8
UNBOUNDED_FACTOR, WORST_FACTOR, SLACK = 2.0, 3.0, 0.03


@dataclass(frozen=True, slots=True)
class Summary:
    """One method on one table. Gaps are NaN where it did not run, -inf where it refused."""

    table: str
    method: str
    n_runs: int
    median: float
    worst: float
    seconds: float
    note: str


@dataclass(frozen=True, slots=True)
class Target:
    """One requirement and the figure that was found: a gap, or a share of tables."""

    what: str
    limit: float
    found: float

    @property
    def missed(self) -> bool:
        """Whether the figure is below the limit; NaN is."""
        return not self.found >= self.limit

    def __str__(self) -> str:
        return f"{self.what:<66} {self.found:9.3f} >= {self.limit:<8.3f} {'MISSED' if self.missed else 'met'}"


def summarised(scores: Iterable[Score]) -> list[Summary]:
    """One summary for every method and table, in the order of first appearance."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.table, score.method), []).append(score)
    return [_summary(*key, group) for key, group in groups.items()]


def _summary(table: str, method: str, group: list[Score]) -> Summary:
    ran = [one for one in group if one.ran]
    if not ran:
        return Summary(table, method, 0, math.nan, math.nan, math.nan, group[0].note)
    gaps = np.array([one.gap for one in ran])
    refused, timed = int(np.isinf(gaps).sum()), [one.seconds for one in ran if math.isfinite(one.seconds)]
    # of an even number the lower middle one: no mean with an infinity
    median = float(np.sort(gaps)[(len(gaps) - 1) // 2]) if refused else float(np.median(gaps))
    note = f"refused {refused} of {len(ran)}" if refused else ""
    return Summary(
        table, method, len(ran), median, float(gaps.min()), float(np.median(timed)) if timed else math.nan, note
    )


def targets(summaries: Iterable[Summary]) -> list[Target]:
    """Requirements of the tables and methods that were run."""
    table = {(one.table, one.method): one for one in summaries}
    found, above = [], []
    for name in dict.fromkeys(name for name, _ in table):
        ours, unbounded = table.get((name, BOUNDS)), table.get((name, NO_BOUNDS))
        rivals = [table[name, rival].median for rival in RIVALS if (name, rival) in table]
        rivals = [median for median in rivals if not math.isnan(median)]
        if ours is not None and rivals:
            found.append(Target(f"{name}: bounds beside the better of MST and AIM", max(rivals) - BEHIND, ours.median))
            above.append(ours.median > max(rivals))
        if ours is not None and unbounded is not None:
            limit = _allowed(ours.median, UNBOUNDED_FACTOR)
            found.append(Target(f"{name}: no bounds beside bounds", limit, unbounded.median))
        for one in (ours, unbounded):
            if one is not None:
                what = f"{name}: worst run of {one.method} beside its median"
                found.append(Target(what, _allowed(one.median, WORST_FACTOR), one.worst))
    if above:
        found.append(Target(f"share of {len(above)} tables with bounds above both", SHARE_ABOVE, float(np.mean(above))))
    return found


def _allowed(gap: float, factor: float) -> float:
    """The least gap that loses at most ``factor`` times what ``gap`` does, or the slack; NaN from a refusal."""
    return -max(factor * max(-gap, 0.0), SLACK) if math.isfinite(gap) else math.nan
