"""Everything that takes draws takes what PyMC and ArviZ of today return: the whole, its posterior group, a Dataset."""

from __future__ import annotations

import importlib.util
import inspect

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes.arviz_compat import group_names, group_of, posterior_of, with_group
from pm_dpgmm.bayes.prior import modes
from pm_dpgmm.release.fit_check import mixtures_of
from tests.builders.quick_sampling import FAST

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning"),
    pytest.mark.filterwarnings("ignore:`find_MAP` will:FutureWarning"),
    pytest.mark.filterwarnings("ignore:`find_MAP` does:FutureWarning"),
    pytest.mark.filterwarnings("ignore:More chains"),
]

DRAWS = 80
COMMON = {"progressbar": False, "random_seed": 1}
NUTS = {"tune": 20, "chains": 2, "cores": 1, "compute_convergence_checks": False, **COMMON}


def nutpie_itself():
    import nutpie

    compiled = nutpie.compile_pymc_model(pm.modelcontext(None))
    return nutpie.sample(compiled, draws=DRAWS, tune=20, chains=2, cores=1, seed=1, progress_bar=False)


SAMPLERS = {
    "nuts": lambda: pm.sample(DRAWS, compile_kwargs=FAST, **NUTS),
    "smc": lambda: pm.sample_smc(DRAWS, chains=2, cores=1, compute_convergence_checks=False, **COMMON),
    "advi": lambda: pm.fit(20, **COMMON).sample(DRAWS, random_seed=1),
    "nutpie": lambda: pm.sample(DRAWS, nuts_sampler="nutpie", **NUTS),
    "nutpie itself": nutpie_itself,
}
FORMS = {"whole": lambda idata: idata, "group": lambda idata: idata["posterior"], "dataset": posterior_of}


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1)) + 3 * rng.integers(0, 2, (2000, 1))
    return dpg.fit_gmm(X, 2, epsilon=4.0, bounds=(-4, 7), method="histogram", random_seed=1)


@pytest.fixture(scope="module")
def model(release):
    with pm.Model() as model:
        release.params("g")
        vector = release.prior("x", dims="feature", form="mixture")
        pm.Normal("y", vector, 1.0, observed=[1.0])
    return model


@pytest.fixture(scope="module", params=list(SAMPLERS))
def idata(request, model):
    if "nutpie" in request.param and importlib.util.find_spec("nutpie") is None:
        pytest.skip("nutpie is not installed")
    with model:
        return SAMPLERS[request.param]()


def n_labels(release):
    """Its background is a label of a mixture prior."""
    return release.n_components + (release.background is not None)


def test_every_function_that_takes_draws_reads_every_form_of_them(release, model, idata, monkeypatch):
    monkeypatch.setattr(modes, "POINTS", 8)  # each evaluation is dear in the mode of PyTensor that compiles fast
    rows = [[0.0], [3.0], [np.nan]]
    expected = posterior_of(idata)
    reference = dpg.label_probs(dpg.relabel(expected, to=release), rows)
    for form, of in FORMS.items():
        draws = of(idata)
        again = dpg.relabel(draws, to=release)
        assert type(again) is type(draws), form
        np.testing.assert_array_equal(dpg.label_probs(again, rows), reference)
        assert posterior_of(again)["g_means"].shape == expected["g_means"].shape
        if form == "whole":
            assert group_names(again) == group_names(idata)
        check = dpg.check_modes(draws, release, name="x", random_seed=1)
        assert check.name == "x" and check.occupancy.shape == (1, n_labels(release))
        with_model = dpg.check_modes(draws, release, name="x", model=model, random_seed=1, compile_kwargs=FAST)
        assert with_model.source == "model" and with_model.occupancy.shape == check.occupancy.shape
        assert len(mixtures_of(draws, name=None, n_draws=7)) == 7
        fit = release.check_fit(draws, n_draws=7, random_seed=1)
        assert fit.n_draws == 7 and 0 < fit.p_value <= 1
        values = posterior_of(draws)["x"]
        dpg.plot_prior_posterior({form: values})
        plt.close("all")


def test_a_release_stands_beside_the_draws(release, idata):
    data = group_of(release.to_inferencedata(), "constant_data")
    both = with_group(idata, "release", data)
    assert set(group_names(both)) == {*group_names(idata), "release"} and type(both) is type(idata)
    np.testing.assert_array_equal(both["release"]["means"], release.means)


def readers(release):
    return [
        lambda draws: dpg.relabel(draws, to=release),
        lambda draws: dpg.label_probs(draws, [[0.0]]),
        lambda draws: release.check_fit(draws, random_seed=1),
        lambda draws: dpg.check_modes(draws, release, name="x", random_seed=1),
    ]


def test_the_mode_is_no_set_of_draws(release, model):
    """PyMC 6 returns a dictionary unless asked for inference data."""
    with model:
        point = pm.find_MAP(progressbar=False)
    for call in readers(release):
        with pytest.raises(TypeError, match=r"idata must be inference data of ArviZ .* \(dict\)"):
            call(point)


@pytest.mark.skipif(
    "return_inferencedata" not in inspect.signature(pm.find_MAP).parameters, reason="PyMC 5 has only the dictionary"
)
def test_a_mode_in_inference_data_is_one_draw(release, model):
    with model:
        idata = pm.find_MAP(progressbar=False, return_inferencedata=True)
    relabel, label_probs, check_fit, check_modes = readers(release)
    assert posterior_of(relabel(idata))["g_means"].shape == (1, 1, 2, 1)
    assert label_probs(idata).shape == (1, 2) and check_fit(idata).n_draws == 1
    with pytest.raises(ValueError, match="draws"):
        check_modes(idata)


@pytest.mark.filterwarnings("ignore:`return_inferencedata=False` is deprecated:FutureWarning")
def test_a_trace_of_pymc_is_refused(release, model):
    with model:
        traces = [
            pm.sample(5, compile_kwargs=FAST, return_inferencedata=False, **NUTS),
            pm.fit(20, **COMMON).sample(5, random_seed=1, return_inferencedata=False),
        ]
    for trace in traces:
        for call in readers(release):
            with pytest.raises(TypeError, match=r"idata must be inference data of ArviZ .* \(MultiTrace\)"):
                call(trace)


def test_draws_of_a_labelled_prior_with_everything_that_pymc_puts_beside_them(release):
    """Labels are read from what the step of the package and NUTS return together."""
    with pm.Model() as labelled:
        release.params("g")
        vector = release.prior("x", dims="feature", form="labelled")
        pm.Normal("y", vector, 1.0, observed=[1.0])
        idata = pm.sample(DRAWS, compile_kwargs=FAST, **NUTS)
        idata = pm.compute_log_likelihood(idata, progressbar=False)
        idata = pm.sample_posterior_predictive(idata, extend_inferencedata=True, compile_kwargs=dict(FAST), **COMMON)
    assert {"posterior", "log_likelihood", "posterior_predictive", "observed_data"} <= set(group_names(idata))
    for form, of in FORMS.items():
        draws = of(idata)
        for model in (None, labelled):
            check = dpg.check_modes(draws, release, name="x", model=model, random_seed=1, compile_kwargs=FAST)
            assert check.occupancy.shape == (1, n_labels(release)), form
        again = dpg.relabel(draws, to=release)
        assert posterior_of(again)["x_label"].dtype.kind == "i" and type(again) is type(draws)
    assert group_names(dpg.relabel(idata, to=release)) == group_names(idata)
