"""Evidence from noisy counts: cells against SciPy, counts against direct sums, graphs against NumPy."""

import math

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special, stats

import pm_dpgmm as dpg
from pm_dpgmm.bayes.likelihoods import bins_kernel, counts as count_evidence, counts_graph, counts_kernel
from pm_dpgmm.mechanisms.histogram import cell_counts
from pm_dpgmm.methods.counts.histogram import HistogramMethod
from pm_dpgmm.methods.counts.histogram_law import NoisyGrid, log_density, log_noise_height, numpy_log_count
from pm_dpgmm.methods.counts.noisy_poisson import ELEMENTARY, HOMOGENEOUS, count_log_likelihood, falling_sum
from pm_dpgmm.mixture.background import background_of
from pm_dpgmm.mixture.cell_probabilities import cell_probabilities
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import discrete_laplace

BOUNDS = np.array([[-6.0, 6.0], [-4.0, 5.0]])
SCALES = [0.2, 0.5, 1.0, 2.0, 10.0, 40.0]

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # components are narrower than the few cells


def a_grid(d, n_cells=8, *, scale=2.0, n_records=100, counts=None):
    counts = np.zeros(n_cells**d) if counts is None else counts
    return NoisyGrid(counts, BOUNDS[:d], n_cells, scale, n_records)


def a_point(d):
    chol = np.array([np.eye(d) * 1.3, np.eye(d) * 0.7 + 0.3 * np.tril(np.ones((d, d)), -1)])
    return np.array([0.4, 0.6]), np.array([[-3.0, 1.0], [2.5, -0.5]])[:, :d], chol


def a_release(d, neighbouring="replace-one", n_cells=6):
    mixture = Mixture(*a_point(d)[:2], a_point(d)[2] @ np.swapaxes(a_point(d)[2], 1, 2))
    records = mixture.sample(300, rng=np.random.default_rng(2))
    return dpg.fit_gmm(
        records,
        2,
        epsilon=1.0,
        method=HistogramMethod(n_cells),
        bounds=BOUNDS[:d],
        neighbouring=neighbouring,
        random_seed=3,
    )


def beside(release, weights, means, chol):
    """The mixture with the background as released, if there is one."""
    background = background_of(release)
    if background is None:
        return weights, means, chol
    weight, broad = background
    factors = np.linalg.cholesky(broad.covariances)
    return np.append((1 - weight) * weights, weight), np.vstack([means, broad.means]), np.concatenate([chol, factors])


@pytest.mark.parametrize("mean, sd", [(0.3, 1.0), (-40.0, 1.0), (55.0, 2.0), (2.0, 0.01), (0.0, 300.0)])
def test_cells_of_one_column_are_differences_of_the_distribution_function_in_both_tails(mean, sd):
    grid = a_grid(1)
    found = cell_probabilities(grid.edges, np.ones(1), np.array([[mean]]), np.array([[[sd]]]))
    z = (np.linspace(-6, 6, 9)[1:-1] - mean) / sd
    low, high = np.append(-np.inf, z), np.append(z, np.inf)
    wanted = np.where(low > 0, stats.norm.sf(low) - stats.norm.sf(high), stats.norm.cdf(high) - stats.norm.cdf(low))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=0)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.95])
@pytest.mark.parametrize("size", [0.25, 0.5, 1.0, 3.0])
def test_cells_of_two_columns_equal_the_bivariate_distribution_function(correlation, size):
    n, sd = 8, size * (BOUNDS[:, 1] - BOUNDS[:, 0]) / 8
    mean, chol = np.array([0.4, -0.3]), np.array([[1.0, 0.0], [correlation, math.sqrt(1 - correlation**2)]])
    chol = sd[:, None] * chol
    found = cell_probabilities(a_grid(2).edges, np.ones(1), mean[None], chol[None]).reshape(n, n)
    edges = np.linspace(BOUNDS[:, 0], BOUNDS[:, 1], n + 1, axis=1)
    edges[:, 0], edges[:, -1] = mean - 12 * sd, mean + 12 * sd  # records outside count in the nearest cell
    law = type(stats.multivariate_normal)(seed=1)
    accuracy = {"abseps": 1e-10, "releps": 1e-10, "maxpts": 10**6}
    for i, j in [(3, 3), (4, 4), (4, 2), (0, 3), (7, 7), (5, 0)]:
        corners = [[edges[0, i + a], edges[1, j + b]] for a in (0, 1) for b in (0, 1)]
        below = np.reshape([law.cdf(corner, mean, chol @ chol.T, **accuracy) for corner in corners], (2, 2))
        assert found[i, j] == pytest.approx(below[1][1] - below[0][1] - below[1][0] + below[0][0], abs=1e-6)
    assert found.sum() == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("d", [1, 2])
def test_records_fall_into_the_cells_with_these_probabilities(d):
    """Chi-square over cells, some records outside the bounds; false alarm 1e-4."""
    weights, means, chol = a_point(d)
    means = means * [1.5, 1][:d]
    records = Mixture(weights, means, chol @ np.swapaxes(chol, 1, 2)).sample(50_000, rng=np.random.default_rng(1))
    assert (np.abs(records[:, 0]) > 6).mean() > 0.03
    counts = cell_counts(records, bounds=BOUNDS[:d], n_cells=8).ravel()
    expected = 50_000 * cell_probabilities(a_grid(d).edges, weights, means, chol)
    known = expected > 5
    surprise = ((counts - expected)[known] ** 2 / expected[known]).sum()
    assert stats.chi2.sf(surprise, known.sum() - 1) > 1e-4


def test_counts_equal_the_direct_sum_and_slopes_the_one_a_count_lower():
    counts, expected = (
        grid.ravel()
        for grid in np.meshgrid(
            [-60.0, -5, -1, 0, 1, 2, 20, 100, 1000, 3000], [1e-50, 1e-6, 0.03, 1, 7.3, 90, 1000, 2500]
        )
    )
    y = np.arange(6_000)
    poisson = y * np.log(expected)[:, None] - expected[:, None] - special.gammaln(y + 1)
    m = pt.dvector()
    scales = (0.2, 1.0, 10.0)
    values = [counts_graph.log_count(counts, m, scale) for scale in scales]
    slopes = [pt.grad(value.sum(), m) for value in values]
    found = pytensor.function([m], [*values, *slopes], mode="FAST_COMPILE")(expected)
    for scale, value, slope in zip(scales, found[:3], found[3:], strict=True):
        height, lower = (
            special.logsumexp(poisson - np.abs(counts[:, None] - step - y) / scale, axis=1) + log_noise_height(scale)
            for step in (0, 1)
        )
        np.testing.assert_allclose(value, height, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(slope, np.expm1(lower - height), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_the_law_of_a_noisy_count_sums_to_one(scale):
    found = np.exp(numpy_log_count(np.arange(-2_000.0, 2_000), 7.0, scale)).sum()
    assert found == pytest.approx(1, rel=1e-7)


def test_the_noise_variance_is_that_of_discrete_laplace():
    z = np.arange(-400, 401)
    for scale in (0.3, 1.0, 2.0, 8.0):
        height = np.exp(-np.abs(z) / scale)
        assert a_grid(1, scale=scale).noise_variance == pytest.approx((z**2 * height).sum() / height.sum(), rel=1e-12)


def multinomial_with_noise(noisy, probabilities, n, scale):
    """Log of the law of a noisy multinomial table by convolution over its cells, up to a constant."""
    y = np.arange(n + 1)
    law = np.ones(1)
    for count, p in zip(noisy, probabilities, strict=True):
        law = np.convolve(law, np.exp(special.xlogy(y, p) - special.gammaln(y + 1) - np.abs(count - y) / scale))
        law = law[: n + 1]
    return math.log(law[n])


def test_the_known_total_brings_the_law_closer_to_the_noisy_multinomial():
    rng, n, scale = np.random.default_rng(1), 100, 2.0
    x = (np.arange(24) - 11.5) / 3
    one, two = (np.exp(-0.5 * (x / sd) ** 2) for sd in (1.2, 1.6))
    one, two = one / one.sum(), two / two.sum()
    errors = []
    for _ in range(20):
        noisy = (rng.multinomial(n, one) + discrete_laplace(24, scale=scale, rng=rng)).astype(float)
        wanted = multinomial_with_noise(noisy, two, n, scale) - multinomial_with_noise(noisy, one, n, scale)
        grid = NoisyGrid(noisy, BOUNDS[:1], 24, scale, n)
        found = log_density(grid, two) - log_density(grid, one)
        alone = (numpy_log_count(noisy, n * two, scale) - numpy_log_count(noisy, n * one, scale)).sum()
        errors.append([found - wanted, alone - wanted])
    rough = np.sqrt(np.mean(np.square(errors), axis=0))
    assert rough[0] < 0.03 < 0.1 < rough[1]


@pytest.mark.parametrize("n", [10**6, 10**9])
def test_large_counts_lose_no_digits(n):
    """Noise of a few records in counts of thousands changes nothing: the multinomial law."""
    one, two = np.array([0.2, 0.5, 0.3]), np.array([0.2, 0.5, 0.3]) + np.array([2, -1, -1]) / math.sqrt(n)
    noisy = np.rint(n * one) + np.array([3.0, -2.0, 1.0])
    grid = NoisyGrid(noisy, BOUNDS[:1], 3, 2.0, n)
    wanted = noisy @ np.log(two / one)
    assert log_density(grid, two) - log_density(grid, one) == pytest.approx(wanted, abs=0.02)


def test_an_unknown_total_is_integrated_out():
    counts = np.array([14.0, 33.0, -2.0, 16.0, 9.0])
    grid = NoisyGrid(counts, BOUNDS[:1], 5, 1.0, None)
    totals = np.linspace(1e-3, 400, 40_000)
    for p in (np.array([0.2, 0.4, 0.05, 0.2, 0.15]), np.array([0.1, 0.3, 0.1, 0.3, 0.2])):
        heights = numpy_log_count(counts, totals[:, None] * p, 1.0).sum(axis=1)
        wanted = special.logsumexp(heights) + math.log(totals[1] - totals[0])
        assert log_density(grid, p) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.thorough(quick=["2-add-remove-gaussian"])
@pytest.mark.parametrize(
    "d, neighbouring, form",
    [(1, "add-remove", "exact"), (2, "replace-one", "exact"), (2, "replace-one", "gaussian"),
     (2, "add-remove", "gaussian")],
)  # fmt: skip
def test_graphs_equal_numpy_and_their_gradients_finite_differences(d, neighbouring, form):
    release = a_release(d, neighbouring)
    grid, point = count_evidence.statistics(release), a_point(d)
    given = [pt.dvector(), pt.dmatrix(), pt.dtensor3()]
    value = count_evidence.log_likelihood(release, *given, likelihood=form)
    found, *gradients = pytensor.function(given, [value, *pytensor.grad(value, given)], mode="FAST_COMPILE")(*point)

    def density(at):
        return log_density(grid, cell_probabilities(grid.edges, *beside(release, *at)), form=form)

    assert found == pytest.approx(density(point), rel=1e-8)
    for i, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            if i == 2 and place[1] < place[2]:
                continue
            ends = []
            for step in (1e-5, -1e-5):
                moved = [part.copy() for part in point]
                moved[i][place] += step
                ends.append(density(moved))
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("d", [1, 2])
def test_densities_and_gradients_are_finite_far_from_the_records(d):
    release = a_release(d)
    given = [pt.dvector(), pt.dmatrix(), pt.dtensor3()]
    value = count_evidence.log_likelihood(release, *given)
    function = pytensor.function(given, [value, *pytensor.grad(value, given)], mode="FAST_COMPILE")
    for place, sd in [(1e4, 1.0), (0.0, 1e-6), (0.0, 1e9)]:
        for found in function(np.array([1e-12, 1.0]), np.full((2, d), place), np.array([np.eye(d) * sd] * 2)):
            assert np.isfinite(found).all()


def test_counts_favour_the_truth():
    """Ten data sets, a shift of half a standard deviation; wrong with probability below 1e-6."""
    weights, means, chol = a_point(1)
    rng = np.random.default_rng(4)
    records = Mixture(weights, means, chol**2).sample(2_000, rng=rng)
    counts = cell_counts(records, bounds=BOUNDS[:1], n_cells=24)
    noisy = (counts + discrete_laplace(counts.shape, scale=2.0, rng=rng)).astype(float)
    grid = NoisyGrid(noisy, BOUNDS[:1], 24, 2.0, 2_000)
    right = log_density(grid, cell_probabilities(grid.edges, weights, means, chol))
    for shift in (0.5, -0.5):
        assert right > log_density(grid, cell_probabilities(grid.edges, weights, means + shift, chol)) + 5


def test_other_likelihoods_are_refused():
    with pytest.raises(ValueError, match="likelihood must be one of 'auto', 'exact', 'gaussian'"):
        count_evidence.log_likelihood(a_release(1), *a_point(1), likelihood="wishart")


def test_the_table_of_the_study_equals_the_law():
    from verification.calibration.histogram import TabulatedCounts

    counts = np.array([-5.0, 0.0, 3.0, 50.0, 200.0])
    expected = np.exp(np.random.default_rng(0).uniform(-12, 6.5, size=(200, 5)))
    table = TabulatedCounts(counts, 2.0)
    wanted, _ = count_log_likelihood(*np.broadcast_arrays(counts, expected), noise_scale=2.0)
    np.testing.assert_allclose(table(counts, expected, 2.0), wanted + log_noise_height(2.0), rtol=0, atol=1e-4)


def test_the_quadrature_and_the_batches_of_the_study_change_nothing():
    from verification.calibration import histogram, separated

    rng = np.random.default_rng(3)
    theta = separated.draw((3, 5), 2, rng=rng)
    counts = rng.poisson(5, size=(3, 1, histogram.N_CELLS[2] ** 2)).astype(float)
    grid = NoisyGrid(counts, np.array(histogram.BOUNDS[2]), histogram.N_CELLS[2], 2.0, histogram.N_RECORDS)
    point = separated.unpack(theta, 2)
    rough = cell_probabilities(grid.edges, *point, n_nodes=histogram.N_NODES)
    fine = cell_probabilities(grid.edges, *point)
    assert np.abs(rough - fine).max() * histogram.N_RECORDS < 0.1  # records
    single = NoisyGrid(counts[1, 0], grid.bounds, grid.n_cells, 2.0, grid.n_records)
    alone = [log_density(single, cell_probabilities(single.edges, *(part[1, i] for part in point))) for i in range(5)]
    np.testing.assert_allclose(log_density(grid, fine)[1], alone, rtol=1e-12)


def test_noise_too_small_to_move_a_count_keeps_probabilities_that_sum_to_one():
    counts = np.arange(-20.0, 80.0)
    for scale in (0.05, 0.1, 0.2):
        logs = numpy_log_count(counts, 12.5, scale)
        assert np.exp(logs).sum() == pytest.approx(1, abs=1e-12)
        graph = counts_graph.log_count(counts, pt.as_tensor_variable(np.full(100, 12.5)), scale)
        np.testing.assert_allclose(graph.eval(mode="FAST_COMPILE"), logs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("noisy", [(2100, 1800), (2150, 2010), (2200, 2100), (1900, 1950)])
def test_large_counts_with_more_noise_than_sampling_have_the_law_of_laplace_noise(noisy):
    n, scale = 4_000, 30.0
    y = np.arange(n + 1)
    noise = -(np.abs(noisy[0] - y) + np.abs(noisy[1] - n + y)) / scale
    grid = NoisyGrid(np.array(noisy, dtype=float), BOUNDS[:1], 2, scale, n)
    one, two = np.array([0.48, 0.52]), np.array([0.5, 0.5])
    wanted = [special.logsumexp(stats.binom(n, p[0]).logpmf(y) + noise) for p in (one, two)]
    assert log_density(grid, two) - log_density(grid, one) == pytest.approx(wanted[1] - wanted[0], abs=0.15)


def test_the_number_of_records_is_integrated_out_where_it_is_private():
    assert count_evidence.statistics(a_release(1, "add-remove")).n_records is None
    assert count_evidence.statistics(a_release(1)).n_records == 300


@pytest.mark.parametrize("compiled, coefficients", [("FALLING", ELEMENTARY), ("RISING", HOMOGENEOUS)])
def test_the_compiled_series_is_that_of_numpy(compiled, coefficients):
    for ratio, change in ((0.3, 0.05), (0.7, 0.01), (0.05, 0.3)):
        found = counts_kernel.log_series(ratio, change, getattr(counts_kernel, compiled))
        assert found == pytest.approx(np.log(falling_sum(ratio, change, coefficients)), rel=1e-13)


@pytest.mark.parametrize("place", [-5.6, 0.4, 5.6])
def test_slopes_of_bins_that_a_component_hardly_reaches_are_finite_differences(place):
    """Edges lie beyond the cut on either side, and the bin that is left is no wider for that."""
    edges, rule = np.array([[-5.5, 0.0, 5.5], [-1.0, 0.5, 1.0]]), np.array(special.roots_legendre(12))
    of_below, weight = np.random.default_rng(1).normal(size=(4, 4)), 0.7
    mean, chol = np.array([place, 0.2]), np.array([[0.25, 0.0], [0.3, 0.6]])
    tails = np.empty((4, 12, 3))

    def total(mean, chol):
        below = np.empty((4, 4))
        bins_kernel.plane_cells.py_func(edges, rule, mean, chol, below, tails)
        return weight * (of_below * below).sum()

    total(mean, chol)  # fills tails
    of_mean, of_chol = np.zeros(2), np.zeros((2, 2))
    bins_kernel.plane_slopes.py_func(edges, rule, weight, mean, chol, of_below, tails.copy(), of_mean, of_chol)
    for part, found in ((0, of_mean), (1, of_chol)):
        for at in zip(*np.nonzero(found), strict=True):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [mean.copy(), chol.copy()]
                moved[part][at] += step
                ends.append(total(*moved))
            assert found[at] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-8)
    assert of_mean.all() and np.count_nonzero(of_chol) == 3
