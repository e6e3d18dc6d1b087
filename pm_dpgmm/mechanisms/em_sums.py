"""Noisy sums of one step of an EM, all components in one release. Proof: em_sums.md.

What a step asks of the records depends on the covariances that are wanted: whole second moments, those of the columns,
squared lengths, or none at all (k-means).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray, freeze
from pm_dpgmm._blocks import Records
from pm_dpgmm.files.pickling import by_constructor
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter, steps_of
from pm_dpgmm.mechanisms.moments import COUNT_WEIGHT, ROOT_TWO, moment_sums
from pm_dpgmm.mechanisms.partitions import Partition
from pm_dpgmm.mechanisms.sketch_features import GRID
from pm_dpgmm.privacy.guarantee import Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import Rng, discrete_gaussian


class Squares(StrEnum):
    """Second moments of y that are released beside shares and shares times y."""

    FULL = "full"  # the upper triangle of y y'
    DIAGONAL = "diagonal"  # squares of its entries
    ISOTROPIC = "isotropic"  # their sum
    NONE = "none"  # shares count whole then, not half

    def size(self, n_features: int) -> int:
        """Numbers for each component."""
        whole = {Squares.FULL: n_features * (n_features + 1) // 2, Squares.DIAGONAL: n_features}
        return whole.get(self, int(self is Squares.ISOTROPIC))

    @property
    def count_weight(self) -> float:
        """Of a share beside y of length at most 1: what makes the sensitivity, as a multiple of the noise, least."""
        return 1.0 if self is Squares.NONE else COUNT_WEIGHT


@dataclass(frozen=True, slots=True, eq=False)
class NoisyEMSums:
    """Released sums of one step, with shares r_k and y_k = (x - centre_k)/radius_k in the unit of the partition.

    Attributes
    ----------
    counts : ndarray, shape (K,)
        Of r_k.
    sums : ndarray, shape (K, D)
        Of r_k y_k.
    squares : ndarray, shape (K, C)
        Of r_k times what :class:`Squares` names, C of them.
    scales : ndarray, shape (4,)
        Standard deviations of the noise: of counts, of sums, of squares, of products of two different columns.
    """

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    scales: FloatArray
    __reduce__ = by_constructor

    def __post_init__(self) -> None:
        k, d = np.shape(self.sums)
        freeze(self, counts=(k,), sums=(k, d), squares=(k, np.shape(self.squares)[1]), scales=(4,))


def squared_sensitivity(squares: Squares, neighbouring: Neighbouring) -> Fraction:
    """Of one step's exact sums, shares weighted by ``squares.count_weight``, in L2."""
    one = Fraction(2) if squares is Squares.NONE else Fraction(9, 4)
    return 2 * one if replaces_one(neighbouring) else one


def noisy_em_sums(
    records: Records,
    partition: Partition,
    *,
    squares: Squares,
    budget: GaussianFilter,
    share: Fraction,
    neighbouring: Neighbouring,
    rng: Rng = None,
) -> tuple[NoisyEMSums, GaussianFilter]:
    """Release the sums of one step.

    Parameters
    ----------
    records : ndarray, shape (N, D), or blocks of such rows
        Any numbers, as for :func:`pm_dpgmm.mechanisms.moments.noisy_moments`.
    partition : SoftPartition or VoronoiPartition
        Shares and balls; a function of public numbers and earlier releases.
    squares : Squares
    budget : GaussianFilter
        Of the whole transcript; this release takes ``share`` of its limit.
    share : Fraction
    neighbouring : Neighbouring
    rng : numpy.random.Generator, optional
        None draws from OpenDP (release); a generator simulates.

    Returns
    -------
    sums : NoisyEMSums
    budget : GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If the budget has too little left.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy, whatever numbers the records hold. Proof:
    em_sums.md.

    Examples
    --------
    >>> from pm_dpgmm.mechanisms.partitions import SoftPartition
    >>> records = np.random.default_rng(1).normal(size=(5000, 2))
    >>> parts = SoftPartition.of(np.zeros(2), np.ones(2), np.ones(1), np.zeros((1, 2)), np.eye(2)[None], reach=1.5)
    >>> found, left = noisy_em_sums(records, parts, squares=Squares.ISOTROPIC, budget=GaussianFilter.of(1.0, 1e-6),
    ...                             share=Fraction(1, 4), neighbouring=Neighbouring.REPLACE_ONE)
    >>> found.squares.shape, found.scales.round(1).tolist()
    ((1, 1), [35.8, 17.9, 17.9, 12.7])
    """
    n_parts, n_features = partition.shape
    n_numbers = n_parts * (1 + n_features + squares.size(n_features))
    steps = _steps(squares, neighbouring, n_parts, n_features)
    # before anything is computed from records
    scale, left = budget.spend(steps, share=share, n_numbers=n_numbers)
    exact = _asked(moment_sums(records, partition), squares, n_features)
    noisy = (exact + discrete_gaussian(exact.shape, scale=float(scale), rng=rng)).astype(float) * GRID
    weight, noise = squares.count_weight, scale * GRID
    off = _off_diagonal(squares, n_features)
    found = NoisyEMSums(
        noisy[:, 0] / weight,
        noisy[:, 1 : 1 + n_features],
        noisy[:, 1 + n_features :] / np.where(off, ROOT_TWO, 1.0),
        noise * np.array([1 / weight, 1.0, 1.0, math.sqrt(0.5)]),
    )
    return found, left


def noise_scale(
    squares: Squares,
    neighbouring: Neighbouring,
    n_parts: int,
    n_features: int,
    *,
    budget: GaussianFilter,
    share: Fraction,
) -> tuple[float, GaussianFilter]:
    """Standard deviation of the noise that :func:`noisy_em_sums` would add to sums, and the budget after it.

    ValueError as there; nothing is released.
    """
    n_numbers = n_parts * (1 + n_features + squares.size(n_features))
    steps = _steps(squares, neighbouring, n_parts, n_features)
    scale, left = budget.spend(steps, share=share, n_numbers=n_numbers)
    return scale * GRID, left


def _steps(squares: Squares, neighbouring: Neighbouring, n_parts: int, n_features: int) -> int:
    """L2 sensitivity of :func:`_asked` in grid steps, rounded up."""
    width = 1 + n_features + n_features * (n_features + 1) // 2  # rounded before anything is added up or left out
    return steps_of(
        squared_sensitivity(squares, neighbouring),
        grid=GRID,
        # a squared length adds up the rounding of D squares: at most sqrt(D) times theirs in L2. A count that is
        # doubled doubles its rounding
        n_numbers=n_parts * width * max(4, n_features),
        error=1e-14 + n_parts * 2.0**-52,
    )


def _asked(sums: NDArray[np.int64], squares: Squares, n_features: int) -> NDArray[np.int64]:
    """The integers that are released, (K, 1 + D + C), from those of all moments."""
    first, seconds = sums[:, : 1 + n_features], sums[:, 1 + n_features :]
    if squares is Squares.FULL:
        return sums
    diagonal = seconds[:, ~_off_diagonal(Squares.FULL, n_features)]
    if squares is Squares.DIAGONAL:
        return np.concatenate([first, diagonal], axis=1)
    if squares is Squares.ISOTROPIC:
        return np.concatenate([first, diagonal.sum(axis=1, keepdims=True)], axis=1)
    whole = first.copy()
    whole[:, 0] *= 2  # COUNT_WEIGHT is 1/2
    return whole


def _off_diagonal(squares: Squares, n_features: int) -> NDArray[np.bool_]:
    """Which of a component's squares are products of two different columns, shape (C,)."""
    if squares is Squares.FULL:
        row, column = np.triu_indices(n_features)
        return np.asarray(row != column)
    return np.zeros(squares.size(n_features), dtype=bool)
