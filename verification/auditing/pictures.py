"""Audits as figures: what was claimed, what is certified, what would have been caught."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from verification.auditing.rounding import exactly, rounded_down, rounded_up, to_nearest

if TYPE_CHECKING:
    from verification.auditing.curve_result import CurveAuditResult
    from verification.auditing.result import AuditResult


def plot_bound(result: AuditResult, ax: Any = None) -> Any:
    """Bars of epsilon: what is certified, what was claimed, and what this audit would have caught."""
    ax = _axes(ax)
    rows = [
        ("claimed", result.epsilon, to_nearest, "C0"),
        ("certified: at least", result.epsilon_lower, rounded_down, "C3" if result.refuted else "0.6"),
        ("would have caught", result.detection_limit, rounded_up, "0.85"),
    ]
    finite = [value for _, value, *_ in rows if math.isfinite(value)]
    edge = 1.25 * max(finite)
    for place, (_, value, text, colour) in enumerate(rows[::-1]):
        ax.barh(place, min(value, edge), color=colour)
        ax.annotate(f" {text(value)}", (min(value, edge), place), va="center")
    ax.axvline(result.epsilon, color="C0", lw=1, ls="--")
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows[::-1]])
    at = f" at delta = {exactly(result.delta)}" if result.delta > 0 else ""
    ax.set(xlabel=f"epsilon{at}", xlim=(0, 1.2 * edge), title=_verdict(result.refuted))
    return ax


def plot_curve(result: CurveAuditResult, ax: Any = None) -> Any:
    """The claimed curve, and the certified bound at the epsilon where it was tested."""
    ax = _axes(ax)
    curve = result.curve
    allowed = np.maximum(curve.first, curve.second)
    shown = (allowed > 1e-12) & (curve.epsilons <= 1.5 * max(result.epsilon_point, _last(curve.epsilons, allowed)))
    ax.plot(curve.epsilons[shown], allowed[shown], color="C0", label=f"claimed: {result.claim}")
    colour = "C3" if result.refuted else "0.4"
    ax.plot([result.epsilon_point], [max(result.delta_lower, 1e-12)], "^", color=colour, label="certified: at least")
    ax.plot([result.epsilon_point], [max(result.delta_claimed, 1e-12)], "o", mfc="none", color="C0")
    ax.set(yscale="log", xlabel="epsilon", ylabel="delta", title=_verdict(result.refuted))
    ax.legend()
    return ax


def _last(epsilons: Any, allowed: Any) -> float:
    """Where the curve is as low as a figure needs."""
    seen = epsilons[allowed > 1e-6]
    return float(seen[-1]) if seen.size else 1.0


def _verdict(refuted: bool) -> str:
    return "refuted" if refuted else "no violation found"


def ink(ax: Any) -> Any:
    """Colour of the texts of the axes, for lines that must be seen on every background."""
    return ax.xaxis.label.get_color()


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]
