import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from pm_dpgmm.learners import check_learner, fit_here, fit_subsets, mixture_from_estimator
from pm_dpgmm.mixture import Mixture

RNG = np.random.default_rng(3)
DATA = np.concatenate([RNG.normal(0, 1, (200, 2)), RNG.normal(6, 1, (200, 2))])


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("kind", [GaussianMixture, BayesianGaussianMixture])
def test_any_scikit_learn_mixture_becomes_the_same_density(kind, covariance_type):
    model = kind(n_components=2, covariance_type=covariance_type, random_state=0, max_iter=500).fit(DATA)
    mixture = mixture_from_estimator(model)
    # scikit-learn's Bayesian scores add a constant per component, so only the plain one has the same density
    if kind is GaussianMixture:
        assert mixture.log_density(DATA[:20]) == pytest.approx(model.score_samples(DATA[:20]), abs=1e-9)
    assert mixture.means == pytest.approx(model.means_)


def raises(subset):
    raise RuntimeError(f"leaks {subset[0]}")


def warns(subset):
    warnings.warn(f"leaks {subset[0]}", ConvergenceWarning, stacklevel=2)
    return Mixture([1.0], subset[:1], [np.eye(2)])


@pytest.mark.parametrize(
    "learner",
    [
        raises,
        lambda s: None,
        lambda s: Mixture([0.5, 0.5], s[:2], [np.eye(2)] * 2),
        lambda s: Mixture([1.0], s[:1] * np.nan, [np.eye(2)]),
    ],
    ids=["raises", "nothing", "wrong number of components", "invalid numbers"],
)
def test_a_failed_fit_is_none_and_says_nothing(learner, capsys):
    assert fit_here(learner, DATA, 1, 0) is None
    assert capsys.readouterr() == ("", "")


def test_warnings_of_a_learner_are_swallowed(recwarn):
    assert isinstance(fit_here(warns, DATA, 1, 0), Mixture)
    assert not recwarn.list


def test_each_fit_sees_its_subset_and_its_seed_alone():
    subsets = np.array_split(DATA[RNG.permutation(len(DATA))], 4)
    arguments = {"n_jobs": 1, "progress": lambda done, total: None}
    fits = fit_subsets(None, subsets, 2, seeds=[1, 2, 3, 4], **arguments)
    changed = fit_subsets(None, [*subsets[:3], subsets[3] + 100], 2, seeds=[1, 2, 3, 4], **arguments)
    for before, after in zip(fits[:3], changed[:3], strict=True):
        assert (before.means == after.means).all() and (before.covariances == after.covariances).all()
    assert not (fits[3].means == changed[3].means).all()


def test_learners_cannot_change_the_records():
    subset = DATA[:10].copy()

    def greedy(rows):
        rows[:] = 0
        return Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])

    assert fit_here(greedy, subset, 1, 0) is not None
    assert (subset == DATA[:10]).all()


def test_progress_counts_subsets():
    seen = []
    fit_subsets(raises, [DATA] * 3, 1, seeds=[0] * 3, n_jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("learner", [3, "kmeans", object()])
def test_other_objects_are_refused(learner):
    with pytest.raises(TypeError, match="learner must be None"):
        check_learner(learner)
