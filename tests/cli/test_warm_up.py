"""What is compiled beforehand is found by other processes, for other releases."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pm_dpgmm.cli import warm_up as module
from pm_dpgmm.cli.main import main

FIRST = """
from pm_dpgmm.cli import warm_up
warm_up.MODELS = {name: build for name, build in warm_up.MODELS.items() if "histogram" in name}
print([name for name, _ in warm_up.warm_up()])
"""
SECOND = """
import numpy as np
import pymc as pm
import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters.anchor_kernel import centred_density, free_slopes, parameters
from pm_dpgmm.bayes.likelihoods.counts_kernel import counts
X = np.random.default_rng(7).normal(5.0, 2.0, size=(700, 1))
release = dpg.fit_gmm(X, 1, epsilon=2.0, bounds=(-5, 15), random_seed=3, progress=False)
with pm.Model() as model:
    release.observe(release.params("g", prior="weak"))
    model.logp_dlogp_function(ravel_inputs=True)
    pm.sample(draws=2, tune=2, chains=1, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False)
kernels = counts, centred_density, parameters, free_slopes
print([sum(one.stats.cache_misses.values()) for one in kernels], [sum(one.stats.cache_hits.values()) for one in kernels])
"""


def run(code, folder):
    caches = {"PYTENSOR_FLAGS": f"base_compiledir={folder / 'pytensor'}", "NUMBA_CACHE_DIR": str(folder / "numba")}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, env=os.environ | caches, capture_output=True, text=True, check=True).stdout


@pytest.mark.thorough
def test_kernels_are_found_on_disk_by_other_processes_for_other_releases(tmp_path):
    """The first process compiles a quarter of a minute."""
    assert run(FIRST, tmp_path) == "['release.observe, a histogram']\n"
    assert run(SECOND, tmp_path).splitlines()[-1] == "[0, 0, 0, 0] [1, 1, 1, 1]"


def test_all_that_the_readme_shows_is_warmed_up():
    words = " ".join(module.MODELS)
    assert all(word in words for word in ("release.prior", "release.params and gmm", "a histogram", "a sketch"))


def test_the_command_tells_each_model_as_it_is_done(monkeypatch, capsys):
    monkeypatch.setattr(module, "warm_up", lambda: iter([("first", 12.34), ("second", 0.5)]))
    assert main(["warm-up"]) == 0
    assert capsys.readouterr().out == " 12.3 s  first\n  0.5 s  second\n"
    assert main(["warm-up", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"seconds": {"first": 12.3, "second": 0.5}}
