"""What notebooks show of a release: price, warnings, the first components. Released and public numbers alone."""

from __future__ import annotations

import numpy as np

from pm_dpgmm.methods.released import Released
from pm_dpgmm.notebook_html import alarm, box, paragraph, table
from pm_dpgmm.privacy.guarantee import NOT_PRIVATE
from pm_dpgmm.release.summary_text import heaviest_first

MOST_COLUMNS = 6


def release_html(release: Released) -> str:
    """A short account of a release; :meth:`pm_dpgmm.Release.summary` is the long one."""
    g = release.guarantee
    columns = release.transformations
    labels = release.feature_names if columns is None else columns.labels(release.feature_names)
    shown = range(min(release.n_features, MOST_COLUMNS))
    deviations = np.sqrt(np.diagonal(release.covariances, axis1=1, axis2=2))
    rows = [
        [str(k), f"{release.weights[k]:.3f}", *(f"{release.means[k, j]:.4g} ({deviations[k, j]:.3g})" for j in shown)]
        for k in heaviest_first(release.weights)
    ]
    head = ["component", "weight", *(f"{labels[j]}: mean (sd)" for j in shown)]
    more = release.n_features - len(shown)
    records = "" if release.n_records is None else f"; {release.n_records:,} records (public)"
    price = f"epsilon = {g.epsilon:g}, delta = {g.delta:g}, {g.neighbouring} neighbours{records}"
    parts = [paragraph(price)]
    if not release.private:
        parts.insert(0, alarm(NOT_PRIVATE))
    parts += [alarm(f"Warning: {reason}") for reason in release.warnings]
    parts.append(table(rows, head=head))
    if more:
        parts.append(paragraph(f"and {more} more column{'' if more == 1 else 's'}"))
    if release.background is not None:
        parts.append(paragraph(f"background: {release.background_weight:.2g} of the records"))
    d = release.n_features
    size = f"{release.n_components} components, {d} column{'' if d == 1 else 's'}"
    return box(f"Release: {size}, method {release.method}", *parts)
