"""Variables with named dimensions: the same model as without, in any order of the dimensions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytest
import xarray
from pytensor.xtensor import as_xtensor
from pytensor.xtensor.type import XTensorVariable

import pm_dpgmm as dpg
from pm_dpgmm.bayes import dims as dpd, label_density
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.quick_sampling import FAST

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

PAIR = Mixture([0.7, 0.3], [[0.0, 0.0], [7.0, 3.0]], [[[1.0, 0.3], [0.3, 1.0]], [[0.8, -0.2], [-0.2, 1.2]]])
SCALES = {"weight_conc": 100.0, "mean_scale": 0.1, "cov_scale": 0.1}
ROWS = PAIR.sample(5, rng=np.random.default_rng(1))
TABLE = xarray.DataArray(
    ROWS.T, dims=("feature", "obs"), coords={"feature": ["height", "weight"], "obs": list("vwxyz")}
)


def densities(*models):
    """Of the models, at one point away from the start."""
    rng = np.random.default_rng(2)
    point = {
        name: value + (0.3 * rng.normal(size=value.shape) if value.dtype.kind == "f" else 0)
        for name, value in models[0].initial_point().items()
    }
    found = []
    for model in models:
        with label_density(model):
            found.append([float(model.compile_logp(**FAST)(point)), *model.compile_dlogp(**FAST)(point)])
    return found


@pytest.mark.parametrize("form", ["mixture", "labelled"])
def test_a_prior_is_that_of_the_plain_model(form):
    seen = np.arange(6.0).reshape(3, 2)
    with pm.Model(coords={"patient": range(3)}) as plain:
        x = dpg.bayes.mixture_prior("x", PAIR, dims=("patient", "feature"), form=form)
        pm.Normal("y", x, pm.HalfNormal("s"), observed=seen)
    with pm.Model(coords={"patient": range(3)}) as named:
        x = dpd.prior("x", PAIR, dims=("patient", "feature"), form=form)
        assert isinstance(x, XTensorVariable) and x.dims == ("patient", "feature")
        data = xarray.DataArray(seen.T, dims=("feature", "patient"))
        pmd.Normal("y", x, pmd.HalfNormal("s"), observed=data)
        total = pmd.Deterministic("total", x.sum("feature"))
    assert total.dims == ("patient",) and named.named_vars_to_dims["x"] == ("patient", "feature")
    first, second = densities(plain, named)
    np.testing.assert_allclose(second, first, rtol=1e-12)
    with named:
        drawn = pm.sample_prior_predictive(4, random_seed=1, compile_kwargs=dict(FAST))["prior"]
    assert drawn["total"].dims == ("chain", "draw", "patient")
    np.testing.assert_allclose(drawn["total"], drawn["x"].sum("feature"))


@pytest.mark.parametrize("data", ["array", "named", "pmd.Data", "holes"])
def test_rows_are_those_of_the_plain_model(data):
    rows = ROWS.copy()
    if data == "holes":
        rows[0, 1] = np.nan
    with pm.Model() as plain:
        dpg.gmm("y", mixture_params("g", PAIR, **SCALES), observed=rows, dims=("obs", "feature"))
    with pm.Model() as named:
        th = dpd.params("g", PAIR, **SCALES)
        assert {part: getattr(th, part).dims for part in ("weights", "means", "covariances")} == {
            "weights": ("component",),
            "means": ("component", "feature"),
            "covariances": ("component", "feature", "feature_bis"),
        }
        if data == "pmd.Data":
            named.add_coord("obs", length=5)
        given = {
            "array": lambda: rows,
            "named": lambda: TABLE,
            "holes": lambda: TABLE.copy(data=rows.T),
            "pmd.Data": lambda: pmd.Data("data", rows.T, dims=("feature", "obs")),
        }[data]()
        y = dpd.gmm("y", th, observed=given)
    assert isinstance(y, XTensorVariable) and y.dims == ("obs", "feature")
    if data == "named":
        assert named.coords["obs"] == tuple("vwxyz")
    first, second = densities(plain, named)
    np.testing.assert_allclose(second, first, rtol=1e-12)


@pytest.mark.thorough
def test_parameters_of_named_distributions_have_their_dimensions_in_any_order():
    factors = np.linalg.cholesky(PAIR.covariances)
    coords = {"cluster": range(2), "lab": ["a", "b"], "lab2": ["a", "b"], "obs": range(5)}
    with pm.Model(coords=coords) as named:
        weights = pmd.Dirichlet("w", as_xtensor(np.ones(2), dims=("cluster",)), core_dims="cluster")
        means = pmd.Normal("mu", 0.0, 10.0, dims=("lab", "cluster"))
        chol = as_xtensor(factors.transpose(2, 0, 1), dims=("lab2", "cluster", "lab"))
        dpd.gmm("y", SimpleNamespace(weights=weights, means=means, chol=chol), observed=ROWS, dims=("obs", "lab"))
    with pm.Model() as plain:
        weights = pm.Dirichlet("w", np.ones(2))
        means = pm.Normal("mu", 0.0, 10.0, shape=(2, 2))
        dpg.gmm("y", SimpleNamespace(weights=weights, means=means.T, chol=factors), observed=ROWS)
    first, second = densities(plain, named)
    np.testing.assert_allclose(second, first, rtol=1e-12)


def test_a_release_is_observed_with_named_parameters_and_used_once():
    records = PAIR.sample(2000, rng=np.random.default_rng(3))
    release = dpg.fit_gmm(records, 2, epsilon=2.0, delta=1e-6, bounds=(-8, 14), random_seed=1, progress=False)
    with pm.Model() as plain:
        release.observe(release.params("g", prior="weak"))
    with pm.Model() as named:
        th = dpd.params("g", release, prior="weak")
        release.observe(th)
        with pytest.raises(ValueError, match="must be used once"):
            dpd.params("h", release)
    assert named.coords["feature"] == release.feature_names
    first, second = densities(plain, named)
    np.testing.assert_allclose(second, first, rtol=1e-10)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: dpd.prior("x", PAIR, dims=None), ValueError, "dims must be one or more names, got None"),
        (lambda: dpd.prior("x", "release", dims="f"), TypeError, "release must be a Release or a Mixture"),
        (lambda: dpd.gmm("y", PAIR, observed=TABLE, dims=("row", "feature")), ValueError, "observed must have the dimensions"),
        (lambda: dpd.gmm("y", PAIR, observed=ROWS, dims="obs"), ValueError, "dims must be two names"),
        (
            lambda: dpd.gmm("y", SimpleNamespace(
                weights=as_xtensor(PAIR.weights, dims=("k",)), means=as_xtensor(PAIR.means, dims=("j", "d")),
                chol=as_xtensor(PAIR.covariances, dims=("k", "d", "e"))), observed=ROWS),
            ValueError, "dimensions of th must be",
        ),
        (
            lambda: dpd.gmm("y", SimpleNamespace(
                weights=as_xtensor(PAIR.weights, dims=("k",)), means=PAIR.means, chol=PAIR.covariances), observed=ROWS),
            ValueError, "must all have named dimensions or none",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call, error, message):
    with pm.Model() as model, pytest.raises(error, match=message):
        call()
    assert not model.named_vars
