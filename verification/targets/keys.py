"""The stability histogram."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pm_dpgmm.mechanisms.stability_histogram import stability_histogram, stability_loss
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import Rng, truncated_discrete_laplace
from verification.specimens import Specimen
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of

MODULE = "mechanisms/stability_histogram.py"
FAULT = f"fault in {MODULE}"
FINE = 2.0**24  # grid steps to the unit of the fault that does not round


def stability(
    data: tuple[int, ...],
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    noise: Rng = None,
) -> Any:
    """First key of the histogram and the noisy counts of the keys 0 and 1; NaN where there is none."""

    def run() -> list[float]:
        kept, _ = stability_histogram(data, epsilon=EPSILON, delta=DELTA, neighbouring=neighbouring, rng=noise)
        first = next(iter(kept), math.nan)
        return [kept.get(0, math.nan), kept.get(1, math.nan), first]  # type: ignore[list-item]

    return rows_of(run, n_samples)


def low_threshold(data: tuple[int, ...], n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: noisy counts above 0 are kept, so a key of a single record often shows."""
    one, _ = stability_loss(epsilon=EPSILON, delta=DELTA, neighbouring=Neighbouring.REPLACE_ONE)
    counts = np.bincount(np.array(data), minlength=2)
    noisy = counts + truncated_discrete_laplace((n_samples, 2), scale=one.scale, bound=one.bound, rng=rng)
    return np.where((counts > 0) & (noisy > 0), noisy, np.nan)


def shares_unrounded(data: tuple[int, ...], n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: shares of the records instead of counts, with noise on a grid that the exact share is not on."""
    one, _ = stability_loss(epsilon=EPSILON, delta=DELTA, neighbouring=Neighbouring.REPLACE_ONE)
    counts = np.bincount(np.array(data), minlength=2)
    unit = FINE / len(data)
    noise = truncated_discrete_laplace((n_samples, 2), scale=one.scale * unit, bound=round((one.bound + 1) * unit))
    shares = counts / len(data) + noise / FINE
    return np.where((counts > 0) & (shares > (one.bound + 1) / len(data)), shares, np.nan)


def targets() -> list[Specimen]:
    """Both neighbouring relations at both levels, two faults."""
    keys = (0,) * 12 + (1,), (0,) * 13
    fewer = (0,) * 13, (0,) * 12
    claim, inf = (1.0, DELTA), math.inf
    one_less = functools.partial(stability, neighbouring=Neighbouring.ADD_REMOVE)
    return [
        Specimen("stability_histogram", MODULE, stability, *keys, *claim, 1.0, False, 8_000),
        at_bits("stability_histogram_bits", MODULE, stability, *keys, *claim, 1.0, False, 6_000),
        Specimen("stability_add_remove", MODULE, one_less, *fewer, *claim, 1.0, False, 6_000),
        at_bits("stability_add_remove_bits", MODULE, one_less, *fewer, *claim, 1.0, False, 5_000),
        Specimen("stability_low_threshold", FAULT, low_threshold, *keys, *claim, inf, True, 8_000),
        at_bits("stability_shares_bits", FAULT, shares_unrounded, *keys, *claim, inf, True, 5_000),
    ]
