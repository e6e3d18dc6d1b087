"""A release as text: the summary, and the Markdown card to publish beside the file."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pm_dpgmm._arguments import printable
from pm_dpgmm.methods.fit_warnings import ComponentWarning, warning_for
from pm_dpgmm.methods.outcome import AUTOMATIC
from pm_dpgmm.privacy.guarantee import Neighbouring, smallest_epsilon
from pm_dpgmm.release.answer import answer_of

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released

PRECISE = 1e-6  # of an epsilon, of which four digits are printed
ROUND = ("noise_scale", "radius", "n_subsets")  # of the law of a sum of answers
CARD_DELTAS = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # rows of the privacy curve


def summary(release: Released) -> str:
    """What was fitted, what it cost and the released parameters, as text.

    Names and other texts may come from a file: control characters and the like are written as escapes.
    """
    names = [printable(name) for name in release.feature_names]
    who = {
        Neighbouring.REPLACE_ONE: "replacing any one record by any other",
        Neighbouring.ADD_REMOVE: "adding or removing any one record",
    }[release.guarantee.neighbouring]
    g = release.guarantee
    lines = [
        f"{release.n_components}-component Gaussian mixture in {release.n_features} dimensions"
        f" ({', '.join(names)}), method {release.method!r}",
        f"Protected: {who} changes the probability of any outcome by a factor of at most exp({g.epsilon:g})"
        + (f", except for a probability of {g.delta:g}" if g.delta else ""),
        f"Cost: epsilon = {g.epsilon:g}, delta = {g.delta:g}; mechanism: {printable(g.mechanism)}",
    ]
    if release.n_records is not None:
        lines.append(f"Records: {release.n_records:,} (public)")
    choice = release.noise.get(AUTOMATIC)
    if isinstance(choice, Mapping):
        lines.append(f"Chosen by method 'auto': {release.method!r}, since {printable(str(choice.get('reason')))}")
    if "covariance_type" in release.noise or "covariance_scores" in release.noise:
        lines.append(_covariances(release))
    if not release.private:
        lines.append(
            "NOT PRIVATE: its noise, or that of a release it was made from, came from a known seed."
            " For teaching and tests only."
        )
    for reason in release.warnings:
        of_components = issubclass(warning_for([reason]), ComponentWarning)
        lines.append(f"WARNING{', of components only' if of_components else ''}: {reason}.")
    if release.misfit is not None:
        lines.append(f"{release.misfit.summary()}.")
    if release.background is not None:
        lines.append(
            f"Background: {release.background_weight:.3f} of the records are in no component but in a broad Gaussian,"
            " which log_density, sample and prior include; weights are of the rest"
        )
    if release.resolution is not None:
        steps = ", ".join(
            f"{name} to {step:g}" for name, step in zip(names, release.resolution, strict=True) if step > 0
        )
        lines.append(f"Rounded columns: {steps}; the parameters are those before rounding")
    if "answer" in release.raw:
        lines.append(f"{answer_of(release).summary()}; the mixture is that of the sketch:")
    deviations = np.sqrt(np.diagonal(release.covariances, axis1=1, axis2=2))
    width = max(9, *map(len, names))
    lines.append("weight  " + "  ".join(f"{name:>{width}} {'(sd)':>9}" for name in names))
    for k in np.argsort(-release.weights):
        cells = zip(release.means[k], deviations[k], strict=True)
        lines.append(f"{release.weights[k]:6.3f}  " + "  ".join(f"{m:{width}.4g} {f'({s:.3g})':>9}" for m, s in cells))
    return "\n".join(lines)


def _covariances(release: Released) -> str:
    """What the covariances are restricted to, and whether the released numbers chose it."""
    told = f"Covariances: {printable(str(release.noise.get('covariance_type', 'full')))}"
    scores = release.noise.get("covariance_scores")
    if not isinstance(scores, Mapping):
        return told
    values = {printable(kind): value for kind, value in scores.items() if isinstance(value, (int, float))}
    least = min(values.values(), default=0.0)
    behind = ", ".join(f"{kind} {value - least:.1f}" for kind, value in values.items())
    return f"{told}, chosen by the released numbers (minus twice the log evidence, above the best: {behind})"


def card(release: Released) -> str:
    """The Markdown card: summary, guarantee, noise law. Texts that may come from a file stand in code blocks."""
    told = {name: value for name, value in release.noise.items() if not isinstance(value, (dict, list))}
    average = release.noise.get("average")
    rounds = average.get("rounds") if isinstance(average, Mapping) else None
    for i, law in enumerate(rounds if isinstance(rounds, (list, tuple)) else (), 1):
        if isinstance(law, Mapping):
            told |= {
                f"{name} of the sum of answers {i}": law.get(name) for name in ("noise_scale", "radius", "n_subsets")
            }
    noise = "\n".join(printable(f"- {name}: {value}") for name, value in told.items())
    deltas = functools.cache(release.guarantee.loss.delta)  # searches begin alike, and values of some curves cost
    curve = "\n".join(f"| {at:g} | {smallest_epsilon(deltas, at, rounding=PRECISE):.4g} |" for at in CARD_DELTAS)
    return (
        f"# Release of a private Gaussian mixture\n\n```\n{summary(release)}\n```\n\n"
        f"## Noise in the raw statistics\n\n```\n{noise}\n```\n\n"
        f"## Privacy curve\n\n| delta | epsilon |\n|---|---|\n{curve}\n\nMade with pm_dpgmm {release.version}.\n"
    )
