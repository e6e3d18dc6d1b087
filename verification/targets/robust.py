"""A tested draw of a normal law by robustness to privacy, on its release path, with planted faults."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.normal_scores import Arrangement, CountRanges, arrangement, drawn, volumes_by_row
from pm_dpgmm.mechanisms.robust_normal import RobustDesign, certified_draw, robust_design
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, Prepared, at_bits, rows_of

MODULE, SCORES = "mechanisms/robust_normal.py", "mechanisms/normal_scores.py"
FAULT = f"fault in {MODULE}"
N_RECORDS = 450  # 400 are about the fewest at this budget
REFUSED = (math.nan, math.nan)
Draw = Callable[[Arrangement, RobustDesign], tuple[float, float] | None]


@dataclass(frozen=True, slots=True)
class Runs:
    """The draws of a prepared data set."""

    draw: Draw

    def __call__(self, found: Arrangement, n_samples: int, rng: np.random.Generator) -> Any:
        """Rows of mean and standard deviation; a refusal is NaN."""
        return rows_of(lambda: self.draw(found, design()) or REFUSED, n_samples)


@functools.cache
def design() -> RobustDesign:
    """Public constants."""
    return robust_design(N_RECORDS, EPSILON, DELTA)


def prepared(records: FloatArray) -> Arrangement:
    """Areas by score."""
    return arrangement(records, CountRanges.of(N_RECORDS), limit=design().limit)


def sound(found: Arrangement, using: RobustDesign) -> tuple[float, float] | None:
    """As released."""
    return certified_draw(found, using)


def without_coin(found: Arrangement, using: RobustDesign) -> tuple[float, float] | None:
    """Fault: every level above 0 passes."""
    return drawn(found, using.log_weights) if using.level(found.volumes) else None


def without_test(found: Arrangement, using: RobustDesign) -> tuple[float, float] | None:
    """Fault: released whenever some law has a score within reach."""
    return drawn(found, using.log_weights) if found.volumes[using.reach] > 0 else None


def best_score(found: Arrangement, using: RobustDesign) -> tuple[float, float]:
    """Fault: only laws of the least score are drawn, as if the exponent were infinite."""
    least = np.flatnonzero(found.volumes)[0]
    return drawn(found, np.append(np.full(least, -np.inf), 0.0))


def centred(records: FloatArray) -> Arrangement:
    """Fault: differences from the middle record, rounded as floats, in the place of whole steps."""
    ordered = np.sort(records)
    x = ordered - ordered[len(ordered) // 2]
    ranges = CountRanges.of(N_RECORDS)
    return Arrangement(x, 1.0, ranges, volumes_by_row(x, ranges, limit=design().limit))


def of_two_sizes() -> tuple[FloatArray, FloatArray]:
    """Half of the records close together at 0, half at 1; the last moves to 0. A centre at 1 hides the gaps at 0."""
    half = np.arange(N_RECORDS // 2)
    records = np.concatenate([half * 2.0**-70, 1 + half * 2.0**-40])
    return records, np.append(records[:-1], len(half) * 2.0**-70)


def with_far(n_far: int, *, place: float = 1e5) -> FloatArray:
    """Quantiles of a normal law, ``n_far`` of them far out."""
    records = special.ndtri((np.arange(N_RECORDS) + 0.5) / N_RECORDS)
    records[np.linspace(0, N_RECORDS - 1, n_far).astype(int)] = place * (1 + np.arange(n_far))
    return np.asarray(records)


def shifted(n_far: int, place: int, value: float) -> tuple[FloatArray, FloatArray]:
    """Records with so many far out, and the same with one replaced."""
    records = with_far(n_far)
    other = records.copy()
    other[place] = value
    return records, other


@functools.cache
def edge(wanted: str) -> tuple[FloatArray, FloatArray]:
    """Neighbours, of which only the first has a level above 0, or a law within reach."""

    def inside(n_equal: int) -> bool:
        found = prepared(equal(n_equal))
        return bool(design().level(found.volumes) > 0 if wanted == "level" else found.volumes[design().reach] > 0)

    low, high = 0, N_RECORDS - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return equal(low), equal(low + 1)


def equal(n_equal: int) -> FloatArray:
    """Quantiles of a normal law, the ``n_equal`` largest moved to one place far out."""
    records = special.ndtri((np.arange(N_RECORDS) + 0.5) / N_RECORDS)
    records[N_RECORDS - n_equal :] = 1e6
    return np.asarray(records)


def targets() -> list[Specimen]:
    """Neighbours at the top, in the middle and at the foot of the table, both levels of audit; four faults."""
    claim, inf = (EPSILON, DELTA), math.inf

    def mechanism(draw: Draw) -> Prepared:
        return Prepared(prepared, Runs(draw))

    released = mechanism(sound)
    centre, middle = shifted(0, N_RECORDS // 2, 50.0), shifted(24, N_RECORDS // 2, 5e6)
    return [
        Specimen("robust_normal", MODULE, released, *centre, *claim, 1.0, False, 3_000),
        Specimen("robust_normal_scores", SCORES, released, *shifted(0, 0, 0.0), *claim, 1.0, False, 3_000),
        at_bits("robust_normal_bits", MODULE, released, *centre, *claim, 1.0, False, 2_000),
        Specimen("robust_normal_refusals", MODULE, released, *middle, *claim, 1.0, False, 3_000),
        Specimen("robust_normal_edge", MODULE, released, *edge("level"), *claim, 1.0, False, 3_000),
        Specimen("robust_normal_no_coin", FAULT, mechanism(without_coin), *edge("level"), *claim, inf, True, 1_000),
        Specimen("robust_normal_no_test", FAULT, mechanism(without_test), *edge("reach"), *claim, inf, True, 1_000),
        Specimen(
            "robust_normal_centred",
            f"fault in {SCORES}",
            Prepared(centred, Runs(sound)),
            *of_two_sizes(),
            *claim,
            inf,
            True,
            1_000,
        ),
        Specimen(
            "robust_normal_best_score",
            f"fault in {SCORES}",
            mechanism(best_score),
            *centre,
            *claim,
            inf,
            True,
            3_000,
        ),
    ]
