"""Records in no bin that was kept, as few others are near: without bounds their place was not released.

Far from the others, they count at another place (aliasing), and the sketch alone does not tell. Post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.sketch.choice import EXPLAINS
from pm_dpgmm.methods.sketch.estimate import SketchFit
from pm_dpgmm.methods.sketch.statistics import SketchStatistics

OUTSIDE, OUTSIDE_SURE = 0.1, 2.0  # share of the records in no kept bin that counts, and deviations of it
LOST, LOST_SURE = 0.01, 3.5  # the same of what is there beyond what the mixture has there: false alarm 3e-4 a column


class Outside(NamedTuple):
    """Records in no kept bin of a column, as shares of all."""

    counted: float
    expected: float  # by the mixture
    noise: float  # standard deviation of ``counted``, without that of the number of records

    def deviation(self, evidence: SketchStatistics) -> float:
        return float(np.hypot(self.noise, evidence.n_records_scale / evidence.n_records))

    def are_many(self, evidence: SketchStatistics) -> bool:
        return self.counted - OUTSIDE_SURE * self.deviation(evidence) > OUTSIDE

    def surely_lost(self, evidence: SketchStatistics) -> bool:
        """More than the mixture has there."""
        sampling = np.sqrt(max(self.counted, 0.0) / evidence.n_records)
        sure = LOST_SURE * np.hypot(self.deviation(evidence), sampling)
        return bool(self.counted - self.expected > max(sure, LOST))


def records_outside(
    raw: Mapping[str, FloatArray], evidence: SketchStatistics, fit: SketchFit, noise: NDArray[np.bool_]
) -> str | None:
    """That there are many, or more than the mixture has there.

    Bins of few records are not kept, so some always are; fewer count where the mixture has them elsewhere. A group that
    is far away in every column is outside in all of them, so they are also looked at together. ``noise`` (K,): which
    components are likely to be that; no record is taken to be theirs.
    """
    if "bin_noise" not in raw:
        return None
    columns = [_outside(raw, evidence, fit, j, noise) for j in range(len(evidence.unit))]
    told = [
        f"about {one.counted:.0%} in column {j}"
        for j, one in enumerate(columns)
        if one.are_many(evidence) or one.surely_lost(evidence)
    ]
    if not told:
        counted, expected, noises = np.transpose(columns)
        together = Outside(counted.mean(), expected.mean(), float(np.linalg.norm(noises)) / len(columns))
        if not together.surely_lost(evidence):
            return None
        told = [f"about {together.counted:.0%} in all columns together"]
    return (
        f"many records lie where too few do for their place to be released ({', '.join(told)}): if it is far from"
        " the others, the fit has them elsewhere. Bounds, more records or a larger budget would tell"
    )


def _outside(
    raw: Mapping[str, FloatArray], evidence: SketchStatistics, fit: SketchFit, column: int, noise: NDArray[np.bool_]
) -> Outside:
    counts = raw[f"bin_counts_{column}"]
    counted = 1 - counts.sum() / evidence.n_records
    deviation = np.sqrt(counts.size) * raw["bin_noise"][0] / evidence.n_records
    return Outside(counted, 1 - _share_in_bins(raw, fit, column, noise), deviation)


def _share_in_bins(raw: Mapping[str, FloatArray], fit: SketchFit, column: int, noise: NDArray[np.bool_]) -> float:
    """Of the mixture, in the kept bins of a column; none where a file does not say where they are.

    Of components that are sure to be there: where the numbers contradict the mixture, one that is mostly in no kept bin
    may stand for records that lie elsewhere.
    """
    width, index = raw.get("bin_width"), raw.get(f"bin_index_{column}")
    if width is None or index is None or width.ndim != 1 or width.size <= column:
        return 0.0
    density = fit.density
    deviations = np.sqrt(density.covariances[:, column, column])
    edges = (index.ravel()[:, None] + [0.0, 1.0]) * width[column]
    below = special.ndtr((edges[..., None] - density.means[:, column]) / deviations)
    inside = (below[:, 1] - below[:, 0]).sum(axis=0)
    sure = ~np.pad(noise, (0, len(inside) - len(noise)))
    if fit.misfit > EXPLAINS:
        sure &= inside > 0.5
    weights = density.weights * sure if sure.any() else density.weights
    return float(inside @ weights / weights.sum())
