"""Numbers that come again: the same value of a column in two runs, the same value in two columns of a run.

Noise that is drawn afresh does not repeat, so a repetition is a sign of its own, in however few runs: a constant that
slips through, a pool of noise that is used up, one draw added to two answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verification.score_features import KeyArray, mixed, row_keys

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LEAST_Z = 3.0  # standard deviations from fair coins that make a column worth a look
MOST_COLUMNS = 64  # tables that are kept
PSEUDO_COUNT = 1.0  # of each label: a value seen once gives odds of 2
MOST_CELLS = 40_000_000  # entries of the runs that are searched within their rows


@dataclass(frozen=True, slots=True, eq=False)
class ValueTable:
    """Labels of the runs in which a value was seen."""

    source: tuple[str, int]  # what is looked up: a column's value, its partner in the row, the whole row
    keys: KeyArray  # sorted
    log_odds: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Repeats:
    """Log-odds of the table that says most about a run; 0 for a run of which nothing was seen before."""

    tables: tuple[ValueTable, ...]
    n_bits: int  # the first columns are told apart by their bits

    def decision_function(self, rows: FloatArray) -> FloatArray:
        """Score of every row."""
        score = np.zeros(len(rows))
        partner = None
        for table in self.tables:
            kind, column = table.source
            if kind == "partner" and partner is None:
                partner = partners(rows)
            keys = _keys(rows, kind, column, partner, self.n_bits)
            place = np.minimum(np.searchsorted(table.keys, keys), table.keys.size - 1)
            found = np.where(table.keys[place] == keys, table.log_odds[place], 0.0)
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
    found: list[tuple[float, ValueTable]] = []
    sources = [("row", 0)] if rows.shape[1] > 1 else []
    sources += [("value", j) for j in range(rows.shape[1])]
    partner = None
    if rows.shape[1] >= 2 and rows.size <= MOST_CELLS:
        partner = partners(rows)
        sources += [("partner", int(j)) for j in np.flatnonzero((partner >= 0).any(axis=0))]
    for kind, column in sources:
        keys = _keys(rows, kind, column, partner, n_bits)
        values, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        if values.size in (1, keys.size):  # one value, or none comes again
            continue
        ones = np.bincount(inverse, weights=label, minlength=values.size)
        z = _strength(ones, counts.astype(float), float(label.mean()))
        if z > LEAST_Z:
            log_odds = np.log(ones + PSEUDO_COUNT) - np.log(counts - ones + PSEUDO_COUNT)
            found.append((z, ValueTable((kind, column), values, log_odds)))
    found.sort(key=lambda pair: -pair[0])
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


def _keys(rows: FloatArray, kind: str, column: int, partner: NDArray[np.int64] | None, n_bits: int) -> KeyArray:
    if kind == "partner":
        assert partner is not None
        return partner[:, column].astype(np.uint64)
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
