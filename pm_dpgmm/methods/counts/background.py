"""The background of a mixture fitted to noisy counts: whether there is one, and how much of the density it holds.

Post-processing: no record is seen. A mixture leaves out what real tables have besides, tails and rows far from every
component, where its log-density is minus dozens; a few rows in a hundred decide what such a density is worth. The
background is one Gaussian as wide as the public bounds, which are two of its deviations from its mean: a row that lies
anywhere within them is then worth 0.2 nats a column less than under the uniform law, and would be 0.6 at three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.caveats import LEAST_SIGNAL, Counts, judged, signal
from pm_dpgmm.methods.counts.histogram_fit import bin_shares, fit_beside
from pm_dpgmm.methods.counts.histogram_law import MOST_TOTALS, NoisyGrid, log_density
from pm_dpgmm.methods.counts.slice_fit import BAD_FIT, fit_beside as fit_beside_slices
from pm_dpgmm.methods.outcome import Progress
from pm_dpgmm.mixture.far_rows import as_wide_as
from pm_dpgmm.mixture.mixture import Mixture

Background = tuple[float, Mixture]  # weight and law

ODDS = 0.25  # before the counts are seen, that some records are in no component
TYPICAL = 0.05  # of the density is there then, on average: an exponential law of the weight
REACH = 2.0  # deviations of a background from its mean to the bounds
MOST = 0.25  # of the density: what holds more is no background, but a component that the mixture has or lacks
SURELY_MORE = 2.0  # nats: rise of the log-likelihood beyond that
LEAST_RECORDS = 0.5  # a background of fewer says nothing
N_REFITS, WORTH = 2, 0.005  # of slices beside a background, and the weight of it from which on they are worth it
N_WEIGHTS, N_ROUNDS = 31, 3  # that are tried, and how often among fewer
FLAT = 10.0  # nats below the best, from which on a weight is left out
MOST_EXACT = 200_000  # counts for each weight, beyond which their Gaussian law does
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
    """
    bounds = np.asarray(raw["bounds"])
    broad = as_wide_as(bounds, REACH)
    found, weight = mixture, 0.0
    with np.errstate(all="ignore"):
        try:
            counts, scale = np.asarray(raw["counts"]).astype(np.int64), float(noise["scale"])
            n_cells = counts.shape[0]
            other = fit_beside(
                counts, bounds, mixture, broad, noise_scale=scale, n_records=n_records, progress=progress
            )
            grid = NoisyGrid(counts.ravel().astype(float), bounds, n_cells, scale, n_records)
            *own, wide = ([bin_shares(one, bounds, n_cells)] for one in (mixture, other, broad))
            which, weight = mean_weight([grid], own, wide)
            found = (mixture, other)[which]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # the budget is spent, or a file is odd: go on
            pass
        weight = max(weight, doubt(raw, noise, found))
    return found, (weight, broad) if weight > 0 else None


def beside_slices(
    raw: Mapping[str, FloatArray], noise: Mapping[str, Any], mixture: Mixture, *, n_records: int | None
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
            if counts is not None:
                found, weight = _refitted(counts, float(noise["scale"]), mixture, broad, n_records, not contradicted)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):  # as above
            pass
        weight = max(weight, LITTLE if contradicted else 0.0, doubt(raw, noise, found))
    return found, (weight, broad) if weight > 0 else None


def _refitted(
    counts: Counts, scale: float, mixture: Mixture, broad: Mixture, n_records: int | None, again: bool
) -> tuple[Mixture, float]:
    """The likelier of a mixture and, ``again``, one that is fitted beside a background, and the background's weight.

    Where the counts contradict a mixture their likelihood is a poor guide, and it is not fitted again.
    """
    assert counts.slices is not None
    rows = np.split(counts.values, counts.starts[1:])
    grids = [NoisyGrid(row, counts.bounds, counts.n_cells, scale, n_records) for row in rows]
    wide = _slice_shares(counts, broad)
    size = max(counts.values.sum() / len(rows), 1.0) if n_records is None else n_records
    tried = [mixture]
    own = [_slice_shares(counts, mixture)]
    which, weight = mean_weight(grids, own, wide)
    for _ in range(N_REFITS if again else 0):
        if weight <= WORTH:
            break
        values, known = counts.values.astype(np.int64), weight * size * np.concatenate(wide)
        tried.append(fit_beside_slices(values, counts.slices, counts.bounds, tried[-1], known, noise_scale=scale))
        own.append(_slice_shares(counts, tried[-1]))
        which, weight = mean_weight(grids, own, wide)
    return tried[which], weight


def _slice_shares(counts: Counts, mixture: Mixture) -> list[FloatArray]:
    """Probabilities of the slices of each histogram, of a record within the bounds."""
    pairs = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    shares = sum(weight * counts.shares(mean, covariance) for weight, mean, covariance in pairs)
    return [row / row.sum() for row in np.split(np.asarray(shares), counts.starts[1:])]


def mean_weight(
    grids: Sequence[NoisyGrid], own: Sequence[Sequence[FloatArray]], wide: Sequence[FloatArray]
) -> tuple[int, float]:
    """Which of several mixtures is likeliest beside a background, and the posterior mean of the background's weight.

    0 where the counts say that it is more than ``MOST``, and where it is of next to no records. A weight has the
    largest of the mixtures' likelihoods, and none that of the first.

    Parameters
    ----------
    grids : sequence of NoisyGrid
        Histograms of the same records.
    own : sequence of sequences of ndarray
        Probabilities of the bins of each histogram, for every mixture; the first was fitted alone.
    wide : sequence of ndarray
        The same of the background.
    """
    size = sum(grid.counts.size for grid in grids)
    form = "gaussian" if size * (1 if grids[0].n_records is not None else MOST_TOTALS) > MOST_EXACT else "exact"

    def log_likelihoods(weights: FloatArray) -> FloatArray:  # (number of weights, number of mixtures)
        found = np.array([[_of_weight(grids, one, wide, w, form) for one in own] for w in weights])
        return np.where(np.isnan(found), -np.inf, found)

    none, edge = log_likelihoods(np.array([0.0, MOST]))
    if log_likelihoods(np.linspace(MOST, 1.0, N_WEIGHTS)).max() - edge.max() > SURELY_MORE:
        return 0, 0.0
    low, high = 0.0, MOST
    for _ in range(N_ROUNDS):
        weights = np.linspace(low, high, N_WEIGHTS)
        found = log_likelihoods(weights)
        if found.max() == -np.inf:
            return 0, 0.0
        near = np.flatnonzero(found.max(axis=1) > found.max() - FLAT)
        low, high = weights[max(near[0] - 1, 0)], weights[min(near[-1] + 1, N_WEIGHTS - 1)]
    masses = np.exp(found - found.max() - weights[:, None] / TYPICAL) / TYPICAL * (weights[1] - weights[0]) * ODDS
    masses[[0, -1]] /= 2  # the trapezoidal rule
    of_weights, of_mixtures, of_none = masses.max(axis=1), masses.sum(axis=0), math.exp(none[0] - found.max())
    of_mixtures[0] += of_none
    weight = float(of_weights @ weights / (of_weights.sum() + of_none))
    n_records = max(float(sum(grid.counts.sum() for grid in grids)) / len(grids), 1.0)
    return (int(of_mixtures.argmax()), weight) if weight * n_records >= LEAST_RECORDS else (0, 0.0)


def _of_weight(
    grids: Sequence[NoisyGrid], own: Sequence[FloatArray], wide: Sequence[FloatArray], weight: float, form: str
) -> float:
    parts = zip(grids, own, wide, strict=True)
    return sum(float(log_density(grid, (1 - weight) * one + weight * other, form=form)) for grid, one, other in parts)


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
