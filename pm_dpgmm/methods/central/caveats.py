"""What a reader of a fit to cells should be warned of. Post-processing: released and public numbers alone."""

from __future__ import annotations

import numpy as np

from pm_dpgmm.mechanisms.bernstein_sums import polynomials
from pm_dpgmm.methods.central.statistics import CentralStatistics
from pm_dpgmm.methods.sketch.caveats import listed
from pm_dpgmm.mixture.mixture import Mixture

INTERRUPTED = "the fit was interrupted before its last cells: the mixture is that of what was released until then"
TOLD = 2.0  # noise of the squares of a cell around a component, in its records, up to which its covariance is measured
NOTABLE = 0.15  # weight of all components of unmeasured width together from which on it is told
NARROW = 0.35  # standard deviation of a component, in widths of the cells of one column, from which on it is resolved


def central_caveats(statistics: CentralStatistics, mixture: Mixture) -> list[str]:
    """One text for each reason; empty where nothing speaks against the fit. Nothing is raised."""
    d = mixture.n_features
    found = []
    scales = np.array([one.scale for one in statistics.levels])
    noise = float(np.linalg.norm(np.linalg.inv(polynomials(d))[:, 1 + d]) / np.sqrt((1 / scales**2).sum()))
    few = mixture.weights * statistics.n_records < TOLD * noise
    if mixture.weights[few].sum() > NOTABLE or few.all():
        found.append(
            f"too few records or too small a budget: the covariance of {listed(few)} may be noise; more records, a"
            " larger epsilon, tighter bounds or fewer components would help"
        )
    if d == 1 and len(statistics.levels) == 1:
        cells = statistics.levels[0].cells
        width = 2 * float(cells.unit[0]) / cells.shape[1]
        narrow = np.sqrt(mixture.covariances[:, 0, 0]) < NARROW * width
        if mixture.weights[narrow].sum() > NOTABLE:
            found.append(
                f"cells too wide: {listed(narrow)} may be several, as it is narrower than a cell; tighter bounds, a"
                " larger n_cells or cells='found' would help"
            )
    return found
