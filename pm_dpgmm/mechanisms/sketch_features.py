"""Features of a private sketch on an integer grid, summed over records. Proof: sketch_features.md.

The features of a record are computed from that record alone, operation by operation in one order, so they do not depend
on its place, on its block or on the number of threads; sums are of integers, so their order does not matter either.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm._blocks import Records, blocks_of
from pm_dpgmm.mechanisms.frequencies import Frequencies, RieszProduct
from pm_dpgmm.privacy.noise import IntArray

GRID = 2.0**-30  # spacing of the features
MAX_RECORDS = 2**31  # the sum of as many features of at most 1 fits 64 bits with a factor 4 to spare
TILE = 64  # records at a time: their arrays stay in the first cache
BLOCK = 1 << 15  # records to a thread at a time

# 1/k! with alternating signs: |angle| is at most pi/4, the terms left out are below 1e-17
SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))
COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9))
QUARTER = math.pi / 2


def sketch_sums(blocks: Records, frequencies: Frequencies, *, n_threads: int = 1) -> IntArray:
    """Sum the features of all records, each rounded to the grid.

    Parameters
    ----------
    blocks : ndarray, shape (N, n_features), or iterable of such arrays
        Any numbers: a phase that is not finite counts as 0.
    frequencies : RieszProduct or FejerHarmonics
    n_threads : int
        Threads; the result is the same integers for any number.

    Returns
    -------
    ndarray of int64, shape (2, n_frequencies)
        Sums of amplitude * cos(phase) / GRID and of amplitude * sin(phase) / GRID. Exact, and secret.

    Raises
    ------
    ValueError
        If there are more than 2^31 records, or rows are not as wide as the frequencies.
    """
    return sums_and_number(blocks, frequencies, n_threads=n_threads)[0]


def sums_and_number(blocks: Records, frequencies: Frequencies, *, n_threads: int = 1) -> tuple[IntArray, int]:
    """`sketch_sums` and the number of records, in one pass."""
    total = np.zeros((2, frequencies.n_frequencies), dtype=np.int64)
    n_records = 0
    for rows in blocks_of(blocks):
        n_records += len(rows)
        if n_records > MAX_RECORDS:
            raise ValueError("X must have at most 2^31 rows, got more")
        total += _sums_of(np.ascontiguousarray(rows, dtype=float), frequencies, n_threads)
    return total, n_records


def kernel_for(kind: type[Frequencies]) -> Any:
    """The compiled function that sums features of these frequencies."""
    return _frame_sums if issubclass(kind, RieszProduct) else _ladder_sums


def _sums_of(rows: FloatArray, frequencies: Frequencies, n_threads: int) -> IntArray:
    if rows.shape[1:] != (frequencies.n_features,):  # a kernel checks no bounds: it would read the next row
        raise ValueError(f"X must have {frequencies.n_features} columns as the frequencies, got shape {rows.shape}")
    parts = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
    steps = frequencies.amplitudes / GRID
    if isinstance(frequencies, RieszProduct):
        turns, centre, n_composites = frequencies.bases / (2 * math.pi), frequencies.centre, len(frequencies.signs)
        steps = steps[:n_composites]
    else:
        turns, centre = np.full((1, 1, 1), frequencies.step / (2 * math.pi)), np.array([frequencies.centre])
        n_composites = frequencies.order
    kernel = kernel_for(type(frequencies))

    def sums(part: FloatArray) -> IntArray:
        out = np.zeros((2, len(turns), n_composites), dtype=np.int64)
        kernel(part, centre, turns, steps, out)
        return out.reshape(2, -1)

    total = np.zeros((2, frequencies.n_frequencies), dtype=np.int64)
    if n_threads == 1 or len(parts) < 2:
        for part in parts:
            total += sums(part)
        return total
    with ThreadPoolExecutor(n_threads) as pool:
        for found in pool.map(sums, parts):
            total += found
    return total


@numba.njit(nogil=True, cache=True)
def _base(tile: FloatArray, turns: FloatArray, n: int, cosines: FloatArray, sines: FloatArray) -> None:
    """cos and sin of 2 pi (turns . record) for the ``n`` records of a tile, one after the other in every operation."""
    for t in range(n):
        cosines[t] = 0.0
    for j in range(turns.size):
        for t in range(n):
            cosines[t] += turns[j] * tile[j, t]
    for t in range(n):
        turn = cosines[t] - np.rint(cosines[t])
        turn = turn if abs(turn) <= 0.5 else 0.0  # not finite, or too large to have a fraction
        angle = QUARTER * turn  # a quarter of the phase
        square = angle * angle
        s, c = SINE[8], COSINE[8]
        for k in range(7, -1, -1):
            s = s * square + SINE[k]
            c = c * square + COSINE[k]
        s *= angle
        s, c = 2 * s * c, 1 - 2 * s * s
        sines[t], cosines[t] = 2 * s * c, 1 - 2 * s * s


@numba.njit(nogil=True, cache=True)
def _load(rows: FloatArray, start: int, n: int, centre: FloatArray, tile: FloatArray) -> None:
    for t in range(n):
        for j in range(centre.size):
            tile[j, t] = rows[start + t, j] - centre[j]


# The order of a sum of integers below 2^53 does not matter, so the compiler may change it: each term is rounded before.
@numba.njit(nogil=True, cache=True, fastmath={"reassoc"})
def _sum_rounded(values: FloatArray, step: float, n: int) -> int:
    total = 0.0
    for t in range(n):
        total += np.rint(values[t] * step)
    return int(total)


@numba.njit(nogil=True, cache=True)
def _frame_sums(
    rows: FloatArray, centre: FloatArray, turns: FloatArray, steps: FloatArray, out: NDArray[np.int64]
) -> None:
    """Signed sums of base phases by complex products, in the order of ``RieszProduct.signs``."""
    n_frames, n_base, _ = turns.shape
    tile = np.empty((centre.size, TILE))
    c, s = np.empty((steps.size, TILE)), np.empty((steps.size, TILE))
    for start in range(0, len(rows), TILE):
        n = min(TILE, len(rows) - start)
        _load(rows, start, n, centre, tile)
        for f in range(n_frames):
            made = 0
            for i in range(n_base):
                new, last = made, made
                _base(tile, turns[f, i], n, c[new], s[new])
                made += 1
                for old in range(last):
                    for t in range(n):
                        cc, ss = c[old, t] * c[new, t], s[old, t] * s[new, t]
                        sc, cs = s[old, t] * c[new, t], c[old, t] * s[new, t]
                        c[made, t], s[made, t] = cc - ss, sc + cs
                        c[made + 1, t], s[made + 1, t] = cc + ss, sc - cs
                    made += 2
            for j in range(made):
                out[0, f, j] += _sum_rounded(c[j], steps[j], n)
                out[1, f, j] += _sum_rounded(s[j], steps[j], n)


@numba.njit(nogil=True, cache=True)
def _ladder_sums(
    rows: FloatArray, centre: FloatArray, turns: FloatArray, steps: FloatArray, out: NDArray[np.int64]
) -> None:
    """Multiples of one phase by complex powers."""
    tile = np.empty((1, TILE))
    first, power = np.empty((2, TILE)), np.empty((2, TILE))
    for start in range(0, len(rows), TILE):
        n = min(TILE, len(rows) - start)
        _load(rows, start, n, centre, tile)
        _base(tile, turns[0, 0], n, first[0], first[1])
        for t in range(n):
            power[0, t], power[1, t] = first[0, t], first[1, t]
        for j in range(steps.size):
            out[0, 0, j] += _sum_rounded(power[0], steps[j], n)
            out[1, 0, j] += _sum_rounded(power[1], steps[j], n)
            for t in range(n):
                c, s = power[0, t], power[1, t]
                power[0, t] = c * first[0, t] - s * first[1, t]
                power[1, t] = s * first[0, t] + c * first[1, t]
