"""Hypothesis strategies for pairs of neighbouring data sets, hostile by default.

Hypothesis is loaded here and by the claims alone: it takes half a second.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from verification._arguments import check_count, check_real

FloatArray = NDArray[np.float64]
Pair = tuple[FloatArray, FloatArray]

HOSTILE = (0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e-300, 1e-16, 1e16, 1e300, 1e308, -1e308)


def elements_within(bounds: tuple[float, float] | None = None) -> st.SearchStrategy[float]:
    """Finite floats: 0, tiny, huge; with ``bounds`` = (low, high) also points inside, on and just outside them.

    Raises
    ------
    TypeError, ValueError
        If ``bounds`` is not an increasing pair of finite numbers.
    """
    hostile = st.sampled_from(HOSTILE) | st.floats(allow_nan=False, allow_infinity=False)
    if bounds is None:
        return hostile
    low, high = bounds
    check_real("bounds[0]", low, -np.inf, np.inf, rule="be finite")
    check_real("bounds[1]", high, float(low), np.inf, rule="be finite and above bounds[0]")
    edges = [float(np.nextafter(end, way)) for end in (low, high) for way in (-np.inf, np.inf)]
    inside = st.floats(float(low), float(high))
    return (
        st.sampled_from([float(low), float(high), *(float(end) for end in edges if np.isfinite(end))])
        | inside
        | hostile
    )


def replace_one_pairs(
    n_features: int,
    min_records: int = 1,
    max_records: int = 30,
    elements: st.SearchStrategy[float] | None = None,
    bounds: tuple[float, float] | None = None,
) -> st.SearchStrategy[Pair]:
    """Pairs (x, x') of one shape (n, n_features) that differ in exactly one row.

    Parameters
    ----------
    n_features : int
        Columns, at least 1.
    min_records, max_records : int
        Range of n, from 1.
    elements : strategy of floats, optional
        Entries, not NaN and of at least two values; hostile ones by default.
    bounds : (low, high), optional
        Adds points on and just outside these bounds to the default elements.

    Returns
    -------
    strategy of (ndarray, ndarray)
        x often holds duplicates, and the two rows may lie far apart.

    Raises
    ------
    TypeError, ValueError
        If a count or the bounds break these rules.
    """
    row, n_records = _rows(n_features, 1, min_records, max_records, elements, bounds)

    @st.composite
    def pairs(draw: st.DrawFn) -> Pair:
        x = _data(draw, row, draw(n_records), n_features)
        place = draw(st.integers(0, len(x) - 1))
        new = draw(row.filter(lambda values: not np.array_equal(values, x[place])))
        neighbour = x.copy()
        neighbour[place] = new
        return x, neighbour

    return pairs()


def add_remove_pairs(
    n_features: int,
    min_records: int = 0,
    max_records: int = 30,
    elements: st.SearchStrategy[float] | None = None,
    bounds: tuple[float, float] | None = None,
) -> st.SearchStrategy[Pair]:
    """Pairs (x, x') where one has one row more, at any position; either may be the larger.

    Parameters
    ----------
    n_features : int
        Columns, at least 1.
    min_records, max_records : int
        Range of the rows of the smaller data set, from 0.
    elements, bounds
        As in `replace_one_pairs`.

    Returns
    -------
    strategy of (ndarray, ndarray), shapes (n, n_features) and (n +- 1, n_features)

    Raises
    ------
    TypeError, ValueError
        If a count or the bounds break these rules.
    """
    row, n_records = _rows(n_features, 0, min_records, max_records, elements, bounds)

    @st.composite
    def pairs(draw: st.DrawFn) -> Pair:
        small = _data(draw, row, draw(n_records), n_features)
        large = np.insert(small, draw(st.integers(0, len(small))), draw(row), axis=0)
        return (small, large) if draw(st.booleans()) else (large, small)

    return pairs()


def _rows(
    n_features: int,
    least: int,
    min_records: int,
    max_records: int,
    elements: st.SearchStrategy[float] | None,
    bounds: tuple[float, float] | None,
) -> tuple[st.SearchStrategy[list[float]], st.SearchStrategy[int]]:
    check_count(least=1, n_features=n_features)
    check_count(least=least, min_records=min_records)
    check_count(least=min_records, max_records=max_records)
    values = elements_within(bounds) if elements is None else elements
    return st.lists(values, min_size=n_features, max_size=n_features), st.integers(min_records, max_records)


def _data(draw: st.DrawFn, row: st.SearchStrategy[list[float]], n_records: int, n_features: int) -> FloatArray:
    """Rows drawn afresh, or from a few distinct ones so that duplicates are common."""
    if n_records and draw(st.booleans()):
        few = draw(st.lists(row, min_size=1, max_size=3))
        rows = draw(st.lists(st.sampled_from(few), min_size=n_records, max_size=n_records))
    else:
        rows = draw(st.lists(row, min_size=n_records, max_size=n_records))
    return np.array(rows, dtype=float).reshape(n_records, n_features)
