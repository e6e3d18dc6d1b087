"""Method "aggregate" from records to release, around a sketch that is made once, and faults of an average of fits.

One record turns the fit of its subset from one end of a diameter of the ball to the other, or makes it fail.
"""

from __future__ import annotations

import itertools
import math
import warnings
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

import pm_dpgmm as dpg
from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.learners.subsets import FitsTogether
from pm_dpgmm.methods.aggregate import method
from pm_dpgmm.methods.aggregate.chart import MixtureChart
from pm_dpgmm.methods.aggregate.design import Design
from pm_dpgmm.methods.aggregate.method import Aggregate
from pm_dpgmm.methods.outcome import Outcome, Problem
from pm_dpgmm.methods.sketch.method import SketchMethod
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring
from verification.specimens import Specimen
from verification.targets.ball_sums import FAR, summed
from verification.targets.runs import DELTA, EPSILON, at_bits, rows_of

METHOD = "methods/aggregate/method.py"
FAULT = f"fault in {METHOD}"
N_SUBSETS, SIZE = 12, 20
ORDINARY = 5.0  # the records of a subset are as simulated up to here
TWO = Mixture([0.5, 0.5], [[-2.0], [2.0]], [[[1.0]], [[1.0]]])  # a released mixture
RADIUS = 8.0  # of a ball about it


class Turned(FitsTogether):
    """Fits the mean of a subset; a record that is not ordinary puts it far away, or makes it fail if it is huge."""

    def fit_all(self, records: FloatArray, edges: Any, n_components: int, **named: Any) -> Fits:
        parts = [records[low:high, 0] for low, high in itertools.pairwise(edges)]
        odd = np.array([part[np.argmax(np.abs(part))] for part in parts])
        means = np.where(np.abs(odd) > ORDINARY, 100 * np.sign(odd), [part.mean() for part in parts])
        t = len(means)
        return Fits(np.ones((t, 1)), means[:, None, None], np.ones((t, 1, 1, 1)), np.abs(odd) < 1e3)

    def __call__(self, subset: FloatArray) -> Mixture:
        raise NotImplementedError


@cache
def rest() -> FloatArray:
    """The records that neighbours have in common."""
    return np.random.default_rng(1).standard_normal((N_SUBSETS * SIZE - 1, 1)).clip(-3, 3)


@cache
def centre() -> Outcome:
    """A sketch of other records, without bounds, and its design for the learner: public here."""
    others = np.random.default_rng(2).standard_normal((N_SUBSETS * SIZE, 1)).clip(-3, 3)
    problem = Problem(len(others), 1, 1, 8.0, DELTA, None, Neighbouring.REPLACE_ONE)
    return SketchMethod().release(
        others,
        problem,
        learner=None,
        n_jobs=None,
        progress=lambda done, total: None,
        rng=np.random.default_rng(3),
    )


@cache
def design() -> Design:
    """That of :func:`centre`, made once."""
    learner = Turned()

    def fit(rows: FloatArray, edges: Any) -> Fits:
        return learner.fit_all(rows, edges, 1)

    found = method.best_design(centre(), fit, mu_squared=0.1, records_per_number=SIZE / 2, bounds=None, seed=1)
    assert found is not None
    return found


def by_fit_gmm(records: FloatArray, n_samples: int, rng: np.random.Generator, *, neighbouring: str) -> Any:
    """Sums, numbers inside and answers of ``fit_gmm(method="aggregate")``; the sketch spends what it would spend."""
    budget: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "neighbouring": neighbouring, "progress": False}
    released, designed = centre(), design()
    settings: Any = Aggregate(centre_share=0.001)  # so that hardly anything is lost to a sketch that is not made

    def run() -> FloatArray:
        release = dpg.fit_gmm(records, 1, method=settings, learner=Turned(), **budget)
        (law,) = release.noise["average"]["rounds"]
        total = release.raw["average_total_0"]
        return np.concatenate([total, [law["n_inside"]], release.means.ravel(), release.covariances.ravel()])

    with (
        mock.patch.object(SketchMethod, "release_from", return_value=released),
        mock.patch.object(method, "best_design", return_value=designed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        return rows_of(run, n_samples)


def with_last(value: float) -> FloatArray:
    """The common records and one more."""
    return np.append(rest(), [[value]], axis=0)


def fits_at(records: FloatArray) -> Fits:
    """A fit for each record (t, 2), the means of its two components; none for numbers that are not finite."""
    t, given = len(records), np.isfinite(records).all(axis=1)
    return Fits(np.full((t, 2), 0.5), records[:, :, None], np.ones((t, 2, 1, 1)), given)


def matched(records: FloatArray, n_samples: int, rng: np.random.Generator, *, to_average: bool = False) -> Any:
    """Vectors of fits about a public centre, summed; ``to_average`` is a fault: matched to the average of all fits."""
    fits = fits_at(records)
    rows = MixtureChart.about(TWO).vectors(fits)
    if to_average:  # offsets from the public centre all the same
        middle = fits.means.mean(axis=0)
        order = np.argsort(fits.means[:, :, 0], axis=1)
        if middle[0, 0] > middle[1, 0]:
            order = order[:, ::-1]
        means = np.take_along_axis(fits.means, order[:, :, None], axis=1)
        rows = MixtureChart.about(TWO).coordinates.of(fits.weights, means, np.ones((len(records), 2, 1, 1)))
    return summed(rows, n_samples, rng, noise=rng if to_average else None, radius_of=lambda _: RADIUS)


def about_their_mean(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: the centre is made of the fits to the subsets, and put back as it is."""
    rows = MixtureChart.about(TWO).vectors(fits_at(records))
    middle = rows.mean(axis=0)
    found = summed(rows - middle, n_samples, rng, noise=rng, radius_of=lambda _: RADIUS)
    return found + np.append(len(rows) * middle, 0.0)


def counted_after_drops(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: an average over the fits that there are, its noise made for as many as there are."""
    rows = MixtureChart.about(TWO).vectors(fits_at(records))
    valid = rows[np.isfinite(rows).all(axis=1)]
    return summed(valid, n_samples, rng, noise=rng, radius_of=lambda _: RADIUS) / len(valid)


def dropped(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: fits that failed are left out, and what the waves explain is taken off from the wrong ones."""
    rows = MixtureChart.about(TWO).vectors(fits_at(records))
    explained = np.nan_to_num(rows)
    valid = rows[np.isfinite(rows).all(axis=1)]
    return summed(valid - explained[: len(valid)], n_samples, rng, noise=rng, radius_of=lambda _: RADIUS)


def shared_generator(records: FloatArray, n_samples: int, rng: np.random.Generator) -> Any:
    """Fault: learners draw their starts from one generator, and one that tries again moves those of all others."""
    starts = np.random.default_rng(4)
    rows = []
    for record in records:
        if record[0] > ORDINARY:
            starts.standard_normal()
        rows.append([starts.standard_normal(2)[1]])
    return summed(np.array(rows), n_samples, rng, noise=rng)


def targets() -> list[Specimen]:
    """One subset's fit turns round, fails, or ties with a matching; whole fits under both relations; five faults."""
    tied = np.tile([[-2.0, 2.0]], (7, 1))
    tie = np.vstack([tied, [[-3.0, 3.0]]]), np.vstack([tied, [[40.0, -40.0]]])
    turned = np.vstack([tied, [[-2.0 + RADIUS, 2.0]]]), np.vstack([tied, [[-2.0 - FAR, 2.0]]])
    alone = np.array([[-1.0, 2.0], [-1.0, 2.0]]), np.array([[-1.0, 2.0], [np.nan, 2.0]])
    spaced = np.column_stack([-2.0 - 2.0 * np.arange(40), np.full(40, 2.0)])
    gone = spaced.copy()
    gone[0, 0] = np.nan
    many = np.zeros((400, 1))
    again = many.copy()
    again[0] = 2 * ORDINARY
    sides = with_last(10.0), with_last(-10.0)
    failing = with_last(10.0), with_last(1e4)
    added = with_last(10.0), rest()
    claim, inf = (EPSILON, DELTA), math.inf
    replaced, unequal = (partial(by_fit_gmm, neighbouring=name) for name in ("replace-one", "add-remove"))
    averaged = partial(matched, to_average=True)
    return [
        Specimen("fit_gmm_aggregate", METHOD, replaced, *sides, *claim, 1.0, False, 800),
        at_bits("fit_gmm_aggregate_bits", METHOD, replaced, *failing, *claim, 1.0, False, 800),
        Specimen("fit_gmm_aggregate_added", METHOD, unequal, *added, *claim, 1.0, False, 800),
        Specimen("aggregate_matched_fits", METHOD, matched, *tie, *claim, 1.0, False, 8_000),
        Specimen("aggregate_far_fit", METHOD, matched, *turned, *claim, 1.0, False, 8_000),
        Specimen("aggregate_matched_to_average", FAULT, averaged, *tie, *claim, inf, True, 8_000),
        Specimen("aggregate_about_their_mean", FAULT, about_their_mean, *turned, *claim, inf, True, 2_000),
        Specimen("aggregate_counted_after_drops", FAULT, counted_after_drops, *alone, *claim, inf, True, 4_000),
        Specimen("aggregate_dropped", FAULT, dropped, spaced, gone, *claim, inf, True, 4_000),
        Specimen("aggregate_shared_generator", FAULT, shared_generator, many, again, *claim, inf, True, 8_000),
    ]
