"""Initial values: inside every support, one permutation, reproducible, dispersed for mixture priors."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import Chain, Ordered, ordered
from pymc.initial_point import make_initial_point_fn

from pm_dpgmm.bayes import label_density
from pm_dpgmm.bayes.prior.priors import mixture_prior
from pm_dpgmm.bayes.starts.starting_values import initvals, set_initvals
from pm_dpgmm.mixture.mixture import Mixture

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

# Component 0 has the largest mean, component 2 no weight.
LINE = Mixture([0.7, 0.3, 0.0], [[4.0], [-1.0], [2.0]], [[[1.0]], [[9.0]], [[0.25]]])
PLANE = Mixture(
    [0.5, 0.3, 0.2],
    [[0, 0], [4, 1], [-1, 5]],
    [[[1, 0.5], [0.5, 2]], [[3, -1], [-1, 1]], [[0.5, 0], [0, 0.1]]],
)
SORTED = [1, 2, 0]


@pytest.fixture(scope="module")
def line_model():
    with pm.Model() as model:
        pm.Dirichlet("w", np.ones(3))
        pm.Normal("mu", 0, 10, shape=3, transform=ordered)
        pm.HalfNormal("sigma", 3, shape=3)
        scale = pm.HalfNormal("scale")
        pm.Uniform("inside", -scale, scale, shape=3)
        pm.Normal("noise")
    return model


@pytest.fixture(scope="module")
def plane_model():
    with pm.Model(coords={"unit": range(5)}) as model:
        pm.Dirichlet("weights", np.ones(3))
        pm.Normal("means", 0, 10, shape=(3, 2))
        for k in range(3):
            pm.LKJCholeskyCov(f"chol_{k}", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(2.0, shape=2))
        mixture_prior("x", PLANE, dims=("unit", "feature"), form="mixture")
        mixture_prior("z", PLANE, dims=("unit", "feature"), form="labelled")
        pm.Gamma("sigma", 2, 2)  # a scalar noise level, no field fits
    return model


def log_densities(model, starts):
    """Log density of ``model`` at the points that ``pm.sample(initvals=starts)`` would start from."""
    log_density = model.compile_logp(mode="FAST_COMPILE")
    with label_density(model):
        return [float(log_density(make_initial_point_fn(model=model, overrides=start)(0))) for start in starts]


def test_values_are_the_mixture_in_the_order_of_the_ordered_variable(line_model):
    start = initvals(LINE, line_model, chains=1, jitter=0.0)[0]
    assert set(start) == {"w", "mu", "sigma"}
    np.testing.assert_array_equal(start["mu"], [-1, 2, 4])
    np.testing.assert_allclose(start["sigma"], [3, 0.5, 1])
    np.testing.assert_allclose(start["w"], np.array([0.3, 0.001, 0.7]) / 1.001)


def test_every_chain_has_a_finite_log_density(line_model, plane_model):
    mapping = {"w": "weights", "mu": "means", "sigma": "sds", "inside": "means", "scale": "sds:0"}
    for model, mixture, fields in ((line_model, LINE, mapping), (plane_model, PLANE, None)):
        starts = initvals(mixture, model, mapping=fields, chains=3, jitter=0.3, random_seed=1)
        assert len(starts) == 3 and np.isfinite(log_densities(model, starts)).all()


def test_bounds_follow_the_mapped_value_of_their_parent(line_model):
    start = initvals(LINE, line_model, mapping={"inside": "means", "scale": "sds:1"}, chains=1, jitter=0.0)[0]
    assert start["scale"] == 3.0  # the default start of scale is 1
    np.testing.assert_allclose(start["inside"], [2.994, -1.0, 2.0])


def test_default_names_and_components(plane_model):
    start = initvals(PLANE, plane_model, chains=1, jitter=0.0, random_seed=2)[0]
    assert set(start) == {"weights", "means", "chol_0", "chol_1", "chol_2", "x", "z_label", "z_offset"}
    np.testing.assert_array_equal(start["means"], PLANE.means)
    for k in range(3):
        factor = np.zeros((2, 2))
        factor[np.tril_indices(2)] = start[f"chol_{k}"]
        np.testing.assert_allclose(factor @ factor.T, PLANE.covariances[k], atol=1e-12)


def test_variables_of_mixture_priors_are_drawn_from_the_mixture(plane_model):
    starts = initvals(PLANE, plane_model, mapping={}, chains=400, random_seed=3)
    assert set(starts[0]) == {"x", "z_label", "z_offset"}
    points = np.concatenate([start["x"] for start in starts])
    labels = np.concatenate([start["z_label"] for start in starts])
    # Five standard errors for 2000 independent draws.
    scales = np.sqrt(np.diag(PLANE.covariance()) / len(points))
    assert (abs(points.mean(axis=0) - PLANE.mean()) < 5 * scales).all()
    assert (abs(np.bincount(labels, minlength=3) / len(labels) - PLANE.weights) < 5 * 0.5 / np.sqrt(2000)).all()
    assert starts[0]["x"].shape == starts[0]["z_offset"].shape == (5, 2)


def test_seeds_reproduce_and_jitter_separates_chains(line_model):
    first, again, other = (initvals(LINE, line_model, chains=2, random_seed=seed) for seed in (1, 1, 2))
    for name in ("w", "mu", "sigma"):
        for chain in range(2):
            np.testing.assert_array_equal(first[chain][name], again[chain][name])
        assert (first[0][name] != other[0][name]).all() and (first[0][name] != first[1][name]).all()


def test_jitter_has_the_stated_size_in_any_unit():
    mixture = PLANE.transformed(np.diag([1e6, 1e-6]))
    with pm.Model() as model:
        pm.Normal("mu", 0, 1, shape=(3, 2))
        pm.Normal("sd", 0, 1, shape=(3, 2))
    starts = initvals(mixture, model, chains=500, jitter=0.1, random_seed=4)
    scales = np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))
    spread = np.std([start["mu"] for start in starts], axis=0) / scales
    np.testing.assert_allclose(spread, 0.1, rtol=0.2)  # 500 draws: 3% standard error, 6 entries
    assert (abs(np.log([start["sd"] / scales for start in starts])) < 0.7).all()


@pytest.mark.thorough
def test_other_layouts_and_orders():
    twin = Mixture([0.5, 0.5], [[2.0], [2.0]], [[[1.0]], [[4.0]]])
    with pm.Model() as model:
        falling = pm.Normal("falling", shape=2, transform=Ordered(ascending=False))
        pm.LogNormal("positive", shape=2, default_transform=None, transform=Ordered(positive=True))
        pm.LogNormal("chained", shape=2, transform=Chain([ordered]))  # PyMC puts its log transform before it
        pm.Beta("share", 1, 1)
        pm.Normal("cov", shape=(2, 1, 1))
        pm.Normal("column", shape=(2, 1))
    pair = Mixture([0.8, 0.2], [[1.0], [3.0]], [[[1.0]], [[4.0]]])
    mapping = {falling: "means", "cov": "covariances", "share": "weights:0"}
    start = initvals(pair, model, mapping=mapping, chains=1, jitter=0)
    np.testing.assert_array_equal(start[0]["falling"], [3, 1])
    np.testing.assert_array_equal(start[0]["cov"].ravel(), [4, 1])
    assert start[0]["share"] == pytest.approx(0.2)  # component 0 in the order of the variables
    # Equal means get a gap, in each kind of order.
    mapping = {"falling": "means", "positive": "means", "chained": "means", "column": "means"}
    starts = initvals(twin, model, mapping=mapping, chains=2, jitter=0.2, random_seed=5)
    assert np.isfinite(log_densities(model, starts)).all()
    below = Mixture([0.5, 0.5], [[-3.0], [-2.0]], [[[1.0]], [[1.0]]])
    assert (initvals(below, model, mapping={"positive": "means"}, chains=1)[0]["positive"] > 0).all()
    with pytest.raises(ValueError, match="agree on one order"):
        initvals(pair, model, mapping={"falling": "means", "positive": "sds"})


def test_one_component_fits_variables_without_a_component_axis():
    with pm.Model() as model:
        pm.Normal("mu", shape=2)
        pm.LKJCholeskyCov("chol", n=2, eta=1.0, sd_dist=pm.HalfNormal.dist(1.0, shape=2))
    start = initvals(Mixture([1.0], [[1, 2]], [[[4, 2], [2, 5]]]), model, chains=1, jitter=0)[0]
    np.testing.assert_array_equal(start["mu"], [1, 2])
    np.testing.assert_allclose(start["chol"], [2, 1, 2])


def test_ordering_over_features_is_refused_unless_it_holds():
    with pm.Model() as model:
        pm.Normal("mu", shape=(3, 2), transform=ordered)
    with pytest.raises(ValueError, match="ordered over its last axis"):
        initvals(PLANE, model)
    rising = Mixture(PLANE.weights, np.sort(PLANE.means) + np.array([0, 0.1]), PLANE.covariances)
    np.testing.assert_array_equal(initvals(rising, model, jitter=0)[0]["mu"], rising.means)


def test_set_initvals_reaches_the_initial_point_of_the_model():
    with pm.Model() as model:
        pm.Dirichlet("w", np.ones(3))
        pm.Normal("mu", shape=3, transform=ordered)
        mixture_prior("x", LINE, form="mixture")
        mixture_prior("z", LINE, form="labelled")
        free = pm.Normal("free")
        assert set_initvals(LINE) == {free}  # the only one that keeps its start
    start = make_initial_point_fn(model=model, return_transformed=False)
    np.testing.assert_allclose(start(1)["w"], np.array([0.3, 0.001, 0.7]) / 1.001)
    exact = start(1)["mu"]
    np.testing.assert_allclose(start(1)["mu"], [-1, 2, 4])
    assert start(1)["x"] != start(2)["x"] and start(1)["z_offset"] != start(2)["z_offset"]  # a draw for each seed
    set_initvals(LINE, model, jitter=0.1, random_seed=1)
    moved = make_initial_point_fn(model=model, return_transformed=False)(1)["mu"]
    assert (moved != exact).all() and (abs(moved - exact) < 5 * 0.1 * 3).all()


def test_submodels_are_found_from_inside_and_outside():
    with pm.Model() as model, pm.Model(name="inner") as inner:
        pm.Normal("mu", shape=(3, 2))
        mixture_prior("x", PLANE, form="mixture")
    for given in (model, inner):
        assert set(initvals(PLANE, given, chains=1)[0]) == {"inner::mu", "inner::x"}


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"mapping": {"missing": "means"}}, ValueError, r"free continuous variables \(w, mu.*got 'missing'"),
        ({"mapping": {"w": "weight"}}, ValueError, "field of 'w' must be one of weights, means"),
        ({"mapping": {"w": "means:3"}}, ValueError, "with :0 to :2"),
        ({"mapping": {"w": "means:"}}, ValueError, "with :0 to :2"),
        ({"mapping": {"w": 3}}, ValueError, "field of 'w' must be one of"),
        (
            {"mapping": {"w": "covariances:0"}},
            ValueError,
            r"'w' must have shape \(1, 1\) or \(\) .*, got \(3,\)",
        ),
        ({"mapping": {"scale": "means"}}, ValueError, r"got \(\); 'means:0' is that of component 0 alone"),
        ({"mapping": {}}, ValueError, "must have a variable to initialise.*weights: w, weights"),
        ({"chains": 0}, ValueError, "chains must be at least 1"),
        ({"jitter": -1.0}, ValueError, "jitter must be finite and at least 0"),
        ({"mixture": "release"}, TypeError, "mixture must be a Mixture"),
    ],
)
def test_wrong_arguments_are_named(line_model, arguments, error, message):
    with pytest.raises(error, match=message):
        initvals(**{"mixture": LINE, "model": line_model, **arguments})


def test_a_model_without_known_names_says_what_was_looked_for():
    with pm.Model():
        pm.Normal("theta", shape=3)
        for function in (initvals, set_initvals):
            with pytest.raises(ValueError, match=r"means: mu, mus.*got free variables theta"):
                function(LINE)


def test_unmapped_variables_that_pymc_starts_outside_their_support_get_a_point_inside():
    with pm.Model() as model:
        pm.Dirichlet("w", np.ones(3))
        pm.Normal("cut", 0, 10, shape=4, transform=ordered)
        pm.Normal("falling", [[0.0], [50.0]], 10, shape=(2, 4), transform=Ordered(ascending=False))
        pm.Flat("flat", shape=3, transform=ordered)
        pm.Normal("plain")
    assert not np.isfinite(log_densities(model, [{}])).all()  # what PyMC does by itself
    starts = initvals(LINE, model, chains=2, random_seed=1)
    assert np.isfinite(log_densities(model, starts)).all()
    assert set(starts[0]) == {"w", "cut", "falling", "flat"}
    assert np.ptp(starts[0]["cut"]) > 1 and (np.diff(starts[0]["cut"]) > 0).all()  # spread as the prior is
    assert (np.diff(starts[0]["falling"]) < 0).all() and np.diff(starts[0]["falling"].mean(axis=1)) > 20
    set_initvals(LINE, model)
    assert np.isfinite(log_densities(model, [{}])).all()


@pytest.mark.thorough
def test_eight_variables_start_at_finite_densities():
    with pm.Model() as model:
        pm.Dirichlet("w", np.ones(3))
        pm.Normal("mu", 0, 10, shape=3, transform=ordered)
        for k in range(3):
            pm.LKJCholeskyCov(f"chol_{k}", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(2.0, shape=2))
        pm.HalfNormal("sigma", 3, shape=3)
        pm.Uniform("inside", 0, 4, shape=3)
        pm.Normal("cut", 0, 1, shape=3, transform=ordered)
    mapping = {"w": "weights", "mu": "means", "sigma": "sds", "inside": "means"}
    starts = initvals(LINE, model, mapping=mapping, chains=3, jitter=0.1, random_seed=1)
    assert np.isfinite(log_densities(model, starts)).all()
    mapping = {"w": "weights"} | {f"chol_{k}": f"chol:{k}" for k in range(3)}
    starts = initvals(PLANE, model, mapping=mapping, chains=3, jitter=0.1, random_seed=1)
    assert np.isfinite(log_densities(model, starts)).all()


def test_pm_sample_starts_at_the_values_without_a_jitter_of_its_own():
    with pm.Model() as model:
        pm.Dirichlet("w", np.ones(3))
        pm.Normal("mu", 0, 10, shape=3, transform=ordered)
    starts = initvals(LINE, model, chains=2, jitter=0.1, random_seed=1)
    points, _ = pm.init_nuts(
        init="adapt_diag",
        chains=2,
        random_seed=1,
        progressbar=False,
        model=model,
        initvals=starts,
        compile_kwargs={"mode": "FAST_COMPILE"},
    )
    for point, start in zip(points, starts, strict=True):
        back = make_initial_point_fn(model=model, overrides=start)(0)
        assert all((point[name] == back[name]).all() for name in back)


@pytest.mark.parametrize(("names", "fields"), [("mu1 mu2 mu3", "012"), ("mu0 mu1 mu2", "012"), ("mu1 mu2", "12")])
def test_components_are_counted_from_one_where_the_names_are(names, fields):
    with pm.Model() as model:
        for name in names.split():
            pm.Normal(name)
    start = initvals(LINE, model, chains=1, jitter=0.0)[0]
    assert [start[name] for name in names.split()] == [LINE.means[int(k), 0] for k in fields]


@pytest.mark.parametrize("make", [initvals, set_initvals])
def test_features_of_a_model_in_another_order_or_place_are_refused(make):
    pair = Mixture([0.5, 0.5], [[120.0, 70.0], [150.0, 90.0]], [np.diag([144.0, 64.0])] * 2)
    coords = {"group": ["a", "b"], "feature": ["sys", "dia"], "turned": ["dia", "sys"], "of_others": ["x", "y"]}
    with pm.Model(coords=coords) as model:
        for name, dims in {
            "right": ("group", "feature"),
            "order": ("group", "turned"),
            "place": ("feature", "group"),
            "others": ("group", "of_others"),
        }.items():
            pm.Normal(name, dims=dims)
    for name in ("right", "others"):
        make(pair, model, mapping={name: "means"}, feature_names=("sys", "dia"))
    with pytest.raises(ValueError, match=r"coordinates of 'turned' must be in the order \('sys', 'dia'\), got \('dia'"):
        make(pair, model, mapping={"order": "sds"}, feature_names=("sys", "dia"))
    with pytest.raises(ValueError, match="'place' must have features along its last dimension for 'means', got dims"):
        make(pair, model, mapping={"place": "means"}, feature_names=("sys", "dia"))
