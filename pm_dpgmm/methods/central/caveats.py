"""What a reader of a fit to cells should be warned of. Post-processing: released and public numbers alone."""

from __future__ import annotations

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.bernstein_sums import polynomials
from pm_dpgmm.methods.central.statistics import CentralStatistics
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.em.caveats import NOTABLE, noise_losses, unmeasured
from pm_dpgmm.mixture.mixture import Mixture

INTERRUPTED = "the fit was interrupted before its last cells: the mixture is that of what was released until then"
TOLD = 2.0  # noise of the squares of a cell around a component, in its records, up to which its covariance is measured
SURE = 3.0  # standard deviations above what the noisiest of all cells has by chance, from which records show in them
POINTS = 200  # of a component, to see in which cells it lies
NARROW = 0.35  # standard deviation of a component, in widths of the cells of one column, from which on it is resolved


def central_caveats(statistics: CentralStatistics, mixture: Mixture) -> list[str]:
    """One text for each reason; empty where nothing speaks against the fit. Nothing is raised."""
    d = mixture.n_features
    found: list[str] = []
    scales = np.array([one.scale for one in statistics.levels])
    noise = float(_spread(d)[1 + d] / np.sqrt((1 / scales**2).sum()))
    few = mixture.weights * statistics.n_records < TOLD * noise
    drowned = signals(statistics, mixture) < SURE + np.sqrt(
        2 * np.log(sum(one.cells.shape[1] for one in statistics.levels))
    )
    if mixture.weights[drowned].sum() > NOTABLE:
        found.append(
            f"too few records or too small a budget: the place of {listed(drowned)} may be that of noise; more records,"
            " a larger epsilon, tighter bounds or fewer components would help"
        )
    with np.errstate(all="ignore"):
        losses = expected_losses(statistics, mixture)
    found += unmeasured(mixture, few, losses)
    low, high = statistics.bounds.T
    at_limit = ((mixture.means <= low) | (mixture.means >= high)).any(axis=1)
    if mixture.weights[at_limit].sum() > NOTABLE:
        found.append(
            f"the mean of {listed(at_limit)} came out at a limit of the bounds, which seem to cut off many records:"
            " those beyond count as records at the limit, so give wider bounds, unless that many lie just there"
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


def signals(statistics: CentralStatistics, mixture: Mixture) -> FloatArray:
    """The records of each component in the cells where it lies, in standard deviations of their noise; (K,)."""
    d = mixture.n_features
    normal = np.random.default_rng(0).normal(size=(POINTS, d))
    places = mixture.means[:, None] + normal @ np.linalg.cholesky(mixture.covariances).transpose(0, 2, 1)
    found = np.zeros(mixture.n_components)
    for one in statistics.levels:
        held = one.cells.features(places.reshape(-1, d))[:, : one.cells.shape[1]].reshape(*places.shape[:2], -1)
        found += np.square(held.mean(axis=1) / (one.scale * _spread(d)[0])).sum(axis=1)
    return np.asarray(mixture.weights * max(float(statistics.n_records), 0.0) * np.sqrt(found))


def expected_losses(statistics: CentralStatistics, mixture: Mixture) -> FloatArray:
    """As of method "em", by the cells that hold a component's mean; 0 where cells side by side tell the width, too."""
    d = mixture.n_features
    records = np.maximum(mixture.weights * statistics.n_records, 1.0)
    if d == 1 and len(statistics.levels) == 1:
        return np.zeros(len(records))
    spread = _spread(d)
    of_sums, of_squares = np.zeros(len(records)), np.zeros(len(records))
    for one in statistics.levels:
        shares = one.cells.features(mixture.means)[:, : one.cells.shape[1]]
        held, radii = records[:, None] * shares / one.scale, one.cells.radii[0]
        of_sums += np.square(held / (spread[1] * radii)).sum(axis=1)
        of_squares += np.square(held / (spread[1 + d] * np.square(radii))).sum(axis=1)
    return noise_losses(mixture, statistics.unit, of_sums, of_squares, full=True)


def _spread(n_features: int) -> FloatArray:
    """Noise of every feature (1, y, y y') that sums of polynomials tell, in that of a polynomial."""
    return np.asarray(np.linalg.norm(np.linalg.inv(polynomials(n_features)), axis=0))
