"""Pure-DP histograms along public directions, then a mixture fit on the noisy counts. Proof: slices.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pm_dpgmm._arguments import FloatArray, plain_numbers
from pm_dpgmm.mechanisms.histogram import MOST_COUNTS, histogram_loss, noisy_counts
from pm_dpgmm.mechanisms.slices import Slices, slice_counts, slice_directions
from pm_dpgmm.methods.counts.background import beside_slices
from pm_dpgmm.methods.counts.bins import read_bins
from pm_dpgmm.methods.counts.caveats import count_caveats
from pm_dpgmm.methods.counts.one_more import gain_of_one_more
from pm_dpgmm.methods.counts.slice_fit import SliceFits
from pm_dpgmm.methods.outcome import Listener, Method, Outcome, Problem, Progress, kept_by_nobody
from pm_dpgmm.mixture.far_rows import far_rows
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.privacy.noise import Rng

DEFAULT_BINS = 24  # along an axis; a public choice that never looks at the records
FEATURES = range(2, 13)  # above, noise grows like D^2 and directions like D^2: nothing is left below 1e7 records
LARGEST = 1e100  # bound in absolute value; the fit squares numbers
NARROWEST = 1e-100  # bin


@dataclass(frozen=True, slots=True, init=False)
class SliceMethod(Method):
    """Settings of ``method="slices"``.

    Parameters
    ----------
    n_bins : int, optional
        Slices across the bounds of each column, 24 by default. A component narrower than a slice is not resolved: its
        standard deviation comes out as half a slice or more. Wider slices carry less noise; one to two slices to a
        standard deviation is best, so tight bounds matter. ``n_cells``, its former name, is taken too.

    Guarantee
    ---------
    epsilon-DP (delta is 0 whatever the budget's delta) for the noisy counts of all directions together, under
    replace-one or add-remove neighbours; mixture and dispersion are functions of them. Proof: slices.md.
    """

    n_bins: int | None = None
    name: ClassVar[str] = "slices"

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

    def slices(self, n_features: int) -> Slices:
        """Public directions and bins."""
        return Slices(slice_directions(n_features), DEFAULT_BINS if self.n_bins is None else self.n_bins)

    def cost(self, problem: Problem) -> tuple[float, float]:
        """All of epsilon; delta is not needed."""
        return problem.epsilon, 0.0

    def guarantee(self, problem: Problem) -> Guarantee:
        """What :meth:`release` promises; made before anything is spent."""
        n_directions = len(slice_directions(problem.n_features))
        loss = histogram_loss(epsilon=problem.epsilon, neighbouring=problem.neighbouring, n_histograms=n_directions)
        words = "geometric histograms of slices (mechanisms/slices.md)"
        return Guarantee(problem.epsilon, 0.0, problem.neighbouring, words, loss)

    def check(self, problem: Problem) -> None:
        """Raise ValueError unless there are bounds and 2 to 12 columns."""
        if problem.n_features not in FEATURES:
            raise ValueError(
                f"method 'slices' supports {FEATURES[0]} to {FEATURES[-1]} features, got {problem.n_features}"
            )
        if problem.bounds is None:
            raise ValueError("method 'slices' needs bounds: public lower and upper limits of every column, got None")
        n_cells = self.slices(problem.n_features).n_cells
        width = (problem.bounds[:, 1] / 2 - problem.bounds[:, 0] / 2) / n_cells * 2
        if width.min() < NARROWEST or np.abs(problem.bounds).max() > LARGEST:
            raise ValueError(
                f"bounds must lie within {LARGEST:g} with slices wider than {NARROWEST:g},"
                f" got {problem.bounds.tolist()}; rescale"
            )
        # before they are counted: a number without end would fill the memory
        slices = len(slice_directions(problem.n_features)) * n_cells * problem.n_features
        if slices > MOST_COUNTS:
            raise ValueError(f"n_bins must leave at most {MOST_COUNTS} slices, which a file can hold, got {n_cells}")
        if n_cells < 2 * problem.n_components:
            raise ValueError(f"n_bins must be at least 2 for each component, got {n_cells} slices")
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
        slices = self.slices(problem.n_features)
        n_directions = len(slices.directions)
        counts = slice_counts(records, slices, bounds=problem.bounds)
        noisy, loss = noisy_counts(
            counts, epsilon=problem.epsilon, neighbouring=problem.neighbouring, n_histograms=n_directions, rng=rng
        )
        # from here on only `noisy` and public numbers are used
        noise = {
            "statistic": "slice counts",
            "law": "discrete Laplace",
            "scale": loss.scale,
            "sensitivity_l1": loss.n_counts,
        }
        raw = {
            "counts": noisy.astype(float),
            "sizes": slices.sizes.astype(float),
            "directions": np.array(slices.directions),
            "bounds": np.array(problem.bounds),
        }
        guarantee = self.guarantee(problem)
        released(guarantee, raw, noise | {"n_cells": slices.n_cells})
        return fitted(guarantee, raw, noise, slices, problem.n_components, problem.public_records, progress)


def fitted(
    guarantee: Guarantee,
    raw: Mapping[str, FloatArray],
    noise: Mapping[str, Any],
    slices: Slices,
    n_components: int,
    n_records: int | None,
    progress: Progress,
) -> Outcome:
    """The mixture of what was released, and what speaks against it: post-processing, also later from a file.

    ``n_records``: where it is public.
    """
    if slices.n_cells < 2 * n_components:
        raise ValueError(f"n_components must be at most {slices.n_cells // 2} for {slices.n_cells} slices")
    counts = np.asarray(raw["counts"]).astype(np.int64)
    fits = SliceFits.to(counts, slices, raw["bounds"], noise_scale=noise["scale"])
    mixture, dispersion = fits.alone(n_components, progress)
    told = dict(noise) | {"dispersion": dispersion}
    mixture, background = beside_slices(raw, told, mixture, fits, n_records=n_records)
    gain = gain_of_one_more(raw, noise, mixture, background, n_records=n_records, fits=fits)
    told |= {"caveats": count_caveats(raw, noise, mixture, background, n_records=n_records, gain=gain)}
    told |= far_rows(np.asarray(raw["bounds"]), float(counts.sum()) / len(slices.directions))
    return Outcome(mixture, guarantee, raw, told, background)
