"""The mixture prior in PyMC: density, law, dimensions, and exact conjugate posteriors."""

from __future__ import annotations

import gc
import weakref

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pm_dpgmm.bayes import label_density
from pm_dpgmm.bayes.prior.priors import mixture_prior, prior_variables
from pm_dpgmm.mixture.mixture import Mixture

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")


def random_mixture(n_components, n_features, *, seed, spread=2.0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n_components, n_features, n_features))
    covariances = roots @ np.swapaxes(roots, 1, 2) + 0.2 * np.eye(n_features)
    weights = rng.dirichlet(np.full(n_components, 5.0))
    return Mixture(weights, rng.normal(scale=spread, size=(n_components, n_features)), covariances)


SEPARATED = Mixture([0.6, 0.4], [[0, 0], [7, 3]], [[[1, 0.3], [0.3, 1]], [[0.8, -0.2], [-0.2, 1.2]]])
OVERLAPPING = Mixture([0.6, 0.4], [[0, 0], [1.5, 1]], [[[1, 0.3], [0.3, 1]], [[0.8, -0.2], [-0.2, 1.2]]])


@pytest.mark.parametrize(
    "mixture",
    [
        random_mixture(3, 1, seed=1),
        random_mixture(3, 2, seed=2),
        random_mixture(4, 3, seed=3),
        random_mixture(1, 2, seed=4),
        Mixture([0.5, 0.0, 0.5], [[1e6, 0], [0, 0], [1e6, 1e-4]], [np.diag([1.0, 1e-8])] * 3),
    ],
)
def test_density_equals_that_of_the_mixture(mixture):
    points = np.concatenate([mixture.sample(30, rng=np.random.default_rng(5)), mixture.means - 20])
    with pm.Model(coords={"unit": range(len(points))}):
        batch = mixture_prior("batch", mixture, dims=("unit", "feature"), form="mixture")
        single = mixture_prior("single", mixture, form="mixture")
    expected = mixture.log_density(points)
    together = pm.logp(batch, points).eval(mode="FAST_COMPILE")
    alone = pm.logp(single, points[0]).eval(mode="FAST_COMPILE")
    assert together.shape == expected.shape and alone.shape == ()
    np.testing.assert_allclose(together, expected, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(alone, expected[0], rtol=1e-12, atol=1e-10)


@pytest.mark.thorough(quick=["mixture1-labelled"])
@pytest.mark.parametrize("form", ["mixture", "labelled"])
@pytest.mark.parametrize("mixture", [random_mixture(3, 2, seed=6, spread=5), random_mixture(1, 3, seed=7)])
def test_draws_of_both_forms_follow_the_mixture(mixture, form):
    n_draws = 20_000
    with pm.Model():
        latent = mixture_prior("x", mixture, form=form)
    points = pm.draw(latent, n_draws, random_seed=20240601, mode="FAST_COMPILE")
    covariance = mixture.covariance()
    error = np.linalg.solve(np.linalg.cholesky(covariance), points.mean(axis=0) - mixture.mean())
    assert stats.chi2.sf(n_draws * error @ error, mixture.n_features) > 1e-5
    # Every one-dimensional projection is a mixture of normals with a known distribution function.
    for direction in [*np.eye(mixture.n_features), np.arange(1.0, mixture.n_features + 1)]:
        centres = mixture.means @ direction
        scales = np.sqrt(direction @ mixture.covariances @ direction)

        def cdf(x, centres=centres, scales=scales):
            return stats.norm.cdf((x[:, None] - centres) / scales) @ mixture.weights

        assert stats.kstest(points @ direction, cdf).pvalue > 1e-5


def test_inflate_multiplies_the_covariances_before_the_form_is_chosen():
    with pm.Model() as model:
        mixture_prior("narrow", SEPARATED)
        wide = mixture_prior("wide", SEPARATED, inflate=20.0)
    assert {rv.name for rv in model.free_RVs} == {"narrow_label", "narrow_offset", "wide"}
    expected = Mixture(SEPARATED.weights, SEPARATED.means, 20 * SEPARATED.covariances).log_density([[1.0, 2.0]])
    np.testing.assert_allclose(pm.logp(wide, np.array([1.0, 2.0])).eval(mode="FAST_COMPILE"), expected[0], atol=1e-10)


def test_one_component_needs_no_label():
    with pm.Model() as model:
        mixture_prior("x", random_mixture(1, 2, seed=8), form="labelled")
        mixture_prior("y", random_mixture(1, 2, seed=8))
    assert [rv.name for rv in model.free_RVs] == ["x_offset", "y"]


@pytest.fixture(scope="module")
def batch_model():
    with pm.Model(coords={"hospital": ["a", "b"], "patient": range(3)}) as model:
        for form in ("mixture", "labelled"):
            mixture_prior(
                form,
                SEPARATED,
                dims=("hospital", "patient", "lab"),
                form=form,
                feature_names=("urea", "sodium"),
            )
        mixture_prior("one", SEPARATED, dims="lab", form="labelled")
    return model


def test_batches_use_the_dimensions_of_the_model(batch_model):
    dims = batch_model.named_vars_to_dims
    assert dims["mixture"] == dims["labelled"] == dims["labelled_offset"] == ("hospital", "patient", "lab")
    assert dims["labelled_label"] == ("hospital", "patient")
    assert dims["one"] == ("lab",) and "one_label" not in dims
    assert batch_model.coords["lab"] == ("urea", "sodium")
    assert batch_model["mixture"].eval(mode="FAST_COMPILE").shape == (2, 3, 2)


def test_the_initial_point_is_the_heaviest_component_with_finite_density(batch_model):
    start = batch_model.initial_point()
    assert (start["mixture"] == SEPARATED.means[0]).all()
    with label_density(batch_model):
        log_density = batch_model.compile_logp(mode="FAST_COMPILE")(start)
    labels, offsets = 7 * np.log(0.6), 14 * stats.norm.logpdf(0)
    assert log_density == pytest.approx(6 * SEPARATED.log_density([[0, 0]])[0] + labels + offsets, abs=1e-9)


def test_prior_predictive_has_the_feature_coordinate(batch_model):
    with batch_model:
        prior = pm.sample_prior_predictive(4, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})["prior"]
    for name in ("mixture", "labelled"):
        assert prior[name].sizes == {"chain": 1, "draw": 4, "hospital": 2, "patient": 3, "lab": 2}
        assert prior[name]["lab"].values.tolist() == ["urea", "sodium"]


def test_an_existing_feature_dimension_is_checked_and_kept():
    with pm.Model(coords={"unit": range(2), "feature": ["p", "q"], "three": range(3)}) as model:
        mixture_prior("x", OVERLAPPING, dims="feature", feature_names=("height", "weight"))  # other labels: allowed
        assert model.coords["feature"] == ("p", "q")
        mixture_prior("y", OVERLAPPING, dims=("unit", "unnamed"))
        assert model.coords["unnamed"] is None
        with pytest.raises(
            ValueError, match=r"'three' must have length 2, got 3; the last of dims is that of the features"
        ):
            mixture_prior("z", OVERLAPPING, dims="three")
        with pytest.raises(ValueError, match="must be in the order"):
            mixture_prior("z", OVERLAPPING, dims="feature", feature_names=("q", "p"))


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"dims": ("nowhere", "feature")}, ValueError, "dims must start with dimensions of the model"),
        ({"dims": ("feature", "feature")}, ValueError, "one or more different names"),
        ({"dims": 3}, TypeError, "dims must be a name or several, got 3"),
        ({"dims": ("feature", "unit")}, ValueError, "end with that of the features, got 'feature' in"),
        ({"dims": ()}, ValueError, "one or more different names"),
        ({"dims": (None, "feature")}, TypeError, "names only"),
        ({"feature_names": ("only",)}, ValueError, "feature_names must have length 2"),
        ({"form": "marginal"}, ValueError, "form must be one of"),
        ({"inflate": 0.0}, ValueError, "inflate must be finite and greater than 0"),
        ({"mixture": "release"}, TypeError, "mixture must be a Mixture"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pm.Model() as model, pytest.raises(error, match=message):
        mixture_prior("x", **{"mixture": OVERLAPPING, **arguments})
    assert model.free_RVs == [] and prior_variables(model) == ()


def test_names_are_registered_on_the_root_model_and_die_with_it():
    with pm.Model() as model:
        with pm.Model(name="inner"):
            mixture_prior("x", SEPARATED, form="labelled")
        mixture_prior("y", SEPARATED, form="mixture", model=model)
    names = [(record.latent, record.offset, record.label) for record in prior_variables(model)]
    assert names == [(None, "inner::x_offset", "inner::x_label"), ("y", None, None)]
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def conjugate_posterior(mixture, observed, noise_scale):
    """Exact posterior mixture of x given observed ~ N(x, noise_scale^2 I)."""
    noise = noise_scale**2 * np.eye(mixture.n_features)
    evidence = Mixture(mixture.weights, mixture.means, mixture.covariances + noise)
    gains = mixture.covariances @ np.linalg.inv(mixture.covariances + noise)
    means = mixture.means + np.einsum("kij,kj->ki", gains, observed - mixture.means)
    covariances = mixture.covariances - gains @ mixture.covariances
    return Mixture(evidence.responsibilities([observed])[0], means, (covariances + np.swapaxes(covariances, 1, 2)) / 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mixture, form, noise_scales, observed",
    [
        # One observation that settles the component, and one that leaves both open.
        (SEPARATED, "labelled", [0.1, 4.0], [[6.0, 4.0], [3.5, 2.0]]),
        (OVERLAPPING, "mixture", [0.3, 2.0], [[2.0, 0.0], [1.0, 1.0]]),
    ],
)
def test_posterior_is_the_exact_conjugate_one(mixture, form, noise_scales, observed):
    with pm.Model(coords={"unit": range(2)}):
        latent = mixture_prior("x", mixture, dims=("unit", "feature"))
        pm.Normal("y", latent, np.array(noise_scales)[:, None], observed=observed)
        posterior = pm.sample(
            1000,
            tune=700,
            chains=2,
            cores=1,
            random_seed=11,
            progressbar=False,
            compute_convergence_checks=False,
        )["posterior"]
    assert ("x_label" in posterior) == (form == "labelled")
    draws = posterior["x"].values  # (chain, draw, unit, feature)
    for unit, (scale, value) in enumerate(zip(noise_scales, observed, strict=True)):
        exact = conjugate_posterior(mixture, np.array(value), scale)
        membership = exact.responsibilities(draws[:, :, unit].reshape(-1, 2))[:, 0].reshape(draws.shape[:2])
        quantities = {
            "first": (draws[:, :, unit, 0], exact.mean()[0]),
            "second": (draws[:, :, unit, 1], exact.mean()[1]),
            "product": (
                draws[:, :, unit, 0] * draws[:, :, unit, 1],
                exact.covariance()[0, 1] + exact.mean()[0] * exact.mean()[1],
            ),
            "component": (membership, exact.weights[0]),
        }
        for name, (values, expected) in quantities.items():
            effective = max(float(az.ess(values)), 1.0)
            assert effective > 60, name  # a sampler that does not move between components has about 2
            # Five Monte Carlo standard errors, the effective size being known to about 20%; and five draws, because
            # rarer events may be missing from the draws, which then show no spread.
            tolerance = 5 * 1.2 * values.std() / np.sqrt(effective) + 5 / values.size
            assert abs(values.mean() - expected) < tolerance, name


def test_the_record_of_an_inflated_prior_has_the_inflated_covariances():
    for form in ("mixture", "labelled"):
        with pm.Model() as model:
            mixture_prior("x", SEPARATED, form=form, inflate=4.0)
        np.testing.assert_allclose(prior_variables(model)[0].mixture.covariances, 4 * SEPARATED.covariances)
