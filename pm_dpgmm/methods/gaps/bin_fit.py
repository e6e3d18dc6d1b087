"""Mixtures of one column from noisy counts in bins of any widths. Post-processing: no record is seen.

EM on the likelihood that knows the noise, as in ``counts/histogram_fit.py``, with exact probabilities and moments of
every bin, so that bins may be far wider than a component or far narrower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.methods.gaps.groups import MARGIN, Group
from pm_dpgmm.mixture.mixture import LOG_2PI
from pm_dpgmm.mixture.scheffe_sets import Lines
from pm_dpgmm.privacy.noise import IntArray

LEAST_EXPECTED = 1e-6  # count of a bin far from every component; keeps logarithms finite
FARTHEST = 40.0  # standard deviations
NARROW = 1e-4  # of a bin, in standard deviations: below, a uniform law in it
NO_MASS = 1e-14  # of a bin: below, its nearer end stands for it
LEAST_DEVIATION = 0.25  # of the bin that the mean is in
START_SPREAD = -0.3, 0.6  # mean and deviation of the log of a first guess over the group's scale
MOST_AT_ONCE = 4e6  # probabilities of bins
STAND_OUT = 0.5  # empty bins that stand out of the noise, about


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Noisy counts of bins that cover the line."""

    edges: FloatArray  # (M - 1,), increasing
    counts: FloatArray  # (M,)
    noise_scale: float

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Finite ends of every bin: the outermost ones have no width."""
        return np.append(self.edges[0], self.edges), np.append(self.edges, self.edges[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Mixtures (S, K) with an expected number of records for each component."""

    rates: FloatArray
    means: FloatArray
    deviations: FloatArray

    def __getitem__(self, which: list[int] | IntArray | slice) -> Rates:
        return Rates(self.rates[which], self.means[which], self.deviations[which])

    @property
    def lines(self) -> Lines:
        """With weights that add up to one."""
        return Lines(self.rates / self.rates.sum(axis=1, keepdims=True), self.means, self.deviations)


def masses(bins: Bins, means: FloatArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probability of every bin under every component (S, K, M), and the edges in its deviations (S, K, M + 1)."""
    inner = (bins.edges - means[..., None]) / deviations[..., None]
    one = np.ones_like(inner[..., :1])
    ends = np.clip(np.concatenate([-FARTHEST * one, inner, FARTHEST * one], axis=-1), -FARTHEST, FARTHEST)
    below, above = special.ndtr(ends), special.ndtr(-ends)
    right = ends[..., :-1] > 0  # differences are taken in the nearer tail
    return np.where(right, above[..., :-1] - above[..., 1:], below[..., 1:] - below[..., :-1]), ends


def blocks_of(bins: Bins, guess: Rates) -> list[Rates]:
    """The same mixtures, in blocks whose arrays fit in memory."""
    n, k = guess.means.shape
    size = max(1, int(MOST_AT_ONCE / (k * len(bins.counts))))
    return [guess[slice(i, i + size)] for i in range(0, n, size)]


def joined(fits: Sequence[Rates]) -> Rates:
    """One after the other."""
    return Rates(*(np.concatenate([getattr(fit, name) for fit in fits]) for name in ("rates", "means", "deviations")))


def log_likelihood(bins: Bins, guess: Rates) -> FloatArray:
    """Of the noisy counts, (S,), up to a constant."""
    return np.concatenate([_log_likelihood(bins, block) for block in blocks_of(bins, guess)])


def _log_likelihood(bins: Bins, guess: Rates) -> FloatArray:
    parts = guess.rates[..., None] * masses(bins, guess.means, guess.deviations)[0]
    found, _ = count_log_likelihood(bins.counts, parts.sum(axis=1) + LEAST_EXPECTED, noise_scale=bins.noise_scale)
    return np.asarray(found.sum(axis=-1))


def improved(bins: Bins, guess: Rates, n_steps: int) -> Rates:
    """So many steps of EM from every guess."""
    return joined([_improved(bins, block, n_steps) for block in blocks_of(bins, guess)])


def _improved(bins: Bins, guess: Rates, n_steps: int) -> Rates:
    low, high = bins.ends
    width = high - low
    width[[0, -1]] = width[[1, -2]]
    for _ in range(n_steps):
        mass, ends = masses(bins, guess.means, guess.deviations)
        parts = guess.rates[..., None] * mass
        expected = parts.sum(axis=1) + LEAST_EXPECTED
        _, slope = count_log_likelihood(bins.counts, expected, noise_scale=bins.noise_scale)
        shares = parts * (1 + slope)[:, None, :]  # expected true counts, shared over the components
        first, second = bin_moments(mass, ends)
        rates = shares.sum(axis=-1) + 1e-9
        centre, square = (shares * first).sum(axis=-1) / rates, (shares * second).sum(axis=-1) / rates
        means = guess.means + guess.deviations * centre
        least = LEAST_DEVIATION * width[np.searchsorted(bins.edges, means)]
        deviations = np.maximum(guess.deviations * np.sqrt(np.maximum(square - centre**2, 0.0)), least)
        guess = Rates(rates, means, deviations)
    return guess


def bin_moments(mass: FloatArray, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First two moments of a standard normal number in bins with these ends."""
    low, high = ends[..., :-1], ends[..., 1:]
    density = np.exp(-0.5 * ends**2 - 0.5 * LOG_2PI)
    safe = np.maximum(mass, 1e-200)
    first = (density[..., :-1] - density[..., 1:]) / safe
    second = 1 + (low * density[..., :-1] - high * density[..., 1:]) / safe
    narrow, empty = high - low < NARROW, mass < NO_MASS
    middle, near = (low + high) / 2, np.where(low > 0, low, high)
    first = np.where(narrow, middle, np.where(empty, near, first))
    second = np.where(narrow, middle**2 + (high - low) ** 2 / 12, np.where(empty, near**2, second))
    return first, np.maximum(second, first**2)


@dataclass(frozen=True, slots=True, eq=False)
class GroupBins:
    """Which bins show the components of which group."""

    owner: FloatArray  # (M,), place of the group, the narrowest that covers a bin; -1 for none
    counts: FloatArray  # (M,), of bins that stand out of the noise; 0 elsewhere
    centres: FloatArray  # (M,)


def group_bins_of(bins: Bins, groups: list[Group]) -> GroupBins:
    """Bins that stand out, by group."""
    low, high = bins.ends
    centres = low + (high - low) / 2
    owner = np.full(len(centres), -1)
    for i in sorted(range(len(groups)), key=lambda i: -groups[i].scale):
        margin = MARGIN * groups[i].scale
        owner[(centres >= groups[i].low - margin) & (centres <= groups[i].high + margin)] = i
    threshold = bins.noise_scale * math.log(max(2.0, len(centres) / STAND_OUT))
    return GroupBins(owner, np.where((owner >= 0) & (bins.counts > threshold), bins.counts, 0.0), centres)


def starts(bins: Bins, groups: list[Group], n_components: int, n_starts: int, rng: np.random.Generator) -> Rates:
    """First guesses: groups with the most records have a component each, further ones are drawn."""
    prominent = group_bins_of(bins, groups)
    of_group = np.array([prominent.counts[prominent.owner == i].sum() for i in range(len(groups))]) + 1e-9
    found = [_start(prominent, groups, of_group, n_components, i, rng) for i in range(n_starts)]
    return Rates(*(np.array(part) for part in zip(*found, strict=True)))


def _start(
    prominent: GroupBins, groups: list[Group], of_group: FloatArray, k: int, number: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    share = of_group / of_group.sum()
    if number % 3 == 2:  # any groups, also again
        chosen = rng.choice(len(groups), k, p=share)
    else:
        chosen = np.argsort(-of_group)[:k]
        chosen = np.append(chosen, rng.choice(len(groups), k - len(chosen), p=share)).astype(int)
    rates, means, deviations = np.empty(k), np.empty(k), np.empty(k)
    for j, i in enumerate(chosen):
        at = np.flatnonzero(prominent.owner == i)
        scale, times = groups[i].scale, int((chosen == i).sum())
        counts = prominent.counts[at] if at.size else np.zeros(0)
        rates[j] = max(of_group[i], 1.0) / times
        if counts.sum() <= 0:
            means[j], deviations[j] = rng.uniform(groups[i].low, groups[i].high), scale
            continue
        centres = prominent.centres[at]
        if times == 1 and number % 3 == 0:
            means[j] = counts @ centres / counts.sum()
            variance = counts @ (centres - means[j]) ** 2 / counts.sum()
            deviations[j] = max(math.sqrt(variance), scale / 4)
        elif times == 1:
            means[j], deviations[j] = centres[np.argmax(counts)], scale
        else:
            means[j] = rng.choice(centres, p=counts / counts.sum())
            deviations[j] = scale * math.exp(rng.normal(*START_SPREAD))
    return rates, means, deviations
