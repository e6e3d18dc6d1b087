"""Pure-DP histogram in one or two dimensions, then a mixture fit on the noisy counts. Proof: histogram.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, plain_numbers
from pm_dpgmm.mechanisms.histogram import MOST_COUNTS, cell_counts, histogram_loss, noisy_counts
from pm_dpgmm.methods.counts.background import beside_histogram
from pm_dpgmm.methods.counts.bins import read_bins
from pm_dpgmm.methods.counts.caveats import count_caveats
from pm_dpgmm.methods.counts.histogram_fit import N_PARTS, fit_counts
from pm_dpgmm.methods.counts.one_more import gain_of_one_more
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, kept_by_nobody
from pm_dpgmm.mixture.far_rows import far_rows
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.privacy.noise import Rng
from pm_dpgmm.records.resolution import FARTHEST, MOST

DEFAULT_BINS = {1: 64, 2: 32}  # per column; a public choice that never looks at the records


@dataclass(frozen=True, slots=True, init=False)
class HistogramMethod(Method):
    """Settings of ``method="histogram"``.

    Parameters
    ----------
    n_bins : int, optional
        Bins along each column; 64 in one dimension, 32 in two. No component comes out narrower than half a bin in a
        column, or, across columns that correlate, than about a tenth. The time of a fit grows with bins times
        components: a minute for 100,000 bins and two. ``n_cells``, its former name, is taken too.

    Guarantee
    ---------
    epsilon-DP (delta is 0 whatever the budget's delta) for the noisy counts, under replace-one or add-remove
    neighbours; the mixture is a function of them. Proof: histogram.md.
    """

    n_bins: int | None = None
    name: ClassVar[str] = "histogram"
    knows_rounding: ClassVar[bool] = True  # columns may be rounded

    def __init__(self, n_bins: int | None = None, *, n_cells: int | None = None) -> None:
        object.__setattr__(self, "n_bins", read_bins(n_bins, n_cells))
        plain_numbers(self)

    @property
    def n_cells(self) -> int | None:
        """The former name of ``n_bins``."""
        return self.n_bins

    def recorded(self) -> dict[str, Any]:
        """The settings as every release has held them: a file of today loads with an older version."""
        return {"n_cells": self.n_bins}

    def bins(self, n_features: int) -> int:
        """Bins along each column."""
        return self.n_bins if self.n_bins is not None else DEFAULT_BINS[n_features]

    def grid(self, problem: Problem) -> tuple[FloatArray, int]:
        """Bounds (D, 2) of the bins and how many there are along every column: public.

        A rounded column has bins of whole numbers of steps that end half way between values: a record is in the bin of
        its value before it was rounded, so the law of the counts is that of the mixture.
        """
        assert problem.bounds is not None
        most = self.bins(problem.n_features)
        if problem.resolution is None:
            return problem.bounds, most
        steps, rounded = _steps(problem), problem.resolution > 0
        first, last = np.floor(problem.bounds[:, 0] / steps), np.ceil(problem.bounds[:, 1] / steps)
        of_bin = np.ceil((last - first + 1) / most)  # steps
        needed = np.where(rounded, np.ceil((last - first + 1) / of_bin), most)
        n_bins = max(2, int(needed.max()))
        low = (first - 0.5) * steps
        aligned = np.column_stack([low, low + n_bins * of_bin * steps])
        return np.where(rounded[:, None], aligned, problem.bounds), n_bins

    def cost(self, problem: Problem) -> tuple[float, float]:
        """All of epsilon; delta is not needed."""
        return problem.epsilon, 0.0

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        loss = histogram_loss(epsilon=problem.epsilon, neighbouring=problem.neighbouring)
        words = "geometric histogram (mechanisms/histogram.md)"
        return Guarantee(problem.epsilon, 0.0, problem.neighbouring, words, loss)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless there are bounds and at most two columns."""
        if problem.n_features not in DEFAULT_BINS:
            raise ValueError(f"method 'histogram' supports 1 or 2 features, got {problem.n_features}")
        if problem.bounds is None:
            raise ValueError("method 'histogram' needs bounds: public lower and upper limits of every column, got None")
        if problem.resolution is not None and (np.abs(problem.bounds) > FARTHEST * _steps(problem)[:, None]).any():
            rule = f"resolution must be at least the bounds over {FARTHEST:g}"
            raise ValueError(f"{rule}, got {problem.resolution.tolist()} and bounds {problem.bounds.tolist()}")
        bounds, n_bins = self.grid(problem)
        width = (bounds[:, 1] / 2 - bounds[:, 0] / 2) / n_bins * 2
        if width.min() < 1e-100 or np.abs(bounds).max() > 1e100:
            raise ValueError(
                f"bounds must lie within 1e100 with bins wider than 1e-100, also where those of rounded values end, got"
                f" {bounds.tolist()}; rescale"
            )
        total = n_bins**problem.n_features
        if total > MOST_COUNTS:
            raise ValueError(f"n_bins must give at most {MOST_COUNTS} bins, which a file can hold, got {total}")
        if total < 2 * problem.n_components:
            raise ValueError(f"n_bins must give at least 2 bins for each component, got {total} bins")
        self.guarantee(problem).check_storable()

    def release(
        self,
        records: FloatArray,
        problem: Problem,
        *,
        learner: Any,
        n_jobs: int | None,
        progress: Progress,
        rng: Rng,
        released: Listener = kept_by_nobody,
    ) -> Outcome:
        """Count, add noise once, fit; see the class for the guarantee."""
        assert problem.bounds is not None
        bounds, n_bins = self.grid(problem)
        if problem.resolution is not None:  # bins may reach beyond the bounds
            records = np.clip(records, problem.bounds[:, 0], problem.bounds[:, 1])
        counts = cell_counts(records, bounds=bounds, n_cells=n_bins)
        noisy, loss = noisy_counts(counts, epsilon=problem.epsilon, neighbouring=problem.neighbouring, rng=rng)
        # from here on only `noisy` and public numbers are used
        noise = {
            "statistic": "counts",
            "law": "discrete Laplace",
            "scale": loss.scale,
            "sensitivity_l1": histogram_loss(epsilon=1.0, neighbouring=problem.neighbouring).n_counts,
        }
        if problem.resolution is not None:
            noise["resolution"] = problem.resolution.tolist()
        raw = {"counts": noisy.astype(float), "bounds": np.array(bounds)}
        guarantee = self.guarantee(problem)
        released(guarantee, raw, noise)
        return fitted(guarantee, raw, noise, problem.n_components, problem.public_records, progress)


def _steps(problem: Problem) -> FloatArray:
    """Of rounded columns; of others anything that divides well."""
    assert problem.resolution is not None
    return np.where(problem.resolution > 0, problem.resolution, MOST)


def fitted(
    guarantee: Guarantee,
    raw: Mapping[str, FloatArray],
    noise: Mapping[str, Any],
    n_components: int,
    n_records: int | None,
    progress: Progress,
) -> Outcome:
    """The mixture of what was released, and what speaks against it: post-processing, also later from a file.

    ``n_records``: where it is public.
    """
    counts = np.asarray(raw["counts"]).astype(np.int64)
    if 2 * n_components > counts.size:
        raise ValueError(f"n_components must be at most {counts.size // 2} for {counts.size} bins, got {n_components}")
    mixture = fit_counts(counts, raw["bounds"], n_components, noise_scale=noise["scale"], progress=progress)
    mixture, background = beside_histogram(raw, noise, mixture, n_records=n_records, progress=progress)
    progress(N_PARTS, N_PARTS)
    gain = gain_of_one_more(raw, noise, mixture, background, n_records=n_records)
    told = dict(noise) | {"caveats": count_caveats(raw, noise, mixture, background, n_records=n_records, gain=gain)}
    return Outcome(mixture, guarantee, raw, told | far_rows(raw["bounds"], float(counts.sum())), background)
