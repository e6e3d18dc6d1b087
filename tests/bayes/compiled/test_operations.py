"""Compiled operations: values, slopes and second derivatives are those of the graphs that they stand for."""

from __future__ import annotations

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import graph_inputs
from scipy import special

from pm_dpgmm.bayes.compiled.kernel_calls import by_address
from pm_dpgmm.bayes.compiled.operation import CompiledOperation
from pm_dpgmm.bayes.compiled.value_with_slopes import value_of
from pm_dpgmm.bayes.likelihoods.counts_graph import log_count
from pm_dpgmm.bayes.likelihoods.counts_operation import count_density
from pm_dpgmm.bayes.likelihoods.em_operation import line_of, space_of
from pm_dpgmm.bayes.likelihoods.local_operation import bits_of, named_of, sides_of
from pm_dpgmm.bayes.likelihoods.sketch_operation import exact_of, held_of
from pm_dpgmm.bayes.parameters.anchor import plain_anchor
from pm_dpgmm.bayes.parameters.anchor_operation import parameters_at
from pm_dpgmm.bayes.parameters.centred_normal import centred_normal
from pm_dpgmm.bayes.parameters.params import mixture_params
from pm_dpgmm.bayes.rows.density import gmm
from pm_dpgmm.bayes.rows.density_graph import log_joint, log_sum
from pm_dpgmm.bayes.rows.density_kernel import exponentials
from pm_dpgmm.bayes.rows.density_operation import mixture_log_density
from pm_dpgmm.bayes.rows.missing import patterns
from pm_dpgmm.methods.counts.histogram_law import NoisyGrid, log_density
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")


def symbols(k, d):
    return [pt.vector("w", shape=(k,)), pt.matrix("m", shape=(k, d)), pt.tensor3("c", shape=(k, d, d))]


def parts(k, d, *, seed):
    rng = np.random.default_rng(seed)
    factors = np.tril(0.3 * rng.normal(size=(k, d, d))) + np.eye(d)
    return [rng.dirichlet(np.full(k, 5.0)), rng.normal(size=(k, d)), factors]


def with_slopes(total, inputs):
    """A scalar, its gradient, and the gradient of the square of that."""
    slopes = pt.grad(total, inputs)
    return [total, *slopes, *pt.grad(sum(pt.sum(slope**2) for slope in slopes), inputs)]


def assert_same(found, expected, inputs, point, *, mode="FAST_COMPILE"):
    both = [pytensor.function(inputs, outputs, mode=mode)(*point) for outputs in (found, expected)]
    for a, b in zip(*both, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(b).max()))


def density_forms(k, d, *, holes):
    """Rows (5 of them are data, or symbols in the last place), weights, means, factors; both forms of the density."""
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(5, d))
    if holes:
        rows[0], rows[1, 0], rows[2, -1] = np.nan, np.nan, np.nan
    place, inputs = pt.matrix("x", shape=(5, d)), symbols(k, d)
    pattern = patterns(rows) if holes else None
    compiled = mixture_log_density(place, *inputs, pattern)
    graph = log_sum(log_joint(place, inputs[0], inputs[1], inputs[2] * np.tri(d), *(pattern or ())))
    return [place, *inputs], [np.nan_to_num(rows), *parts(k, d, seed=k)], compiled, graph


@pytest.mark.thorough(quick=["1-1-False"])
@pytest.mark.parametrize("k, d, holes", [(1, 1, False), (3, 2, False), (2, 3, False), (2, 3, True)])
def test_the_density_and_its_derivatives_are_those_of_the_graph(k, d, holes):
    inputs, point, compiled, graph = density_forms(k, d, holes=holes)
    scale = np.linspace(1.0, 2.0, 5)  # every row counts differently
    assert_same(*(with_slopes((scale * form).sum(), inputs) for form in (compiled, graph)), inputs, point)


def test_the_numba_backend_has_the_same_density():
    inputs, point, compiled, graph = density_forms(2, 2, holes=True)
    outputs = [compiled, *pt.grad(compiled.sum(), inputs)]
    found = pytensor.function(inputs, outputs, mode="NUMBA")(*point)
    expected = pytensor.function(inputs, [graph, *pt.grad(graph.sum(), inputs)], mode="FAST_COMPILE")(*point)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_other_backends_get_the_graph():
    inputs, _point, compiled, _ = density_forms(2, 2, holes=True)
    graph = FunctionGraph(inputs, [compiled, *pt.grad(compiled.sum(), inputs)], clone=True)
    assert any(isinstance(node.op, CompiledOperation) for node in graph.apply_nodes)
    from pytensor.compile.mode import JAX

    JAX.optimizer.rewrite(graph)
    assert not any(isinstance(node.op, CompiledOperation) for node in graph.apply_nodes)


def test_densities_can_be_batched():
    inputs, point, compiled, _ = density_forms(2, 2, holes=False)
    several = pt.matrix("several", shape=(3, 2))
    batched = vectorize_graph(compiled, {inputs[1]: several})
    weights = np.array([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]])
    found = pytensor.function([inputs[0], several, *inputs[2:]], batched, mode="FAST_COMPILE")(
        point[0], weights, *point[2:]
    )
    one = pytensor.function(inputs, compiled, mode="FAST_COMPILE")
    for i in range(3):
        np.testing.assert_allclose(found[i], one(point[0], weights[i], *point[2:]), rtol=1e-12)


def test_exponentials_are_those_of_numpy_down_to_the_smallest():
    values = np.concatenate([-np.geomspace(1e-300, 708, 5_000), -np.linspace(0, 745, 5_000), [0.0, -np.inf, np.nan]])
    found = values.copy()
    exponentials(found, len(found))
    expected = np.where(values < -708, 0.0, np.exp(values))
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0)


@pytest.mark.thorough(quick=["1-1"])
@pytest.mark.parametrize("k, d", [(1, 1), (3, 2)])
def test_parameters_at_offsets_and_their_derivatives_are_those_of_the_graph(k, d):
    weights, means, factors = parts(k, d, seed=1)
    anchor = plain_anchor(
        Mixture(weights, means, factors @ factors.swapaxes(1, 2)), weight_conc=20.0, mean_scale=0.3, cov_scale=0.3
    )
    free = pt.vector("free", shape=(anchor.n_parameters,))
    rng = np.random.default_rng(2)
    compiled = parameters_at(free, anchor.root, anchor)
    node = compiled[0].owner
    scales = [rng.normal(size=one.type.shape) for one in compiled]
    totals = [
        sum((s * one).sum() for s, one in zip(scales, form, strict=True))
        for form in (compiled, node.op.graph(*node.inputs))
    ]
    assert_same(*(with_slopes(total, [free]) for total in totals), [free], [rng.normal(size=anchor.n_parameters)])


@pytest.mark.thorough(quick=["2-held"])
@pytest.mark.parametrize("operation", [held_of, exact_of], ids=["held", "exact"])
@pytest.mark.parametrize("d", [1, 2])
def test_sketch_densities_and_their_derivatives_are_those_of_the_graph(operation, d):
    rng, k, m = np.random.default_rng(d), 2, 8
    inputs, n = symbols(k, d), 2 * m
    frequencies, centre = rng.normal(size=(m, d)), rng.normal(size=d)
    if operation is held_of:
        fixed = [rng.uniform(1, 3, size=(2, m)), rng.normal(size=n), 0.1 * rng.normal(size=(3, n)), rng.normal(size=1)]
    else:
        scales = np.array([[100.0], [10.0], [3.0], [6.0]]) * rng.uniform(0.8, 1, size=(4, n))
        fixed = [30 * rng.normal(size=n), rng.uniform(30, 60, size=n), scales, 0.3 * rng.normal(size=n)]
    fixed = [pytensor.shared(one) for one in (frequencies, centre, *fixed)]
    compiled = value_of(operation, *inputs, *fixed)
    graph = operation.value(inputs[0], inputs[1], inputs[2] * np.tri(d), *fixed)
    if operation is held_of:
        outputs = [with_slopes(form, inputs) for form in (compiled, graph)]
    else:  # second derivatives of this one take a minute to compile
        outputs = [[form, *pt.grad(form, inputs)] for form in (compiled, graph)]
    assert_same(*outputs, inputs, parts(k, d, seed=d))


@pytest.mark.thorough(quick=["2-300-exact-False", "1-300-exact-True"])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("form", ["exact", "gaussian"])
@pytest.mark.parametrize("n_records", [300, None])
@pytest.mark.parametrize("d", [1, 2])
def test_count_densities_and_their_derivatives_are_those_of_the_graph(d, n_records, form, flat):
    """Negative, small and large counts; the far tails of both sides.

    Beside a uniform law the slopes by the weights nearly cancel, and are left with more of the rounding of logarithms.
    """
    close = 1e-8 if flat else 1e-10
    rng = np.random.default_rng(d)
    bounds, n_cells = np.array([[-3.0, 3.0], [-2.0, 4.0]])[:d], 5
    noisy = np.round(rng.uniform(-5, 200, size=n_cells**d) * (rng.uniform(size=n_cells**d) < 0.5))
    noisy[:2] = -3.0, 5_000.0
    grid, inputs = NoisyGrid(noisy, bounds, n_cells, 1.7, n_records), symbols(2, d)
    compiled = count_density(grid, form, *inputs, flat=flat)
    weights, means, chol = inputs[0], inputs[1], inputs[2] * np.tri(d)
    if flat:  # the last component is uniform, and its mean and factor are nobody's
        of_bins = cell_probabilities(grid.edges, weights[:-1], means[:-1], chol[:-1], xp=pt)
        probabilities = of_bins + weights[-1] / noisy.size
    else:
        probabilities = cell_probabilities(grid.edges, weights, means, chol, xp=pt)
    graph = log_density(grid, probabilities, form=form, xp=pt, log_count=log_count)
    outputs = [[one, *pt.grad(one, inputs)] for one in (compiled, graph)]
    point = parts(2, d, seed=d)
    node = compiled.owner.inputs[0].owner
    own_graph = node.op.value(*node.inputs)  # which backends without the kernel compile
    values = pytensor.function(inputs, [own_graph, graph], mode="FAST_COMPILE", on_unused_input="ignore")(*point)
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    found, expected = (pytensor.function(inputs, one, mode="FAST_COMPILE")(*point) for one in outputs)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close * max(1.0, np.abs(b).max()))


def em_arrays(d, *, held, n_squares):
    """Of two steps of three components, for :mod:`em_operation`; some nodes lie outside boxes and balls."""
    rng, t, k, q = np.random.default_rng(d), 2, 3, 40
    p, box = t * k * (1 + d + n_squares), np.array([[-1.5, 1.5]] * d)
    root = np.tril(0.2 * rng.normal(size=(p, p))) + np.eye(p) if held else np.zeros((0, p))
    law = [5 * rng.normal(size=p), root, np.array([100.0, -75.0, 2.0])]
    if d == 1:
        nodes = np.sort(rng.uniform(-1.5, 1.5, size=q))
        return line_of, [nodes, np.log(rng.uniform(0.1, 0.2, size=q)), rng.normal(size=(q + 2, p)), box[0], *law]
    whiteners = np.tril(rng.normal(size=(t, k, d, d))) + 2 * np.eye(d)
    balls = [rng.normal(size=(t, k, d)), rng.normal(size=(t, k, d)), rng.uniform(1, 2, size=(t, k, d))]
    nodes = [rng.normal(size=(q, d)), rng.dirichlet(np.ones(q)), rng.normal(size=(t, k)), whiteners, *balls]
    return space_of, [*nodes, box, rng.uniform(0.5, 1, size=p), *law]


@pytest.mark.thorough(quick=["1-1-False"])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("d, n_squares", [(1, 1), (2, 3), (2, 2), (2, 1), (3, 6)])
def test_densities_of_em_sums_and_their_derivatives_are_those_of_the_graph(d, n_squares, held):
    operation, fixed = em_arrays(d, held=held, n_squares=n_squares)
    inputs, fixed = symbols(2, d), [pytensor.shared(one, shape=one.shape) for one in fixed]
    graph = operation.value(inputs[0], inputs[1], inputs[2] * np.tri(d), *fixed)
    outputs = [[one, *pt.grad(one, inputs)] for one in (value_of(operation, *inputs, *fixed), graph)]
    assert_same(*outputs, inputs, parts(2, d, seed=d))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("place", [(0, 1), (1, 0, 0), (2, 1, 0, 0)])
def test_em_sums_have_no_density_where_a_parameter_is_no_number(place, held, d):
    operation, fixed = em_arrays(d, held=held, n_squares=1)
    point = parts(2, d, seed=1)
    point[place[0]][place[1:]] = np.nan
    assert all(np.isnan(one).any() for one in type(operation).kernel(*point, *fixed))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_densities_of_sides_and_their_derivatives_are_those_of_the_graph(d):
    """Waves on both sides of the switch between their two forms, a flat one, and one that is 0."""
    rng, k, m = np.random.default_rng(d), 2, 12
    inputs = symbols(k, d)
    frequencies, phases = np.geomspace(1e-3, 30, m)[:, None] * rng.normal(size=(m, d)), rng.uniform(-9, 9, size=m)
    frequencies[0] = 0.0
    asked = rng.integers(1, 99, size=m).astype(float)
    fixed = [frequencies, phases, asked, np.floor(asked * rng.uniform(size=m)), np.array([0.7, 0.3, 5.0])]
    fixed = [pytensor.shared(one, shape=one.shape) for one in fixed]
    graph = sides_of.value(inputs[0], inputs[1], inputs[2] * np.tri(d), *fixed)
    outputs = [[one, *pt.grad(one, inputs)] for one in (value_of(sides_of, *inputs, *fixed), graph)]
    assert_same(*outputs, inputs, parts(k, d, seed=d))


def cell_arrays(d, *, subsets):
    """For densities of responses about cells, of which some are far from all components."""
    rng, inner = np.random.default_rng(d), np.array([[-2.0, -0.5, 0.1, 6.0], [-0.8, 1.1, 2.0, 9.0]])[:d]
    members = (rng.uniform(size=(7, 5**d)) < 0.4).astype(float) if subsets else np.zeros((0, 5**d))
    counts = rng.integers(0, 99, size=len(members) or 5**d).astype(float)
    return [inner, np.array(special.roots_legendre(6)), counts, members]


@pytest.mark.thorough(quick=["1-names"])
@pytest.mark.parametrize("kind", ["names", "subsets", "bits"])
@pytest.mark.parametrize("d", [1, 2])
def test_densities_of_cells_and_their_derivatives_are_those_of_the_graph(d, kind):
    inputs, operation = symbols(2, d), bits_of if kind == "bits" else named_of
    law = np.array([kind == "bits", 0.3, 0.4, 5.0, 99.0])
    fixed = [pytensor.shared(one, shape=one.shape) for one in (*cell_arrays(d, subsets=kind == "subsets"), law)]
    graph = operation.value(inputs[0], inputs[1], inputs[2] * np.tri(d), *fixed)
    outputs = [[one, *pt.grad(one, inputs)] for one in (value_of(operation, *inputs, *fixed), graph)]
    assert_same(*outputs, inputs, parts(2, d, seed=d))


@pytest.mark.parametrize("bits", [0.0, 1.0])
@pytest.mark.parametrize("place", [(0, 1), (1, 0, 1), (2, 1, 1, 0)])
def test_cells_have_no_density_where_a_parameter_is_no_number(place, bits):
    point, law = parts(2, 2, seed=1), np.array([bits, 0.3, 0.4, 0.0, 99.0])
    point[place[0]][place[1:]] = np.nan
    assert all(np.isnan(one).any() for one in type(named_of).kernel(*point, *cell_arrays(2, subsets=False), law))


@pytest.mark.parametrize("place", [(0, 1), (1, 0, 1), (2, 1, 1, 0)])
def test_sides_have_no_density_where_a_parameter_is_no_number(place):
    point, law = parts(2, 2, seed=1), np.array([0.7, 0.3, 0.0])
    point[place[0]][place[1:]] = np.nan
    waves = np.array([[1.0, 2.0], [3.0, 0.5]]), np.zeros(2), np.full(2, 9.0), np.full(2, 4.0)
    assert all(np.isnan(one).any() for one in type(sides_of).kernel(*point, *waves, law))


@pytest.mark.parametrize("place", [(0, 1), (1, 0, 1), (2, 1, 1, 0)])
def test_counts_have_no_density_where_a_parameter_is_no_number(place):
    grid = NoisyGrid(np.arange(9.0), np.array([[-3.0, 3.0], [-2.0, 4.0]]), 3, 1.7, 36)
    inputs, point = symbols(2, 2), parts(2, 2, seed=1)
    point[place[0]][place[1:]] = np.nan
    value = count_density(grid, "exact", *inputs)
    found = pytensor.function(inputs, [value, *pt.grad(value, inputs)], mode="FAST_COMPILE")(*point)
    assert all(np.isnan(one).any() for one in found)


def test_the_normal_law_of_the_weak_prior_is_that_of_pymc():
    rng = np.random.default_rng(1)
    factor = np.tril(0.3 * rng.normal(size=(4, 4))) + np.eye(4)
    with pm.Model() as model:
        x = centred_normal("x", factor)
    with pm.Model() as other:
        pm.MvNormal("x", np.zeros(4), chol=factor, shape=4)
    point = {"x": rng.normal(size=4)}
    for name, options in {"compile_logp": {}, "compile_dlogp": {}, "compile_d2logp": {"negate_output": False}}.items():
        found, expected = (getattr(one, name)(mode="FAST_COMPILE", **options)(point) for one in (model, other))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert model.initial_point()["x"].tolist() == [0.0] * 4
    drawn = pm.draw(x, 20_000, random_seed=1)
    # 4.5 standard errors of 10 covariances: false alarm 1e-4; the seed is fixed
    size = np.sqrt(np.outer(*[np.diag(factor @ factor.T)] * 2) * 2 / 20_000)
    assert (np.abs(np.cov(drawn.T) - factor @ factor.T) < 4.5 * size).all()


@pytest.mark.parametrize("prior", ["anchored", "weak"])
def test_a_model_of_params_and_counts_is_a_handful_of_operations(prior):
    mixture = Mixture([0.4, 0.6], [[0.0], [5.0]], [np.eye(1)] * 2)
    grid = NoisyGrid(np.arange(16.0), np.array([[-5.0, 10.0]]), 16, 1.0, 120)
    with pm.Model() as model:
        th = mixture_params("g", mixture, weight_conc=100, mean_scale=0.2, cov_scale=0.2, prior=prior)
        pm.Potential("counts", count_density(grid, "exact", th.weights, th.means, th.chol))
    value = model.value_vars[0]
    outputs = [model.logp(), model.dlogp()]
    data = {one for one in graph_inputs(outputs) if isinstance(one, SharedVariable)}
    graph = FunctionGraph([value, *data], outputs, clone=True)
    get_mode("NUMBA").optimizer.rewrite(graph)
    assert len(graph.apply_nodes) <= 15


def test_kernels_are_called_by_address_with_arrays_of_any_layout():
    """The caller's code does not hold the kernel's: it is short, and a fault inside is raised."""

    @numba.njit
    def half(values):
        if values[0] < 0:
            raise ValueError("negative")
        return values / 2

    call = by_address(half, [pt.vector()])

    @numba.njit
    def caller(values):
        return call(values)

    assert caller(np.arange(6.0)[::2]).tolist() == [0.0, 1.0, 2.0]
    assert caller(np.arange(3.0)).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="negative"):
        caller(np.array([-1.0]))
    for code in caller.inspect_llvm().values():
        assert "pm_dpgmm_half" in code and "fdiv" not in code and "fmul" not in code


def test_a_model_of_params_and_gmm_is_a_handful_of_operations():
    """Each costs seconds at the first sampling with the Numba backend; as array operations they were two hundred."""
    mixture = Mixture([0.4, 0.6], [[0.0, 0.0], [5.0, 1.0]], [np.eye(2)] * 2)
    rows = mixture.sample(6, rng=np.random.default_rng(1))
    rows[0, 0] = np.nan
    with pm.Model() as model:
        th = mixture_params("g", mixture, weight_conc=100, mean_scale=0.2, cov_scale=0.2)
        gmm("y", th, observed=rows)
    value = model.value_vars[0]
    graph = FunctionGraph([value], [model.logp(), model.dlogp()], clone=True)
    get_mode("NUMBA").optimizer.rewrite(graph)
    assert len(graph.apply_nodes) <= 25
