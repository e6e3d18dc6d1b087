"""What a number gives away by its floating-point form: features for audits at the level of bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LOW_BITS = 12  # last bits of the mantissa that are shown as a number of their own
NO_BIT = -1100.0  # of zero, below every exponent
MANTISSA = 52


def bit_features(rows: FloatArray) -> FloatArray:
    """Four numbers for every column.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        Outputs in double precision; NaN and infinities allowed.

    Returns
    -------
    ndarray, shape (n, 4 d)
        Exponent of the lowest set bit (of the coarsest grid 2^e that holds the number: adding a record to noise
        coarsens it), exponent of the number, trailing zero bits of the mantissa, and its last 12 bits as an integer.

    References
    ----------
    Mironov (2012), On significance of the least significant bits for differential privacy.
    """
    columns = []
    for column in rows.T:
        finite = np.where(np.isfinite(column), column, 0.0)
        bits = np.ascontiguousarray(finite).view(np.int64)
        mantissa = bits & (2**MANTISSA - 1)
        stored = (bits >> MANTISSA) & 0x7FF
        whole = np.where(stored > 0, mantissa | 2**MANTISSA, mantissa)  # with the leading bit that is not stored
        lowest = whole & -whole
        nothing = MANTISSA + 1 + np.signbit(finite)  # one more for -0.0, which has a bit that 0.0 has not
        zeros = np.where(whole == 0, nothing, np.frexp(np.maximum(lowest, 1).astype(float))[1] - 1)
        exponent = np.maximum(stored, 1) - 1023
        fine = np.where(whole == 0, NO_BIT, exponent - MANTISSA + zeros)
        top = np.where(whole == 0, NO_BIT, np.frexp(finite)[1])
        columns += [fine, top, zeros, mantissa & (2**LOW_BITS - 1)]
    return np.column_stack(columns).astype(float)
