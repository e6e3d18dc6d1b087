"""Starting values of nutpie are as ``initvals`` and ``set_initvals`` say. Without nutpie these tests are skipped."""

from __future__ import annotations

import importlib.util

import numpy as np
import pymc as pm
import pytest

from pm_dpgmm.bayes import initvals, set_initvals
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.mixture.mixture import Mixture

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("nutpie") is None, reason="nutpie is not installed: pip install nutpie"
    ),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning"),
]

PAIR = Mixture([0.4, 0.6], [[0.0], [9.0]], [[[1.0]], [[2.0]]])
passed_on = pytest.mark.skipif(
    pm.__version__.startswith("5."), reason="pm.sample of PyMC 5 passes no starting values to nutpie, and warns"
)
SAMPLE = {"draws": 10, "tune": 10, "chains": 2, "cores": 1, "progressbar": False, "nuts_sampler": "nutpie"}


def a_model():
    with pm.Model() as model:
        mixture_params("g", PAIR, weight_conc=100, mean_scale=0.2, cov_scale=0.15)
        pm.Normal("other", 0.0, 1.0)
    return model


class Seen(Exception):
    """In place of a compilation."""


@pytest.fixture
def asked(monkeypatch):
    """What ``pm.sample`` gives to nutpie."""
    import nutpie

    found = {}

    def compiled(model, **given):
        found.update(given)
        raise Seen

    monkeypatch.setattr(nutpie, "compile_pymc_model", compiled)
    return found


@passed_on
def test_pm_sample_passes_one_dictionary_and_the_variables_to_jitter(asked):
    model = a_model()
    rest = set_initvals(PAIR, model, jitter=0.05)
    assert [rv.name for rv in rest] == ["other"]
    start = initvals(PAIR, model, chains=1)[0]
    with model, pytest.raises(Seen):
        pm.sample(initvals=start, compile_kwargs={"jitter_rvs": rest}, **SAMPLE)
    assert asked["jitter_rvs"] == rest
    np.testing.assert_array_equal(asked["initial_points"]["g_offset"], start["g_offset"])


@passed_on
def test_pm_sample_refuses_a_list(asked):
    model = a_model()
    with model, pytest.raises(NotImplementedError, match="nutpie does not support per-chain `initvals`"):
        pm.sample(initvals=initvals(PAIR, model, chains=2), **SAMPLE)


@pytest.mark.thorough
def test_every_chain_starts_where_the_model_was_told_to():
    import nutpie

    model = a_model()
    rest = set_initvals(PAIR, model, jitter=0.05, random_seed=1)
    told = model.rvs_to_initial_values[model["g_offset"]]
    compiled = nutpie.compile_pymc_model(model, jitter_rvs=rest)
    starts = [compiled.initial_point_func(seed) for seed in (1, 2)]
    size = np.size(told)
    for start in starts:
        np.testing.assert_allclose(start[:size], told)
    assert starts[0][size] != starts[1][size]  # what is in rest is jittered
    jittered = nutpie.compile_pymc_model(model).initial_point_func(1)
    assert np.abs(jittered[:size] - told).max() > 0.05  # the same noise as PyMC's, unless it is told not to
