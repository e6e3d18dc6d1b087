"""Real releases of methods whose evidence once took minutes to compile are sampled by ``pm.sample`` in seconds."""

from __future__ import annotations

import logging
import time

import numpy as np
import pymc as pm
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes.arviz_compat import posterior_of

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning"),
    pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning"),
]

LIMIT = 60.0  # seconds of processor time, most of it compilation
DRAWS = {"draws": 200, "tune": 150, "chains": 1, "cores": 1, "random_seed": 1, "progressbar": False}
CENTRES = np.array([[-2.0, 0.5], [2.0, -0.5]])


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("method, n_records", [("local", 20_000), ("em", 5_000)])
def test_a_release_is_sampled_through_observe(method, n_records, d):
    """Means of two components within 6 posterior deviations: a false alarm in 1e7 runs, and the seed is fixed."""
    rng = np.random.default_rng(d)
    labels = np.arange(n_records) % 5 // 3  # 0.6 and 0.4
    X = CENTRES[labels, :d] + 0.8 * rng.normal(size=(n_records, d))
    delta = None if method == "local" else 1e-6
    release = dpg.fit_gmm(X, 2, epsilon=1.0, delta=delta, bounds=(-6, 6), method=method, random_seed=1, progress=False)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    start = time.process_time()
    with pm.Model():
        release.observe(release.params("g", prior="weak"))
        draws = posterior_of(pm.sample(**DRAWS, init="adapt_diag", compute_convergence_checks=False))
    assert time.process_time() - start < LIMIT
    means = draws["g_means"].to_numpy()[0]
    order = np.argsort(means[:, :, 0].mean(axis=0))
    z = (means.mean(axis=0) - CENTRES[np.argsort(order), :d]) / means.std(axis=0)
    assert np.abs(z).max() < 6
    assert (means.std(axis=0) > 0.005).all()
