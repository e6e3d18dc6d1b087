"""What a likelihood learner's average gains from the sketch around which it was made, when both mean the same mixture.

The default learner's answer to endless records is the mixture that the sketch estimates, too. Then the released waves
tell of the parameters beside the average, and the bias of fits to few records can be simulated at the estimate itself
instead of at the sketch's mixture. Post-processing: released and public numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, stats

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.ball_sum import RADIUS, NoisyBallSum, shrunk
from pm_dpgmm.methods.aggregate.chart import MixtureChart
from pm_dpgmm.methods.aggregate.control import SAMPLED, WaveCovariance
from pm_dpgmm.methods.aggregate.design import DOUBTED, MOST_SIMULATED, Design, FitParts
from pm_dpgmm.methods.aggregate.estimate import Estimate, Round, estimate
from pm_dpgmm.methods.outcome import Outcome
from pm_dpgmm.methods.sketch.law import SketchLaw
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.characteristic import characteristic_jacobian
from pm_dpgmm.mixture.coordinates import Coordinates
from pm_dpgmm.mixture.mixture import joined

PUBLIC_SEED = 20261124  # of rows that shape a covariance and nothing else
STEPS = 3  # of Gauss and Newton
STEP = 1e-5  # of numerical derivatives
AGREE = 0.01  # chance of a larger difference, below which average and sketch mean different mixtures
FLAT = 1e-6  # share of the largest variance below which a difference is not tested
SIMULATED = 500  # subsets for the bias at the estimate


@dataclass(frozen=True, slots=True, eq=False)
class SketchTold:
    """The waves of a released sketch, as normal numbers about what a mixture in the chart's coordinates says of them.

    Attributes
    ----------
    law : SketchLaw
        With the background, whose law is taken as it was released; its weight is in ``shared``.
    chart : MixtureChart
    start : ndarray, shape (P,)
        The sketch's own mixture.
    covariance : WaveCovariance
        n times that of the means of the waves, with noise; but for ``shared``.
    """

    law: SketchLaw
    chart: MixtureChart
    start: FloatArray
    covariance: WaveCovariance

    @classmethod
    def of(cls, centre: Outcome, chart: MixtureChart) -> SketchTold:
        """From the outcome of a sketch."""
        law = SketchLaw.of_statistics(SketchStatistics.from_arrays(centre.raw, centre.noise), centre.background)
        noise = np.square(law.deviations) / law.n_records
        rows = joined(centre.mixture, centre.background).sample(SAMPLED, rng=np.random.default_rng(PUBLIC_SEED))
        covariance = WaveCovariance.of(law, centre.mixture, diagonal=noise, rows=rows)
        return cls(law, chart, chart.vector(centre.mixture), covariance)

    @property
    def means(self) -> FloatArray:
        """As released, (2 m,)."""
        return self.law.values / self.law.n_records

    @property
    def shared(self) -> FloatArray:
        """Errors (2 m, r) of the means from one deviation of the number of records and of the background's weight.

        At the sketch's own mixture, not at the released means: their noise, of thousands of numbers, would be taken for
        an error of the number of records, and the estimate drawn to wider components (Peelle's puzzle, D'Agostini
        1994). The weight has the deviation that ``SketchLaw`` has for it.
        """
        columns = []
        if self.law.n_records_scale:
            columns.append(self.expected(self.start) * (self.law.n_records_scale / self.law.n_records))
        if self.law.background is not None:
            inside = replace(self, law=replace(self.law, background=None)).expected(self.start)
            outside = np.tile(self.law.amplitudes, 2) * self.law.fixed
            columns.append(self.law.background[0] * (outside - inside))
        return np.column_stack(columns) if columns else np.zeros((self.means.size, 0))

    def expected(self, vector: FloatArray) -> FloatArray:
        """Means of the waves in the mixture of a vector (P,), shape (2 m,)."""
        return self.law.expected(*self.chart.coordinates.at(vector)) / self.law.n_records

    def slopes(self, vector: FloatArray) -> FloatArray:
        """Derivatives (2 m, P) of :meth:`expected`."""
        weights, means, factors = self.chart.coordinates.at(vector)
        plain = Coordinates(len(weights), means.shape[1])
        jacobian = characteristic_jacobian(self.law.frequencies, weights, means - self.law.centre, factors)[1]
        amplitudes = self.law.share * np.tile(self.law.amplitudes, 2)
        by_plain = amplitudes[:, None] * np.concatenate([jacobian.real, jacobian.imag])
        return by_plain @ derivatives(lambda moved: plain.of(*self.chart.coordinates.at(moved)), vector)

    def solve(self, columns: FloatArray) -> FloatArray:
        """Inverse covariance of the means times ``columns`` (2 m, p), by Woodbury's identity."""
        first, shared = self.covariance.solve(columns) * self.law.n_records, self.shared
        moved = self.covariance.solve(shared) * self.law.n_records
        inner = np.eye(shared.shape[1]) + shared.T @ moved
        return first - moved @ np.linalg.solve(inner, shared.T @ first)

    def times(self, columns: FloatArray) -> FloatArray:
        """Covariance of the means times ``columns`` (2 m, p)."""
        own, shared = self.covariance.times(columns) / self.law.n_records, self.shared
        return np.asarray(own + shared @ (shared.T @ columns))


def derivatives(function: Callable[[FloatArray], FloatArray], at: FloatArray) -> FloatArray:
    """Of the numbers of ``function`` (n,) by those of ``at`` (P,), shape (n, P)."""
    steps = STEP * np.eye(len(at))
    return np.column_stack([(function(at + step) - function(at - step)) / (2 * STEP) for step in steps])


def with_the_sketch(
    found: Estimate, design: Design, rounds: Sequence[Round], centre: Outcome, fit: FitParts
) -> Estimate | None:
    """The average of a likelihood learner, less its bias at the estimate, put together with the sketch.

    None where the two are at odds. What the learner makes of records in the background is a bias, too.

    Parameters
    ----------
    found : Estimate
        Of the average.
    design : Design
        Of a mixture learner.
    rounds : sequence of (Ball, NoisyBallSum)
    centre : Outcome
        Of the sketch.
    fit : function of rows and edges of subsets in them to the learner's answers
        Called with simulated rows.
    """
    assert isinstance(design.chart, MixtureChart)
    told = SketchTold.of(centre, design.chart)
    first = fused(found, design, told)
    at = told.start if first is None else first.vector
    return fused(unbiased(found, design, rounds, told, at=at, fit=fit), design, told)


def fused(found: Estimate, design: Design, told: SketchTold) -> Estimate | None:
    """Least squares of the released waves and of what the average leaves of them; None if the two are at odds.

    The waves are w = W(theta) + error, and the average less their part is r = theta - G W(theta) + another error, where
    G is the gain of the control variates; the errors are independent.
    """
    gain = design.gain @ design.waves.coefficients
    rest = found.vector - gain @ told.means
    floor = FLAT**2 * np.trace(found.apart) * np.eye(len(rest))
    root = linalg.cholesky(found.apart + floor, lower=True)
    vector = told.start
    for _ in range(STEPS):
        slopes, missing = told.slopes(vector), told.means - told.expected(vector)
        solved = told.solve(np.column_stack([slopes, missing]))
        others = linalg.solve_triangular(root, np.eye(len(rest)) - gain @ slopes, lower=True)
        left = linalg.solve_triangular(root, rest - vector + gain @ told.expected(vector), lower=True)
        information = slopes.T @ solved[:, :-1] + others.T @ others
        vector = vector + linalg.solve(information, slopes.T @ solved[:, -1] + others.T @ left)
    covariance = linalg.inv(information)
    alone = found.apart + gain @ told.times(gain.T)  # covariance of the average in the same model
    if not np.isfinite(vector).all() or at_odds(found.vector - vector, alone - covariance):
        return None
    return replace(found, vector=vector, covariance=(covariance + covariance.T) / 2)


def at_odds(difference: FloatArray, covariance: FloatArray) -> bool:
    """Whether a difference (P,) with this covariance would be larger by chance less often than AGREE."""
    values, axes = np.linalg.eigh((covariance + covariance.T) / 2)
    tested = values > FLAT * max(values[-1], 0.0)
    chi_square = float((np.square(axes[:, tested].T @ difference) / values[tested]).sum())
    return bool(stats.chi2.sf(chi_square, max(int(tested.sum()), 1)) < AGREE)


def unbiased(
    found: Estimate, design: Design, rounds: Sequence[Round], told: SketchTold, *, at: FloatArray, fit: FitParts
) -> Estimate:
    """The estimate less its bias, simulated ``at`` a vector (P,): how far from it the average is if it is the truth.

    An average of simulated subsets goes through the same balls; what remains in doubt is how the bias changes from
    ``at`` to the truth.
    """
    assert isinstance(design.chart, MixtureChart)
    truth, size = design.chart.mixture(at), design.subset_records
    n = int(min(SIMULATED + len(at), max(MOST_SIMULATED // (size * truth.means.shape[1]), 1)))
    rows = joined(truth, told.law.background).sample(n * size, rng=np.random.default_rng(design.seed))
    edges = np.arange(n + 1) * size
    predictors = design.waves.of_subsets(rows, edges)
    predictors += design.waves.released - design.waves.coefficients @ told.expected(at)
    vectors = design.vectors(fit(rows, edges), predictors)
    simulated = [(ball, as_released(one, vectors - ball.centre)) for ball, one in rounds]
    ball = rounds[-1][0]
    bias = estimate(design, simulated).vector - at
    spread = np.cov(in_ball(vectors - ball.centre, ball.radius).T).reshape(len(design.onto), -1)
    by_chance = design.back @ spread @ design.back.T / n + DOUBTED * np.diag(np.square(bias))
    change = by_chance - design.simulation
    return replace(found, vector=found.vector - bias, covariance=found.covariance + change, apart=found.apart + change)


def as_released(one: NoisyBallSum, vectors: FloatArray) -> NoisyBallSum:
    """A sum without noise of as many subsets as have the mean of these vectors (n, Q)."""
    inside = shrunk(vectors, radius=one.radius)[1]
    scale = one.n_subsets / len(vectors)
    return replace(one, total=scale * in_ball(vectors, one.radius).sum(axis=0), n_inside=scale * float(inside.sum()))


def in_ball(vectors: FloatArray, radius: float) -> FloatArray:
    """Vectors (n, Q) as the sum takes them."""
    return np.asarray(shrunk(vectors, radius=radius)[0] * (radius / RADIUS), dtype=float)
