"""Compile every kernel once and keep it on disk, so that the test workers, which start together, all find it.

    python -m tests.warm_kernels

Every mechanism and method has an audit target, so one run of one target of each module calls the kernels of fits.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pymc as pm

import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.learners.batched_em import BatchedEM
from pm_dpgmm.methods.populous.agreement import friend_table
from pm_dpgmm.methods.populous.average import average_core
from tests.builders import em_sums, releases, subset_fits
from verification.calibration import em as study
from verification.targets import all_targets


def warm() -> None:
    """Call what tests call, at the smallest size."""
    rng = np.random.default_rng(1)
    seen = set()
    for target in all_targets():
        if not target.broken and target.origin not in seen:
            seen.add(target.origin)
            target.mechanism(target.x, 1, rng)
    mixture = em_sums.mixture(em_sums.PLANE)
    rows = mixture.sample(200, rng=rng)
    BatchedEM(n_components=2)(rows)  # targets of "populous" audit what comes after the fits
    fits, rule = subset_fits.sampled(rng, 6, 2, 2, 300), subset_fits.rule_for(2, 2, 300)
    average_core(fits, friend_table(fits, rule), rule, top=6)
    rows[0, 0] = np.nan
    for given in (rows, rows[1:]):
        with pm.Model() as model:
            dpg.gmm("y", mixture_params("g", mixture, weight_conc=9, mean_scale=1, cov_scale=1), observed=given)
        slopes(model)
    for method, d in [
        ("sketch", 1),
        ("sketch", 2),
        ("histogram", 1),
        ("histogram", 2),
        ("em", 1),
        ("central", 1),
        ("local", 1),
    ]:
        make, arguments, likelihoods = releases.CASES[method]
        release = make(d, *arguments[0])
        for likelihood in likelihoods if d == 1 else likelihoods[-1:]:
            with pm.Model() as model:
                release.observe(release.params("g", prior="weak"), likelihood=likelihood)
            slopes(model)
    study.of_records(rows[1:, :1])(study.CENTRE[1][None])


def slopes(model: pm.Model) -> None:
    """The gradient of the model at its initial point."""
    model.compile_dlogp(mode="FAST_COMPILE")(model.initial_point())


if __name__ == "__main__":
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm()
    print(f"kernels compiled or found in {time.perf_counter() - start:.0f} s")
