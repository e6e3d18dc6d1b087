"""What a release of method "gaps" holds, and the checks of files from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray, check_count, check_positive, finite_numbers, shown
from pm_dpgmm.mechanisms.gap_histogram import LARGEST_PLACE, MOST_CELL_BITS, GapCounts
from pm_dpgmm.mechanisms.histogram import SMALLEST_SCALE
from pm_dpgmm.methods.gaps.bin_fit import Bins
from pm_dpgmm.methods.gaps.groups import MOST_BINS, MOST_CELLS, MOST_GROUPS, RUNGS

MOST_RECORDS = 2**53  # larger integers are no exact floats
MOST_EDGES = MOST_GROUPS * (MOST_BINS + 1 + 2 * RUNGS)
EXPONENTS = -1_100, 1_100


@dataclass(frozen=True, slots=True, eq=False)
class GapStatistics:
    """Noisy counts of gaps and of bins."""

    gaps: GapCounts
    bins: Bins
    n_records: int | None  # in the bins; None where it is private

    @classmethod
    def of(cls, raw: Mapping[str, Any], law: Mapping[str, Any]) -> GapStatistics:
        """From the numbers of a release or a checkpoint; TypeError or ValueError unless they fit each other."""
        names = {"gap_exponents": raw, "gap_places": raw, "gap_counts": raw, "edges": raw, "counts": raw}
        for name, where in (names | {"scale": law, "cell_bits": law}).items():
            if name not in where:
                raise ValueError(f"a release of method 'gaps' must have {name}, got none")
        counts = finite_numbers(raw["gap_counts"], "gap_counts")
        if counts.ndim != 1 or not 1 <= counts.size <= MOST_CELLS or not (counts >= 1).all():
            raise ValueError(f"gap_counts must be 1 to {MOST_CELLS} positive numbers, got shape {counts.shape}")
        exponents = _whole(raw["gap_exponents"], "gap_exponents", counts.shape, *EXPONENTS)
        places = _whole(raw["gap_places"], "gap_places", counts.shape, -LARGEST_PLACE, LARGEST_PLACE)
        check_count(least=0, most=MOST_CELL_BITS, cell_bits=law["cell_bits"])
        gaps = GapCounts(exponents.astype(np.int64), places, np.rint(counts).astype(np.int64), int(law["cell_bits"]))
        if not (np.isfinite(gaps.lows).all() and np.isfinite(gaps.widths).all()):
            raise ValueError("gap_places and gap_exponents must be of cells on the line, got others")
        edges = finite_numbers(raw["edges"], "edges")
        if edges.ndim != 1 or not 2 <= edges.size <= MOST_EDGES or not (np.diff(edges) > 0).all():
            raise ValueError(f"edges must increase and be 2 to {MOST_EDGES}, got shape {edges.shape}")
        noisy = finite_numbers(raw["counts"], "counts", (edges.size + 1,))
        if not (np.abs(noisy) <= MOST_RECORDS).all():
            raise ValueError(f"counts must be of size at most 2^53, got {np.abs(noisy).max():g}")
        check_positive(scale=law["scale"])
        if not SMALLEST_SCALE <= law["scale"] <= MOST_RECORDS:
            raise ValueError(f"scale must be of size {SMALLEST_SCALE:g} to 2^53, got {shown(law['scale'])}")
        n_records = law.get("bin_records")
        if n_records is not None:
            check_count(least=0, most=MOST_RECORDS, bin_records=n_records)
        return cls(gaps, Bins(edges, noisy, float(law["scale"])), n_records)


def _whole(given: Any, name: str, shape: tuple[int, ...], low: float, high: float) -> FloatArray:
    values = finite_numbers(given, name, shape)
    if not ((values >= low) & (values <= high) & (values % 1 == 0)).all():
        raise ValueError(f"{name} must be whole numbers from {low:g} to {high:g}, got others")
    return values
