"""Plans as figures: the error against the number of records or against epsilon, and where it is small enough."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm._arguments import check_choice, shown
from pm_dpgmm.release.drawing import canvas_of

if TYPE_CHECKING:
    from pm_dpgmm.planning.result import Plan

PARTS = ("trials", "gap", "gap_without_privacy", "enough", "error")  # of a plan, whose own method this is
AGAINST = {"n_records": "records", "epsilon": "epsilon"}


def plot_plans(plans: Iterable[Plan], *, against: str = "n_records", ax: Any = None) -> Any:
    """Error of simulated fits against the number of records or epsilon, with what is wanted and where that is reached.

    Points are simulations; those that refused stand at the upper edge. The line is the median, which is filled where
    the plan is enough. Dashed: what sampling alone costs a fit without privacy.

    Parameters
    ----------
    plans : iterable of Plan
        Made by :func:`pm_dpgmm.plan`, with one wanted ``error``.
    against : {"n_records", "epsilon"}
        What the plans differ in.
    ax : matplotlib axes or arviz_plots.PlotCollection of one plot, optional
        Where to draw; a new figure when None.

    Returns
    -------
    matplotlib axes, or the PlotCollection given

    Raises
    ------
    TypeError, ValueError
        If these are no plans, there are none, or they want different errors.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pm_dpgmm as dpg
    >>> plans = [dpg.plan(n, 1, 1, epsilon=1.0, method="histogram", n_simulations=1) for n in (200, 2000)]
    >>> dpg.plot_plans(plans).get_xlabel()
    'records'
    """
    check_choice(tuple(AGAINST), against=against)
    if isinstance(plans, str) or not isinstance(plans, Iterable):
        raise TypeError(f"plans must be a sequence of plans, got {shown(plans)}")
    found = list(plans)
    for plan in found:
        if not all(hasattr(type(plan), part) for part in PARTS):
            raise TypeError(f"plans must be of pm_dpgmm.plan, got {shown(plan)}")
    wanted = {plan.error for plan in found}
    if len(wanted) != 1:
        raise ValueError(f"plans must be one or more with the same error, got {sorted(wanted) or 'none'}")
    found.sort(key=lambda plan: float(getattr(plan, against)))
    places = np.array([float(getattr(plan, against)) for plan in found])
    ax, canvas = canvas_of(ax)
    gaps = [np.array([trial.gap for trial in plan.trials], dtype=float) for plan in found]
    finite = [max(gap, 1e-12) for values in gaps for gap in values.tolist() if np.isfinite(gap)]
    top = 3 * max([*finite, found[0].error])
    for at, values in zip(places, gaps, strict=True):
        over = ~np.isfinite(values)
        ax.plot(np.full((~over).sum(), at), values[~over], "o", color="C0", ms=4, alpha=0.5, mew=0)
        ax.plot(np.full(over.sum(), at), np.full(over.sum(), top), "x", color="C3", ms=6)
    medians = np.array([plan.gap for plan in found])
    ax.plot(places, np.where(np.isfinite(medians), medians, np.nan), color="C0", lw=1, label="median")
    enough = np.array([plan.enough for plan in found])
    ax.plot(places[~enough], np.minimum(medians, top)[~enough], "s", color="C0", mfc="none", ms=9)
    ax.plot(places[enough], medians[enough], "s", color="C0", ms=9, label="enough")
    ax.plot(places, [plan.gap_without_privacy for plan in found], "k--", lw=1, label="without privacy, about")
    ax.axhline(found[0].error, color="C2", lw=1, label="wanted at most")
    ax.set(yscale="log", xlabel=AGAINST[against], ylabel="log-density lost per record, nats")
    if len(found) > 1:
        ax.set_xscale("log")
    else:
        ax.set_xticks(places, [f"{places[0]:,g}"])
    ax.set_title(_title(found, against))
    ax.legend()
    return canvas


def _title(plans: list[Plan], against: str) -> str:
    first = plans[0]
    size = f"{first.n_features} features, {first.n_components} components"
    return f"{first.method}, {size}, " + (first.budget if against == "n_records" else f"{first.n_records:,} records")
