"""Noisy counts, sums and squares of cells, as sums of Bernstein polynomials. Proof: bernstein_sums.md.

In a cell with y = (x - centre)/radius in the unit ball, the Bernstein polynomials of degree two of the regular simplex
around that ball are positive, sum to 1, and have the same span as 1, y and y y'. So a record hands out one whole among
the numbers of all cells, and replacing it moves them by at most 2 in L1, where count, y and y y' beside each other
move by 6 and more. Counts, sums and squares follow by a linear map (:func:`moments_from_sums`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray, check_positive, freeze
from pm_dpgmm._blocks import Records, blocks_of
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.moments import NoisyMoments, _into_ball, _load, exponential, log_joint
from pm_dpgmm.mechanisms.partitions import SoftPartition
from pm_dpgmm.privacy.guarantee import Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_gaussian, discrete_laplace, laplace_scale

WHOLE = 2**30  # what a record hands out


@dataclass(frozen=True, slots=True)
class LaplaceFilter:
    """Pure budget of a transcript: a release is allowed only if the sum of epsilons stays within the limit.

    Parameters
    ----------
    limit : Fraction
        epsilon of the whole transcript.
    spent : Fraction

    Examples
    --------
    >>> scale, left = LaplaceFilter.of(1.0).spend(2, share=Fraction(1, 4))
    >>> scale, left.spent
    (8.0, Fraction(1, 4))
    """

    limit: Fraction
    spent: Fraction = Fraction(0)

    @classmethod
    def of(cls, epsilon: float) -> LaplaceFilter:
        """The limit that a float is."""
        check_positive(epsilon=epsilon)
        return cls(Fraction(float(epsilon)))

    def spend(self, steps: int, *, share: Fraction) -> tuple[float, LaplaceFilter]:
        """Scale of the discrete Laplace noise of integers of L1 sensitivity ``steps``, and the budget after it.

        Raises
        ------
        ValueError
            If the sum would pass the limit. Nothing is released then.
        """
        allowed = Fraction(share) * self.limit
        if not 0 < allowed <= self.limit - self.spent:
            left = float(1 - self.spent / self.limit)
            raise ValueError(f"share must be positive and at most {left:.6g}, got {float(share):.6g}")
        # steps / scale <= share * limit, in exact rationals
        scale = laplace_scale(math.ceil(steps / Fraction(share)), float(self.limit))
        return scale, LaplaceFilter(self.limit, self.spent + allowed)


Budget = LaplaceFilter | GaussianFilter


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """Released sums of one partition.

    Attributes
    ----------
    partition : SoftPartition
    values : ndarray, shape (G, (D + 1)(D + 2)/2)
        Sums over the records of share times polynomial, in records, with independent noise.
    noise_scale : float
        Its standard deviation.
    """

    partition: SoftPartition
    values: FloatArray
    noise_scale: float
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        g, d = self.partition.shape
        freeze(self, values=(g, n_polynomials(d)))


def noisy_bernstein_sums(
    records: Records,
    partition: SoftPartition,
    *,
    budget: Budget,
    share: Fraction,
    neighbouring: Neighbouring,
    rng: Rng = None,
) -> tuple[NoisySums, Budget]:
    """Release the sums of one partition.

    Parameters
    ----------
    records : ndarray, shape (N, D), or blocks of such rows
        Any numbers; a record with one that is not finite counts for the first number. At most 2^31 of them.
    partition : SoftPartition
        Cells with soft edges: a function of public numbers and earlier releases.
    budget : LaplaceFilter or GaussianFilter
        Of the whole transcript; this release takes ``share`` of its limit. Tells the noise, too.
    share : Fraction
    neighbouring : Neighbouring
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    sums : NoisySums
    budget : LaplaceFilter or GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If the budget has too little left.

    Guarantee
    ---------
    ``share`` times the limit, in epsilon of pure differential privacy or in squared Gaussian differential privacy,
    whatever numbers the records hold. Proof: bernstein_sums.md.

    Examples
    --------
    >>> records = np.random.default_rng(1).normal(size=(5000, 1))
    >>> cells = SoftPartition.of(np.zeros(1), np.ones(1), np.ones(2), [[-1.0], [1.0]], np.ones((2, 1, 1)), reach=2.0)
    >>> found, left = noisy_bernstein_sums(records, cells, budget=LaplaceFilter.of(1.0), share=Fraction(1, 2),
    ...                                    neighbouring=Neighbouring.REPLACE_ONE)
    >>> found.values.shape, round(found.noise_scale, 2), left.spent
    ((2, 3), 5.66, Fraction(1, 2))
    """
    size = partition.shape[0] * n_polynomials(partition.shape[1])
    # before anything is computed from records
    if isinstance(budget, LaplaceFilter):
        scale, left = budget.spend(sensitivity_l1(neighbouring), share=share)
        exact = bernstein_sums(records, partition)
        noisy = exact + discrete_laplace(exact.shape, scale=scale, rng=rng)
        return NoisySums(partition, noisy / WHOLE, math.sqrt(2) * scale / WHOLE), left
    width, rest = budget.spend(sensitivity_l2(neighbouring), share=share, n_numbers=size)
    exact = bernstein_sums(records, partition)
    noisy = exact + discrete_gaussian(exact.shape, scale=float(width), rng=rng)
    return NoisySums(partition, noisy / WHOLE, width / WHOLE), rest


def sensitivity_l1(neighbouring: Neighbouring) -> int:
    """Of :func:`bernstein_sums`: what one record hands out, or two."""
    return 2 * WHOLE if replaces_one(neighbouring) else WHOLE


def sensitivity_l2(neighbouring: Neighbouring) -> int:
    """The same in L2, rounded up: vectors without negative entries are never further apart than at a right angle."""
    return math.isqrt(2 * WHOLE**2) + 1 if replaces_one(neighbouring) else WHOLE


def n_polynomials(n_features: int) -> int:
    """Of degree two: as many as 1, y and the upper triangle of y y' have."""
    return (n_features + 1) * (n_features + 2) // 2


def simplex(n_features: int) -> FloatArray:
    """Normals (D + 1, D) of the faces of the regular simplex around the unit ball, inwards; they sum to 0."""
    found = np.zeros((n_features + 1, n_features))
    for j in range(n_features):
        found[j, j] = math.sqrt(1 - np.square(found[j, :j]).sum())
        for i in range(j + 1, n_features + 1):
            found[i, j] = (-1 / n_features - found[j, :j] @ found[i, :j]) / found[j, j]
    return found[::-1].copy()


def polynomials(n_features: int) -> FloatArray:
    """Matrix P with (1, y, upper triangle of y y') P the values of the polynomials, in the order of the kernel."""
    u, d = simplex(n_features), n_features
    row, column = np.triu_indices(d)
    out = []
    for a in range(d + 1):
        for b in range(a, d + 1):
            second = np.where(
                row == column, u[a, row] * u[b, column], u[a, row] * u[b, column] + u[a, column] * u[b, row]
            )
            out.append((1 + (a != b)) * np.concatenate([[1.0], u[a] + u[b], second]))
    return np.array(out).T / (d + 1) ** 2


def moments_from_sums(found: NoisySums) -> NoisyMoments:
    """Counts, sums of y and of y y' of the cells; their noise is not independent, ``noise_scale`` that of squares."""
    d = found.partition.shape[1]
    back = np.linalg.inv(polynomials(d))
    table = found.values @ back
    row, column = np.triu_indices(d)
    squares = np.zeros((len(table), d, d))
    squares[:, row, column] = squares[:, column, row] = table[:, 1 + d :]
    noise = found.noise_scale * float(np.linalg.norm(back[:, 1 + d]))
    return NoisyMoments(found.partition, table[:, 0], table[:, 1 : 1 + d], squares, noise)


def first_kernel() -> Any:
    """The compiled sums."""
    return _sums


def bernstein_sums(records: Records, partition: SoftPartition) -> IntArray:
    """Sums over the records of what each hands out, (G, (D + 1)(D + 2)/2). Exact, secret."""
    g, d = partition.shape
    total = np.zeros((g, n_polynomials(d)), dtype=np.int64)
    for block in blocks_of(records):
        rows = np.ascontiguousarray(block, dtype=float)
        if rows.shape[1:] != (d,):  # a kernel checks no bounds: it would read the next row
            raise ValueError(f"X must have {d} columns as the centres, got shape {rows.shape}")
        parts = partition.log_weights, partition.centres, partition.whiteners, partition.radii
        _sums(rows, partition.origin, partition.unit, *parts, simplex(d), total)
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _sums(
    rows: FloatArray,
    origin: FloatArray,
    unit: FloatArray,
    log_weights: FloatArray,
    centres: FloatArray,
    whiteners: FloatArray,
    radii: FloatArray,
    normals: FloatArray,
    out: IntArray,
) -> None:
    d, g = origin.size, len(centres)
    z, y, shares, heights = np.empty(d), np.empty(d), np.empty(g), np.empty(d + 1)
    for i in range(len(rows)):
        if not _load(rows[i], origin, unit, z):
            out[0, 0] += WHOLE
            continue
        largest = log_joint(z, log_weights, centres, whiteners, shares)
        total = 0.0
        for j in range(g):
            # far from everything no density is finite: the first cell then takes the record
            found = np.isfinite(largest) and shares[j] == shares[j]
            shares[j] = exponential(shares[j] - largest) if found else 0.0
            total += shares[j]
        if total == 0.0:
            shares[0], total = 1.0, 1.0
        running, given = 0.0, 0  # what was handed out: as a number, and in whole steps
        for j in range(g):
            _into_ball(z, centres[j], radii[j], y)
            for a in range(d + 1):
                height = 1.0
                for b in range(d):
                    height += normals[a, b] * y[b]
                heights[a] = max(height / (d + 1), 0.0)
            place = 0
            for a in range(d + 1):
                for b in range(a, d + 1):
                    running += (1.0 if a == b else 2.0) * (shares[j] / total) * heights[a] * heights[b]
                    upto = WHOLE  # whatever floats do: not less than before, not more than all
                    if running < 1.0:
                        upto = max(given, int(running * WHOLE))
                    out[j, place] += upto - given
                    given = upto
                    place += 1
        out[g - 1, place - 1] += WHOLE - given
