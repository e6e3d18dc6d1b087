"""The background of a mixture fitted to noisy counts: how much of the density it holds.

Post-processing: no record is seen. A mixture leaves out what real tables have besides, tails and rows far from every
component, where its log-density is minus dozens; a few rows in a hundred decide what such a density is worth. The
background is one Gaussian as wide as the public bounds, which are two of its deviations from its mean: a row that lies
anywhere within them is then worth 0.2 nats a column less than under the uniform law, and would be 0.6 at three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.caveats import LEAST_SIGNAL, Counts, judged, likely_number, signal
from pm_dpgmm.methods.counts.histogram_fit import fit_beside
from pm_dpgmm.methods.counts.histogram_law import (
    LEAST_EXPECTED,
    log_total,
    noise_variance,
    numpy_log_count,
    true_counts,
)
from pm_dpgmm.methods.counts.points_of_bins import shares_of_bins
from pm_dpgmm.methods.counts.slice_fit import BAD_FIT, SliceFits
from pm_dpgmm.methods.outcome import Progress
from pm_dpgmm.mixture.far_rows import as_wide_as
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import IntArray

Background = tuple[float, Mixture]  # weight and law

ODDS = 0.25  # before the counts are seen, that some records are in no component
TYPICAL = 0.05  # of the density is there then, on average: an exponential law of the weight
REACH = 2.0  # deviations of a background from its mean to the bounds
LEAST_SHARE = 0.002  # at which samplers start, and derivatives are taken, where there is less
MOST = 0.25  # of the density: what holds more is a component that the mixture lacks
AS_WIDE, NOTABLE = 0.7, 0.01  # deviations of a background along every axis, and weight, of a component that is one
LEAST_RECORDS = 0.5  # a background of fewer says nothing
N_REFITS, WORTH = 2, 0.005  # of slices beside a background, and the weight of it from which on they are worth it
N_TRIED = (13, 13, 25)  # weights, the first ones from 0 to MOST, the others where the likelihood is
FLAT = 10.0  # nats below the best, from which on a weight is left out
DOUBT = 0.05  # most weight where counts hardly rise above their noise; it falls to 0 where they tell all parameters
LITTLE = 0.01  # of the density is a background where slices contradict the mixture


def beside_histogram(
    raw: Mapping[str, FloatArray],
    noise: Mapping[str, Any],
    mixture: Mixture,
    *,
    n_records: int | None,
    progress: Progress,
) -> tuple[Mixture, Background | None]:
    """The mixture of a histogram beside a background, and the mean of the background's weight given the counts.

    None counts as 0 there, so a little is left wherever noise may hide it. Where counts hardly rise above their noise
    they say nothing of where no component is: then it is :func:`doubt` at least.

    Beside a component that is as wide (:func:`has_one`) counts hardly tell it, and it is :func:`doubt` alone.
    """
    bounds = np.asarray(raw["bounds"])
    broad = as_wide_as(bounds, REACH)
    found, weight = mixture, 0.0
    with np.errstate(all="ignore"):
        try:
            if not has_one(mixture, broad):
                found, weight = _refitted_to_bins(raw, float(noise["scale"]), mixture, broad, n_records, progress)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, or a file is odd: go on
            pass
        weight = max(weight, doubt(raw, noise, found))
    return found, (weight, broad) if weight > 0 else None


def beside_slices(
    raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture, fits: SliceFits, *, n_records: int | None
) -> tuple[Mixture, Background | None]:
    """The same of slices, whose histograms count as independent.

    A little at least where they contradict the mixture, or hardly rise above their noise.
    """
    bounds = np.asarray(raw["bounds"])
    broad = as_wide_as(bounds, REACH)
    found, weight, contradicted = mixture, 0.0, bool(noise["dispersion"] > BAD_FIT)
    with np.errstate(all="ignore"):
        try:
            counts = Counts.of(raw, noise)
            if counts is not None and not has_one(mixture, broad):
                again = not contradicted
                found, weight = _refitted_to_slices(counts, fits, mixture, broad, n_records, again)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # as above
            pass
        weight = max(weight, LITTLE if contradicted else 0.0, doubt(raw, noise, found))
    return found, (weight, broad) if weight > 0 else None


def has_one(mixture: Mixture, broad: Mixture) -> bool:
    """Whether a component of the mixture is about as wide as the background along every axis: none is needed then."""
    unit = np.sqrt(np.diagonal(broad.covariances[0]))
    narrowest = np.linalg.eigvalsh(mixture.covariances / np.outer(unit, unit))[:, 0]
    return bool((mixture.weights[narrowest > AS_WIDE**2] > NOTABLE).any())


def _refitted_to_bins(
    raw: Mapping[str, FloatArray],
    scale: float,
    mixture: Mixture,
    broad: Mixture,
    n_records: int | None,
    progress: Progress,
) -> tuple[Mixture, float]:
    """The likelier of a mixture and one that is fitted beside a background, and the background's weight."""
    bounds, counts = np.asarray(raw["bounds"]), np.asarray(raw["counts"]).astype(np.int64)
    other = fit_beside(counts, bounds, mixture, broad, noise_scale=scale, n_records=n_records, progress=progress)
    seen = Histograms(counts.ravel().astype(float), np.zeros(1, dtype=np.int64), scale, n_records)
    *own, wide = (shares_of_bins(one, bounds, counts.shape[0]) for one in (mixture, other, broad))
    which, weight = mean_weight(seen, own, wide)
    return (mixture, other)[which], weight


def _refitted_to_slices(
    counts: Counts, fits: SliceFits, mixture: Mixture, broad: Mixture, n_records: int | None, again: bool
) -> tuple[Mixture, float]:
    """The same of slices, fitted ``again`` or not, as in several steps from the weight that was found.

    Where the counts contradict a mixture their likelihood is a poor guide, and it is not fitted again.
    """
    seen = Histograms(counts.values, counts.starts, fits.data.noise_scale, n_records)
    wide = shares_of_slices(counts, broad)
    tried, own = [mixture], [shares_of_slices(counts, mixture)]
    which, weight = mean_weight(seen, own, wide)
    for _ in range(N_REFITS if again else 0):
        if weight <= WORTH:
            break
        tried.append(fits.beside(tried[-1], weight * seen.n_expected * wide))
        own.append(shares_of_slices(counts, tried[-1]))
        which, weight = mean_weight(seen, own, wide)
    return tried[which], weight


def shares_of_slices(counts: Counts, mixture: Mixture) -> FloatArray:
    """Probabilities of the slices (M,) of a record within the bounds, which add up to 1 in each histogram."""
    pairs = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    shares = np.sum([weight * counts.shares(mean, covariance) for weight, mean, covariance in pairs], axis=0)
    totals = np.add.reduceat(shares, counts.starts)
    return np.asarray(shares / np.repeat(totals, np.diff([*counts.starts, shares.size])))


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Noisy counts of the same records, in one histogram or several."""

    values: FloatArray  # (M,)
    starts: IntArray  # where each histogram starts
    noise_scale: float
    n_records: int | None  # where it is public

    @property
    def n_expected(self) -> float:
        """The public number of records, or about what the counts add up to, at least 1."""
        return float(self.n_records or max(self.values.sum() / len(self.starts), 1.0))

    def log_likelihood(self, shares: FloatArray) -> float:
        """At probabilities of the bins (M,), as if histograms were independent, which their noise is.

        With a public number of records as :func:`histogram_law.log_density` has it, else at about the likeliest number.
        """
        variance = noise_variance(self.noise_scale)
        if self.n_records is None:
            size = likely_number(self.values, shares, variance + LEAST_EXPECTED, len(self.starts))
            expected = np.maximum(size * shares, LEAST_EXPECTED)
            return float(numpy_log_count(self.values, expected, self.noise_scale).sum())
        expected = np.maximum(self.n_records * shares, LEAST_EXPECTED)
        logs = [numpy_log_count(self.values - r, expected, self.noise_scale) for r in range(3)]
        moments = true_counts(self.values, expected, variance, logs)
        mean, spread = (np.add.reduceat(moment, self.starts) for moment in moments)
        return float(logs[0].sum() + log_total(self.n_records, mean, spread).sum())


def mean_weight(seen: Histograms, own: Sequence[FloatArray], wide: FloatArray) -> tuple[int, float]:
    """Which of several mixtures is likeliest beside a background, and the posterior mean of the background's weight.

    0 where it is of next to no records. A weight has the largest of the mixtures' likelihoods, and none that of the
    first.

    Parameters
    ----------
    seen : Histograms
    own : sequence of ndarray, shape (M,)
        Probabilities of the bins, for every mixture; the first was fitted alone.
    wide : ndarray, shape (M,)
        The same of the background.
    """
    low, high = 0.0, MOST
    none = seen.log_likelihood(own[0])
    for n_tried in N_TRIED:
        weights = np.linspace(low, high, n_tried)
        found = np.array([[seen.log_likelihood((1 - w) * one + w * wide) for one in own] for w in weights])
        found = np.where(np.isnan(found), -np.inf, found)
        if found.max() == -np.inf:
            return 0, 0.0
        near = np.flatnonzero(found.max(axis=1) > found.max() - FLAT)
        low, high = weights[max(near[0] - 1, 0)], weights[min(near[-1] + 1, n_tried - 1)]
    best = max(found.max(), none)
    masses = np.exp(found - best - weights[:, None] / TYPICAL) / TYPICAL * (weights[1] - weights[0]) * ODDS
    masses[[0, -1]] /= 2  # the trapezoidal rule
    of_weights, of_mixtures, of_none = masses.max(axis=1), masses.sum(axis=0), math.exp(none - best)
    of_mixtures[0] += of_none
    weight = float(of_weights @ weights / (of_weights.sum() + of_none))
    return (int(of_mixtures.argmax()), weight) if weight * seen.n_expected >= LEAST_RECORDS else (0, 0.0)


def doubt(raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture) -> float:
    """Least weight of a background where several columns were too few for the counts: of the released numbers alone.

    0 as well where the counts of an odd file cannot be judged; nothing is raised, as the budget is spent.
    """
    if mixture.n_features == 1:
        return 0.0
    try:
        fit = judged(raw, noise, mixture)
        return 0.0 if fit is None else max(0.0, DOUBT * (1 - signal(fit) / LEAST_SIGNAL))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return 0.0
