"""What a reader of a fit to noisy EM sums should be warned of. Post-processing: released and public numbers alone."""

from __future__ import annotations

import numpy as np

from pm_dpgmm.mechanisms.lloyd import ClusterSums
from pm_dpgmm.methods.em.statistics import EMStatistics
from pm_dpgmm.methods.sketch.caveats import listed
from pm_dpgmm.mixture.mixture import Mixture

INTERRUPTED = "the fit was interrupted before its last step: the mixture is that of what was released until then"
MISSED = (
    "no mixture of this kind explains the released sums: records with point masses, such as rounded ones, or bounds"
    " that cut off many; the mixture has the moments of the last step instead, and its likelihood (observe) misleads"
)
TOLD = 2.0  # noise of a component's squares, in the records that it has, up to which its covariance is measured
NOTABLE = 0.15  # weight of all components of unmeasured width together from which on it is told


def em_caveats(steps: EMStatistics, mixture: Mixture) -> list[str]:
    """One text for each reason; empty where nothing speaks against the fit. Nothing is raised."""
    _, _, d = steps.shape
    noise = 1 / np.sqrt((1 / np.square(steps.scales[:, 2])).sum())
    records = mixture.weights * max(float(steps.n_records), 0.0)
    few = records < TOLD * d * noise
    if mixture.weights[few].sum() <= NOTABLE and not few.all():
        return []
    return [
        f"too few records or too small a budget: the covariance of {listed(few)} may be noise; more records, a larger"
        " epsilon, tighter bounds or fewer components would help"
    ]


def cluster_caveats(last: ClusterSums) -> list[str]:
    """The same for the last step of k-means: clusters of noise, and widths that are noise."""
    few = last.counts < TOLD * last.scales[0]
    told = []
    if few.any():
        told.append(
            f"too few records or too small a budget: the count, and with it the centre, of {listed(few)} may be noise;"
            " more records, a larger epsilon, tighter bounds or fewer components would help"
        )
    if last.squares.shape[1]:
        wide = ~few & (last.squares[:, 0] < TOLD * last.scales[2])
        if wide.any():
            told.append(
                f"too few records or too small a budget: the variance of {listed(wide)} may be noise; more records, a"
                " larger epsilon or tighter bounds would help"
            )
    return told
