"""Which of two released mixtures describes the records better: a noisy clipped log-likelihood ratio.

Proof: log_likelihood_ratio.md.
"""

from __future__ import annotations

from fractions import Fraction

import numba
import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm._blocks import Records, blocks_of
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter, steps_of
from pm_dpgmm.mechanisms.moments import exponential, log_joint, logarithm
from pm_dpgmm.mechanisms.partitions import SoftPartition
from pm_dpgmm.mechanisms.sketch_features import BLOCK, GRID
from pm_dpgmm.privacy.guarantee import Neighbouring, replaces_one
from pm_dpgmm.privacy.noise import Rng, discrete_gaussian

CLIP = 10.0  # nats, largest weight of a record


def noisy_log_likelihood_ratio(
    records: Records,
    one: SoftPartition,
    other: SoftPartition,
    *,
    budget: GaussianFilter,
    share: Fraction,
    neighbouring: Neighbouring,
    rng: Rng = None,
) -> tuple[float, float, GaussianFilter]:
    """Release the sum over the records of log density of ``one`` less that of ``other``, each clipped to +-CLIP.

    Parameters
    ----------
    records : ndarray, shape (N, n_features), or blocks of such rows
        Any numbers; a record with one that is not finite counts 0.
    one, other : SoftPartition
        Released mixtures in the same unit.
    budget, share, neighbouring, rng
        As for :func:`pm_dpgmm.mechanisms.moments.noisy_moments`.

    Returns
    -------
    difference : float
        In nats, with noise; positive speaks for ``one``.
    noise_scale : float
        Its standard deviation.
    budget : GaussianFilter
        What is left.

    Raises
    ------
    ValueError
        If the budget has too little left.

    Guarantee
    ---------
    ``share`` times the limit, in squared Gaussian differential privacy. Proof: log_likelihood_ratio.md.

    Examples
    --------
    >>> unit = np.zeros(1), np.ones(1)
    >>> at = lambda m: SoftPartition.of(*unit, np.ones(1), np.array([[m]]), np.ones((1, 1, 1)), reach=2.0)
    >>> records = np.random.default_rng(1).normal(size=(5000, 1))
    >>> difference, noise_scale, left = noisy_log_likelihood_ratio(
    ...     records, at(0.0), at(3.0), budget=GaussianFilter.of(1.0, 1e-6), share=Fraction(1, 50),
    ...     neighbouring=Neighbouring.REPLACE_ONE)
    >>> difference > 5 * noise_scale
    True
    """
    reach = Fraction(2 if replaces_one(neighbouring) else 1) * Fraction(CLIP)
    # before anything is computed from records
    scale, left = budget.spend(steps_of(reach**2, grid=GRID, n_numbers=1, error=0.0), share=share, n_numbers=1)
    total = log_likelihood_ratio_sum(records, one, other) + int(discrete_gaussian(1, scale=float(scale), rng=rng)[0])
    return total * GRID, scale * GRID, left


def log_likelihood_ratio_sum(records: Records, one: SoftPartition, other: SoftPartition) -> int:
    """Sum of the clipped log ratios in grid steps. Exact, and secret."""
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"other must have {one.shape[1]} features as one has, got {other.shape[1]}")
    total = 0
    for block in blocks_of(records):
        rows = np.ascontiguousarray(block, dtype=float)
        if rows.shape[1:] != one.shape[1:]:  # a kernel checks no bounds: it would read the next row
            raise ValueError(f"X must have {one.shape[1]} columns as the mixtures, got shape {rows.shape}")
        for start in range(0, len(rows), BLOCK):
            found = np.zeros(1, dtype=np.int64)
            _duel(
                rows[start : start + BLOCK],
                one.origin,
                one.unit,
                one.log_weights,
                one.centres,
                one.whiteners,
                other.log_weights,
                other.centres,
                other.whiteners,
                found,
            )
            total += int(found[0])
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _log_density(
    z: FloatArray, log_weights: FloatArray, centres: FloatArray, whiteners: FloatArray, parts: FloatArray
) -> float:
    """Up to a constant that both mixtures share."""
    largest = log_joint(z, log_weights, centres, whiteners, parts)
    if not np.isfinite(largest):
        return largest
    total = 0.0
    for j in range(len(centres)):
        total += exponential(parts[j] - largest)
    return largest + logarithm(total)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _duel(
    rows: FloatArray,
    origin: FloatArray,
    unit: FloatArray,
    weights_one: FloatArray,
    centres_one: FloatArray,
    whiteners_one: FloatArray,
    weights_other: FloatArray,
    centres_other: FloatArray,
    whiteners_other: FloatArray,
    out: NDArray[np.int64],
) -> None:
    z = np.empty(origin.size)
    parts_one, parts_other = np.empty(len(centres_one)), np.empty(len(centres_other))
    for i in range(len(rows)):
        for a in range(origin.size):
            z[a] = (rows[i, a] - origin[a]) / unit[a]
        ratio = _log_density(z, weights_one, centres_one, whiteners_one, parts_one) - _log_density(
            z, weights_other, centres_other, whiteners_other, parts_other
        )
        if ratio == ratio:  # not NaN
            out[0] += np.int64(np.rint(min(max(ratio, -CLIP), CLIP) / GRID))
