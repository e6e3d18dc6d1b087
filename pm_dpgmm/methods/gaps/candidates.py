"""Mixtures among which the last block of records chooses. Post-processing: no record is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.gaps.bin_fit import Bins, Rates, improved, joined, log_likelihood, starts
from pm_dpgmm.methods.gaps.groups import Group
from pm_dpgmm.mixture.mixture import Mixture

START_SEED = 20261123  # public: candidates are post-processing, and a fixed seed makes a release reproducible
N_STARTS, START_STEPS = 24, 30
N_KEPT, STEPS = 4, 200  # of the best starts, run on
FEWER, FEWER_STARTS = 5, 6  # smaller numbers of components, and starts for each
SPREAD = 1.0  # of draws around a fit, in standard errors


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Mixtures with the log-likelihood of the released counts under each, best first."""

    mixtures: list[Mixture]
    log_likelihoods: FloatArray


def candidates(bins: Bins, groups: list[Group], n_components: int, n_candidates: int) -> Candidates:
    """Fits from many starts, fits with fewer components, and draws around the best: at most ``n_candidates``."""
    rng = np.random.default_rng(START_SEED)
    begun = improved(bins, starts(bins, groups, n_components, N_STARTS, rng), START_STEPS)
    best = improved(bins, begun[_best(bins, begun)[:N_KEPT]], STEPS)
    every = [best[_best(bins, best)], begun[_best(bins, begun)[N_KEPT:]]]
    for fewer in range(n_components - 1, max(0, n_components - 1 - FEWER), -1):
        found = improved(bins, starts(bins, groups, fewer, FEWER_STARTS, rng), START_STEPS)
        every.append(_filled(found[_best(bins, found)[:2]], n_components))
    fits = joined(every)[slice(n_candidates)]
    drawn = n_candidates - len(fits.means)
    if drawn > 0:
        fits = joined([fits, _around(every[0][:1], drawn, rng)])
    values = log_likelihood(bins, fits)
    order = np.argsort(-values, kind="stable").astype(np.int64)
    lines = fits[order].lines
    parts = zip(lines.weights, lines.means, lines.deviations, strict=True)
    return Candidates([Mixture(w, m[:, None], s[:, None, None] ** 2) for w, m, s in parts], values[order])


def _best(bins: Bins, fits: Rates) -> list[int]:
    """Places of finite fits, the likeliest first."""
    values = np.nan_to_num(log_likelihood(bins, fits), nan=-math.inf)
    return [int(i) for i in np.argsort(-values, kind="stable")]


def _filled(fits: Rates, n_components: int) -> Rates:
    """As many components: the heaviest one again and again, with its share of the records."""
    while fits.means.shape[1] < n_components:
        rows, top = np.arange(len(fits.means)), np.argmax(fits.rates, axis=1)
        rates = fits.rates.copy()
        rates[rows, top] /= 2
        parts = (rates, fits.means, fits.deviations)
        fits = Rates(*(np.column_stack([part, part[rows, top]]) for part in parts))
    return fits


def _around(fit: Rates, n: int, rng: np.random.Generator) -> Rates:
    """Draws around one fit, by the errors of sampling alone: rates, means and log deviations."""
    error = SPREAD / np.sqrt(np.maximum(fit.rates, 1.0))
    normal = rng.standard_normal((3, n, fit.means.shape[1]))
    rates = np.maximum(fit.rates * (1 + error * normal[0]), 1e-3)
    deviations = fit.deviations * np.exp(error / math.sqrt(2) * normal[2])
    return Rates(rates, fit.means + fit.deviations * error * normal[1], deviations)
