"""What rows far from all components, which a sketch hardly shows, would do to an average of a learner's numbers.

A number that hangs on such rows, as a standard deviation does, is another one in the few subsets that hold them, and
those are shortened to the ball: the average is then nearer to what the learner says without such rows than what it says
of all. Simulated, as the rest of the design: of released and public numbers alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.ball_sum import RADIUS, shrunk
from pm_dpgmm.methods.aggregate.design import MOST_SIMULATED, Ball, Design, FitParts, n_simulated
from pm_dpgmm.methods.aggregate.estimate import inverse_slopes
from pm_dpgmm.methods.sketch.law import SketchLaw
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import IntArray

UNSEEN, MOST = 1.5, 0.02  # share of the records that a sketch may not show, in errors of a wave's mean; the most
AWAY = 100.0  # deviations that far rows are supposed to lie away: how far they do, a sketch does not show


def with_missed(
    design: Design,
    fit: FitParts,
    law: SketchLaw,
    density: Mixture,
    share: float,
    bounds: FloatArray | None,
    *,
    rng: np.random.Generator,
) -> Design:
    """The design with what it would miss of the learner's answer beside as many far rows as there may be.

    Those are a share of the records, that of the sketch's background or what the noise of its waves may hide. Simulated
    subsets are answered as they are, and with that share of their rows drawn anew, every column by itself, up to AWAY
    deviations from the middle and within public ``bounds`` (D, 2): on both sides in one table, on the upper side in
    another. What is missed is what the answer to all of these rows moves, less what the average of the subsets' does;
    of the two tables the larger counts. A learner without an answer misses nothing.

    By 108 simulated releases of one to three components in one to five columns, with 1 % of far rows, the error of the
    sketch's share is .4 to 3.9 times the noise of its best wave's mean, 1.5 times in the middle.
    """
    size, n_features = design.subset_records, density.means.shape[1]
    n = min(n_simulated(design.chart), max(1, MOST_SIMULATED // (size * n_features)))
    edges = np.arange(n + 1) * size
    rows = density.sample(edges[-1], rng=rng)
    noise = float(np.min(law.deviations / np.tile(law.amplitudes, 2))) / law.n_records
    share = max(share, min(UNSEEN * noise, MOST))
    few = rng.choice(len(rows), size=max(1, round(share * len(rows))), replace=False)
    low, high = (-np.inf, np.inf) if bounds is None else bounds.T
    middle, reach = np.clip(rows.mean(axis=0), low, high), AWAY * rows.std(axis=0)
    ball, start = Ball(np.zeros(len(design.onto)), design.radius), np.zeros(len(design.onto))
    follow = design.back @ inverse_slopes(design, ball, start, 1.0)
    whole, mean = _answers(design, fit, rows, edges)
    missed = np.zeros(design.chart.size)
    for nearest in (np.maximum(middle - reach, low), middle):
        far = rows.copy()
        far[few] = rng.uniform(nearest, np.minimum(middle + reach, high), size=(len(few), n_features))
        whole_far, mean_far = _answers(design, fit, far, edges)
        lost = np.abs(whole_far - whole - follow @ (mean_far - mean))
        missed = np.maximum(missed, np.where(np.isfinite(lost), lost, 0.0))
    return replace(design, missed=missed, far=share)


def _answers(design: Design, fit: FitParts, rows: FloatArray, edges: IntArray) -> tuple[FloatArray, FloatArray]:
    """The vector (P,) of the answer to all ``rows`` (n, D), and the mean (Q,) of what subsets add to a sum."""
    predictors = design.waves.of_subsets(rows, edges)
    offset = predictors.mean(axis=0) - design.waves.released  # the waves of all these rows, without noise
    kept, _ = shrunk(design.vectors(fit(rows, edges), predictors - offset), radius=design.radius)
    mean = kept.mean(axis=0) * (design.radius / RADIUS)
    return design.chart.vectors(fit(rows, np.array([0, len(rows)])))[0], mean
