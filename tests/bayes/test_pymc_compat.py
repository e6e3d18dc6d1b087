"""What is taken from inside PyMC and PyTensor is still there and still means what the package takes it for."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.model.transform import optimization
from pymc.sampling.mcmc import assign_step_methods

from pm_dpgmm.bayes import pymc_compat
from pm_dpgmm.bayes.prior.label_step import MixtureLabels


class GreedyStep(pymc_compat.BlockedStep):
    """Claims every variable."""

    name = "greedy"

    def step(self, point):
        return point, []

    @staticmethod
    def competence(var, has_grad):
        return pymc_compat.Competence.IDEAL


@pytest.fixture
def methods():
    """The list as it was, afterwards."""
    methods = pymc_compat.step_methods()
    kept = list(methods)
    yield methods
    methods[:] = kept


def chosen(model):
    return {step for step, values in assign_step_methods(model)[1].items() if values}


def test_the_list_that_is_changed_is_the_one_pm_sample_reads(methods):
    """Otherwise labels go to PyMC's own steps, which get their posterior wrong."""
    with pm.Model() as model:
        pm.Normal("x")
    assert GreedyStep not in chosen(model)
    for _ in range(2):
        pymc_compat.offer_step(GreedyStep)
    assert methods.count(GreedyStep) == 1 and chosen(model) == {GreedyStep}
    methods.remove(GreedyStep)
    assert GreedyStep not in chosen(model)
    assert MixtureLabels in methods


@pytest.mark.parametrize("inline", [False, True])
def test_an_operation_has_the_gradient_that_it_was_given(inline):
    """Otherwise NUTS follows PyTensor's own, which is infinite at a multiple eigenvalue and unknown for counts."""
    x = pt.dscalar("x")
    square = pymc_compat.with_gradient([x], [x**2], lambda inputs, outputs, grads: [100 * grads[0]], inline=inline)
    value = square(x)
    found = pytensor.function([x], [value, pytensor.grad(value, x)], mode="FAST_COMPILE")(3.0)
    assert [float(one) for one in found] == [9.0, 100.0]


def test_the_log_density_of_a_subclass_is_its_own():
    """Otherwise labels have the density of a plain Categorical, and any sampler can move them."""

    class Doubled(pymc_compat.CategoricalRV):
        pass

    @pymc_compat.log_density_of(Doubled)
    def _(op, values, *inputs, **kwargs):
        return 2 * pm.logp(pm.Categorical.dist(p=inputs[-1]), values[0])

    plain = pm.Categorical.dist(p=[0.25, 0.75]).owner
    made = Doubled().make_node(*plain.inputs).outputs[1]
    assert float(pm.logp(made, 1).eval(mode="FAST_COMPILE")) == pytest.approx(2 * np.log(0.75))


def test_constants_and_data_are_known_and_variables_of_a_sampler_are_not():
    """Otherwise observed labels are refused, or free ones are not."""
    free, data = pt.lscalar("free"), pytensor.shared(np.array(1))
    assert pymc_compat.is_known(pt.constant(1)) and pymc_compat.is_known(data + 1)
    assert not pymc_compat.is_known(free) and not pymc_compat.is_known(free + data)


def test_a_check_raises_in_compiled_functions_of_every_mode_that_pm_sample_uses():
    """Otherwise a refusal is compiled away."""
    x, allowed = pt.dscalar("x"), pytensor.shared(np.array(0))
    check = pymc_compat.CheckAndRaise(pm.exceptions.SamplingError, "refused: 'x'")(x**2, allowed > 0)
    for mode in (None, "FAST_COMPILE"):
        function = pytensor.function([x], check, mode=mode)
        allowed.set_value(np.array(0))
        with pytest.raises(pm.exceptions.SamplingError, match="refused: 'x'"):
            function(2.0)
        allowed.set_value(np.array(1))
        assert function(2.0) == 4.0


def test_packed_factors_are_filled_row_by_row():
    """Otherwise the MAP learner and the initial values of LKJCholeskyCov turn factors round."""
    factor = pymc_compat.expand_packed_triangular(2, pt.constant([1.0, 2.0, 3.0]), lower=True)
    np.testing.assert_array_equal(factor.eval(mode="FAST_COMPILE"), [[1.0, 0.0], [2.0, 3.0]])


def test_transforms_are_of_the_kinds_that_initial_values_know():
    """Otherwise values are not moved into the support: an infinite start."""
    with pm.Model() as model:
        pm.Dirichlet("w", [1.0, 1.0])
        pm.HalfNormal("s")
        pm.Beta("b", 1.0, 1.0)
        pm.Uniform("u", 0, 1)
        pm.Normal("o", shape=2, transform=pm.distributions.transforms.ordered)
    kinds = {rv.name: transform for rv, transform in model.rvs_to_transforms.items()}
    assert isinstance(kinds["w"], pymc_compat.SimplexTransform) and isinstance(kinds["s"], pymc_compat.LogTransform)
    assert isinstance(kinds["b"], pymc_compat.LogOddsTransform) and isinstance(kinds["o"], pymc_compat.Ordered)
    assert isinstance(kinds["u"], pymc_compat.IntervalTransform)
    start = pymc_compat.make_initial_point_fn(model=model, return_transformed=False)(0)
    assert set(start) == set(kinds) and start["s"] > 0


def test_frozen_models_are_models():
    """Otherwise the density of labels in a frozen model cannot be opened."""
    freeze = getattr(optimization, "freeze_model", lambda model: model)
    with pm.Model() as model:
        pm.Normal("x")
    assert isinstance(freeze(model), pymc_compat.AnyModel) and isinstance(model, pymc_compat.AnyModel)
