"""Sound noisy numbers on worst-case neighbours: an audit must refute none of them, on values or on bits.

Outputs are integers, or multiples of one dyadic step that is the same for both data sets. The claim is epsilon = 1,
with delta = 1e-3 where pure privacy is out of reach.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms.gaussian import gaussian_mu
from pm_dpgmm.privacy.noise import discrete_gaussian, discrete_laplace
from verification.auditing.bisection import bracket
from verification.specimens.specimen import LogDensity, Mechanism, Specimen

EPSILON, DELTA = 1.0, 1e-3
STEP = 3 / 8  # coarse grid; a sensitivity of 1 is at most 3 steps after rounding
SHIFT = math.ceil(1 / STEP)
CLAMP = 2.0**10  # public bound of the snapped Laplace
N_RECORDS = 10  # of the truncated geometric mechanism
THRESHOLD = 7  # least integer t with P[1 + noise > t] <= DELTA: exp(-t)/(1 + exp(-1))
GRID = 64
STATISTICS_SCALE = 1.001 * GRID * math.sqrt(6) / gaussian_mu(EPSILON, DELTA)  # the thousandth is for discrete noise


def laplace_integer(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """A count with discrete Laplace noise."""
    return data + discrete_laplace(n_samples, scale=1 / EPSILON, rng=rng)


def laplace_log_density(outputs: FloatArray, data: Any, *, shift: int = 1) -> FloatArray:
    """Log probability, tanh(rate/2) exp(-rate |z|), at the rate epsilon/shift."""
    rate = EPSILON / shift
    return np.asarray(math.log(math.tanh(rate / 2)) - rate * np.abs(outputs - data))


@functools.cache
def gaussian_scale(shift: int) -> float:
    """Least scale, to 1e-12, at which discrete Gaussian noise moved by ``shift`` is (1, 1e-3)-DP: exact sum."""
    z = np.arange(-100 * shift, 100 * shift + 1)

    def delta(scale: float) -> float:
        p, q = (np.exp(-0.5 * ((z - centre) / scale) ** 2) for centre in (0, shift))
        return float(np.maximum(p - math.exp(EPSILON) * q, 0.0).sum() / p.sum())

    return bracket(lambda scale: delta(scale) > DELTA, 1.0 * shift, 4.0 * shift, width=1e-12 * shift)[1]


def gauss_integer(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """A count with discrete Gaussian noise, exactly calibrated."""
    return data + discrete_gaussian(n_samples, scale=gaussian_scale(1), rng=rng)


def gauss_log_density(outputs: FloatArray, data: float, *, shift: int = 1) -> FloatArray:
    """Log probability of a count, or of a number of grid steps, that a neighbour moves by ``shift``."""
    scale = gaussian_scale(shift)
    total = np.exp(-0.5 * (np.arange(-100 * shift, 100 * shift + 1) / scale) ** 2).sum()
    return np.asarray(-0.5 * ((outputs - data) / scale) ** 2 - math.log(total))


def laplace_snapped(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Snapping mechanism (Mironov 2012) with scale 1: clamp, add, round to multiples of 1, clamp.

    The uniform number has a random exponent, so that every double in (0, 1) can occur.
    """
    uniform = (1 + rng.integers(2**52, size=n_samples) * 2.0**-52) * 0.5 ** rng.geometric(0.5, n_samples)
    noise = rng.choice([-1.0, 1.0], size=n_samples) * np.log(uniform)
    return np.clip(np.floor(np.clip(data, -CLAMP, CLAMP) + noise + 0.5), -CLAMP, CLAMP)


def snapped_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability: a Laplace mass of an interval of length 1. The clamped mass, exp(-1000), is left out."""
    distance = np.abs(outputs - data)
    near = 1 - (np.exp(-distance - 0.5) + np.exp(distance - 0.5)) / 2  # the interval contains the centre
    return np.where(distance > 0.5, -distance + math.log(math.sinh(0.5)), np.log(np.maximum(near, 1e-9)))


def laplace_coarse(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Rounded to a coarse grid, then discrete Laplace noise on that grid."""
    return (round(data / STEP) + discrete_laplace(n_samples, scale=SHIFT / EPSILON, rng=rng)) * STEP


def gauss_coarse(data: float, n_samples: int, rng: np.random.Generator) -> Any:
    """Rounded to a coarse grid, then discrete Gaussian noise on that grid."""
    return (round(data / STEP) + discrete_gaussian(n_samples, scale=gaussian_scale(SHIFT), rng=rng)) * STEP


def laplace_coarse_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability of the number of steps."""
    return laplace_log_density(np.rint(outputs / STEP), round(data / STEP), shift=SHIFT)


def gauss_coarse_log_density(outputs: FloatArray, data: float) -> FloatArray:
    """Log probability of the number of steps."""
    return gauss_log_density(np.rint(outputs / STEP), round(data / STEP), shift=SHIFT)


def geometric_truncated(data: int, n_samples: int, rng: np.random.Generator) -> Any:
    """Truncated geometric mechanism: a noisy count clamped to the possible counts."""
    return np.clip(data + discrete_laplace(n_samples, scale=1 / EPSILON, rng=rng), 0, N_RECORDS)


def truncated_log_density(outputs: FloatArray, data: int) -> FloatArray:
    """Log probability: the ends carry the tails."""
    end = (outputs == 0) | (outputs == N_RECORDS)
    tail = -math.log1p(math.exp(-EPSILON)) - EPSILON * np.abs(outputs - data)
    return np.where(end, tail, laplace_log_density(outputs, data))


def stability_histogram(data: tuple[int, ...], n_samples: int, rng: np.random.Generator) -> Any:
    """Noisy counts of the keys that occur, kept above the threshold; under adding or removing one record."""
    counts = np.array(data)
    noisy = counts + discrete_laplace((n_samples, len(counts)), scale=1 / EPSILON, rng=rng)
    return np.where((counts > 0) & (noisy > THRESHOLD), noisy, np.nan)


def stability_log_density(outputs: FloatArray, data: tuple[int, ...]) -> FloatArray:
    """Log probability: a missing key carries all noisy counts up to the threshold."""
    counts = np.array(data)
    steps = np.where(counts > THRESHOLD, counts - THRESHOLD, THRESHOLD + 1 - counts)  # to the other side
    across = np.exp(-EPSILON * steps) / (1 + math.exp(-EPSILON))
    missing = np.where(counts > THRESHOLD, across, 1 - across)
    missing = np.where(counts == 0, 1.0, missing)
    with np.errstate(divide="ignore"):
        present = np.where(counts == 0, -np.inf, laplace_log_density(np.nan_to_num(outputs), counts))
    return np.where(np.isnan(outputs), np.log(missing), present).sum(axis=1)


def statistics(data: FloatArray) -> FloatArray:
    """Count, sum and second moments of the records with x1 < 0 and of the others, in grid steps.

    Records are in the unit disc, and every record's part is rounded towards 0. It has squared norm at most 3, so a
    record that changes sides moves the vector by at most sqrt(6).
    """
    x1, x2 = data.T
    parts = np.trunc(np.column_stack([np.ones(len(data)), x1, x2, x1**2, x1 * x2, x2**2]) * GRID)
    return np.concatenate([parts[x1 < 0].sum(axis=0), parts[x1 >= 0].sum(axis=0)])


def gmm_statistics(data: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Sufficient statistics of two clusters with discrete Gaussian noise for replacing one record."""
    return (statistics(data) + discrete_gaussian((n_samples, 12), scale=STATISTICS_SCALE, rng=rng)) / GRID


def statistics_log_density(outputs: FloatArray, data: FloatArray) -> FloatArray:
    """Log probability; at this scale the sum over integers is the integral to far below double precision."""
    squares = (((outputs * GRID - statistics(data)) / STATISTICS_SCALE) ** 2).sum(axis=1)
    return np.asarray(-squares / 2 - 12 * math.log(STATISTICS_SCALE * math.sqrt(2 * math.pi)))


def specimens() -> list[Specimen]:
    """Controls that release numbers."""
    pure = (EPSILON, 0.0)
    both = (EPSILON, DELTA)
    snapped = (EPSILON * (1 + 2.0**-49 * CLAMP), 0.0)  # Theorem 1 of Mironov (2012)
    coarse = (0.15, 1.1)  # round to 0 and 3 steps
    shared = [[0.5, 0.5], [-0.25, 0.75], [0.0, -1.0]]
    antipodal = np.array([[1.0, 0.0], *shared]), np.array([[-1.0, 0.0], *shared])
    at_threshold = (THRESHOLD + 1,), (THRESHOLD,)
    new_key = (30, 1), (30, 0)

    def control(
        name: str,
        mechanism: Mechanism,
        pair: tuple[Any, Any],
        claim: tuple[float, float],
        true: float,
        log_density: LogDensity,
        n_samples: int = 100_000,
    ) -> Specimen:
        return Specimen(
            name, "control", mechanism, *pair, *claim, true, False, n_samples=n_samples, log_density=log_density
        )

    return [
        control("laplace_integer", laplace_integer, (0, 1), pure, 1.0, laplace_log_density),
        control("gauss_integer", gauss_integer, (0, 1), both, 1.0, gauss_log_density),
        control("laplace_snapped", laplace_snapped, (0.3, 1.3), snapped, 1.0, snapped_log_density),
        control("laplace_coarse", laplace_coarse, coarse, pure, 1.0, laplace_coarse_log_density),
        control("gauss_coarse", gauss_coarse, coarse, both, 1.0, gauss_coarse_log_density),
        control("geometric_truncated", geometric_truncated, (5, 6), pure, 1.0, truncated_log_density),
        control("stability_count", stability_histogram, at_threshold, both, 0.99864, stability_log_density),
        control("stability_new_key", stability_histogram, new_key, both, 0.0, stability_log_density),
        control("gmm_statistics", gmm_statistics, antipodal, both, 0.9988, statistics_log_density, 40_000),
    ]
