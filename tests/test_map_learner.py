import importlib.util
import subprocess
import sys
import time

import cloudpickle
import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture

from pm_dpgmm.bayes import map_learner
from pm_dpgmm.bayes.map_learner import MapMixture, compiled_posterior
from pm_dpgmm.geometry import bottleneck_assignment, component_distances
from pm_dpgmm.learners import check_learner, mixture_from_estimator
from pm_dpgmm.mixture import Mixture

PAIR = Mixture([0.4, 0.6], [[10.0], [15.0]], [[[1.0]], [[0.5]]])
ROWS = PAIR.sample(1000, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def posterior():
    return compiled_posterior(2, 1)


def error(fit, truth):
    return bottleneck_assignment(component_distances(fit, truth))[0]


def test_agreement_with_maximum_likelihood_up_to_the_prior():
    """The priors weigh a few records: of 1000 they move a component by less than its standard error, about 0.1."""
    em = GaussianMixture(2, tol=1e-9, max_iter=1000, random_state=0).fit(ROWS)
    fit = MapMixture(2)(ROWS)
    assert 0 < error(fit, mixture_from_estimator(em)) < 0.02
    assert error(fit, PAIR) < 0.3


def test_the_loss_is_minus_the_log_posterior_per_row(posterior):
    mixture = Mixture([0.3, 0.7], [[-0.5], [1.0]], [[[0.6]], [[1.5]]])
    rows = np.random.default_rng(1).normal(size=(50, 1))
    scales = np.sqrt(mixture.covariances.ravel())
    prior = stats.dirichlet(np.full(2, 2.0)).logpdf(mixture.weights)
    prior += stats.norm(0, 2).logpdf(mixture.means).sum() + stats.gamma(2.0).logpdf(scales).sum()
    flat = posterior.pack(mixture)
    loss, gradient = posterior.loss(flat, rows)
    assert loss == pytest.approx(-(prior + mixture.log_density(rows).sum()) / 50, rel=1e-12)
    ends = [np.array([posterior.loss(flat + s * e, rows)[0] for e in np.eye(len(flat))]) for s in (1e-6, -1e-6)]
    assert gradient == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)
    again = posterior.unpack(flat)
    assert again.means == pytest.approx(mixture.means) and again.weights == pytest.approx(mixture.weights)
    assert again.covariances == pytest.approx(mixture.covariances)


def test_the_same_subset_gives_the_same_bits_after_a_journey():
    learner = MapMixture(2)
    check_learner(learner, n_jobs=2)
    first = learner(ROWS)
    np.random.seed(99)  # noqa: NPY002 - the global stream must not matter
    second = cloudpickle.loads(cloudpickle.dumps(learner))(ROWS)
    for name in ("weights", "means", "covariances"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def test_subsets_of_any_size_share_one_compilation(posterior):
    misses = compiled_posterior.cache_info().misses
    start = time.perf_counter()
    fits = [MapMixture(2)(ROWS[:n]) for n in (200, 500, 1000)]
    assert compiled_posterior.cache_info().misses == misses
    assert time.perf_counter() - start < 10  # a second or less on an idle machine; compilation takes far longer
    assert all(error(fit, PAIR) < 1 for fit in fits)


def test_units_do_not_matter(posterior):
    fit = MapMixture(2)(ROWS)
    assert error(MapMixture(2)(1e-3 * ROWS + 5.0), fit.transformed([[1e-3]], 5.0)) < 1e-4


def test_settings_load_no_pymc():
    code = "import sys; from pm_dpgmm.bayes import MapMixture; MapMixture(2); print('pymc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_missing_pymc_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="MapMixture needs PyMC"):
        map_learner.MapMixture(2)


@pytest.mark.parametrize("rows", [np.zeros((20, 1)), np.full((20, 1), np.nan), np.zeros((0, 1)), np.zeros(9)])
def test_hopeless_subsets_raise_value_errors(rows):
    with pytest.raises(ValueError, match="subset must"):
        MapMixture(2)(rows)


@pytest.mark.parametrize("name, value", [("n_components", 0), ("n_starts", 0), ("max_iterations", 0), ("seed", -1)])
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        MapMixture(**{"n_components": 2, name: value})
