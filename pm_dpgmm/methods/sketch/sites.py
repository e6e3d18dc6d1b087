"""Which people are behind a release: what each site promised, and a fingerprint of its numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from pm_dpgmm.methods.sketch.statistics import SketchStatistics

if TYPE_CHECKING:
    from pm_dpgmm.methods.released import Released


def sites_of(release: Released, evidence: SketchStatistics) -> list[dict[str, Any]]:
    """What each site promised, and a fingerprint of its numbers."""
    if "sites" in release.noise:
        return list(release.noise["sites"])
    digest = hashlib.sha256()
    for sketch in evidence.sketches:
        digest.update(np.ascontiguousarray(sketch.values).tobytes())
    guarantee = release.guarantee
    return [
        {
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "n_records": release.n_records,
            "fingerprint": digest.hexdigest()[:16],
        }
    ]
