"""The mixture that explains the noisy sums of all EM steps best: a point fit by the law that ``observe`` has.

Post-processing: released and public numbers alone. The sums of all steps are normal around n m with covariance n V + S
(law.py), so the mixture is found by weighted least squares whose weights follow it: Fisher scoring of the mean, at the
covariance where it stands. Slopes of m come from the score of the mixture: the derivative of E h(x) is E h(x) times
that of the log density, so features are never differentiated. Of several starts the answer with the largest log density
is taken, determinant included.

A weak prior keeps what the sums do not tell near the crude mixture that the steps began with: a standard deviation of
``RATIO`` for the logarithms of weights, of half the bounds for means, of ``STRETCH`` for entries of factors, whose
diagonals are logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.em_sums import Squares
from pm_dpgmm.methods.em.law import SPACING, grid, normal_nodes
from pm_dpgmm.methods.em.statistics import FeatureSums
from pm_dpgmm.mixture.coordinates import Coordinates, triangle
from pm_dpgmm.mixture.mixture import LOG_2PI, Mixture

RATIO, STRETCH = 2.0, 1.0
LIMITS = (-5.0, 5.0)  # of the logarithms of a factor's diagonal, from the crude mixture's
LEAST_WEIGHT = 0.01  # of a component that a fit starts from
COARSE = 512  # nodes of each component while starts are compared, in two columns and more
STEPS, LAST_STEPS = 25, 12  # of scoring, from every start and from the best ones at all nodes
FIRST_STEPS, GO_ON = 8, 3  # of STEPS that every start has, and how many starts have the others; several columns
KEPT, SAME = 2, 0.05  # ends that go on at all nodes, unless their log densities differ by less than SAME
CONVERGED, NEARLY = 1e-2, 0.1  # length of the last step, in standard errors; while starts are compared
LONGEST = 1.0  # change of a coordinate in one step
MISFIT, SURE = 0.03, 6.0  # nats a record; standard deviations of a chi-square, below which it may be chance
CHUNK = 512  # nodes that are worked on together
FIT_PARTS = 20  # of a progress, for a last fit
START_SEED = 20246  # public: starts are post-processing


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Law of one record's features at a mixture, all in standard deviations of the noise of their sums."""

    mean: FloatArray  # (P,)
    covariance: FloatArray  # (P, P)
    slopes: FloatArray  # (P, size): of the mean, by the free coordinates


class Objective:
    """Minus the log posterior of the coordinates of a mixture, given sums of EM steps."""

    def __init__(
        self, statistics: FeatureSums, crude: Mixture, covariance: Squares, *, n_nodes: int | None = None
    ) -> None:
        k, d = crude.means.shape
        frames = np.asarray(np.linalg.cholesky(shaped(crude.covariances, covariance)), dtype=float)
        weights = np.maximum(crude.weights, LEAST_WEIGHT)
        weights = weights / weights.sum()
        self.statistics = statistics
        self.chart = Coordinates(
            k, d, "ratios", reference=int(np.argmax(weights)), origin=(weights, crude.means, frames), limits=LIMITS
        )
        self.free = free_coordinates(self.chart, covariance)
        self.n_records = float(statistics.n_records)
        self.scales = statistics.noise_scales
        self.values = statistics.values / self.scales
        self.precision = self.free.T @ _prior_precision(self.chart, statistics.unit) @ self.free
        self._nodes = None if d == 1 else _nodes(d, self.n_records, n_nodes)
        if d == 1:
            x, step = grid(statistics)
            self._grid = x, np.log(step)
            self._features = statistics.features(np.append(x, statistics.bounds[0])[:, None]) / self.scales

    def start(self, mixture: Mixture) -> FloatArray:
        """Coordinates of a mixture, those that are not free left out."""
        factors = np.linalg.cholesky(mixture.covariances)
        vector = self.chart.of(mixture.weights, mixture.means, np.asarray(factors, dtype=float), least=LEAST_WEIGHT)
        return np.asarray(np.linalg.lstsq(self.free, vector, rcond=None)[0])

    def mixture(self, point: FloatArray) -> Mixture:
        """The mixture at free coordinates, its means within the bounds."""
        weights, means, factors = self.chart.at(self.free @ point)
        low, high = self.statistics.bounds.T
        covariances = factors @ factors.swapaxes(1, 2)
        return Mixture(weights, np.clip(means, low, high), (covariances + covariances.swapaxes(1, 2)) / 2)

    def moments(self, point: FloatArray) -> Moments:
        """Mean, covariance and slopes at free coordinates."""
        vector = self.free @ point
        parts = self.chart.at(vector)
        mean, second, by_parts = self._in_a_line(*parts) if self._nodes is None else self._in_space(*parts)
        rows = np.broadcast_to(vector, (len(mean), len(vector)))
        slopes = self.chart.pullback(rows, *by_parts) @ self.free
        return Moments(mean, second - np.outer(mean, mean), slopes)

    def covariance(self, found: Moments) -> FloatArray:
        """Of all sums, in standard deviations of their noise."""
        unknown = float(self.statistics.n_records_scale) ** 2 * np.outer(found.mean, found.mean)
        return np.asarray(self.n_records * found.covariance + unknown + np.eye(len(found.mean)))

    def log_density(self, point: FloatArray, found: Moments) -> float:
        """Log density of the sums less the penalty of the prior, up to a constant."""
        root = np.linalg.cholesky(self.covariance(found))
        rest = linalg.solve_triangular(root, self.values - self.n_records * found.mean, lower=True)
        return float(-0.5 * (rest @ rest + point @ self.precision @ point) - np.log(np.diagonal(root)).sum())

    def excess(self, mixture: Mixture) -> float:
        """Of :func:`fit_sums`; of what leaves, whose means are within the bounds."""
        parts = mixture.weights, mixture.means, np.asarray(np.linalg.cholesky(mixture.covariances), dtype=float)
        mean, second, _ = self._in_a_line(*parts) if self._nodes is None else self._in_space(*parts)
        total = self.covariance(Moments(mean, second - np.outer(mean, mean), second[:0]))
        rest = self.values - self.n_records * mean
        more = float(rest @ linalg.cho_solve(linalg.cho_factor(total, lower=True), rest)) - len(rest)
        return more / (2 * self.n_records) if more > SURE * np.sqrt(2 * len(rest)) else 0.0

    def _in_a_line(self, weights: FloatArray, means: FloatArray, factors: FloatArray) -> Line:
        """On the grid of one column."""
        x, log_step = self._grid
        mu, sd = means[:, 0], factors[:, 0, 0]
        z = (x[:, None] - mu) / sd
        shares = special.softmax(log_step[:, None] - 0.5 * z**2, axis=0)
        low, high = self.statistics.bounds[0]
        ends = np.stack([(low - mu) / sd, (mu - high) / sd])
        outside, heights = special.ndtr(ends), np.exp(-0.5 * (ends**2 + LOG_2PI)) / sd
        outer = self._features[-2:]
        by_mu = np.array([[-1.0], [1.0]]) * heights  # slopes of the probabilities of both ends
        by_sd = -heights * ends
        inside, h_inside = 1 - outside.sum(axis=0), shares.T @ self._features[:-2]
        each = inside[:, None] * h_inside + outside.T @ outer  # (K, P)

        def slope(score: FloatArray, by_ends: FloatArray) -> FloatArray:
            turned = shares * (score - (shares * score).sum(axis=0))
            moved = inside[:, None] * (turned.T @ self._features[:-2]) - by_ends.sum(axis=0)[:, None] * h_inside
            return np.asarray(weights[:, None] * (moved + by_ends.T @ outer))

        p = np.concatenate([shares @ (weights * inside), outside @ weights])
        second = (self._features * p[:, None]).T @ self._features
        by_means, by_factors = slope(z / sd, by_mu).T[:, :, None], slope(z**2 / sd, by_sd).T[:, :, None, None]
        return weights @ each, second, (each.T, by_means, by_factors)

    def _in_space(self, weights: FloatArray, means: FloatArray, factors: FloatArray) -> Line:
        """At normal nodes, component by component."""
        assert self._nodes is not None
        u, q = self._nodes
        k, d = means.shape
        n_values = len(self.values)
        each, second = np.empty((n_values, k)), np.zeros((n_values, n_values))
        by_means, by_factors = np.empty((n_values, k, d)), np.empty((n_values, k, d, d))
        by_u, by_products = np.zeros((n_values, d)), np.zeros((n_values, d * d))
        for j in range(k):
            each[:, j], by_u[:], by_products[:] = 0.0, 0.0, 0.0
            for some in _chunks(len(u)):
                at, chance = u[some], q[some]
                h = self.statistics.features(means[j] + at @ factors[j].T)
                weighted = h.T * (chance / self.scales[:, None])
                each[:, j] += weighted.sum(axis=1)
                second += weights[j] / self.scales * (weighted @ h)
                by_u += weighted @ at
                by_products += weighted @ (at[:, :, None] * at[:, None, :]).reshape(len(at), d * d)
            inverse = linalg.solve_triangular(factors[j], np.eye(d), lower=True)
            by_means[:, j] = weights[j] * by_u @ inverse
            turned = by_products.reshape(n_values, d, d) - each[:, j, None, None] * np.eye(d)
            by_factors[:, j] = weights[j] * np.einsum("ji,pjl->pil", inverse, turned)
        return each @ weights, second, (each, by_means, by_factors)


Line = tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray, FloatArray]]
Going = Callable[[float], None]


def fit_sums(
    statistics: FeatureSums,
    crude: Mixture,
    *,
    covariance: Squares = Squares.FULL,
    starts: Iterable[Mixture] = (),
    n_random: int | None = None,
    last: bool = True,
    going: Going = lambda share: None,
) -> tuple[Mixture, float]:
    """The mixture that explains the sums of all steps best.

    Parameters
    ----------
    statistics : EMStatistics or CentralStatistics
    crude : Mixture
        Released or public: the centre of the weak prior, and the first start.
    covariance : Squares
        What the covariances are to be: "full", "diagonal" or "isotropic".
    starts : iterable of Mixture
        More places to start from.
    n_random : int, optional
        Random ones around the crude mixture; by default 8 in one column, 3 in more. Their seed is public.
    last : bool
        False, for what only tells where the next step is made: a few nodes will do.
    going : callable
        Called with the share of the work that is done at least, below 1: in ten columns it takes a minute.

    Returns
    -------
    mixture : Mixture
        Never fails: without any answer, the crude mixture.
    excess : float
        By how much the mixture misses the sums, in nats a record: their chi-square less their number, over twice the
        records, and 0 while it may be chance. Above ``MISFIT`` no mixture of this kind explains them, and the search is
        cut short.
    """
    d = crude.n_features
    objective = Objective(statistics, crude, covariance, n_nodes=COARSE)
    points = [np.zeros(objective.free.shape[1])]
    for mixture in starts:
        try:
            points.append(objective.start(mixture))
        except (ValueError, np.linalg.LinAlgError):  # one start less: the budget is spent
            continue
    points += _random_starts(objective, points, (8 if d == 1 else 3) if n_random is None else n_random)
    if d == 1:
        found = _scored(objective, points, STEPS, CONVERGED, _part(going, 0.0, 1.0))
    else:  # hopeless starts show early
        first = _scored(objective, points, FIRST_STEPS, NEARLY, _part(going, 0.0, 0.2))
        left = [point for _, point in first[:GO_ON]]
        found = _scored(objective, left, STEPS - FIRST_STEPS, NEARLY, _part(going, 0.2, 0.4)) or first
    best = _first(objective, found)
    if d > 1 and last and best is not None and best[1] <= 2 * MISFIT:
        objective = Objective(statistics, crude, covariance)
        whole = _scored(objective, _distinct(found), LAST_STEPS, CONVERGED, _part(going, 0.4, 1.0))
        best = _first(objective, whole or found)
    return best or (Mixture(crude.weights, crude.means, shaped(crude.covariances, covariance)), 0.0)


def in_parts(progress: Callable[[int, int], None], before: int) -> Going:
    """A last fit, which takes longest, as ``FIT_PARTS`` of a progress after ``before`` others."""
    return lambda share: progress(before + int(FIT_PARTS * share), before + FIT_PARTS)


def _part(going: Going, low: float, high: float) -> Going:
    """From the share of a part to that of the whole."""
    return lambda share: going(low + (high - low) * share)


def _first(objective: Objective, found: Sequence[tuple[float, FloatArray]]) -> tuple[Mixture, float] | None:
    """The first end that is a mixture, and its excess, as :func:`fit_sums` says."""
    for _, point in found:
        try:
            mixture = objective.mixture(point)
            return mixture, objective.excess(mixture)
        except (ValueError, np.linalg.LinAlgError):
            continue
    return None


def shaped(covariances: FloatArray, kind: Squares) -> FloatArray:
    """Covariances (K, D, D) without what a diagonal or isotropic one has not."""
    if kind is Squares.FULL:
        return covariances
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    if kind is Squares.ISOTROPIC:
        variances = np.broadcast_to(variances.mean(axis=1, keepdims=True), variances.shape)
    return np.asarray(variances[:, :, None] * np.eye(covariances.shape[1]))


def free_coordinates(chart: Coordinates, kind: Squares) -> FloatArray:
    """Matrix (size, free) from free coordinates to all: entries below a diagonal fixed, or all of it one number."""
    whole = np.eye(chart.size)
    if kind is Squares.FULL:
        return whole
    place = chart.blocks[2].start
    diagonal = triangle(chart.n_features)[2]
    width = chart.n_features * (chart.n_features + 1) // 2
    columns = [whole[:, :place]]
    for j in range(chart.n_components):
        own = whole[:, place + j * width + diagonal]
        columns.append(own.sum(axis=1, keepdims=True) if kind is Squares.ISOTROPIC else own)
    return np.concatenate(columns, axis=1)


def _prior_precision(chart: Coordinates, unit: FloatArray) -> FloatArray:
    assert chart.origin is not None
    frames, d = chart.origin[2], chart.n_features
    precision = np.diag(chart.filled(RATIO**-2, 0.0, STRETCH**-2, STRETCH**-2))
    for j, frame in enumerate(frames):
        own = slice(chart.blocks[1].start + j * d, chart.blocks[1].start + (j + 1) * d)
        precision[own, own] = (frame / unit[:, None]).T @ (frame / unit[:, None])
    return np.asarray(precision)


def _nodes(n_features: int, n_records: float, most: int | None) -> tuple[FloatArray, FloatArray]:
    """Those of law.py; or a few of them, with which starts are compared."""
    nodes, weights = normal_nodes(n_features, n_records if most is None else 1.0)
    if most is None or n_features in SPACING or len(nodes) <= most:
        return nodes, weights
    half = len(nodes) // 2  # Sobol points and their opposites
    kept = np.concatenate([nodes[: most // 2], nodes[half : half + most // 2]])
    factor = np.linalg.cholesky(kept.T @ kept / len(kept))
    return np.ascontiguousarray(linalg.solve_triangular(factor, kept.T, lower=True).T), np.full(
        len(kept), 1 / len(kept)
    )


def _chunks(size: int) -> list[slice]:
    """Nodes that are worked on together: so few that their features stay in the cache."""
    return [slice(i, min(i + CHUNK, size)) for i in range(0, size, CHUNK)]


def _random_starts(objective: Objective, points: Sequence[FloatArray], number: int) -> list[FloatArray]:
    """Around the last start: means moved by about a standard deviation, factors made smaller or larger."""
    rng, chart = np.random.default_rng(START_SEED), objective.chart
    row, column, _ = triangle(chart.n_features)
    found = []
    for _ in range(number):
        k, d = chart.n_components, chart.n_features
        scale = rng.uniform(-0.9, 0.6, size=(k, 1)) * (row == column)
        moved = rng.normal(0.0, 1.5 if d == 1 else 1.0, size=(k, d))
        vector = np.concatenate([rng.normal(0.0, 0.5, size=chart.n_logs), moved.ravel(), scale.ravel()])
        found.append(points[-1] + np.linalg.lstsq(objective.free, vector, rcond=None)[0])
    return found


def _distinct(found: Sequence[tuple[float, FloatArray]]) -> list[FloatArray]:
    """The best end, and the next one that is another."""
    others = [point for value, point in found[1:] if value < found[0][0] - SAME]
    return [found[0][1], *others[: KEPT - 1]]


def _scored(
    objective: Objective, points: Sequence[FloatArray], n_steps: int, tolerance: float, going: Going
) -> list[tuple[float, FloatArray]]:
    """Where scoring from every point ends, the largest log density first."""
    found: list[tuple[float, int, FloatArray]] = []
    for i, point in enumerate(points):
        try:
            with np.errstate(all="ignore"):
                own = _part(going, i / len(points), (i + 1) / len(points))
                value, end = _scoring(objective, point, n_steps, tolerance, own)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            continue
        if np.isfinite(value):
            found.append((value, i, end))
    found.sort(key=lambda one: (-one[0], one[1]))
    return [(value, end) for value, _, end in found]


def _scoring(
    objective: Objective, point: FloatArray, n_steps: int, tolerance: float, going: Going
) -> tuple[float, FloatArray]:
    """Fisher scoring with damping; log density and free coordinates where it ends."""
    n, damping = objective.n_records, 1e-3
    found = objective.moments(point)
    for t in range(n_steps):
        going(t / n_steps)
        root = linalg.cho_factor(objective.covariance(found), lower=True)

        def cost(at: FloatArray, law: Moments, root: tuple[FloatArray, bool] = root) -> float:
            rest = objective.values - n * law.mean
            return float(rest @ linalg.cho_solve(root, rest) + at @ objective.precision @ at) / 2

        slopes = n * found.slopes
        information = slopes.T @ linalg.cho_solve(root, slopes) + objective.precision
        gradient = slopes.T @ linalg.cho_solve(root, objective.values - n * found.mean) - objective.precision @ point
        here, accepted = cost(point, found), False
        for _ in range(6):
            lengths = np.diagonal(information)
            step = linalg.solve(information + damping * np.diag(lengths), gradient, assume_a="pos")
            longest = float(np.abs(step).max())
            step = step * min(1.0, LONGEST / max(longest, 1e-300))
            law = objective.moments(point + step)
            if cost(point + step, law) <= here:
                accepted = True
                break
            damping *= 8
        if not accepted:
            break
        point, found, damping = point + step, law, max(damping / 8, 1e-9)
        if float(step @ information @ step) < tolerance**2:
            break
    return objective.log_density(point, found), point
