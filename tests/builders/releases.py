"""A small release of every method, with the likelihoods of its evidence."""

from __future__ import annotations

import numpy as np

import pm_dpgmm as dpg
from tests.builders import em_sums, local_responses, masked_releases

BOTH = ("exact", "gaussian")
LOCAL_KINDS = ("one-bit", "unary", "optimised", "direct", "subset", "added")
WISHART = ("exact", "wishart", "gaussian")


def sketch(d, neighbouring="replace-one"):
    records = masked_releases.a_mixture(d).sample(800, rng=np.random.default_rng(d))
    budget = {"epsilon": 1.0, "delta": 1e-6, "neighbouring": neighbouring}
    return dpg.fit_gmm(records, 2, bounds=(-9, 9), random_seed=1, progress=False, **budget)


def histogram(d, neighbouring="replace-one"):
    records = masked_releases.a_mixture(d).sample(800, rng=np.random.default_rng(d))
    budget = {"epsilon": 1.0, "neighbouring": neighbouring, "method": "histogram"}
    return dpg.fit_gmm(records, 2, bounds=(-9, 9), random_seed=1, progress=False, **budget)


def gaps(d, neighbouring="replace-one"):
    records = masked_releases.a_mixture(d).sample(4000, rng=np.random.default_rng(d))
    settings = dpg.GapsMethod(n_candidates=5, assumed_records=4000)
    budget = {"epsilon": 1.0, "delta": 1e-6, "neighbouring": neighbouring}
    return dpg.fit_gmm(records, 2, method=settings, random_seed=1, progress=False, **budget)


def average(d):
    records = masked_releases.a_mixture(d).sample(4000, rng=np.random.default_rng(d))
    settings = dpg.Aggregate(records_per_number=12.0)
    return dpg.fit_gmm(records, 2, epsilon=1.0, delta=1e-6, method=settings, random_seed=1, progress=False)


def cells(d, neighbouring="replace-one"):
    records = masked_releases.a_mixture(d).sample(800, rng=np.random.default_rng(d))
    settings = dpg.Central(n_cells=4, noise="laplace")
    budget = {"epsilon": 1.0, "neighbouring": neighbouring, "method": settings}
    return dpg.fit_gmm(records, 2, bounds=(-9, 9), random_seed=1, progress=False, **budget)


def sums(d, n_records_scale=0.0):
    given, truth = em_sums.statistics(d, n_records_scale=n_records_scale)
    return em_sums.release(given, em_sums.mixture(truth))


def responses(d, kind):
    if kind in ("one-bit", "optimised", "subset"):
        return local_responses.release(local_responses.reports(d, kind))
    return local_responses.release(local_responses.vectors(d) if kind == "added" else local_responses.cells(d, kind))


# method -> what makes a release, its arguments after the number of columns, and its likelihoods
CASES = {
    "sketch": (sketch, [("replace-one",), ("add-remove",)], BOTH),
    "histogram": (histogram, [("replace-one",), ("add-remove",)], BOTH),
    "populous": (lambda d: masked_releases.a_release("populous", d), [()], WISHART),
    "populous-single": (lambda d: masked_releases.a_release("populous-single", d), [()], WISHART),
    "em": (sums, [(), (5.0,)], BOTH),
    "central": (cells, [("replace-one",), ("add-remove",)], BOTH),
    "local": (responses, [(kind,) for kind in LOCAL_KINDS], ("auto",)),
    "aggregate": (average, [()], ("auto",)),
    "gaps": (gaps, [("replace-one",), ("add-remove",)], BOTH),  # of one column
}
