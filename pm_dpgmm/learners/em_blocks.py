"""Compiled passes over a block of records, a column at a time, so that loops run over records and vectorise.

Sums may be regrouped by the compiler, in an order that depends on sizes alone; infinities and NaN keep their meaning.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from pm_dpgmm._arguments import FloatArray

REGROUPED = {"contract", "reassoc", "nsz"}
ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low bits
LOG2E = 1 / math.log(2)
LN2_HIGH = 0.6931471803691238  # 33 bits, so that products with exponents are exact
LN2_LOW = 1.9082149292705877e-10
EXPONENTIAL = tuple(1 / math.factorial(i) for i in range(14))
FACTORS = 32  # masses multiplied before a logarithm


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def exponentials(values: FloatArray, scratch: FloatArray) -> None:
    """values <- exp(values) for values of at most 0, to two units in the last place; below -708 about 1e-308.

    exp(x) = 2^n exp(r), r = x - n log 2 at most 0.35 in size; the Taylor polynomial of degree 13 is exact to 2^-57.
    """
    bits, result = scratch.view(np.int64), values.view(np.int64)
    c = EXPONENTIAL
    for i in range(len(values)):
        x = max(values[i], -708.0)
        shifted = x * LOG2E + ROUND
        n = shifted - ROUND
        r = (x - n * LN2_HIGH) - n * LN2_LOW
        p = c[13]
        p = p * r + c[12]
        p = p * r + c[11]
        p = p * r + c[10]
        p = p * r + c[9]
        p = p * r + c[8]
        p = p * r + c[7]
        p = p * r + c[6]
        p = p * r + c[5]
        p = p * r + c[4]
        p = p * r + c[3]
        p = p * r + c[2]
        p = p * r + c[1]
        p = p * r + c[0]
        values[i] = p
        scratch[i] = shifted
    for i in range(len(values)):
        result[i] += bits[i] << 52


@numba.njit(nogil=True, cache=True, error_model="numpy")
def copy_to(out: FloatArray, values: FloatArray) -> None:
    """out <- values; compiles faster than an assignment of arrays."""
    for i in range(len(out)):
        out[i] = values[i]


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def _add_product(out: FloatArray, factor: float, values: FloatArray) -> None:
    """out <- out + factor values."""
    for i in range(len(out)):
        out[i] += factor * values[i]


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def _dot(first: FloatArray, second: FloatArray) -> float:
    """Scalar product."""
    total = 0.0
    for i in range(len(first)):
        total += first[i] * second[i]
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def total_of(values: FloatArray) -> float:
    """Sum."""
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def _product_of(values: FloatArray) -> float:
    """Product."""
    total = 1.0
    for i in range(len(values)):
        total *= values[i]
    return total


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def quadratic_form(gaps: FloatArray, half: FloatArray, row: FloatArray, out: FloatArray) -> None:
    """out[i] = |half gaps[:, i]|^2, ``half`` lower triangular."""
    n = len(out)
    out[:] = 0.0
    for j in range(len(half)):
        first = gaps[0, :n]
        a = half[j, 0]
        for i in range(n):
            row[i] = a * first[i]
        m = 1
        while m + 1 <= j:
            u, v = gaps[m, :n], gaps[m + 1, :n]
            a, b = half[j, m], half[j, m + 1]
            for i in range(n):
                row[i] += a * u[i] + b * v[i]
            m += 2
        if m <= j:
            _add_product(row, half[j, m], gaps[m, :n])
        for i in range(n):
            out[i] += row[i] * row[i]


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def posteriors(joint: FloatArray, largest: FloatArray, mass: FloatArray, scratch: FloatArray) -> float:
    """joint (k, n) from log joint densities to responsibilities; returns the sum of the log densities."""
    k, n = joint.shape[0], len(largest)
    copy_to(largest, joint[0, :n])
    for c in range(1, k):
        row = joint[c, :n]
        for i in range(n):
            largest[i] = max(largest[i], row[i])
    mass[:] = 0.0
    for c in range(k):
        row = joint[c, :n]
        for i in range(n):
            row[i] -= largest[i]
        exponentials(row, scratch)
        for i in range(n):
            mass[i] += row[i]
    logarithm = total_of(largest)
    for first in range(0, n, FACTORS):  # every mass is between 1 and k, so no product overflows
        logarithm += np.log(_product_of(mass[first : min(first + FACTORS, n)]))
    for i in range(n):
        mass[i] = 1 / mass[i]
    for c in range(k):
        row = joint[c, :n]
        for i in range(n):
            row[i] *= mass[i]
    return logarithm


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def add_moments(gaps: FloatArray, shares: FloatArray, row: FloatArray, sums: FloatArray, squares: FloatArray) -> None:
    """Add weighted sums and products of ``gaps`` (d, n) to ``sums`` (d,) and the lower triangle of ``squares``."""
    n = len(shares)
    for j in range(len(sums)):
        mine = gaps[j, :n]
        for i in range(n):
            row[i] = shares[i] * mine[i]
        sums[j] += total_of(row)
        m = 0
        while m + 3 <= j:
            a, b, c, e = gaps[m, :n], gaps[m + 1, :n], gaps[m + 2, :n], gaps[m + 3, :n]
            p, q, r, s = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                p += row[i] * a[i]
                q += row[i] * b[i]
                r += row[i] * c[i]
                s += row[i] * e[i]
            squares[j, m] += p
            squares[j, m + 1] += q
            squares[j, m + 2] += r
            squares[j, m + 3] += s
            m += 4
        while m <= j:
            squares[j, m] += _dot(row, gaps[m, :n])
            m += 1


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=REGROUPED)
def gaps_from(columns: FloatArray, first: int, mean: FloatArray, gaps: FloatArray, size: int) -> None:
    """gaps[:, i] = record first + i minus ``mean``."""
    for j in range(len(mean)):
        values, out, centre = columns[j, first : first + size], gaps[j, :size], mean[j]
        for i in range(size):
            out[i] = values[i] - centre
