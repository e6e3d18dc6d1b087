"""Parameters of a model's own: what does not fit together is refused, where it would read other memory."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pm_dpgmm as dpg

ROWS = np.array([[0.0, 1.0], [3.0, -1.0]])
RIGHT = {"weights": np.array([0.3, 0.7]), "means": ROWS, "chol": np.stack([np.eye(2), [[1.0, 0.0], [0.5, 2.0]]])}
SHORT = {
    "one factor for all": {"chol": RIGHT["chol"][:1]},
    "three weights": {"weights": np.array([0.2, 0.3, 0.5])},
    "three means": {"means": np.zeros((3, 2))},
}


@pytest.fixture(scope="module")
def release():
    x = np.random.default_rng(1).normal(size=(2_000, 2))
    return dpg.fit_gmm(x, 2, epsilon=1.0, delta=1e-6, bounds=(-5, 5), random_seed=1, progress=False)


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")
@pytest.mark.parametrize("case", SHORT)
def test_other_numbers_of_components_are_refused_when_the_model_is_built(case, release):
    th = SimpleNamespace(**RIGHT | SHORT[case])
    with pm.Model(), pytest.raises(ValueError, match="th must have weights, means and chol of as many components"):
        dpg.gmm("y", th, observed=ROWS)
    with pm.Model(), pytest.raises(ValueError, match="th must have weights, means and chol of as many components"):
        release.observe(th)


@pytest.mark.parametrize("case", SHORT)
def test_numbers_that_are_not_known_yet_are_compared_when_the_model_is_evaluated(case):
    """Pytensor's own error, and no other memory; the right ones have the density of the constants."""
    given = RIGHT | SHORT[case]
    unknown = {name: pt.tensor(name, shape=(None, *value.shape[1:])) for name, value in given.items()}
    density = pm.logp(dpg.gmm.dist(SimpleNamespace(**unknown), shape=ROWS.shape), ROWS).sum()
    call = pytensor.function(list(unknown.values()), density, mode="FAST_COMPILE")
    constant = pm.logp(dpg.gmm.dist(SimpleNamespace(**RIGHT), shape=ROWS.shape), ROWS).sum()
    assert float(call(*RIGHT.values())) == pytest.approx(float(constant.eval(mode="FAST_COMPILE")))
    with pytest.raises(AssertionError, match="SpecifyShape"):
        call(*given.values())


CONSTANTS = {
    "an upper factor": ({"chol": RIGHT["chol"].swapaxes(1, 2)}, "th.chol must be lower triangular"),
    "weights of another sum": (
        {"weights": np.array([0.5, 0.9])},
        r"th.weights must be .* add up to 1, got \[0.5, 0.9\]",
    ),
    "negative weights": ({"weights": np.array([-0.5, 1.5])}, "th.weights must be at least 0"),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_that_are_no_mixture_are_refused(case):
    change, words = CONSTANTS[case]
    with pm.Model(), pytest.raises(ValueError, match=words):
        dpg.gmm("y", SimpleNamespace(**RIGHT | change), observed=ROWS)
