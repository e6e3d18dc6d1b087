"""The drawings of a report; each says which claims it shows, and its numbers are computed here from scratch."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from pm_dpgmm.mechanisms.normal_scores import CountRanges, arrangement
from pm_dpgmm.mechanisms.robust_normal import robust_design
from pm_dpgmm.mixture.total_variation import total_variation_1d
from verification.claims.claim import Effort
from verification.claims.masks import laws as mask_laws
from verification.claims.total_variation.semimetrics import mean_triangle, one_column_triangle
from verification.report.contents import Figure

SIZE = (5.6, 3.9)  # inches
SALT = "pm_dpgmm"  # of the names inside an SVG: the same page for the same numbers


def all_figures(seed: int) -> list[Figure]:
    """Every drawing but :func:`audits`."""
    return [tv_range(seed), triangle_constants(seed), mask_curves(seed), score_volumes(seed)]


def tv_range(seed: int) -> Figure:
    """Total variation over the parameter distance, for random pairs in one column."""
    rng = np.random.default_rng(seed)
    size = 4000
    shift, spread = 10 ** rng.uniform(-3, 0.7, size), np.exp(rng.normal(0, 10 ** rng.uniform(-3, 0.3, size)))
    shift *= rng.random(size) < 0.8
    tv = total_variation_1d(np.zeros(size), np.ones(size), shift, spread)
    narrow = np.minimum(spread, 1.0)
    distance = np.maximum(np.abs(np.maximum(spread, 1 / spread) ** 2 - 1), shift / narrow)
    keep = (tv > 1e-4) & (distance < 100)
    figure, ax = axes()
    ax.scatter(distance[keep], tv[keep] / distance[keep], s=3, alpha=0.4, lw=0, color="C0", rasterized=True)
    for value, name in (
        (1 / 200, "1/200, as printed"),
        (1 / math.sqrt(2), "1/√2, as printed"),
        (1.0, "1, for all pairs"),
    ):
        ax.axhline(value, color="C3" if "printed" in name else "C2", lw=1, ls="--" if "printed" in name else "-")
        ax.annotate(name, (1.1e-3, value), va="bottom", fontsize=8)
    ax.axhspan(1 / (math.sqrt(2) * math.pi), math.sqrt(3) / (2 * math.sqrt(math.pi)), color="C1", alpha=0.15, lw=0)
    ax.set(xscale="log", yscale="log", xlabel="parameter distance", ylabel="total variation / parameter distance")
    ax.set_ylim(3e-3, 2)
    ax.set_xlim(1e-3, 100)
    words = (
        "Pairs in one column. The printed bounds are for total variations below 1/600; in the limit 0 the ratio lies in"
        " the shaded range in every dimension. Without that condition 1/√2 fails for distant pairs, and 1 never does."
    )
    ids = ("tv-parameter-distance", "tv-local-range", "tv-unconditional", "tv-unconditional-corrected")
    return _finished(figure, "tv-range", "Total variation against the distance of parameters", words, ids)


def triangle_constants(seed: int) -> Figure:
    """Attained and proved constants of the approximate triangle inequalities, against the radius."""
    radii = np.array([0.1, 0.25, 0.5, 1.0, 2.0])
    rng = np.random.default_rng(seed)
    figure, ax = axes()
    grid = np.linspace(0, radii[-1], 100)
    ax.plot(grid, 1 + grid / 2, color="C0", label="1 + r/2")
    ax.plot(grid, (1 + np.sqrt(1 + grid)) / 2, color="C1", label="(1 + √(1 + r))/2")
    for kind, colour in (("covariance", "C0"), ("mean", "C1")):
        found = []
        for radius in radii:
            effort = Effort(rng)
            if kind == "mean":
                found.append(mean_triangle(effort, constant=_one, jointly=True, radius=radius).largest)
            else:
                found.append(one_column_triangle(effort, norm="fro", slope=0.0, radius=radius).largest)
        ax.plot(radii, found, "o", ms=4, color=colour, label=f"attained, {kind}")
    ax.plot([1.0], [1.5], "s", ms=9, mfc="none", color="C3", label="as printed: 3/2 at r = 1")
    ax.set(xlabel="radius r", ylabel="constant z(r)")
    ax.legend(fontsize=8)
    words = "Points are the largest d(1, 3)/(d(1, 2) + d(2, 3)) that an optimiser found; lines are proved."
    ids = ("covariance-frobenius-triangle", "covariance-spectral-triangle", "component-triangle", "mean-triangle")
    return _finished(figure, "triangle", "Constants of the approximate triangle inequalities", words, ids)


def mask_curves(seed: int) -> Figure:
    """Exact privacy curves of the three masks at the published radii."""
    epsilon, delta, alpha, beta, d = 1.0, 1e-5, 0.1, 0.1, 2
    log_term, epsilons = math.log(2 / delta), np.geomspace(0.005, 1.5, 60)
    weight = float(mask_laws.weight_noise(alpha, beta))
    mean = float(mask_laws.mean_noise(alpha, beta, d))
    covariance = mask_laws.covariance_noise(alpha, math.log(beta), d, c1=7.0)
    radii = {
        "weight": float(mask_laws.weight_radius(epsilon, delta, weight)),
        "mean": float(mask_laws.mean_radius(epsilon, log_term, alpha, d - math.log(beta))),
        "covariance": min(mask_laws.covariance_conditions(epsilon, log_term, covariance, d, frobenius=False)),
    }
    curves = {
        "weight": mask_laws.weight_curve(epsilons, radius=radii["weight"], noise=weight),
        "mean": mask_laws.mean_curve(epsilons, radius=radii["mean"], noise=mean, d=d),
        "covariance": mask_laws.covariance_curve(
            epsilons, radius=radii["covariance"], noise=covariance, d=d, frobenius=False
        ),
    }
    figure, ax = axes()
    for colour, (name, curve) in zip(("C0", "C1", "C2"), curves.items(), strict=True):
        ax.plot(epsilons, np.maximum(curve, 1e-30), color=colour, label=f"{name}, radius {radii[name]:.2g}")
    ax.plot([epsilon], [delta], "s", ms=9, mfc="none", color="C3", label="as published, for each")
    ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="exact delta")
    ax.set_ylim(1e-10, 1)
    ax.legend(fontsize=8, loc="upper right")
    words = (
        "Two columns, accuracy .1 with probability .9. At the radius that the lemmas allow, each mask reaches the"
        " claimed delta at a small part of the claimed epsilon."
    )
    ids = ("weight-mask-private", "mean-mask-private", "covariance-mask-private", "covariance-mask-constants")
    return _finished(figure, "masks", "Privacy curves of the masks against their published constants", words, ids)


def score_volumes(seed: int) -> Figure:
    """Area of the normal laws with at most a given score, for samples of three kinds."""
    n, rng = 2000, np.random.default_rng(seed)
    design, ranges = robust_design(n, 1.0, 1e-6), CountRanges.of(n)
    samples = {
        "normal": rng.normal(size=n),
        "normal, 5 % far out": np.append(rng.normal(size=n - n // 20), 1e6 * (1 + rng.random(n // 20))),
        "Laplace": rng.laplace(size=n),
    }
    figure, ax = axes()
    for colour, (name, records) in zip(("C0", "C1", "C2"), samples.items(), strict=True):
        volumes = arrangement(records, ranges, limit=design.limit).volumes
        passing = design.table.probability(design.level(volumes))
        label = f"{name}: passes with probability {passing:.2f}"
        ax.plot(np.where(volumes > 0, volumes, np.nan), color=colour, label=label)
    allowed = design.excess * math.exp(design.exponent * (design.reach - design.core) / 2)
    for place, name in ((design.core, "T0"), (design.reach, "T")):
        ax.axvline(place, color="0.6", lw=1, ls="--")
        ax.annotate(name, (place, 1e-4), fontsize=8)
    ax.set(yscale="log", xlabel="score t: records to be replaced", ylabel="volume of laws with score at most t")
    ax.legend(fontsize=8, loc="lower right")
    words = (
        f"{n} records, epsilon 1, delta 1e-6. A draw is private if the volume just beyond T is at most {allowed:.0f}"
        " times that within T0. It is made by a coin, the likelier the more records must be replaced before that fails."
        " The curves are exact: sums of areas of cells."
    )
    ids = ("robust-score", "robust-volumes", "robust-areas", "robust-draw", "robust-certificate")
    return _finished(figure, "volumes", "Volume against score, the quantity behind robustness to privacy", words, ids)


def audits(trials: Sequence[Any]) -> Figure:
    """Certified lower bounds of epsilon against the true values."""
    figure, ax = axes()
    top = 20.0
    for broken, colour, name in ((False, "C0", "sound"), (True, "C3", "broken")):
        chosen = [trial for trial in trials if trial.specimen.broken == broken]
        true = np.array([min(trial.specimen.true_epsilon, top) for trial in chosen])
        bound = np.array([min(trial.result.epsilon_lower, top) for trial in chosen])
        ax.scatter(true, bound, s=14, alpha=0.6, lw=0, color=colour, label=name)
    ax.plot([0, top], [0, top], color="0.5", lw=1)
    ax.set(xscale="symlog", yscale="symlog", xlabel="true epsilon at the claimed delta", ylabel="certified lower bound")
    ax.set_xticks([0, 1, 2, 5, 10, top], ["0", "1", "2", "5", "10", "≥ 20"])
    ax.set_yticks([0, 1, 2, 5, 10, top], ["0", "1", "2", "5", "10", "≥ 20"])
    ax.legend(fontsize=8, loc="upper left")
    words = "One point for each mechanism; no bound may lie above the line, save by the stated error probability."
    return _finished(figure, "audits", "Audit bounds against the truth", words, ())


def _one(r: float) -> float:
    return 1.0


def axes() -> tuple[Any, Any]:
    """A figure of the page's size with one pair of axes."""
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=SIZE, layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", lw=0.6)
    return figure, ax


def _finished(figure: Any, name: str, title: str, words: str, claims: tuple[str, ...]) -> Figure:
    return Figure(name, title, words, claims, to_svg(figure, name, title))


def to_svg(figure: Any, name: str, title: str) -> str:
    """A figure as an element of the page; the same text for the same numbers."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": SALT + name, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", dpi=200, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
