"""Components that nothing asks for have errors as wide as the records; those that are there keep theirs."""

import numpy as np
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.methods.sketch.estimate import prior_about
from pm_dpgmm.methods.sketch.fit import error_root
from pm_dpgmm.methods.sketch.laplace import laplace
from pm_dpgmm.methods.sketch.phantoms import phantom_chances, weight_variances, widened_root

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "progress": False, "random_seed": 1}


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # the second component is noise
def test_a_component_too_many_is_told_and_its_errors_are_wide():
    X = np.random.default_rng(1).normal(size=(3_000, 1))
    release = dpg.fit_gmm(X, 2, bounds=(-8, 8), **BUDGET)
    law, errors = laplace(release), release.standard_errors()
    assert law.chances.max() > 0.5
    assert (errors.weights > 0.2).all() and (errors.means > 0.5).all()
    drawn = np.array([mixture.weights for mixture in release.draws(300, random_seed=1)])
    assert (np.ptp(np.quantile(drawn, [0.05, 0.95], axis=0), axis=0) > 0.5).all()


def test_components_that_are_there_keep_their_errors():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5_000, 1)) + 6 * (rng.random((5_000, 1)) < 0.4)
    release = dpg.fit_gmm(X, 2, bounds=(-8, 14), **BUDGET)
    law = laplace(release)
    assert law.chances.max() < 1e-6  # each lowers the objective by hundreds
    assert np.array_equal(law.root, error_root(law.data, law.found, prior_about(law.found)))
    assert (release.standard_errors().means < 0.2).all()
    assert np.array_equal(widened_root(law.root, law.data, law.found, np.zeros(2)), law.root)
    assert (weight_variances(law.found, np.zeros(2)) == 0).all()


def test_one_component_is_never_noise():
    release = dpg.fit_gmm(np.random.default_rng(1).normal(size=(500, 1)), 1, bounds=(-8, 8), **BUDGET)
    law = laplace(release)
    assert (phantom_chances(law.data, law.found, prior_about(law.found)) == 0).all()
