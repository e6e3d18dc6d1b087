"""JAX computes the log densities and gradients of the default backend, for every kind of model; numpyro samples them.

JAX is no dependency: without it these tests are skipped, and say so.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pymc as pm
import pytest

import pm_dpgmm as dpg
from pm_dpgmm.bayes import label_density, measured, mixture_prior
from pm_dpgmm.bayes.arviz_compat import posterior_of
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.mixture.mixture import Mixture
from tests.builders.releases import CASES

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed: pip install jax numpyro"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning"),
    pytest.mark.filterwarnings("ignore:Skipping CheckAndRaise:UserWarning"),  # labels: their density is no number then
    pytest.mark.filterwarnings("ignore:Explicitly requested dtype:UserWarning"),
    pytest.mark.filterwarnings("ignore:There are not enough devices:UserWarning"),
]

TOLERANCE = 1e-8  # relative; both work in double precision
PAIR = Mixture([0.5, 0.5], [[0.0, 1.0], [6.0, 2.0]], [[[1.0, 0.2], [0.2, 1.0]]] * 2)
SEEN = np.array([[1.0, 2.0], [5.0, 1.0], [3.0, np.nan]])
# method -> the likelihood that "auto" does not take, where compiling it with JAX takes seconds
ALSO = {"sketch": "exact", "populous": "wishart", "populous-single": "wishart", "em": "gaussian", "central": "gaussian"}


def vectors(form):
    with pm.Model(coords={"patient": range(3)}) as model:
        x = mixture_prior("x", PAIR, form=form, dims=("patient", "feature"))
        pm.Normal("y", x, pm.HalfNormal("s"), observed=np.nan_to_num(SEEN))
    return model


def measurements():
    with pm.Model() as model:
        measured("x", PAIR, SEEN, pm.HalfNormal("s") ** 2 * np.eye(2))
    return model


def rows(holes):
    data = PAIR.sample(7, rng=np.random.default_rng(1))
    if holes:
        data[0, 1] = np.nan
    with pm.Model() as model:
        dpg.gmm("y", mixture_params("g", PAIR, weight_conc=100, mean_scale=0.1, cov_scale=0.1), observed=data)
    return model


def evidence(method, likelihood):
    make, arguments, _ = CASES[method]
    release = make(1, *arguments[0])
    with pm.Model() as model:
        th = release.params("g", prior="weak", weight_conc=10.0, mean_scale=1.0, cov_scale=0.5)
        release.observe(th, likelihood=likelihood)
    return model


MODELS = {
    "prior": lambda: vectors("mixture"),
    "labelled prior": lambda: vectors("labelled"),
    "measured": measurements,
    "rows": lambda: rows(False),
    "rows with holes": lambda: rows(True),
    **{
        f"{method}, auto": lambda method=method: evidence(method, "auto")
        for method in CASES
        if method not in ("histogram", "gaps")
    },
    **{
        f"{method}, {other}": lambda method=method, other=other: evidence(method, other)
        for method, other in ALSO.items()
    },
    "histogram, gaussian": lambda: evidence("histogram", "gaussian"),
    "gaps, gaussian": lambda: evidence("gaps", "gaussian"),
}


def agree(model):
    import jax
    from pymc.sampling.jax import get_jaxified_logp

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(1)
    point = {
        name: value + (0.3 * rng.normal(size=value.shape) if value.dtype.kind == "f" else 0)
        for name, value in model.initial_point().items()
    }
    with label_density(model):
        compiled = [(model.compile_logp(mode=mode), model.compile_dlogp(mode=mode)) for mode in ("FAST_COMPILE", "JAX")]
        (value, slope), (value_jax, slope_jax) = [(float(f(point)), np.asarray(g(point))) for f, g in compiled]
    assert np.isfinite(value)
    assert value_jax == pytest.approx(value, rel=TOLERANCE)
    np.testing.assert_allclose(slope_jax, slope, rtol=TOLERANCE, atol=TOLERANCE * np.abs(slope).max())
    if model.continuous_value_vars == model.value_vars:  # numpyro's own: JAX differentiates the density by itself
        own = jax.grad(get_jaxified_logp(model))([point[one.name] for one in model.value_vars])
        flat = np.concatenate([np.ravel(one) for one in own])
        np.testing.assert_allclose(flat, slope, rtol=TOLERANCE, atol=TOLERANCE * np.abs(slope).max())


@pytest.mark.parametrize("kind", MODELS)
def test_jax_agrees_with_the_default_backend(kind):
    agree(MODELS[kind]())


def test_labels_have_no_density_in_jax_outside_the_context():
    """PyTensor leaves the check that raises out of what it compiles with JAX."""
    model = vectors("labelled")
    point = model.initial_point()
    density = model.compile_logp(mode="JAX")
    assert np.isnan(density(point))
    with label_density(model):
        assert np.isfinite(density(point))
    assert np.isnan(density(point))


@pytest.mark.thorough
def test_jax_agrees_on_exact_counts():
    """A quarter of a minute and more to compile."""
    agree(evidence("histogram", "auto"))


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("numpyro") is None, reason="numpyro is not installed")
def test_numpyro_samples_and_refuses_labels():
    quick = {
        "draws": 30,
        "tune": 30,
        "chains": 1,
        "nuts_sampler": "numpyro",
        "progressbar": False,
        "random_seed": 1,
        "compute_convergence_checks": False,
    }
    with measurements():
        draws = posterior_of(pm.sample(**quick))
    assert draws["x"].shape == (1, 30, 3, 2) and np.isfinite(draws["x"]).all()
    with vectors("labelled"), pytest.raises(ValueError, match=r"discrete variables|all variables to be differentiable"):
        pm.sample(**quick)
