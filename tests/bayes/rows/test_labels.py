"""Relabelling draws to a release, and posterior label probabilities."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from hypothesis import given, settings, strategies as st
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.bayes import arviz_compat
from pm_dpgmm.bayes.rows import labels as module
from pm_dpgmm.bayes.rows.labels import label_probs, relabel
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.examples import examples

MIXTURE = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0], [3.0, 1.0], [-1.0, 3.5]],
    [np.eye(2), [[0.6, 0.2], [0.2, 0.5]], [[0.8, -0.3], [-0.3, 0.6]]],
)


def posterior(*, n_chains=2, n_draws=5, seed=0, jitter=0.1):
    """Draws near the mixture with correct labels."""
    rng = np.random.default_rng(seed)
    shape, k, d = (n_chains, n_draws), 3, 2
    weights = MIXTURE.weights * np.exp(jitter * rng.normal(size=(*shape, k)))
    inner = np.linalg.cholesky(MIXTURE.covariances) @ (np.eye(d) + jitter * rng.normal(size=(*shape, k, d, d)))
    dims = ("chain", "draw", "component", "feature", "feature_bis")
    return xr.Dataset(
        {
            "g_weights": (dims[:3], weights / weights.sum(axis=-1, keepdims=True)),
            "g_means": (dims[:4], MIXTURE.means + jitter * rng.normal(size=(*shape, k, d))),
            "g_covariances": (dims, inner @ np.swapaxes(inner, -1, -2)),
            "shares": (("chain", "draw", "site", "component"), rng.random((*shape, 4, k))),
            "g_offset": (("chain", "draw", "p"), rng.random((*shape, 17))),
        },
        coords={"component": ["a", "b", "c"], "feature": ["x", "y"]},
    )


def shuffled(draws, orders):
    """Draws whose components are permuted, a permutation for every draw (chain, draw, K)."""
    result = draws.copy(deep=True)
    for chain, draw in np.ndindex(orders.shape[:2]):
        for name in draws:
            if "component" in draws[name].dims:
                axis = draws[name].dims.index("component") - 2
                values = np.take(draws[name].values[chain, draw], orders[chain, draw], axis=axis)
                result[name].values[chain, draw] = values
    return result


@given(seed=st.integers(0, 10**6))
@settings(max_examples=examples(20))
def test_relabel_undoes_any_permutation_of_every_variable_with_components(seed):
    draws = posterior(seed=seed % 7)
    orders = np.random.default_rng(seed).permuted(np.tile(np.arange(3), (2, 5, 1)), axis=2)
    mixed = shuffled(draws, orders)
    before = mixed.copy(deep=True)
    found = relabel(mixed, to=MIXTURE)
    xr.testing.assert_equal(found, draws)
    xr.testing.assert_identical(mixed, before)
    assert found.attrs["relabelled_draws"] == (orders != np.arange(3)).any(axis=2).sum()


def test_the_assignment_is_the_best_of_all():
    draws = posterior(n_draws=40, jitter=2.0, seed=3)
    found = relabel(draws[["g_means"]], to=MIXTURE)["g_means"].values.reshape(-1, 3, 2)
    precisions = np.linalg.inv(MIXTURE.covariances)

    def cost(means):
        gaps = means - MIXTURE.means
        return np.einsum("ki,kij,kj->", gaps, precisions, gaps)

    assert relabel(draws[["g_means"]], to=MIXTURE).attrs["relabelled_draws"] > 10
    for means in found:
        others = [cost(means[list(order)]) for order in itertools.permutations(range(3))]
        np.testing.assert_allclose(cost(means), min(others), rtol=1e-12)


def test_covariances_tell_components_with_equal_means_apart():
    nested = Mixture([0.5, 0.5], [[0.0], [0.0]], [[[1.0]], [[100.0]]])
    dims = ("chain", "draw", "component", "feature", "other")
    draws = xr.Dataset(
        {"means": (dims[:4], np.array([[[[0.1], [-0.1]]]])), "covariances": (dims, [[[[[90.0]], [[1.1]]]]])}
    )
    assert relabel(draws, to=nested)["covariances"].values.ravel().tolist() == [1.1, 90.0]


@pytest.mark.parametrize("kind", ["InferenceData", "DataTree"] if "InferenceData" in vars(az) else ["DataTree"])
def test_both_kinds_of_inference_data_keep_their_other_groups(kind, monkeypatch):
    if kind == "DataTree":
        monkeypatch.delitem(vars(az), "InferenceData", raising=False)
    draws = posterior()
    mixed = shuffled(draws, np.tile([2, 0, 1], (2, 5, 1)))
    idata = arviz_compat.inference_data({"note": 1}, posterior=mixed, prior=draws)
    found = dpg.relabel(idata, to=SimpleNamespace(mixture=MIXTURE))
    assert type(found).__name__ == kind and found.attrs["note"] == 1
    xr.testing.assert_equal(arviz_compat.posterior_of(found), draws)
    xr.testing.assert_equal(arviz_compat.group_of(found, "prior"), draws)
    np.testing.assert_allclose(dpg.label_probs(found, MIXTURE.means), label_probs(draws, MIXTURE.means))


def test_label_probabilities_equal_bayes_rule_with_missing_values():
    draws = posterior(seed=5)
    rows = np.array([[0.5, 1.0], [np.nan, 3.0], [2.5, np.nan], [np.nan, np.nan], [300.0, -200.0]])
    found = label_probs(draws, np.ma.masked_invalid(rows))
    assert found.dims == ("obs", "component") and found.coords["component"].values.tolist() == ["a", "b", "c"]
    expected = np.zeros((5, 3))
    weights, means, covariances = (
        draws[f"g_{name}"].values.reshape(10, *draws[f"g_{name}"].shape[2:])
        for name in ("weights", "means", "covariances")
    )
    for w, m, s in zip(weights, means, covariances, strict=True):
        for i, row in enumerate(rows):
            seen = np.flatnonzero(~np.isnan(row))
            logs = np.log(w)
            if len(seen):
                logs = logs + [
                    stats.multivariate_normal(m[k][seen], s[k][np.ix_(seen, seen)]).logpdf(row[seen]) for k in range(3)
                ]
            expected[i] += np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum() / 10
    np.testing.assert_allclose(found.values, expected, atol=1e-10)
    np.testing.assert_allclose(found.sum("component"), 1, atol=1e-12)


def test_many_rows_are_taken_in_blocks(monkeypatch):
    draws, rows = posterior(), MIXTURE.sample(50, rng=np.random.default_rng(1))
    whole = label_probs(draws, rows)
    monkeypatch.setattr(module, "BLOCK", 100)
    np.testing.assert_allclose(label_probs(draws, rows), whole)


def test_users_names_are_taken_and_wrong_ones_are_named():
    draws = posterior().rename(g_means="mu", g_weights="w", g_covariances="S", component="cluster")
    rows = np.zeros((1, 2))
    names = {"means": "mu", "covariances": "S", "dim": "cluster"}
    assert relabel(draws, MIXTURE, **names).attrs["relabelled_draws"] == 0
    assert label_probs(draws, rows, weights="w", **names).shape == (1, 3)
    with pytest.raises(ValueError, match="means must name a variable with dimension"):
        relabel(draws, MIXTURE)
    with pytest.raises(ValueError, match="means must name a variable of the posterior, got 'nu'"):
        relabel(draws, MIXTURE, means="nu", dim="cluster")
    with pytest.raises(ValueError, match=r"w must have 4 dimensions, chain, draw and .cluster."):
        relabel(draws, MIXTURE, means="w", dim="cluster")
    with pytest.raises(TypeError, match="to must be a Release or a Mixture, got None"):
        relabel(posterior(), None)
    with pytest.raises(ValueError, match=r"g_means must have shape \(chain, draw, 1, 1\)"):
        relabel(posterior(), Mixture([1.0], [[0.0]], [[[1.0]]]))
    two = posterior().assign(h_means=posterior()["g_means"])
    with pytest.raises(ValueError, match="found more than one, g_means, h_means"):
        relabel(two, MIXTURE)
    with pytest.raises(ValueError, match="X must have 2 columns, one for each feature, got 1"):
        label_probs(posterior(), [[1.0]])
    with pytest.raises(TypeError, match="X must be numeric"):
        label_probs(posterior(), [["a", "b"]])


@pytest.mark.thorough
def test_rows_too_far_for_a_float_have_the_weights():
    dims = ("chain", "draw", "component", "feature", "feature_bis")
    parts = {"weights": (dims[:3], [[[0.3, 0.7]]]), "means": (dims[:4], [[[[0.0], [4.0]]]])}
    draws = xr.Dataset(parts | {"covariances": (dims, [[[[[1.0]], [[1.0]]]]])})
    assert label_probs(draws, [[1e200]]).values == pytest.approx(np.array([[0.3, 0.7]]))


@pytest.mark.parametrize("weights", [[-0.5, 1.5], [0.5, 0.6]])
def test_weights_that_are_no_probabilities_are_refused(weights):
    dims = ("chain", "draw", "component", "feature", "feature_bis")
    draws = xr.Dataset(
        {
            "weights": (dims[:3], [[weights]]),
            "means": (dims[:4], [[[[0.0], [4.0]]]]),
            "covariances": (dims, [[[[[1.0]], [[1.0]]]]]),
        }
    )
    with pytest.raises(ValueError, match="weights must not be negative and must sum to 1 in every draw"):
        label_probs(draws, [[0.0]])


@pytest.mark.thorough
def test_draws_whose_features_are_in_another_order_than_those_of_the_release_are_refused():
    X = np.random.default_rng(1).normal([0.0, 50.0], [1.0, 5.0], (4000, 2))
    release = dpg.fit_gmm(pd.DataFrame(X, columns=["a", "b"]), 1, epsilon=1.0, delta=1e-6, random_seed=1)
    with pm.Model():
        th = release.params("g")
        x = release.prior("x", dims="feature")
        draws = pm.draw([th.weights, th.means, th.covariances, x], 100, random_seed=1)
    dims = ("chain", "draw", "component", "feature", "feature_bis")
    posterior = xr.Dataset(
        {
            name: (dims[: part.ndim + 1], part[None])
            for name, part in zip(("g_weights", "g_means", "g_covariances"), draws[:3], strict=True)
        }
        | {"x": (("chain", "draw", "feature"), draws[3][None])},
    )
    readers = {
        "g_means": (lambda idata: dpg.relabel(idata, to=release), release.check_fit),
        "x": (lambda idata: dpg.check_modes(idata, release, name="x", random_seed=1),),
    }
    for name, calls in readers.items():
        for call in calls:
            for fine in (None, ["a", "b"], [0, 1], ["A", "B"]):
                call(posterior if fine is None else posterior.assign_coords(feature=fine))
            with pytest.raises(ValueError, match=rf"{name} must have its columns in the order \('a', 'b'\)"):
                call(posterior.assign_coords(feature=["b", "a"]))
    with pm.Model(), pytest.raises(ValueError, match=r"th must have its columns in the order \('a', 'b'\)"):
        release.observe(replace(th, feature_names=("b", "a")))


def test_releases_of_other_features_do_not_share_a_dimension():
    """The pulse of the second one was called the diastolic pressure of the first."""
    first, second = (
        dpg.fit_gmm(
            pd.DataFrame(np.random.default_rng(1).normal(size=(400, 2)), columns=list(names)), 1, epsilon=1.0,
            bounds=(-5, 5), random_seed=1, progress=False,
        )
        for names in (("sys", "dia"), ("dia", "pulse"))
    )  # fmt: skip
    with pm.Model() as model:
        th = first.params("g", prior="weak")
        with pytest.raises(ValueError, match="other features need a dimension of their own"):
            second.params("h")
        with pytest.raises(ValueError, match=r"th must have its columns in the order \('dia', 'pulse'\)"):
            second.observe(th)
        second.params("h", dims=("h_component", "h_feature"))
    assert tuple(model.coords["feature"]) == ("sys", "dia") and tuple(model.coords["h_feature"]) == ("dia", "pulse")


def test_arrays_of_a_release_get_its_names():
    release = dpg.fit_gmm(
        pd.DataFrame(np.random.default_rng(1).normal(size=(400, 2)), columns=["sys", "dia"]), 2, epsilon=1.0,
        bounds=(-5, 5), random_seed=1, progress=False,
    )  # fmt: skip
    with pm.Model() as model:
        dpg.gmm("y", release, observed=np.zeros((3, 2)), dims=("row", "feature"))
    assert tuple(model.coords["feature"]) == ("sys", "dia")
    with pm.Model(coords={"feature": ["dia", "sys"]}), pytest.raises(ValueError, match="must be in the order"):
        dpg.gmm("y", release, observed=np.zeros((3, 2)), dims=("row", "feature"))
