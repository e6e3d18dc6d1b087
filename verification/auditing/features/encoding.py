"""Inputs of the learned scores: columns made comparable, tables of repeated values, flags of NaN and infinity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verification.auditing.features.column_pairs import (
    Pairs,
    difference_pairs,
    paired,
    peaked_pairs,
    product_pairs,
    quiet_directions,
    sum_pairs,
    unlooked,
)
from verification.auditing.features.phases import NOT_GRIDS, Phases, enough_runs, fit_phases, phase_columns

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
KeyArray = NDArray[np.uint64]

ATOM_COUNT = 20  # repeats in the learn part that make a value an atom
PRIOR_COUNT = 6.0  # pseudo-count of a table cell: what a few dozen samples can overrule
MAX_ATOM_COLUMNS = 64
LARGEST = 1e300  # magnitudes are cut here for the regressions, so that differences stay finite
LINEAR_RANGE = 12.0  # in robust standard deviations; logarithmic beyond, so that no outlier rules a regression


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Counts of both labels by key, sorted by key."""

    keys: KeyArray
    ones: FloatArray
    zeros: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """Columns that are formed of others: order, ties, shared noise and what lies between the steps of a grid show."""

    differences: Pairs
    sums: Pairs
    centre: FloatArray  # (d,), of the raw columns
    scale: FloatArray
    directions: FloatArray  # (d, k), weights of the raw columns in units of their scale
    unlooked: tuple[str, ...]  # notes: what was not looked at
    phases: Phases

    def beside(self, rows: FloatArray) -> FloatArray:
        """Raw columns, then those formed of them."""
        with np.errstate(over="ignore", invalid="ignore"):
            pairs = [rows[:, i] - rows[:, j] for i, j in self.differences]
            pairs += [rows[:, i] + rows[:, j] for i, j in self.sums]
            if self.directions.shape[1]:
                scaled = (rows - self.centre) / np.where(self.scale > 0, self.scale, 1.0)
                used = self.directions.any(axis=1)  # what is not finite elsewhere does not matter
                pairs += list((scaled[:, used] @ self.directions[used]).T)
        pairs += phase_columns(rows, self.phases)
        return np.column_stack([rows, *pairs]) if pairs else rows


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """What the learn part fixed: centres and scales, sorted values, tables."""

    n_raw: int
    centre: FloatArray  # per extended column
    scale: FloatArray  # 0 for a column to be dropped
    sorted_values: tuple[FloatArray, ...]  # per extended column
    column_atoms: tuple[tuple[int, Table], ...]
    patterns: Table | None
    flags: tuple[tuple[int, int], ...]  # (raw column, state) seen in the learn part
    derived: Derived  # which columns extend the raw ones
    failing: NDArray[np.int64]  # raw columns that are NaN in some runs
    products: Pairs  # of raw columns and, beyond n_raw, of failures
    telling: Pairs  # those of which the product follows the label


def row_keys(rows: FloatArray) -> KeyArray:
    """One 64-bit key per row: equal rows share it, others almost surely not; every NaN is one value, as are both zeros.

    A collision would cost power, never validity.
    """
    rows = np.where(np.isnan(rows), np.nan, rows) + 0.0  # one NaN, one zero
    return mixed(np.ascontiguousarray(rows, dtype=np.float64).view(np.uint64))


def mixed(bits: KeyArray) -> KeyArray:
    """One key per row of 64-bit words, as `row_keys`."""
    keys = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:  # the mixing steps of splitmix64 (Steele, Lea and Flood 2014)
        keys = (keys ^ column) * np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(27)
    return keys


def fit_table(
    keys: KeyArray, label: BoolArray, *, least: int = ATOM_COUNT, always: KeyArray | None = None
) -> Table | None:
    """Label counts of the keys that occur ``least`` times, or at all when in ``always``; None when there is none."""
    values, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    keep = counts >= least
    if always is not None:
        keep |= np.isin(values, always, kind="sort")  # NumPy 2.0's table overflows for unsigned integers
    if not keep.any():
        return None
    ones = np.bincount(inverse, weights=label, minlength=values.size)
    return Table(values[keep], ones[keep].astype(float), (counts - ones)[keep].astype(float))


def overrule(table: Table, keys: KeyArray, score: FloatArray) -> FloatArray:
    """``score``, replaced at the keys of ``table`` by log-odds of its counts that are smoothed towards the score."""
    place = np.minimum(np.searchsorted(table.keys, keys), table.keys.size - 1)
    found = table.keys[place] == keys
    p = 1 / (1 + np.exp(-score))  # scores are within +-40
    ones = table.ones[place] + PRIOR_COUNT * p
    zeros = table.zeros[place] + PRIOR_COUNT * (1 - p)
    return np.where(found, np.log(ones) - np.log(np.maximum(zeros, 1e-17)), score)


def fit_encoder(rows: FloatArray, label: BoolArray, *, n_numbers: int | None = None) -> Encoder:
    """Learn centres, scales, ranks and tables from ``rows`` of shape (n, d).

    The first ``n_numbers`` columns are the outputs, others are made of them; None: all are outputs. What the outputs
    tell together is looked for among the first.
    """
    raw_centre, raw_scale = np.array([_robust_scale(column[np.isfinite(column)]) for column in rows.T]).T
    z = _by_scale(rows, raw_centre, raw_scale)  # 0 where there is no number
    failed = np.isnan(rows)
    failing = np.flatnonzero(failed.any(axis=0) & ~failed.all(axis=0))
    d = rows.shape[1]
    n_numbers = d if n_numbers is None else n_numbers
    products, telling = product_pairs(np.column_stack([z, failed[:, failing]]), label, n_numbers)
    few = slice(0, n_numbers)
    directions, all_directions = quiet_directions(rows[:, few], raw_centre[few], raw_scale[few])
    directions = np.vstack([directions, np.zeros((d - len(directions), directions.shape[1]))])
    apart, together, all_peaks = peaked_pairs(rows[:, few], label)
    apart = tuple(dict.fromkeys((*difference_pairs(z, n_numbers), *apart)))
    together = tuple(dict.fromkeys((*sum_pairs(z), *together)))
    pairs_seen = paired(d + failing.size)
    notes = unlooked(n_numbers, directions=all_directions, peaks=all_peaks, together=pairs_seen)
    notes = notes if enough_runs(label) else (*notes, NOT_GRIDS)
    derived = Derived(apart, together, raw_centre, raw_scale, directions, notes, fit_phases(rows, label))
    columns = derived.beside(rows)
    p = columns.shape[1]
    centre, scale, ordered, atoms = np.zeros(p), np.zeros(p), [], []
    for j, column in enumerate(columns.T):
        values = np.unique(column[~np.isnan(column)])
        ordered.append(values)
        centre[j], scale[j] = _robust_scale(column[np.isfinite(column)])
        if p > 1 and j < MAX_ATOM_COLUMNS and values.size > 2:  # with one column a row is the same thing
            table = fit_table(row_keys(column[:, None]), label)
            if table is not None:
                atoms.append((j, table))
    states = _states(rows)
    flags = tuple((int(j), s) for s in (1, 2, 3) for j in np.flatnonzero((states == s).any(axis=0)))
    patterns = _fit_patterns(_pattern_keys(states), label) if flags else None
    return Encoder(
        rows.shape[1], centre, scale, tuple(ordered), tuple(atoms), patterns, flags, derived, failing, products, telling
    )


def linear(encoder: Encoder, rows: FloatArray) -> FloatArray:
    """Standardised columns, products that tell, flags and table entries, shape (n, p)."""
    z = _standardised(encoder, rows[:, : encoder.n_raw], encoder.n_raw)
    telling = []
    if encoder.telling:
        signs = np.tanh(_factors(encoder, rows) / 2)
        telling = [(signs[:, i] * signs[:, j])[:, None] for i, j in encoder.telling]
    return np.column_stack([z, *telling, *_extras(encoder, rows, encoder.derived.beside(rows))])


def quadratic(encoder: Encoder, rows: FloatArray) -> FloatArray:
    """Standardised columns, magnitudes, squares, pairwise products, flags and table entries."""
    columns = encoder.derived.beside(rows)
    z = _standardised(encoder, columns, columns.shape[1])
    raw = _factors(encoder, rows)
    parts = [z, np.abs(z), z**2 / LINEAR_RANGE]
    parts += [(raw[:, i] * raw[:, j])[:, None] / LINEAR_RANGE for i, j in encoder.products]
    return np.column_stack([*parts, *_extras(encoder, rows, columns)])


def _factors(encoder: Encoder, rows: FloatArray) -> FloatArray:
    """What products are formed of: standardised columns, then failures as 1 and -1."""
    failed = np.where(np.isnan(rows[:, encoder.failing]), 1.0, -1.0)
    return np.column_stack([_standardised(encoder, rows, encoder.n_raw, keep=True), failed])


def ranks(encoder: Encoder, rows: FloatArray) -> NDArray[np.float32]:
    """Ranks within the learn part (-1 for NaN), summaries of a row, table entries: what trees split on.

    Ranks are monotone, so trees lose nothing, and no magnitude can overflow. Left and right ranks are added, which
    sets a learned value apart from its surroundings.
    """
    columns = encoder.derived.beside(rows)
    out = np.empty(columns.shape, dtype=np.float32)
    for j, values in enumerate(encoder.sorted_values):
        column = columns[:, j]
        place = np.searchsorted(values, column) + np.searchsorted(values, column, side="right")
        out[:, j] = np.where(np.isnan(column), -1, place)
    parts: list[NDArray[np.floating]] = [out, *_extras(encoder, rows, columns)]
    if encoder.n_raw > 1:
        z = _standardised(encoder, rows, encoder.n_raw, keep=True)
        parts += [f(z, axis=1)[:, None] for f in (np.sum, np.max, np.min)]
        parts.append(np.argmax(np.nan_to_num(rows, nan=-np.inf), axis=1)[:, None].astype(float))
    return np.column_stack(parts).astype(np.float32)


def _robust_scale(values: FloatArray) -> tuple[float, float]:
    """Median and a spread greater than 0 (0 for a constant) of finite values."""
    if values.size == 0:
        return 0.0, 0.0
    values = np.clip(values, -LARGEST, LARGEST)
    # Halves: the spread of +-1e300 is still finite, and method "lower" never interpolates between hostile values.
    q = np.quantile(values / 2, [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0], method="lower")
    for low, high, normal in ((2, 4, 1.349), (1, 5, 4.653), (0, 6, 1.0)):
        spread = 2 * (q[high] - q[low]) / normal
        if spread > 1e-290:  # a reciprocal below the overflow threshold
            return float(2 * q[3]), float(spread)
    return float(2 * q[3]), 0.0


def _standardised(encoder: Encoder, columns: FloatArray, n_columns: int, *, keep: bool = False) -> FloatArray:
    """Columns in robust standard deviations, logarithmic beyond LINEAR_RANGE; constants dropped unless ``keep``."""
    centre, scale = encoder.centre[:n_columns], encoder.scale[:n_columns]
    z = _by_scale(columns, centre, scale)
    return z if keep else z[:, scale > 0]


def _by_scale(columns: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        z = (np.clip(columns, -LARGEST, LARGEST) - centre) / np.where(scale > 0, scale, 1.0)
    z[np.isnan(z)] = 0.0
    large = np.abs(z) > LINEAR_RANGE
    if large.any():
        size = np.minimum(np.abs(z[large]), LARGEST)
        z[large] = np.sign(z[large]) * (LINEAR_RANGE + np.log(size / LINEAR_RANGE))
    return np.asarray(z)


def _states(rows: FloatArray) -> NDArray[np.int8]:
    """0 for a finite entry, 1 for NaN, 2 and 3 for plus and minus infinity."""
    return (np.isnan(rows) + 2 * (rows == np.inf) + 3 * (rows == -np.inf)).astype(np.int8)


def _pattern_keys(states: NDArray[np.int8]) -> KeyArray:
    return row_keys(states.astype(float))


def _fit_patterns(keys: KeyArray, label: BoolArray) -> Table | None:
    """Patterns of failure, rare ones too where they are few: else a label would be learned from itself."""
    few = np.unique(keys).size * ATOM_COUNT <= keys.size
    return fit_table(keys, label, least=1 if few else ATOM_COUNT)


def _extras(encoder: Encoder, rows: FloatArray, columns: FloatArray) -> list[FloatArray]:
    """Flags of non-finite entries and the log-odds of their pattern and of repeated values, one column each."""
    zero = np.zeros(len(rows))
    extras = [overrule(table, row_keys(columns[:, [j]]), zero)[:, None] for j, table in encoder.column_atoms]
    if encoder.patterns is not None:
        states = _states(rows)
        extras += [(states[:, j] == s)[:, None].astype(float) for j, s in encoder.flags]
        extras.append(overrule(encoder.patterns, _pattern_keys(states), zero)[:, None])
    return extras
