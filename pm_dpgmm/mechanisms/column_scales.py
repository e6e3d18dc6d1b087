"""How finely and how widely the records of one column are spread: two histograms, no bounds. Proof: column_scales.md.

Gaps between consecutive records by size tell the scale of a group of records however few they are; distances within
pairs by size tell how far groups lie apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm._arguments import FloatArray, finite_numbers
from pm_dpgmm.mechanisms.box import EXPONENTS, GRID, pair_distance_counts
from pm_dpgmm.mechanisms.gap_histogram import MOST_CELL_BITS, MOVED, gap_counts
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import IntArray, Rng, discrete_gaussian, permutation

PAIR_PART = Fraction(1, 3)  # of the share, for distances: most of them are as long as groups lie apart


@dataclass(frozen=True, slots=True, eq=False)
class ColumnScales:
    """Noisy counts by binary exponent, of ``box.EXPONENTS``; smaller and larger ones are in the outermost bins."""

    gap_counts: FloatArray  # (201,): of gaps between consecutive records
    gap_noise: float  # standard deviation
    pair_counts: FloatArray  # (201,): of distances within secret pairs
    pair_noise: float


def noisy_column_scales(
    records: ArrayLike, *, budget: GaussianFilter, share: Fraction, neighbouring: Neighbouring, rng: Rng = None
) -> tuple[ColumnScales, GaussianFilter]:
    """Release the sizes of the gaps between consecutive records, and of the distances within pairs.

    Parameters
    ----------
    records : array_like, shape (N,)
        Finite numbers in any order and unit; no bounds. Equal ones have no gap and no distance.
    budget : GaussianFilter
    share : Fraction
        Of the budget's limit.
    neighbouring : Neighbouring
    rng : numpy.random.Generator, optional
        None draws from OpenDP and the operating system (release); a generator simulates.

    Returns
    -------
    scales : ColumnScales
    budget : GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If ``records`` are no finite numbers in one dimension, or the budget has too little left.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy. Proof: column_scales.md. Source of the gaps:
    Ashtiani, Majid and Narayanan (2024), Lemmas F.5 and F.6.

    Examples
    --------
    >>> records = np.random.default_rng(1).normal(0.0, 1.0, size=20_000)
    >>> scales, left = noisy_column_scales(records, budget=GaussianFilter.of(1.0, 1e-6), share=Fraction(1, 10),
    ...                                    neighbouring=Neighbouring.REPLACE_ONE)
    >>> bool(2.0**-15 < 2.0 ** EXPONENTS[np.argmax(scales.gap_counts)] < 2.0**-9), left.remaining_share > 0.89
    (True, True)
    """
    column = finite_numbers(records, "records")
    if column.ndim != 1:
        raise ValueError(f"records must have shape (N,), got {column.shape}")
    lost, gained = MOVED[Neighbouring.parse(neighbouring)]
    # both before anything is computed from records
    of_gaps, left = budget.spend(
        math.isqrt((lost**2 + gained**2) * GRID**2) + 1, share=share * (1 - PAIR_PART), n_numbers=lost + gained
    )
    of_pairs, left = left.spend(math.isqrt(2 * GRID**2) + 1, share=share * PAIR_PART, n_numbers=2)
    gaps = gaps_by_size(column)
    pairs = pair_distance_counts(column[:, None], permutation(len(column), rng=rng))[0]
    noisy = [
        (counts * GRID + discrete_gaussian(counts.shape, scale=float(scale), rng=rng)) / GRID
        for counts, scale in ((gaps, of_gaps), (pairs, of_pairs))
    ]
    return ColumnScales(noisy[0], of_gaps / GRID, noisy[1], of_pairs / GRID), left


def gaps_by_size(column: FloatArray) -> IntArray:
    """Exact numbers of gaps between consecutive records by binary exponent, (201,): must not leave."""
    exact = gap_counts(column, cell_bits=MOST_CELL_BITS)
    counts = np.zeros(EXPONENTS.size, dtype=np.int64)
    np.add.at(counts, np.clip(exact.exponents, EXPONENTS[0], EXPONENTS[-1]) - EXPONENTS[0], exact.counts)
    return counts
