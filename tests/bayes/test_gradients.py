"""What every sampler does to a model before the first draw, for the evidence of every method.

PyMC simplifies a graph before it takes the gradient, and rewrites of PyTensor can then chase each other for ever: other
tests, which take gradients of plain graphs, do not see it.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager

import numpy as np
import pymc as pm
import pytest

from pm_dpgmm.bayes.likelihoods.observe import LIKELIHOODS
from pm_dpgmm.methods.statistic import Statistic
from tests.builders.releases import CASES

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

LIMIT = 120  # seconds for what takes a few


class Hang(BaseException):
    """Not an Exception: PyTensor takes those for rewrites that failed, and goes on."""


@contextmanager
def time_limit(seconds):
    """Fail in place of a hang, where the system can interrupt."""

    def stop(*_):
        raise Hang

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    except Hang:
        pytest.fail(f"nothing after {seconds} s")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_every_method_is_here():
    able = {statistic for statistic, row in LIKELIHOODS.items() if not isinstance(row, str)}
    assert {Statistic.of(method, {"sketches": ()} if method == "sketch" else {}) for method in CASES} == able


@pytest.mark.thorough(quick=["em-1-given26-exact"])
@pytest.mark.parametrize(
    "method, d, given, likelihood",
    [
        (method, d, given, likelihood)
        for method, (_, arguments, likelihoods) in CASES.items()
        for d in (1, 2)
        for given in arguments
        for likelihood in likelihoods
        if (method, d, likelihood) != ("sketch", 2, "exact")  # of small sketches only
        and (method, d) != ("gaps", 2)  # of one column only
    ],
)
def test_gradients_of_models_equal_finite_differences(method, d, given, likelihood):
    release = CASES[method][0](d, *given)
    with pm.Model() as model, time_limit(LIMIT):
        th = release.params("g", prior="weak", weight_conc=10.0, mean_scale=1.0, cov_scale=0.5)
        release.observe(th, likelihood=likelihood)
        value, slope = (compile_(mode="FAST_COMPILE") for compile_ in (model.compile_logp, model.compile_dlogp))
    rng = np.random.default_rng(1)
    start = model.initial_point()  # a histogram has odds and shape of its far rows besides
    names = [variable.name for variable in model.value_vars]
    sizes = [np.size(start[name]) for name in names]
    point, way, step = 0.3 * rng.normal(size=sum(sizes)), rng.normal(size=sum(sizes)), 1e-5

    def at(vector):
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return {name: part.reshape(np.shape(start[name])) for name, part in zip(names, parts, strict=True)}

    step *= 10 if method == "gaps" else 1  # a thousand bins round the value to 1e-9
    ends = [float(value(at(point + sign * step * way))) for sign in (1, -1)]
    assert slope(at(point)) @ way == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-5)
