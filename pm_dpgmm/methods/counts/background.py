"""The background of a mixture fitted to noisy counts: whether there is one, and how much of the density it holds.

Post-processing: no record is seen. A mixture leaves out what real tables have besides, tails and rows far from every
component, where its log-density is minus dozens; a few rows in a hundred decide what such a density is worth. The
background is one Gaussian as wide as the public bounds, which are three of its deviations from its mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.caveats import LEAST_SIGNAL, judged, signal
from pm_dpgmm.methods.counts.histogram_fit import Beside, fit_beside
from pm_dpgmm.methods.counts.slice_fit import BAD_FIT
from pm_dpgmm.methods.outcome import Progress
from pm_dpgmm.mixture.far_rows import as_wide_as
from pm_dpgmm.mixture.mixture import Mixture

Background = tuple[float, Mixture]  # weight and law

MOST = 0.1  # of the density: what holds more is no background, but a component that the mixture has or lacks
LEAST_RECORDS = 0.5  # a background of fewer says nothing
ODDS = 0.25  # before the counts are seen, that some records are in no component
LEAST_CHANCE = 0.25  # of one; 30 right mixtures each seemed to have one in 0 to 2, with little weight
DOUBT = 0.05  # most weight where counts hardly rise above their noise; it falls to 0 where they tell all parameters
LITTLE = 0.01  # of the density is a background where slices contradict the mixture


def beside_histogram(
    raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture, progress: Progress
) -> tuple[Mixture, Background | None]:
    """The mixture of a histogram fitted again beside a background, if it may well have one.

    Prior odds are :data:`ODDS`; of a weight that was uniform up to :data:`MOST` before, Laplace's approximation. The
    weight is its mean, none counted as 0. Where counts hardly rise above their noise they say nothing of where no
    component is: then it is :func:`doubt` at least.
    """
    bounds = np.asarray(raw["bounds"])
    counts, broad = np.asarray(raw["counts"]).astype(np.int64), as_wide_as(bounds)
    with np.errstate(all="ignore"):
        try:
            found = fit_beside(counts, bounds, mixture, broad, noise_scale=float(noise["scale"]), progress=progress)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, or a file is odd: go on
            weight = 0.0
        else:
            weight = mean_weight(found, float(counts.sum()))
            mixture = found.mixture if weight > 0 else mixture
        weight = max(weight, doubt(raw, noise, mixture))
    return mixture, (weight, broad) if weight > 0 else None


def mean_weight(found: Beside, n_records: float) -> float:
    """Of a background and of none; 0 where one is unlikely, of next to no records, or holds more than it may.

    A weight of constant density before, and a log-likelihood that is a parabola in it: the odds are the mean of the
    ratio over 0 to ``MOST``.
    """
    within = special.ndtr((MOST - found.weight) / found.error) - special.ndtr(-found.weight / found.error)
    odds = ODDS * math.sqrt(2 * math.pi) * found.error / MOST * float(within)
    chance = float(special.expit(found.gain + math.log(odds))) if odds > 0 else 0.0
    kept = chance > LEAST_CHANCE and LEAST_RECORDS / max(n_records, 1.0) <= found.weight <= MOST
    return chance * found.weight if kept else 0.0


def beside_slices(raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture) -> Background | None:
    """A little of the density, where the slices contradict the mixture or hardly rise above their noise.

    Of how much there is they say less than a histogram: the part of a slice that no component explains may be beyond
    the others or between them.
    """
    little = LITTLE if noise["dispersion"] > BAD_FIT else 0.0
    weight = max(little, doubt(raw, noise, mixture))
    return (weight, as_wide_as(np.asarray(raw["bounds"]))) if weight > 0 else None


def doubt(raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture) -> float:
    """Least weight of a background where several columns were too few for the counts: of the released numbers alone.

    0 as well where the counts of an odd file cannot be judged; nothing is raised, as the budget is spent.
    """
    if mixture.n_features == 1:
        return 0.0
    try:
        fit = judged(raw, noise, mixture)
        return 0.0 if fit is None else max(0.0, DOUBT * (1 - signal(fit) / LEAST_SIGNAL))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return 0.0
