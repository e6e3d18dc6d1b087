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
from pm_dpgmm.privacy.curves import TruncatedLaplaceProfile
from pm_dpgmm.privacy.noise import truncated_discrete_laplace
from verification.specimens.specimen import LogDensity, Mechanism, Specimen

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
def noise_law(share: int) -> TruncatedLaplaceProfile:
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


def truncated_masses(law: TruncatedLaplaceProfile) -> FloatArray:
    """Probabilities of -bound, ..., bound."""
    masses = np.exp(-np.abs(np.arange(-law.bound, law.bound + 1)) / law.scale)
    return np.asarray(masses / masses.sum())


def histogram_log_density(outputs: FloatArray, data: FloatArray, *, share: int) -> FloatArray:
    """Log probability: NaN carries all noisy counts up to the threshold."""
    law, counts = noise_law(share), scale_counts(data, cell=CELL)
    masses, total = truncated_masses(law), np.zeros(len(outputs))
    for column, a in zip(outputs.T, SCALES, strict=True):
        noise = np.nan_to_num(column).astype(int) - counts[a, 0]
        possible = (np.abs(noise) <= law.bound) & (column > law.bound) & (counts[a, 0] > 0)
        value = np.where(possible, masses[np.clip(noise + law.bound, 0, 2 * law.bound)], 0.0)
        missing = masses[: max(0, 2 * law.bound - counts[a, 0] + 1)].sum() if counts[a, 0] > 0 else 1.0
        with np.errstate(divide="ignore"):
            total += np.log(np.where(np.isnan(column), missing, value))
    return total


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


def own_origin_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability of the one candidate, or of none."""
    law, origin = noise_law(SHARE), float(np.min(data))
    count = scale_counts(data, cell=CELL, origin=origin)[0, 0]
    missing = float(truncated_masses(law)[: max(0, 2 * law.bound - count + 1)].sum())
    with np.errstate(divide="ignore"):
        found = np.where(outputs[:, 0] == origin, np.log1p(-missing), -np.inf)
        return np.where(np.isnan(outputs[:, 0]), np.log(missing), found)


def clipped_noise(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Laplace noise cut off at the bounds of TLap(1, epsilon, delta): two atoms that the proof does not know."""
    bound = truncation_bound(sensitivity=1, epsilon=EPSILON, delta=CLIPPED_DELTA)
    return data + np.clip(rng.laplace(scale=1 / EPSILON, size=n_samples), -bound, bound)


def clipped_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log of the density inside, of the mass at the ends; data are whole numbers, so atoms are a whole number off."""
    bound = truncation_bound(sensitivity=1, epsilon=EPSILON, delta=CLIPPED_DELTA)
    noise = np.abs(outputs - data)
    steps = np.column_stack([outputs - data - bound, outputs - data + bound])
    atom = np.any(np.abs(steps - np.rint(steps)) < 1e-12, axis=1)
    inside = np.where(noise < bound, math.log(EPSILON / 2) - EPSILON * noise, -np.inf)
    return np.where(atom, np.where(np.abs(noise - bound) < 1e-12, -EPSILON * bound - math.log(2), -np.inf), inside)


@functools.cache
def conditioned_law() -> TruncatedLaplaceProfile:
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
    noise = np.rint((outputs - data) * GRID).astype(int)
    logs = np.log(truncated_masses(law))[np.clip(noise, -law.bound, law.bound) + law.bound]
    return np.where(np.abs(noise) <= law.bound, logs, -np.inf)


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
    full, tenth = (functools.partial(histogram_log_density, share=share) for share in (1, SHARE))
    pair, both, clip = (x, x_neighbour), (EPSILON, DELTA), (EPSILON, CLIPPED_DELTA)

    def one(
        name: str,
        origin: str,
        mechanism: Mechanism,
        pair: tuple[Any, Any],
        claim: tuple[float, float],
        true: float,
        log_density: LogDensity,
        n: int = 100_000,
    ) -> Specimen:
        broken = origin != "control"
        return Specimen(name, origin, mechanism, *pair, *claim, true, broken, n_samples=n, log_density=log_density)

    return [
        one("S10_full_share", paper, histogram_full_share, pair, both, inf, full),
        one("S10_twin_tenth", "control", histogram_tenth, pair, both, TENTH_TRUE, tenth),
        one("S10b_own_origin", paper, histogram_own_origin, (x, lower), both, inf, own_origin_log_density, 20_000),
        one("S11_clipped_noise", lemma, clipped_noise, (0.0, 1.0), clip, inf, clipped_log_density),
        one(
            "S11_twin_conditioned",
            "control",
            conditioned_noise,
            (0.0, 1.0),
            clip,
            CONDITIONED_TRUE,
            conditioned_log_density,
        ),
    ]
