"""The mixture prior as an object, as other packages use it, and without a name."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Protocol, runtime_checkable

import numpy as np
import pymc as pm
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes import MixturePrior, mixture_dist
from pm_dpgmm.mixture.mixture import Mixture

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

CLOSE = Mixture([0.6, 0.4], [[0, 0], [1.5, 1]], [[[1, 0.3], [0.3, 1]], [[0.8, -0.2], [-0.2, 1.2]]])
APART = Mixture([0.6, 0.4], [[0, 0], [9, 1]], CLOSE.covariances)
LINE = Mixture([0.5, 0.5], [[0.0], [1.0]], [[[1.0]], [[0.5]]])


@runtime_checkable
class VariableFactory(Protocol):
    """Copy of the protocol of pymc-extras 0.10."""

    dims: tuple[str, ...]

    def create_variable(self, name: str, xdist: bool = False): ...


@pytest.fixture(scope="module")
def release():
    X = np.random.default_rng(0).normal(size=(2000, 2)) + 8 * np.random.default_rng(1).integers(0, 2, (2000, 1))
    return dpg.fit_gmm(X, 2, epsilon=5.0, bounds=(-5, 13), method="histogram")


@pytest.mark.parametrize("mixture, form", [(CLOSE, "mixture"), (APART, "labelled")])
def test_it_makes_the_variable_in_the_model_that_is_open(mixture, form):
    prior = MixturePrior(mixture, dims=["unit", "feature"], feature_names=["height", "weight"])
    assert isinstance(prior, VariableFactory) and prior.dims == ("unit", "feature")
    for copied in (prior, copy.deepcopy(prior), pickle.loads(pickle.dumps(prior))):
        with pm.Model(coords={"unit": range(3)}) as model:
            variable = copied.create_variable("x")
        assert model.coords["feature"] == ("height", "weight")
        assert model.named_vars_to_dims["x"] == ("unit", "feature")
        assert ("x_label" in model.named_vars) == (form == "labelled")
        assert variable.eval(mode="FAST_COMPILE").shape == (3, 2)


@pytest.mark.filterwarnings("ignore:xtensor module is experimental:UserWarning")
def test_named_dimensions_reach_pytensor():
    with pm.Model(coords={"unit": range(3)}):
        variable = MixturePrior(CLOSE, dims=("unit", "feature")).create_variable("x", xdist=True)
        assert variable.dims == ("unit", "feature")
        with pytest.raises(ValueError, match="dims must be given"):
            MixturePrior(CLOSE).create_variable("y", xdist=True)


def test_json_round_trip_keeps_everything():
    prior = MixturePrior(CLOSE, "lab", ("urea", "sodium"), "labelled", 2.0)
    back = MixturePrior.from_dict(json.loads(json.dumps(prior.to_dict())))
    for name in ("weights", "means", "covariances"):
        np.testing.assert_array_equal(getattr(back.mixture, name), getattr(CLOSE, name))
    assert (back.dims, back.feature_names, back.form, back.inflate) == (("lab",), ("urea", "sodium"), "labelled", 2.0)
    assert MixturePrior.from_dict(MixturePrior(LINE).to_dict()).dims is None
    for fields in (None, {"class": "Prior", "data": {}}, {"class": "pm_dpgmm.MixturePrior"}):
        with pytest.raises(ValueError, match="a mixture prior must have class"):
            MixturePrior.from_dict(fields)
    fields = prior.to_dict()
    del fields["data"]["means"]
    with pytest.raises(ValueError, match="must have the field 'means'"):
        MixturePrior.from_dict(fields)


def test_called_as_bambi_calls_it():
    """A coefficient without dimensions, one for each level, and one for each group."""
    with pm.Model(coords={"level": ["b", "c"], "group": range(4)}) as model:
        slope = MixturePrior(LINE)("slope")
        levels = MixturePrior(CLOSE)("levels", dims=["level"])
        groups = MixturePrior(LINE)("1|group", dims=("group",))
    assert slope.eval(mode="FAST_COMPILE").shape == ()
    assert levels.eval(mode="FAST_COMPILE").shape == (2,) and model.coords["level"] == ("b", "c")
    assert groups.eval(mode="FAST_COMPILE").shape == (4,)
    assert model.named_vars_to_dims["levels"] == ("level",) and model.named_vars_to_dims["1|group"] == ("group",)
    draws = pm.draw(groups, 2000, random_seed=1, mode="FAST_COMPILE")
    assert abs(np.corrcoef(draws.T)[0, 1]) < 5 / np.sqrt(2000)  # every group has a value of its own
    with pm.Model(), pytest.raises(TypeError, match="name and dims only, got sigma, shape as well"):
        MixturePrior(LINE)("x", sigma=1.0, shape=(1,))


@pytest.mark.parametrize("dims", [pm.math.ones((2,)), 3, np.array(["feature"])])
def test_dims_that_are_no_names_are_told_so(release, dims):
    with pm.Model(), pytest.raises(TypeError, match="dims must be a name or several, got"):
        MixturePrior(CLOSE)("x", dims=dims)
    with pytest.raises(TypeError, match="dims must be a name or several, got"):
        release.as_prior(dims)


def test_a_release_makes_priors_with_its_names(release):
    prior = release.as_prior(inflate=2.0)
    assert prior.dims == ("feature",) and prior.feature_names == ("x0", "x1") and prior.inflate == 2.0
    assert release.as_prior(dims=None).dims is None and release.as_prior(dims=("a", "b")).dims == ("a", "b")
    with pm.Model() as model:
        prior.create_variable("x")
    assert model.coords["feature"] == ("x0", "x1")


def test_without_a_name_density_and_draws_are_those_of_the_mixture(release):
    unnamed = release.prior_dist(shape=(500, 2), form="mixture")
    assert unnamed.name is None
    points = pm.draw(unnamed, random_seed=1, mode="FAST_COMPILE")
    assert points.shape == (500, 2)
    expected = release.law.log_density(points)
    np.testing.assert_allclose(pm.logp(unnamed, points).eval(mode="FAST_COMPILE"), expected, rtol=1e-12, atol=1e-10)
    error = np.linalg.solve(np.linalg.cholesky(release.law.covariance() / 500), points.mean(0) - release.law.mean())
    assert error @ error < 28  # chi-square with 2 degrees of freedom: false alarm 1e-6
    wide = mixture_dist(CLOSE, inflate=9.0)
    inflated = Mixture(CLOSE.weights, CLOSE.means, 9 * CLOSE.covariances)
    assert wide.eval(mode="FAST_COMPILE").shape == (2,)
    at = np.array([3.0, -2.0])
    assert float(pm.logp(wide, at).eval(mode="FAST_COMPILE")) == pytest.approx(inflated.log_density([at])[0], abs=1e-10)


def test_it_can_be_a_part_of_other_distributions():
    with pm.Model() as model:
        pm.Truncated("x", pm.Normal.dist(), lower=0)
        pm.CustomDist("y", dist=lambda size: mixture_dist(CLOSE) + 1.0, ndim_supp=1, shape=(2,))
    assert pm.draw(model["y"], random_seed=1, mode="FAST_COMPILE").shape == (2,)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (
            {"form": "labelled"},
            ValueError,
            "must be 'mixture' for a variable without a name, got the labelled form; name it",
        ),
        ({"mixture": APART}, ValueError, 'which form="auto" asks for: NUTS may not move'),
        ({"shape": 3}, ValueError, r"shape must end in 2 \(features\), got 3"),
        ({"shape": (2, 3)}, ValueError, r"shape must end in 2 \(features\), got \(2, 3\)"),
        ({"form": "marginal"}, ValueError, "form must be one of"),
        ({"inflate": -1.0}, ValueError, "inflate must be finite"),
        ({"mixture": None}, TypeError, "mixture must be a Mixture"),
    ],
)
def test_wrong_arguments_of_the_unnamed_form_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        mixture_dist(**{"mixture": CLOSE, **arguments})


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"mixture": "release"}, TypeError, "mixture must be a Mixture"),
        ({"form": "both"}, ValueError, "form must be one of"),
        ({"inflate": 0.0}, ValueError, "inflate must be finite"),
        ({"dims": (1, 2)}, TypeError, "dims must hold one or more names"),
        ({"dims": ()}, TypeError, "dims must hold one or more names"),
        ({"feature_names": ("a",)}, ValueError, "feature_names must have length 2"),
    ],
)
def test_wrong_settings_are_named_before_there_is_a_model(arguments, error, message):
    with pytest.raises(error, match=message):
        MixturePrior(**{"mixture": CLOSE, **arguments})
