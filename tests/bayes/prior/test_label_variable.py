"""Labels are moved by their own step or not at all, whatever the sampler and whatever became of the model."""

from __future__ import annotations

import gc

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_dims_and_data
from pymc.stats.log_density import compute_log_prior

import pm_dpgmm as dpg
from pm_dpgmm.bayes import MixtureLabels, label_density, mixture_prior, pymc_compat
from pm_dpgmm.bayes.arviz_compat import group_of, posterior_of, with_group
from pm_dpgmm.bayes.prior import label_step
from pm_dpgmm.bayes.prior.label_variable import licences_of
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.quick_sampling import FAST, QUICK

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning"),
    pytest.mark.filterwarnings("ignore:Discrete variables cannot be optimized:UserWarning"),
    pytest.mark.filterwarnings("ignore:`find_MAP` will:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Intermediate results:UserWarning"),
]

PAIR = Mixture([0.5, 0.5], [[0.0], [6.0]], [[[1.0]], [[1.0]]])
REFUSED = r"labels of 'x' must be moved by MixtureLabels.*pm.sample\(\) without a step.*form='mixture'.*label_density"


def labelled():
    with pm.Model() as model:
        vector = mixture_prior("x", PAIR, form="labelled")
        pm.Normal("y", vector, pm.HalfNormal("s") + 0.5, observed=[1.0])
    return model


@pytest.fixture(scope="module")
def model():
    return labelled()


def licences(model):
    return int(licences_of(model["x_label"]).get_value())


def logp(model):
    return float(model.compile_logp(**FAST)(model.initial_point()))


def refuses(model):
    with pytest.raises(pm.exceptions.SamplingError, match=REFUSED):
        logp(model)
    return True


@pytest.mark.thorough(quick=["metropolis"])
@pytest.mark.parametrize(
    "sampler",
    [
        lambda model: pm.sample(step=pm.CategoricalGibbsMetropolis([model["x_label"]]), **QUICK),
        lambda model: pm.sample(step=pm.Metropolis(compile_kwargs=FAST), **QUICK),
        lambda model: pm.sample(step=pm.Slice([model["x_label"]], compile_kwargs=FAST), **QUICK),
        lambda model: pm.sample_smc(20, chains=1, cores=1, progressbar=False, compile_kwargs=dict(FAST)),
        lambda model: pm.find_MAP(progressbar=False),
    ],
    ids=["gibbs", "metropolis", "slice", "smc", "map"],
)
def test_other_samplers_are_refused_with_the_way_out(model, sampler):
    with model, pytest.raises(pm.exceptions.SamplingError, match=REFUSED):
        sampler(model)
    gc.collect()
    assert licences(model) == 0


def test_sampling_refuses_when_pymc_does_not_offer_the_step(model, monkeypatch):
    """The planted fault: as on PyMC 6 when its list was rebound instead of changed."""
    methods = pymc_compat.step_methods()
    place = methods.index(MixtureLabels)
    methods.remove(MixtureLabels)
    try:
        with model, pytest.raises(pm.exceptions.SamplingError, match=REFUSED):
            pm.sample(**QUICK)
        labelled()
        assert MixtureLabels in methods  # a new prior offers it again
    finally:
        if MixtureLabels not in methods:
            methods.insert(place, MixtureLabels)
    monkeypatch.setattr(label_step, "offer_step", lambda step: None)
    monkeypatch.setattr(label_step, "step_methods", list)
    with pytest.raises(RuntimeError, match="PyMC's steps must accept MixtureLabels"):
        labelled()


def test_gradient_samplers_say_that_they_need_continuous_variables(model):
    with model, pytest.raises(ValueError, match=r"discrete variables|all variables to be differentiable"):
        pm.sample(nuts_sampler="nutpie", **QUICK)
    with model, pytest.raises(Exception, match="Discrete variables are not supported by VI: x_label"):
        pm.fit(5, progressbar=False)


@pytest.mark.thorough
def test_a_step_that_lives_licenses_the_density_and_one_that_is_gone_does_not(model):
    steps = [MixtureLabels([model["x_label"]], model=model, compile_kwargs=FAST) for _ in range(2)]
    assert licences(model) == 2 and np.isfinite(logp(model))
    steps.pop()
    gc.collect()
    assert licences(model) == 1
    steps.clear()
    gc.collect()
    assert licences(model) == 0 and refuses(model)
    with model:
        draws = posterior_of(pm.sample(**QUICK))
    gc.collect()
    assert set(draws.data_vars) == {"x", "x_label", "x_offset", "s"} and refuses(model)


@pytest.mark.thorough
def test_a_sampler_that_failed_licenses_no_other_one(model):
    """Its exception keeps its step alive: the next sampler, such as a Gibbs step for the label, was let pass."""

    def fails(trace, draw):
        raise ArithmeticError("mine")

    with model, pytest.raises(ArithmeticError, match="mine") as kept:
        pm.sample(callback=fails, **QUICK)
    assert licences(model) == 1 and refuses(model) and licences(model) == 0
    with model, pytest.raises(ArithmeticError, match="mine") as again:
        pm.sample(callback=fails, **QUICK)  # its own step is licensed while it runs, and later builds see that it ended
    with model, pytest.raises(pm.exceptions.SamplingError, match=REFUSED):
        pm.sample(step=pm.CategoricalGibbsMetropolis([model["x_label"]]), **QUICK)
    with model:
        pm.sample(**QUICK)
    del kept, again
    gc.collect()
    assert licences(model) == 0


def test_the_density_is_that_of_the_two_parts_inside_the_context_and_nothing_outside(model):
    point = {"x_label": np.array(0), "x_offset": np.zeros(1), "s_log__": np.array(0.0)}
    with label_density(model), label_density(model):
        names = [value.name for value in model.value_vars]
        terms = dict(
            zip([rv.name for rv in model.basic_RVs], model.compile_logp(sum=False, **FAST)(point), strict=True)
        )
    assert set(names) == set(point) and float(terms["x_label"]) == pytest.approx(np.log(0.5))
    with pytest.raises(KeyError), label_density(model):
        raise KeyError
    assert licences(model) == 0
    with pm.Model() as plain:
        pm.Normal("z")
    with label_density(plain):
        assert np.isfinite(logp(plain))


@pytest.mark.thorough
def test_copies_refuse_and_can_be_sampled(model):
    step = MixtureLabels([model["x_label"]], model=model, compile_kwargs=FAST)
    pickled = cloudpickle.loads(cloudpickle.dumps(model))
    assert refuses(pickled) and licences(model) == 1  # a copy made while a step lives has no step
    assert all(refuses(other) for other in (pm.do(model, {"s": 1.0}), freeze_dims_and_data(model), model.copy()))
    del step
    gc.collect()
    for other in (pm.do(model, {"s": 1.0}), freeze_dims_and_data(model), model.copy()):
        assert refuses(other)
        MixtureLabels([other["x_label"]], model=other, compile_kwargs=FAST)
    with pickled:
        assert "x_label" in posterior_of(pm.sample(**QUICK))


def test_labels_that_are_known_are_no_business_of_a_sampler(model):
    for known in (pm.observe(model, {model["x_label"]: 0}), pm.do(model, {"x_label": 0})):
        assert np.isfinite(logp(known))


def test_prior_and_posterior_predictive_draws_need_no_licence(model):
    with model:
        prior = pm.sample_prior_predictive(3, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    assert prior["prior"]["x_label"].shape == (1, 3)


@pytest.mark.thorough
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_worker_processes_have_the_licence_of_their_step(model, context):
    with model:
        draws = posterior_of(pm.sample(**(QUICK | {"cores": 2, "chains": 2, "mp_ctx": context})))
        assert draws["x_label"].shape == (2, 10)
        gc.collect()
        assert licences(model) == 0
        if context == "fork":
            steps = pm.CategoricalGibbsMetropolis([model["x_label"]])
            with pytest.raises(Exception, match=REFUSED):
                pm.sample(step=steps, **(QUICK | {"cores": 2, "chains": 2, "mp_ctx": context}))


def test_the_package_offers_the_context():
    assert dpg.bayes.label_density is label_density


@pytest.mark.thorough
def test_copies_of_a_model_are_open_inside_label_density_and_shut_afterwards(model):
    # PyMC evaluates priors in a copy that it makes itself
    copy = model.copy()
    drawn = pm.sample_prior_predictive(2, model=model, random_seed=1, compile_kwargs=dict(FAST))
    drawn = with_group(drawn, "posterior", group_of(drawn, "prior"))
    with label_density(model):
        assert logp(copy) == logp(model)
        found = group_of(compute_log_prior(drawn, model=model, progressbar=False), "log_prior")
    assert refuses(copy) and refuses(model)
    np.testing.assert_allclose(found["x_label"], np.log(0.5))
