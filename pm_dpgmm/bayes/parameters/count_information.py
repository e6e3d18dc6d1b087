"""Fisher information of noisy cell counts about the mixture. Imports no PyMC."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.bayes.parameters.anchor import mixture_at, weak_deviations
from pm_dpgmm.methods.counts.background import LEAST_SHARE
from pm_dpgmm.methods.counts.histogram_fit import SMALLEST_EXPECTED
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.methods.counts.points_of_bins import chances_of_bins, fineness_for
from pm_dpgmm.methods.gaps.bin_fit import masses
from pm_dpgmm.methods.gaps.statistics import GapStatistics
from pm_dpgmm.mixture.background import background_of
from pm_dpgmm.mixture.mixture import Mixture, joined

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

STEP = 1e-4  # of numerical derivatives
LOG_ODDS = 2.0  # about the prior deviation of those of a background, and of its shape: likelihoods/free_background.py
N_TABLE = 60  # expected counts at which the information is computed
REACH = 40.0  # noise scales beyond which a count says nothing: exp(-40)
LARGEST_TABLE = 400.0  # expected count above which Poisson is normal
LAPLACE_VARIANCE = 2.0  # in squared scales


def bins_covariance(release: Released, mixture: Mixture) -> FloatArray:
    """As :func:`histogram_covariance` for counts of bins of any widths in one column."""
    found = GapStatistics.of(release.raw, release.noise)
    bins = found.bins
    total = float(found.n_records) if found.n_records is not None else max(1.0, float(bins.counts.sum()))

    def expected(offsets: FloatArray) -> FloatArray:
        near = mixture_at(offsets, mixture)
        deviations = np.sqrt(near.covariances[None, :, 0, 0])
        return np.asarray(total * near.weights @ masses(bins, near.means[None, :, 0], deviations)[0][0])

    return _covariance(expected, mixture, bins.noise_scale, np.zeros((0, len(bins.counts))))


def histogram_covariance(release: Released, mixture: Mixture) -> FloatArray:
    """Covariance of the offsets of the truth from ``mixture``: inverse information, shape (P, P).

    Counts are Poisson with free rates plus discrete Laplace noise, as in the fit; the weak prior is added, so that
    what the counts leave open stays finite.
    """
    counts, bounds = release.raw["counts"], release.raw["bounds"]
    n_cells = counts.shape[0]
    total = release.n_records if release.n_records is not None else max(1.0, float(counts.sum()))
    fineness = fineness_for(mixture, bounds, n_cells)
    background = background_of(release)

    def expected_counts(near: Mixture) -> FloatArray:
        return total * chances_of_bins(near, bounds, n_cells, fineness)

    def expected(offsets: FloatArray) -> FloatArray:
        return expected_counts(joined(mixture_at(offsets, mixture), background))

    far = np.zeros((0, counts.size))
    if background is not None:
        own, wide = (expected_counts(one) for one in (mixture, background[1]))
        share, flat = max(background[0], LEAST_SHARE), np.full(counts.size, total / counts.size)
        both = (wide + flat) / 2
        far = np.stack([share * (1 - share) * (both - own), share / 4 * (flat - wide)])  # by log odds
    return _covariance(expected, mixture, float(release.noise["scale"]), far)


def _covariance(
    expected: Callable[[FloatArray], FloatArray], mixture: Mixture, noise_scale: float, others: FloatArray
) -> FloatArray:
    """Inverse information of noisy counts whose expected values are given at offsets from the mixture.

    ``others`` (B, M): derivatives of the expected counts by what else is unknown, in log odds.
    """
    base = np.zeros(len(weak_deviations(mixture)))
    slopes = np.stack([(expected(base + s) - expected(base - s)) / (2 * STEP) for s in STEP * np.eye(len(base))])
    middle = expected(base) + SMALLEST_EXPECTED
    slopes = np.vstack([slopes, others, middle])  # last: by the logarithm of the total
    weighted = slopes * count_information(middle, noise_scale=noise_scale)
    information = weighted @ slopes.T
    index = np.arange(len(base))
    information[index, index] += 1 / weak_deviations(mixture) ** 2
    beside = len(base) + np.arange(len(others))
    information[beside, beside] += 1 / LOG_ODDS**2
    return np.asarray(np.linalg.inv(information)[: len(base), : len(base)])


def count_information(expected: FloatArray, *, noise_scale: float) -> FloatArray:
    """Fisher information of one noisy count about its expected value, shape of ``expected``.

    Computed on a grid of expected values and interpolated; above 400 the count is normal in all but its Laplace noise,
    and 1 / (expected + 2 noise_scale^2) is within 2 % wherever Poisson noise rules.

    Examples
    --------
    >>> count_information(np.array([1e-3, 1e4]), noise_scale=2.0).round(5).tolist()
    [0.25498, 0.0001]
    """
    grid = np.geomspace(1e-8, LARGEST_TABLE, N_TABLE)
    table = np.array([_information(value, noise_scale) for value in grid])
    inside = np.exp(np.interp(np.log(expected), np.log(grid), np.log(table)))
    normal = 1 / (expected + LAPLACE_VARIANCE * noise_scale**2)
    # where noise rules even at 400, its own information is larger than that of a normal law of its variance
    factor = table[-1] * (LARGEST_TABLE + LAPLACE_VARIANCE * noise_scale**2)
    fade = LARGEST_TABLE / np.maximum(expected, LARGEST_TABLE)
    return np.where(expected > LARGEST_TABLE, normal * (1 + (factor - 1) * fade), inside)


def _information(expected: float, noise_scale: float) -> float:
    reach = int(np.ceil(REACH * max(noise_scale, 1.0) + 10 * np.sqrt(expected) + 10))
    counts = np.arange(-reach, int(expected) + reach, dtype=float)
    logs, slopes = count_log_likelihood(counts, np.full(len(counts), expected), noise_scale=noise_scale)
    shares = np.exp(logs - logs.max())
    return float((shares * slopes**2).sum() / shares.sum())
