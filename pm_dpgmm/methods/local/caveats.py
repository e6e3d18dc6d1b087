"""What a reader of a fit to local responses should be warned of. Post-processing: released and public numbers alone."""

from __future__ import annotations

import math

import numpy as np

from pm_dpgmm.methods.about import at_least_about
from pm_dpgmm.methods.components_in_words import listed
from pm_dpgmm.methods.local.evidence import Evidence, NameEvidence, SideEvidence
from pm_dpgmm.methods.local.fit import Found

TOO_MUCH = 0.1  # nats per record, expected, from which on a fit is told to say little
SURE = 6.0  # deviations of a chi-square: right mixtures go beyond them once in a million fits or so
BEYOND = 1.1  # half-widths of the place from its middle: a mean lies outside
ALWAYS_FINE = 1.0  # nats from which on no number of records is named


def local_caveats(evidence: Evidence, found: Found, loss: float, n_responses: int) -> list[str]:
    """Reasons not to rely on the fit, as texts; none for most."""
    caveats = []
    if not loss <= TOO_MUCH:  # NaN too
        enough = ""
        if loss < ALWAYS_FINE:
            more = at_least_about(n_responses * loss / TOO_MUCH)
            enough = f"; from about {more:,} on it would be {TOO_MUCH:g}"
        size = f"about {loss:.2g}" if math.isfinite(loss) else "an unknown number of"
        caveats.append(
            f"{n_responses:,} responses are too few: the fit is expected to lose {size} nats per record{enough}"
        )
    excess = misfit(evidence, found)
    if excess > SURE:
        caveats.append(
            f"the responses do not fit a mixture of {found.chart.n_components} components in this place and scale:"
            f" their chi-square is {excess:.0f} deviations too large"
        )
    away = (np.abs(found.mixture.means) > BEYOND).any(axis=1)
    if away.any():
        caveats.append(
            f"{listed(away)} came out beyond the bounds, or the place and scale given: what lies that far may have been"
            " folded from the other side, so look in a wider place"
        )
    return caveats


def misfit(evidence: Evidence, found: Found) -> float:
    """Chi-square of the counts beside what the fit expects, in its own deviations; 0 where there is none."""
    shares, free = found.shares, len(found.vector) - 1
    if isinstance(evidence, SideEvidence):
        q, asked = evidence.base + evidence.gain * shares, evidence.asked
        terms = (evidence.ones - asked * q)[asked > 0] ** 2 / (asked * q * (1 - q))[asked > 0]
        degrees = len(terms) - free
    elif isinstance(evidence, NameEvidence) and evidence.members is None:
        expected = evidence.counts.sum() * (evidence.base + evidence.gain * shares)
        terms = (evidence.counts - expected) ** 2 / expected
        degrees = len(terms) - 1 - free
    else:
        return 0.0
    return float((np.sum(terms) - degrees) / math.sqrt(2 * degrees)) if degrees > 0 else 0.0
