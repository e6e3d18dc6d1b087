"""The first step of the univariate learner of Ashtiani, Majid and Narayanan, and its truncated noise.

Sorted records give a candidate for every two consecutive ones: scale 2^a, a = floor(log2 gap), and location
b = floor(left/(B 2^a)) with a wide cell factor B. The candidates are counted, the counts get truncated Laplace noise,
and those above a threshold that noise alone cannot reach are released. Replacing a record moves the counts by up to 6
in L1 and one count by up to 3, so the noise must be made for a tenth (a sixth would do) of epsilon and delta. S10
forgets that, S10b measures locations from the smallest record, S11 clips the noise in place of conditioning it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.truncated_laplace import truncated_laplace_loss, truncation_bound
from pm_dpgmm.noise import truncated_discrete_laplace
from pm_dpgmm.privacy_loss import TruncatedLaplaceLoss
from verification.specimens import Specimen

EPSILON, DELTA = 0.5, 1e-3  # claimed by the histograms
CLIPPED_DELTA = 1e-2  # claimed by the clipped noise
SHARE = 10  # of the paper's noise
CELL = 2.0**16  # cell factor B: wide enough for every location here to be b = 0
SCALES = (0, 1, 2)  # exponents reported, one column each; further columns would be NaN on both data sets
GRID = 64  # steps in one sensitivity of the conditioned noise
TENTH_TRUE = 0.29707  # true epsilon of the tenth at DELTA: three truncated shifts by 2, 3 and 1
CONDITIONED_TRUE = 0.49996  # of the conditioned noise at CLIPPED_DELTA: the bound is a whole number of steps
COPIES = 300  # gaps of every scale that both data sets share, so that counts stay above the threshold


@functools.cache
def noise_law(share: int) -> TruncatedLaplaceLoss:
    """Integer truncated noise for one count, at (epsilon, delta)/share."""
    return truncated_laplace_loss(sensitivity=1, epsilon=EPSILON / share, delta=DELTA / share)


def scale_counts(data: FloatArray, *, cell: float, origin: float = 0.0) -> Counter[tuple[int, int]]:
    """How many pairs of consecutive records fall into each (a, b)."""
    values = np.sort(data)
    left, gap = values[:-1], np.diff(values)
    a = np.floor(np.log2(gap[gap > 0])).astype(int)
    b = np.floor((left[gap > 0] - origin) / (cell * 2.0**a)).astype(int)
    return Counter(zip(a.tolist(), b.tolist(), strict=True))


def histogram(data: FloatArray, n_samples: int, rng: np.random.Generator, *, share: int) -> Any:
    """Noisy counts of the buckets (a, 0); NaN where the threshold is not passed."""
    law, counts = noise_law(share), scale_counts(data, cell=CELL)
    exact = np.array([counts[a, 0] for a in SCALES])
    noisy = exact + truncated_discrete_laplace((n_samples, len(SCALES)), scale=law.scale, bound=law.bound, rng=rng)
    return np.where((exact > 0) & (noisy > law.bound), noisy, np.nan)


def histogram_full_share(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noise TLap(1, epsilon, delta), as if one count moved by one."""
    return histogram(data, n_samples, rng, share=1)


def histogram_tenth(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Noise TLap(1, epsilon/10, delta/10)."""
    return histogram(data, n_samples, rng, share=SHARE)


def histogram_own_origin(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """The candidate of scale 1 with locations counted from the smallest record, which so becomes public."""
    law, origin = noise_law(SHARE), float(np.min(data))
    count = scale_counts(data, cell=CELL, origin=origin)[0, 0]
    noisy = count + truncated_discrete_laplace(n_samples, scale=law.scale, bound=law.bound, rng=rng)
    candidate = np.column_stack([np.full(n_samples, origin), np.ones(n_samples)])  # mean origin + B b 2^a, deviation
    return np.where((noisy > law.bound)[:, None], candidate, np.nan)


def clipped_noise(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Laplace noise cut off at the bounds of TLap(1, epsilon, delta): two atoms that the proof does not know."""
    bound = truncation_bound(sensitivity=1, epsilon=EPSILON, delta=CLIPPED_DELTA)
    return data + np.clip(rng.laplace(scale=1 / EPSILON, size=n_samples), -bound, bound)


@functools.cache
def conditioned_law() -> TruncatedLaplaceLoss:
    """Integer truncated noise for the claim of the clipped noise."""
    return truncated_laplace_loss(sensitivity=GRID, epsilon=EPSILON, delta=CLIPPED_DELTA)


def conditioned_noise(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Laplace noise on the grid, conditioned on the bounds."""
    law = conditioned_law()
    return (
        round(data * GRID) + truncated_discrete_laplace(n_samples, scale=law.scale, bound=law.bound, rng=rng)
    ) / GRID


def conditioned_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability of an output; -inf beyond the bounds."""
    law = conditioned_law()
    ball = np.arange(-law.bound, law.bound + 1)
    noise = np.abs(np.rint((outputs - data) * GRID))
    total = math.log(np.exp(-np.abs(ball) / law.scale).sum())
    return np.where(noise <= law.bound, -noise / law.scale - total, -np.inf)


def worst_records() -> tuple[FloatArray, FloatArray]:
    """0, 1, 2, 6 and 0, 2, 4, 6, then runs of gaps 1, 2 and 4 far away: counts (2, 0, 1) against (0, 3, 0)."""
    runs = [10_000.0 * (i + 1) + 2**a * np.arange(COPIES + 1) for i, a in enumerate(SCALES)]
    return np.concatenate([[0.0, 1, 2, 6], *runs]), np.concatenate([[0.0, 2, 4, 6], *runs])


def specimens() -> list[Specimen]:
    """S10 and S11 with their sound twins."""
    paper, lemma, inf = "Ashtiani, Majid, Narayanan, Algorithm 3", "Arbas, Ashtiani, Liaw, Definition C.5", math.inf
    x, x_neighbour = worst_records()
    lower = x.copy()
    lower[0] = -0.5
    return [
        Specimen("S10_full_share", paper, histogram_full_share, x, x_neighbour, EPSILON, DELTA, inf, True),
        Specimen("S10_twin_tenth", "control", histogram_tenth, x, x_neighbour, EPSILON, DELTA, TENTH_TRUE, False),
        Specimen("S10b_own_origin", paper, histogram_own_origin, x, lower, EPSILON, DELTA, inf, True, 20_000),
        Specimen("S11_clipped_noise", lemma, clipped_noise, 0.0, 1.0, EPSILON, CLIPPED_DELTA, inf, True),
        Specimen(
            "S11_twin_conditioned",
            "control",
            conditioned_noise,
            0.0,
            1.0,
            EPSILON,
            CLIPPED_DELTA,
            CONDITIONED_TRUE,
            False,
        ),
    ]


LOG_DENSITIES = {"S11_twin_conditioned": conditioned_log_density}
