"""Compiled EM for one Gaussian mixture with full covariances: steps and their acceleration.

Records are standardised and stored by column. The bits of a result are a function of the arguments. What cannot be
fitted is NaN or False; no function raises or warns.

Parameters of a mixture are one vector: weights (k), means (k, d), covariances (k, d, d).
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.em_blocks import add_moments, copy_to, gaps_from, posteriors, quadratic_form, total_of
from pm_dpgmm.mixture.affine_invariant import factorise, invert

BLOCK = 128  # records; the work arrays of a block stay in the first cache
LONGEST_STEP = 64.0  # of the extrapolation
LEAST_VARIANCE = 1e-12  # of a component given the columns before, over that of the column; below it is a collapse
HOPE = 2.0  # extrapolated steps gain more than plain ones
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def whiteners(theta: FloatArray, k: int, d: int, halves: FloatArray, offsets: FloatArray) -> bool:
    """halves[c] = L_c^-1 and offsets[c] = log w_c - log det L_c - d log(2 pi)/2; False if a component is none."""
    means_at, covariances_at = k, k + k * d
    factor, precision = np.empty((d, d)), np.empty((d, d))
    for c in range(k):
        covariance = theta[covariances_at + c * d * d : covariances_at + (c + 1) * d * d].reshape(d, d)
        if not (theta[c] > 0 and factorise(covariance, factor)):
            return False
        offsets[c] = np.log(theta[c]) - d * HALF_LOG_2PI
        for i in range(d):
            if not factor[i, i] * factor[i, i] > LEAST_VARIANCE * covariance[i, i]:
                return False
            offsets[c] -= np.log(factor[i, i])
        invert(factor, halves[c], precision)
    return bool(np.isfinite(theta[means_at:covariances_at]).all())


@numba.njit(nogil=True, cache=True, error_model="numpy")
def log_joint(
    columns: FloatArray,
    first: int,
    means: FloatArray,
    halves: FloatArray,
    offsets: FloatArray,
    gaps: FloatArray,
    scratch: FloatArray,
    joint: FloatArray,
) -> None:
    """joint[c, i] = log of weight c times density c at record first + i, for as many as ``scratch`` has places."""
    size = len(scratch)
    for c in range(len(means)):
        row = joint[c, :size]
        gaps_from(columns, first, means[c], gaps, size)
        quadratic_form(gaps, halves[c], scratch, row)
        for i in range(size):
            row[i] = offsets[c] - 0.5 * row[i]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def em_step(columns: FloatArray, theta: FloatArray, k: int, reg: float, out: FloatArray) -> float:
    """One step of EM from ``theta`` to ``out``; returns the log-likelihood at ``theta``, NaN if there is none.

    Products are taken around the present means, so nothing cancels. ``reg`` is added to the variances. A component
    of no more than d + 1 records is a collapse.
    """
    d, n = columns.shape
    halves, offsets = np.empty((k, d, d)), np.empty(k)
    if not whiteners(theta, k, d, halves, offsets):
        return np.nan
    means = theta[k : k + k * d].reshape(k, d)
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    gaps, joint, work = np.empty((d, BLOCK)), np.empty((k, BLOCK)), np.empty((3, BLOCK))
    likelihood = 0.0
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        largest, mass, scratch = work[0, :size], work[1, :size], work[2, :size]
        log_joint(columns, first, means, halves, offsets, gaps, scratch, joint)
        likelihood += posteriors(joint, largest, mass, scratch)
        for c in range(k):
            shares = joint[c, :size]
            counts[c] += total_of(shares)
            gaps_from(columns, first, means[c], gaps, size)
            add_moments(gaps, shares, scratch, sums[c], squares[c])
    if not np.isfinite(likelihood):
        return np.nan
    new_means, new_covariances = out[k : k + k * d].reshape(k, d), out[k + k * d :].reshape(k, d, d)
    for c in range(k):
        if not counts[c] > d + 1:
            return np.nan
        out[c] = counts[c] / n
        for i in range(d):
            shift = sums[c, i] / counts[c]
            new_means[c, i] = means[c, i] + shift
            for j in range(i + 1):
                entry = squares[c, i, j] / counts[c] - shift * (sums[c, j] / counts[c])
                new_covariances[c, i, j] = new_covariances[c, j, i] = entry
            new_covariances[c, i, i] += reg
    return likelihood


@numba.njit(nogil=True, cache=True, error_model="numpy")
def climb(
    columns: FloatArray, theta: FloatArray, k: int, reg: float, max_iter: int, tol: float, target: float
) -> tuple[float, int]:
    """EM with extrapolation from ``theta``, in place; returns the last log-likelihood (NaN: collapsed) and the steps.

    Squared extrapolation S3 of Varadhan and Roland (2008): two steps of EM, then a jump along them that is kept only
    if the log-likelihood does not fall. Ends when one plain step gains less than ``tol`` a record, and as soon as
    the steps that are left, at ``HOPE`` times the present gain each, would not reach ``target``.
    """
    n = columns.shape[1]
    one, two, three = np.empty_like(theta), np.empty_like(theta), np.empty_like(theta)
    longest, steps, second = 1.0, 0, np.nan
    while steps < max_iter:
        start = em_step(columns, theta, k, reg, one)
        second = em_step(columns, one, k, reg, two)
        steps += 2
        if not np.isfinite(start + second):
            return np.nan, steps
        hope = second + HOPE * (max_iter - steps) * (second - start)
        if abs(second - start) < tol * n or hope < target:
            copy_to(theta, two)
            return second, steps
        speed, bend = 0.0, 0.0
        for i in range(len(theta)):
            r = one[i] - theta[i]
            v = two[i] - one[i] - r
            speed += r * r
            bend += v * v
        length = min(np.sqrt(speed / bend), longest) if bend > 0 else 1.0
        if length > 1:
            for i in range(len(theta)):
                r = one[i] - theta[i]
                v = two[i] - one[i] - r
                theta[i] += 2 * length * r + length * length * v
            third = em_step(columns, theta, k, reg, three)
            steps += 1
            if third >= second:
                copy_to(theta, three)
                longest = min(4 * longest, LONGEST_STEP) if length == longest else longest
                continue
            longest = max(longest / 4, 1.0)
        if length == longest == 1:
            longest = 4.0
        copy_to(theta, two)
    return second, steps
