"""Copies of a model keep what this package knows of it, and its laws: prior draws, interventions, frozen models."""

from __future__ import annotations

import copy
import gc

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.model.transform import optimization
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.bayes import MixtureLabels, label_density, mixture_prior
from pm_dpgmm.bayes.arviz_compat import posterior_of
from pm_dpgmm.bayes.marks import centred_variables
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.bayes.prior.priors import prior_variables
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.quick_sampling import FAST, QUICK

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

PAIR = Mixture([0.7, 0.3], [[0.0, 0.0], [7.0, 3.0]], [[[1.0, 0.3], [0.3, 1.0]], [[0.8, -0.2], [-0.2, 1.2]]])
PARTS = ("name", "latent", "offset", "label")
COPIES = {
    "do": lambda model: pm.do(model, {"scale": 1.5}),
    "observe": lambda model: pm.observe(model, {"scale": 1.5}),
    "frozen data": optimization.freeze_dims_and_data,
    "copy": lambda model: model.copy(),
    "deepcopy": copy.deepcopy,
    "pickled": lambda model: cloudpickle.loads(cloudpickle.dumps(model)),
    "twice": lambda model: optimization.freeze_dims_and_data(pm.do(model, {"scale": 1.5})),
}
if hasattr(optimization, "freeze_model"):  # from PyMC 6
    COPIES["frozen"] = optimization.freeze_model


@pytest.fixture(scope="module")
def release():
    records = PAIR.sample(4000, rng=np.random.default_rng(1))
    return dpg.fit_gmm(records, 2, epsilon=2.0, delta=1e-6, bounds=(-8, 14), random_seed=1, progress=False)


def vectors(form):
    with pm.Model(coords={"patient": range(3)}) as model:
        x = mixture_prior("x", PAIR, dims=("patient", "feature"), form=form)
        data = pm.Data("data", np.ones((3, 2)), dims=("patient", "feature"))
        pm.Normal("y", x + data, pm.HalfNormal("scale") + 0.5, observed=np.ones((3, 2)))
    return model


# ------------------------------------------------------------------ memory
@pytest.mark.thorough(quick=["copy"])
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_knows_the_releases_of_its_model(release, way):
    if way == "frozen":
        pytest.skip("nothing can be added to a frozen model")
    for first in ("anchored", "observed"):
        with pm.Model() as model:
            pm.HalfNormal("scale")
            th = release.params("g", prior="anchored" if first == "anchored" else "weak")
            if first == "observed":
                release.observe(th)
        with COPIES[way](model) as other:
            mine = mixture_params("h", PAIR, prior="weak")
            with pytest.raises(ValueError, match="must be used once in a model: it is"):
                release.observe(mine, name="again")
        assert centred_variables(other) == ("g_offset", "h_offset")


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("form", ["mixture", "labelled"])
def test_a_copy_knows_its_priors_and_starts_them_from_themselves(form, way):
    model = vectors(form)
    other = COPIES[way](model)
    (record,), (theirs,) = prior_variables(model), prior_variables(other)
    assert [getattr(theirs, part) for part in PARTS] == [getattr(record, part) for part in PARTS]
    np.testing.assert_array_equal(theirs.mixture.means, PAIR.means)
    if way != "frozen":
        start = dpg.bayes.initvals(PAIR, other, chains=1, random_seed=1)[0]
        assert set(start) == ({"x"} if form == "mixture" else {"x_label", "x_offset"})


def test_what_is_replaced_is_forgotten(release):
    with pm.Model() as model:
        release.params("g")
    size = model.initial_point()["g_offset"].size
    with pm.do(model, {"g_offset": np.zeros(size)}) as other:
        assert release.observe(mixture_params("h", PAIR, prior="weak")) in other.potentials
    assert centred_variables(other) == ("h_offset",)
    assert prior_variables(pm.do(vectors("mixture"), {"x": np.zeros((3, 2))})) == ()


# ------------------------------------------------------------------ protection of labels
@pytest.mark.thorough
@pytest.mark.parametrize("way", COPIES)
def test_the_density_of_labels_stays_closed_in_a_copy(way):
    model = vectors("labelled")
    step = MixtureLabels([model["x_label"]], model=model, compile_kwargs=FAST)
    other = COPIES[way](model)
    with pytest.raises(pm.exceptions.SamplingError, match="labels of 'x' must be moved by MixtureLabels"):
        other.compile_logp(**FAST)(other.initial_point())
    del step
    gc.collect()
    with label_density(other):
        density = other.compile_logp(**FAST)
        assert np.isfinite(density(other.initial_point()))
    with pytest.raises(pm.exceptions.SamplingError, match="labels of 'x' must be moved by MixtureLabels"):
        density(other.initial_point())
    with other:
        assert posterior_of(pm.sample(**QUICK))["x_label"].shape == (1, 10, 3)
        with pytest.raises(pm.exceptions.SamplingError, match="labels of 'x' must be moved by MixtureLabels"):
            pm.sample(step=pm.CategoricalGibbsMetropolis([other["x_label"]]), **QUICK)


def test_labels_whose_offset_is_fixed_are_refused():
    other = pm.do(vectors("labelled"), {"x_offset": np.zeros((3, 2))})
    with other, pytest.raises(pm.exceptions.SamplingError, match="'x_offset' must be a free variable"):
        pm.sample(**QUICK)


# ------------------------------------------------------------------ laws
@pytest.mark.thorough(quick=["labelled-do"])
@pytest.mark.parametrize("way", ["model", "do", "frozen data", *(["frozen"] if "frozen" in COPIES else [])])
@pytest.mark.parametrize("form", ["mixture", "labelled"])
def test_prior_draws_follow_the_mixture(form, way):
    """Against draws by NumPy, along three directions; false alarm of each test 1e-6, of all 24 below 3e-5."""
    model = vectors(form)
    other = model if way == "model" else COPIES[way](model)
    with other:
        prior = pm.sample_prior_predictive(4000, random_seed=7, compile_kwargs=dict(FAST))["prior"]
    found = prior["x"].values
    assert found.shape == (1, 4000, 3, 2)
    reference = PAIR.sample(20_000, rng=np.random.default_rng(8))
    for direction in ([1.0, 0.0], [0.0, 1.0], [1.0, -2.0]):
        for i in range(3) if form == "mixture" else (1,):
            assert stats.ks_2samp(found[0, :, i] @ direction, reference @ direction).pvalue > 1e-6
    if form == "labelled":
        drawn = (prior["x_label"].values == 1).sum()
        assert stats.binomtest(int(drawn), 12_000, 0.3).pvalue > 1e-6


def test_the_mixture_form_can_be_observed_and_intervened_on():
    model = vectors("mixture")
    rows = PAIR.sample(3, rng=np.random.default_rng(2))
    seen = pm.observe(model, {"x": rows})
    density = seen.compile_logp(vars=seen["x"], **FAST)(seen.initial_point())
    assert float(density) == pytest.approx(PAIR.log_density(rows).sum(), rel=1e-12)
    fixed = pm.do(model, {"x": rows})
    assert [rv.name for rv in fixed.free_RVs] == ["scale"] and np.isfinite(
        fixed.compile_logp(**FAST)({"scale_log__": 0.0})
    )


def test_the_labelled_form_can_be_intervened_on_and_says_that_it_cannot_be_observed():
    model = vectors("labelled")
    rows = PAIR.sample(3, rng=np.random.default_rng(2))
    fixed = pm.do(model, {"x": rows})
    with label_density(fixed):
        point = fixed.initial_point() | {"x_label": np.zeros(3, dtype=int)}
        labels = float(fixed.compile_logp(vars=fixed["x_label"], **FAST)(point))
    assert labels == pytest.approx(3 * np.log(0.7), rel=1e-12)
    seen = pm.observe(model, {"x": rows})
    with label_density(seen), pytest.raises(RuntimeError, match="could not be derived"):  # PyMC's own words
        seen.compile_logp(**FAST)


@pytest.mark.parametrize("form", ["mixture", "labelled"])
@pytest.mark.parametrize("way", ["frozen data", *(["frozen"] if "frozen" in COPIES else [])])
def test_a_frozen_model_has_the_same_density(form, way):
    model = vectors(form)
    other = COPIES[way](model)
    rng = np.random.default_rng(3)
    point = {
        name: value + (0.3 * rng.normal(size=value.shape) if value.dtype.kind == "f" else 0)
        for name, value in model.initial_point().items()
    }
    with label_density(model), label_density(other):
        values = [float(each.compile_logp(**FAST)(point)) for each in (model, other)]
    assert values[1] == pytest.approx(values[0], rel=1e-12)
