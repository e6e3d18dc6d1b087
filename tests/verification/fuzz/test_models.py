"""Hostile arguments for what a release offers to PyMC and to figures: one clear error each."""

import matplotlib
import numpy as np
import pytensor.tensor as pt
import pytest

from pm_dpgmm import bayes
from verification.fuzz import entries, models

matplotlib.use("Agg")
pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]
DRAWS = models.draws(models.MIXTURE)
NOT_DEFINITE = DRAWS.assign(g_covariances=0 * DRAWS["g_covariances"])


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    return models.entries(tmp_path_factory.mktemp("models"))


def test_bad_arguments_get_one_clear_error():
    """The longer run: python -m verification.fuzz.models."""
    report = entries.run(120, 1, models.entries, models.MORE)
    assert report.n_inputs == 120 and not report.faults, report


def test_no_public_function_of_the_models_is_forgotten(listed):
    called = " ".join(listed)
    elsewhere = {"GMMParams", "MapMixture", "MixtureLabels", "MixturePrior", "ModeCheck", "label_density"}
    other_names = {"mixture_dist": "prior_dist", "mixture_prior": "prior", "release_params": "params"}
    for name in set(bayes.__all__) - elsewhere:
        assert other_names.get(name, name) in called, f"{name} is called by nothing in verification/fuzz/models.py"


@pytest.mark.parametrize(
    "entry, change, error, words",
    [
        ("observe", {"model": 2.5}, TypeError, "model must be a pymc.Model, got 2.5"),
        ("params", {"model": "m"}, TypeError, "model must be a pymc.Model"),
        ("initvals", {"model": None}, TypeError, "model must be given outside a model context"),
        ("check_modes", {"model": np.zeros(2)}, TypeError, "model must be a pymc.Model"),
        ("check_modes", {"name": [1]}, TypeError, "name must be text"),
        ("params", {"mean_scale": -(10**400)}, TypeError, "mean_scale must be 'auto', a number or one for each"),
        ("params", {"mean_scale": 1e-320}, ValueError, "mean_scale must lie between 1e-50 and 1e"),
        ("params", {"dims": int}, ValueError, "dims must be two different names"),
        ("mixture_params", {"feature_names": int}, TypeError, "feature_names must be a sequence of names"),
        ("mixture_params", {"feature_names": ["a", "a"]}, ValueError, "feature_names must be different"),
        ("prior", {"name": "feature"}, ValueError, "name must be another than those of the dimensions, got 'feature'"),
        ("prior", {"name": "a/b"}, ValueError, "name must not contain '/', got 'a/b'"),
        ("prior_dist", {"shape": "no"}, TypeError, "shape must be a length or a sequence of lengths, got 'no'"),
        ("gmm_dist", {"shape": ("a", 2)}, TypeError, "shape must be an integer"),
        ("gmm", {"dims": 3}, ValueError, "dims must be two names"),
        ("gmm", {"observed": pt.vector("v")}, ValueError, r"observed must have shape \(N, D\), got a variable of 1"),
        ("gmm", {"observed": models.a_variable(3, 2)}, TypeError, "observed must be rows of numbers or pm.Data"),
        ("is_multimodal", {"mixture": "g"}, TypeError, "mixture must be a Mixture, got 'g' of type str"),
        ("set_initvals", {"mapping": 3}, TypeError, "mapping must map names of variables to fields, got 3"),
        ("set_initvals", {"random_seed": "x"}, TypeError, "random_seed must be an integer"),
        ("relabel", {"means": [None]}, ValueError, r"means must name a variable of the posterior, got \[None\]"),
        ("relabel", {"dim": 3}, TypeError, "dim must be text"),
        ("relabel", {"covariances": "g_weights"}, ValueError, "g_weights must have 5 dimensions"),
        ("relabel", {"idata": NOT_DEFINITE * np.nan}, ValueError, "g_means must hold at least one draw, and finite"),
        ("label_probs", {"idata": NOT_DEFINITE}, ValueError, "covariances must be positive definite in every draw"),
        ("check_fit", {"name": ["g"]}, TypeError, "name must be text"),
        ("check_fit", {"idata": NOT_DEFINITE.astype(str)}, TypeError, "g_weights must hold numbers"),
        ("check_fit", {"idata": NOT_DEFINITE.isel(draw=slice(0))}, ValueError, "at least one draw, got none"),
        ("plot_release", {"release": None}, TypeError, "release must be a Release, got None"),
        ("plot_release", {"n_points": 10**30}, ValueError, "n_points must be at most 5000, got 1000"),
        ("initvals of a model", {"chains": 10**30}, ValueError, "chains must be at most 100000, got 1000"),
        ("plot_release", {"ax": 3}, TypeError, "ax must be axes of matplotlib, got 3"),
        ("plot_prior_posterior", {"draws": {1, 2}}, TypeError, "draws must map names of models to draws"),
        ("plot_prior_posterior", {"draws": {"a": [1.0]}}, ValueError, "must hold at least two different numbers"),
        ("plot_prior_posterior", {"truth": "x"}, TypeError, "truth must be a real number"),
        ("plot_coverage", {"ax": []}, TypeError, "ax must be axes of matplotlib"),
        ("select_k", {"n_components": models.a_variable()}, TypeError, "n_components must be an integer"),
        ("plot_coverage", {"rows": pt.vector("v")}, TypeError, "rows must be a sequence of results"),
        ("plot_coverage", {"rows": models.a_variable()}, TypeError, "rows must be a sequence of results"),
    ],
)
def test_wrong_arguments_are_named(entry, change, error, words, listed):
    function, right = listed[entry]
    with pytest.raises(error, match=words):
        function(**(right | change))


def test_more_draws_than_there_are_is_all_of_them(listed):
    function, right = listed["check_fit of counts"]
    assert function(**(right | {"n_draws": 10**30})).n_draws == 2 * models.N_DRAWS


def test_the_right_arguments_are_right(listed):
    for name, (function, right) in listed.items():
        assert function(**right) is not None, name
