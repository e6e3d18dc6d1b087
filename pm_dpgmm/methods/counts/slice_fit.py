"""Fit a Gaussian mixture to noisy slice counts, knowing the noise. Post-processing: no record is seen.

1. A cloud of points is drawn where all directions have records at once, and weighted until its slices match the counts
   (tomography). It is blurred, but needs no mixture.
2. Mixtures fitted to the cloud are the starts of a search on the exact likelihood of the noisy counts.
3. Where projections of two components cross, their widths may be swapped in that direction; swaps are tried.
4. If the mixture does not fit the counts, the likelihood of slices is a poor guide to the joint density: the cloud then
   counts for more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.quiet import without_warnings
from pm_dpgmm.mechanisms.slices import Slices
from pm_dpgmm.methods.counts.histogram_law import LEAST_VARIANCE, noise_variance
from pm_dpgmm.methods.counts.moves import moved, without_one
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.methods.counts.slice_model import (
    SMALLEST_EXPECTED,
    SMALLEST_VARIANCE,
    Components,
    SliceData,
    dispersion,
    expected_shares,
    improved,
    objective,
)
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import IntArray

FIT_SEED = 20263  # public: the search is post-processing, and a fixed seed makes a release reproducible
N_POINTS, LEVELS, SWEEPS, MATCHING_STEPS = 4000, 25, 6, 100  # of the cloud
N_CLOUD = 2000  # points kept, jittered within a bin
N_STARTS, START_STEPS, SWAP_STEPS, MAX_STEPS = 6, 40, 40, 300
CLOUD_RECORDS = 0.1  # pseudo-records of the cloud, for each unit of the noise scale
BAD_FIT = 1.5  # dispersion above which the cloud counts for more
CROSSING = 1.5  # projected means closer than this many deviations cross
WINDOWS, ADD_STEPS = (1, 3, 6), 5  # slices that another component may be wide, steps to choose one
N_CLIMBS, CLIMBS, ENOUGH = 100, 3, 4.0  # points, rounds of a search for its place; deviations that count as so many
MOST_SWAPS, TRIED_SWAPS, WORTH = 6, 4, 0.05  # rounds; refits in a round; gain in nats


@dataclass(frozen=True, slots=True, eq=False)
class SliceFits:
    """Fits to the same noisy slice counts, whose cloud of points is made once."""

    data: SliceData
    bounds: FloatArray  # (D, 2), public, in the unit of the records
    n_records: float  # that the cloud stands for

    @classmethod
    def to(cls, counts: IntArray, slices: Slices, bounds: FloatArray, *, noise_scale: float) -> SliceFits:
        """Make the cloud.

        Parameters
        ----------
        counts : ndarray of int, shape (slices.offsets[-1],)
            Noisy counts; any integers.
        slices : Slices
            Their public slices.
        bounds : ndarray, shape (D, 2)
            Public bounds, in the unit of the records.
        noise_scale : float
            Scale b of the Laplace noise in the counts.
        """
        rng = np.random.default_rng(FIT_SEED)
        heights = counts.astype(float)
        points, weights = _matched(heights, slices, noise_scale, rng)
        chosen = points[rng.choice(len(points), size=N_CLOUD, p=weights / weights.sum())]
        cloud = chosen + rng.uniform(-0.5, 0.5, chosen.shape)
        return cls(SliceData(slices, heights, noise_scale, cloud), bounds, float(weights.sum()))

    @property
    def light(self) -> float:
        """Pseudo-records of the cloud, unless the counts contradict the mixture."""
        return CLOUD_RECORDS * max(1.0, self.data.noise_scale)

    def alone(self, n_components: int, progress: Callable[[int, int], None]) -> tuple[Mixture, float]:
        """Fit a mixture to the counts.

        Parameters
        ----------
        n_components : int
            Components to fit.
        progress : callable
            Called with (runs done, runs in all).

        Returns
        -------
        mixture : Mixture
            In the unit of the records; a function of the arguments and the counts alone.
        dispersion : float
            Mean squared residual of the counts under the fit by likelihood: about 1 when a mixture of so many
            components fits, above 1.5 when it does not.
        """
        data, light = self.data, self.light
        starts = _starts(data.cloud, n_components, max(self.n_records, float(n_components)))
        steps = N_STARTS + 2

        def best_of_starts(cloud_weight: float) -> tuple[float, Components]:
            runs = [improved(data, start, cloud_weight, steps=START_STEPS) for start in starts]
            return max(runs, key=lambda run: run[0])

        progress(1, steps)
        best = _swapped(data, best_of_starts(light), light)
        best = moved(
            best,
            grown=lambda fit: _grown(data, fit, light),
            fewer=lambda fit: [Components.of(*one) for one in without_one(fit.rates, fit.means, fit.covariances)],
            value=lambda fit: objective(data, fit, light)[0],
            improved=lambda fit: improved(data, fit, light, steps=START_STEPS),
        )
        progress(N_STARTS, steps)
        for _ in range(2):  # the second time whitened by the first
            best = improved(data, best[1], light, steps=MAX_STEPS)
        misfit = dispersion(data, best[1])
        progress(N_STARTS + 1, steps)
        if misfit > BAD_FIT:
            heavy = min(light * misfit**2, 10 * self.n_records + light)
            best = improved(data, best_of_starts(heavy)[1], heavy, steps=MAX_STEPS)
        progress(steps, steps)
        return self._in_records(best[1]), misfit

    def beside(self, mixture: Mixture, known: FloatArray) -> Mixture:
        """Improve what :meth:`alone` found, beside ``known`` expected counts (M,) that belong to no component."""
        data = replace(self.data, known=known)
        return self._in_records(improved(data, self._in_slices(mixture), self.light, steps=MAX_STEPS)[1])

    def larger(self, mixture: Mixture, known: FloatArray | float) -> Mixture:
        """What :meth:`alone` found with one component more, where counts are left over."""
        data = replace(self.data, known=known)
        start = _grown(data, self._in_slices(mixture), self.light)
        return self._in_records(improved(data, start, self.light, steps=MAX_STEPS)[1])

    @property
    def _width(self) -> FloatArray:
        """Of a bin, in the unit of the records."""
        return np.asarray((self.bounds[:, 1] - self.bounds[:, 0]) / self.data.slices.n_cells)

    def _in_slices(self, mixture: Mixture) -> Components:
        """A mixture of all records, in units of a bin."""
        width = self._width
        return Components.of(
            mixture.weights * max(self.n_records, 1.0),
            (mixture.means - self.bounds[:, 0]) / width - self.data.slices.n_cells / 2,
            mixture.covariances / (width[:, None] * width),
        )

    def _in_records(self, found: Components) -> Mixture:
        """In the unit of the records."""
        width = self._width
        weights = np.maximum(found.rates / found.rates.sum(), 1e-6)
        covariances = found.covariances * (width[:, None] * width)
        return Mixture(
            weights / weights.sum(),
            found.means * width + (self.bounds[:, 0] + width * self.data.slices.n_cells / 2),
            (covariances + covariances.swapaxes(1, 2)) / 2,
        )


# ---------------------------------------------------------------------- cloud
def _matched(
    heights: FloatArray, slices: Slices, noise_scale: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Points in the box and their weights, in records, whose slices match the counts.

    Weights follow EM for Poisson counts of weighted points (Shepp and Vardi 1982), the true count replaced by its
    expectation given the noisy one, averaged over directions.
    """
    points = _drawn(heights, slices, noise_scale, rng)
    index = slices.index(points)
    n_directions = index.shape[1]
    weights = np.full(len(points), max(heights.sum() / n_directions, 10.0) / len(points))
    for _ in range(MATCHING_STEPS):
        shares = np.repeat(weights, n_directions)
        expected = np.bincount(index.ravel(), shares, len(heights)).astype(float) + SMALLEST_EXPECTED
        _, slope = count_log_likelihood(heights, expected, noise_scale=noise_scale)
        weights = weights * (1 + np.nan_to_num(slope)[index].mean(axis=1)) + 1e-12
    return points, weights


def _drawn(heights: FloatArray, slices: Slices, noise_scale: float, rng: np.random.Generator) -> FloatArray:
    """Points from the product of all marginals to the power D/S, by annealed sequential Monte Carlo.

    With the axes alone this is the product of the marginals; more directions sharpen it.
    """
    d, half = slices.directions.shape[1], slices.n_cells / 2
    log_heights = np.log(np.maximum(heights, noise_scale))
    points = rng.uniform(-half, half, (N_POINTS, d))
    scores = log_heights[slices.index(points)].sum(axis=1)
    last = 0.0
    for power in d / len(slices.directions) * np.linspace(0.14, 1, LEVELS) ** 2:
        chance = np.exp((power - last) * (scores - scores.max()))
        at = (np.arange(N_POINTS) + rng.uniform()) / N_POINTS * chance.sum()
        kept = np.minimum(np.searchsorted(np.cumsum(chance), at), N_POINTS - 1)
        points, scores, last = points[kept], scores[kept], power
        for _ in range(SWEEPS):
            step = np.exp(rng.uniform(math.log(0.5), math.log(half), (N_POINTS, 1))) * rng.standard_normal(
                (N_POINTS, d)
            )
            one_column = rng.integers(d, size=(N_POINTS, 1)) == np.arange(d)
            moved = points + np.where(one_column | (rng.random((N_POINTS, 1)) < 0.5), step, 0.0)
            new = log_heights[slices.index(moved)].sum(axis=1)
            accepted = (np.abs(moved) <= half).all(axis=1) & (np.log(rng.random(N_POINTS)) < power * (new - scores))
            points[accepted], scores[accepted] = moved[accepted], new[accepted]
    return points


# ---------------------------------------------------------------------- search
def _starts(cloud: FloatArray, n_components: int, n_records: float) -> list[Components]:
    """Mixtures fitted to the cloud from several k-means and k-means++ seeds."""
    from sklearn.mixture import GaussianMixture

    starts = []
    for seed in range(N_STARTS):
        kind = "k-means++" if seed % 2 else "kmeans"
        model = GaussianMixture(n_components, init_params=kind, random_state=seed, reg_covar=0.5, max_iter=60)
        with without_warnings():  # not converged, or fewer clusters than asked for: a start all the same
            model.fit(cloud)
        rates = np.maximum(model.weights_, 1e-3) * n_records
        starts.append(Components.of(rates, model.means_, model.covariances_))
    return starts


def _swapped(data: SliceData, best: tuple[float, Components], cloud_weight: float) -> tuple[float, Components]:
    """Exchange the widths of two components in one direction where their projections cross, as long as it helps."""
    along = data.slices.directions
    duals = _dual(along)
    for _ in range(MOST_SWAPS):
        value, found = best
        covariances = found.covariances
        variances = np.einsum("si,kij,sj->ks", along, covariances, along)
        projected = found.means @ along.T
        tried = []
        for a, b in itertools.combinations(range(len(found.rates)), 2):
            gap = np.abs(projected[a] - projected[b]) / np.sqrt(np.maximum(variances[a], variances[b]))
            for s in np.flatnonzero(gap < CROSSING):
                change = (variances[b, s] - variances[a, s]) * duals[s]
                other = covariances.copy()
                other[a] += change
                other[b] -= change
                swapped = Components.of(found.rates, found.means, other)
                tried.append((objective(data, swapped, cloud_weight)[0], swapped))
        tried.sort(key=lambda pair: -pair[0])
        for _, swapped in tried[:TRIED_SWAPS]:
            refit = improved(data, swapped, cloud_weight, steps=SWAP_STEPS)
            if refit[0] > value + WORTH:
                best = refit
                break
        else:
            return best
    return best


def _grown(data: SliceData, found: Components, cloud_weight: float) -> Components:
    """With one component more, from where counts exceed those expected in all directions, at one of several sizes."""
    starts = _added(data, found)
    best = max((improved(data, start, cloud_weight, steps=ADD_STEPS) for start in starts), key=lambda run: run[0])
    return improved(data, best[1], cloud_weight, steps=START_STEPS)[1]


def _added(data: SliceData, found: Components) -> list[Components]:
    """With a component where slices of all directions have more than is expected: one for each size."""
    expected = found.rates @ expected_shares(data, found)[0] + data.known + SMALLEST_EXPECTED
    cuts = data.slices.offsets[1:-1]
    added = []
    for window in (size for size in WINDOWS if size <= data.slices.n_cells):
        excess, variance = (
            np.concatenate([np.convolve(part, np.ones(window), "same") for part in np.split(values, cuts)])
            for values in (data.counts - expected, expected + noise_variance(data.noise_scale))
        )
        mean = _peak(data.slices, np.clip(excess / np.sqrt(np.maximum(variance, LEAST_VARIANCE)), -ENOUGH, ENOUGH))
        rate = max(float(np.median(excess[data.slices.index(mean[None])])), 1.0)
        covariance = (window**2 / 12 + SMALLEST_VARIANCE + 0.05) * np.eye(len(mean))
        covariances = np.concatenate([found.covariances, covariance[None]])
        added.append(Components.of(np.append(found.rates, rate), np.vstack([found.means, mean]), covariances))
    return added


def _peak(slices: Slices, values: FloatArray) -> FloatArray:
    """A point of the box whose slices have the largest mean of ``values`` (M,), by ascent along one column at a time.

    From points whose columns are drawn alone, in proportion to the squares of positive values in their slices.
    """
    d, n_cells = slices.directions.shape[1], slices.n_cells
    centres = np.arange(n_cells) + 0.5 - n_cells / 2
    rng = np.random.default_rng(FIT_SEED)
    heights = np.square(np.maximum(values[: d * n_cells], 0.0)).reshape(d, n_cells) + 1e-3  # the first directions
    points = np.column_stack([rng.choice(centres, N_CLIMBS, p=row / row.sum()) for row in heights])
    for _, column in itertools.product(range(CLIMBS), range(d)):
        tried = np.repeat(points[:, None, :], n_cells, axis=1)
        tried[:, :, column] = centres
        scores = values[slices.index(tried.reshape(-1, d))].mean(axis=1).reshape(N_CLIMBS, n_cells)
        points = tried[np.arange(N_CLIMBS), scores.argmax(axis=1)]
    return np.asarray(points[values[slices.index(points)].mean(axis=1).argmax()])


def _dual(directions: FloatArray) -> FloatArray:
    """Symmetric matrices B_s (S, D, D): adding c B_s to a covariance changes the variance along u_s by about c.

    Exactly c, and no other direction's, when there are D (D + 1) / 2 directions; the least-squares best with more.
    """
    d = directions.shape[1]
    row, column = np.triu_indices(d)
    forms = directions[:, row] * directions[:, column] * np.where(row == column, 1, 2)
    inverse = np.linalg.pinv(forms).T
    duals = np.zeros((len(directions), d, d))
    duals[:, row, column] = duals[:, column, row] = inverse
    return duals
