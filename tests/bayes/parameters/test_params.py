"""Anchored and weak priors of mixture parameters: the release at offset 0, scales from its noise, one use in a model."""

from __future__ import annotations

import json
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import pm_dpgmm as dpg
from pm_dpgmm.bayes import registry
from pm_dpgmm.bayes.parameters.anchor import (
    Anchor,
    mixture_at,
    offsets_of,
    plain_anchor,
    weak_deviations,
    with_scales,
)
from pm_dpgmm.bayes.parameters.anchor_laws import anchor_of, anchor_separation
from pm_dpgmm.bayes.parameters.count_information import count_information
from pm_dpgmm.bayes.parameters.params import GMMParams, mixture_params
from pm_dpgmm.methods.counts.noisy_poisson import count_log_likelihood
from pm_dpgmm.mixture.cell_probabilities import exact_cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.curves import PointProfile
from pm_dpgmm.privacy.guarantee import Guarantee, Neighbouring
from tests.builders.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

TRUTH = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0], [3.0, 1.0], [-1.0, 3.5]],
    [np.eye(2), [[0.6, 0.2], [0.2, 0.5]], [[0.8, -0.3], [-0.3, 0.6]]],
)
LINE = Mixture([0.6, 0.4], [[0.0], [5.0]], [[[1.0]], [[0.5]]])


@pytest.fixture(scope="module")
def sketch():
    records = LINE.sample(4_000, rng=np.random.default_rng(1))
    return dpg.fit_gmm(records, 2, epsilon=1.0, delta=1e-6, bounds=(-8, 12), random_seed=1, progress=False)


def masked_release(law, *, mixture=TRUTH, n_records=90_000, method="populous"):
    """A release that says it was masked: no fit is needed for the law of its offsets."""
    guarantee = Guarantee(1.0, 1e-6, Neighbouring.REPLACE_ONE, "test", PointProfile(1.0, 1e-6))
    raw = {"weights": mixture.weights, "means": mixture.means, "covariances": mixture.covariances}
    names = tuple(f"x{j}" for j in range(mixture.n_features))
    settings_ = {"n_subsets": 300} if method == "populous-single" else {}
    return dpg.Release(mixture, guarantee, method, settings_, raw, law, names, n_records)


LIFTED = {"law": "lifted-mask", "eta": 0.05, "kappa": 0.2, "n_subsets": 300, "subset_records": 300.0}


def variables(th, offsets):
    """Weights, means, covariances and factors at a value of the offset variable."""
    offset = pm.modelcontext(None)[f"{th.name}_offset"]
    parts = [th.weights, th.means, th.covariances, th.chol]
    return pytensor.function([offset], parts, mode="FAST_COMPILE")(offsets)


# ------------------------------------------------------------------ coordinates
@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), d=st.integers(1, 4))
@settings(max_examples=examples(40))
def test_offsets_and_mixtures_are_inverse_to_each_other(seed, k, d):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, k, d, d))
    covariances = roots @ np.swapaxes(roots, -1, -2) + 0.3 * np.eye(d)
    one, two = (Mixture(rng.dirichlet(np.full(k, 3.0)), rng.normal(scale=5, size=(k, d)), s) for s in covariances)
    offsets = offsets_of(one, two)
    back = mixture_at(offsets, two)
    np.testing.assert_allclose(back.weights, one.weights, atol=1e-12)
    np.testing.assert_allclose(back.means, one.means, atol=1e-10)
    np.testing.assert_allclose(back.covariances, one.covariances, atol=1e-10)
    np.testing.assert_allclose(offsets_of(back, two), offsets, atol=1e-8)
    assert not offsets_of(two, two).round(12).any()


@pytest.mark.parametrize("prior", ["anchored", "weak"])
def test_symbolic_parameters_equal_those_in_numpy_and_zero_is_the_release(prior):
    release = masked_release(LIFTED)
    with pm.Model():
        th = release.params("g", prior=prior)
        root = anchor_of(release).root
        for offsets in (np.zeros(17), np.random.default_rng(1).normal(size=17)):
            expected = mixture_at(root @ offsets, TRUTH)
            weights, means, covariances, chol = variables(th, offsets)
            np.testing.assert_allclose(weights, expected.weights, atol=1e-12)
            np.testing.assert_allclose(means, expected.means, atol=1e-12)
            np.testing.assert_allclose(covariances, expected.covariances, atol=1e-12)
            np.testing.assert_allclose(chol, np.linalg.cholesky(expected.covariances), atol=1e-12)


def test_a_weight_of_zero_is_lifted_and_everything_is_finite():
    empty = Mixture([0.7, 0.3, 0.0], TRUTH.means, TRUTH.covariances)
    release = masked_release(LIFTED, mixture=empty)
    with pm.Model() as model:
        th = release.params("g")
        weights = variables(th, np.zeros(17))[0]
    np.testing.assert_allclose(weights, [0.7, 0.3, 0.0], atol=1e-3)
    assert weights.min() > 0
    start = model.initial_point()
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(start))
    assert np.isfinite(model.compile_dlogp(mode="FAST_COMPILE")(start)).all()


# ------------------------------------------------------------------ laws
def test_scales_of_a_sketch_are_its_standard_errors(sketch):
    anchor, errors = anchor_of(sketch), sketch.standard_errors()
    np.testing.assert_allclose(np.sqrt(np.diag(anchor.weight_covariance())), errors.weights, rtol=1e-5)
    deviations = np.sqrt(sketch.covariances[:, 0, 0])
    scales = np.sqrt(np.diag(anchor.covariance))
    np.testing.assert_allclose(scales[anchor.blocks[1]] * deviations, errors.means[:, 0], rtol=1e-5)
    np.testing.assert_allclose(scales[anchor.blocks[2]] * deviations, errors.standard_deviations[:, 0], rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["populous", "populous-single"])
def test_scales_of_a_mask_are_those_of_simulated_masks(method):
    """Mask and sampling simulated by the mechanisms; standard deviations within 5 % (3,000 draws: 1.3 % each)."""
    from pm_dpgmm.mechanisms.lifted_mask import LiftedMaskNoise, lifted_mask, mixture_of_lifted
    from pm_dpgmm.mechanisms.masks import MaskNoise, mask_mixture
    from pm_dpgmm.methods.populous_single.method import valid_mixture

    rng, n = np.random.default_rng(3), 2_000
    if method == "populous":
        noise = LiftedMaskNoise(0.05, 0.2)
        law = LIFTED | {"n_subsets": 10, "subset_records": n / 10}
    else:
        noise = MaskNoise(0.02, 0.05, 0.05)
        law = {"law": "mask", "weight": 0.02, "mean": 0.05, "covariance": 0.05}
    release = masked_release(law, n_records=300 * n if method == "populous-single" else n, method=method)
    found = []
    for _ in range(3_000):
        counts = rng.multinomial(n, TRUTH.weights)
        shifts = rng.normal(size=(3, 2)) / np.sqrt(counts)[:, None]
        factors = np.linalg.cholesky(TRUTH.covariances)
        bartlett = np.zeros((3, 2, 2))  # factors of Wishart matrices
        bartlett[:, 0, 0], bartlett[:, 1, 1] = np.sqrt(rng.chisquare(counts - 1)), np.sqrt(rng.chisquare(counts - 2))
        bartlett[:, 1, 0] = rng.normal(size=3)
        inner = factors @ bartlett / np.sqrt(counts)[:, None, None]
        means = TRUTH.means + (factors @ shifts[..., None])[..., 0]
        fit = Mixture(counts / n, means, inner @ inner.swapaxes(1, 2))
        if method == "populous":
            raw = lifted_mask(fit.weights, fit.means, inner, np.ones(3), noise=noise, rng=rng)
            masked = mixture_of_lifted(raw, noise=noise)
        else:
            masked = valid_mixture(mask_mixture(fit, noise=noise, rng=rng), noise)
        order = np.argmin(((masked.means - TRUTH.means[:, None]) ** 2).sum(axis=2), axis=1)
        found.append(offsets_of(TRUTH, masked.permuted(order)))
    expected = np.sqrt(np.diag(anchor_of(release).covariance))
    np.testing.assert_allclose(np.std(found, axis=0), expected, rtol=0.05)


@pytest.mark.thorough
def test_scales_of_a_histogram_are_those_of_repeated_fits():
    """60 fits to fresh noisy counts: standard deviations within a factor of 1.45 (4.2 standard errors of 0.09)."""
    from pm_dpgmm.methods.counts.histogram_fit import fit_counts

    release = dpg.fit_gmm(
        LINE.sample(3_000, rng=np.random.default_rng(2)),
        2,
        epsilon=1.0,
        bounds=(-8, 12),
        method="histogram",
        random_seed=2,
        progress=False,
    )
    rng, scale = np.random.default_rng(4), release.noise["scale"]
    found = []
    for _ in range(60):
        counts = np.histogram(LINE.sample(3_000, rng=rng)[:, 0], bins=64, range=(-8, 12))[0]
        noisy = counts + rng.geometric(-np.expm1(-1 / scale), 64) - rng.geometric(-np.expm1(-1 / scale), 64)
        fit = fit_counts(noisy, release.raw["bounds"], 2, noise_scale=scale, progress=lambda *_: None)
        found.append(offsets_of(LINE, fit.permuted(np.argsort(fit.means[:, 0]))))
    near = Mixture(LINE.weights, LINE.means, LINE.covariances)
    from pm_dpgmm.bayes.parameters.count_information import histogram_covariance

    ratio = np.std(found, axis=0) / np.sqrt(np.diag(histogram_covariance(release, near)))
    assert (ratio < 1.45).all() and (ratio > 1 / 1.45).all(), ratio


def test_scales_of_a_narrow_component_are_those_of_exact_bins(monkeypatch):
    """Bins are cut into points where a component is narrow: whole bins would make some of these a quarter too wide."""
    from pm_dpgmm.bayes.parameters import count_information

    records = np.random.default_rng(2).multivariate_normal([0.3, -0.2], [[1.0, 0.99], [0.99, 1.0]], size=3_000)
    bounds = np.array([[-10.0, 10.0]] * 2)
    release = dpg.fit_gmm(records, 1, epsilon=1.0, bounds=bounds, method="histogram", random_seed=2, progress=False)
    found = count_information.histogram_covariance(release, release.mixture)
    exact = lambda near, bounds, n_cells, fineness: exact_cell_probabilities(near, bounds, n_cells)  # noqa: E731
    monkeypatch.setattr(count_information, "chances_of_bins", exact)
    wanted = count_information.histogram_covariance(release, release.mixture)
    np.testing.assert_allclose(np.sqrt(np.diag(found)), np.sqrt(np.diag(wanted)), rtol=0.02)


@pytest.mark.parametrize("scale", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("expected", [1e-3, 1.0, 40.0, 3_000.0])
def test_information_of_a_count_is_the_variance_of_its_score(expected, scale):
    counts = np.arange(-1500.0, expected + 1500)
    logs, slopes = count_log_likelihood(counts, np.full(len(counts), expected), noise_scale=scale)
    shares = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    np.testing.assert_allclose((shares * slopes).sum(), 0, atol=1e-8)
    found = count_information(np.array([expected]), noise_scale=scale)
    np.testing.assert_allclose(found, (shares * slopes**2).sum(), rtol=0.03)


def test_scales_that_nothing_is_known_of_must_be_given_and_are_never_wider_than_the_weak_prior():
    unknown = masked_release({"law": "discrete Laplace", "statistic": "slice counts"}, method="slices")
    with pytest.raises(ValueError, match="must be numbers for a release of method 'slices', got 'auto'"):
        anchor_of(unknown)
    with pm.Model():
        th = unknown.params("g", weight_conc=50.0, mean_scale=[0.1, 0.2, 0.3], cov_scale=0.1)
        unknown.params("h", prior="weak")
    np.testing.assert_allclose(th.anchor.typical()["means"], [0.1, 0.2, 0.3])
    loud = masked_release(LIFTED | {"eta": 30.0})
    deviations = np.sqrt(np.diag(anchor_of(loud).covariance))
    np.testing.assert_allclose(deviations[2:], weak_deviations(TRUTH)[2:], rtol=1e-6)
    private = masked_release(LIFTED | {"subset_records": None}, n_records=None)
    with pytest.raises(ValueError, match="the number of records is private"):
        anchor_of(private)


def test_given_scales_have_the_stated_variances():
    anchor = with_scales(
        Anchor(TRUTH, np.eye(17) + 0.2, "own"), weight_conc=99.0, mean_scale=0.3, cov_scale=[0.1, 0.2, 0.4]
    )
    w = TRUTH.weights
    np.testing.assert_allclose(anchor.weight_covariance(), (np.diag(w) - np.outer(w, w)) / 100, atol=1e-12)
    np.testing.assert_allclose(np.diag(anchor.covariance)[anchor.blocks[1]], 0.09)
    entries = np.diag(anchor.covariance)[anchor.blocks[2]].reshape(3, 3)
    np.testing.assert_allclose(entries, np.outer([0.01, 0.04, 0.16], [1, 2, 1]))  # l11, l21, l22
    assert not anchor.covariance[anchor.blocks[0], anchor.blocks[1]].any()
    for scales in ({"weight_conc": 99.0}, {"mean_scale": 0.3}):  # independent of all others, also below the diagonal
        one = with_scales(Anchor(TRUTH, np.eye(17) + 0.2, "own"), **scales).covariance
        np.testing.assert_array_equal(one, one.T)


# ------------------------------------------------------------------ the model
def test_prior_draws_have_the_law_of_the_anchor(sketch):
    with pm.Model() as model:
        th = sketch.params("g")
    offsets = pm.draw(model["g_offset"], 4_000, random_seed=1, mode="FAST_COMPILE")
    assert stats.kstest(offsets.ravel(), stats.norm.cdf).pvalue > 1e-6
    assert [rv.name for rv in model.free_RVs] == ["g_offset"]
    names = {
        "g_weights": ("component",),
        "g_means": ("component", "feature"),
        "g_covariances": ("component", "feature", "feature_bis"),
    }
    assert {v.name: model.named_vars_to_dims[v.name] for v in model.deterministics} == names
    assert model.coords["feature"] == sketch.feature_names == model.coords["feature_bis"]
    assert model.coords["component"] == (0, 1)
    text = repr(th)
    assert "anchored prior" in text and "component 1: weight" in text and "Laplace approximation" in text


def test_weak_offsets_have_the_wide_law():
    release = masked_release(LIFTED)
    with pm.Model() as model:
        release.params("g", prior="weak", mean_scale=7.0)
    draws = pm.draw(model["g_offset"], 20_000, random_seed=1, mode="FAST_COMPILE") @ anchor_of(release).root.T
    expected = weak_deviations(TRUTH)
    expected[2:8] = 7.0
    np.testing.assert_allclose(draws.std(axis=0), expected, rtol=0.03)  # 6 standard errors of 0.5 %
    np.testing.assert_allclose(np.corrcoef(draws.T), np.eye(17), atol=0.05)  # 7 standard errors


def test_an_anchored_release_is_not_observed_too_and_a_weak_one_may_be():
    release = masked_release(LIFTED)
    with pm.Model() as model:
        release.params("g")
        with pytest.raises(ValueError, match="a release must be used once in a model"):
            registry.check_unused(model, release, registry.OBSERVED)
    with pm.Model() as model:
        release.params("g", prior="weak")
        registry.check_unused(model, release, registry.OBSERVED)
        registry.remember_use(pm.Potential("evidence", 0.0 * model["g_offset"].sum()), release, registry.OBSERVED)
        with pytest.raises(ValueError, match="a release must be used once in a model"):
            release.params("h")
        assert "h_offset" not in model
    with pm.Model() as model:
        mixture_params("g", release.mixture, weight_conc=100, mean_scale=0.1, cov_scale=0.1)
        with pytest.raises(ValueError, match="a release must be used once in a model"):
            release.observe(SimpleNamespace(weights=np.ones(3) / 3, means=np.zeros((3, 2)), chol=[np.eye(2)] * 3))


def test_close_components_warn_once_and_name_the_pair(sketch):
    assert anchor_separation(sketch) == sketch.anchor_separation() > 10
    close = 5.0 / np.hypot(1.0, np.sqrt(0.5))  # between means, in units of mean_scale, for LINE
    np.testing.assert_allclose(
        plain_anchor(LINE, weight_conc=9, mean_scale=1.0, cov_scale=1.0).closest_pair()[0], close, rtol=1e-12
    )
    with (
        pm.Model(),
        pytest.warns(UserWarning, match=r"components 0 and 1 of the anchored prior 'g' are 3\.4") as caught,
    ):
        mixture_params("g", LINE, weight_conc=100, mean_scale=close / 3.4, cov_scale=0.1)
    assert len(caught) == 1 and caught[0].filename == __file__
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("error")
        mixture_params("g", LINE, weight_conc=100, mean_scale=close / 4.1, cov_scale=0.1)
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("error")
        mixture_params("one", Mixture([1.0], [[0.0]], [[[1.0]]]), weight_conc=1, mean_scale=9.0, cov_scale=1)
    assert sketch.anchor_separation(mean_scale=1.0) < 5


def test_one_component_one_feature_and_other_dims_work():
    with pm.Model() as model:
        th = mixture_params(
            "g",
            Mixture([1.0], [[2.0]], [[[4.0]]]),
            weight_conc=1,
            mean_scale=0.5,
            cov_scale=0.2,
            dims=("cluster", "column"),
            feature_names=("height",),
        )
        weights, means, covariances, _ = variables(th, np.array([1.0, 1.0]))
    assert model.coords["column"] == ("height",) and model["g_means"].eval().shape == (1, 1)
    np.testing.assert_allclose([weights[0], means[0, 0], covariances[0, 0, 0]], [1, 3, 4 * np.exp(0.4)])
    assert isinstance(th, GMMParams) and "weak" not in repr(th)
    assert json.dumps(repr(th))


@pytest.mark.parametrize(
    "given_, error, message",
    [
        ({"prior": "flat"}, ValueError, "prior must be one of 'anchored', 'weak', got 'flat'"),
        ({"mean_scale": "wide"}, ValueError, "mean_scale must be 'auto' or a number, got 'wide'"),
        ({"mean_scale": [0.1, 0.2]}, ValueError, r"mean_scale must be a number or have shape \(3,\), got \(2,\)"),
        ({"cov_scale": 0.0}, ValueError, "cov_scale must be finite and greater than 0, got 0.0"),
        ({"cov_scale": object()}, TypeError, "cov_scale must be 'auto', a number or one for each component"),
        ({"weight_conc": -1.0}, ValueError, "weight_conc must be finite and greater than 0"),
        ({"dims": "component"}, ValueError, "dims must be two different names"),
        ({"dims": ("a", "a")}, ValueError, "dims must be two different names"),
        ({"dims": ("patient", "feature")}, ValueError, "dimension 'patient' must have length 3, got 4"),
    ],
)
def test_wrong_arguments_are_named(given_, error, message):
    with pm.Model(coords={"patient": range(4)}) as model, pytest.raises(error, match=message):
        masked_release(LIFTED).params("g", **given_)
    assert "g_offset" not in model
    with pytest.raises(TypeError, match="mixture must be a Mixture"):
        mixture_params("g", TRUTH.means, weight_conc=1, mean_scale=1, cov_scale=1, model=model)
    with pytest.raises(ValueError, match=re.escape("weight_conc must be a number here, got 'auto'")):
        mixture_params("g", TRUTH, model=model)


def test_names_that_are_taken_or_none_leave_the_model_as_it_was():
    with pm.Model() as model:
        pm.Normal("g_means")
        with pytest.raises(ValueError, match="name must be new to the model"):
            masked_release(LIFTED).params("g")
        with pytest.raises(ValueError, match="name must be new to the model, got 'g_means'"):
            dpg.gmm("g_means", TRUTH, observed=[[0.0, 0.0]])
        with pytest.raises(ValueError, match="name must be new to the model, got 'g_means'"):
            masked_release(LIFTED).prior("g_means")
        with pytest.raises(TypeError, match="name must be a string, not empty, got 5"):
            masked_release(LIFTED).params(5)
        with pytest.raises(TypeError, match="name must be a string, not empty, got ''"):
            dpg.gmm("", TRUTH, observed=[[0.0, 0.0]])
    assert [rv.name for rv in model.basic_RVs] == ["g_means"] and not model.deterministics and not model.coords


def test_gradient_of_an_anchored_model_equals_finite_differences():
    rows = TRUTH.sample(10, rng=np.random.default_rng(5))
    rows[2, 0] = np.nan
    with pm.Model() as model:
        dpg.gmm("y", masked_release(LIFTED).params("g"), observed=rows)
    value = model.compile_logp(mode="FAST_COMPILE")
    slope = model.compile_dlogp(mode="FAST_COMPILE")
    point = np.random.default_rng(6).normal(size=17)
    steps = 1e-5 * np.eye(17)
    differences = [(value({"g_offset": point + s}) - value({"g_offset": point - s})) / 2e-5 for s in steps]
    np.testing.assert_allclose(slope({"g_offset": point}), differences, rtol=1e-6, atol=1e-6)
    expected = pt.sum(pm.logp(pm.Normal.dist(), pt.constant(point))).eval(mode="FAST_COMPILE")
    whole = mixture_at(anchor_of(masked_release(LIFTED)).root @ point, TRUTH)
    there = (
        whole.log_density(rows[~np.isnan(rows).any(axis=1)]).sum() + whole.marginal([1]).log_density(rows[2:3, 1:])[0]
    )
    np.testing.assert_allclose(value({"g_offset": point}), expected + there, atol=1e-10)


@pytest.mark.parametrize("prior", ["anchored", "weak"])
def test_initial_values_start_at_the_release(prior):
    release = masked_release(LIFTED)
    with pm.Model() as model:
        dpg.gmm("y", release.params("g", prior=prior), observed=TRUTH.means)
    starts = release.initvals(model, chains=3, jitter=0.05, random_seed=1)
    assert [set(start) for start in starts] == [{"g_offset"}] * 3
    assert 0 < np.abs([start["g_offset"] for start in starts]).max() < 0.3
    assert not release.initvals(model, chains=1, jitter=0.0)[0]["g_offset"].any()
    model.set_initval(model["g_offset"], np.ones(17))
    release.set_initvals(model)
    assert not model.initial_point()["g_offset"].any()


def test_weak_scales_are_those_of_the_whole_mixture_in_the_frame_of_a_component():
    frames = np.linalg.inv(np.linalg.cholesky(TRUTH.covariances))
    whole = frames @ TRUTH.covariance() @ frames.swapaxes(1, 2)
    expected = 2 * np.sqrt(np.diagonal(whole, axis1=1, axis2=2))
    np.testing.assert_allclose(weak_deviations(TRUTH)[2:8], expected.ravel())


def test_means_that_move_together_are_farther_apart():
    covariance = np.eye(7)
    covariance[1, 2] = covariance[2, 1] = 0.9
    distance = Anchor(LINE, covariance, "own").closest_pair()[0]
    np.testing.assert_allclose(distance, 5.0 / np.sqrt(1 + 0.5 - 2 * 0.9 * np.sqrt(0.5)), rtol=1e-12)


def test_weights_of_a_mask_vary_as_a_multinomial_law_with_noise_on_every_weight():
    law = {"law": "mask", "weight": 0.02, "mean": 0.05, "covariance": 0.05}
    release = masked_release(law, n_records=600_000, method="populous-single")
    w, n = TRUTH.weights, 600_000 / 300
    shared = np.eye(3) - w[:, None]  # noisy weights are made to sum to 1
    expected = (np.diag(w) - np.outer(w, w)) / n + 0.02**2 * shared @ shared.T
    np.testing.assert_allclose(anchor_of(release).weight_covariance(), expected, rtol=1e-6)


def test_weights_are_told_from_the_heaviest_component_wherever_it_is():
    order = [1, 2, 0]
    last = TRUTH.permuted(order)
    w, release = last.weights, masked_release(LIFTED, mixture=last)
    plain = plain_anchor(last, weight_conc=99.0, mean_scale=0.1, cov_scale=0.1)
    np.testing.assert_allclose(plain.weight_covariance(), (np.diag(w) - np.outer(w, w)) / 100, atol=1e-12)
    first = anchor_of(masked_release(LIFTED)).weight_covariance()
    np.testing.assert_allclose(anchor_of(release).weight_covariance(), first[np.ix_(order, order)], rtol=1e-9)
    offsets = np.random.default_rng(1).normal(size=17)
    with pm.Model():
        weights = variables(release.params("g"), offsets)[0]
    np.testing.assert_allclose(weights, mixture_at(anchor_of(release).root @ offsets, last).weights, atol=1e-12)
