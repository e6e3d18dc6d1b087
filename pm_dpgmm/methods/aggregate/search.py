"""The design of a run: a centre for the learner's answers, and the size of subsets that promises the least error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.methods.aggregate.chart import Answers, Chart, MixtureChart, VectorChart
from pm_dpgmm.methods.aggregate.control import Waves
from pm_dpgmm.methods.aggregate.design import (
    MOST_SIMULATED,
    N_LARGE,
    Design,
    FitParts,
    LargeFits,
    n_simulated,
    simulated,
    subset_size,
    with_answer,
    with_growing,
    with_sampling,
)
from pm_dpgmm.methods.aggregate.far_rows import with_missed
from pm_dpgmm.methods.outcome import Outcome
from pm_dpgmm.methods.sketch.law import SketchLaw
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import Mixture, joined

RECORDS_PER_NUMBER = (
    6.0,
    12.0,
    24.0,
    48.0,
    96.0,
    192.0,
    384.0,
    768.0,
)  # tried in turn
PATIENCE = 2  # sizes in a row that are worse than the best so far, until no more are tried
SETTLED = 0.3  # share of the error that is not noise, below which the first that is worse ends the search
CENTRE_ROWS = (2_000, 40_000)  # least and most simulated records for the learner's answer to the released mixture
LEAST = 1e-100  # unit of a number, whose square must be one
ROUNDED = 1e-12  # share of a number up to which it is the same: a mean of equal numbers differs by rounding
UNIT_PARTS = 40  # parts of these records, for the units of vectors


def best_design(
    centre: Outcome,
    fit: FitParts,
    *,
    mu_squared: float,
    records_per_number: float | None,
    bounds: FloatArray | None,
    seed: int,
    own_bias: bool = False,
) -> Design | None:
    """The design of a run around a released sketch, from numbers of no record; None if the learner cannot fit.

    Parameters
    ----------
    centre : Outcome
        Of the sketch.
    fit : function of rows and edges of subsets in them to the learner's answers
        Called with simulated rows.
    mu_squared : float
        Budget of the average, in squared Gaussian differential privacy.
    records_per_number : float or None
        Records of a subset for each number of an answer or of the mixture, whichever has more; None tries several.
    bounds : ndarray, shape (D, 2), or None
        Of the columns, public.
    seed : int
        Of the simulated rows, another one in every run: what simulation gets wrong, as the stated errors say, would
        else be wrong the same way in all.
    own_bias : bool
        Whether the bias of the learner's mixtures is simulated where they are put together with the sketch, and so not
        here at samples of as many records.
    """
    evidence = SketchStatistics.from_arrays(centre.raw, centre.noise)
    law = SketchLaw.of_statistics(evidence, centre.background)
    density = joined(centre.mixture, centre.background)
    rng = np.random.default_rng(seed)
    least, most = CENTRE_ROWS
    rows = density.sample(int(min(max(evidence.n_records, least), most)), rng=rng)
    chart = _chart(
        fit(rows, np.array([0, len(rows)])), lambda: fit(rows, np.linspace(0, len(rows), UNIT_PARTS + 1).astype(int))
    )
    if chart is None:
        return None
    weights = Coordinates(centre.mixture.n_components, centre.mixture.n_features, "ratios").size
    numbers = max(chart.size, weights)
    # together twice the records
    large = LargeFits.of(fit, density, chart, n_records=2 * evidence.n_records / N_LARGE, rng=rng)
    best: Design | None = None
    worse = 0
    for wanted in RECORDS_PER_NUMBER if records_per_number is None else (records_per_number,):
        n_each, n_subsets = subset_size(evidence.n_records, numbers, wanted)
        size_of_all = n_simulated(chart) * n_each * centre.mixture.n_features
        if best is not None and (n_subsets == best.n_subsets or size_of_all > MOST_SIMULATED):
            break
        # what the noise of the waves costs, beside that of the average, whose vectors are what is not explained
        price = evidence.n_records * n_subsets * mu_squared / (4 * numbers)
        waves = Waves.of(law, evidence.sketches, centre.mixture, price=price, rows=rows)
        try:
            design = simulated(
                fit, density, chart, waves, n_records=evidence.n_records, n_subsets=n_subsets, size=n_each, rng=rng
            )
            if design is None:
                continue
            design = with_answer(design, large)
        except (np.linalg.LinAlgError, ValueError, ArithmeticError):  # answers that no linear map describes
            continue
        if best is None or design.predicted(mu_squared) < best.predicted(mu_squared):
            best, worse = design, 0
            continue
        worse += 1
        if worse == PATIENCE or np.trace(best.simulation) < SETTLED * best.predicted(mu_squared):
            break
    if best is None or own_bias:
        return best
    if isinstance(chart, VectorChart):
        best = with_growing(best, n_records=evidence.n_records, n_whole=len(rows))
        if (best.alike | best.growing).all():
            return None
    tables = LargeFits.of(fit, density, chart, n_records=evidence.n_records, rng=rng)
    best = with_sampling(best, tables, n_records=evidence.n_records)
    if not isinstance(chart, VectorChart):  # of few records the best mixture may be another one than of all
        return with_answer(best, tables)
    far = 0.0 if centre.background is None else centre.background[0]
    return with_missed(best, fit, law, density, far, bounds, rng=rng)


def _chart(whole: Answers, parts: Callable[[], Answers]) -> Chart | None:
    """Coordinates about the answer to all simulated records; units of vectors are how much those to parts differ."""
    if isinstance(whole, Fits):
        if not whole.given[0]:
            return None
        return MixtureChart.about(Mixture(whole.weights[0], whole.means[0], whole.covariances[0]))
    found = np.asarray(parts())
    found = found[np.isfinite(found).all(axis=1)]
    if not np.isfinite(whole[0]).all() or len(found) < 2:
        return None
    spread = np.median(np.abs(found - np.median(found, axis=0)), axis=0)
    rounding = ROUNDED * np.abs(found).max(axis=0)
    spread = np.where(spread > rounding, spread, found.std(axis=0))
    spread = np.where(spread > rounding, spread, np.maximum(np.abs(whole[0]), 1.0))
    return VectorChart(whole[0], np.maximum(spread, LEAST))
