"""All columns of a release two by two, each pair with the ellipses of the components and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pm_dpgmm._arguments import check_count, shown
from pm_dpgmm.methods.released import Released
from pm_dpgmm.release.drawing import axes_of, column_places, draw_column, draw_pair, literal, plausible_mixtures, price

MOST_COLUMNS = 12  # of one figure: 66 pairs
MOST_POINTS, MOST_DRAWS = 1000, 1000


def plot_pairs(
    release: Released,
    *,
    features: Sequence[int | str] | None = None,
    n_points: int = 80,
    n_draws: int = 40,
    axes: Any = None,
) -> Any:
    """Densities of columns on the diagonal, of pairs of columns below it; no record is drawn.

    A column has the curve of its density, those of its components (dotted; a background: dashed), and for methods
    "sketch" and "two-phase" pointwise 90 % intervals. A pair has contours that hold 10, 25, 50, 75, 90 and 97 % of the
    mixture and an ellipse of one standard deviation for every component, for those methods among pale ones of mixtures
    that the released numbers leave plausible. All in the unit of the records.

    Parameters
    ----------
    release : Release
        What to draw; nothing else is read.
    features : sequence of str or int, optional
        Columns by name or by place from 0, in the order wanted; None: all, of which there may be 12.
    n_points : int
        Points along each axis, 10 to 1,000.
    n_draws : int
        Pale ellipses for each component, 0 to 1,000.
    axes : array of matplotlib axes, shape (M, M), for M features, optional
        Where to draw; a new figure when None.

    Returns
    -------
    ndarray of matplotlib axes, shape (M, M)
        Those above the diagonal are empty and hidden.

    Raises
    ------
    TypeError, ValueError
        If ``features`` are no different columns of the release, a number is out of its range, or ``axes`` do not fit.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pm_dpgmm as dpg
    >>> X = np.random.default_rng(1).normal(size=(500, 3))
    >>> release = dpg.fit_gmm(X, 1, epsilon=3.0, bounds=(-5, 5), method="slices")
    >>> axes = release.plot_pairs(features=("x2", "x0"), n_points=20)
    >>> axes.shape, axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()
    ((2, 2), 'x2', 'x0')
    """
    check_count(least=10, most=MOST_POINTS, n_points=n_points)
    check_count(least=0, most=MOST_DRAWS, n_draws=n_draws)
    if not isinstance(release, Released):
        raise TypeError(f"release must be a Release, got {shown(release)} of type {type(release).__name__}")
    places = places_of(release, features)
    grid = _grid(axes, len(places))
    plausible = plausible_mixtures(release, n_draws) if len(places) > 1 else []
    for row, below in enumerate(places):
        for column, beside in enumerate(places):
            ax = grid[row, column]
            if column > row:
                ax.set_axis_off()
            elif column == row:
                draw_column(ax, release, below, n_points=max(n_points, 200), names=False)
                ax.set_yticks([])
            else:
                draw_pair(ax, release, [beside, below], n_points=n_points, plausible=plausible, names=False)
            if column <= row:
                ax.set_xlabel(literal(release.feature_names[beside]) if row == len(places) - 1 else "")
                ax.set_ylabel(literal(release.feature_names[below]) if column == 0 and row > 0 else "")
    grid[0, 0].set_title(f"{literal(release.method)}, {price(release)}", loc="left")
    return grid


def places_of(release: Released, features: Sequence[int | str] | None) -> list[int]:
    """Places of the columns to draw, each once."""
    given: Sequence[int | str] = list(range(release.n_features)) if features is None else features
    places = column_places(release, given, "names or places")
    if not 0 < len(places) <= MOST_COLUMNS:
        raise ValueError(f"features must be 1 to {MOST_COLUMNS} columns, got {len(places)}")
    for place in places:
        check_count(least=0, most=release.n_features - 1, **{"a place in features": place})
    if len(set(places)) < len(places):
        raise ValueError(f"features must be different columns, got {shown(given)}")
    return [int(place) for place in places]


def _grid(axes: Any, m: int) -> Any:
    if axes is None:
        import matplotlib.pyplot as plt

        size = max(3.5, min(2.2 * m, 16.0))
        _, made = plt.subplots(m, m, layout="constrained", squeeze=False, sharex="col", figsize=(size, size))
        return made
    found = np.array(axes, dtype=object)
    if found.size == m * m and found.ndim < 3:
        found = found.reshape(m, m)
    if found.shape != (m, m):
        raise ValueError(f"axes must be an array of shape {(m, m)}, got one of shape {found.shape}")
    return np.array([[axes_of(ax) for ax in row] for row in found], dtype=object)
