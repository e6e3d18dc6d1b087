"""Which of many columns tell the labels apart by themselves: a look at every one, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CELLS = 4_000_000  # of a block of columns that is sorted at once
FIRST, GROWTH = 8, 1.25  # smallest tail that is looked at, in runs, and the next one
CAUTION = 2.0  # standard deviations by which a share is believed to be lower than seen


def tail_strengths(rows: FloatArray, label: BoolArray) -> FloatArray:
    """How far the best tail of every column is from a fair coin.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        NaN comes lowest.
    label : ndarray of bool, shape (n,)

    Returns
    -------
    ndarray, shape (d, 2)
        Lower end of the score interval of the log-odds of a right guess, the largest over tails that hold 8 runs or
        more: label 1 guessed at the top or 0 at the bottom, and the other way round. Runs that are equal are taken in
        their order, which does not depend on their labels.
    """
    n, d = rows.shape
    strengths = np.full((d, 2), -np.inf)
    if n < FIRST:
        return strengths
    ranks = np.unique(np.geomspace(FIRST, n, int(np.log(n / FIRST) / np.log(GROWTH)) + 2).astype(int))
    for block in blocks(n, d):
        values = np.nan_to_num(rows[:, block], nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        coins = label[np.argsort(values, axis=0, kind="stable")]
        low = np.cumsum(coins, axis=0, dtype=np.int64)[ranks - 1]
        high = np.cumsum(coins[::-1], axis=0, dtype=np.int64)[ranks - 1]
        trials = ranks[:, None].astype(float)
        for sign, hits in enumerate(((high, trials - low), (trials - high, low))):
            share = np.maximum(_low_share(hits[0], trials), _low_share(hits[1], trials)).max(axis=0)
            strengths[block, sign] = np.log(share) - np.log1p(-share)
    return strengths


def best_columns(rows: FloatArray, label: BoolArray, most: int) -> NDArray[np.int64]:
    """Places of the ``most`` columns that tell most: by a tail, or by the means of their ranks; ascending."""
    tails = tail_strengths(rows, label).max(axis=1)
    shifts = np.zeros(rows.shape[1])
    centred = label - label.mean()
    for block in blocks(*rows.shape):
        order = np.argsort(rows[:, block], axis=0, kind="stable")
        ranks = np.empty(order.shape)
        np.put_along_axis(ranks, order, np.linspace(-1, 1, len(rows))[:, None], axis=0)
        shifts[block] = np.abs(centred @ ranks)
    by_tail, by_shift = np.argsort(-tails, kind="stable"), np.argsort(-shifts, kind="stable")
    chosen = np.unique(np.concatenate([by_tail[: most - most // 3], by_shift[: most // 3]]))
    rest = by_tail[~np.isin(by_tail, chosen, kind="sort")]
    return np.sort(np.concatenate([chosen, rest[: most - chosen.size]]))


def blocks(n: int, d: int) -> Iterator[slice]:
    """Columns in blocks of at most CELLS entries."""
    width = max(1, CELLS // max(1, n))
    yield from (slice(start, start + width) for start in range(0, d, width))


def _low_share(hits: NDArray[Any], trials: FloatArray) -> FloatArray:
    """Lower end of the score interval of a probability, inside (0, 1)."""
    hits = hits.astype(float)
    centre = hits + CAUTION**2 / 2
    spread = CAUTION * np.sqrt(hits * (trials - hits) / trials + CAUTION**2 / 4)
    return np.clip((centre - spread) / (trials + CAUTION**2), 1e-9, 1 - 1e-9)
