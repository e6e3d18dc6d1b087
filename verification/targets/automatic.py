"""Scales of one column, and whole fits of ``method="auto"`` without bounds that may end in either method.

Fits to the released numbers are post-processing: both methods' are replaced by a fixed answer.
"""

from __future__ import annotations

import functools
import math
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from pm_dpgmm import Unstable
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.mechanisms import box, column_scales
from pm_dpgmm.mechanisms.box import EXPONENTS
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.methods.automatic import method, verdict
from pm_dpgmm.methods.gaps import method as gaps
from pm_dpgmm.methods.outcome import AUTOMATIC, Problem
from pm_dpgmm.privacy.guarantee import Neighbouring
from verification.specimens import Specimen
from verification.targets.gaps import fixed_candidates, worst_gaps
from verification.targets.runs import DELTA, EPSILON, at_bits, nothing_to_say, rows_of
from verification.targets.sketch_fits import QUICK_ENDS, in_one_column

SCALES, METHOD = "mechanisms/column_scales.py", "methods/automatic/method.py"
REPORTED = slice(-1 - int(EXPONENTS[0]), 3 - int(EXPONENTS[0]))  # exponents -1 to 2
FEW = np.arange(-1, 8)  # exponents where the scales alone are released: 9 draws in the place of 201
SKETCHED = 2 * 16 + 3  # numbers of a sketch with its interval
CROWD = 600  # records of each of two crowds
SPACING, APART = 0.12, 1100.0
READY = 2.5  # standard deviations that stand out here, so that either method may answer


def one_release(
    records: FloatArray,
    n_samples: int,
    rng: np.random.Generator,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    noise: Any = None,
) -> FloatArray:
    """Gaps and distances by size, for the whole budget."""
    budget = GaussianFilter.of(EPSILON, DELTA)

    def run() -> FloatArray:
        found, _ = column_scales.noisy_column_scales(
            records, budget=budget, share=Fraction(1), neighbouring=neighbouring, rng=noise
        )
        return np.concatenate([found.gap_counts, found.pair_counts])

    with mock.patch.object(column_scales, "EXPONENTS", FEW), mock.patch.object(box, "EXPONENTS", FEW):
        return rows_of(run, n_samples)


def one_gap(records: FloatArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
    """Fault: noise as if a neighbour took away one gap and brought one."""
    with mock.patch.object(column_scales, "MOVED", {Neighbouring.REPLACE_ONE: (1, 1)}):
        return one_release(records, n_samples, rng, noise=rng)


def by_auto(
    records: FloatArray, n_samples: int, rng: np.random.Generator, *, read: Any = None, noise: Any = None
) -> Any:
    """``method="auto"``: which method answered, what told it, what it released; a refusal is a row of NaN.

    ``read``: a fault, what stands in the place of the verdict, given the records, too.
    """
    problem = Problem(len(records), 1, 1, EPSILON, DELTA, None, Neighbouring.REPLACE_ONE)
    given: dict[str, Any] = {"learner": None, "n_jobs": None, "rng": noise}
    given["progress"] = given["released"] = nothing_to_say
    settings, told = method.Automatic(), functools.partial(read, records) if read else verdict.verdict
    parts = method.Parts.of(problem)

    def run() -> FloatArray:
        try:
            outcome = settings.release(records[:, None], problem, **given)
        except Unstable as refusal:
            return np.append(float("'gaps'" in str(refusal)), np.full(8 + SKETCHED, np.nan))
        raw, answer = outcome.raw, outcome.noise[AUTOMATIC]["method"]
        scales = np.concatenate([raw["gap_size_counts"][REPORTED], raw["distance_counts"][REPORTED]])
        if answer == gaps.GapsMethod.name:
            own = np.concatenate([raw["counts"], raw["chosen"][1], [raw["gap_counts"].sum()]])
        else:
            own = in_one_column(raw)
        return np.concatenate([[float(answer == gaps.GapsMethod.name)], scales, own, np.zeros(SKETCHED - len(own))])

    with ExitStack() as stack:
        for place, name, quick in (
            *QUICK_ENDS,
            (gaps, "bin_edges", lambda groups: np.array([0.5, 1e6])),
            (gaps, "candidates_of", fixed_candidates),
            (gaps, "gap_caveats", nothing_to_say),
            (verdict, "STAND_OUT", READY),
            (method, "verdict", told),
            (method.Parts, "of", lambda problem: parts),  # made once
        ):
            stack.enter_context(mock.patch.object(place, name, quick))
        return rows_of(run, n_samples)


def range_of_records(records: FloatArray, scales: Any, n_records: int) -> verdict.Verdict:
    """Fault: how far records lie apart is their range."""
    return replace(verdict.verdict(scales, n_records), narrowest=1.0, farthest=float(np.ptp(records)))


def two_crowds() -> tuple[FloatArray, FloatArray]:
    """Two crowds of even spacing, so far apart that either method may answer; a record changes crowds."""
    crowd = np.arange(CROWD) * SPACING
    column = np.concatenate([crowd, APART + crowd])
    other = column.copy()
    other[CROWD // 2] = APART + SPACING / 2
    return column, other


def targets() -> list[Specimen]:
    """Scales under both relations, whole fits; a fault of each."""
    worst, crowds = worst_gaps(), two_crowds()
    fewer = worst[0], np.delete(worst[0], 1)
    far = crowds[0] * 0.01, np.append(crowds[0][:-1] * 0.01, 1e6)
    less = functools.partial(one_release, neighbouring=Neighbouring.ADD_REMOVE)
    ranged = functools.partial(by_auto, read=range_of_records)
    claim, inf = (EPSILON, DELTA), math.inf
    s, m = (f"fault in {module}" for module in (SCALES, METHOD))
    return [
        Specimen("column_scales", SCALES, one_release, *worst, *claim, 1.0, False, 2_000),
        at_bits("column_scales_bits", SCALES, one_release, *worst, *claim, 1.0, False, 2_000),
        Specimen("column_scales_add_remove", SCALES, less, *fewer, *claim, 1.0, False, 2_000),
        Specimen("fit_gmm_auto", METHOD, by_auto, *crowds, *claim, 1.0, False, 400),
        at_bits("fit_gmm_auto_bits", METHOD, by_auto, *crowds, *claim, 1.0, False, 400),
        Specimen("column_scales_one_gap", s, one_gap, *worst, *claim, inf, True, 6_000),
        Specimen("fit_gmm_auto_by_range", m, ranged, *far, *claim, inf, True, 200),
    ]
