"""The elementwise mixture density: SciPy, finite differences, missing values, predictive draws."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray
from hypothesis import given, settings, strategies as st
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.special import logsumexp

import pm_dpgmm as dpg
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.bayes.rows.density import gmm, gmm_dist
from pm_dpgmm.bayes.rows.density_graph import marginal_factors
from pm_dpgmm.bayes.rows.labels import label_probs
from pm_dpgmm.bayes.rows.missing import patterns, read_rows
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")


def random_mixture(n_components, n_features, *, seed):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n_components, n_features, n_features))
    covariances = roots @ np.swapaxes(roots, 1, 2) + 0.2 * np.eye(n_features)
    weights = rng.dirichlet(np.full(n_components, 5.0))
    return Mixture(weights, rng.normal(scale=3, size=(n_components, n_features)), covariances)


def scipy_log_density(rows, mixture):
    """Row by row over the features that are present."""
    result = np.zeros(len(rows))
    for i, row in enumerate(rows):
        seen = np.flatnonzero(~np.isnan(row))
        if len(seen):
            logs = [
                np.log(w) + stats.multivariate_normal(m[seen], s[np.ix_(seen, seen)]).logpdf(row[seen])
                for w, m, s in zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
            ]
            result[i] = logsumexp(logs)
    return result


def with_holes(rows, *, seed):
    holes = rows.copy()
    holes[np.random.default_rng(seed).random(rows.shape) < 0.3] = np.nan
    holes[0] = np.nan  # nothing at all
    holes[1] = rows[1]
    return holes


def symbolic(mixture):
    k, d = mixture.means.shape
    return SimpleNamespace(
        weights=pt.vector("w", shape=(k,)), means=pt.matrix("m", shape=(k, d)), chol=pt.tensor3("c", shape=(k, d, d))
    )


def values(mixture):
    return [mixture.weights, mixture.means, np.linalg.cholesky(mixture.covariances)]


def row_logs(th, rows):
    """Elementwise log density of an observed gmm, symbolically."""
    with pm.Model() as model:
        return model.logp(gmm("y", th, observed=rows), sum=False)[0]


@pytest.mark.parametrize("k, d, seed", [(1, 1, 1), (3, 1, 2), (3, 2, 3), (2, 4, 4)])
def test_density_equals_scipy_with_and_without_missing_values(k, d, seed):
    mixture, th = random_mixture(k, d, seed=seed), symbolic(random_mixture(k, d, seed=seed))
    rows = mixture.sample(25, rng=np.random.default_rng(seed))
    for data in (rows, with_holes(rows, seed=seed)):
        inputs = [th.weights, th.means, th.chol]
        found = pytensor.function(inputs, row_logs(th, data), mode="FAST_COMPILE")(*values(mixture))
        np.testing.assert_allclose(found, scipy_log_density(data, mixture), rtol=0, atol=1e-10)


def test_gradient_equals_finite_differences_with_and_without_missing_values():
    mixture = random_mixture(2, 3, seed=5)
    th = symbolic(mixture)
    rows = mixture.sample(8, rng=np.random.default_rng(5))
    inputs, point = [th.weights, th.means, th.chol], values(mixture)
    for data in (rows, with_holes(rows, seed=6)):
        total = row_logs(th, data).sum()
        value = pytensor.function(inputs, total, mode="FAST_COMPILE")
        slopes = pytensor.function(inputs, pt.grad(total, inputs), mode="FAST_COMPILE")(*point)
        for part, slope in enumerate(slopes):
            for index in np.ndindex(slope.shape):
                if part == 2 and index[1] < index[2]:
                    assert slope[index] == 0  # above the diagonal of a factor
                    continue
                step = 1e-5
                ends = []
                for sign in (1, -1):
                    moved = [array.copy() for array in point]
                    moved[part][index] += sign * step
                    ends.append(value(*moved))
                np.testing.assert_allclose(slope[index], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["FAST_COMPILE", Mode(linker="py", optimizer="fast_run")])
def test_far_tails_are_finite_and_slopes_point_back(mode):
    mixture = Mixture([0.5, 0.5], [[0.0], [1.0]], [[[1.0]], [[1e-4]]])
    x = pt.matrix("x", shape=(3, 1))
    logs = pm.logp(gmm_dist(mixture, shape=(3, 1)), x)
    found, slope = pytensor.function([x], [logs, pt.grad(logs.sum(), x)], mode=mode)(
        np.array([[60.0], [-1e5], [1e140]])
    )
    np.testing.assert_allclose(found[:2], mixture.log_density([[60.0], [-1e5]]), rtol=1e-14)
    np.testing.assert_allclose(found[2], -0.5e280, rtol=1e-12)
    np.testing.assert_allclose(slope[:, 0], [-60.0, 1e5, -1e140], rtol=1e-12)


def test_a_density_that_underflows_or_a_weight_of_zero_is_no_nan():
    mixture = Mixture([1.0, 0.0], [[0.0], [5.0]], [[[1.0]], [[1.0]]])
    with np.errstate(divide="ignore", over="ignore"):
        found = pm.logp(gmm_dist(mixture, shape=(2, 1)), np.array([[1.0], [1e200]])).eval(mode="FAST_COMPILE")
    np.testing.assert_allclose(found[0], stats.norm.logpdf(1.0), rtol=1e-14)
    assert found[1] == -np.inf


@given(d=st.integers(1, 5), seed=st.integers(0, 10**6))
@settings(max_examples=examples(10))
def test_marginal_factors_are_those_of_the_marginal_covariances(d, seed):
    rng = np.random.default_rng(seed)
    mixture, present = random_mixture(2, d, seed=seed), rng.random((4, d)) < 0.6
    chol = pt.as_tensor(np.linalg.cholesky(mixture.covariances))
    lines = marginal_factors(chol, present)
    flat = iter(pytensor.function([], [entry for line in lines for entry in line], mode="FAST_COMPILE")())
    entries = [[next(flat) for _ in line] for line in lines]
    for p, seen in enumerate(present):
        for k in range(2):
            found = np.array([[entries[i][j][p, k] if j <= i else 0.0 for j in range(d)] for i in range(d)])
            expected = np.eye(d)
            if seen.any():
                columns = np.flatnonzero(seen)
                expected[np.ix_(columns, columns)] = np.linalg.cholesky(mixture.marginal(columns).covariances[k])
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_support_point_has_a_finite_density_and_initial_points_work():
    mixture = random_mixture(3, 2, seed=7)
    with pm.Model() as model:
        gmm("y", mixture, shape=(4, 2))
    start = model.initial_point()
    np.testing.assert_array_equal(start["y"], np.tile(mixture.means[np.argmax(mixture.weights)], (4, 1)))
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(start))
    assert np.isfinite(model.compile_dlogp(mode="FAST_COMPILE")(start)).all()


def test_predictive_draws_are_complete_rows_and_follow_the_mixture():
    mixture = random_mixture(3, 2, seed=8)
    rows = with_holes(mixture.sample(5, rng=np.random.default_rng(8)), seed=8)
    with pm.Model() as model:
        gmm("y", mixture, observed=rows, dims=("obs", "feature"))
    draws = pm.draw(model["y"], 4_000, random_seed=1, mode="FAST_COMPILE")
    assert draws.shape == (4_000, 5, 2) and np.isfinite(draws).all()
    for direction in ([1.0, 0.0], [1.0, 2.0]):
        centres, scales = mixture.means @ direction, np.sqrt(direction @ mixture.covariances @ direction)

        def cdf(x, centres=centres, scales=scales):
            return stats.norm.cdf((x[:, None] - centres) / scales) @ mixture.weights

        assert stats.kstest(draws.reshape(-1, 2) @ direction, cdf).pvalue > 1e-5  # false alarm 2e-5 over both


def test_missing_values_stay_missing_in_the_model_and_nothing_is_imputed():
    mixture = random_mixture(2, 2, seed=9)
    rows = with_holes(mixture.sample(4, rng=np.random.default_rng(9)), seed=9)
    with pm.Model() as model:
        gmm("y", mixture, observed=rows, dims=("obs", "feature"))
        idata = pm.sample_prior_predictive(3, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    assert model.free_RVs == [] and set(model.dim_lengths) == {"obs", "feature"}
    np.testing.assert_array_equal(idata["observed_data"]["y"].to_numpy(), rows)
    assert idata["prior_predictive"]["y"].dims == ("chain", "draw", "obs", "feature")


@pytest.mark.parametrize("kind", ["masked", "pandas", "pandas Float64", "polars", "Dask", "list"])
def test_every_kind_of_missing_value_is_read(kind):
    expected = np.array([[1.0, np.nan], [3.0, 4.0]])
    data = {
        "masked": np.ma.masked_invalid(expected),
        "pandas": pd.DataFrame(expected, columns=["a", "b"]),
        "pandas Float64": pd.DataFrame({"a": [1.0, 3.0], "b": [None, 4.0]}).astype("Float64"),
        "polars": pl.DataFrame({"a": [1.0, 3.0], "b": [None, 4.0]}),
        "Dask": dask.dataframe.from_pandas(pd.DataFrame(expected, columns=["a", "b"]), npartitions=2),
        "list": expected.tolist(),
    }[kind]
    rows, columns = read_rows(data)
    np.testing.assert_array_equal(rows, expected)
    assert columns == (("a", "b") if kind not in ("masked", "list") else None)


def test_masks_within_lists_are_refused_and_not_dropped():
    with pytest.raises(TypeError, match="observed must be plain numbers or one masked array"):
        read_rows([np.ma.masked_array([1.0, 9.0], mask=[False, True]), [2.0, 3.0]])


@given(rows=st.lists(st.lists(st.sampled_from([1.0, np.nan]), min_size=3, max_size=3), min_size=1, max_size=12))
def test_patterns_are_different_and_give_back_what_is_present(rows):
    present, which = patterns(np.array(rows))
    np.testing.assert_array_equal(present[which], ~np.isnan(rows))
    assert len(np.unique(present, axis=0)) == len(present)


@pytest.mark.parametrize(
    "observed, error, message",
    [
        ([1.0, 2.0], ValueError, r"observed must have shape \(n_rows, n_features\), got \(2,\)"),
        ([[1.0, 2.0, 3.0]], ValueError, "observed must have 2 columns, one for each feature, got 3"),
        ([[np.inf, 1.0]], ValueError, "observed must hold finite numbers"),
        ([["a", "b"]], TypeError, "observed must be numeric"),
        ([[0, -(10**400)]], TypeError, "observed must be numeric"),
        (np.empty((0, 2)), ValueError, "observed must have shape"),
    ],
)
def test_wrong_data_are_named(observed, error, message):
    with pm.Model(), pytest.raises(error, match=message):
        gmm("y", random_mixture(2, 2, seed=1), observed=observed)


def test_wrong_parameters_and_dims_are_named():
    mixture = random_mixture(2, 2, seed=1)
    rows = np.zeros((3, 2))
    with pm.Model(coords={"obs": range(4), "feature": ["a", "b"]}):
        with pytest.raises(TypeError, match="th must have weights, means and chol"):
            gmm("y", {"weights": [1.0]}, observed=rows)
        with pytest.raises(ValueError, match="dimension 'obs' must have length 3, got 4"):
            gmm("y", mixture, observed=rows, dims=("obs", "feature"))
        with pytest.raises(ValueError, match="dims must be two names"):
            gmm("y", mixture, observed=rows, dims="obs")
        swapped = pd.DataFrame(rows, columns=["b", "a"])
        with pytest.raises(ValueError, match=r"coordinates of 'feature' must be in the order \('b', 'a'\)"):
            gmm("y", mixture, observed=swapped, dims=("row", "feature"))
        with pytest.raises(ValueError, match="means of th must have 2 dimensions, got 1"):
            gmm("y", SimpleNamespace(weights=[1.0], means=[0.0], chol=[[[1.0]]]), observed=rows)
    with pm.Model(), pytest.raises(ValueError, match="dims without data must be in the model"):
        gmm("y", mixture, dims=("obs", "feature"))


def test_a_release_like_object_and_shared_data_are_accepted_and_dist_is_the_twin():
    mixture = random_mixture(2, 2, seed=2)
    rows = mixture.sample(3, rng=np.random.default_rng(2))
    expected = mixture.log_density(rows)
    with pm.Model() as model:
        gmm(
            "y",
            SimpleNamespace(weights=mixture.weights, means=mixture.means, covariances=mixture.covariances),
            observed=pm.Data("data", rows),
        )
    np.testing.assert_allclose(model.compile_logp(mode="FAST_COMPILE")({}), expected.sum(), rtol=1e-12)
    assert dpg.gmm is gmm and gmm.dist is gmm_dist


OTHER_TABLES = {
    "swapped": lambda frame: frame[["weight", "height"]],
    "one other": lambda frame: frame.rename(columns={"height": "b"}),
    "twice": lambda frame: frame.set_axis(["height", "height"], axis=1),
    "numbered": lambda frame: frame.set_axis([0, 1], axis=1),
    "polars": lambda frame: pl.from_pandas(frame[["weight", "height"]]),
    "arrow": lambda frame: pa.Table.from_pandas(frame[["weight", "height"]]),
    "arrow, others": lambda frame: pa.Table.from_pandas(frame.set_axis(["a", "b"], axis=1)),
    "batch": lambda frame: pa.RecordBatch.from_pandas(frame[["weight", "height"]]),
}


@pytest.mark.parametrize("kind", OTHER_TABLES)
def test_rows_in_tables_with_other_columns_are_refused_wherever_names_are_known(kind):
    frame = pd.DataFrame([[0.1, 4.0], [0.2, 3.0]], columns=["height", "weight"])
    other = OTHER_TABLES[kind](frame)
    g = Mixture([1.0], [[0.0, 4.0]], [np.eye(2)])
    named = SimpleNamespace(weights=g.weights, means=g.means, chol=[np.eye(2)], feature_names=("height", "weight"))
    dims = ("chain", "draw", "component", "feature", "feature_bis")
    parts = {"weights": g.weights, "means": g.means, "covariances": g.covariances}
    draws = xarray.Dataset(
        {name: (dims[: part.ndim + 2], part[None, None]) for name, part in parts.items()},
        coords={"feature": ["height", "weight"]},
    )
    with pm.Model(coords={"feature": ["height", "weight"]}):
        for call in (
            lambda rows: gmm("y", named, observed=rows),
            lambda rows: gmm("z", g, observed=rows, dims=("obs", "feature")),
            lambda rows: label_probs(draws, rows),
        ):
            with pytest.raises(ValueError, match=r"must have|must be"):
                call(other)
            call(pa.Table.from_pandas(frame))
    assert label_probs(draws.drop_vars("feature"), other).shape == (2, 1)  # no names to compare with


def test_columns_in_another_order_than_the_features_are_refused():
    frame = pd.DataFrame([[0.1, 4.0], [0.2, 3.0]], columns=["weight", "height"])
    g = Mixture([1.0], [[0.0, 4.0]], [np.eye(2)])
    scales = {"weight_conc": 10.0, "mean_scale": 0.1, "cov_scale": 0.1}
    with pm.Model():
        th = mixture_params("g", g, feature_names=("height", "weight"), **scales)
        with pytest.raises(ValueError, match=r"observed must have its columns in the order \('height'"):
            gmm("y", th, observed=frame)
        gmm("z", th, observed=frame[["height", "weight"]])
        with pytest.raises(ValueError, match=r"observed must have the columns \('height', 'weight'\)"):
            gmm("other", th, observed=frame.set_axis(["a", "b"], axis=1))
    dims = ("chain", "draw", "component", "feature", "feature_bis")
    draws = xarray.Dataset(
        {
            "weights": (dims[:3], np.ones((1, 1, 1))),
            "means": (dims[:4], np.zeros((1, 1, 1, 2))),
            "covariances": (dims, np.eye(2)[None, None, None]),
        },
        coords={"feature": ["height", "weight"]},
    )
    with pytest.raises(ValueError, match=r"X must have its columns in the order \('height', 'weight'\)"):
        label_probs(draws, frame)
    named = label_probs(draws, frame[["height", "weight"]].set_axis([f"p{i}" for i in range(len(frame))]))
    assert named.coords["obs"].values.tolist() == [f"p{i}" for i in range(len(frame))]


@pytest.mark.parametrize("dims", [("obs", "lab"), None])
@pytest.mark.parametrize("source", ["names", "coordinates"])
def test_data_variables_with_columns_in_another_order_are_refused(dims, source):
    """By the model's coordinates: the columns were swapped in silence."""
    g = Mixture([1.0], [[0.0, 4.0]], [np.eye(2)])
    with pm.Model(coords={"lab": ["weight", "height"], "feature": ["height", "weight"], "component": [0]}) as model:
        if source == "names":
            th = SimpleNamespace(weights=[1.0], means=g.means, chol=[np.eye(2)], feature_names=("height", "weight"))
        else:
            means = pm.Normal("mu", g.means, 1.0, dims=("component", "feature"))
            th = SimpleNamespace(weights=[1.0], means=means, chol=[np.eye(2)])
        swapped = pm.Data("swapped", [[4.0, 0.1]], dims=("obs", "lab"))
        data = pm.Data("data", [[0.1, 4.0]], dims=("obs", "feature"))
        with pytest.raises(ValueError, match=r"observed must have its columns in the order \('height', 'weight'\)"):
            gmm("y", th, observed=swapped, dims=dims)
        with pytest.raises(ValueError, match="coordinates of 'lab' must"):
            gmm("y", th, dims=("obs", "lab"))
        if source == "coordinates":
            frame = pd.DataFrame([[4.0, 0.1]], columns=["weight", "height"])
            with pytest.raises(ValueError, match="observed must have its columns in the order"):
                gmm("y", th, observed=frame)
        gmm("y", th, observed=data, dims=None if dims is None else ("obs", "feature"))
    assert "y" in model.named_vars


def test_rows_of_a_release_have_its_density_background_and_all():
    broad, mixture = Mixture([1.0], [[5.0]], [[[40.0]]]), random_mixture(2, 1, seed=3)
    X = np.random.default_rng(3).normal(size=(300, 1))
    release = dpg.fit_gmm(X, 1, epsilon=1.0, delta=1e-6, bounds=(-9, 9), random_seed=1, progress=False)
    release = replace(release, mixture=mixture, background_weight=0.2, background=broad)
    rows = np.array([[0.0], [4.0], [30.0]])
    expected = np.logaddexp(np.log(0.8) + mixture.log_density(rows), np.log(0.2) + broad.log_density(rows)).sum()
    with pm.Model() as model:
        gmm("y", release, observed=rows)
    np.testing.assert_allclose(model.compile_logp(mode="FAST_COMPILE")({}), expected, rtol=1e-12)
