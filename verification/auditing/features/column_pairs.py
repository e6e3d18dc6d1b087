"""Which of many columns tell something together: products of two, and sums that noise they share does not reach."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Pairs = tuple[tuple[int, int], ...]

MAX_PAIRED = 6  # columns up to which all pairwise differences are formed
MAX_PRODUCTS = 12  # columns up to which all pairwise products are formed
MOST_PAIRS = 24  # of which products are formed, of more columns
MOST_SHARING = 128  # pairs of which differences are formed, and sums
WORK = 200_000_000  # runs times pairs of columns that are looked at
MOST_TOGETHER = 10_000  # columns of which pairs are looked at: seconds, and their number is squared
STRIP = 4_000_000  # pairs at a time
SHARED = 0.7  # correlation from which two columns are taken to share noise
SMALL, ROUNDING = 0.1, 1e-12  # standard deviations, as shares of the largest, between which a direction is kept
MOST_DIRECTIONS = 48
MOST_COLUMNS = 1_000  # of which directions are searched, in at least RUNS_PER_COLUMN runs for each
MOST_SINGULAR = 256  # columns up to which they come from a singular value decomposition, which is exact and slow
MOSTLY = 0.9  # share of the runs in which a column has numbers, where most columns have none at the same time
RUNS_PER_COLUMN = 4
FARTHEST = 1e3  # robust standard deviations of a run that takes part in the search
MOST_PEAKED = 128  # columns up to which pairs that share noise now and then are looked for
PEAKED_RUNS, PEAKED_WORK = 1_000, 1_000_000  # of each label at most; runs times squared columns
PEAKED_PAIRS = 6  # of which differences, and sums, are formed
NEARNESS = 1e-12  # of the spread: nearer values are one
PEAKED = 12.0  # nats times the root of the number of runs; log gaps have a deviation of 1.3, and pairs are thousands
CHANCE = 1.5  # times the largest between runs that are paired at random in two ways
LEAST_Z = 5.0  # standard deviations from fair coins of a product that is formed, for the best of thousands
LUCK = 0.01  # probability that of few columns a product is as far from fair coins by luck

SHARED_NOISE = "weighted sums of columns in which noise that they share cancels to less than a tenth"
NOT_SHARED_NOISE = (
    f"sums of columns that share noise were not looked for: there were more than {MOST_COLUMNS:,} columns, or for each"
    f" of them fewer than {RUNS_PER_COLUMN} runs to learn from that hold numbers in all"
)
NOT_ALL_PAIRS, NOT_PEAKED = (
    f"of more than {MAX_PAIRED} columns not every pair was looked at: differences and sums of those that correlate"
    f"{sharing}, and of more than {MAX_PRODUCTS} columns products of those that tell by a product alone"
    for sharing in (
        " or have noise in common, to the last digits, in some runs",
        " (not of those that have noise in common in some runs only)",
    )
)
NOT_TOGETHER = f"what two columns tell together was not looked for: there were more than {MOST_TOGETHER:,}"


def unlooked(n_columns: int, *, directions: bool, peaks: bool, together: bool = True) -> tuple[str, ...]:
    """Notes to a pass: what of ``n_columns`` was not looked at, sums in all ``directions``, ``peaks`` or ``together``.

    ``together``: whether there were few enough columns, with those made of them, for pairs.
    """
    notes = () if directions else (NOT_SHARED_NOISE,)
    if n_columns <= MAX_PAIRED:
        return notes
    if not together:
        return (*notes, NOT_TOGETHER)
    return (*notes, NOT_ALL_PAIRS if peaks else NOT_PEAKED)


def paired(n_columns: int) -> bool:
    """Whether pairs of so many columns are looked at."""
    return n_columns <= MOST_TOGETHER


def joined(*unlooked: tuple[str, ...]) -> tuple[str, ...]:
    """Notes to a pass of which parts were learned on different runs, each note once; the stronger of two alike."""
    found = dict.fromkeys(note for notes in unlooked for note in notes)
    weaker = {NOT_PEAKED: {NOT_ALL_PAIRS}, NOT_TOGETHER: {NOT_ALL_PAIRS, NOT_PEAKED}}
    said = set().union(*(weaker.get(note, set()) for note in found))
    return tuple(note for note in found if note not in said)


def difference_pairs(z: FloatArray, n_numbers: int) -> Pairs:
    """Columns whose difference is formed: all of few, else each with the one it is most alike.

    ``z``: standardised columns, shape (n, d), the first ``n_numbers`` of which are outputs and others made of them.
    Order, ties and shared noise show in differences.
    """
    d = z.shape[1]
    if d <= MAX_PAIRED:
        return tuple(combinations(range(d), 2))
    few = tuple(combinations(range(n_numbers), 2)) if n_numbers <= MAX_PAIRED else ()
    return tuple(dict.fromkeys((*few, *_most_alike(z, 1.0))))


def sum_pairs(z: FloatArray) -> Pairs:
    """Columns whose sum is formed: each with the one it is most opposed to, where they share noise with two signs."""
    return _most_alike(z, -1.0)


def _most_alike(z: FloatArray, sign: float) -> Pairs:
    """Each column with the one that ``sign`` times itself follows most, where that is by SHARED; the closest first."""
    d = z.shape[1]
    if d < 2 or not paired(d):
        return ()
    signs = _centred(z)
    size = np.sqrt(np.maximum((signs**2).mean(axis=0), 1e-12))
    best, value = np.zeros(d, dtype=int), np.zeros(d)
    for strip in _strips(d):
        alike = sign * (signs[:, strip].T @ signs) / len(signs) / np.outer(size[strip], size)
        own = np.arange(len(alike))
        alike[own, strip.start + own] = -np.inf
        best[strip] = np.argmax(alike, axis=1)
        value[strip] = alike[own, best[strip]]
    order = [j for j in np.argsort(-value, kind="stable") if value[j] > SHARED]
    pairs = dict.fromkeys((min(int(j), int(best[j])), max(int(j), int(best[j]))) for j in order)
    return tuple(pairs)[:MOST_SHARING]


def peaked_pairs(rows: FloatArray, label: BoolArray) -> tuple[Pairs, Pairs, bool]:
    """Columns whose difference, and those whose sum, often comes to lie very near a value that it had before.

    And whether all were looked at: of not too many columns, in enough runs that hold numbers.

    Noise that two of many columns share in some of the runs moves no correlation, but gives their difference a peak.
    It is measured by the mean logarithm of gaps between the sorted differences, against the same of columns from
    different runs; a smaller spread alone, which correlation gives, does not count.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
    label : ndarray, shape (n,)
        Peaks are looked for among runs of the same label, as these are the ones that have the same noise.
    """
    d = rows.shape[1]
    usable = np.isfinite(rows)
    columns = np.flatnonzero(usable.mean(axis=0) >= MOSTLY * usable.any(axis=1).mean())  # of the runs that have any
    if d > MOST_PEAKED or columns.size < 2:
        return (), (), d < 2
    most = min(PEAKED_RUNS, max(50, PEAKED_WORK // d**2))
    whole = usable[:, columns].all(axis=1)
    parts = [rows[np.ix_(np.flatnonzero(whole & (label == one))[:most], columns)] for one in (0, 1)]
    parts = [np.clip(part, -1e150, 1e150) for part in parts if len(part) >= 50]
    n_runs = sum(map(len, parts))
    if not parts:
        return (), (), False
    found: list[Pairs] = []
    for sign in (-1.0, 1.0):
        excess, chance = np.zeros((2, columns.size, columns.size))
        for i in range(columns.size - 1):
            for part in parts:
                one, others = part[:, [i]], sign * part[:, i + 1 :]
                told = [_nearness(one + np.roll(others, shift, axis=0)) for shift in range(3)]
                excess[i, i + 1 :] += len(part) / n_runs * (told[1] - told[0])
                chance[i, i + 1 :] += len(part) / n_runs * (told[1] - told[2])
        least = max(PEAKED / np.sqrt(n_runs), CHANCE * float(np.abs(chance).max()))  # steps of a grid come again, too
        first, second = np.nonzero(excess > least)
        order = np.argsort(-excess[first, second], kind="stable")[:PEAKED_PAIRS]
        found.append(tuple((int(columns[first[k]]), int(columns[second[k]])) for k in order))
    return found[0], found[1], columns.size == d


def _nearness(values: FloatArray) -> FloatArray:
    """Mean logarithm of the gaps between the sorted values of each column of (n, m), in units of their spread; (m,)."""
    found = np.sort(values, axis=0)
    n = len(found)
    spread = found[3 * n // 4] - found[n // 4]
    spread = np.where(spread > 0, spread, np.maximum(found[-1] - found[0], 1e-290))
    return np.asarray(np.log(np.maximum(np.diff(found, axis=0) / spread, NEARNESS)).mean(axis=0))


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


def product_pairs(z: FloatArray, label: BoolArray, n_numbers: int) -> tuple[Pairs, Pairs]:
    """Columns whose product is formed: all of few, else those of which it follows the label; and these latter ones.

    The first ``n_numbers`` are outputs, others made of them. Of a few dozen runs no regression finds among all products
    the one that tells: the second pairs are given to the simplest one, too.
    """
    d = z.shape[1]
    telling = _telling(z, label) if paired(d) else ()
    if d <= MAX_PRODUCTS:
        return tuple(combinations(range(d), 2)), telling
    few = tuple(combinations(range(n_numbers), 2)) if n_numbers <= MAX_PRODUCTS else ()
    return tuple(dict.fromkeys((*few, *telling))), telling


def _telling(z: FloatArray, label: BoolArray) -> Pairs:
    d = z.shape[1]
    signs, y = _centred(z), label - label.mean()
    n = len(signs)
    least = LEAST_Z if d > MAX_PRODUCTS else float(special.ndtri(1 - LUCK / max(1, d * (d - 1))))
    unit = np.sqrt(n) / max(float(y[:n].std()), 1e-12)
    squares, weighted = signs**2, signs * y[:n, None]
    found, strengths = np.zeros((0, 2), dtype=int), np.zeros(0)
    for strip in _strips(d):
        size = np.sqrt(np.maximum(squares[:, strip].T @ squares / n, 1e-12))
        strength = np.triu(np.abs(signs[:, strip].T @ weighted / n / size), 1 + strip.start) * unit
        first, second = np.nonzero(strength > least)
        strengths = np.concatenate([strengths, strength[first, second]])
        found = np.concatenate([found, np.column_stack([strip.start + first, second])])
        order = np.argsort(-strengths, kind="stable")[:MOST_PAIRS]
        found, strengths = found[order], strengths[order]
    return tuple((int(one), int(other)) for one, other in found)


def _strips(d: int) -> Iterator[slice]:
    """Of d columns, with all of which those of a strip are paired."""
    step = max(1, STRIP // max(d, 1))
    return (slice(start, min(start + step, d)) for start in range(0, d, step))


def _rows(d: int) -> int:
    return max(50, WORK // (d * d))


def _centred(z: FloatArray) -> FloatArray:
    """Columns of mean 0 in (-1, 1), so that no outlier decides."""
    squeezed = np.tanh(z[: _rows(z.shape[1])] / 2)
    return np.asarray(squeezed - squeezed.mean(axis=0))
