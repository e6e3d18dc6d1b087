"""Whole calls of ``fit_gmm`` with ``method="sketch"``: records in, everything that was released out.

The fits to the released numbers are replaced by a quick one that sees the same numbers: in one column by nothing, in
two by the moments of the parts, accepted or rejected by the sign of a released number, so that runs take both branches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import Unstable, fit_gmm
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms import box, moments as moments_module
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.methods.outcome import Problem
from pm_dpgmm.methods.sketch import choice as sketch_choice, estimate as sketch_post, rounds as sketch_rounds
from pm_dpgmm.methods.sketch.checks import finish as sketch_finish
from pm_dpgmm.methods.sketch.checks.misfit import Misfit
from pm_dpgmm.methods.sketch.estimate import REJECTED, SketchFit, less_floor, sketch_data
from pm_dpgmm.methods.sketch.method import FAILURE_SHARE, SketchMethod
from pm_dpgmm.methods.sketch.rounds import Schedule
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.start import leaves_of
from pm_dpgmm.methods.sketch.statistics import SketchStatistics
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from pm_dpgmm.privacy.noise import Rng
from verification.specimens import Specimen
from verification.targets.box import CROWD, OUTLIER
from verification.targets.runs import DELTA, EPSILON, at_bits, nothing_to_say, rows_of
from verification.targets.sketches import WHOLE, budget, little_noise

METHOD, ROUNDS, LOCATION = "methods/sketch/method.py", "methods/sketch/rounds.py", "methods/sketch/location.py"
REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
ORDER, BASE = 4, 2  # of the ladder; base frequencies of a frame
ONE = SimpleNamespace(
    mixture=Mixture([1.0], [[0.0]], [[[1.0]]]),
    found=SimpleNamespace(n_components=1),
    misfit=0.0,
    rejected=False,
    background=None,
    data=SimpleNamespace(covariance_type="full"),
)
_schedule = Schedule.of


def short_schedule(problem: Problem, allowed: GaussianFilter) -> Schedule:
    """The real shares, with one frame that is quick to draw noise for."""
    return replace(_schedule(problem, allowed), frames=(1, 1))


def quick_fit(
    evidence: SketchStatistics,
    n_components: int,
    *,
    first: Sequence[ScaledMixture] = (),
    search: bool = True,
    last: bool = True,
) -> Any:
    """What the last moments say; rejected by a released number. One column has no moments."""
    if len(evidence.unit) == 1:
        return ONE
    found = less_floor(leaves_of(evidence.parts[-1], evidence.n_records))
    bad = evidence.sketches[0].values[0, 0] < 0
    return SketchFit(sketch_data(evidence), found, REJECTED + 1 if bad else 0.0)


# What follows the last release, and sees released numbers alone: place, name, and what is there in an audit.
QUICK_ENDS: tuple[tuple[Any, str, Any], ...] = (
    (sketch_choice, "fit_evidence", quick_fit),
    (sketch_finish, "with_outliers", lambda fit, evidence: fit),
    (sketch_finish, "with_counted_groups", lambda fit, evidence, cells: fit),
    (sketch_finish, "groups_without_component", nothing_to_say),
    (sketch_finish, "placed", lambda fit, evidence, cells: (fit, [])),
    (sketch_finish, "beyond_the_interval", nothing_to_say),
    (sketch_finish, "better", lambda evidence, fit: (fit, Misfit.sized(fit.misfit, None, None))),
    (sketch_post, "tested", lambda data, found: (0.0, 0.0)),
    (sketch_finish, "sketch_caveats", nothing_to_say),
)


def in_one_column(raw: Any) -> FloatArray:
    """Counts that chose the interval, and the sketch."""
    bounded = "cells_0" in raw
    counts = raw["cells_0"][0, [3, 18]] if bounded else raw["bin_counts_0"][[0, -1]]
    number = sum(name.startswith("cells_") for name in raw) if bounded else len(raw["bin_counts_0"])
    return np.concatenate([counts, [number], raw["sketch_0"].ravel()])


def in_two_columns(raw: Any) -> FloatArray:
    """The same, moments of cells and of parts, two sketches or three; zeros where the branch taken has no third."""
    bounded = "cells_0" in raw
    if bounded:
        counts = raw["cells_0"][:, [3, 18]].ravel()
        number = sum(name.startswith("cells_") for name in raw)
    else:
        counts = np.concatenate([raw["bin_counts_0"][[0, -1]], raw["bin_counts_1"][[0, -1]]])
        number = len(raw["bin_counts_0"])
    third = raw.get("sketch_2", np.zeros_like(raw["sketch_1"]))
    sketches = [raw["sketch_0"].ravel(), raw["sketch_1"].ravel(), third.ravel()]
    return np.concatenate([counts, [number], *(raw[f"moments_{i}"].ravel() for i in range(2)), *sketches])


def published(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: Neighbouring = REPLACE,
    limit: Fraction = WHOLE,
    like: Any = None,
    noise: Rng = None,
) -> Any:
    """``fit_gmm`` with ``method="sketch"``; a refusal is a row of NaN; ``limit`` other than 1 is a fault.

    ``like``: a reference for one column, with a ladder of ORDER.
    """
    n_features = records.shape[1]
    bounds = (0.0, 1.0) if np.abs(records).max() <= 1 else None
    settings: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "bounds": bounds, "method": "sketch"}
    settings |= {"order": ORDER} if like is None else {"like": like}
    settings |= {"neighbouring": neighbouring.value, "progress": False, "random_seed": noise}
    allowed = budget(0.0 if bounds else FAILURE_SHARE * DELTA)
    given = replace(allowed, limit=allowed.limit * limit)
    claim = Guarantee(EPSILON, DELTA, neighbouring, "claim", PointProfile(EPSILON, DELTA))
    show = in_one_column if n_features == 1 else in_two_columns
    width = 3 + 2 * ORDER if n_features == 1 else 5 + 2 * 7 + 3 * (3**BASE - 1)

    def run() -> FloatArray:
        try:
            return show(fit_gmm(records, 1, **settings).raw)
        except Unstable:
            return np.full(width, np.nan)

    with ExitStack() as stack:
        for place, name, quick in (
            *QUICK_ENDS,
            (sketch_rounds, "fit_evidence", quick_fit),
            (Schedule, "of", short_schedule),
            (sketch_rounds, "N_BASE", BASE),
            (SketchMethod, "check", lambda self, problem: None),
            (SketchMethod, "budget", lambda self, problem: given),
            (SketchMethod, "guarantee", lambda self, problem: claim),
        ):
            stack.enter_context(mock.patch.object(place, name, quick))
        return rows_of(run, n_samples)


def unpaid(records: FloatArray, n_samples: int, rng: np.random.Generator, *, module: Any = box) -> Any:
    """Fault: what ``module`` releases has no noise."""
    with mock.patch.object(module, "discrete_gaussian", lambda shape, scale, rng: np.zeros(shape, dtype=np.int64)):
        return published(records, n_samples, rng, noise=rng)


def targets() -> list[Specimen]:
    """One and two columns, with bounds and without, under both relations; five faults."""
    near = np.linspace(0.01, 0.05, 20)[:, None]
    inside = near, near.copy()
    inside[1][0] = 0.99
    plane = np.tile(inside[0], 2), np.tile(inside[1], 2)
    crowd = np.linspace(0.0, 1.0, CROWD)[:, None]
    two_crowds = np.vstack([crowd - OUTLIER / 2, crowd + OUTLIER / 2])
    one_more = two_crowds.copy()
    one_more[0] += OUTLIER
    everywhere = two_crowds * 3, one_more * 3
    wide = np.tile(everywhere[0], 2), np.tile(everywhere[1], 2)
    less, wide_less = (plane[1], plane[1][1:]), (wide[1], wide[1][1:])
    claim, inf = (EPSILON, DELTA), math.inf
    one_less = partial(published, neighbouring=ADD_REMOVE)
    weak, start_unpaid = little_noise(published, Fraction(64)), partial(unpaid, module=moments_module)
    fault, fault_r, fault_l = (f"fault in {module}" for module in (METHOD, ROUNDS, LOCATION))
    return [
        Specimen("fit_gmm_sketch", METHOD, published, *inside, *claim, 1.0, False, 2_000),
        at_bits("fit_gmm_sketch_bits", METHOD, published, *inside, *claim, 1.0, False, 2_000),
        Specimen("fit_gmm_sketch_unbounded", LOCATION, published, *everywhere, *claim, 1.0, False, 2_000),
        Specimen("fit_gmm_sketch_add_remove", METHOD, one_less, inside[1], inside[1][1:], *claim, 1.0, False, 2_000),
        Specimen("fit_gmm_plane", ROUNDS, published, *plane, *claim, 1.0, False, 1_000),
        at_bits("fit_gmm_plane_bits", ROUNDS, published, *plane, *claim, 1.0, False, 1_000),
        Specimen("fit_gmm_plane_unbounded", LOCATION, published, *wide, *claim, 1.0, False, 1_000),
        Specimen("fit_gmm_plane_add_remove", ROUNDS, one_less, *less, *claim, 1.0, False, 1_000),
        Specimen("fit_gmm_plane_add_remove_unbounded", ROUNDS, one_less, *wide_less, *claim, 1.0, False, 1_000),
        Specimen("fit_gmm_sketch_little_noise", fault, weak, *inside, *claim, inf, True, 2_000),
        Specimen("fit_gmm_sketch_interval_unpaid", fault_l, unpaid, *inside, *claim, inf, True, 1_000),
        Specimen("fit_gmm_plane_little_noise", fault_r, weak, *plane, *claim, inf, True, 2_500),
        Specimen("fit_gmm_plane_box_unpaid", fault_l, unpaid, *wide, *claim, inf, True, 1_000),
        Specimen("fit_gmm_plane_start_unpaid", fault_r, start_unpaid, *plane, *claim, inf, True, 1_000),
    ]
