"""A release as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pm_dpgmm._arguments import FloatArray, printable
from pm_dpgmm.methods.fit_warnings import ComponentWarning, warning_for
from pm_dpgmm.methods.outcome import AUTOMATIC
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.release.answer import answer_of

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released
    from pm_dpgmm.records.transformed_columns import TransformedColumns


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
        lines.append(f"{replace(release.misfit, private=True).summary()}.")  # the mark stands above
    if release.background is not None:
        lines.append(
            f"Background: {release.background_weight:.2g} of the density is one broad Gaussian, for records in no"
            " component; log_density, sample and prior include it, weights are of the rest"
        )
    if release.resolution is not None:
        steps = ", ".join(
            f"{name} to {step:g}" for name, step in zip(names, release.resolution, strict=True) if step > 0
        )
        lines.append(f"Rounded columns: {steps}; the parameters are those before rounding")
    if release.transformations is not None:
        told = printable(release.transformations.told(names))
        lines.append(
            f"Transformed columns: {told}; means and deviations below are in the transformed unit, log_density, sample,"
            " plot and prior in that of the records"
        )
    if "answer" in release.raw:
        lines.append(f"{answer_of(release).told}; the mixture is that of the sketch:")
    deviations = np.sqrt(np.diagonal(release.covariances, axis1=1, axis2=2))
    width = max(9, *map(len, names))
    lines.append("component  weight  " + "  ".join(f"{name:>{width}} {'(sd)':>9}" for name in names))
    for k in heaviest_first(release.weights):
        cells = zip(release.means[k], deviations[k], strict=True)
        lines.append(
            f"{k:9}  {release.weights[k]:6.3f}  " + "  ".join(f"{m:{width}.4g} {f'({s:.3g})':>9}" for m, s in cells)
        )
    if release.transformations is not None:
        lines.extend(_medians(release, release.transformations, names, width))
    return "\n".join(lines)


def _medians(release: Released, columns: TransformedColumns, names: list[str], width: int) -> list[str]:
    """Table of the medians of transformed columns, which an increasing map keeps: of every component."""
    places = [j for j, one in enumerate(columns.columns) if one is not None]
    medians = columns.to_units(release.means)[:, places]
    lines = [
        "component  weight  "
        + "  ".join(f"{names[j]:>{width}}" for j in places)
        + "  (medians, in the unit of the records)"
    ]
    for k in heaviest_first(release.weights):
        lines.append(f"{k:9}  {release.weights[k]:6.3f}  " + "  ".join(f"{m:{width}.4g}" for m in medians[k]))
    return lines


def heaviest_first(weights: FloatArray) -> list[int]:
    """Numbers of the components, as in all arrays, by falling weight and then by number."""
    order: list[int] = np.argsort(-weights, kind="stable").tolist()
    return order


def _covariances(release: Released) -> str:
    """What the covariances are restricted to, and whether the released numbers chose it."""
    told = f"Covariances: {printable(str(release.noise.get('covariance_type', 'full')))}"
    if release.statistic is Statistic.CLUSTER_SUMS and release.n_features > 1:
        told += (
            ", of one width for all columns in half-widths of their bounds: too wide in a column that fills less of its"
            " bounds than others do, and nothing here tells by how much"
        )
    scores = release.noise.get("covariance_scores")
    if not isinstance(scores, Mapping):
        return told
    values = {printable(kind): value for kind, value in scores.items() if isinstance(value, (int, float))}
    least = min(values.values(), default=0.0)
    behind = ", ".join(f"{kind} {value - least:.1f}" for kind, value in values.items())
    return f"{told}, chosen by the released numbers (minus twice the log evidence, above the best: {behind})"
