"""Which of many columns tell something together: products of two, and sums that noise they share does not reach."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Pairs = tuple[tuple[int, int], ...]

MAX_PAIRED = 6  # columns up to which all pairwise differences are formed
MAX_PRODUCTS = 12  # columns up to which all pairwise products are formed
MOST_PAIRS = 24  # of which products are formed, of more columns
MOST_SHARING = 128  # pairs of which differences are formed, and sums
WORK = 200_000_000  # runs times pairs of columns that are looked at
SHARED = 0.7  # correlation from which two columns are taken to share noise
SMALL, ROUNDING = 0.1, 1e-12  # standard deviations, as shares of the largest, between which a direction is kept
MOST_DIRECTIONS = 48
MOST_COLUMNS = 1_000  # of which directions are searched, in at least RUNS_PER_COLUMN runs for each
MOST_SINGULAR = 256  # columns up to which they come from a singular value decomposition, which is exact and slow
MOSTLY = 0.9  # share of the runs in which a column has numbers, where most columns have none at the same time
RUNS_PER_COLUMN = 4
FARTHEST = 1e3  # robust standard deviations of a run that takes part in the search
LEAST_Z = 5.0  # standard deviations from fair coins of a product that is formed, for the best of thousands


def difference_pairs(z: FloatArray) -> Pairs:
    """Columns whose difference is formed: all of few, else each with the one it is most alike.

    ``z``: standardised columns, shape (n, d). Order, ties and shared noise show in differences.
    """
    d = z.shape[1]
    if d <= MAX_PAIRED:
        return tuple(combinations(range(d), 2))
    alike = _products(_centred(z), None) - np.eye(d)
    best = np.argmax(alike, axis=1)
    value = alike[np.arange(d), best]
    order = [j for j in np.argsort(-value, kind="stable") if value[j] > SHARED]
    pairs = dict.fromkeys((min(int(j), int(best[j])), max(int(j), int(best[j]))) for j in order)
    return tuple(pairs)[:MOST_SHARING]


def sum_pairs(z: FloatArray) -> Pairs:
    """Columns whose sum is formed: each with the one it is most opposed to, where they share noise with two signs."""
    alike = _products(_centred(z), None)
    worst = np.argmin(alike, axis=1)
    value = alike[np.arange(z.shape[1]), worst]
    order = [j for j in np.argsort(value, kind="stable") if value[j] < -SHARED]
    pairs = dict.fromkeys((min(int(j), int(worst[j])), max(int(j), int(worst[j]))) for j in order)
    return tuple(pairs)[:MOST_SHARING]


def quiet_directions(rows: FloatArray, centre: FloatArray, scale: FloatArray) -> tuple[FloatArray, bool]:
    """Weighted sums of columns that vary far less than the columns do: noise that they share cancels there.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
    centre, scale : ndarray, shape (d,)
        Of the columns; scale 0 for a constant.

    Returns
    -------
    weights : ndarray, shape (d, directions)
        Of the standardised columns: the smallest principal directions.
    looked : bool
        False where there were too many columns or too few runs to look for any.
    """
    used = np.flatnonzero(scale > 0)
    none = np.zeros((rows.shape[1], 0))
    if not 2 <= used.size <= MOST_COLUMNS:
        return none, used.size < 2
    few = slice(0, max(_rows(used.size), RUNS_PER_COLUMN * used.size))
    with np.errstate(over="ignore"):
        z = (rows[few, used] - centre[used]) / scale[used]
    near = np.abs(z) < FARTHEST  # false for NaN
    if near.all(axis=1).sum() < RUNS_PER_COLUMN * used.size:  # columns that seldom have numbers hide the others
        mostly = near.mean(axis=0) >= MOSTLY * near.any(axis=1).mean()
        used, z, near = used[mostly], z[:, mostly], near[:, mostly]
    z = z[near.all(axis=1)]
    if used.size < 2 or len(z) < RUNS_PER_COLUMN * used.size:
        return none, False
    sizes, axes = _principal(z - z.mean(axis=0))
    quiet = (sizes < SMALL * sizes[0]) & (sizes > ROUNDING * sizes[0])
    weights = np.zeros((rows.shape[1], int(quiet.sum())))
    weights[used] = axes[quiet].T
    return np.asarray(weights[:, -MOST_DIRECTIONS:]), True


def _principal(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sizes of the principal directions, the largest first, and the directions; of many columns by their products."""
    if z.shape[1] <= MOST_SINGULAR:
        return np.linalg.svd(z, full_matrices=False)[1:]
    axes = np.linalg.eigh(z.T @ z)[1].T[::-1]
    return np.linalg.norm(z @ axes.T, axis=0), axes


def product_pairs(z: FloatArray, label: BoolArray) -> Pairs:
    """Columns whose product is formed: all of few, else those of which it follows the label."""
    d = z.shape[1]
    if d <= MAX_PRODUCTS:
        return tuple(combinations(range(d), 2))
    signs = _centred(z)
    y = label - label.mean()
    n = min(len(y), _rows(d))
    strength = np.triu(np.abs(_products(signs, y)), 1) * np.sqrt(n) / max(float(y[:n].std()), 1e-12)
    first, second = np.nonzero(strength > LEAST_Z)
    order = np.argsort(-strength[first, second], kind="stable")[:MOST_PAIRS]
    return tuple((int(first[k]), int(second[k])) for k in order)


def _rows(d: int) -> int:
    return max(50, WORK // (d * d))


def _centred(z: FloatArray) -> FloatArray:
    """Columns of mean 0 in (-1, 1), so that no outlier decides."""
    squeezed = np.tanh(z[: _rows(z.shape[1])] / 2)
    return np.asarray(squeezed - squeezed.mean(axis=0))


def _products(signs: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Means of weights times products of two columns, in units of the size of the products; shape (d, d)."""
    n = len(signs)
    if weights is None:
        size = np.sqrt(np.maximum((signs**2).mean(axis=0), 1e-12))
        return np.asarray(signs.T @ signs / n / np.outer(size, size))
    size = np.sqrt(np.maximum((signs**2).T @ signs**2 / n, 1e-12))
    return np.asarray(signs.T @ (signs * weights[:n, None]) / n / size)
