"""Targets that claim a whole curve: audited against it they are refuted by fewer runs than by a pair of it.

A mechanism that draws all of its noise from one Gaussian filter claims the curve of the filter, of which the (epsilon,
delta) of :func:`verification.targets.all_targets` is one point, far out where events are rare. Its faults claim what it
claims. Mechanisms without delta are not here: of them a pair says all that is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.methods.sketch.method import FAILURE_SHARE
from verification.specimens import Specimen
from verification.targets.box import FAILURE
from verification.targets.runs import DELTA, EPSILON

FEWER = 0.5  # of 24 audits of every fault with so many runs none missed it (benchmarks.fault_power --curves)
# Beginnings of names, by the probability that the filter sets aside; the longest that fits counts.
FILTERS = {
    "gaussian": 0.0,
    "sketch": 0.0,
    "sketch_box": FAILURE,
    "moments": 0.0,
    "duel": 0.0,
    "fit_gmm_sketch": 0.0,
    "fit_gmm_sketch_unbounded": FAILURE_SHARE * DELTA,
    "fit_gmm_sketch_interval_unpaid": FAILURE_SHARE * DELTA,
    "fit_gmm_plane": 0.0,
    "fit_gmm_plane_unbounded": FAILURE_SHARE * DELTA,
    "fit_gmm_plane_add_remove_unbounded": FAILURE_SHARE * DELTA,
    "fit_gmm_plane_box_unpaid": FAILURE_SHARE * DELTA,
    "sites_like": 0.0,
    "fit_gmm_like": 0.0,
    "ball_sum": 0.0,
    "fit_gmm_aggregate": 0.0,
    "aggregate": 0.0,
    "em_": 0.0,
    "lloyd_gaussian": 0.0,
    "fit_gmm_em": 0.0,
    "fit_gmm_k_means_gaussian": 0.0,
    "bernstein_sums_gaussian": 0.0,
    "fit_gmm_central_gaussian": 0.0,
    "column_scales": 0.0,
}


def with_curves(targets: Iterable[Specimen]) -> list[Specimen]:
    """Those of the targets that claim a curve, with it."""
    return [target for target in map(_with_curve, targets) if target.curve is not None]


def against_what_they_claim(targets: Iterable[Specimen]) -> list[Specimen]:
    """All targets, with their curves: a share ``FEWER`` of the runs for these and for faults, which tests catch so."""
    found = map(_with_curve, targets)
    return [one if one.curve is None and not one.broken else _with_fewer_runs(one) for one in found]


def _with_fewer_runs(target: Specimen) -> Specimen:
    return replace(target, n_samples=round(FEWER * target.n_samples))


def _with_curve(target: Specimen) -> Specimen:
    begun = [name for name in FILTERS if target.name.startswith(name)]
    if not begun or (target.epsilon, target.delta) != (EPSILON, DELTA):
        return target
    return replace(target, curve=_curve(FILTERS[max(begun, key=len)]))


@cache
def _curve(failure: float) -> Any:
    return GaussianFilter.of(EPSILON, DELTA, failure=failure).loss()
