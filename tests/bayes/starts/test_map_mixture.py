import importlib.util
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture

from pm_dpgmm.bayes.starts import map_mixture as map_learner
from pm_dpgmm.bayes.starts.map_mixture import MapMixture, compiled_posterior
from pm_dpgmm.learners.subsets import check_learner, mixture_from_estimator
from pm_dpgmm.mixture.distances import bottleneck_assignment, component_distances
from pm_dpgmm.mixture.mixture import Mixture

PAIR = Mixture([0.4, 0.6], [[10.0], [15.0]], [[[1.0]], [[0.5]]])
ROWS = PAIR.sample(1000, rng=np.random.default_rng(0))


@pytest.fixture(scope="module", autouse=True)
def posterior():
    """PyTensor's Python mode: seconds to compile in place of minutes, the same numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map_learner, "OFTEN", "FAST_COMPILE")
        compiled_posterior.cache_clear()
        yield compiled_posterior(2, 1)
        compiled_posterior.cache_clear()


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
    # a constant of PyMC's priors is 4e-9 from SciPy's, whatever the rows
    assert 50 * loss == pytest.approx(-(prior + mixture.log_density(rows).sum()), abs=1e-8)
    ends = [np.array([posterior.loss(flat + s * e, rows)[0] for e in np.eye(len(flat))]) for s in (1e-6, -1e-6)]
    assert gradient == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)
    again = posterior.unpack(flat)
    assert again.means == pytest.approx(mixture.means) and again.weights == pytest.approx(mixture.weights)
    assert again.covariances == pytest.approx(mixture.covariances)


def test_the_same_subset_gives_the_same_bits_after_a_journey():
    learner = MapMixture(2, n_starts=1)
    check_learner(learner)
    rows = np.random.default_rng(3).normal(size=(40, 1))  # no components: the end depends on the start
    first = learner(rows)
    others = [MapMixture(2, n_starts=1, seed=seed)(rows) for seed in (1, 2, 4)]
    assert any(other.means.tobytes() != first.means.tobytes() for other in others)
    np.random.seed(99)  # noqa: NPY002 - the global stream must not matter
    second = cloudpickle.loads(cloudpickle.dumps(learner))(rows)
    for name in ("weights", "means", "covariances"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def test_subsets_of_any_size_share_one_compilation():
    misses = compiled_posterior.cache_info().misses
    fits = [MapMixture(2)(ROWS[:n]) for n in (200, 500, 1000)]
    assert compiled_posterior.cache_info().misses == misses
    assert all(error(fit, PAIR) < 1 for fit in fits)


def test_units_do_not_matter():
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


def test_two_columns_with_correlation():
    truth = Mixture([0.5, 0.5], [[0, 0], [6, 0]], [[[1, 0.8], [0.8, 1]], [[1, -0.8], [-0.8, 1]]])
    rows = truth.sample(500, rng=np.random.default_rng(2))
    em = GaussianMixture(2, tol=1e-9, max_iter=1000, random_state=0).fit(rows)
    fit = MapMixture(2, n_starts=1)(rows)
    assert error(fit, mixture_from_estimator(em)) < 0.1
    posterior = compiled_posterior(2, 2)
    mixture = fit.transformed(np.diag(1 / rows.std(axis=0)), -rows.mean(axis=0) / rows.std(axis=0))
    gradient = posterior.loss(posterior.pack(mixture), (rows - rows.mean(axis=0)) / rows.std(axis=0))[1]
    assert np.abs(gradient).max() < 1e-4
