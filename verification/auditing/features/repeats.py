"""Numbers that come again: the same value in two runs, in one column or in any, or in two columns of a run; far values.

Noise that is drawn afresh does not repeat, so a repetition is a sign of its own, in however few runs: a constant that
slips through, a pool of noise that is used up, one draw added to two answers. Values far from all others count as one:
what slips through need not be the same every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification.auditing.features.encoding import KeyArray, mixed, row_keys

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Standard deviations from fair coins that make a table worth a look. The fewer values repeat at all, the fewer of them
# stand out by luck: where one does, three runs of one label are enough.
LEAST_Z, MOST_Z = 1.6, 3.0
MOST_COLUMNS = 64  # tables that are kept
PSEUDO_COUNT = 1.0  # of each label: a value seen once gives odds of 2
MOST_CELLS = 40_000_000  # entries of the runs that are searched within their rows
MOST_POOLED = 4_000_000  # entries that are compared with those of other columns
FAR = 12.0  # robust standard deviations from the median
NO_LIMITS = (-np.inf, np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class ValueTable:
    """Labels of the runs in which a value was seen."""

    # What is looked up: a value of a column, its partner in the row, at which far end it is, a value anywhere, how many
    # entries of the row have a partner, the row.
    source: tuple[str, int]
    keys: KeyArray  # sorted
    log_odds: FloatArray
    limits: tuple[float, float] = NO_LIMITS  # beyond which a value is far


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """Log-odds of the table that says most about a run; 0 for a run of which nothing was seen before."""

    tables: tuple[ValueTable, ...]
    n_bits: int  # the first columns are told apart by their bits

    def decision_function(self, rows: FloatArray) -> FloatArray:
        """Score of every row."""
        score = np.zeros(len(rows))
        numbers = _numbers(rows, self.n_bits)
        partner = None
        for table in self.tables:
            kind, column = table.source
            if kind == "anywhere":
                found = np.zeros(len(rows))
                for j in range(numbers.shape[1]):
                    own = _looked_up(table, _keys(rows, "value", j, None, self.n_bits))
                    found = np.where(np.abs(own) > np.abs(found), own, found)
            elif kind == "far":
                found = _looked_up(table, _ends(rows[:, column], table.limits))
            else:
                if kind in ("partner", "pairs") and partner is None:
                    partner = partners(numbers)
                found = _looked_up(table, _keys(rows, kind, column, partner, self.n_bits))
            score = np.where(np.abs(found) > np.abs(score), found, score)
        return score


def fit_repeats(rows: FloatArray, label: BoolArray, *, n_bits: int = 0) -> Repeats | None:
    """Tables of the columns whose repetitions tell labels apart; None when there is none.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
    label : ndarray of bool, shape (n,)
    n_bits : int
        The first ``n_bits`` columns are compared bit by bit, where zeros have a sign and NaN a content; in the others
        every NaN is one value, as are both zeros.
    """
    n, d = rows.shape
    numbers = _numbers(rows, n_bits)
    found: list[tuple[float, ValueTable]] = []
    n_again = 0  # values that could stand out by luck

    def look(kind: str, column: int, keys: KeyArray, coins: BoolArray) -> None:
        values, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        if values.size in (1, keys.size):  # one value, or none comes again
            return
        ones = np.bincount(inverse, weights=coins, minlength=values.size)
        if kind == "anywhere":  # most values come once
            values, ones, counts = values[counts > 1], ones[counts > 1], counts[counts > 1]
        judge((kind, column), values, ones, counts)

    def judge(
        source: tuple[str, int],
        values: KeyArray,
        ones: NDArray[Any],
        counts: NDArray[Any],
        limits: tuple[float, float] = NO_LIMITS,
    ) -> None:
        nonlocal n_again
        again = int((counts > 1).sum())
        if again == 0:
            return
        n_again += again
        z = _strength(ones, counts.astype(float), float(label.mean()))
        if z > LEAST_Z:
            log_odds = np.log(ones + PSEUDO_COUNT) - np.log(counts - ones + PSEUDO_COUNT)
            found.append((z, ValueTable(source, values, log_odds, limits)))

    if d > 1:
        look("row", 0, row_keys(rows), label)
    for j in range(d):
        look("value", j, _keys(rows, "value", j, None, n_bits), label)
        limits = _far_limits(rows[:, j])
        ends = [(rows[:, j] < limits[0]), (rows[:, j] > limits[1])]
        counts = np.array([end.sum() for end in ends])
        if counts.any():
            ones = np.array([float(label[end].sum()) for end in ends])
            seen = counts > 0
            judge(("far", j), np.array([1, 2], dtype=np.uint64)[seen], ones[seen], counts[seen], limits)
    if (d_numbers := numbers.shape[1]) > 1:
        few = max(1, MOST_CELLS // d_numbers)
        partner = partners(numbers[:few])
        for column in np.flatnonzero((partner >= 0).any(axis=0)):
            look("partner", int(column), partner[:, column].astype(np.uint64), label[:few])
        if (partner >= 0).any():
            look("pairs", 0, _keys(rows[:few], "pairs", 0, partner, n_bits), label[:few])
        few = min(n, max(1, MOST_POOLED // d_numbers))
        pooled = np.concatenate([_keys(rows[:few], "value", j, None, n_bits) for j in range(d_numbers)])
        look("anywhere", 0, pooled, np.tile(label[:few], d_numbers))
    least = min(MOST_Z, float(np.sqrt(2 * np.log(2 * max(1, n_again)))))
    found = sorted((pair for pair in found if pair[0] > least), key=lambda pair: -pair[0])
    return Repeats(tuple(table for _, table in found[:MOST_COLUMNS]), n_bits) if found else None


def partners(rows: FloatArray) -> NDArray[np.int64]:
    """For every entry the next column of its row with the same number, -1 when there is none; shape of ``rows``."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    same = ordered[:, 1:] == ordered[:, :-1]
    found = np.full(rows.shape, -1, dtype=np.int64)
    if same.any():
        row, place = np.nonzero(same)
        found[row, order[row, place]] = order[row, place + 1]
    return found


def _numbers(rows: FloatArray, n_bits: int) -> FloatArray:
    """The outputs, without what was made of their bits, which come again in every run."""
    return rows[:, : n_bits or rows.shape[1]]


def _looked_up(table: ValueTable, keys: KeyArray) -> FloatArray:
    """Log-odds of keys, 0 for those that were never seen."""
    place = np.minimum(np.searchsorted(table.keys, keys), table.keys.size - 1)
    return np.where(table.keys[place] == keys, table.log_odds[place], 0.0)


def _far_limits(column: FloatArray) -> tuple[float, float]:
    """FAR robust standard deviations about the median; nothing is far where the quartiles are one number."""
    finite = column[np.isfinite(column)]
    if finite.size == 0:
        return NO_LIMITS
    low, middle, high = (
        float(v) for v in np.quantile(finite / 2, [0.25, 0.5, 0.75], method="lower")
    )  # cannot overflow
    reach = FAR / 1.349 * (high - low)
    return (2 * (middle - reach), 2 * (middle + reach)) if reach > 0 else NO_LIMITS


def _ends(column: FloatArray, limits: tuple[float, float]) -> KeyArray:
    """1 below the limits, 2 above them, 0 for others and NaN."""
    return ((column < limits[0]) + 2 * (column > limits[1])).astype(np.uint64)


def _keys(rows: FloatArray, kind: str, column: int, partner: NDArray[np.int64] | None, n_bits: int) -> KeyArray:
    if kind in ("partner", "pairs"):
        assert partner is not None
        return (partner[:, column] if kind == "partner" else (partner >= 0).sum(axis=1)).astype(np.uint64)
    if kind == "row":
        return row_keys(rows)
    if column < n_bits:
        return mixed(np.ascontiguousarray(rows[:, column]).view(np.uint64)[:, None])
    return row_keys(rows[:, [column]])


def _strength(ones: NDArray[Any], counts: FloatArray, share: float) -> float:
    """The larger of two z-values: of the most lopsided value, and of all values that repeat together.

    With the labels of k runs drawn by coins, (ones - k share)^2 / (k share (1 - share)) has mean 1 and variance at
    most 2 up to terms of order 1/k; a thousand values seen twice each, always with one label, show there.
    """
    again = counts > 1
    variance = max(share * (1 - share), 1e-12)
    square = (ones[again] - counts[again] * share) ** 2 / (counts[again] * variance)
    spread = np.sqrt(np.sum(2 - 2 / counts[again]))
    return max(float(np.sqrt(square.max())), float((square - 1).sum() / spread))
