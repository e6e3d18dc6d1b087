"""Files of the accuracy benchmark: every fit as CSV, and one figure."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, fields
from pathlib import Path

from verification.benchmarks.accuracy_methods import METHODS, Score
from verification.benchmarks.accuracy_targets import Summary

LINEAR, SMALLEST = 1e-4, -10.0  # of the axis: linear near 0, logarithmic from here on, cut below


def write_csv(scores: Iterable[Score], path: Path) -> None:
    """One row for every fit."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Score))
        writer.writerows(
            [f"{value:.6g}" if isinstance(value, float) else value for value in astuple(score)] for score in scores
        )


def draw(summaries: list[Summary], path: Path) -> None:
    """Median gap (dot) and worst gap (end of the line) of every method on every set; cut at ``SMALLEST``."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ran = [one for one in summaries if one.n_runs]
    sets, methods = list(dict.fromkeys(one.set_name for one in ran)), list(METHODS)
    figure = Figure(figsize=(8, 1.5 + 0.45 * max(len(sets), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colours = {method: colormaps["tab20"](place) for place, method in enumerate(methods)}
    for one in ran:
        place = methods.index(one.method)
        height = sets.index(one.set_name) + 0.11 * (place - (len(methods) - 1) / 2)
        median, worst = max(one.median, SMALLEST), max(one.worst, SMALLEST)
        axes.plot([worst, median], [height, height], color=colours[one.method], linewidth=1)
        axes.plot([median], [height], "o", color=colours[one.method], markersize=4)
    for method, colour in colours.items():
        if any(one.method == method for one in ran):
            axes.plot([], [], "o-", color=colour, markersize=4, label=method)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=LINEAR)
    axes.set_xlim(1.2 * SMALLEST, max(3 * LINEAR, *(2 * one.median for one in ran)) if ran else 3 * LINEAR)
    axes.set_yticks(range(len(sets)), sets)
    axes.invert_yaxis()
    axes.set_xlabel("gap to the non-private ceiling, nats per held-out record: median (dot) and worst")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
