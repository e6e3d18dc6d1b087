"""Kernel of the average: aligns core fits to the first of them and lifts their components in its frames."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mixture.affine_invariant import apart_on_an_axis, distance_of, factorise, lift_into


@numba.njit(nogil=True, cache=True, error_model="numpy")
def align_and_lift(
    means: FloatArray, covariances: FloatArray, reach: float, factors: FloatArray, order: Any, points: FloatArray
) -> None:
    """For core fits (n, k, d), (n, k, d, d): their components in the order of the first fit's, in its frames.

    Fills ``factors`` (k, d, d), the Cholesky factors of the first fit; ``order`` (n, k), where order[i, a] is the
    component of fit i within ``reach`` of component a of the first; and ``points`` (k, n, d + 1, d + 1), these
    components lifted in frame a. The first fit itself is I to the last bit. Without a partner, which every component of
    a core fit has (average.md), the component with the same number is taken: no value is an error.
    """
    n, k, d = means.shape
    lifted, square = np.empty((d + 1, d + 1)), np.empty((d + 1, d + 1))
    values, off, work = np.empty(d + 1), np.empty(d + 1), np.empty((2, d + 1))
    variances = np.empty((n, k, d))
    for i in range(n):
        for a in range(k):
            for j in range(d):
                variances[i, a, j] = covariances[i, a, j, j]
    limit = 4 * np.sinh(reach / 2) ** 2  # J of matrices that far apart is at least this
    for a in range(k):
        factorise(covariances[0, a], factors[a])
        order[0, a] = a
        points[a, 0] = np.eye(d + 1)
        for i in range(1, n):
            order[i, a] = a
            for b in range(k):
                if k > 1 and apart_on_an_axis(means[0, a], variances[0, a], means[i, b], variances[i, b], limit):
                    continue
                lift_into(factors[a], means[0, a], means[i, b], covariances[i, b], lifted, square)
                points[a, i] = lifted
                if k == 1 or distance_of(lifted, values, off, work)[0] <= reach:
                    order[i, a] = b
                    break
            else:
                lift_into(factors[a], means[0, a], means[i, a], covariances[i, a], points[a, i], square)
