"""release.observe: what it adds to a model, which likelihood it takes, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes.likelihoods import observe as front
from pm_dpgmm.bayes.likelihoods.sketch import log_likelihood
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.bayes.registry import ANCHORED, remember_use

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")


@pytest.fixture(scope="module")
def release():
    X = np.random.default_rng(1).normal([[-2.0]] * 600 + [[2.0]] * 400)
    return dpg.fit_gmm(X, 2, epsilon=1.0, delta=1e-6, bounds=(-6, 6), random_seed=1, progress=False)


def parameters(k=2, d=1):
    return SimpleNamespace(
        weights=pm.Dirichlet("w", np.ones(k)),
        means=pm.Normal("mu", 0, 3, shape=(k, d)),
        chol=pt.eye(d) * pm.HalfNormal("sd", 2, shape=(k, 1, 1)),
    )


def test_it_adds_a_potential_with_the_density_of_the_method(release):
    with pm.Model() as model:
        th = parameters(k=3)
        term = release.observe(th, name="evidence")
        same = log_likelihood(release, th.weights, th.means, th.chol)
    assert [p.name for p in model.potentials] == ["evidence"] and term is model["evidence"]
    point = model.initial_point()
    log_density = model.compile_logp(mode="FAST_COMPILE")(point)
    evaluate = model.compile_fn(model.replace_rvs_by_values([same]), mode="FAST_COMPILE")
    prior = sum(model.compile_logp(vars=rv, mode="FAST_COMPILE")(point) for rv in model.free_RVs)
    assert float(log_density) == pytest.approx(float(prior + evaluate(point)[0]), rel=1e-12)


def test_the_model_can_be_given_and_constants_will_do(release):
    model = pm.Model()
    th = SimpleNamespace(weights=np.ones(1), means=np.zeros((1, 1)), chol=np.ones((1, 1, 1)))
    term = release.observe(th, likelihood="exact", model=model)
    assert model.potentials == [term]


def test_a_release_is_used_once(release):
    again = dpg.Release.from_dict(release.to_dict())
    with pm.Model():
        th = parameters()
        release.observe(th)
        with pytest.raises(ValueError, match="must be used once in a model"):
            again.observe(th, name="again")
    with pm.Model() as model:
        remember_use(pm.Normal("centre"), again, ANCHORED)
        with pytest.raises(ValueError, match="must be used once in a model"):
            release.observe(parameters())
        assert not model.potentials


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"means": np.zeros((2, 2))}, ValueError, r"th.means must have shape \(K, D\), with D = 1 .* got \(2, 2\)"),
        ({"means": np.zeros(2)}, ValueError, r"th.means must have shape"),
        ({"weights": np.float64(1)}, ValueError, r"th.weights must have shape \(K\)"),
        ({"chol": np.zeros((2, 3, 3))}, ValueError, r"th.chol must have shape \(K, D, D\)"),
    ],
)
def test_wrong_parameters_are_named(release, change, error, message):
    right = {"weights": np.ones(2) / 2, "means": np.zeros((2, 1)), "chol": np.ones((2, 1, 1))}
    with pm.Model() as model:
        with pytest.raises(error, match=message):
            release.observe(SimpleNamespace(**(right | change)))
        release.observe(SimpleNamespace(**right))  # the failure has not used it up
        assert len(model.potentials) == 1


def test_means_whose_coordinates_are_features_in_another_order_are_refused():
    """They were taken by place, and the records of one column were evidence about the other."""
    X = pd.DataFrame(np.random.default_rng(1).normal([0.0, 9.0], size=(800, 2)), columns=["a", "b"])
    release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-6, 16), random_seed=1, progress=False)
    for given in (["b", "a"], ["a", "b"], ["own", "names"]):
        with pm.Model(coords={"component": [0], "feature": given}) as model:
            means = pm.Normal("mu", 0, 3, dims=("component", "feature"))
            th = SimpleNamespace(weights=np.ones(1), means=means, chol=np.eye(2)[None])
            if given == ["b", "a"]:
                with pytest.raises(ValueError, match=r"th must have its columns in the order \('a', 'b'\)"):
                    release.observe(th)
                assert not model.potentials
            else:
                release.observe(th)


def test_parameters_of_a_release_of_other_columns_are_refused():
    """Ages were evidence about pulses; columns of an array have no names to differ in."""
    X = np.random.default_rng(1).normal([0.0, 9.0], size=(800, 2))
    ours, theirs, unnamed = (
        dpg.fit_gmm(table, 1, epsilon=1.0, delta=1e-6, bounds=(-6, 16), random_seed=1, progress=False)
        for table in (pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(X, columns=["a", "c"]), X)
    )
    with pm.Model() as model:
        with pytest.raises(ValueError, match=r"th must have the columns \('a', 'b'\) and no others, got \('a', 'c'\)"):
            ours.observe(theirs.params("g", prior="weak"))
        assert not model.potentials
    for one, other in ((ours, unnamed), (unnamed, ours)):
        with pm.Model() as model:
            one.observe(other.params("g", prior="weak"))


def test_missing_parameters_are_named(release):
    with pm.Model(), pytest.raises(TypeError, match=r"th must have weights, means and chol.* without means, chol"):
        release.observe(SimpleNamespace(weights=np.ones(1)))


@pytest.mark.parametrize("likelihood", ["wishart", "", None, 3])
def test_unknown_likelihoods_are_refused_with_those_there_are(release, likelihood):
    with (
        pm.Model(),
        pytest.raises(ValueError, match="must be one of 'auto', 'exact', 'gaussian' for a release"),
    ):
        release.observe(parameters(), likelihood=likelihood)


def test_no_model_and_no_statistics_are_refused(release):
    th = SimpleNamespace(weights=np.ones(1), means=np.zeros((1, 1)), chol=np.ones((1, 1, 1)))
    with pytest.raises(TypeError, match="model"):
        release.observe(th)
    with pm.Model(), pytest.raises(ValueError, match="observe needs the noisy statistics of a release"):
        replace(release, raw={}).observe(th)


def test_methods_without_a_likelihood_are_refused(release):
    X = np.random.default_rng(2).normal(size=(1000, 2))
    slices = dpg.fit_gmm(X, 1, method="slices", epsilon=1.0, bounds=(-5, 5), random_seed=1, progress=False)
    with (
        pm.Model(),
        pytest.raises(ValueError, match=r"one of the methods 'sketch'.*got one of .*'slices', whose"),
    ):
        slices.observe(parameters(d=2))


@pytest.mark.parametrize("method", ["histogram", "populous", "populous-single", "em", "central", "local"])
def test_other_kinds_of_statistics_bring_their_own_likelihood(release, method, monkeypatch):
    seen = {}

    def stand_in(release, weights, means, chol, *, likelihood="auto"):
        seen.update(release=release, likelihood=likelihood, shape=means.type.shape)
        return pt.sum(means)

    other = replace(release, method=method, raw={"counts": np.arange(3.0)}, noise={"scale": 1.0})
    monkeypatch.setitem(front.LIKELIHOODS, other.statistic, front.Likelihood(("wishart",), stand_in))
    with pm.Model() as model:
        other.observe(parameters(), likelihood="wishart")
    assert seen == {"release": other, "likelihood": "wishart", "shape": (2, 1)} and len(model.potentials) == 1


def test_a_failed_call_does_not_use_a_release_up(release):
    with pm.Model() as model:
        th = release.params("g", prior="weak")
        pm.Potential("release", pt.zeros(()))
        with pytest.raises(ValueError, match="already exists; every release that is observed has a name= of its own"):
            release.observe(th)
        release.observe(th, name="again")
        with pytest.raises(ValueError, match="must be used once"):  # not that a name is taken
            release.observe(th)
    assert [p.name for p in model.potentials] == ["release", "again"]


def test_a_combined_release_is_its_parts():
    rng = np.random.default_rng(5)
    X = rng.normal([[-2.0]] * 1200 + [[2.0]] * 800)[rng.permutation(2000)]
    budget = {"epsilon": 1.0, "delta": 1e-6, "progress": False}
    north = dpg.fit_gmm(X[:1000], 2, bounds=(-6, 6), random_seed=1, **budget)
    south = dpg.fit_gmm(X[1000:], 2, like=north, random_seed=2, **budget)
    both = dpg.combine([north, south])
    with pm.Model():
        th = both.params("g", prior="weak")
        both.observe(th)
        with pytest.raises(ValueError, match="must be used once in a model"):
            south.observe(th, name="south")
    with pm.Model(), pytest.raises(ValueError, match="must be used once in a model"):
        both.observe(north.params("g"))
    with pm.Model() as model:
        th = both.params("g", prior="weak")
        north.observe(th, name="north")
        south.observe(th, name="south")  # other people
        assert len(model.potentials) == 2


def test_what_an_interrupted_fit_left_is_a_part_of_the_whole():
    """Their first sketches are the same numbers."""
    X = np.random.default_rng(5).normal(size=(1_000, 2))
    whole = dpg.fit_gmm(X, 2, bounds=(-6, 6), epsilon=1.0, delta=1e-6, random_seed=1, progress=False)
    sketches, moments = whole.noise["sketches"][:1], whole.noise["moments"][:2]
    assert len(sketches) < len(whole.noise["sketches"])
    raw = {name: whole.raw[name] for name in ("cells_0", "cell_noise", "sketch_0", "moments_0", "moments_1")}
    mixture = dpg.Mixture(whole.weights, whole.means + 0.1, whole.covariances)
    left = replace(whole, mixture=mixture, raw=raw, noise={**whole.noise, "sketches": sketches, "moments": moments})
    with pm.Model() as model:
        left.observe(left.params("g", prior="weak"))
        with pytest.raises(ValueError, match="must be used once in a model"):
            whole.observe(whole.params("h", prior="weak"), name="whole")
        assert len(model.potentials) == 1


def test_components_of_masked_releases_are_matched_with_the_anchor(release):
    """Two releases of one law in opposite order are as likely as in the same order."""
    mixture = dpg.Mixture([0.3, 0.7], [[-3.0], [3.0]], [[[1.0]], [[2.0]]])
    noise = {"law": "mask", "weight": 0.05, "mean": 0.05, "covariance": 0.05, "n_subsets": 100}
    parts = []
    for order in ([0, 1], [1, 0]):
        m = mixture.permuted(order)
        raw = {"weights": m.weights, "means": m.means, "covariances": m.covariances}
        parts.append(replace(release, mixture=m, method="populous-single", raw=raw, noise=noise, n_records=100_000))
    with pm.Model() as model:
        th = mixture_params("g", mixture, prior="weak")
        first, second = parts[0].observe(th, name="a"), parts[1].observe(th, name="b")
        both = model.replace_rvs_by_values([first, second])
        values = model.compile_fn(both, mode="FAST_COMPILE")(model.initial_point())
        assert values[0] == pytest.approx(values[1], rel=1e-9) and values[0] > -50
    with pm.Model(), pytest.raises(ValueError, match=r"th must have 2 components.* got 3"):
        parts[1].observe(parameters(k=3))


@pytest.mark.parametrize("method", ["populous", "populous-single"])
def test_three_masked_components_are_matched_from_any_order_with_the_errors_of_their_own_fits(release, method):
    weights, means, sds = [0.1, 0.3, 0.6], [[-9.0], [0.0], [9.0]], [[[1.0]], [[2.0]], [[0.5]]]
    mixture = dpg.Mixture(weights, means, sds)
    noise = {"law": "mask", "weight": 0.05, "mean": 0.05, "covariance": 0.05, "n_subsets": 100}
    if method == "populous":
        noise = {"law": "lifted-mask", "eta": 0.05, "kappa": 0.2, "n_subsets": 10, "subset_records": 100.0}
    values = []
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        m = mixture.permuted(order)
        raw = {"weights": m.weights, "means": m.means, "covariances": m.covariances}
        raw |= {"corners": np.array([0.9, 1.0, 1.2])[order]} if method == "populous" else {}
        shuffled = replace(release, mixture=m, method=method, raw=raw, noise=noise, n_records=10_000)
        with pm.Model() as model:
            term = shuffled.observe(mixture_params("g", mixture, prior="weak"), likelihood="exact")
            value = model.compile_fn(model.replace_rvs_by_values([term]), mode="FAST_COMPILE")
            values.append(value({"g_offset": np.linspace(-1, 1, 8)})[0])
    np.testing.assert_allclose(values[1:], values[0], rtol=1e-9)


@pytest.mark.parametrize("method", ["populous", "populous-single", "aggregate"])
def test_components_of_ones_own_are_matched_with_the_release_in_any_order(release, method):
    """By place the same mixture in another order would be as unlikely as a wrong one."""
    mixture = dpg.Mixture(
        [0.1, 0.3, 0.6], [[-9.0, 0.0], [0.0, 1.0], [9.0, 0.0]], np.array([1.0, 2.0, 0.5])[:, None, None] * np.eye(2)
    )
    raw = {"weights": mixture.weights, "means": mixture.means, "covariances": mixture.covariances}
    noise = {"law": "mask", "weight": 0.05, "mean": 0.05, "covariance": 0.05, "n_subsets": 100}
    if method == "populous":
        noise = {"law": "lifted-mask", "eta": 0.05, "kappa": 0.2, "n_subsets": 10, "subset_records": 100.0}
        raw |= {"corners": np.array([0.9, 1.0, 1.2])}
    if method == "aggregate":
        raw = {f"average_{name}": values for name, values in raw.items()} | {"offset_covariance": 0.01 * np.eye(17)}
        noise = {"statistic": "average of fits"}
    given = {"mixture": mixture, "method": method, "raw": raw, "noise": noise, "feature_names": ("a", "b")}
    masked = replace(release, n_records=10_000, **given)
    near = dpg.Mixture(mixture.weights, mixture.means + 0.1, 1.1 * mixture.covariances)
    values = []
    for order in ([0, 1, 2], [1, 2, 0], [2, 1, 0]):
        m = near.permuted(order)
        with pm.Model() as model:
            means = pm.Normal("means", 0, 10, shape=(3, 2))
            th = SimpleNamespace(weights=m.weights, means=means, chol=np.linalg.cholesky(m.covariances))
            (term,) = model.replace_rvs_by_values([masked.observe(th)])
            values.append(model.compile_fn(term, mode="FAST_COMPILE")({"means": m.means}))
            slopes = model.compile_dlogp(mode="FAST_COMPILE")({"means": m.means}).reshape(3, 2)
        values[-1] = np.append(values[-1], slopes[np.argsort(order)])
    assert np.isfinite(values).all() and values[0][0] > -200
    np.testing.assert_allclose(values[1:], [values[0]] * 2, rtol=1e-9)


def test_more_components_than_can_be_matched_are_warned_of(release):
    mixture = dpg.Mixture(np.full(8, 1 / 8), 5.0 * np.arange(8.0)[:, None], np.ones((8, 1, 1)))
    noise = {"law": "mask", "weight": 0.05, "mean": 0.05, "covariance": 0.05, "n_subsets": 100}
    raw = {"weights": mixture.weights, "means": mixture.means, "covariances": mixture.covariances}
    masked = replace(release, mixture=mixture, method="populous-single", raw=raw, noise=noise, n_records=10_000)
    with (
        pm.Model(),
        pytest.warns(UserWarning, match="takes component j of th to be component j") as told,
    ):
        masked.observe(SimpleNamespace(weights=mixture.weights, means=mixture.means, chol=np.ones((8, 1, 1))))
    assert told[0].filename == __file__


def test_a_release_is_used_once_in_a_model_and_those_inside_it(release):
    with pm.Model():
        th = parameters()
        with pm.Model(name="inner"):
            release.observe(th)
        with pytest.raises(ValueError, match="must be used once in a model"):
            release.observe(th, name="again")
