"""Figures of releases and posteriors. They show densities, never records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm._arguments import (
    FloatArray,
    check_count,
    check_non_negative,
    check_positive,
    check_real,
    check_text,
    finite_numbers,
    shown,
)
from pm_dpgmm.methods.released import Released
from pm_dpgmm.privacy.guarantee import NOT_PRIVATE
from pm_dpgmm.release.drawing import canvas_of, column_places, draw_column, draw_pair, ink, literal, price

if TYPE_CHECKING:
    from pm_dpgmm.release.selection import KSelection

SMALLEST_VARIANCE = 1e-290  # of draws, of which a density is estimated
MOST_POINTS = 5_000  # along an axis: more than any screen has; in two dimensions its square is evaluated
COVERAGE_LEVEL, COVERAGE_RANGE = 0.9, (0.86, 0.94)  # of the calibration studies


def plot_release(
    release: Released, *, features: Sequence[int | str] = (0, 1), n_points: int = 200, ax: Any = None
) -> Any:
    """Density of a release: a curve in one dimension, filled contours and component ellipses in two.

    A background is part of the density; its own curve or ellipse is dashed. The curve of
    method "sketch" has pointwise 90 % intervals. The title has the price, and says if the release is not private.

    Parameters
    ----------
    release : Release
        What to draw; nothing else is read.
    features : pair of str or int
        Features to show when there are two or more, by name or by place from 0; the exact marginal is drawn.
    n_points : int
        Points along each axis.
    ax : matplotlib axes or arviz_plots.PlotCollection of one plot, optional
        Where to draw; a new figure when None.

    Returns
    -------
    matplotlib axes, or the PlotCollection given

    Raises
    ------
    TypeError, ValueError
        If ``features`` are not two different features of the release.
    """
    check_count(least=10, n_points=n_points)
    if n_points > MOST_POINTS:
        raise ValueError(f"n_points must be at most {MOST_POINTS}, got {shown(n_points)}")
    if not isinstance(release, Released):
        raise TypeError(f"release must be a Release, got {shown(release)} of type {type(release).__name__}")
    ax, canvas = canvas_of(ax)
    if release.n_features == 1:
        draw_column(ax, release, 0, n_points=n_points)
    else:
        draw_pair(ax, release, _pair(release, features), n_points=n_points)
    ax.set_title(f"{literal(release.method)}, {price(release)}")
    return canvas


def _pair(release: Released, features: Sequence[int | str]) -> list[int]:
    places = column_places(release, features, "two names or places")
    for place in places:
        check_count(least=0, **{"a place in features": place})
    if len(set(places)) != 2 or len(places) != 2 or max(places) >= release.n_features:
        raise ValueError(
            f"features must be two different columns below {release.n_features}, or their names, got {shown(features)}"
        )
    return places


def plot_prior_posterior(
    draws: Mapping[str, FloatArray], *, label: str = "", truth: float | None = None, ax: Any = None
) -> Any:
    """Overlaid densities of one scalar quantity under several models.

    Parameters
    ----------
    draws : mapping of str to array
        Posterior or prior draws of the quantity, any shape, by the name of the model.
    label : str
        Name of the quantity, for the axis.
    truth : float, optional
        Public true value, drawn as a vertical line.
    ax : matplotlib axes or arviz_plots.PlotCollection of one plot, optional

    Returns
    -------
    matplotlib axes, or the PlotCollection given

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> rng = np.random.default_rng(1)
    >>> draws = {"before": rng.normal(size=(2, 100)), "after": rng.normal(0.5, 0.1, size=(2, 100))}
    >>> plot_prior_posterior(draws, label="mean age").get_xlabel()
    'mean age'
    """
    from scipy.stats import gaussian_kde

    # Inference data are mappings of groups: of which variable, and of which model, would be a guess.
    if not isinstance(draws, Mapping) or hasattr(draws, "groups"):
        given = type(draws).__name__ if isinstance(draws, Mapping) else shown(draws)
        raise TypeError(
            "draws must map names of models to draws of one quantity, as in {'prior': idata.prior['mu'][..., 0],"
            f" 'posterior': idata.posterior['mu'][..., 0]}}, got {given}"
        )
    if not draws:
        raise ValueError("draws must name at least one model, got none")
    check_text(label=label)
    if truth is not None:
        check_real(truth=truth)
    flats = {str(name): _varied(values, f"draws[{shown(name)}]") for name, values in draws.items()}
    ax, canvas = canvas_of(ax)
    for j, (name, flat) in enumerate(flats.items()):
        grid = np.linspace(np.quantile(flat, 0.001), np.quantile(flat, 0.999), 200)
        ax.plot(grid, gaussian_kde(flat)(grid), color=f"C{j}", label=name)
        ax.fill_between(grid, gaussian_kde(flat)(grid), color=f"C{j}", alpha=0.15)
    if truth is not None:
        ax.axvline(truth, color=ink(ax), lw=1, ls="--", label="truth")
    ax.set(xlabel=label, ylabel="density", ylim=(0, None))
    ax.legend()
    return canvas


def plot_coverage(rows: Any, *, ax: Any = None) -> Any:
    """Coverage of intervals by parameter: noise-aware with Monte Carlo errors, and with the noise ignored.

    Parameters
    ----------
    rows : sequence or DataFrame
        Of ``verification.calibration.intervals.Row``, or of mappings with the same entries: ``study``, ``parameter``,
        ``coverage``, ``naive``, and ``standard_error`` or ``n_replications``; ``naive`` may be missing.
    ax : matplotlib axes or arviz_plots.PlotCollection of one plot, optional
        Where to draw; a new figure when None, as high as the rows need.

    Returns
    -------
    matplotlib axes, or the PlotCollection given

    Raises
    ------
    TypeError
        If ``rows`` is no sequence.
    ValueError
        If there are no rows, or one lacks an entry.
    """
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise TypeError(f"rows must be a sequence of results, or a DataFrame, got {shown(rows)}")

    table_or_rows: Any = rows
    try:
        if hasattr(type(rows), "to_dicts"):  # polars
            entries = table_or_rows.to_dicts()
        else:
            entries = table_or_rows.to_dict("records") if hasattr(type(rows), "iloc") else list(table_or_rows)
    except (TypeError, ValueError):  # a symbolic variable
        raise TypeError(f"rows must be a sequence of results, or a DataFrame, got {shown(rows)}") from None
    table = [_coverage_row(row) for row in entries]
    if not table:
        raise ValueError("rows must hold at least one row, got none")
    ax, canvas = canvas_of(ax, figsize=(8, 1.5 + 0.22 * len(table)))
    y = np.arange(len(table))[::-1]
    ax.axvspan(*COVERAGE_RANGE, color=ink(ax), alpha=0.08, lw=0, zorder=0, label="goal")
    ax.axvline(COVERAGE_LEVEL, color=ink(ax), lw=0.8, ls="--", label="nominal")
    naive = np.array([row["naive"] for row in table])
    if np.isfinite(naive).any():
        ax.plot(naive, y, "x", color="C3", label="noise ignored")
    errors = [2 * row["standard_error"] for row in table]
    ax.errorbar([row["coverage"] for row in table], y, xerr=errors, fmt="o", color="C0", ms=4, label="noise-aware")
    one_study = len({row["study"] for row in table}) == 1
    names = [literal(row["parameter"] if one_study else f"{row['study']}: {row['parameter']}") for row in table]
    ax.set_yticks(y, names)
    ax.set(xlabel="coverage of 90 % intervals, with two standard errors", xlim=(0, 1.02))
    if one_study:
        ax.set_title(literal(table[0]["study"]))
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))  # beside: points may be anywhere
    return canvas


def _coverage_row(row: Any) -> dict[str, Any]:
    """Entries of a row, whatever it is."""
    names = ("study", "parameter", "coverage", "naive", "standard_error", "n_replications")
    given = (
        dict(row) if isinstance(row, Mapping) else {name: getattr(row, name) for name in names if hasattr(row, name)}
    )
    if "standard_error" not in given and "n_replications" in given:
        check_positive(n_replications=given["n_replications"])
        given["standard_error"] = np.sqrt(COVERAGE_LEVEL * (1 - COVERAGE_LEVEL) / given["n_replications"])
    missing = [name for name in ("study", "parameter", "coverage", "standard_error") if name not in given]
    if missing:
        raise ValueError(f"rows must have {', '.join(missing)}, got one with {', '.join(map(str, given)) or 'nothing'}")
    naive = given.get("naive")
    for name in ("study", "parameter"):
        check_text(**{name: given[name]})
    check_real(coverage=given["coverage"])
    check_non_negative(standard_error=given["standard_error"])
    if naive is not None:
        check_real(naive=naive)
    return given | {"naive": np.nan if naive is None else float(naive)}


def plot_selection(selection: KSelection, *, ax: Any = None) -> Any:
    """Score above the best for every number of components; the chosen one is filled, those with a warning crossed.

    The title says if the release is not private; otherwise there is none.

    Parameters
    ----------
    selection : KSelection
        What ``release.select_k`` returned.
    ax : matplotlib axes or arviz_plots.PlotCollection of one plot, optional
        Where to draw; a new figure when None.

    Returns
    -------
    matplotlib axes, or the PlotCollection given
    """
    if not all(hasattr(selection, part) for part in ("scores", "n_components", "releases", "release", "chosen")):
        raise TypeError(f"selection must be a KSelection, got {shown(selection)} of type {type(selection).__name__}")
    ax, canvas = canvas_of(ax)
    above = np.array(selection.scores) - min(selection.scores)
    ks, wrong = np.array(selection.n_components), np.array([release.flag is not None for release in selection.releases])
    ax.plot(ks, above, color="C0", lw=0.8)
    ax.plot(ks, above, "o", color="C0", mfc=ax.get_facecolor())
    ax.plot(selection.chosen, 0, "o", color="C0", label=f"chosen: {selection.chosen}")
    if wrong.any():
        ax.plot(ks[wrong], above[wrong], "x", color="C3", label="another would be notably better")
    ax.set_yscale("symlog", linthresh=10)
    ax.set(xlabel="components", ylabel="score above the best", xticks=ks)
    if not selection.release.private:
        ax.set_title(NOT_PRIVATE)
    ax.legend()
    return canvas


def _varied(values: Any, name: str) -> FloatArray:
    """Draws as one row of finite numbers, not all the same: what a density can be drawn of."""
    flat = finite_numbers(values, name).ravel()
    if flat.size < 2 or flat.min() == flat.max():
        raise ValueError(f"{name} must hold at least two different numbers, got {shown(values)}")
    with np.errstate(all="ignore"):
        variance = float(flat.var())
    if not SMALLEST_VARIANCE < variance < 1 / SMALLEST_VARIANCE:
        raise ValueError(f"{name} must vary by what a float can square, got {shown(values)}")
    return flat
