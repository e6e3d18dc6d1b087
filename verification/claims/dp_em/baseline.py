"""DPLloyd, the k-means that DP-EM is compared with: Su, Cao, Li, Bertino, Jin (2016), as used by Park et al. (2017)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from verification.claims.claim import Effort, Finding, Kind, Verdict, claim
from verification.claims.search import over

FAMILY = "dp-em"


@claim(
    id="lloyd-noise",
    family=FAMILY,
    source="DPLloyd (Su et al. 2016), the baseline of Park, Foulds, Chaudhuri, Welling (2017), Figure 3",
    statement="J rounds of noisy counts and sums of records in [-1, 1]^d with Laplace((d + 1) J/e) noise are e-DP when "
    "a record comes or goes",
    kind=Kind.EXHAUSTIVE,
    verdict=Verdict.HOLDS,
    printed={"replaced": False},
    contrast={"replaced": True},
    otherwise="also when a record is replaced",
    constants="attained by a corner of the cube; a replaced record costs 2 e, so the noise must be doubled beside "
    "methods that are private under replace-one",
)
def lloyd_noise(effort: Effort, *, replaced: bool) -> Finding:
    """Loss of one round over e/J: the L1 change of counts and sums over d + 1, which Laplace noise attains."""

    def released(cluster: int, x: np.ndarray) -> np.ndarray:
        found = np.zeros((2, 1 + len(x)))
        found[cluster] = 1, *x
        return found

    def cases() -> Iterator[tuple[float, object]]:
        for d in (1, 2, effort.of(2, 4)):
            corners = [np.array(x) for x in itertools.product((-1.0, 0.5, 1.0), repeat=d)]
            others = list(itertools.product((0, 1), corners)) if replaced else [None]
            for (cluster, x), other in itertools.product(itertools.product((0, 1), corners), others):
                gone = released(*other) if other is not None else 0.0
                moved = float(np.abs(released(cluster, x) - gone).sum())
                yield moved / (d + 1), {"d": d, "x": x, "in": cluster, "before": other}

    return over(cases())
