"""Fit a Gaussian mixture to noisy counts on a regular grid, knowing the noise. Post-processing: no record is seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.histogram_law import LEAST_VARIANCE, log_total, noise_variance, true_counts
from pm_dpgmm.methods.counts.moves import Parameters, moved, without_one
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.methods.counts.points_of_bins import (
    CELL_VARIANCE,
    LEAST_IN_COLUMN,
    NEAR,
    SMALLEST_VARIANCE,
    cell_centres,
    fineness_for,
    finest,
    in_bins,
    in_records,
    of_bins,
    parts_at,
    points_of,
)
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import IntArray

N_WIDE, N_NARROW = 10, 4  # short runs to find the basin: from a typical width, and from that of a bin
N_STARTS, START_STEPS = N_WIDE + N_NARROW, 40
MAX_STEPS, TOLERANCE = 500, 1e-4  # of the long run; gain of log-likelihood per step, in nats over all bins
START_SEED = 20231  # public: starting points are post-processing, and a fixed seed makes a release reproducible
PRIOR_RECORDS = 0.3  # pseudo-records of the prior on a covariance, for each unit of the noise scale
LONG = 10  # steps of a long run that are a part of the progress
N_PARTS = N_STARTS + 2 * MAX_STEPS // LONG
FIRST_SHARE = 0.05  # of a known component, to start from
BLOCKS, ADD_STEPS = (1, 2, 4, 8), 5  # bins along a side where another component may be, steps to choose one
SMALLEST_EXPECTED = 1e-6  # count of an empty bin far from every component; keeps logarithms finite

BoolArray = NDArray[np.bool_]


def fit_counts(
    counts: IntArray,
    bounds: FloatArray,
    n_components: int,
    *,
    noise_scale: float,
    progress: Callable[[int, int], None],
) -> Mixture:
    """Fit a mixture to noisy counts by EM on the likelihood that knows the noise.

    The true count of the bin at x is Poisson with mean sum over k of rate_k N(x; mean_k, covariance_k + I/12), in units
    of a bin; the published one adds discrete Laplace noise of scale b. EM treats the true counts as missing: their
    expectation given the published count is exact (:func:`pm_dpgmm.methods.counts.noisy_poisson.count_log_likelihood`),
    and the rest is EM for a mixture on weighted points. Where a component is narrower than that holds for, along any
    direction, every bin is cut into smaller ones, whose sums are published. Every bin counts, empty ones included:
    nothing is cut. Mass outside the bounds counts against a mixture, since records there were moved to the edge. Rates
    are free, so the number of records is not used.

    Parameters
    ----------
    counts : ndarray of int, shape (n_cells,) * D
        Noisy counts; any integers.
    bounds : ndarray, shape (D, 2)
        Public bounds, in the unit of the records.
    n_components : int
        Components to fit.
    noise_scale : float
        Scale b of the Laplace noise in the counts.
    progress : callable
        Called with (parts done, ``N_PARTS``); the last of them are those of :func:`fit_beside`.

    Returns
    -------
    Mixture
        In the unit of the records; a function of the arguments alone.
    """
    n_cells = counts.shape[0]
    # everything below is in units of a bin, so that no unit of the data reaches the floors
    grid = _grid(counts, n_components, noise_scale)
    rng = np.random.default_rng(START_SEED)
    runs = []
    for done in range(N_STARTS):
        # from a wide start a single bin of many records is taken for noise: its component loses all others first
        covariance = grid.spread if done < N_WIDE else np.eye(counts.ndim)
        runs.append(_em(grid, _start(grid, covariance, rng), START_STEPS))
        progress(done + 1, N_PARTS)
    best = max(runs, key=lambda run: run[0])[1]
    run = _em(grid, best, MAX_STEPS, lambda step: progress(N_STARTS + step // LONG, N_PARTS))
    _, found = moved(
        run,
        grown=lambda fit: _grown(grid, fit),
        fewer=lambda fit: list(without_one(*fit)),
        value=lambda fit: _em(grid, fit, 1)[0],
        improved=lambda fit: _em(grid, fit, MAX_STEPS),
    )
    return in_records(*_narrowed(grid, found), bounds, n_cells)


def fit_beside(
    counts: IntArray,
    bounds: FloatArray,
    mixture: Mixture,
    known: Mixture,
    *,
    noise_scale: float,
    n_records: int | None,
    progress: Callable[[int, int], None],
) -> Mixture:
    """Fit to the same counts from ``mixture``, with one more component of which only the weight is free.

    A public number of records is used here: what bins of little noise do not hold must lie in the many others.

    Parameters
    ----------
    counts, bounds, noise_scale, progress
        As for :func:`fit_counts`.
    mixture : Mixture
        That :func:`fit_counts` found.
    known : Mixture
        The component.
    n_records : int or None
        Where it is public.

    Returns
    -------
    Mixture
        Without the known component.
    """
    n_cells = counts.shape[0]
    fineness = fineness_for(mixture, bounds, n_cells)
    grid = _grid(counts, mixture.n_components, noise_scale, fineness)
    grid = replace(grid, n_fixed=1, n_records=n_records)
    n_expected = max(float(counts.sum()), 1.0) if n_records is None else float(n_records)
    own = in_bins(mixture, bounds, n_cells, (1 - FIRST_SHARE) * n_expected, fineness)
    other = in_bins(known, bounds, n_cells, FIRST_SHARE * n_expected, fineness)
    both = _beside(own, other)
    told = N_PARTS - MAX_STEPS // LONG
    _, both = _em(replace(grid, spread=both[2]), both, MAX_STEPS, lambda step: progress(told + step // LONG, N_PARTS))
    fineness, (rates, means, blurred) = _narrowed(grid, both)
    return in_records(fineness, (rates[:-1], means[:-1], blurred[:-1]), bounds, n_cells)


def fit_larger(
    counts: IntArray,
    bounds: FloatArray,
    mixture: Mixture,
    background: tuple[float, Mixture] | None,
    *,
    noise_scale: float,
) -> Mixture:
    """What :func:`fit_counts` found with one component more, where counts are left over; without the background."""
    n_cells, n_expected = counts.shape[0], max(float(counts.sum()), 1.0)
    weight, fineness = 0.0 if background is None else background[0], fineness_for(mixture, bounds, n_cells)
    parameters = in_bins(mixture, bounds, n_cells, (1 - weight) * n_expected, fineness)
    grid = _grid(counts, mixture.n_components, noise_scale, fineness)
    if background is not None:
        grid = replace(grid, n_fixed=1)
        parameters = _beside(parameters, in_bins(background[1], bounds, n_cells, weight * n_expected, fineness))
    larger = replace(grid, n_components=grid.n_components + 1)
    _, found = _em(larger, _grown(grid, parameters), MAX_STEPS)
    rates, means, blurred = (rows[: larger.n_components] for rows in found)
    return in_records(fineness, (rates, means, blurred), bounds, n_cells)


def _beside(own: Parameters, other: Parameters) -> Parameters:
    rates, means, blurred = (np.concatenate(pair) for pair in zip(own, other, strict=True))
    return rates, means, blurred


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Noisy counts in units of a bin."""

    n_cells: int  # along a column
    centres: FloatArray  # (M, D)
    fineness: int  # points along a side of a bin that stand for their surroundings: the centre alone is 1
    points: FloatArray  # (M fineness^D, D), those of the first bin before those of the next
    heights: FloatArray  # (M,)
    noise_scale: float
    n_components: int
    prominent: BoolArray  # (M,), bins that stand out of the noise
    excess: FloatArray  # (number of those,), positive, by how much they do
    spread: FloatArray  # where the prior has covariances: a typical one (D, D), or one for each component (K, D, D)
    n_fixed: int = 0  # components, the last ones, of which the rate alone is free
    n_records: int | None = None  # where it is public and used


def _grid(counts: IntArray, n_components: int, noise_scale: float, fineness: int = 1) -> _Grid:
    d, n_cells = counts.ndim, counts.shape[0]
    centres = cell_centres(np.array([[0.0, n_cells]] * d), n_cells)
    heights = counts.ravel().astype(float)
    # an empty bin exceeds b ln(m/8) with probability below 4/m, so about four of m empty bins stand out
    threshold = noise_scale * math.log(max(2.0, heights.size / 8))
    prominent = heights > threshold
    if prominent.sum() < 2 * n_components:
        prominent = np.argsort(np.argsort(-heights)) < 2 * n_components
    # the threshold is taken off, else empty bins that stand out make a narrow component's typical width that of the box
    excess = np.maximum(heights[prominent] - threshold, 1e-3)
    mass = excess / excess.sum()
    centred = centres[prominent] - mass @ centres[prominent]
    spread = ((centred.T * mass) @ centred + np.eye(d)) / n_components ** (2 / d)
    points = points_of(d, n_cells, fineness)
    return _Grid(n_cells, centres, fineness, points, heights, noise_scale, n_components, prominent, excess, spread)


def _narrowed(grid: _Grid, found: Parameters) -> tuple[int, Parameters]:
    """Fineness and parameters, fitted again on finer points as long as a component is as narrow as these allow.

    The prior has each covariance where it was found: a typical one is as wide as the components lie apart, and the less
    than one record that it counts for would widen a narrow one by half. Where that overflows, what was found before.
    """
    d = grid.centres.shape[1]
    found = _settled(grid, found) or found
    while grid.fineness < finest(d, grid.n_cells):
        least = np.linalg.eigvalsh(found[2][: grid.n_components])[:, 0].min()
        if least > NEAR * (SMALLEST_VARIANCE + CELL_VARIANCE) / grid.fineness**2:
            break
        fineness = 2 * grid.fineness
        narrower = found[2] - np.eye(d) * (CELL_VARIANCE / grid.fineness**2 - CELL_VARIANCE / fineness**2)
        finer = replace(grid, fineness=fineness, points=points_of(d, grid.n_cells, fineness))
        again = _settled(finer, (found[0], found[1], narrower))
        if again is None:
            break
        grid, found = finer, again
    return grid.fineness, found


def _settled(grid: _Grid, found: Parameters) -> Parameters | None:
    """Fitted on, with the covariances of the prior where they were found; None where that overflows."""
    with np.errstate(all="ignore"):
        try:
            return _em(replace(grid, spread=found[2]), found, MAX_STEPS)[1]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent: go on
            return None


def _em(
    grid: _Grid, parameters: Parameters, max_steps: int, going: Callable[[int], None] = lambda step: None
) -> tuple[float, Parameters]:
    """EM from ``parameters``; returns the penalised log-likelihood of the last but one step, and the parameters."""
    pseudo = PRIOR_RECORDS * max(1.0, grid.noise_scale)
    previous = -math.inf
    for step in range(max_steps):
        going(step)
        parts, penalty = _expected_parts(grid, parameters, pseudo)
        expected = of_bins(parts, len(grid.heights)) + SMALLEST_EXPECTED
        log_likelihood, slope = count_log_likelihood(grid.heights, expected, noise_scale=grid.noise_scale)
        # the mass outside the grid is a Poisson count known to be 0
        value = float(log_likelihood.sum() - (parameters[0].sum() - parts.sum()) - penalty)
        # E[true count] = expected (1 + d log-likelihood / d expected), shared over the components
        true = 1 + slope
        if grid.n_records is not None:
            true, log_total = _given_the_total(grid, expected, true)
            value += log_total
        if value - previous < TOLERANCE:
            break
        previous = value
        parameters = _maximise(
            grid, parts * np.repeat(true, grid.fineness ** grid.centres.shape[1]), pseudo, parameters
        )
    return previous, parameters


def _given_the_total(grid: _Grid, expected: FloatArray, true: FloatArray) -> tuple[FloatArray, float]:
    """E[true count | noisy counts, their true sum] over the expected (M,), and the log-likelihood of that sum.

    ``true`` (M,) has that without the sum, which is taken as Gaussian: of independent counts, whose excess over what
    was expected is theirs in proportion to their variances (:func:`histogram_law.log_density` has the same law).
    """
    assert grid.n_records is not None
    # true counts over expected ones are P[c - 1]/P[c], so that a step lower they are P[c - 2]/P[c - 1]
    _, slope = count_log_likelihood(grid.heights - 1, expected, noise_scale=grid.noise_scale)
    with np.errstate(divide="ignore"):
        logs = np.zeros(len(expected)), np.log(true), np.log(true) + np.log1p(slope)
    _, variances = true_counts(grid.heights, expected, noise_variance(grid.noise_scale), logs)
    mean, variances = expected * true, np.maximum(variances, 0.0)
    total, spread = float(mean.sum()), float(variances.sum())
    moved = variances * ((grid.n_records - total) / max(spread, LEAST_VARIANCE))
    return np.maximum(mean + moved, 0.0) / expected, float(log_total(grid.n_records, total, spread))


def _grown(grid: _Grid, parameters: Parameters) -> Parameters:
    """With one component more, from where the counts exceed those expected most, at one of several sizes."""
    larger = replace(grid, n_components=grid.n_components + 1)
    starts = [_added(grid, parameters, size) for size in BLOCKS if size <= grid.n_cells]
    best = max((_em(larger, start, ADD_STEPS) for start in starts), key=lambda run: run[0])
    return _em(larger, best[1], START_STEPS)[1]


def _added(grid: _Grid, parameters: Parameters, size: int) -> Parameters:
    """With a component in the block of so many bins along a side where the excess is most deviations."""
    expected = of_bins(parts_at(grid.points, len(grid.heights), parameters)[0], len(grid.heights))
    shape = (grid.n_cells,) * grid.centres.shape[1]
    n_bins = size ** len(shape)

    def pooled(values: FloatArray) -> FloatArray:
        return np.asarray(ndimage.uniform_filter(values.reshape(shape), size, mode="constant").ravel() * n_bins)

    excess = pooled(grid.heights - expected)
    variance = pooled(expected) + n_bins * noise_variance(grid.noise_scale)
    at = int((excess / np.sqrt(np.maximum(variance, LEAST_VARIANCE))).argmax())
    covariance = (size**2 * CELL_VARIANCE + SMALLEST_VARIANCE) * np.eye(len(shape))
    new = np.array([max(excess[at], 1.0)]), grid.centres[[at]], covariance[None]
    before = slice(grid.n_components), slice(grid.n_components, None)  # a fixed component stays the last
    rates, means, covariances = (
        np.concatenate([old[before[0]], one, old[before[1]]]) for old, one in zip(parameters, new, strict=True)
    )
    return rates, means, covariances


def _expected_parts(grid: _Grid, parameters: Parameters, pseudo: float) -> tuple[FloatArray, float]:
    """Expected count of each component around each point (K, N), and the penalty of the prior on the covariances."""
    parts, log_determinants = parts_at(grid.points, len(grid.heights), parameters)
    covariances = parameters[2]
    traces = np.trace(np.linalg.solve(covariances, np.broadcast_to(grid.spread, covariances.shape)), axis1=1, axis2=2)
    return parts, 0.5 * pseudo * float((log_determinants + traces)[: grid.n_components].sum())


def _maximise(grid: _Grid, shares: FloatArray, pseudo: float, before: Parameters) -> Parameters:
    """Rates, means and covariances from the expected true counts of each component; covariances with the prior."""
    rates = shares.sum(axis=1) + 1e-9
    means = shares @ grid.points / rates[:, None]
    offsets = grid.points - means[:, None, :]
    scatter = np.einsum("km,kmi,kmj->kij", shares, offsets, offsets) + pseudo * grid.spread
    values, vectors = np.linalg.eigh(scatter / (rates + pseudo)[:, None, None])
    values = np.maximum(values, (SMALLEST_VARIANCE + CELL_VARIANCE) / grid.fineness**2)
    covariances = (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    own = np.diagonal(covariances, axis1=1, axis2=2)
    missing = np.maximum(LEAST_IN_COLUMN + CELL_VARIANCE / grid.fineness**2 - own, 0.0)
    covariances = covariances + missing[:, None] * np.eye(own.shape[1])
    fixed = slice(grid.n_components, None)
    means[fixed], covariances[fixed] = before[1][fixed], before[2][fixed]
    return rates, means, covariances


def _start(grid: _Grid, covariance: FloatArray, rng: np.random.Generator) -> Parameters:
    """A random start: k-means++ seeds (Arthur and Vassilvitskii 2007) on bins that stand out of the noise.

    Written out, because scikit-learn's greedy ``kmeans_plusplus(sample_weight=)`` is no better: over 16 paired data
    sets each the fits were equal to 1e-4 nats a record in eight settings of ten; with 1,000 records in two columns they
    were worse by 0.14 (standard error 0.14) and 0.15 (0.13).
    """
    k = grid.n_components
    points = grid.centres[grid.prominent]
    mass = grid.excess / grid.excess.sum()
    chosen = [int(rng.choice(len(points), p=mass))]
    while len(chosen) < k:
        gaps = ((points[:, None, :] - points[chosen]) ** 2).sum(axis=2).min(axis=1) * mass
        chosen.append(int(rng.choice(len(points), p=gaps / gaps.sum() if gaps.sum() > 0 else mass)))
    total = np.maximum(grid.heights[grid.prominent], 1e-3).sum()
    return np.full(k, total / k), points[chosen].copy(), np.repeat(covariance[None], k, axis=0)
