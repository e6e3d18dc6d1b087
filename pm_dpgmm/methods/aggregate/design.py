"""Everything that is fixed before the subsets are looked at, from the released sketch and public numbers alone.

The learner is simulated: it fits subsets of synthetic records of the released mixture, which costs no budget. From
these fits follow what the waves explain of a fit, the directions in which the rest scatters, the ball that holds most
of it, and what shrinking to the ball does to an average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.covariance import oas

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.fit_arrays import BoolArray
from pm_dpgmm.mechanisms.ball_sum import MOST_SUBSETS
from pm_dpgmm.methods.aggregate.chart import Answers, Chart
from pm_dpgmm.methods.aggregate.control import Waves
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import IntArray

SIMULATED, MORE = 120, 3  # simulated subsets: so many, and so many for each number of a fit
FEWEST_SUBSETS = 12
DOUBTED = 1 / 16  # of the squared bias: a quarter of what is taken off may be wrong
MEDIAN = math.pi / 2  # variance of a median over that of a mean, for normal numbers
LEAST_FITTED = 0.5  # share of the simulated subsets that must have a fit
TYPICAL = 0.9  # share of the simulated fits that decide what is typical
QUANTILE = 0.9  # share of the simulated vectors that the ball should hold
TINY = 1e-300  # for lengths of 0
FLAT = 1e-8  # share of the largest variance below which a direction is one in which the learner's fits never differ
POWER = -0.25  # of the covariance: noise in all directions together is least for given lengths
N_LARGE, FEWEST_LARGE, LARGE = 20, 8, (1_000, 20_000)  # large simulated samples, least answers to them, their records
MOST_SIMULATED = 30_000_000  # numbers in simulated records at a time: a quarter of a gigabyte
GROWN = 6.0  # deviations; those of few large fits are no better known than by a third
MOST_ALIKE = 0.5  # size of a subset in large samples up to which the two tell the bias of both

FitParts = Callable[[FloatArray, IntArray], Answers]  # rows and edges of subsets in them


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """In the coordinates of the vectors; public."""

    centre: FloatArray  # (Q,)
    radius: float


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Public numbers of a run; P numbers of a fit, Q directions in which fits differ."""

    chart: Chart
    waves: Waves
    n_subsets: int
    subset_records: int
    gain: FloatArray  # (P, S): how a fit follows the S predictors of its waves
    middle: FloatArray  # (P,) of a fit to a subset of the released mixture
    onto: FloatArray  # (Q, P)
    back: FloatArray  # (P, Q)
    radius: float
    scatter: FloatArray  # (n, Q): simulated vectors, in the coordinates of the ball
    answer: FloatArray  # (P,): the learner's answer to the released mixture, without the error of few records
    by_chance: FloatArray  # (P, P): covariance of the error of ``answer`` by simulation
    sampling: FloatArray  # (P, P): covariance of what the learner would answer to all records
    failed: float  # share of the simulated subsets that had no fit
    seed: int  # of rows that are simulated later
    alike: BoolArray  # (P,): numbers that were the same in all typical simulated fits, so that no direction shows them
    growing: BoolArray  # (P,): numbers that hang on how many records there are
    missed: FloatArray  # (P,): what the average would miss of the answer to all records beside rows that lie far
    far: float  # share of those rows

    def predicted(self, mu_squared: float) -> float:
        """Squared error of an answer, by simulation: noise of the average, and a share of the bias that goes."""
        at_rest = self.inside(Ball(np.zeros(len(self.onto)), self.radius), np.zeros(len(self.onto)))
        noise = 4 * (self.radius / self.n_subsets / max(at_rest, 0.1)) ** 2 / mu_squared
        return noise * float(np.square(self.back).sum()) + float(np.trace(self.simulation))

    @property
    def simulation(self) -> FloatArray:
        """Covariance (P, P) of the error of ``answer``: by chance, and a part of the bias that it takes off."""
        return self.by_chance + np.diag(DOUBTED * np.square(self.answer - self.middle))

    def vectors(self, answers: Answers, predictors: FloatArray) -> FloatArray:
        """What is left of answers, in the coordinates of the ball, (t, Q); ``predictors`` (t, S) of their subsets.

        Row i is a function of answer i and of predictors i.
        """
        with np.errstate(all="ignore"):
            rest = self.chart.vectors(answers) - self.middle - (predictors - self.waves.released) @ self.gain.T
            return np.asarray(rest @ self.onto.T)

    def shrunk(self, ball: Ball, offset: FloatArray, spread: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Simulated vectors (n, Q), ``spread`` times as wide and moved by an offset (Q,): in the ball, and lengths."""
        moved = spread * self.scatter + (offset - ball.centre)
        lengths = np.linalg.norm(moved, axis=1)
        return moved * np.minimum(1.0, ball.radius / np.maximum(lengths, TINY))[:, None], lengths

    def expected(self, ball: Ball, offset: FloatArray, spread: float = 1.0) -> FloatArray:
        """Mean (Q,) of what subsets add to a sum; those without an answer add 0."""
        return np.asarray((1 - self.failed) * self.shrunk(ball, offset, spread)[0].mean(axis=0))

    def inside(self, ball: Ball, offset: FloatArray, spread: float = 1.0) -> float:
        """Share of the subsets whose vector stays in the ball."""
        return (1 - self.failed) * float((self.shrunk(ball, offset, spread)[1] <= ball.radius).mean())


def subset_size(n_records: float, n_numbers: int, records_per_number: float) -> tuple[int, int]:
    """Records of a subset, about, and number of subsets."""
    size = max(1, math.ceil(records_per_number * n_numbers))
    n_subsets = min(max(FEWEST_SUBSETS, int(n_records // size)), MOST_SUBSETS)
    return max(1, int(n_records // n_subsets)), n_subsets


def simulated(
    fit: FitParts, density: Mixture, chart: Chart, waves: Waves, *, n_records: float, n_subsets: int, size: int,
    rng: np.random.Generator,
) -> Design | None:  # fmt: skip
    """The design for subsets of ``size`` records; None where the learner answers few of them, or all alike."""
    n = n_simulated(chart)
    at_a_time = max(1, MOST_SIMULATED // (size * density.means.shape[1]))
    parts = []
    for begun in range(0, n, at_a_time):
        edges = np.arange(min(at_a_time, n - begun) + 1) * size
        rows = density.sample(edges[-1], rng=rng)
        parts.append((chart.vectors(fit(rows, edges)), waves.of_subsets(rows, edges) - waves.expected))
    vectors, predictors = (np.concatenate(part) for part in zip(*parts, strict=True))
    good = np.isfinite(vectors).all(axis=1)
    if good.mean() < LEAST_FITTED:
        return None
    gain, middle, typical, leverages = _regression(vectors[good], predictors[good])
    rest = vectors[good] - middle - predictors[good] @ gain.T
    rest /= 1 - leverages[:, None]  # as of a subset that had no part in the regression
    by_noise = gain @ waves.noise @ gain.T
    spread = np.cov(vectors[good][typical].T).reshape(by_noise.shape)
    sampling = spread * size / n_records
    lengths, basis = np.linalg.eigh(spread)
    alike = np.diagonal(spread) <= FLAT * lengths[-1]
    basis = basis[:, lengths > FLAT * lengths[-1]]  # before any shrinking of covariances, which would fill the rest
    values, axes = np.linalg.eigh(_typical_covariance(rest @ basis) + basis.T @ by_noise @ basis)
    axes = basis @ axes
    onto, back = (axes * values**POWER).T, axes * values**-POWER
    scatter = rest @ onto.T
    errors = rng.multivariate_normal(np.zeros(len(by_noise)), by_noise + sampling, size=len(scatter), method="eigh")
    radius = float(np.quantile(np.linalg.norm(scatter + errors @ onto.T, axis=1), QUANTILE))
    if not 0 < radius < np.inf:  # answers that are all the same
        return None
    return Design(
        chart,
        waves,
        n_subsets,
        size,
        gain=gain,
        middle=middle,
        onto=onto,
        back=back,
        radius=radius,
        scatter=scatter,
        answer=middle,
        by_chance=np.zeros_like(sampling),
        sampling=sampling,
        failed=1.0 - float(good.mean()),
        seed=int(rng.integers(2**31)),
        alike=alike,
        growing=np.zeros(len(alike), dtype=bool),
        missed=np.zeros(len(alike)),
        far=0.0,
    )


def n_simulated(chart: Chart) -> int:
    """Simulated subsets: enough for a regression on as many predictors as an answer has numbers."""
    return SIMULATED + MORE * chart.size


@dataclass(frozen=True, slots=True, eq=False)
class LargeFits:
    """The learner's answers to a few large simulated samples, which tell about what answers to few records are biased.

    Attributes
    ----------
    vectors : ndarray, shape (n, P)
        In the chart.
    rows : ndarray, shape (m, D)
    edges : ndarray, shape (n + 1,)
        Of the samples in ``rows``.
    """

    vectors: FloatArray
    rows: FloatArray
    edges: IntArray

    @classmethod
    def of(
        cls, fit: FitParts, density: Mixture, chart: Chart, *, n_records: float, rng: np.random.Generator
    ) -> LargeFits:
        """Of so many records each, within limits."""
        most = max(LARGE[0], MOST_SIMULATED // (N_LARGE * density.means.shape[1]))
        size = min(int(np.clip(n_records, *LARGE)), most)
        rows, edges = density.sample(N_LARGE * size, rng=rng), np.arange(N_LARGE + 1) * size
        return cls(chart.vectors(fit(rows, edges)), rows, edges)


def with_answer(design: Design, large: LargeFits) -> Design:
    """The design with the learner's answer to many records, which fits to few are biased about."""
    predictors = design.waves.of_subsets(large.rows, large.edges)
    answers = large.vectors - (predictors - design.waves.expected) @ design.gain.T
    answers = answers[np.isfinite(answers).all(axis=1)]
    if len(answers) < FEWEST_LARGE:
        return design
    middle = np.median(answers, axis=0)
    ratio = design.subset_records / (large.edges[1] - large.edges[0])
    further = ratio / (1 - ratio) if ratio < MOST_ALIKE else 0.0  # a bias of order 1/size goes
    answer = middle + further * (middle - design.middle)
    by_chance = np.cov(answers.T).reshape(len(middle), -1) * (MEDIAN * (1 + further) ** 2 / len(answers))
    return replace(design, answer=answer, by_chance=by_chance)


def with_sampling(design: Design, tables: LargeFits, *, n_records: float) -> Design:
    """The design with errors by sampling that are no less than those of simulated ``tables`` of as many records.

    Variances of answers to few records go down as one over their number for sums of records, and for most numbers of
    many; the median of a column with a gap in its middle, for one, varies less in few than that makes of many.
    """
    answers = tables.vectors[np.isfinite(tables.vectors).all(axis=1)]
    if len(answers) < FEWEST_LARGE:
        return design
    seen = answers.var(axis=0, ddof=1) * (tables.edges[1] / n_records)
    wider = np.sqrt(np.maximum(seen / np.maximum(np.diagonal(design.sampling), TINY), 1.0))
    return replace(design, sampling=wider[:, None] * design.sampling * wider)


def with_growing(design: Design, *, n_records: float, n_whole: int) -> Design:
    """The design with what a number's answer to ``n_whole`` simulated records, offset 0, says of those to fewer.

    A share, a mean or a slope is the same but for chance and for what its bias is in doubt; a count, a sum or a test
    statistic is not.
    """
    variances = np.diagonal(design.by_chance) + np.diagonal(design.sampling) * n_records / n_whole
    bias = np.sqrt(DOUBTED) * np.abs(design.answer - design.middle)
    growing = np.abs(design.answer) > np.maximum(GROWN * np.sqrt(variances), bias)
    return replace(design, growing=~design.alike & growing)


def _regression(vectors: FloatArray, predictors: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
    """How typical vectors follow predictors (P, S), their middle (P,), which are typical (n,), and leverages (n,)."""
    offsets = vectors - np.median(vectors, axis=0)
    spread = np.maximum(np.median(np.abs(offsets), axis=0), 1e-12)
    lengths = np.linalg.norm(offsets / spread, axis=1)
    typical = lengths <= np.quantile(lengths, TYPICAL)
    x, y = predictors[typical], vectors[typical]
    deviations = np.maximum(x.std(axis=0), 1e-300)
    scaled = np.vstack([x / deviations, 0.03 * math.sqrt(len(x)) * np.eye(x.shape[1])])  # a little ridge
    centred = np.vstack([y - y.mean(axis=0), np.zeros((x.shape[1], y.shape[1]))])
    scaled[: len(x)] -= scaled[: len(x)].mean(axis=0)
    slopes = np.linalg.lstsq(scaled, centred, rcond=None)[0]
    gain = (slopes / deviations[:, None]).T
    leverages = np.zeros(len(vectors))
    leverages[typical] = np.square(np.linalg.qr(scaled)[0][: len(x)]).sum(axis=1)
    return gain, y.mean(axis=0) - gain @ x.mean(axis=0), typical, np.minimum(leverages, 0.5)


def _typical_covariance(rest: FloatArray) -> FloatArray:
    """Covariance of vectors, the longest tenth shortened, shrunk for their number (Chen et al. 2010)."""
    scaled = rest / np.maximum(np.median(np.abs(rest), axis=0), 1e-12)
    lengths = np.linalg.norm(scaled, axis=1)
    most = np.quantile(lengths, TYPICAL)
    return np.asarray(oas(rest * np.minimum(1.0, most / np.maximum(lengths, 1e-300))[:, None], assume_centered=True)[0])
