"""Slices: sensitivity of the counts, the gradient and the search, and whole fits above two columns."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms.histogram import histogram_loss
from pm_dpgmm.mechanisms.slices import Slices, slice_counts, slice_directions
from pm_dpgmm.methods.counts import slice_fit
from pm_dpgmm.methods.counts.slice_model import Components, SliceData, dispersion, expected_shares, improved, objective
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.privacy.noise import discrete_laplace
from tests.builders.examples import examples
from verification.neighbours import add_remove_pairs, replace_one_pairs

REPLACE, ADD_REMOVE = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
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


# ------------------------------------------------------------------ mechanism
@pytest.mark.parametrize("d", [3, 4, 5, 8])
def test_directions_are_public_unit_vectors_that_determine_every_covariance(d):
    directions = slice_directions(d)
    assert directions.shape == (d * (d + 3) // 2, d) and (directions[:d] == np.eye(d)).all()
    assert np.allclose(np.linalg.norm(directions, axis=1), 1)
    row, column = np.triu_indices(d)
    forms = directions[:, row] * directions[:, column] * np.where(row == column, 1, np.sqrt(2))
    noise = np.trace(np.linalg.inv(forms.T @ forms)) / len(row)  # of one covariance entry, for unit noise a direction
    axes_and_pairs = [
        (np.eye(d)[i] + np.eye(d)[j]) / np.linalg.norm(np.eye(d)[i] + np.eye(d)[j])
        for i, j in zip(row, column, strict=True)
    ]
    plain = (
        np.array(axes_and_pairs)[:, row] * np.array(axes_and_pairs)[:, column] * np.where(row == column, 1, np.sqrt(2))
    )
    # the budget is split over all directions, so noise counts with the square of their number
    more = (len(directions) / len(plain)) ** 2
    assert noise * more <= np.trace(np.linalg.inv(plain.T @ plain)) / len(row)
    assert (slice_directions.__wrapped__(d) == directions).all()


@given(data=st.data())
@settings(max_examples=examples(50))
def test_a_replaced_record_moves_two_slices_of_each_direction_at_most(data):
    bounds = np.array([[-2.0, 3.0], [0.0, 1e-3], [-1e9, 1e9]])
    slices = Slices(slice_directions(3), data.draw(st.integers(2, 7)))
    n = len(slices.directions)
    x, y = data.draw(replace_one_pairs(3, bounds=(-2.0, 3.0)))
    change = slice_counts(x, slices, bounds=bounds) - slice_counts(y, slices, bounds=bounds)
    assert np.abs(change).sum() <= histogram_loss(epsilon=1.0, neighbouring=REPLACE, n_histograms=n).n_counts == 2 * n
    assert (np.add.reduceat(change, slices.offsets[:-1]) == 0).all()
    assert (np.add.reduceat(np.abs(change), slices.offsets[:-1]) <= 2).all()
    x, y = data.draw(add_remove_pairs(3, bounds=(-2.0, 3.0)))
    change = slice_counts(x, slices, bounds=bounds) - slice_counts(y, slices, bounds=bounds)
    loss = histogram_loss(epsilon=1.0, neighbouring=ADD_REMOVE, n_histograms=n)
    assert np.abs(change).sum() == loss.n_counts == n
    assert (np.add.reduceat(np.abs(change), slices.offsets[:-1]) == 1).all()


@pytest.mark.parametrize("hostile", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0])
def test_hostile_records_count_once_in_each_direction(hostile):
    slices = Slices(slice_directions(4), 5)
    for bounds in (np.array([[0.0, 1.0]] * 4), np.array([[-1.7e308, 1.7e308]] * 4)):
        for column in range(4):
            rows = np.full((3, 4), 0.5)
            rows[1, column] = hostile
            counts = slice_counts(rows, slices, bounds=bounds)
            assert (np.add.reduceat(counts, slices.offsets[:-1]) == 3).all() and counts.min() >= 0


@pytest.mark.parametrize("d, n_cells", [(2, 2), (3, 2), (3, 24), (5, 7)])
def test_the_sensitivity_is_attained_by_records_in_the_box_and_by_no_more(d, n_cells):
    """Random pairs and corners: the largest change is twice the number of directions, exactly."""
    slices, bounds = Slices(slice_directions(d), n_cells), np.array([[0.0, 1.0]] * d)
    rng = np.random.default_rng(d)
    ends = np.vstack([rng.random((50, d)), rng.integers(0, 2, (50, d)), rng.normal(size=(50, d))])
    alone = np.array([slice_counts(row[None], slices, bounds=bounds) for row in ends])
    change = np.abs(alone[:, None, :] - alone[None, :, :]).sum(axis=2)
    assert change.max() == 2 * len(slices.directions)


def test_the_slice_of_a_record_depends_on_no_other_record():
    """Bit for bit: alone, at any position, in any block. Records sit on edges, where one bit moves a count."""
    slices = Slices(slice_directions(5), 24)
    rng = np.random.default_rng(0)
    points = rng.integers(-12, 13, (3_000, 5)) * slices.directions[rng.integers(20, size=3_000)]
    together = slices.index(points)
    for rows in (slice(0, 1), slice(17, 24), slice(1001, 3000)):
        assert (slices.index(points[rows]) == together[rows]).all()
    order = rng.permutation(3_000)
    assert (slices.index(np.asfortranarray(points[order])) == together[order]).all()


def test_blocks_of_records_add_up():
    slices, bounds = Slices(slice_directions(2), 6), np.array([[0.0, 1.0]] * 2)
    records = np.random.default_rng(1).random((70_000, 2))  # more than a block
    parts = [slice_counts(part, slices, bounds=bounds) for part in np.array_split(records, 7)]
    assert (slice_counts(records, slices, bounds=bounds) == np.sum(parts, axis=0)).all()


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
        mixture, misfit = slice_fit.fit_slices(
            noisy, slices, np.array([[0.0, 1.0], [-5.0, 9.0]]), n_components, noise_scale=noise_scale, progress=quiet
        )
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
    mixture, misfit = slice_fit.fit_slices(
        again.raw["counts"].astype(np.int64), slices, again.raw["bounds"], 2, noise_scale=18.0, progress=quiet
    )
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
