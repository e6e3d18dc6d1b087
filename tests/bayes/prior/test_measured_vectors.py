"""Measured vectors: density and posterior in closed form, the model's twin of them, and what is refused."""

from __future__ import annotations

import importlib.util

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray
from scipy import integrate, stats
from scipy.special import logsumexp

import pm_dpgmm as dpg
from pm_dpgmm.bayes import gaussian_posterior, measured
from pm_dpgmm.bayes.arviz_compat import posterior_of
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.quick_sampling import FAST

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

PLANE = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0], [7.0, 3.0], [-4.0, 6.0]],
    [[[1.0, 0.3], [0.3, 1.0]], [[0.8, -0.2], [-0.2, 1.2]], [[0.3, 0.0], [0.0, 2.0]]],
)
LINE = Mixture([0.7, 0.3], [[0.0], [6.0]], [[[1.0]], [[0.5]]])
NOISE = np.array([[0.5, 0.1, 0.0], [0.1, 0.8, -0.2], [0.0, -0.2, 0.6]])
DESIGN = np.array([[1.0, 0.5], [0.0, -2.0], [0.3, 1.0]])
OFFSET = np.array([0.1, -1.0, 2.0])
ROWS = np.array([[0.5, 1.0, 2.0], [8.0, -7.0, 7.0], [2.0, -4.0, 5.0], [0.0, -12.0, 7.0]])


def evidence(mixture, y, noise, design, offset):
    """Log of weight times density of every component, by SciPy."""
    laws = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    return np.array(
        [
            np.log(w) + stats.multivariate_normal(design @ m + offset, design @ s @ design.T + noise).logpdf(y)
            for w, m, s in laws
        ]
    )


# ------------------------------------------------------------------ closed form
def test_the_posterior_is_that_of_integration():
    y, noise, slope = 2.9, 1.7, 0.8
    found = gaussian_posterior(LINE, [y], [[noise]], design=[[slope]], offset=[0.3])

    def joint(x):
        return np.exp(LINE.log_density([[x]])[0]) * stats.norm(slope * x + 0.3, np.sqrt(noise)).pdf(y)

    total = integrate.quad(joint, -15, 20, points=[0, 3, 6], epsabs=1e-13)[0]
    for x in (-1.0, 0.5, 2.5, 4.0, 6.5):
        assert np.exp(found.log_density([[x]])[0]) == pytest.approx(joint(x) / total, rel=1e-9)


def test_bayes_theorem_holds_at_every_point_in_several_columns():
    rng = np.random.default_rng(1)
    for y in ROWS:
        found = gaussian_posterior(PLANE, y, NOISE, design=DESIGN, offset=OFFSET)
        x = rng.normal(scale=4, size=(20, 2))
        likelihood = stats.multivariate_normal(OFFSET, NOISE).logpdf(y - x @ DESIGN.T)
        total = logsumexp(evidence(PLANE, y, NOISE, DESIGN, OFFSET))
        np.testing.assert_allclose(found.log_density(x), PLANE.log_density(x) + likelihood - total, atol=1e-8)


def test_what_was_not_measured_tells_nothing():
    y = np.array([0.5, np.nan, 2.0])
    kept = [0, 2]
    found = gaussian_posterior(PLANE, y, NOISE, design=DESIGN, offset=OFFSET)
    same = gaussian_posterior(PLANE, y[kept], NOISE[np.ix_(kept, kept)], design=DESIGN[kept], offset=OFFSET[kept])
    for part in ("weights", "means", "covariances"):
        np.testing.assert_allclose(getattr(found, part), getattr(same, part), rtol=1e-12)
    nothing = gaussian_posterior(LINE, [np.nan], [[1.0]])
    np.testing.assert_allclose(nothing.means, LINE.means)
    np.testing.assert_allclose(nothing.weights, LINE.weights)


def test_sharp_and_vague_noise_keep_their_digits():
    sharp = gaussian_posterior(LINE, [5.5], [[1e-14]])
    np.testing.assert_allclose(sharp.means, 5.5, rtol=1e-12)
    np.testing.assert_allclose(sharp.covariances, 1e-14, rtol=1e-12)
    vague = gaussian_posterior(LINE, [5.5], [[1e14]])
    np.testing.assert_allclose(vague.weights, LINE.weights, rtol=1e-9)
    np.testing.assert_allclose(vague.covariances, LINE.covariances, rtol=1e-9)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"release": "g"}, TypeError, "release must be a Release or a Mixture, got 'g'"),
        ({"observed": [np.inf, 0.0]}, ValueError, "observed must hold finite numbers, or NaN where one is missing"),
        ({"observed": [0.0]}, ValueError, "design must be given where observed has not the 2 features"),
        ({"offset": [0.0]}, ValueError, r"offset must be finite numbers of shape \(2,\)"),
        ({"design": np.eye(3)}, ValueError, r"design must be finite numbers of shape \(2, 2\)"),
        ({"noise_cov": [[1.0, 2.0], [2.0, 1.0]]}, ValueError, "noise_cov must be symmetric and positive definite"),
        ({"noise_cov": [[1.0, 0.5], [0.0, 1.0]]}, ValueError, "noise_cov must be symmetric and positive definite"),
        ({"noise_cov": 1.0}, ValueError, r"noise_cov must .*shape"),
    ],
)
def test_wrong_arguments_are_named_by_both(change, error, message):
    given = {"release": PLANE, "observed": [0.0, 1.0], "noise_cov": np.eye(2), **change}
    with pytest.raises(error, match=message):
        gaussian_posterior(**given)
    with pm.Model() as model, pytest.raises(error, match=message.replace("be finite numbers of", "have")):
        measured("x", **given)
    assert not model.named_vars


# ------------------------------------------------------------------ in a model
def model_of(rows=ROWS, noise=NOISE):
    with pm.Model() as model:
        slope = pm.Normal("slope", 1.0, 0.1)
        measured("x", PLANE, rows, noise, design=slope * DESIGN, offset=OFFSET, dims=("patient", "feature"))
    return model


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("holes", [False, True])
def test_the_density_of_measurements_is_that_of_scipy(holes, each):
    rows = ROWS.copy()
    if holes:
        rows[0, 1], rows[2] = np.nan, np.nan
    noises = [(1 + i) * NOISE if each else NOISE for i in range(4)]
    model = model_of(rows, np.array(noises) if each else NOISE)
    point = model.initial_point() | {"slope": np.array(1.2)}
    found = model.compile_logp(vars=model["x_measured"], sum=False, **FAST)(point)[0]
    expected = []
    for y, noise in zip(rows, noises, strict=True):
        kept = np.flatnonzero(~np.isnan(y))
        parts = (y[kept], noise[np.ix_(kept, kept)], 1.2 * DESIGN[kept], OFFSET[kept])
        expected.append(logsumexp(evidence(PLANE, *parts)) if kept.size else 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.thorough
def test_vectors_follow_the_exact_posterior_at_any_value_of_the_other_variables():
    """False alarm 24 * 1e-5 over the tests of four vectors."""
    n_draws = 10_000
    draws = pm.draw(pm.do(model_of(), {"slope": 1.2})["x"], n_draws, random_seed=1, **FAST)
    for i, y in enumerate(ROWS):
        exact = gaussian_posterior(PLANE, y, NOISE, design=1.2 * DESIGN, offset=OFFSET)
        for direction in ([1.0, 0.0], [0.0, 1.0], [1.0, -2.0]):
            centres = exact.means @ direction
            scales = np.sqrt(np.array(direction) @ exact.covariances @ direction)

            def cdf(x, centres=centres, scales=scales, exact=exact):
                return stats.norm.cdf((x[:, None] - centres) / scales) @ exact.weights

            assert stats.kstest(draws[:, i] @ direction, cdf).pvalue > 1e-5
        correlation = exact.covariance()[0, 1]
        sample = (draws[:, i] - exact.mean()).prod(axis=1)
        assert abs(sample.mean() - correlation) < 4.5 * sample.std() / np.sqrt(n_draws)


def test_one_vector_and_one_component():
    with pm.Model() as model:
        measured("x", LINE, [5.0], [[1.0]])
        measured("y", Mixture([1.0], [[2.0]], [[[4.0]]]), [5.0], [[1.0]], dims="one")
    assert [rv.name for rv in model.free_RVs] == ["x_uniform", "x_offset", "y_offset"]
    assert model["x"].eval(**FAST).shape == (1,) and model.named_vars_to_dims["y"] == ("one",)
    value = model["y"].eval({model["y_offset"]: [1.0]}, **FAST)
    exact = gaussian_posterior(Mixture([1.0], [[2.0]], [[[4.0]]]), [5.0], [[1.0]])
    np.testing.assert_allclose(value, exact.means[0] + np.sqrt(exact.covariances[0, 0]), rtol=1e-12)


def test_new_measurements_can_be_drawn_and_have_their_law():
    with pm.Model() as model:
        measured("x", LINE, np.zeros((4000, 1)), [[0.5]], offset=[1.0])
    draws = pm.draw(model["x_measured"], random_seed=1, **FAST)[:, 0]
    scales = np.sqrt(LINE.covariances[:, 0, 0] + 0.5)

    def cdf(x):
        return stats.norm.cdf((x[:, None] - 1 - LINE.means[:, 0]) / scales) @ LINE.weights

    assert stats.kstest(draws, cdf).pvalue > 1e-5  # false alarm


@pytest.mark.thorough
def test_a_term_that_reads_the_vector_is_refused_where_a_gradient_is_taken():
    with pm.Model() as model:
        x = measured("x", LINE, [[5.0], [1.0]], [[1.0]])
        pm.Deterministic("double", 2 * x)
    assert np.isfinite(model.compile_dlogp(**FAST)(model.initial_point())).all()
    with model:
        pm.Normal("other", x, 1.0, observed=[[5.0], [1.0]])
    slope = model.compile_dlogp(**FAST)
    with pytest.raises(pm.exceptions.SamplingError, match="'x' must not be read by another term"):
        slope(model.initial_point())
    with model, pytest.raises(pm.exceptions.SamplingError, match="'x' must not be read by another term"):
        pm.sample(5, tune=5, chains=1, cores=1, progressbar=False, nuts_sampler="pymc")


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax_has_no_gradient_of_a_term_that_reads_the_vector_either():
    import jax

    jax.config.update("jax_enable_x64", True)
    with pm.Model() as model:
        x = measured("x", LINE, [[5.0], [1.0]], [[1.0]])
    with pm.Model() as reads:
        x = measured("x", LINE, [[5.0], [1.0]], [[1.0]])
        pm.Normal("other", x, 1.0, observed=[[5.0], [1.0]])
    from pymc.sampling.jax import get_jaxified_logp

    for owner, finite in ((model, True), (reads, False)):
        point = [np.asarray(value) for value in owner.initial_point().values()]
        log_density, slope = jax.value_and_grad(get_jaxified_logp(owner))(point)
        assert np.isfinite(log_density)
        assert all(np.isfinite(part).all() for part in slope) == finite


def test_dimensions_and_data():
    with pm.Model(coords={"patient": ["a", "b"]}) as model:
        data = pm.Data("data", ROWS[:2, :2])
        with pytest.raises(ValueError, match="known number of columns"):
            measured("x", PLANE, pt.matrix("rows"), np.eye(2))
        measured("x", PLANE, pm.math.stack([data[:, 0], data[:, 1]], axis=1), np.eye(2), dims=("patient", "lab"))
        with pytest.raises(ValueError, match="dims must be 2 names for observed with 2 dimensions"):
            measured("y", PLANE, ROWS[:, :2], np.eye(2), dims="lab")
        with pytest.raises(ValueError, match="dimension 'patient' must have length 4, got 2"):
            measured("y", PLANE, ROWS[:, :2], np.eye(2), dims=("patient", "lab"))
    assert model["x"].eval(**FAST).shape == (2, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", ["pymc", "nutpie"])
def test_samplers_find_every_component_with_unknown_noise(sampler):
    """Component probabilities against the exact ones, averaged over the draws of the noise; false alarm below 1e-4."""
    if sampler == "nutpie" and importlib.util.find_spec("nutpie") is None:
        pytest.skip("nutpie is not installed")
    rows = np.array([[3.2], [6.0], [0.1], [3.0]])
    with pm.Model():
        scale = pm.LogNormal("scale", 0.0, 0.5)
        measured("x", LINE, rows, scale**2 * np.eye(1), dims=("patient", "feature"))
        found = pm.sample(
            1000,
            tune=500,
            chains=2,
            cores=1,
            nuts_sampler=sampler,
            random_seed=3,
            progressbar=False,
            compute_convergence_checks=False,
        )
    posterior = posterior_of(found)
    draws, scales = posterior["x"].values.reshape(2000, 4), posterior["scale"].values.ravel()
    for i, y in enumerate(rows):
        exact = np.array([gaussian_posterior(LINE, y, [[s**2]]).weights[0] for s in scales])
        first = LINE.responsibilities(draws[:, [i]])[:, 0]
        # at least 500 of the 2,000 draws are effective; four standard deviations for each of four vectors
        assert abs(first.mean() - exact.mean()) < 4 * (first - exact).std() / np.sqrt(500) + 1e-9


def test_columns_of_a_table_are_those_of_the_release():
    """They were taken by place: blood pressures were swapped in silence."""
    mixture = Mixture([0.4, 0.6], [[120.0, 80.0], [150.0, 95.0]], [np.eye(2) * 25] * 2)
    table = pd.DataFrame({"dia": [81.0, 90.0], "sys": [122.0, 148.0]})
    names = {"feature_names": ("sys", "dia")}
    with pm.Model() as model:
        with pytest.raises(ValueError, match="observed must have its columns in the order"):
            measured("x", mixture, table, np.eye(2), **names)
        with pytest.raises(ValueError, match="observed must have the columns"):
            measured("x", mixture, table.rename(columns=str.upper), np.eye(2), **names)
        assert not model.named_vars
        measured("x", mixture, table[["sys", "dia"]], np.eye(2), **names)
        measured("z", mixture, table.rename(columns=str.upper), np.eye(2), design=np.eye(2)[::-1], **names)


def test_labels_of_measurement_and_noise_are_those_of_the_release():
    """A Series, a DataArray and a covariance with names were read by place."""
    records = pd.DataFrame(np.random.default_rng(1).normal([120.0, 80.0], [9.0, 5.0], (800, 2)), columns=["sys", "dia"])
    release = dpg.fit_gmm(records, 1, epsilon=1.0, delta=1e-6, bounds=(0, 200), random_seed=1, progress=False)
    y, noise = np.array([130.0, 70.0]), np.array([[4.0, 1.0], [1.0, 9.0]])
    right = gaussian_posterior(release, y, noise)
    turned = pd.DataFrame(noise, ["sys", "dia"], ["sys", "dia"]).loc[["dia", "sys"], ["dia", "sys"]]
    series = pd.Series({"dia": 70.0, "sys": 130.0})
    for given in (series, xarray.DataArray(series.to_numpy(), dims=("lab",), coords={"lab": ["dia", "sys"]})):
        found = gaussian_posterior(release, given, turned)
        np.testing.assert_allclose(found.means, right.means, rtol=1e-12)
        design = pd.DataFrame(np.eye(2)[::-1], ["dia", "sys"], ["sys", "dia"])
        found = gaussian_posterior(release, given, turned.to_numpy(), design=design[["dia", "sys"]])
        np.testing.assert_allclose(found.means, right.means, rtol=1e-12)
    lines = pd.DataFrame([[1.0, 1.0], [0.0, 1.0]], ["sum", "low"], ["sys", "dia"])  # a design with names for its rows
    of_lines, values = pd.Series({"low": 70.0, "sum": 200.0}), np.array([200.0, 70.0])
    right = gaussian_posterior(release, values, noise, design=lines.to_numpy())
    found = gaussian_posterior(release, of_lines, noise, design=lines)
    np.testing.assert_allclose(found.means, right.means, rtol=1e-12)
    with pytest.raises(ValueError, match=r"observed must be labelled .*'sum', 'low'"):
        gaussian_posterior(release, series, noise, design=lines)
    table = pd.DataFrame({"dia": [70.0], "sys": [130.0]})
    with pytest.raises(ValueError, match="noise_cov must be labelled"):
        gaussian_posterior(release, y, turned.rename(columns=str.upper))
    with pytest.raises(ValueError, match="observed must be labelled"):
        gaussian_posterior(release, series.rename(str.upper), noise)
    with pm.Model():
        with pytest.raises(ValueError, match="observed must have its columns in the order"):
            measured("x", release, table, noise)  # names of a release are known without feature_names
        measured("x", release, series, turned)
    with pm.Model() as model:
        measured("x", release, y, noise)
    with pm.Model() as named:
        measured("x", release, series, turned)
    point = model.initial_point()
    assert named.compile_logp(**FAST)(point) == pytest.approx(float(model.compile_logp(**FAST)(point)), rel=1e-12)


def test_data_variables_are_measured_and_may_change():
    """pm.Data has no number of columns of its own, and was refused."""
    with pm.Model(coords={"lab": ["dia", "sys"]}) as model:
        data = pm.Data("data", ROWS[:, :2])
        measured("x", PLANE, data, NOISE[:2, :2])
        swapped = pm.Data("swapped", ROWS[:, :2], dims=("patient", "lab"))
        with pytest.raises(ValueError, match="observed must have its columns in the order"):
            measured("y", PLANE, swapped, np.eye(2), feature_names=("sys", "dia"))
    for rows in (ROWS[:, :2], ROWS[:3, :2]):
        model["data"].set_value(rows)
        with pm.Model() as plain:
            measured("x", PLANE, rows, NOISE[:2, :2])
        point = plain.initial_point()
        assert model.compile_logp(**FAST)(point) == pytest.approx(float(plain.compile_logp(**FAST)(point)), rel=1e-12)
        np.testing.assert_allclose(model["x"].shape.eval(), [len(rows), 2])
