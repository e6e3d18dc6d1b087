"""A noisy sum of vectors, one for each of t disjoint subsets of the records, each in a public ball. Proof: ball_sum.md.

Sample and aggregate (Nissim, Raskhodnikova and Smith 2007) where a ball is known that holds most answers: what a
subset's vector is a function of does not matter, as its length is all that the noise depends on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, check_positive, frozen
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.learners.fit_arrays import BoolArray
from pm_dpgmm.mechanisms.gaussian_filter import MOST_NUMBERS, GaussianFilter
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_gaussian

RADIUS = 2**34  # of the ball, in grid steps
MARGIN = 2.0**-20  # relative; what rounding may add to a length is far less
INSIDE = RADIUS // 2  # grid steps by which a subset whose vector is inside counts more than another
MOST_SUBSETS = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class NoisyBallSum:
    """A released sum and its public law.

    Attributes
    ----------
    total : ndarray, shape (P,)
        Sum over the subsets of the vectors, shrunk to the ball, with noise; in the unit of the vectors.
    n_inside : float
        Number of subsets whose vector was finite and inside the ball, with noise.
    noise_scale : float
        Standard deviation of the noise on every number of ``total``.
    n_inside_scale : float
        The same for ``n_inside``.
    n_subsets : int
        t, public.
    radius : float
        Of the ball, in the unit of the vectors.
    """

    total: FloatArray
    n_inside: float
    noise_scale: float
    n_inside_scale: float
    n_subsets: int
    radius: float
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", frozen(self.total))


def ball_steps() -> int:
    """L2 sensitivity of what is released, in grid steps and rounded up: two ends of a diameter, one of them inside."""
    return math.isqrt((2 * RADIUS) ** 2 + INSIDE**2 - 1) + 1


def counted_within(mu_squared: float) -> float:
    """Standard deviation of the number inside, in a sum with this budget in squared Gaussian differential privacy."""
    return ball_steps() / INSIDE / math.sqrt(mu_squared)


def shrunk(vectors: ArrayLike, *, radius: float) -> tuple[IntArray, BoolArray]:
    """Vectors (t, P) in the ball, in grid steps, and which of them were inside (t,).

    A vector outside is moved to the surface, towards the centre; one with a number that is not finite becomes 0, which
    counts as outside. Row i is a function of vector i alone.
    """
    with np.errstate(all="ignore"):  # a floating-point warning would tell about the vectors
        units = np.asarray(vectors, dtype=float) / radius
        valid = np.isfinite(units).all(axis=1)
        units = np.where(valid[:, None], units, 0.0)
        largest = np.maximum(np.abs(units).max(axis=1, initial=0.0), 1.0)  # first, so that no square overflows
        scaled = units / largest[:, None]
        lengths = np.sqrt(np.square(scaled).sum(axis=1))
        inside = valid & (lengths * largest <= 1 - MARGIN)
        factors = np.minimum(largest, (1 - MARGIN) / np.maximum(lengths, np.finfo(float).tiny))
        return np.rint(scaled * factors[:, None] * RADIUS).astype(np.int64), inside


def noisy_ball_sum(
    vectors: ArrayLike, *, radius: float, budget: GaussianFilter, share: Fraction, rng: Rng = None
) -> tuple[NoisyBallSum, GaussianFilter]:
    """Release the sum of the vectors of t disjoint subsets, each shrunk to a public ball, and how many were inside.

    Parameters
    ----------
    vectors : array_like, shape (t, P)
        Vector i is any function of subset i, of randomness of its own and of what was released before. Numbers that
        are not finite make it 0.
    radius : float
        Of the ball about 0, in the unit of the vectors; a function of public numbers and of earlier releases.
    budget : GaussianFilter
        Of the whole transcript; this release takes ``share`` of its limit.
    share : Fraction
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    found : NoisyBallSum
    budget : GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If the budget has too little left, the radius is not positive, or there are more than 2^20 subsets. Depends on
        public numbers alone.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy, between data sets that differ in one subset:
    under replace-one with subsets of fixed sizes in a random order, and under add-remove with subsets that are drawn
    for every record. Proof: ball_sum.md.

    Examples
    --------
    >>> vectors = np.random.default_rng(1).normal([0.5, 0.0], 0.1, size=(400, 2))
    >>> found, left = noisy_ball_sum(vectors, radius=1.0, budget=GaussianFilter.of(1.0, 1e-6), share=Fraction(1))
    >>> found.total.shape, round(found.noise_scale, 2), round(found.n_inside_scale, 1)
    ((2,), 8.71, 17.4)
    """
    check_positive(radius=radius)
    rows = np.asarray(vectors, dtype=float)
    t, size = rows.shape
    if not 1 <= t <= MOST_SUBSETS or size >= MOST_NUMBERS:
        raise ValueError(f"vectors must have a shape of at most ({MOST_SUBSETS}, {MOST_NUMBERS - 1}), got {rows.shape}")
    scale, left = budget.spend(ball_steps(), share=share, n_numbers=size + 1)
    points, inside = shrunk(rows, radius=radius)
    noise = discrete_gaussian(size + 1, scale=float(scale), rng=rng)
    total = points.sum(axis=0) + noise[:-1]
    count = int(inside.sum()) * INSIDE + int(noise[-1])
    grid = radius / RADIUS
    return NoisyBallSum(
        np.asarray(total * grid, dtype=float), count / INSIDE, scale * grid, scale / INSIDE, t, radius
    ), left
