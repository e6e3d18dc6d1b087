"""Drawings of a card, as SVG within the page: the privacy curve, every column, every pair of columns."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Callable
from functools import cache, partial
from html import escape
from typing import Any

from pm_dpgmm._arguments import FloatArray, printable
from pm_dpgmm.methods.released import Released
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Guarantee
from pm_dpgmm.release.drawing import draw_column, draw_pair, plausible_mixtures

SIZE, SQUARE = (5.2, 3.2), (4.2, 3.8)  # inches
MOST_COLUMNS = 8  # that are drawn: 28 pairs
POINTS, DRAWS = 60, 20
LEAST_DELTA = 1e-12  # that is drawn
SALT = "pm_dpgmm card "

Drawing = tuple[Callable[[], str], str]


def curve(g: Guarantee, points: tuple[FloatArray, FloatArray]) -> str:
    """Delta against epsilon."""
    epsilons, deltas = points
    shown = deltas > LEAST_DELTA
    figure, ax = _axes(SIZE)
    if shown.any():
        ax.plot(epsilons[shown], deltas[shown], color="C0")
    if g.delta > 0:
        ax.plot([g.epsilon], [g.delta], "o", mfc="none", color="C3", ms=9)
        ax.set_yscale("log")
    else:
        ax.plot([g.epsilon], [0.0], "o", mfc="none", color="C3", ms=9)
    last = max(g.epsilon, float(epsilons[shown].max()) if shown.any() else 0.0)
    ax.set(xlabel="epsilon", ylabel="delta", xlim=(0, 1.1 * last))
    return _svg(figure, "curve", "Privacy curve: delta against epsilon")


def of_columns(release: Released, *, sure: bool) -> tuple[list[Drawing], str]:
    """Drawings of columns and of their pairs, and what is left out."""
    shown = range(min(release.n_features, MOST_COLUMNS))
    names = [printable(name) for name in release.feature_names]
    bands = ", shaded: 90 % intervals at every point" if sure else ""
    pale = ", pale ones: others that the released numbers leave plausible" if sure else ""
    drawn: list[Drawing] = [
        (partial(_column, release, j, sure), f"{names[j]}: density, dotted: its components{bands}.") for j in shown
    ]
    plausible = cache(partial(plausible_mixtures, release, DRAWS if sure else 0))  # once, when the first pair is drawn
    drawn += [
        (
            partial(_pair, release, (i, j), plausible),
            f"{names[i]} and {names[j]}: contours hold 10 to 97 % of the density, ellipses are one standard deviation"
            f" of a component{pale}.",
        )
        for i, j in itertools.combinations(shown, 2)
    ]
    if release.n_features <= MOST_COLUMNS:
        return drawn, ""
    return drawn, f"Columns after the first {MOST_COLUMNS} are not drawn: release.plot(features=...) shows any two."


def _column(release: Released, place: int, sure: bool) -> str:
    figure, ax = _axes(SIZE)
    draw_column(ax, release, place, n_points=200, intervals=sure)
    name = printable(release.feature_names[place])
    return _svg(figure, f"column {place}", f"Density of {name}")


def _pair(release: Released, pair: tuple[int, int], plausible: Callable[[], list[Mixture]]) -> str:
    figure, ax = _axes(SQUARE)
    draw_pair(ax, release, pair, n_points=POINTS, plausible=plausible())
    first, second = (printable(release.feature_names[place]) for place in pair)
    return _svg(figure, f"pair {pair}", f"Joint density of {first} and {second}")


def _axes(size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _svg(figure: Any, name: str, title: str) -> str:
    """An element of a page, the same for the same numbers; its texts are escaped by matplotlib, its title here."""
    import matplotlib

    text = io.StringIO()
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": SALT + name, "svg.fonttype": "none"}):
        warnings.simplefilter("ignore")  # letters that matplotlib's font has not: the browser has them
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
