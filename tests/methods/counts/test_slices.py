"""Fits to slices: the gradient and the search, and whole fits above two columns."""

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.slices import Slices, slice_counts, slice_directions
from pm_dpgmm.methods.counts import slice_fit
from pm_dpgmm.methods.counts.slice_fit import SliceFits
from pm_dpgmm.methods.counts.slice_model import Components, SliceData, dispersion, expected_shares, improved, objective
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.noise import discrete_laplace
from tests.builders.examples import examples

TRUE = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0, 0.0], [3.0, 2.0, -1.0], [-2.0, 3.0, 2.0]],
    [
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.6]],
        [[0.6, -0.3, 0.1], [-0.3, 0.8, 0.0], [0.1, 0.0, 1.0]],
        [[0.4, 0.1, 0.0], [0.1, 0.5, -0.2], [0.0, -0.2, 0.7]],
    ],
)
BOUNDS = np.array([[-8.0, 8.0]] * 3)


def quiet(done, total):
    return None


def loss(release):
    """Log-density per record lost against the true mixture, on fresh records."""
    fresh = TRUE.sample(20_000, rng=np.random.default_rng(99))
    return float(np.mean(TRUE.log_density(fresh) - release.log_density(fresh)))


# ------------------------------------------------------------------ model
def small_problem(seed=0, n=2_000, n_cells=24, noise_scale=9.0):
    rng = np.random.default_rng(seed)
    slices = Slices(slice_directions(3), n_cells)
    exact = slice_counts(TRUE.sample(n, rng=rng), slices, bounds=BOUNDS)
    noisy = exact + discrete_laplace(exact.shape, scale=noise_scale, rng=rng)
    return SliceData(slices, noisy.astype(float), noise_scale, rng.normal(size=(40, 3)) * 4)


def true_components(data, n=2_000.0):
    width = 16.0 / data.slices.n_cells
    return Components.of(n * TRUE.weights, TRUE.means / width, TRUE.covariances / width**2)


def test_expected_shares_are_the_shares_of_simulated_records():
    data = small_problem()
    found = true_components(data)
    points = TRUE.sample(200_000, rng=np.random.default_rng(5)) * data.slices.n_cells / 16.0
    counts = np.bincount(data.slices.index(points).ravel(), minlength=len(data.counts))
    expected = TRUE.weights @ expected_shares(data, found)[0] * 200_000
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected) + 6).all()  # about 300 Poisson counts


def test_the_gradient_is_that_of_the_objective():
    data = small_problem()
    rng = np.random.default_rng(3)
    found = true_components(data, n=1_500.0)
    found = Components(found.rates * [1.2, 0.7, 1.4], found.means + rng.normal(size=(3, 3)), found.factors * 1.3)

    def unpacked(theta):
        factors = np.zeros((3, 3, 3))
        factors[:, *np.tril_indices(3)] = theta[12:].reshape(3, 6)
        return Components(theta[:3], theta[3:12].reshape(3, 3), factors)

    theta = np.concatenate([found.rates, found.means.ravel(), found.factors[:, *np.tril_indices(3)].ravel()])
    gradient = objective(data, found, 7.0)[1]
    flat = [gradient.rates, gradient.means.ravel(), gradient.factors[:, *np.tril_indices(3)].ravel()]
    numeric = optimize.approx_fprime(theta, lambda t: objective(data, unpacked(t), 7.0)[0], 1e-6)
    assert np.allclose(np.concatenate(flat), numeric, rtol=1e-3, atol=2e-2)


def test_the_search_climbs_and_the_dispersion_tells_a_fit_from_a_misfit():
    data = small_problem(n=20_000)
    start = true_components(data, n=20_000.0)
    value, found = improved(data, start, 1.0, steps=100)
    assert value >= objective(data, start, 1.0)[0]
    assert 0.4 < dispersion(data, found) < 1.6  # four deviations: about 270 squared Laplace residuals, variance 5 each
    assert dispersion(data, Components(found.rates, -found.means, found.factors)) > 3


@pytest.mark.thorough
@given(
    counts=st.lists(st.integers(-(10**6), 10**6), min_size=4, max_size=4)
    | st.lists(st.sampled_from([-3, 0, 1, 10**15]), min_size=4, max_size=4),
    n_components=st.integers(1, 2),
    noise_scale=st.floats(1e-3, 1e7),
)
@settings(max_examples=examples(25))
def test_any_counts_give_a_valid_mixture(counts, n_components, noise_scale):
    """The fit runs after the budget is spent: whatever the noise did, it answers."""
    slices = Slices(slice_directions(2), 4)
    noisy = np.resize(np.array(counts, dtype=np.int64), slices.offsets[-1])
    settings = {"N_POINTS": 200, "N_CLOUD": 100, "LEVELS": 4, "N_STARTS": 2, "MAX_STEPS": 30}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setattr(slice_fit, name, value)
        fits = SliceFits.to(noisy, slices, np.array([[0.0, 1.0], [-5.0, 9.0]]), noise_scale=noise_scale)
        mixture, misfit = fits.alone(n_components, quiet)
    assert mixture.n_components == n_components and np.isfinite(misfit)


# ------------------------------------------------------------------ method
def test_a_mixture_in_three_columns_comes_out_right():
    """Seeded: the median loss of ten seeds is 0.006, the worst 0.010."""
    records = TRUE.sample(10_000, rng=np.random.default_rng(4))
    release = dpg.fit_gmm(records, 3, epsilon=1.0, bounds=(-8, 8), random_seed=1, progress=False)
    assert release.method == "slices" and release.guarantee.delta == 0 and not release.private
    assert -0.002 < loss(release) < 0.03
    order = np.argsort(-release.weights)
    assert np.allclose(release.weights[order], TRUE.weights, atol=0.03)
    assert np.allclose(release.means[order], TRUE.means, atol=0.25)
    assert np.allclose(release.covariances[order], TRUE.covariances, atol=0.4)
    assert 0.4 < release.noise["dispersion"] < 1.6


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # TRUE has three
def test_a_release_says_what_was_released_and_the_mixture_follows_from_it(tmp_path):
    records = TRUE.sample(3_000, rng=np.random.default_rng(4))
    release = dpg.fit_gmm(records, 2, epsilon=1.0, bounds=(-8, 8), progress=False)
    assert release.private and release.guarantee.curve(1.0) == 0.0 and release.guarantee.curve(0.9) > 0
    assert release.noise["scale"] == 18.0 and release.noise["sensitivity_l1"] == 18
    again = dpg.load(release.save(tmp_path / "release.json"))
    slices = Slices(again.raw["directions"], 24)
    assert (slices.sizes == again.raw["sizes"]).all() and len(again.raw["counts"]) == slices.offsets[-1]
    counts = again.raw["counts"].astype(np.int64)
    mixture, misfit = SliceFits.to(counts, slices, again.raw["bounds"], noise_scale=18.0).alone(2, quiet)
    assert np.allclose(mixture.means, release.means) and np.allclose(mixture.covariances, release.covariances)
    assert misfit == pytest.approx(release.noise["dispersion"])
    json.dumps(dict(again.noise))


@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # TRUE has three
def test_add_remove_needs_half_the_noise_and_keeps_the_number_of_records_secret():
    records = TRUE.sample(2_000, rng=np.random.default_rng(4))
    release = dpg.fit_gmm(records, 1, epsilon=1.0, bounds=(-8, 8), neighbouring="add-remove", progress=False)
    assert release.noise["scale"] == 9.0 and release.n_records is None and 2_000 not in release.noise.values()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # TRUE has three
def test_records_outside_the_bounds_count_as_the_nearest_limit_and_columns_have_units_of_their_own():
    records = TRUE.sample(4_000, rng=np.random.default_rng(4))
    wild = records.copy()
    wild[:10] = 1e300
    limits = np.where(np.arange(4_000)[:, None] < 10, 8.0, records)
    settings = {"epsilon": 1.0, "random_seed": 3, "progress": False}
    first, second = (dpg.fit_gmm(rows, 2, bounds=(-8, 8), **settings) for rows in (wild, limits))
    assert (first.raw["counts"] == second.raw["counts"]).all()
    unit, offset = np.array([1e-3, 1.0, 1e6]), np.array([0.0, -50.0, 1e7])
    scaled = dpg.fit_gmm(
        limits * unit + offset, 2, bounds=np.array([-8, 8]) * unit[:, None] + offset[:, None], **settings
    )
    assert np.allclose((scaled.means - offset) / unit, second.means, atol=0.3)


@pytest.mark.thorough
def test_misfit_is_reported_and_the_answer_stays_finite():
    """Point masses and few records: a mixture fits neither, and the fit says so or stays wide."""
    rng = np.random.default_rng(0)
    atoms = rng.integers(0, 2, (20_000, 3)).astype(float)
    with pytest.warns(dpg.FitWarning, match="a mixture of 2 components does not fit the released counts"):
        release = dpg.fit_gmm(atoms, 2, epsilon=1.0, bounds=(-0.5, 1.5), random_seed=1, progress=False)
    assert release.noise["dispersion"] > 1.5 and np.isfinite(release.log_density(atoms[:100])).all()
    with pytest.warns(dpg.FitWarning, match="too few records .* more than 100 times the records"):
        few = dpg.fit_gmm(rng.normal(size=(50, 4)), 2, epsilon=0.1, bounds=(-9, 9), random_seed=1, progress=False)
    assert np.isfinite(few.means).all()
