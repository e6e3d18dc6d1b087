"""What one component more would gain, in nats per record, as far as noisy counts tell. Post-processing.

A test of fit pools all bins, of which most say nothing, and its size is what bins of noise show of a misfit. A mixture
that was fitted to what is left over says more: how much better records like its own are described by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.background import Background, Histograms, shares_of_bins, shares_of_slices
from pm_dpgmm.methods.counts.caveats import Counts
from pm_dpgmm.methods.counts.histogram_fit import fit_larger
from pm_dpgmm.methods.counts.slice_fit import SliceFits
from pm_dpgmm.mixture.mixture import Mixture, joined

SURE = 4.0  # nats that the likelihood must rise by beyond the logarithm of the number of bins, which noise reaches
HIGHEST = 5.0  # nats: a larger log ratio of densities counts as this, as few records where there is only noise give it
N_DRAWS, DRAW_SEED = 4000, 20265  # of the larger mixture; public

Shares = Callable[[Mixture], FloatArray]  # probabilities of the bins


def gain_of_one_more(
    raw: Mapping[str, FloatArray],
    noise: Mapping[str, Any],
    mixture: Mixture,
    background: Background | None,
    *,
    n_records: int | None,
    fits: SliceFits | None = None,
) -> float:
    """Mean log-density under a mixture of one component more, over its own draws, less that under ``mixture``.

    0 where the counts do not tell the larger one for sure. Nothing is raised, as the budget is spent.

    Parameters
    ----------
    raw, noise : mappings
        Of a release of method "histogram" or "slices".
    mixture, background
        That were fitted to it.
    n_records : int or None
        Where it is public.
    fits : SliceFits or None
        To the counts, of method "slices".
    """
    with np.errstate(all="ignore"):
        try:
            counts = Counts.of(raw, noise)
            if counts is None:
                return 0.0
            scale = float(noise["scale"])
            seen = Histograms(counts.values, counts.starts, scale, n_records)
            larger, shares = (
                _grid(raw, scale, mixture, background)
                if fits is None
                else _slices(fits, counts, seen, mixture, background)
            )
            return _gain(seen, shares, mixture, larger, background)
        except (LookupError, TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            return 0.0


def _grid(
    raw: Mapping[str, FloatArray], scale: float, mixture: Mixture, background: Background | None
) -> tuple[Mixture, Shares]:
    bounds, counts = np.asarray(raw["bounds"]), np.asarray(raw["counts"]).astype(np.int64)
    larger = fit_larger(counts, bounds, mixture, background, noise_scale=scale)
    return larger, lambda found: shares_of_bins(found, bounds, counts.shape[0])


def _slices(
    fits: SliceFits, counts: Counts, seen: Histograms, mixture: Mixture, background: Background | None
) -> tuple[Mixture, Shares]:
    known: FloatArray | float = 0.0
    if background is not None:
        known = background[0] * seen.n_expected * shares_of_slices(counts, background[1])
    return fits.larger(mixture, known), lambda found: shares_of_slices(counts, found)


def _gain(seen: Histograms, shares: Shares, mixture: Mixture, larger: Mixture, background: Background | None) -> float:
    own, other = joined(mixture, background), joined(larger, background)
    rise = seen.log_likelihood(shares(other)) - seen.log_likelihood(shares(own))
    if not rise > SURE + math.log(len(seen.values)):
        return 0.0
    drawn = other.sample(N_DRAWS, rng=DRAW_SEED)
    return max(float(np.minimum(other.log_density(drawn) - own.log_density(drawn), HIGHEST).mean()), 0.0)
